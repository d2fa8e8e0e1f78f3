"""Published numbers that an experiment reproduces, from here or from beside its file, and how far ours are off."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.problem.fields import Model, ModelError
from themis_opt.reports.experiment import PUBLISHED, ExperimentHead
from themis_opt.reports.rendering.document import Column, Section, Table

PAPER = Path(__file__).with_suffix(".json")
"""All numbers and points of the paper, for every experiment that makes its figures again."""

Numbers = Mapping[str, float]  # a number for each policy, or for each workload
Curves = Mapping[str, Mapping[str, tuple[float, ...]]]  # by network and policy one number for each size
IDEAL = "ideal"  # stands in the place of a policy for collectives that use all bandwidth


COMPUTE_PARTS = ("fwd", "bwd")  # published parts of a bar that are compute, which is the same in all bars of a panel


class PublishedNetwork(Model):
    """NPUs, bandwidth of an NPU and latency of a step in each dimension."""

    sizes: tuple[int, ...]
    gigabits_per_second: tuple[float, ...]
    latency_ns: tuple[float, ...]


class Published(Model):
    """What the Themis paper (ISCA 2022) says; whatever is not given is not compared.

    Attributes
    ----------
    table_2 : mapping
        Networks by name.
    figure_4_utilisation, figure_5_units : mapping
        Utilisation, and time in reduce-scatters of a chunk on the first dimension, by policy.
    size_mib : tuple of float
        Sizes of the points of figures 8 and 11.
    figure_8_us, figure_11_utilisation : mapping
        Points by network and policy.
    figure_8_speedup, figure_8_most, figure_11_mean_utilisation : mapping
        Means and extremes over all networks and sizes, by policy.
    figure_10_networks, figure_10_utilisation : tuple of str, mapping
        Networks, and the mean of their utilisation by chunk count and policy.
    figure_12_parts : mapping
        By workload, network and policy the parts of an iteration, of which those of the baseline add up to 1.
    figure_12_speedup, figure_12_most, figure_12_ideal : mapping
        Mean and largest speed-up of Themis with SCF, and mean speed-up of the ideal, by workload.
    figure_12_less_exposed : mapping
        How many times less communication is exposed, by policy.
    """

    source: str = ""
    table_2: Mapping[str, PublishedNetwork] = Field(default_factory=dict)
    figure_4_utilisation: Numbers = Field(default_factory=dict)
    figure_5_units: Numbers = Field(default_factory=dict)
    size_mib: tuple[float, ...] = ()
    figure_8_us: Curves = Field(default_factory=dict)
    figure_8_speedup: Numbers = Field(default_factory=dict)
    figure_8_most: Numbers = Field(default_factory=dict)
    figure_10_networks: tuple[str, ...] = ()
    figure_10_utilisation: Mapping[int, Numbers] = Field(default_factory=dict)
    figure_11_utilisation: Curves = Field(default_factory=dict)
    figure_11_mean_utilisation: Numbers = Field(default_factory=dict)
    figure_12_parts: Mapping[str, Mapping[str, Mapping[str, Numbers]]] = Field(default_factory=dict)
    figure_12_speedup: Numbers = Field(default_factory=dict)
    figure_12_most: Numbers = Field(default_factory=dict)
    figure_12_ideal: Numbers = Field(default_factory=dict)
    figure_12_less_exposed: Numbers = Field(default_factory=dict)

    def by_size(self, curves: Curves) -> dict[tuple[str, str, int], float]:
        """The points of curves by network, policy and bytes."""
        return {
            (network, policy, round(size * 2**20)): value
            for network, policies in curves.items()
            for policy, values in policies.items()
            for size, value in zip(self.size_mib, values, strict=False)
        }

    def bar_totals(self) -> dict[tuple[str, str, str], float]:
        """Bars of figure 12 over that of the baseline, by workload, network and policy."""
        return {
            (workload, network, policy): sum(parts.values())
            for workload, networks in self.figure_12_parts.items()
            for network, policies in networks.items()
            for policy, parts in policies.items()
        }

    def bar_computes(self) -> dict[tuple[str, str], float]:
        """Compute of the first bar of every panel of figure 12, which is that of all, by workload and network."""
        return {
            (workload, network): sum(next(iter(policies.values())).get(name, 0.0) for name in COMPUTE_PARTS)
            for workload, networks in self.figure_12_parts.items()
            for network, policies in networks.items()
        }


def published(experiment: ExperimentHead) -> Published:
    """The published numbers beside an experiment, or those of the paper where none lie there.

    Raises
    ------
    InputError
        If a field is unknown or no number.
    """
    try:
        return Published.model_validate(experiment.published or read_json(PAPER))
    except ModelError as error:
        raise InputError(error.rule, field=f"{PUBLISHED}: {error.field}", value=error.value) from None


def looked_up(numbers: Mapping[Any, float], *keys: Iterable[Any]) -> list[float | None]:
    """The published number for every row of columns of keys; None where there is none."""
    rows = zip(*keys, strict=True) if len(keys) > 1 else keys[0]
    return [numbers.get(row) for row in rows]


@dataclass(frozen=True)
class Compared:
    """Numbers of ours over published ones, of one figure and one quantity."""

    figure: str
    what: str
    ratios: "pd.Series[float]"

    @property
    def mean_error(self) -> float:
        """Mean of the absolute errors, relative to the published numbers."""
        return float((self.ratios - 1).abs().mean())

    @property
    def largest_error(self) -> float:
        """The largest of the absolute errors."""
        return float((self.ratios - 1).abs().max())

    @property
    def bias(self) -> float:
        """Mean of ours over published, minus 1."""
        return float(self.ratios.mean() - 1)


@dataclass(frozen=True)
class PaperPart:
    """One table or figure of the paper: its section, how far it is off, and sentences for the summary."""

    section: Section
    compared: tuple[Compared, ...] = ()
    sentences: tuple[str, ...] = ()


Maker = Callable[[pd.DataFrame, pd.DataFrame, Published], PaperPart | None]
"""Makes a part of all results, all rows that went well and the published numbers; None where there is nothing."""


def compared(figure: str, what: str, pairs: Iterable[tuple[float | None, float | None]]) -> tuple[Compared, ...]:
    """The comparison of those pairs of which both numbers are known; none if there are no such pairs."""
    numbers = pd.DataFrame(pairs, columns=["ours", "theirs"], dtype=float)
    known = numbers[numbers["theirs"] != 0].dropna()
    return (Compared(figure, what, known["ours"] / known["theirs"]),) if len(known) else ()


def beside(published: float, form: Callable[[float], str] = "{:.2f}".format) -> str:
    """What follows a number of ours in a sentence; nothing where none was published."""
    return f" ({form(published)} published)" if published > 0 else ""


def error_table(comparisons: Iterable[Compared]) -> Table:
    """All comparisons, one in each row."""
    columns = (
        Column("figure"),
        Column("quantity"),
        Column("points", "count"),
        Column("mean absolute error", "percent"),
        Column("largest error", "percent"),
        Column("mean of ours / published − 1", "percent"),
    )
    rows = ((c.figure, c.what, len(c.ratios), c.mean_error, c.largest_error, c.bias) for c in comparisons)
    return Table(columns, tuple(rows))

"""Numbers of a paper that an experiment reproduces, as they lie beside the experiment file."""

from collections.abc import Mapping

from pydantic import Field, ValidationError

from themis_opt.errors import InputError
from themis_opt.instance import Model, located
from themis_opt.reports.experiment import PUBLISHED, Experiment

Numbers = Mapping[str, float]
"""A number for each policy, or for each workload."""

Curves = Mapping[str, Mapping[str, tuple[float, ...]]]
"""By network and policy one number for each size."""

IDEAL = "ideal"
"""Stands in the place of a policy for collectives that use all bandwidth."""


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

    def by_size(self, curves: Curves, network: str, policy: str) -> dict[int, float]:
        """The points of one curve, by bytes; none if they were not published."""
        values = curves.get(network, {}).get(policy, ())
        return {round(size * 2**20): value for size, value in zip(self.size_mib, values, strict=False)}


def published(experiment: Experiment) -> Published:
    """The published numbers beside an experiment.

    Raises
    ------
    InputError
        If a field is unknown or no number.
    """
    try:
        return Published.model_validate(experiment.published)
    except ValidationError as error:
        found = located(error)
        raise InputError(found.rule, field=f"{PUBLISHED}: {found.field}", value=found.value) from None

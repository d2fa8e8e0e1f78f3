"""What the sections on the tables and figures of a paper share: numbers beside published ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from themis_opt.reports.cells import percent, plural
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table
from themis_opt.reports.published import Published
from themis_opt.reports.results import Result, baseline_makespans, policy_head
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import speedup
from themis_opt.reports.statistics import geometric_mean

BEYOND = "hourglass"
"""The policy that the paper does not have."""


@dataclass(frozen=True)
class Compared:
    """Pairs of a number of ours and a published one, of one figure and one quantity."""

    figure: str
    what: str
    pairs: tuple[tuple[float, float], ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """Absolute error of every pair, relative to the published number."""
        return tuple(abs(ours / theirs - 1) for ours, theirs in self.pairs)

    @property
    def mean_error(self) -> float:
        """Mean of the absolute errors."""
        return sum(self.errors) / len(self.pairs)

    @property
    def bias(self) -> float:
        """Mean of ours over published, minus 1."""
        return sum(ours / theirs for ours, theirs in self.pairs) / len(self.pairs) - 1


@dataclass(frozen=True)
class Part:
    """One table or figure of the paper: its section, how far it is off, and sentences for the summary."""

    section: Section
    compared: tuple[Compared, ...] = ()
    said: tuple[str, ...] = ()


Maker = Callable[[Sequence[Result], Sequence[Row], Published], Part | None]
"""Makes a part of all results, all rows that went well and the published numbers; None where there is nothing."""


def compared(figure: str, what: str, pairs: Iterable[tuple[float | None, float | None]]) -> tuple[Compared, ...]:
    """The comparison of those pairs of which both numbers are known; none if there are no such pairs."""
    known = tuple((ours, theirs) for ours, theirs in pairs if ours is not None and theirs)
    return (Compared(figure, what, known),) if known else ()


def error_sentence(found: Compared) -> str:
    """How far one quantity is off."""
    points = plural(len(found.pairs), "published point")
    return (
        f"{found.figure}, {found.what}: {percent(found.mean_error)} mean absolute error over {points}, "
        f"{percent(max(found.errors))} at most."
    )


def error_table(found: Iterable[Compared]) -> Table:
    """All comparisons, one in each row."""
    columns = (
        Column("figure"),
        Column("quantity"),
        Column("points", "count"),
        Column("mean absolute error", "percent"),
        Column("largest error", "percent"),
        Column("mean of ours / published − 1", "percent"),
    )
    rows = ((c.figure, c.what, len(c.pairs), c.mean_error, max(c.errors), c.bias) for c in found)
    return Table(columns, tuple(rows))


def of_block(found: Iterable[Result], block: str) -> list[Result]:
    """The results of one block of the experiment."""
    return [result for result in found if result.row.block == block]


def speedups(found: Sequence[Result]) -> dict[str, list[float]]:
    """By policy how many times faster than the fixed order its runs are; without the fixed order itself."""
    baseline = baseline_makespans(found)
    ratios: dict[str, list[float]] = {}
    for run in found:
        ratio = speedup(run, baseline)
        if ratio is not None and policy_head(run.policy) != "baseline":
            ratios.setdefault(run.policy, []).append(ratio)
    return ratios


def mean_speedups(found: Sequence[Result]) -> Mapping[str, float]:
    """Geometric mean of the speed-ups of every policy."""
    return {policy: mean for policy, ratios in speedups(found).items() if (mean := geometric_mean(ratios)) is not None}


def published_series(policy: str, points: Mapping[int, float]) -> tuple[Series, ...]:
    """Published points of a policy as a line to compare with."""
    return (Series(f"{policy}, published", tuple(points), tuple(points.values()), guide=True),) if points else ()


def size_figure(name: str, title: str, what: Axis, series: Sequence[Series], caption: str) -> Figure:
    """Curves over the size of the collective."""
    return Figure(name, title, "line", Axis("size", format="size"), what, tuple(series), caption)

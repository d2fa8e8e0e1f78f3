"""Seconds of simulation, policies and solver as instances grow."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from themis_opt.errors import InputError
from themis_opt.reports.cells import plural, seconds
from themis_opt.reports.document import Axis, Column, Figure, Report, Section, Series, Table, Value
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.results import SEARCHES, grouped, policy_head, results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import failures, warnings
from themis_opt.reports.statistics import power_law

SIMULATION = "simulation"
GUIDE = "n log n, n stages"

ALL_REDUCE = "all_reduce"


@dataclass(frozen=True)
class Growth:
    """Something that grows: its name, and how to read it from a row."""

    name: str
    of: Callable[[Row], float]


def num_stages(row: Row) -> float:
    """Stages of the instance: as recorded, else one visit per chunk, dimension and phase."""
    recorded = row.extra.get("stages")
    if isinstance(recorded, int | float) and recorded > 0:
        return float(recorded)
    return (2.0 if row.kind == ALL_REDUCE else 1.0) * row.dimensions * row.chunks


AXES: Mapping[str, Growth] = MappingProxyType(
    {
        "stages": Growth("stages", num_stages),
        "chunks": Growth("chunks", lambda row: row.chunks),
        "dimensions": Growth("dimensions", lambda row: row.dimensions),
        "npus": Growth("NPUs", lambda row: row.npus),
    }
)
"""What may grow.  If a block of the experiment has the name of an axis, the axis shows that block alone."""


@dataclass(frozen=True)
class Curve:
    """Places along an axis, rising, with the medians of stages and of seconds there."""

    x: tuple[float, ...]
    stages: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def work(self) -> tuple[float, ...]:
        """N log n at every place, n stages."""
        return tuple(stages * math.log(max(stages, 2)) for stages in self.stages)


def scaling(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Show how seconds grow with stages, chunks, dimensions and NPUs.

    Raises
    ------
    InputError
        If no row has seconds.
    """
    done = [result.row for result in results(rows)]
    if not any(row.seconds for row in done):
        raise InputError("no run has seconds", field="column seconds")
    sections = tuple(section for name, growth in AXES.items() for section in _section(name, growth, done))
    return Report(experiment.title, tuple(_summary(rows, done)), (*sections, *failures(rows)))


def _summary(rows: Sequence[Row], done: Sequence[Row]) -> list[str]:
    said = [f"{plural(len(done), 'run')}, of {count_range(done)} stages."]
    for what, curve in curves(done, num_stages).items():
        exponent = _exponent(curve)
        if exponent is None:
            continue
        first, last = (f"{seconds(curve.seconds[at])} at {curve.x[at]:.0f}" for at in (0, -1))
        said.append(f"{what}: {first} stages, {last}; in the end time grows as stages to the power of {exponent:.2f}.")
    return said + warnings(rows, results(rows))


def _exponent(curve: Curve) -> float | None:
    """The power that fits the larger half of a curve, where fixed costs weigh less."""
    half = len(curve.x) // 2 if len(curve.x) > 3 else 0
    return power_law(curve.x[half:], curve.seconds[half:])


def count_range(rows: Sequence[Row]) -> str:
    """The least and the largest number of stages."""
    stages = [num_stages(row) for row in rows]
    return f"{min(stages):.0f} to {max(stages):.0f}"


def curves(rows: Sequence[Row], of: Callable[[Row], float]) -> dict[str, Curve]:
    """Median seconds of the simulation, and of every policy without it, over what `of` reads from a row.

    Searches keep the simulations inside, which are part of them.
    """
    measured = {SIMULATION: _curve(rows, of, lambda row: row.simulate_seconds)}
    for policy, runs in grouped(rows, lambda row: row.policy).items():
        measured[policy] = _curve(runs, of, _policy_seconds)
    return {what: curve for what, curve in measured.items() if curve.x}


def _policy_seconds(row: Row) -> float | None:
    if row.seconds is None or policy_head(row.policy) in SEARCHES:
        return row.seconds
    return row.seconds - (row.simulate_seconds or 0)


def _curve(rows: Sequence[Row], of: Callable[[Row], float], taken: Callable[[Row], float | None]) -> Curve:
    timed = [(row, time) for row in rows if (time := taken(row)) is not None and time > 0]
    groups = sorted(grouped(timed, lambda pair: of(pair[0])).items())
    return Curve(
        tuple(place for place, _ in groups),
        tuple(median(num_stages(row) for row, _ in runs) for _, runs in groups),
        tuple(median(time for _, time in runs) for _, runs in groups),
    )


def _section(name: str, growth: Growth, done: Sequence[Row]) -> tuple[Section, ...]:
    """A section on one axis, unless nothing grows along it."""
    rows = [row for row in done if row.block == name] or list(done)
    found = {what: curve for what, curve in curves(rows, growth.of).items() if len(curve.x) > 1}
    if not found:
        return ()
    series = [Series(what, curve.x, curve.seconds) for what, curve in found.items()]
    figure = Figure(
        f"seconds-by-{name}",
        f"Seconds by {growth.name}",
        "line",
        Axis(growth.name, log=True, format="count"),
        Axis("seconds (median)", log=True, format="seconds"),
        (*series, _guide(next(iter(found.values())))),
        "Searches end at their time limit at the latest." if any(policy_head(w) in SEARCHES for w in found) else "",
    )
    return (Section(f"By {growth.name}", _text(rows, name), (_table(found, growth),), (figure,)),)


def _text(rows: Sequence[Row], name: str) -> tuple[str, ...]:
    if all(row.block == name for row in rows):
        return (f"The runs of the block '{name}'; where it has several instances, medians over them.",)
    return ("Medians over all runs; other properties of the instances vary too.",)


def _guide(curve: Curve) -> Series:
    """The guide n log n through the last point of a curve."""
    scale = curve.seconds[-1] / curve.work[-1]
    return Series(GUIDE, curve.x, tuple(float(f"{scale * work:.6g}") for work in curve.work), guide=True)


def _table(found: Mapping[str, Curve], growth: Growth) -> Table:
    names = ("", f"least {growth.name}", "seconds", f"most {growth.name}", "seconds", "exponent", "growth / (n log n)")
    forms = ("text", "count", "seconds", "count", "seconds", "number", "number")
    columns = tuple(Column(name, form) for name, form in zip(names, forms, strict=True))
    return Table(columns, tuple(_table_row(what, curve) for what, curve in found.items()), _FITTED)


_FITTED = (
    "The exponent is that of the power that fits the larger half best; the last column says how many times more than "
    "n log n, n stages, time grows from the first to the last."
)


def _table_row(what: str, curve: Curve) -> tuple[Value, ...]:
    (start, *_, end), (little, *_, much) = curve.seconds, curve.work
    ends = (curve.x[0], start, curve.x[-1], end)
    return (what, *ends, _exponent(curve), (end / start) / (much / little))

"""The networks of the Themis paper, and its two single schedules: table 2 and figures 4 and 5."""

from collections.abc import Sequence
from math import prod

from themis_opt.catalog import load, shipped
from themis_opt.instance import Network
from themis_opt.reports.cells import duration, percent
from themis_opt.reports.document import Column, Section, Table, Value
from themis_opt.reports.paper_parts import Part, compared, of_block
from themis_opt.reports.published import Published, PublishedNetwork
from themis_opt.reports.results import Result
from themis_opt.reports.rows import Row

COUNTED = 2**30 / 8
"""Bytes per second of a published Gb/s: the simulator behind the figures counts in GiB/s."""

UNITS = "baseline+fifo"
"""The policy whose published time of figure 5 says how long a unit is."""


def networks(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Table 2, beside the networks that the rows were made on."""
    names = [name for name in published.table_2 if any(row.network == name for row in rows)]
    if not names:
        return None
    ours = {name: _network(name, rows) for name in names}
    table = Table(
        (
            Column("network"),
            Column("size"),
            Column("NPUs", "count"),
            Column("Gb/s of an NPU, published"),
            Column("GiB/s, here"),
            Column("latency of a step, ns"),
        ),
        tuple(_network_row(name, published.table_2[name], ours[name]) for name in names),
    )
    pairs = [
        (dimension.bandwidth, published_rate * COUNTED)
        for name in names
        if (network := ours[name])
        for dimension, published_rate in zip(
            network.dimensions, published.table_2[name].gigabits_per_second, strict=False
        )
    ]
    text = (
        "A published bandwidth in Gb/s is divided by 8 and counted in GiB/s here, as the simulator behind the "
        "figures did; sizes are in MiB."
    )
    return Part(Section("Table 2: networks", (text,), (table,)), compared("Table 2", "bandwidth", pairs))


def _network(name: str, rows: Sequence[Row]) -> Network | None:
    """The network of that name, of the first shipped instance that a row was made with."""
    known = set(shipped())
    instances = (row.instance for row in rows if row.network == name and row.instance in known)
    instance = next(instances, None)
    return load(instance).network if instance else None


def _network_row(name: str, published: PublishedNetwork, ours: Network | None) -> tuple[Value, ...]:
    rates = ", ".join(f"{dimension.bandwidth / 2**30:g}" for dimension in ours.dimensions) if ours else None
    return (
        name,
        "x".join(str(size) for size in published.sizes),
        prod(published.sizes),
        ", ".join(f"{rate:g}" for rate in published.gigabits_per_second),
        rates,
        ", ".join(f"{latency:g}" for latency in published.latency_ns),
    )


def figure_4(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """The platform that the fixed order fills."""
    runs = of_block(found, "figure 4")
    if not runs:
        return None
    columns = (Column("policy"), Column("utilisation", "percent"), Column("published", "percent"))
    known = published.figure_4_utilisation
    cells = tuple((run.policy, run.row.utilisation, known.get(run.policy)) for run in runs)
    text = "On a current platform, one fast and one slow dimension, the fixed order leaves little to gain."
    off = compared("Fig. 4", "utilisation", [(ours, theirs) for _, ours, theirs in cells])
    said = [
        f"Fig. 4: {policy} uses {percent(ours)} of the bandwidth of the current platform, {percent(theirs)} published."
        for policy, ours, theirs in cells
        if ours is not None and theirs is not None
    ]
    return Part(Section("Fig. 4: a current platform", (text,), (Table(columns, cells),)), off, tuple(said))


def figure_5(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Four chunks on two dimensions, in units of the figure."""
    runs = of_block(found, "figure 5")
    unit = _unit(runs, published)
    if unit is None:
        return None
    known = published.figure_5_units
    columns = (
        Column("policy"),
        Column("units", "number"),
        Column("published", "number"),
        Column("time", "duration"),
        Column("gap to the best bound", "percent"),
    )
    cells = tuple((r.policy, r.makespan_ns / unit, known.get(r.policy), r.makespan_ns, r.gap) for r in runs)
    text = (
        f"A unit is the reduce-scatter of a chunk on the first dimension, {duration(unit)}: "
        f"{UNITS} takes {known[UNITS]:g} of them."
    )
    others = [run for run in runs if run.policy != UNITS]
    off = compared("Fig. 5", "units", [(run.makespan_ns / unit, known.get(run.policy)) for run in others])
    section = Section("Fig. 5: four chunks", (text,), (Table(columns, cells),))
    return Part(section, off, (_figure_5_sentence(runs, unit),))


def _unit(runs: Sequence[Result], published: Published) -> float | None:
    """Nanoseconds of a unit."""
    units = published.figure_5_units.get(UNITS)
    return next((run.makespan_ns / units for run in runs if units and run.policy == UNITS), None)


def _figure_5_sentence(runs: Sequence[Result], unit: float) -> str:
    times = ", ".join(f"{run.policy} {run.makespan_ns / unit:.4g}" for run in runs)
    best = min(runs, key=lambda run: run.makespan_ns)
    proof = "proven optimal for equal chunks" if best.is_optimal else "not proven optimal"
    return f"Fig. 5, in units: {times}. The best, {best.makespan_ns / unit:.4g}, is {proof}."

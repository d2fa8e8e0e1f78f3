"""How many chunks are best, with ideal and with real costs: figure 10 of the Themis paper taken further."""

from collections.abc import Callable, Sequence
from statistics import median

from themis_opt.errors import InputError
from themis_opt.reports.cells import cell, plural
from themis_opt.reports.chunk_choices import (
    USUAL_CHUNKS,
    USUAL_POLICY,
    Choice,
    choices,
    choices_by_policy,
    mean_gain,
    usual_gain,
)
from themis_opt.reports.document import Axis, Column, Figure, Report, Section, Series, Table, Value
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.results import Result, by_policy, grouped, results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import MOST_ROWS, failures, warnings
from themis_opt.reports.statistics import geometric_mean
from themis_opt.units import format_size


def chunk_tuning(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Find the best number of chunks of every policy, network and size, in each block of the experiment.

    Raises
    ------
    InputError
        If no run went well.
    """
    found = results(rows)
    if not found:
        raise InputError("no run has a makespan", field="column makespan_ns")
    blocks = _blocks(found)
    summary = [sentence for block, runs in blocks.items() for sentence in _said(block, runs)]
    sections = [
        section for number, (block, runs) in enumerate(blocks.items(), 1) for section in _sections(number, block, runs)
    ]
    return Report(experiment.title, (*summary, *warnings(rows, found)), (*sections, *failures(rows)))


def _blocks(found: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by block, and by costs where a block has several."""
    parts: dict[str, list[Result]] = {}
    for block, runs in grouped(found, lambda run: run.row.block).items():
        cases = grouped(runs, lambda run: _costs([run]))
        parts |= {f"{block}, {costs}" if len(cases) > 1 else block: own for costs, own in cases.items()}
    return parts


def _title(block: str) -> str:
    return block[:1].upper() + block[1:] if block else "All runs"


def _said(block: str, runs: Sequence[Result]) -> list[str]:
    said = []
    for policy, own in choices_by_policy(choices(runs)).items():
        gain = mean_gain(own)
        interior = sum(choice.is_interior for choice in own)
        faster = f"{gain:.3f} times as fast as {USUAL_CHUNKS} equal chunks with {USUAL_POLICY}; " if gain else ""
        best = median(choice.best.row.chunks for choice in own)
        said.append(
            f"{_title(block)}, {policy} with its best number of chunks: {faster}best at "
            f"{best:g} {'chunk' if best == 1 else 'chunks'} (median of {plural(len(own), 'case')}), "
            f"{plural(interior, 'case')} with an optimum inside the range."
        )
    return said


def _sections(number: int, block: str, runs: Sequence[Result]) -> tuple[Section, ...]:
    found = choices(runs)
    text = (
        f"Costs: {_costs(runs)}. Gain: how many times faster than {USUAL_CHUNKS} equal chunks with {USUAL_POLICY}, as "
        "a geometric mean over networks and sizes. Within 1 %: the fewest chunks that are at most 1 % slower "
        "than the best number. Bytes of a chunk: size over the number of chunks asked for, of which free sizes may use "
        "fewer.",
    )
    tables = (_policy_table(found), _size_table(found))
    heading = _title(block)
    curves = Section(heading, text, tables, tuple(_figures(number, heading, runs)))
    return (curves, _cases(heading, found))


def _costs(runs: Sequence[Result]) -> str:
    """Launch overheads, packets and the reading of latency."""
    rows = [run.row for run in runs]
    overheads = sorted({float(row.launch_overhead_ns) for row in rows if row.launch_overhead_ns})
    parts = {
        "launch overhead": [cell(value, "duration") for value in overheads],
        "packets": sorted({row.packet for row in rows if row.packet}),
        "latency": sorted({row.latency for row in rows if row.latency}),
        "all-gather": sorted({row.ag_order for row in rows if row.ag_order} - {"free"}),
    }
    return ", ".join(f"{name} {' and '.join(values)}" for name, values in parts.items() if values) or "not recorded"


def _policy_table(found: Sequence[Choice]) -> Table:
    columns = (
        Column("policy"),
        Column("cases", "count"),
        Column("gain", "factor"),
        Column("largest gain", "factor"),
        Column("gain with the usual number", "factor"),
        Column("median best chunks", "number"),
        Column("median within 1 %", "number"),
    )
    rows = tuple(
        (
            policy,
            len(own),
            mean_gain(own),
            max((choice.gain for choice in own if choice.gain is not None), default=None),
            usual_gain(own),
            median(choice.best.row.chunks for choice in own),
            median(choice.fewest.row.chunks for choice in own),
        )
        for policy, own in choices_by_policy(found).items()
    )
    return Table(columns, rows)


def _size_table(found: Sequence[Choice]) -> Table:
    """Chunks and bytes of a chunk at the best number, by size, as medians over networks."""
    columns = (
        Column("policy"),
        Column("size", "size"),
        Column("best chunks", "number"),
        Column("bytes of a chunk", "size"),
        Column("within 1 %", "number"),
        Column("gain", "factor"),
    )
    rows: list[tuple[Value, ...]] = []
    for policy, own in choices_by_policy(found).items():
        for size, part in sorted(grouped(own, lambda choice: choice.best.row.size_bytes).items()):
            chunks, share, fewest = (
                median(of(choice) for choice in part)
                for of in (_best_chunks, lambda c: c.bytes_per_chunk, lambda c: c.fewest.row.chunks)
            )
            rows.append((policy, size, chunks, share, fewest, mean_gain(part)))
    return Table(columns, tuple(rows), "Medians over networks.")


def _best_chunks(choice: Choice) -> float:
    return choice.best.row.chunks


def _figures(number: int, heading: str, runs: Sequence[Result]) -> list[Figure]:
    """One figure for each size."""
    sizes = sorted(grouped(runs, lambda run: run.row.size_bytes).items())
    return [_figure(f"chunks-{number}-{place}", heading, own) for place, (_, own) in enumerate(sizes, 1)]


def _figure(name: str, heading: str, runs: Sequence[Result]) -> Figure:
    best = _bests(runs)
    series = tuple(
        _curve(policy, part, lambda run: best[run.row.instance] / run.makespan_ns)
        for policy, part in by_policy(runs).items()
    )
    return Figure(
        name,
        f"{heading}, {format_size(runs[0].row.size_bytes)}: speed by number of chunks",
        "line",
        Axis("chunks", log=True, format="count"),
        Axis("speed relative to the best of all", format="percent"),
        series,
        "Geometric mean over networks of the least makespan of all policies and numbers over that of the run.",
    )


def _bests(runs: Sequence[Result]) -> dict[str, float]:
    groups = grouped(runs, lambda run: run.row.instance)
    return {instance: min(run.makespan_ns for run in own) for instance, own in groups.items()}


def _curve(policy: str, runs: Sequence[Result], of: Callable[[Result], float]) -> Series:
    groups = sorted(grouped(runs, lambda run: run.row.chunks).items())
    means = [(count, mean) for count, own in groups if (mean := geometric_mean([of(run) for run in own])) is not None]
    return Series(policy, tuple(count for count, _ in means), tuple(mean for _, mean in means))


def _cases(heading: str, found: Sequence[Choice]) -> Section:
    columns = (
        Column("network"),
        Column("size", "size"),
        Column("policy"),
        Column("best chunks", "number"),
        Column("bytes of a chunk", "size"),
        Column("within 1 %", "number"),
        Column("makespan", "duration"),
        Column("utilisation", "percent"),
        Column("gain", "factor"),
    )
    rows = tuple(
        (
            choice.best.row.network,
            choice.best.row.size_bytes,
            choice.best.policy,
            choice.best.row.chunks,
            choice.bytes_per_chunk,
            choice.fewest.row.chunks,
            choice.best.makespan_ns,
            choice.best.row.utilisation,
            choice.gain,
        )
        for choice in found[:MOST_ROWS]
    )
    more = (f"The first {MOST_ROWS} of {len(found)}.",) if len(found) > MOST_ROWS else ()
    return Section(f"{heading}: best number of chunks of every case", more, (Table(columns, rows),))

"""How many chunks are best, with ideal and with real costs: figure 10 of the Themis paper taken further."""

import pandas as pd

from drawing.grid import CHUNK_AXIS
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_size
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.charts import Axis, lines
from themis_opt.reports.rendering.document import Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import duration, table
from themis_opt.reports.results import geometric_mean, results
from themis_opt.reports.sections import MOST_LISTED_ROWS, failures, warnings

USUAL_POLICY, USUAL_CHUNKS = "themis+scf", 64  # what a choice of chunks is compared with: the setting of the paper
NEARLY = 1.01  # up to so many times the best makespan, fewer chunks are as good
SPEED = Axis("speed", "speed relative to the best of all", format="percent")


def chunk_tuning(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Find the best number of chunks of every policy, network and size, in each block of the experiment.

    Raises
    ------
    InputError
        If no run went well.
    """
    schedules = results(rows)
    if schedules.empty:
        raise InputError("no run has a makespan", field="column makespan_ns")
    summary: list[str] = []
    sections: list[Section] = []
    for number, (title, runs) in enumerate(_blocks(schedules).items(), 1):
        choices = _choices(runs)
        summary += _said(title, choices)
        sections += _sections(number, title, runs, choices)
    return Report(experiment.title, (*summary, *warnings(rows, schedules)), (*sections, *failures(rows)))


def _blocks(schedules: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Results by title of their block, and by costs where a block has several."""
    parts: dict[str, pd.DataFrame] = {}
    for block, runs in schedules.groupby("block", sort=False):
        cases = [(_costs_of(subset), subset) for _, subset in runs.groupby(COST_COLUMNS, sort=False, dropna=False)]
        title = f"{block[:1].upper()}{block[1:]}" if block else "All runs"
        parts |= {f"{title}, {costs}" if len(cases) > 1 else title: subset for costs, subset in cases}
    return parts


COST_COLUMNS = ["launch_overhead_ns", "packet", "latency", "ag_order"]  # columns of what a run costs


def _costs_of(runs: pd.DataFrame) -> str:
    """Launch overheads, packets and the reading of latency."""
    parts = {
        "launch overhead": [duration(value) for value in sorted(runs["launch_overhead_ns"].dropna().unique())],
        "packets": sorted(set(runs["packet"]) - {""}),
        "latency": sorted(set(runs["latency"]) - {""}),
        "all-gather": sorted(set(runs["ag_order"]) - {"", "free"}),
    }
    return ", ".join(f"{name} {' and '.join(values)}" for name, values in parts.items() if values) or "not recorded"


def _choices(runs: pd.DataFrame) -> pd.DataFrame:
    """The best number of chunks of each policy on each network and size, and what it gains.

    Columns besides those of the best run, of equal ones that with the fewest chunks:

    fewest
        Fewest chunks that are within 1 % of the best.
    bytes_per_chunk
        Mean size of the best run's chunks.
    gain, usual_gain
        How many times faster than the usual setting the best run is, and that with the usual number of chunks.
    """
    case, policy = ["instance", "size_bytes"], ["instance", "size_bytes", "label"]
    usual = runs[(runs["label"] == USUAL_POLICY) & (runs["chunks"] == USUAL_CHUNKS)].drop_duplicates(case)
    usual = usual[[*case, "makespan_ns"]].rename(columns={"makespan_ns": "usual_ns"})
    ordered = runs.sort_values("chunks", kind="stable").merge(usual, "left", case)
    groups = ordered.groupby(policy, observed=True)["makespan_ns"]
    best = groups.transform("min")
    ordered = ordered.assign(
        gain=ordered["usual_ns"] / ordered["makespan_ns"],
        bytes_per_chunk=ordered["size_bytes"] / ordered["chunks"],
    )
    near = ordered[ordered["makespan_ns"] <= NEARLY * best].groupby(policy, observed=True)["chunks"].first()
    at_usual = ordered[ordered["chunks"] == USUAL_CHUNKS].groupby(policy, observed=True)["gain"].first()
    chosen = ordered.loc[groups.idxmin()]
    return chosen.join(near.rename("fewest"), policy).join(at_usual.rename("usual_gain"), policy)


def _said(title: str, choices: pd.DataFrame) -> list[str]:
    """The gain of the best policy over the usual setting, and its best number of chunks."""
    policies = choices.groupby("label", observed=True)
    gains = policies["gain"].agg(geometric_mean)
    best = gains.idxmax() if gains.notna().any() else choices["label"].iloc[0]
    chunks, gain = policies["chunks"].median()[best], gains[best]
    faster = (
        f" it is {gain:.2f} times as fast as {USUAL_CHUNKS} equal chunks with {USUAL_POLICY}, and" if gain > 0 else ""
    )
    return [
        f"{title}: {best} gains most from its best number of chunks;{faster} the median of that number is {chunks:g}."
    ]


def _sections(number: int, title: str, runs: pd.DataFrame, choices: pd.DataFrame) -> tuple[Section, ...]:
    text = (
        f"Costs: {_costs_of(runs)}. Gain: how many times faster than {USUAL_CHUNKS} equal chunks with {USUAL_POLICY}, "
        "as a geometric mean over networks and sizes. Within 1 %: the fewest chunks that are at most 1 % slower "
        "than the best number. Bytes of a chunk: size over the number of chunks asked for, of which free sizes may use "
        "fewer.",
    )
    tables = (_policy_table(choices), _size_table(choices))
    figures = tuple(
        _figure(f"chunks-{number}-{place}", f"{title}, {format_size(size)}: speed by number of chunks", subset)
        for place, (size, subset) in enumerate(runs.groupby("size_bytes"), 1)
    )
    return (Section(title, text, tables, figures), _cases(title, choices))


def _policy_table(choices: pd.DataFrame) -> Table:
    columns = (
        Column("policy"),
        Column("cases", "count"),
        Column("gain", "factor"),
        Column("largest gain", "factor"),
        Column("gain with the usual number", "factor"),
        Column("median best chunks", "number"),
        Column("median within 1 %", "number"),
    )
    frame = choices.groupby("label", observed=True).agg(
        cases=("chunks", "size"),
        gain=("gain", geometric_mean),
        largest=("gain", "max"),
        usual=("usual_gain", geometric_mean),
        best=("chunks", "median"),
        fewest=("fewest", "median"),
    )
    return table(frame.reset_index(), columns)


def _size_table(choices: pd.DataFrame) -> Table:
    """Chunks and bytes of a chunk at the best number, by size, as medians over networks."""
    columns = (
        Column("policy"),
        Column("size", "size"),
        Column("best chunks", "number"),
        Column("bytes of a chunk", "size"),
        Column("within 1 %", "number"),
        Column("gain", "factor"),
    )
    groups = choices.groupby(["label", "size_bytes"], observed=True)
    frame = groups[["chunks", "bytes_per_chunk", "fewest"]].median().assign(gain=groups["gain"].agg(geometric_mean))
    return table(frame.reset_index(), columns, "Medians over networks.")


def _figure(name: str, title: str, runs: pd.DataFrame) -> Figure:
    speed = runs.groupby("instance")["makespan_ns"].transform("min") / runs["makespan_ns"]
    means = runs.assign(speed=speed).groupby(["label", "chunks"], observed=True)["speed"].agg(geometric_mean)
    caption = "Geometric mean over networks of the least makespan of all policies and numbers over that of the run."
    return Figure(name, title, lines(means.reset_index(), CHUNK_AXIS, SPEED, "label"), caption)


def _cases(title: str, choices: pd.DataFrame) -> Section:
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
    shown = [
        "network",
        "size_bytes",
        "label",
        "chunks",
        "bytes_per_chunk",
        "fewest",
        "makespan_ns",
        "utilisation",
        "gain",
    ]
    more = (f"The first {MOST_LISTED_ROWS} of {len(choices)}.",) if len(choices) > MOST_LISTED_ROWS else ()
    cases = table(choices[shown].head(MOST_LISTED_ROWS), columns)
    return Section(f"{title}: best number of chunks of every case", more, (cases,))

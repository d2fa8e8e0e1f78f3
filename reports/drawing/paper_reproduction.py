"""The tables and figures of the Themis paper (ISCA 2022), made again and set beside the published numbers."""

from collections.abc import Collection, Mapping, Sequence
from math import prod

import pandas as pd
from pydantic import BaseModel, ValidationError

from drawing.paper_iterations import BEYOND, THEMIS, figure_12
from drawing.published import (
    Compared,
    Maker,
    Numbers,
    PaperPart,
    Published,
    PublishedNetwork,
    beside,
    compared,
    error_table,
    looked_up,
    published,
)
from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load, shipped
from themis_opt.problem.network import Network
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.charts import Axis, lines
from themis_opt.reports.rendering.document import CellValue, Column, Figure, Report, Section, Table
from themis_opt.reports.rendering.tables import duration, percent, plural, table
from themis_opt.reports.results import BASELINE, geometric_mean, results, speedups
from themis_opt.reports.sections import failures, warnings

COUNTED = 2**30 / 8  # bytes per second of a published Gb/s: the simulator behind the figures counts in GiB/s
UNITS = "baseline+fifo"  # the policy whose published time of figure 5 says how long a unit is
SIZE_BLOCK = "figures 8 and 11"  # the block of runs over sizes
Point = tuple[str, str, int]  # network, policy and bytes
MICROSECOND_NS = 1000.0  # nanoseconds
MAKESPAN_AXIS = Axis("makespan_ns", "time", format="duration")
UTILISATION_AXIS = Axis("utilisation", "utilisation", format="percent")


def paper_reproduction(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Set every table and figure beside what was published; blocks of the experiment are named after figures.

    Raises
    ------
    InputError
        If the published numbers, or what a run recorded, break a rule.
    """
    schedules, known = results(rows), published(experiment)
    done = rows[rows["status"] == "ok"]
    parts = [part for make in MAKERS if (part := make(schedules, done, known)) is not None]
    summary = [sentence for part in parts for sentence in part.sentences]
    summary = [*_error_sentence(parts), *summary] if parts else ["No figure of the paper is in the rows."]
    return Report(
        experiment.title,
        (*summary, *warnings(rows, schedules)),
        (_errors(parts, known), *(part.section for part in parts), *failures(rows)),
    )


def _error_sentence(parts: Sequence[PaperPart]) -> list[str]:
    """How far all that was published is off."""
    known = [comparison for part in parts for comparison in part.compared]
    if not known:
        return []
    ratios = pd.concat([comparison.ratios for comparison in known])
    worst = max(known, key=lambda comparison: comparison.mean_error)
    return [
        f"{plural(len(ratios), 'published number')} met within {percent((ratios - 1).abs().mean())} on average; "
        f"furthest off is {worst.figure}, {worst.what}, by {percent(worst.mean_error)}."
    ]


def _errors(parts: Sequence[PaperPart], published: Published) -> Section:
    text = (
        "Errors are relative to the published number. Rows of a figure are over all points that were published, as "
        f"numbers or as curves. {BEYOND} is not in the paper: its rows show what lies beyond.",
        *([f"Published: {published.source}."] if published.source else []),
    )
    return Section("Errors", text, (error_table(c for part in parts for c in part.compared),))


def networks(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Table 2, beside the networks that the rows were made on."""
    names = [name for name in published.table_2 if (rows["network"] == name).any()]
    if not names:
        return None
    ours = {name: _network(name, rows) for name in names}
    columns = (
        Column("network"),
        Column("size"),
        Column("NPUs", "count"),
        Column("Gb/s of an NPU, published"),
        Column("GiB/s, here"),
        Column("latency of a step, ns"),
    )
    cells = tuple(_network_row(name, published.table_2[name], ours[name]) for name in names)
    pairs = [
        (dimension.bandwidth, rate * COUNTED)
        for name in names
        if (network := ours[name])
        for dimension, rate in zip(network.dimensions, published.table_2[name].gigabits_per_second, strict=False)
    ]
    text = (
        "A published bandwidth in Gb/s is divided by 8 and counted in GiB/s here, as the simulator behind the "
        "figures did; sizes are in MiB."
    )
    return PaperPart(
        Section("Table 2: networks", (text,), (Table(columns, cells),)), compared("Table 2", "bandwidth", pairs)
    )


def _network(name: str, rows: pd.DataFrame) -> Network | None:
    """The network of that name, of the first shipped instance that a row was made with."""
    instances = rows["instance"][(rows["network"] == name) & rows["instance"].isin(set(shipped()))]
    return load(instances.iloc[0]).network if len(instances) else None


def _network_row(name: str, published: PublishedNetwork, ours: Network | None) -> tuple[CellValue, ...]:
    rates = ", ".join(f"{dimension.bandwidth / 2**30:g}" for dimension in ours.dimensions) if ours else None
    return (
        name,
        "x".join(str(size) for size in published.sizes),
        prod(published.sizes),
        ", ".join(f"{rate:g}" for rate in published.gigabits_per_second),
        rates,
        ", ".join(f"{latency:g}" for latency in published.latency_ns),
    )


def figure_4(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """The platform that the fixed order fills."""
    runs = schedules[schedules["block"] == "figure 4"]
    if runs.empty:
        return None
    cells = _beside(runs[["label", "utilisation"]], published.figure_4_utilisation)
    columns = (Column("policy"), Column("utilisation", "percent"), Column("published", "percent"))
    text = "On a current platform, one fast and one slow dimension, the fixed order leaves little to gain."
    off = compared("Fig. 4", "utilisation", zip(cells["utilisation"], cells["published"], strict=True))
    return PaperPart(Section("Fig. 4: a current platform", (text,), (table(cells, columns),)), off)


def _beside(frame: pd.DataFrame, numbers: Numbers) -> pd.DataFrame:
    """The frame with the published number of each policy."""
    return frame.assign(published=pd.Series(looked_up(numbers, frame["label"]), frame.index, dtype=float))


def figure_5(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Four chunks on two dimensions, in units of the figure."""
    runs = schedules[schedules["block"] == "figure 5"]
    usual = runs["makespan_ns"][runs["label"] == UNITS]
    if usual.empty or not published.figure_5_units.get(UNITS):
        return None
    unit = usual.iloc[0] / published.figure_5_units[UNITS]
    cells = _beside(runs.assign(units=runs["makespan_ns"] / unit), published.figure_5_units)
    columns = (
        Column("policy"),
        Column("units", "number"),
        Column("published", "number"),
        Column("time", "duration"),
        Column("gap to the best bound", "percent"),
    )
    text = (
        f"A unit is the reduce-scatter of a chunk on the first dimension, {duration(unit)}: "
        f"{UNITS} takes {published.figure_5_units[UNITS]:g} of them."
    )
    others = cells[cells["label"] != UNITS]
    off = compared("Fig. 5", "units", zip(others["units"], others["published"], strict=True))
    times = table(cells[["label", "units", "published", "makespan_ns", "gap"]], columns)
    return PaperPart(Section("Fig. 5: four chunks", (text,), (times,)), off, (_figure_5_sentence(cells),))


def _figure_5_sentence(cells: pd.DataFrame) -> str:
    best = cells.loc[cells["units"].idxmin()]
    proof = "proven optimal for equal chunks" if best["is_optimal"] else "not proven optimal"
    return f"Fig. 5: the best schedule, of {best['units']:.4g} units, is {proof}."


def figure_8(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Time over size."""
    runs = schedules[schedules["block"] == SIZE_BLOCK]
    if runs.empty:
        return None
    points = {key: MICROSECOND_NS * value for key, value in published.by_size(published.figure_8_us).items()}
    speed = _speedups(runs, published)
    off = _size_errors(runs, points, "Fig. 8", "time", MAKESPAN_AXIS)
    overall = compared("Fig. 8", "mean speed-up", zip(speed["mean"], speed["published"], strict=True))
    text = (
        "Speed-up is over the fixed order, as a geometric mean over all networks and sizes; the gap is to the best "
        f"proven bound. Points were published of {plural(len(published.figure_8_us), 'network')}.",
    )
    figures = _size_figures(runs, points, "figure-8", "Time", MAKESPAN_AXIS)
    section = Section("Fig. 8: time by size", text, (_speedup_table(speed),), figures)
    return PaperPart(section, (*off, *overall), (*_speedup_sentences(speed), *_coverage(runs, published)))


def _coverage(runs: pd.DataFrame, published: Published) -> list[str]:
    """A warning if published means are over more networks and sizes than were run."""
    ran = runs["fingerprint"].nunique()
    points = len(published.table_2) * len(published.size_mib)
    return [f"Figs. 8 and 11: published means are over {points} points, those here over {ran}."] if ran < points else []


def _speedups(runs: pd.DataFrame, published: Published) -> pd.DataFrame:
    """Mean and largest speed-up of each policy, each beside what was published, and its mean gap."""
    faster = runs.assign(speedup=speedups(runs))[runs["head"] != BASELINE].dropna(subset="speedup")
    groups = faster.groupby("label", observed=True, sort=False)
    means = _beside(groups["speedup"].agg(geometric_mean).reset_index(name="mean"), published.figure_8_speedup)
    most = _beside(groups["speedup"].max().reset_index(name="largest"), published.figure_8_most)
    gaps = groups["gap"].mean().reset_index(name="gap")
    return means.assign(largest=most["largest"], published_most=most["published"], gap=gaps["gap"])


def _speedup_table(speed: pd.DataFrame) -> Table:
    columns = (
        Column("policy"),
        Column("speed-up", "factor"),
        Column("published", "factor"),
        Column("largest", "factor"),
        Column("published", "factor"),
        Column("mean gap", "percent"),
    )
    return table(speed, columns)


def _speedup_sentences(speed: pd.DataFrame) -> list[str]:
    means, theirs = (speed.set_index("label")[name] for name in ("mean", "published"))
    shown = [
        f"{policy} {means[policy]:.2f} times{beside(theirs[policy])}" for policy in (THEMIS, BEYOND) if policy in means
    ]
    return [f"Fig. 8, as fast as the fixed order: {', '.join(shown)}."] if shown else []


def _size_figures(
    runs: pd.DataFrame, points: Mapping[Point, float], stem: str, title: str, y: Axis
) -> tuple[Figure, ...]:
    """One figure for each network, with the points that were published of it."""
    x = Axis("size_bytes", "size", format="size")
    figures = []
    for number, (network, subset) in enumerate(runs.dropna(subset=y.field).groupby("network", sort=False), 1):
        policies = set(subset["label"])
        theirs = [(f"{p}, published", size, v) for (n, p, size), v in points.items() if n == network and p in policies]
        guides = pd.DataFrame(theirs, columns=["label", x.field, y.field]) if theirs else None
        chart = lines(subset.sort_values("size_bytes"), x, y, "label", guides=guides)
        figures.append(
            Figure(f"{stem}-{number}", f"{title} on {network}", chart, "Dotted: the points that were published.")
        )
    return tuple(figures)


def _size_errors(
    runs: pd.DataFrame, points: Mapping[Point, float], figure: str, what: str, y: Axis
) -> tuple[Compared, ...]:
    """One comparison for each policy, over all networks."""
    off: tuple[Compared, ...] = ()
    for policy, subset in runs.groupby("label", observed=True, sort=False):
        theirs = looked_up(points, subset["network"], subset["label"], subset["size_bytes"])
        off += compared(figure, f"{what}, {policy}", zip(subset[y.field], theirs, strict=True))
    return off


def figure_9(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Activity of the dimensions over time."""
    runs = schedules[
        (schedules["block"] == "figure 9") & schedules["extra"].map(lambda extra: extra.get("activity") is not None)
    ]
    if runs.empty:
        return None
    activities = [_activity(run) for _, run in runs.iterrows()]
    held = pd.DataFrame([_held(activity) for activity in activities])
    cells = pd.concat([runs[["label", "makespan_ns"]].reset_index(drop=True), held], axis="columns")
    columns = (Column("policy"), Column("time", "duration"), *(Column(name, "percent") for name in held))
    figures = tuple(
        _timeline(f"figure-9-{number}", f"Activity with {run['label']} on {run['network']}", activity)
        for number, ((_, run), activity) in enumerate(zip(runs.iterrows(), activities, strict=True), 1)
    )
    text = "How much of the time each dimension is held; no numbers were published."
    return PaperPart(Section("Fig. 9: activity over time", (text,), (table(cells, columns),), figures))


class Activity(BaseModel):
    """Share of every window of `window_ns` nanoseconds for which each dimension is held."""

    window_ns: float
    dimensions: tuple[tuple[float, ...], ...]


def _activity(run: pd.Series) -> pd.DataFrame:
    """How much of every window each dimension is held, and its start and end; the last ends with the schedule."""
    recorded = run["extra"]["activity"]
    try:
        activity = Activity.model_validate(recorded)
    except ValidationError:
        rule = "activity must have window_ns, and in dimensions a list of shares for each dimension"
        raise InputError(rule, field="column extra", value=recorded) from None
    windows = [
        (f"dimension {number}", place * activity.window_ns, held)
        for number, shares in enumerate(activity.dimensions, 1)
        for place, held in enumerate(shares)
    ]
    frame = pd.DataFrame(windows, columns=["dimension", "start", "held"])
    return frame.assign(end=frame.groupby("dimension")["start"].shift(-1).fillna(run["makespan_ns"]))


def _held(activity: pd.DataFrame) -> "pd.Series[float]":
    """Share of the makespan for which each dimension is held."""
    time = activity["held"] * (activity["end"] - activity["start"])
    return time.groupby(activity["dimension"], sort=False).sum() / activity["end"].max()


def _timeline(name: str, title: str, activity: pd.DataFrame) -> Figure:
    x, y = Axis("start", "time", format="duration"), Axis("held", "held", format="percent")
    return Figure(name, title, lines(activity, x, y, "dimension", step=True))


def figure_10(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Utilisation over the number of chunks."""
    runs = schedules[(schedules["block"] == "figure 10") & schedules["utilisation"].notna()]
    if runs.empty:
        return None
    means = _means(runs, published.figure_10_networks)
    off: list[Compared] = []
    for count in sorted(runs["chunks"].unique()):
        theirs = published.figure_10_utilisation.get(count, {})
        pairs = [(means.get((policy, count)), value) for policy, value in theirs.items()]
        off += compared("Fig. 10", f"mean utilisation, {count} chunks", pairs)
    text = (
        "Means over the networks of the figure; the ends were published as numbers, and nothing here is fitted to them."
    )
    x = Axis("chunks", "chunks", log=True, format="count")
    figures = tuple(
        Figure(
            f"figure-10-{number}",
            f"Utilisation by chunks on {network}",
            lines(_means(subset).reset_index(), x, UTILISATION_AXIS, "label"),
        )
        for number, (network, subset) in enumerate(runs.groupby("network", sort=False), 1)
    )
    return PaperPart(
        Section("Fig. 10: utilisation by chunks", (text,), (_chunk_table(runs, means, published),), figures),
        tuple(off),
    )


def _means(runs: pd.DataFrame, networks: Collection[str] = ()) -> "pd.Series[float]":
    """Mean utilisation by policy and chunk count, where all of these networks ran."""
    groups = runs.groupby(["label", "chunks"], observed=True)
    is_complete = groups["network"].agg(lambda subset: set(subset).issuperset(networks))
    return groups["utilisation"].mean()[is_complete]


def _chunk_table(runs: pd.DataFrame, means: "pd.Series[float]", published: Published) -> Table:
    counts = sorted(runs["chunks"].unique())
    columns = (Column("policy"), *(Column(str(count), "percent") for count in counts))
    rows: list[tuple[CellValue, ...]] = []
    for policy in runs["label"].unique():
        rows.append((policy, *(means.get((policy, count)) for count in counts)))
        theirs = [published.figure_10_utilisation.get(count, {}).get(policy) for count in counts]
        if any(theirs):
            rows.append((f"{policy}, published", *theirs))
    return Table(columns, tuple(rows), "Mean utilisation by number of chunks.")


def figure_11(schedules: pd.DataFrame, rows: pd.DataFrame, published: Published) -> PaperPart | None:
    """Utilisation over size."""
    runs = schedules[schedules["block"] == SIZE_BLOCK]
    if not (runs["utilisation"] > 0).any():
        return None
    points = published.by_size(published.figure_11_utilisation)
    off = _size_errors(runs, points, "Fig. 11", "utilisation", UTILISATION_AXIS)
    means = runs.groupby("label", observed=True, sort=False)["utilisation"].mean().reset_index()
    means = _beside(means, published.figure_11_mean_utilisation)
    overall = compared("Fig. 11", "mean utilisation", zip(means["utilisation"], means["published"], strict=True))
    columns = (Column("policy"), Column("mean utilisation", "percent"), Column("published", "percent"))
    shown = ", ".join(
        f"{policy} {percent(mean)}{beside(known, percent)}"
        for policy, mean, known in means.dropna(subset="utilisation").itertuples(index=False)
        if policy in (THEMIS, BEYOND)
    )
    sentences = (f"Fig. 11, use of the bandwidth: {shown}.",) if shown else ()
    figures = _size_figures(runs, points, "figure-11", "Utilisation", UTILISATION_AXIS)
    text = "Means over all networks and sizes."
    section = Section("Fig. 11: utilisation by size", (text,), (table(means, columns),), figures)
    return PaperPart(section, (*off, *overall), sentences)


MAKERS: tuple[Maker, ...] = (networks, figure_4, figure_5, figure_8, figure_9, figure_10, figure_11, figure_12)
"""Makers of the parts, in the order of the paper."""

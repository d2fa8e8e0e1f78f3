"""Policies against proven bounds on few networks, from few chunks to many and from small messages to large ones."""

import math
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_size
from themis_opt.reports.rendering.charts import Axis, heatmap, lines
from themis_opt.reports.rendering.document import Column, Figure, Section, Table
from themis_opt.reports.rendering.tables import cell, percent, plural, table, tick
from themis_opt.reports.results import OPTIMAL, SEARCHES
from themis_opt.reports.sections import coverage, optimal_sentence, policy_tables

LARGE = 16 * 2**20  # bytes from which bandwidth, not latency, decides on the networks of the paper
SMALLEST_GAP = 1e-5  # gaps below are drawn here, because the axes are logarithmic
MOMENTS = 60  # moments at which the curves over time are known, in even steps of the logarithm of time
EARLIEST = 1e-3  # seconds: what happens before is drawn here
CHUNK_AXIS = Axis("chunks", "chunks", log=True, format="count")
SIZE_AXIS = Axis("size_bytes", "size", log=True, format="size")
GAP_AXIS = Axis("gap", "mean gap to the best bound", log=True, format="percent")

FLOOR = f"Gaps below {tick(SMALLEST_GAP, 'percent')} are drawn there."

STATISTICS = {"median": "Median", "mean": "Mean", "max": "Largest"}
"""What tables of gaps show: names for pandas and for readers."""

GapPath = list[tuple[float, float]]  # seconds, and the gap of the best schedule from then on
_POINTS = TypeAdapter[list[list[float | None]]](list[Annotated[list[float | None], Field(min_length=2)]])


def gap_tables(schedules: pd.DataFrame, by: str, form: str, name: str) -> tuple[Table, ...]:
    """One table per statistic of the gaps: policies down, values of the column `by` across."""
    columns = (Column("policy"), *(Column(cell(value, form), "percent") for value in sorted(schedules[by].unique())))
    return tuple(
        table(
            schedules.pivot_table("gap", "label", by, aggfunc=statistic, observed=True).reset_index(),
            columns,
            f"{title} gap by {name}.",
        )
        for statistic, title in STATISTICS.items()
    )


def grid_sections(schedules: pd.DataFrame) -> tuple[Section, ...]:
    """The gaps of all policies by chunk count and by size, and over the seconds of a search.

    Parameters
    ----------
    schedules : DataFrame
        Results that have a gap.

    Raises
    ------
    InputError
        If a trajectory is none.
    """
    return (
        _overall(schedules),
        _chunks(schedules),
        _sizes(schedules),
        *_both(schedules),
        _optimal(schedules),
        *_anytime(schedules),
    )


def grid_summary(schedules: pd.DataFrame) -> list[str]:
    """How many schedules there are, and how many of their instances are solved."""
    instances, networks = (schedules[column].nunique() for column in ("fingerprint", "network"))
    where = f"{plural(instances, 'instance')} of {plural(networks, 'network')}"
    return [f"{plural(len(schedules), 'schedule')} on {where}.", optimal_sentence(schedules)]


def _overall(schedules: pd.DataFrame) -> Section:
    text = (
        *coverage(schedules),
        "A gap is makespan over the best proven lower bound that holds for the chunk sizes of the run, minus 1; "
        "it is at least as large as the distance to the best possible schedule. Speed-up is over the fixed order, "
        f"as a geometric mean. {FLOOR}",
    )
    return Section("All policies", text, policy_tables(schedules))


def _chunks(schedules: pd.DataFrame) -> Section:
    is_large = schedules["size_bytes"] >= LARGE
    classes = (
        (schedules[~is_large], "small", f"messages below {format_size(LARGE)}"),
        (schedules[is_large], "large", f"messages of at least {format_size(LARGE)}"),
    )
    figures = tuple(
        Figure(f"gap-by-chunks-{stem}", f"Gap by chunk count, {what}", _curves(part, CHUNK_AXIS))
        for part, stem, what in classes
        if len(part)
    )
    tables = gap_tables(schedules, "chunks", "count", "chunk count, over all networks and sizes")
    return Section("By chunk count", coverage(schedules), tables, figures)


def _sizes(schedules: pd.DataFrame) -> Section:
    caption = f"Mean over networks and chunk counts. {FLOOR}"
    figure = Figure("gap-by-size", "Gap by size of the collective", _curves(schedules, SIZE_AXIS), caption)
    tables = gap_tables(schedules, "size_bytes", "size", "size, over all networks and chunk counts")
    return Section("By size", coverage(schedules), tables, (figure,))


def _curves(schedules: pd.DataFrame, x: Axis) -> Any:
    """Mean gap of each policy."""
    return lines(_drawn_means(schedules, ["label", x.field]), x, GAP_AXIS, "label")


def _drawn_means(schedules: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Mean gaps as they are drawn."""
    return schedules.groupby(keys, observed=True)["gap"].mean().clip(lower=SMALLEST_GAP).reset_index()


def _both(schedules: pd.DataFrame) -> tuple[Section, ...]:
    """Chunk count against size, for the policy with the smallest mean gap that answers at once."""
    means = schedules[~schedules["head"].isin(SEARCHES)].groupby("label", observed=True)["gap"].mean()
    if means.empty:
        return ()
    policy = means.idxmin()
    cells = _drawn_means(schedules[schedules["label"] == policy], ["size_bytes", "chunks"])
    chart = heatmap(cells, CHUNK_AXIS, SIZE_AXIS, GAP_AXIS)
    figure = Figure("gap-by-chunks-and-size", f"Mean gap of {policy}", chart, f"Mean over networks. {FLOOR}")
    text = f"Of the policies that do not search, {policy} has the smallest mean gap: {percent(means[policy])}."
    return (Section("By chunk count and size", (text,), (), (figure,)),)


def _optimal(schedules: pd.DataFrame) -> Section:
    counts = sorted(schedules["chunks"].unique())
    columns = (Column("policy"), Column("all", "percent"), *(Column(cell(n, "count"), "percent") for n in counts))
    shares = schedules.pivot_table("is_optimal", "label", "chunks", observed=True)
    shares.insert(0, "all", schedules.groupby("label", observed=True)["is_optimal"].mean())
    text = ("Share of runs within 0.01 % of a proven bound, by chunk count.", *_stopped_early(schedules))
    return Section("Proven optimal", text, (table(shares.reset_index(), columns),))


def _stopped_early(schedules: pd.DataFrame) -> tuple[str, ...]:
    """A sentence on searches that were not asked for so small a gap."""
    stopped = schedules[(schedules["gap"] > OPTIMAL) & (schedules["gap"] <= schedules["gap_asked"])]
    if stopped.empty:
        return ()
    return (
        f"{plural(len(stopped), 'search run')} ended on reaching the gap that was asked for, at most "
        f"{percent(stopped['gap_asked'].max())}, and might have proven more.",
    )


def _anytime(schedules: pd.DataFrame) -> tuple[Section, ...]:
    """How the gap of a search shrinks while it runs, over all its runs; nothing where no run recorded that."""
    paths = {policy: [t for t in map(_trajectory, runs["extra"], runs["best_bound_ns"]) if t]
             for policy, runs in schedules.groupby("label", observed=True)}  # fmt: skip
    paths = {policy: runs for policy, runs in paths.items() if runs}
    curves = [_anytime_curve(runs).assign(label=policy) for policy, runs in paths.items()]
    if not any(map(len, curves)):
        return ()
    frame = pd.concat(curves).astype({"label": schedules["label"].dtype})
    x = Axis("seconds", "seconds since the search started", log=True, format="seconds")
    y = Axis("gap", "gap to the best bound", log=True, format="percent")
    counted = ", ".join(f"{policy}: {len(runs)} runs" for policy, runs in paths.items())
    caption = (
        f"Median over all runs, and the range of the runs that have a schedule. {counted}. "
        "A curve starts when more than half of its runs have a schedule."
    )
    chart = lines(frame, x, y, "label", band=("low", "high"), step=True)
    return (Section("Over time", (), (), (Figure("anytime", "Gap of the search over time", chart, caption),)),)


def _trajectory(extra: dict[str, Any], bound_ns: float) -> GapPath:
    """When a run schedules its schedules, and their gaps to the best bound known now; empty if it did not say."""
    recorded = extra.get("trajectory") or []
    try:
        points = _POINTS.validate_python(recorded)
    except ValidationError:
        rule = "trajectory must be a list of [seconds, makespan_ns, bound_ns]"
        raise InputError(rule, field="column extra", value=recorded) from None
    return [
        (max(second, EARLIEST), makespan / bound_ns - 1)
        for second, makespan, *_ in points
        if second is not None and makespan is not None
    ]


def _anytime_curve(paths: list[GapPath]) -> pd.DataFrame:
    """Median, least and largest gap at moments at which more than half of the runs have a schedule."""
    seconds = [moment for path in paths for moment, _ in path]
    moments = np.geomspace(min(seconds), max(*seconds, min(seconds) * 1.001), MOMENTS)
    gaps = np.array([_gaps_at(path, moments) for path in paths])
    largest = np.where(np.isfinite(gaps), gaps, -math.inf).max(axis=0)
    curves = pd.DataFrame(
        {"seconds": moments, "gap": np.median(gaps, axis=0), "low": gaps.min(axis=0), "high": largest}
    )
    curves = curves[np.isfinite(curves["gap"])]
    return curves.assign(**curves[["gap", "low", "high"]].clip(lower=SMALLEST_GAP))


def _gaps_at(path: GapPath, moments: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """The gap at every moment, infinite before the first schedule."""
    ordered = sorted(path)
    best = np.minimum.accumulate([gap for _, gap in ordered])
    places = np.searchsorted([second for second, _ in ordered], moments * (1 + 1e-9), side="right")
    return [float(best[place - 1]) if place else math.inf for place in places]

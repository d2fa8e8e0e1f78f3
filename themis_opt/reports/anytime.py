"""How the gap of a search shrinks while it runs, over all its runs."""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from themis_opt.errors import InputError
from themis_opt.reports.document import Axis, Figure, Series
from themis_opt.reports.results import Result, by_policy

MOMENTS = 60
"""Moments at which the curves are known, in even steps of the logarithm of time."""

Trajectory = list[tuple[float, float]]
"""Seconds, and the gap of the best schedule from then on."""


_POINTS = TypeAdapter[list[list[float | None]]](list[Annotated[list[float | None], Field(min_length=2)]])


def anytime_figure(found: Sequence[Result], smallest_gap: float) -> Figure | None:
    """Median and range of the gap over seconds, for every policy whose runs recorded it; None if none did.

    Parameters
    ----------
    found : sequence of Result
        Runs, with ``trajectory`` in their extra columns or not.
    smallest_gap : float
        Gaps below are drawn here, because the axis is logarithmic.

    Raises
    ------
    InputError
        If a trajectory is none.
    """
    runs = {policy: [t for run in runs if (t := trajectory(run))] for policy, runs in by_policy(found).items()}
    series = [_series(policy, paths, smallest_gap) for policy, paths in runs.items() if paths]
    series = [part for part in series if part.x]
    if not series:
        return None
    return Figure(
        "anytime",
        "Gap of the search over time",
        "step",
        Axis("seconds since the search started", log=True, format="seconds"),
        Axis("gap to the best bound", log=True, format="percent"),
        tuple(series),
        f"Median over all runs, and the range of the runs that have a schedule. {_counted(runs)} "
        "A curve starts when more than half of its runs have a schedule.",
    )


def trajectory(run: Result) -> Trajectory:
    """When a run found its schedules, and their gaps to the best bound known now; empty if it did not say."""
    points = _points(run.row.extra.get("trajectory") or [])
    if run.bound_ns is None:
        return []
    return [(s, makespan / run.bound_ns - 1) for s, makespan, *_ in points if s is not None and makespan is not None]


def _points(value: object) -> list[list[float | None]]:
    try:
        return _POINTS.validate_python(value)
    except ValidationError:
        rule = "trajectory must be a list of [seconds, makespan_ns, bound_ns]"
        raise InputError(rule, field="column extra", value=value) from None


def _counted(runs: dict[str, list[Trajectory]]) -> str:
    return ", ".join(f"{policy}: {len(paths)} runs" for policy, paths in runs.items() if paths) + "."


def _series(policy: str, paths: Sequence[Trajectory], smallest_gap: float) -> Series:
    moments = _moments(paths)
    gaps = np.array([_gaps_at(path, moments) for path in paths])
    median = np.median(gaps, axis=0)
    known = np.isfinite(median)
    low, high = gaps.min(axis=0), np.where(np.isfinite(gaps), gaps, -math.inf).max(axis=0)
    curves = (np.maximum(curve[known], smallest_gap) for curve in (median, low, high))
    x = tuple(float(f"{moment:.4g}") for moment in moments[known].tolist())
    y, lowest, highest = (tuple(float(f"{gap:.6g}") for gap in curve.tolist()) for curve in curves)
    return Series(policy, x, y, lowest, highest)


def _moments(paths: Sequence[Trajectory]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    seconds = [max(moment, 1e-3) for path in paths for moment, _ in path]
    return np.geomspace(min(seconds), max(*seconds, min(seconds) * 1.001), MOMENTS)


def _gaps_at(path: Trajectory, moments: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """The gap at every moment, infinite before the first schedule."""
    ordered = sorted(path)
    best = np.minimum.accumulate([gap for _, gap in ordered])
    places = np.searchsorted([max(second, 1e-3) for second, _ in ordered], moments * (1 + 1e-9), side="right")
    return [float(best[place - 1]) if place else math.inf for place in places]

"""Solvers beside each other on one instance: what each attained and proved, and when; as tables and as a picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd

from themis_opt.base.units import format_percent
from themis_opt.reports.rendering.charts import Axis, lines, save
from themis_opt.schedules.schedule import Schedule

NANOSECOND, MICROSECOND = 1_000, 1_000_000  # in picoseconds
ANY_PATHS = "any"  # what the bound of a solver holds for that chooses the paths itself
COLUMNS = ("solver", "makespan (us)", "gap", "proven bound (us)", "for paths", "best after (s)", "ended (s)")

LOWEST, HIGHEST = 0.9, 1.4  # times shown, as multiples of the shortest makespan
FIRST_SECOND = 0.02  # where the logarithmic time axis begins


@dataclass(frozen=True)
class Point:
    """Best makespan and bound after some seconds, both in picoseconds; no schedule yet has makespan infinity."""

    seconds: float
    makespan: float
    bound: float


@dataclass(frozen=True)
class Run:
    """One solver on one instance.

    Attributes
    ----------
    schedule : Schedule or None
        Its best plan, simulated exactly; None without one.
    bound : float
        What it proves, in picoseconds; 0 if nothing.
    paths : str
        What the bound holds for: any paths, or whose paths.
    points : tuple of Point
        The trajectory in the rounded times of the solver.
    seconds : float
        When it ended.
    """

    solver: str
    schedule: Schedule | None
    bound: float
    paths: str
    points: tuple[Point, ...]
    seconds: float

    @property
    def makespan(self) -> float:
        """Makespan in picoseconds, infinity without a schedule."""
        return inf if self.schedule is None else self.schedule.makespan

    @property
    def best_after(self) -> float:
        """Seconds after which the makespan did not improve any more."""
        return next((p.seconds for p in self.points if p.makespan == self.points[-1].makespan), 0.0)


@dataclass
class Recorder:
    """The clock of one solver, and its trajectory, which it reports by calling this.

    Parameters
    ----------
    seconds : float
        What the solver may take, everything included.
    tick : int
        Picoseconds of the unit in which it reports.
    """

    seconds: float
    tick: int = 1
    begin: float = field(default_factory=monotonic)
    points: list[Point] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return monotonic() - self.begin

    @property
    def left(self) -> float:
        """Seconds left, and a little for a solver that cannot be given none."""
        return max(self.seconds - self.elapsed, 0.01)

    def __call__(self, makespan: float, bound: float) -> None:
        """Keep a makespan and a bound, if one of them is better."""
        last = self.points[-1] if self.points else Point(0.0, inf, 0.0)
        best = Point(self.elapsed, min(last.makespan, makespan * self.tick), max(last.bound, bound * self.tick))
        if (best.makespan, best.bound) != (last.makespan, last.bound):
            self.points.append(best)

    def run(self, solver: str, schedule: Schedule | None, bound: float, paths: str) -> Run:
        """The run that ends now."""
        return Run(solver, schedule, bound, paths, tuple(self.points), self.elapsed)


@dataclass(frozen=True)
class Contest:
    """All solvers on one instance, each for some seconds; `bounds` hold for all, in picoseconds by name."""

    instance: str
    chunks: int
    seconds: float
    bounds: dict[str, float]
    runs: tuple[Run, ...]

    @property
    def title(self) -> str:
        """The instance and the time in words."""
        return f"{self.instance}, {self.chunks} chunks, {self.seconds:g} s"

    @property
    def common_bounds(self) -> dict[str, float]:
        """All proven bounds that hold for every run."""
        return self.bounds | {run.solver: run.bound for run in self.runs if run.paths == ANY_PATHS and run.bound > 0}

    @property
    def bound(self) -> float:
        """The best bound that holds for every run."""
        return max(self.common_bounds.values())

    def gap(self, run: Run) -> float:
        """Makespan over the common bound, minus 1."""
        return run.makespan / self.bound - 1

    def _key(self, run: Run) -> dict[str, Any]:
        return {"instance": self.instance, "chunks": self.chunks, "limit_s": self.seconds, "solver": run.solver}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The runs as plain values; empty where there is no schedule or no proof."""
        for run in self.runs:
            has_plan, proves = run.schedule is not None, run.bound > 0
            yield {
                **self._key(run),
                "makespan_ns": run.makespan / NANOSECOND if has_plan else "",
                "common_bound_ns": self.bound / NANOSECOND,
                "gap": self.gap(run) if has_plan else "",
                "proven_bound_ns": run.bound / NANOSECOND if proves else "",
                "bound_holds_for_paths": run.paths if proves else "",
                "best_found_after_s": round(run.best_after, 3),
                "ended_after_s": round(run.seconds, 3),
            }

    def points(self) -> Iterator[dict[str, Any]]:
        """The trajectories as plain values."""
        for run in self.runs:
            for point in run.points:
                yield {
                    **self._key(run),
                    "after_s": round(point.seconds, 4),
                    "makespan_ns": point.makespan / NANOSECOND if point.makespan < inf else "",
                    "bound_ns": point.bound / NANOSECOND,
                }


def markdown(contest: Contest) -> str:
    """The table of one instance."""
    best = max(contest.common_bounds, key=contest.common_bounds.__getitem__)
    lines = [
        f"### {contest.title}",
        "",
        f"Best bound for all rows: {contest.bound / MICROSECOND:.3f} us ({best}).",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
    ]
    return "\n".join([*lines, *("| " + " | ".join(_cells(contest, run)) + " |" for run in contest.runs)]) + "\n"


def _cells(contest: Contest, run: Run) -> tuple[str, ...]:
    has_plan, proves = run.schedule is not None, run.bound > 0
    return (
        run.solver,
        f"{run.makespan / MICROSECOND:.3f}" if has_plan else "none",
        format_percent(contest.gap(run)) if has_plan else "",
        f"{run.bound / MICROSECOND:.3f}" if proves else "",
        run.paths if proves else "",
        f"{run.best_after:.1f}" if has_plan else "",
        f"{run.seconds:.1f}",
    )


def draw(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Makespans and bounds (dotted, of their paths) over time, a picture for each instance, from its trajectories."""
    points = pd.DataFrame(rows).replace("", float("nan"))
    points = points.astype(dict.fromkeys(("after_s", "makespan_ns", "bound_ns"), float))
    ends = points.groupby(["instance", "chunks", "solver"], sort=False).tail(1)
    points = pd.concat([points, ends.assign(after_s=ends["limit_s"].astype(float))])
    points["after_s"] = points["after_s"].clip(lower=FIRST_SECOND)
    files = []
    for number, ((name, chunks), contest) in enumerate(points.groupby(["instance", "chunks"], sort=False), start=1):
        shown = contest[contest["makespan_ns"] < HIGHEST * contest["makespan_ns"].min()]
        bounds = contest[contest["bound_ns"] > LOWEST * contest["makespan_ns"].min()]
        guides = bounds.assign(makespan_ns=bounds["bound_ns"], solver=bounds["solver"] + ", bound")
        time, makespan = Axis("after_s", "seconds", log=True), Axis("makespan_ns", "makespan", format="duration")
        files.append(folder / f"references-{number}.svg")
        save(lines(shown, time, makespan, "solver", guides=guides, step=True), files[-1], f"{name}, {chunks} chunks")
    return files

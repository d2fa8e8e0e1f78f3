"""Policies of training iterations side by side, against the best proven bound."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from time import monotonic
from typing import Any, Unpack

from formulations.budget import PROVEN_GAP
from themis_opt.comparison import MIN_SECONDS, Limits, Progress
from themis_opt.errors import InputError
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.bounds import iteration_bounds
from themis_opt.iterations.reference import IterationExact
from themis_opt.iterations.registry import BASELINE, COMPARED, REFERENCE, make_iteration_policy
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.iterations.validation import validate_iterations


@dataclass(frozen=True)
class IterationResult:
    """One policy's schedule, simulated and validated.

    `bound` is the best proven lower bound on the iteration time of all rows, in picoseconds; `speedup` the iteration
    time of the baseline over this one; `status` is ``optimal`` if the gap is within 1e-4, else ``feasible``.
    """

    policy: str
    schedule: IterationSchedule
    bound: float
    speedup: float
    status: str

    @property
    def iteration_time(self) -> int:
        """Iteration time in picoseconds."""
        return self.schedule.iteration_time

    @property
    def gap(self) -> float:
        """Iteration time over bound, minus 1."""
        return self.iteration_time / self.bound - 1

    @property
    def exposed_gap(self) -> float:
        """Exposed communication over the least that the bound leaves, minus 1; 0 where both are 0."""
        least = self.bound - self.schedule.instance.compute
        return self.schedule.exposed / least - 1 if least > 0 else float(self.schedule.exposed > 0)

    def row(self) -> dict[str, Any]:
        """The result as plain values: times in ns, fractions 0..1."""
        schedule = self.schedule
        return {
            "policy": self.policy,
            "iteration_ns": schedule.iteration_time / 1000,
            "compute_ns": schedule.instance.compute / 1000,
            "exposed_ns": schedule.exposed / 1000,
            "exposed_data_ns": schedule.exposed_by("data") / 1000,
            "exposed_model_ns": schedule.exposed_by("model") / 1000,
            "communicating_ns": schedule.communicating / 1000,
            "overlap": schedule.overlap,
            "utilisation": schedule.utilisation,
            "launches": len(schedule.plan.launches),
            "steady": schedule.is_steady,
            "speedup": self.speedup,
            "bound_ns": self.bound / 1000,
            "gap": self.gap,
            "exposed_gap": self.exposed_gap,
            "status": self.status,
        }


@dataclass(frozen=True)
class IterationComparison:
    """Results of several policies on one instance, in the order asked for; `bounds` are in picoseconds by name."""

    instance: IterationInstance
    results: tuple[IterationResult, ...]
    bounds: dict[str, float]
    interrupted: bool = False

    @property
    def best(self) -> IterationResult:
        """The result with the least iteration time."""
        return min(self.results, key=lambda result: result.iteration_time)


def compare_iterations(
    instance: IterationInstance,
    policies: Sequence[str] = COMPARED,
    *,
    progress: Progress | None = None,
    **limits: Unpack[Limits],
) -> IterationComparison:
    """Run policies by their specifications; the reference takes the time that is left.

    Parameters
    ----------
    progress : callable, optional
        Hears of every schedule and bound.
    **limits
        As in :class:`themis_opt.comparison.Limits`.

    Raises
    ------
    InputError
        If no policy is named, one twice, or one that is unknown.
    """
    if not policies or len(set(policies)) < len(policies):
        raise InputError("must name one or more policies, each once", field="policies", value=", ".join(policies))
    deadline = monotonic() + limits.get("time_limit", 60.0)
    made = {name: make_iteration_policy(name) for name in policies if name != REFERENCE}
    bounds = iteration_bounds(instance)
    schedules: dict[str, IterationSchedule] = {}
    interrupted = False
    try:
        for name, policy in made.items():
            schedules[name] = simulate_iterations(instance, policy(instance))
            _tell(progress, name, schedules[name], bounds)
        if REFERENCE in policies:
            limits["time_limit"] = max(deadline - monotonic(), MIN_SECONDS)
            schedules[REFERENCE], interrupted = _reference(instance, bounds, schedules, progress, limits)
    except KeyboardInterrupt:
        if not schedules:
            raise
        interrupted = True
    return _judged(instance, {name: schedules[name] for name in policies if name in schedules}, bounds, interrupted)


def _tell(progress: Progress | None, name: str, schedule: IterationSchedule, bounds: dict[str, float]) -> None:
    if progress is not None:
        progress(name, schedule.iteration_time, max(bounds.values()))


def _reference(
    instance: IterationInstance,
    bounds: dict[str, float],
    known: dict[str, IterationSchedule],
    progress: Progress | None,
    limits: Limits,
) -> tuple[IterationSchedule, bool]:
    """The reference schedule, which starts from the best one known, and whether Ctrl-C ended its search."""

    def report(iteration_time: float, bound: float) -> None:
        if progress is not None:
            progress(REFERENCE, iteration_time, bound)

    known_knobs = {field.name for field in fields(IterationExact)}
    knobs: dict[str, Any] = {name: value for name, value in limits.items() if name in known_knobs}
    policy = IterationExact(**knobs, seconds=limits["time_limit"])
    start = min(known.values(), key=lambda schedule: schedule.iteration_time, default=None)
    found = policy.solve(instance, max(bounds.values()), report, start)
    return found.schedule, found.status == "interrupted"


def _judged(
    instance: IterationInstance, schedules: dict[str, IterationSchedule], bounds: dict[str, float], interrupted: bool
) -> IterationComparison:
    """Validate every schedule and set it against the baseline and the best bound."""
    bound = max(bounds.values())
    baseline = schedules.get(BASELINE) or simulate_iterations(instance, make_iteration_policy(BASELINE)(instance))
    results = []
    for name, schedule in schedules.items():
        validate_iterations(schedule)
        status = "optimal" if schedule.iteration_time <= bound * (1 + PROVEN_GAP) else "feasible"
        speedup = baseline.iteration_time / schedule.iteration_time
        results.append(IterationResult(name, schedule, bound, speedup, status))
    return IterationComparison(instance, tuple(results), bounds, interrupted)

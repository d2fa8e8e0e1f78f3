"""One run of a batch on a training iteration, as the columns of a row: its makespan is the time of an iteration.

Bounds hold for all launches and chunk sizes.
"""

import json
from time import perf_counter
from typing import Any

from themis_opt.batches.measuring import BOUND, PICOSECONDS_PER_NANOSECOND, Columns, Limits, Trajectory, warm_up
from themis_opt.errors import InputError
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.registry import COMPARED, REFERENCE, make_iteration_policy
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.iterations.validation import validate_iterations


def iteration_limits(specification: str, limits: Limits) -> Limits:
    """The limits that a policy of iterations has, with its defaults, out of those asked for.

    Raises
    ------
    InputError
        If there is no such policy, or a knob is wrong.
    """
    if specification == REFERENCE:
        from themis_opt.iterations.reference import IterationExact

        given = {name: value for name, value in limits.knobs().items() if name != "sizes"}
        return limits.of(IterationExact(**given), "trajectory", sizes="free")
    if specification.startswith(f"{REFERENCE}:"):
        rule = f"takes no knobs here: its limits are those of the block, or name 'fused/{specification}'"
        raise InputError(rule, field="policy", value=specification)
    return limits.of(make_iteration_policy(specification, **limits.knobs()).chunk_policy)


def run_iteration(instance: IterationInstance, policy: str, limits: Limits) -> Columns:
    """Run a policy on a training iteration, simulate and validate.

    Parameters
    ----------
    policy : str
        A specification of :mod:`themis_opt.iterations.registry`, or ``bound`` for the lower bounds alone.
    limits : Limits
        What it may spend.

    Returns
    -------
    dict
        Result columns as of :func:`themis_opt.batches.measured_run.run_one`.

    Raises
    ------
    ThemisError
        If the policy refuses the instance, or its schedule breaks a rule.
    """
    if policy == BOUND:
        return _bounds(instance)
    return _reference(instance, limits) if policy == REFERENCE else _heuristic(instance, policy, limits)


def _bounds(instance: IterationInstance) -> Columns:
    from themis_opt.iterations.bounds import iteration_bounds

    began = perf_counter()
    found = {name: value / PICOSECONDS_PER_NANOSECOND for name, value in iteration_bounds(instance).items()}
    seconds, best = perf_counter() - began, max(found.values())
    extra = _facts(instance) | {"bounds_ns": found}
    return {"bound_ns": best, "bound_equal_ns": best, "seconds": seconds, "extra": json.dumps(extra)}


def _heuristic(instance: IterationInstance, specification: str, limits: Limits) -> Columns:
    policy = make_iteration_policy(specification, **limits.knobs())
    if limits.workers is None:  # else it searches, and minds the clock itself
        warm_up(f"iteration {specification}", lambda: simulate_iterations(instance, policy(instance)))
    began = perf_counter()
    plan = policy(instance)
    planned = perf_counter()
    schedule = simulate_iterations(instance, plan)
    ended = perf_counter()
    validate_iterations(schedule)
    return _judged(schedule, {}) | {"seconds": ended - began, "simulate_seconds": ended - planned}


def _reference(instance: IterationInstance, limits: Limits) -> Columns:
    """The reference, which starts from the best of the policies that are compared by default."""
    from themis_opt.iterations.comparison import compare_iterations

    limits = iteration_limits(REFERENCE, limits)
    trajectory = Trajectory()
    began = perf_counter()

    def report(policy: str, iteration_time: float, bound: float) -> None:
        trajectory.add(perf_counter() - began, iteration_time, bound)

    given: Any = limits.given() | {"time_limit": limits.time_limit}
    result = compare_iterations(instance, COMPARED, progress=report, **given).results[-1]
    seconds = perf_counter() - began
    trajectory.add(seconds, result.iteration_time, result.bound)
    extra = {"trajectory": trajectory} if "trajectory" in limits.record else {}
    bound = result.bound / PICOSECONDS_PER_NANOSECOND
    return _judged(result.schedule, extra) | {"bound_ns": bound, "seconds": seconds}


def _judged(schedule: IterationSchedule, extra: dict[str, Any]) -> Columns:
    """Columns of a valid schedule."""
    metrics = {
        "stages": schedule.plan.chunks.num_stages,
        "exposed_ns": schedule.exposed / PICOSECONDS_PER_NANOSECOND,
        "exposed_data_ns": schedule.exposed_by("data") / PICOSECONDS_PER_NANOSECOND,
        "exposed_model_ns": schedule.exposed_by("model") / PICOSECONDS_PER_NANOSECOND,
        "communicating_ns": schedule.communicating / PICOSECONDS_PER_NANOSECOND,
        "overlap": schedule.overlap,
        "launches": len(schedule.plan.launches),
        "steady": schedule.is_steady,
    }
    return {
        "makespan_ns": schedule.iteration_time / PICOSECONDS_PER_NANOSECOND,
        "utilisation": schedule.utilisation,
        "extra": json.dumps(_facts(schedule.instance) | metrics | extra),
    }


def _facts(instance: IterationInstance) -> dict[str, Any]:
    """What does not depend on the policy."""
    return {
        "compute_ns": instance.compute / PICOSECONDS_PER_NANOSECOND,
        "steps": instance.iteration.steps,
        "memory_bytes": instance.memory,
    }

"""One run of a batch: a policy or the bounds on one instance, as the columns of a row.

Plans in the user's cache are not used, so that rows can be made again.
"""

import json
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from themis_opt.batches.code_version import code_version
from themis_opt.batches.measured_iteration import iteration_limits, run_iteration
from themis_opt.batches.measuring import BOUND, PICOSECONDS_PER_NANOSECOND, Columns, Limits, Trajectory, warm_up
from themis_opt.cost import IntArray
from themis_opt.errors import ThemisError
from themis_opt.formats.activity import busy_intervals
from themis_opt.instance import Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.policies.registry import REFERENCE, make_policy, policy_name
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.validation import validate

STARTS = ("baseline+fifo", "themis+scf", "hourglass")
"""Heuristics from whose best schedule the reference starts."""

WINDOW = 100_000_000
"""Picoseconds of the windows in which the activity of dimensions is recorded: 100 us."""


class Task(NamedTuple):
    """What a worker is sent for one run."""

    instance: Instance | IterationInstance
    policy: str
    limits: Limits


def limits_of(kind: type[Instance | IterationInstance], specification: str, limits: Limits) -> Limits:
    """The limits that a policy has on a kind of instances, with its defaults, out of those asked for.

    Raises
    ------
    InputError
        If there is no such policy, or a knob is wrong.
    """
    if specification == BOUND:
        return Limits()
    if issubclass(kind, IterationInstance):
        return iteration_limits(specification, limits)
    recorded = ("activity", "trajectory") if policy_name(specification) == REFERENCE else ("activity",)
    return limits.of(make_policy(specification, **limits.knobs()), *recorded)


class OtherVersion(ThemisError):
    """A worker whose code is not that of the batch, so that its rows would be booked on the wrong version."""


def execute(tasks: Sequence[Task], version: str) -> list[Columns]:
    """Result columns of some runs, in order; what goes wrong in a run is told in its `status` and `error`.

    Parameters
    ----------
    version : str
        Version of the code of the batch.

    Raises
    ------
    OtherVersion
        If the code of this process has another one.
    """
    if version != code_version():
        raise OtherVersion(f"the worker {socket.gethostname()} runs code {code_version()}, the batch {version}")
    return [_guarded(task) for task in tasks]


def _guarded(task: Task) -> Columns:
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        found = {"status": "ok"} | run_one(*task)
    except Exception as error:  # whatever a run dies of, the others go on
        found = failure(f"{type(error).__name__}: {error}")
    return found | {"started": started, "host": socket.gethostname()}


def failure(reason: str) -> Columns:
    """Result columns of a run that failed."""
    return {"status": "failed", "error": " ".join(reason.split())}


def run_one(instance: Instance | IterationInstance, policy: str, limits: Limits) -> Columns:
    """Run a policy on an instance, simulate and validate.

    Parameters
    ----------
    policy : str
        A specification, or ``bound`` for the lower bounds alone.
    limits : Limits
        What it may spend.

    Returns
    -------
    dict
        Result columns: times in ns, `seconds` for policy and simulation, `extra` as a JSON text.

    Raises
    ------
    ThemisError
        If the policy refuses the instance, or its schedule breaks a rule.
    """
    if isinstance(instance, IterationInstance):
        return run_iteration(instance, policy, limits)
    if policy == BOUND:
        return _bounds(instance)
    if policy_name(policy) == REFERENCE:
        return _reference(instance, policy, limits)
    return _heuristic(instance, policy, limits)


def _bounds(instance: Instance) -> Columns:
    from themis_opt.lower_bounds import BOUNDS, bounds

    began = perf_counter()
    found = {name: value / PICOSECONDS_PER_NANOSECOND for name, value in bounds(instance).items()}
    any_sizes = [value for name, value in found.items() if not BOUNDS[name].equal_sizes_only]
    return {
        "bound_ns": max(any_sizes),
        "bound_equal_ns": max(found.values()),
        "seconds": perf_counter() - began,
        "extra": json.dumps({"bounds_ns": found}),
    }


def _heuristic(instance: Instance, specification: str, limits: Limits) -> Columns:
    policy = make_policy(specification, **limits.knobs())
    if limits.workers is None:  # else it searches, and minds the clock itself
        warm_up(policy_name(specification), lambda: simulate(instance, policy(instance)))
    began = perf_counter()
    plan = policy(instance)
    planned = perf_counter()
    schedule = simulate(instance, plan)
    ended = perf_counter()
    times = {"seconds": ended - began, "simulate_seconds": ended - planned}
    return _judged(schedule, limits, {}) | times


def _reference(instance: Instance, specification: str, limits: Limits) -> Columns:
    from themis_opt.comparison import compare

    limits = limits_of(Instance, specification, limits)
    trajectory = Trajectory()
    began = perf_counter()

    def report(policy: str, makespan: float, bound: float) -> None:
        if policy == specification:
            trajectory.add(perf_counter() - began, makespan, bound)

    given: Any = limits.given() | {"time_limit": limits.time_limit}
    comparison = compare(instance, (*STARTS, specification), progress=report, **given)
    result, seconds = comparison.results[-1], perf_counter() - began
    trajectory.add(seconds, result.makespan, result.bound)
    extra = {"trajectory": trajectory} if "trajectory" in limits.record else {}
    found = _judged(result.schedule, limits, extra)
    return found | {"bound_ns": result.bound / PICOSECONDS_PER_NANOSECOND, "seconds": seconds}


def _judged(schedule: Schedule, limits: Limits, extra: dict[str, Any]) -> Columns:
    """Columns of a valid schedule."""
    validate(schedule)
    extra = {"stages": schedule.plan.num_stages} | extra
    if "activity" in limits.record:
        extra["activity"] = activity(schedule)
    return {
        "makespan_ns": schedule.makespan / PICOSECONDS_PER_NANOSECOND,
        "utilisation": schedule.utilisation,
        "algbw_bytes_per_s": schedule.algorithm_bandwidth,
        "busbw_bytes_per_s": schedule.bus_bandwidth,
        "extra": json.dumps(extra),
    }


def activity(schedule: Schedule) -> dict[str, Any]:
    """Share of each window of :data:`WINDOW` for which each dimension is held.

    Returns
    -------
    dict
        `window_ns`, and in `dimensions` a list of shares, 0..1, for each dimension of the network; the last window
        ends with the schedule.
    """
    edges = np.append(np.arange(0, schedule.makespan, WINDOW), schedule.makespan)
    shares = []
    for dimension in range(len(schedule.instance.network.dimensions)):
        intervals = busy_intervals(schedule, dimension)
        held = np.interp(edges, intervals.ravel(), _held(intervals)) if len(intervals) else np.zeros(len(edges))
        shares.append((np.diff(held) / np.diff(edges)).round(4).tolist())
    return {"window_ns": WINDOW / PICOSECONDS_PER_NANOSECOND, "dimensions": shares}


def _held(intervals: IntArray) -> IntArray:
    """Picoseconds held until each start and end of the intervals, in order."""
    lengths = intervals[:, 1] - intervals[:, 0]
    until = lengths.cumsum()
    return np.stack([until - lengths, until], axis=1).ravel()

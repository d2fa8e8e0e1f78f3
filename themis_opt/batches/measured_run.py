"""One run of a batch: a policy or the bounds on one instance, as the columns of a row.

Plans in the user's cache are not used, so that rows can be made again.
"""

import hashlib
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import formulations
from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import ThemisError
from themis_opt.base.units import nanoseconds
from themis_opt.base.version import __version__
from themis_opt.formats.timeline import last_periods
from themis_opt.policies.planning import chunk_policy_of
from themis_opt.policies.registry import (
    REFERENCE,
    make_policy,
    policy_name,
    specify,
    split_specification,
    usual_policies,
)
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.study.columns import RESULT_COLUMNS, Column, schedule_row

RECORDED: Mapping[str, Column] = MappingProxyType(
    {
        column.name: column
        for column in RESULT_COLUMNS
        if not column.judged and not column.of_period and column.form != "shares"
    }
)
"""The columns of results that are numbers of rows; the others that need no comparison are told in `extra`."""

BOUND = "bound"
"""The name, in the place of a policy, of a run that computes the lower bounds."""

WINDOW = 100_000_000
"""Picoseconds of the windows in which the activity of dimensions is recorded: 100 us."""

UNCOUNTED = ("cli", "reports", "tuning")
"""Parts of the package that make no rows: they are no part of the version of the code that does."""

Columns = dict[str, Any]

_warm: set[str] = set()
"""What ran in this process."""


@dataclass(frozen=True)
class Limits:
    """What a run may spend and what it records.

    `time_limit` is in seconds; None stands for a knob that the policy does not have, or for its default.
    """

    time_limit: float | None = None
    workers: int | None = None
    seed: int | None = None
    gap: float | None = None
    sizes: str | None = None
    record: tuple[str, ...] = ()

    def given(self) -> dict[str, Any]:
        """The knobs that are set, but for the time."""
        knobs = {"workers": self.workers, "seed": self.seed, "gap": self.gap, "sizes": self.sizes}
        return {name: value for name, value in knobs.items() if value is not None}

    def knobs(self) -> dict[str, Any]:
        """The knobs that are set, by the names that policies have for them."""
        return ({} if self.time_limit is None else {"seconds": self.time_limit}) | self.given()

    def of(self, policy: object, *recorded: str) -> "Limits":
        """The limits that a policy, made with :meth:`knobs`, has: its own values, and nothing that it lacks.

        Parameters
        ----------
        policy : object
            With knobs as attributes.
        *recorded : str
            What its runs can record.
        """
        names = {"time_limit": "seconds", "workers": "workers", "seed": "seed", "gap": "gap"}
        own = {name: getattr(policy, knob, None) for name, knob in names.items()}
        kept = tuple(sorted(set(self.record) & set(recorded)))
        return Limits(**own, sizes=getattr(policy, "sizes", "equal"), record=kept)


class Task(NamedTuple):
    """What a worker is sent for one run."""

    instance: Instance
    policy: str
    limits: Limits


def limits_of(instance: Instance, specification: str, limits: Limits) -> Limits:
    """The limits that a policy has on instances like this one, with its defaults, out of those asked for.

    Raises
    ------
    InputError
        If there is no such policy, or a knob is wrong.
    """
    if specification == BOUND:
        return Limits()
    is_reference = _is_reference(instance, specification)
    if is_reference and has_launches(instance):
        limits = replace(limits, sizes="free")  # whatever is asked for
    policy = make_policy(specify(specification, instance), **limits.knobs())
    recorded = ("activity", "trajectory") if is_reference else ("activity",)
    return limits.of(chunk_policy_of(policy), *recorded)


def _is_reference(instance: Instance, specification: str) -> bool:
    launching, chunk = split_specification(specify(specification, instance))
    return not launching and policy_name(chunk) == REFERENCE


@cache
def code_version() -> str:
    """Version of the package and a digest of the source files that decide about results."""
    digest = hashlib.sha256()
    for root in (Path(__file__).parent.parent, *map(Path, formulations.__path__)):
        for file in sorted(root.rglob("*.py")):
            if file.relative_to(root).parts[0] not in UNCOUNTED:
                digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


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


def run_one(instance: Instance, policy: str, limits: Limits) -> Columns:
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
    if policy == BOUND:
        return _bounds(instance)
    if _is_reference(instance, policy):
        return _reference(instance, policy, limits)
    return _heuristic(instance, policy, limits)


def _bounds(instance: Instance) -> Columns:
    from themis_opt.solving.bounds import bounds, bounds_of

    began = perf_counter()
    values = {name: nanoseconds(value) for name, value in bounds(instance).items()}
    known = bounds_of(instance)
    return {
        "bound_ns": max(value for name, value in values.items() if not known[name].equal_sizes_only),
        "bound_equal_ns": max(values.values()),
        "seconds": perf_counter() - began,
        "extra": json.dumps(_facts(instance) | {"bounds_ns": values}),
    }


def _heuristic(instance: Instance, specification: str, limits: Limits) -> Columns:
    specification = specify(specification, instance)
    policy = make_policy(specification, **limits.knobs())
    if limits.workers is None:  # else it searches, and minds the clock itself
        warm_up(specification, lambda: simulate(instance, policy(instance)))
    began = perf_counter()
    plan = policy(instance)
    planned = perf_counter()
    schedule = simulate(instance, plan)
    ended = perf_counter()
    return _judge(schedule, limits, {}) | {"seconds": ended - began, "simulate_seconds": ended - planned}


def _reference(instance: Instance, specification: str, limits: Limits) -> Columns:
    """The reference, which starts from the best of the usual policies."""
    from themis_opt.study.comparison import compare

    limits = limits_of(instance, specification, limits)
    trajectory = Trajectory()
    began = perf_counter()

    def report(policy: str, makespan: float, bound: float) -> None:
        if policy == specification:
            trajectory.add(perf_counter() - began, makespan, bound)

    given: Any = limits.given() | {"time_limit": limits.time_limit}
    comparison = compare(instance, (*usual_policies(instance), specification), progress=report, **given)
    result, seconds = comparison.results[-1], perf_counter() - began
    trajectory.add(seconds, result.makespan, result.bound)
    extra = {"trajectory": trajectory} if "trajectory" in limits.record else {}
    return _judge(result.schedule, limits, extra) | {"bound_ns": nanoseconds(result.bound), "seconds": seconds}


def _judge(schedule: Schedule, limits: Limits, extra: Columns) -> Columns:
    """Columns of a valid schedule; `makespan_ns` is what is minimised."""
    validate(schedule)
    values = {"makespan_ns": nanoseconds(schedule.makespan)} | schedule_row(schedule)
    values.pop("iteration_ns", None)  # the makespan again
    metrics = {name: value for name, value in values.items() if name not in RECORDED}
    extra = _facts(schedule.instance) | {"stages": schedule.plan.num_stages} | metrics | extra
    if "activity" in limits.record:
        extra["activity"] = activity(schedule)
    return {name: values[name] for name in RECORDED if name in values} | {"extra": json.dumps(extra)}


def _facts(instance: Instance) -> Columns:
    """What `extra` tells of the compute of an instance, whatever the policy."""
    if not has_launches(instance):
        return {}
    return {"compute_ns": nanoseconds(instance.compute), "steps": instance.steps, "memory_bytes": instance.memory}


class Trajectory(list[tuple[float, float, float]]):
    """Seconds, best makespan and best bound in ns, whenever one of them became better."""

    def add(self, seconds: float, makespan: float, bound: float) -> None:
        """Add what is known by now, in seconds and picoseconds, where it is better than before."""
        makespan, bound = nanoseconds(makespan), nanoseconds(bound)
        if self:
            makespan, bound = min(makespan, self[-1][1]), max(bound, self[-1][2])
        if not self or (makespan, bound) != self[-1][1:]:
            self.append((round(seconds, 6), makespan, bound))


def warm_up(name: str, run: Callable[[], object]) -> None:
    """Run what has this name once before its time is taken, because the first run in a process loads compiled code."""
    if name not in _warm:
        _warm.add(name)
        run()


def activity(schedule: Schedule) -> dict[str, Any]:
    """Share of each window of :data:`WINDOW` for which each dimension is held; with compute, of the last iteration.

    Returns
    -------
    dict
        `window_ns`, and in `dimensions` a list of shares, 0..1, for each dimension of the network; the last window
        ends with the schedule.
    """
    shown, shares = last_periods(schedule, 1), []
    edges = np.append(np.arange(0, shown.length, WINDOW), shown.length)
    for dimension in range(len(schedule.instance.fabric.dimensions)):
        intervals = shown.busy_intervals(dimension)
        held = np.interp(edges, intervals.ravel(), _held(intervals)) if len(intervals) else np.zeros(len(edges))
        shares.append((np.diff(held) / np.diff(edges)).round(4).tolist())
    return {"window_ns": nanoseconds(WINDOW), "dimensions": shares}


def _held(intervals: IntArray) -> IntArray:
    """Picoseconds held until each start and end of the intervals, in order."""
    lengths = intervals[:, 1] - intervals[:, 0]
    until = lengths.cumsum()
    return np.stack([until - lengths, until], axis=1).ravel()

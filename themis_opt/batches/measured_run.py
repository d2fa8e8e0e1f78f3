"""One run of a batch: a policy or the bounds on one instance, as the columns of a row.

Plans in the user's cache are not used, so that rows can be made again.
"""

import hashlib
import json
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import formulations
from themis_opt.base.errors import InputError, ThemisError
from themis_opt.base.units import nanoseconds
from themis_opt.base.version import __version__
from themis_opt.batches.rows_file import BOUND
from themis_opt.families.door import family_of
from themis_opt.families.family import SEARCH_KNOBS, Problem
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
from themis_opt.study.columns import RESULT_COLUMNS, ResultColumn, schedule_row

RECORDED: Mapping[str, ResultColumn] = {
    column.name: column
    for column in RESULT_COLUMNS
    if not column.judged and not column.of_period and column.form != "shares"
}
"""The columns of results that are numbers of rows; the others that need no comparison are told in `extra`."""

WINDOW = 100_000_000  # picoseconds of the windows in which the activity of dimensions is recorded: 100 us
UNCOUNTED = ("cli", "reports", "tuning")
"""Parts of the package that make no rows: they are no part of the version of the code that does."""

Columns = dict[str, Any]

_warm: set[str] = set()  # what ran in this process


RUN_KNOBS = ("seconds", "workers", "seed", "gap", "sizes")
"""What a run may spend, and how it cuts chunks: knobs that policies have, or not."""

Knobs = Mapping[str, Any]  # values of RUN_KNOBS; what is missing the policy lacks, or leaves without limit


class RunTask(NamedTuple):
    """What a worker is sent for one run; `record` says what it records besides times."""

    instance: Problem
    policy: str
    knobs: Knobs
    record: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """Threads that it keeps busy."""
        return int(self.knobs.get("workers", 1))


def task_of(instance: Problem, specification: str, knobs: Knobs, record: tuple[str, ...] = ()) -> RunTask:
    """The run of a policy, with those of the knobs that it has, its values for others, and what it can record.

    Raises InputError if there is no such policy, or a knob is wrong.
    """
    if specification == BOUND:
        return RunTask(instance, specification, {})
    if not isinstance(instance, Instance):
        family = family_of(instance)
        if not family.has_policy(specification):
            raise InputError(f"is no policy of {family.name}", field="policies", value=specification)
        names = SEARCH_KNOBS if family.searches(specification) else ()
        return RunTask(instance, specification, {name: knobs[name] for name in names if name in knobs})
    is_reference = _is_reference(instance, specification)
    if is_reference and has_launches(instance):
        knobs = {**knobs, "sizes": "free"}  # whatever is asked for
    policy = chunk_policy_of(make_policy(specify(specification, instance), **knobs))
    values = {"sizes": "equal"} | {name: getattr(policy, name) for name in RUN_KNOBS if hasattr(policy, name)}
    can_record = ("activity", "trajectory") if is_reference else ("activity",)
    return RunTask(
        instance,
        specification,
        {name: value for name, value in values.items() if value is not None},
        tuple(sorted(set(record) & set(can_record))),
    )


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


def execute(task: RunTask, version: str) -> Columns:
    """Result columns of a run; what goes wrong in it is told in its `status` and `error`.

    Raises OtherVersion if the code of this process has another one than the batch.
    """
    if version != code_version():
        raise OtherVersion(f"the worker {socket.gethostname()} runs code {code_version()}, the batch {version}")
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        outcome = {"status": "ok"} | run_one(*task)
    except Exception as error:  # whatever a run dies of, the others go on
        outcome = failure(f"{type(error).__name__}: {error}")
    return outcome | {"started": started, "host": socket.gethostname()}


def failure(reason: str) -> Columns:
    """Result columns of a run that failed."""
    return {"status": "failed", "error": " ".join(reason.split())}


def run_one(instance: Problem, policy: str, knobs: Knobs, record: tuple[str, ...] = ()) -> Columns:
    """Run a policy on an instance, simulate and validate.

    Raises ThemisError if the policy refuses the instance, or its schedule breaks a rule.

    `policy`: a specification, or ``bound`` for the lower bounds alone.
    `knobs`: what it may spend, by the names of :data:`RUN_KNOBS`.
    `record`: which of ``activity`` and ``trajectory`` to tell in `extra`.
    Returns result columns: times in ns, `seconds` for policy and simulation, `extra` as a JSON text.
    """
    if not isinstance(instance, Instance):
        return _compared(instance, policy, knobs)
    if policy == BOUND:
        return _bounds(instance)
    if _is_reference(instance, policy):
        return _reference(instance, policy, knobs, record)
    return _heuristic(instance, policy, knobs, record)


def _compared(problem: Problem, policy: str, knobs: Knobs) -> Columns:
    """Columns of a policy, or of the bounds, as the comparison of the family has them."""
    family, began = family_of(problem), perf_counter()
    if policy == BOUND:
        values = {name: nanoseconds(value) for name, value in family.bounds(problem).items()}
        best, extra = max(values.values()), {"bounds_ns": values}
        return {"bound_ns": best, "seconds": perf_counter() - began, "extra": json.dumps(extra)}
    limits = {"time_limit" if name == "seconds" else name: value for name, value in knobs.items()}
    compared = family.compare(problem, (policy,), **limits)
    if not compared.results:
        raise InputError("; ".join(map(str, compared.refused.values())), field="policy", value=policy)
    row = dict(compared.best.row())
    known = {
        "algbw_bytes_per_s": row.pop("algorithm_bandwidth", None),
        "makespan_ns": row.pop("makespan_ns"),
        "bound_ns": row.pop("bound_ns"),
        "seconds": perf_counter() - began,
    }
    return known | {"extra": json.dumps({name: value for name, value in row.items() if name != "policy"})}


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


def _heuristic(instance: Instance, specification: str, knobs: Knobs, record: tuple[str, ...]) -> Columns:
    specification = specify(specification, instance)
    policy = make_policy(specification, **knobs)
    if "workers" not in knobs:  # else it searches, and minds the clock itself
        warm_up(specification, lambda: simulate(instance, policy(instance)))
    began = perf_counter()
    plan = policy(instance)
    planned = perf_counter()
    schedule = simulate(instance, plan)
    ended = perf_counter()
    return _judge(schedule, record, {}) | {"seconds": ended - began, "simulate_seconds": ended - planned}


def _reference(instance: Instance, specification: str, knobs: Knobs, record: tuple[str, ...]) -> Columns:
    """The reference, which starts from the best of the usual policies."""
    from themis_opt.study.comparison import compare

    _, _, knobs, record = task_of(instance, specification, knobs, record)
    trajectory = Trajectory()
    began = perf_counter()

    def report(policy: str, makespan: float, bound: float) -> None:
        if policy == specification:
            trajectory.add(perf_counter() - began, makespan, bound)

    limits = {"time_limit" if name == "seconds" else name: value for name, value in knobs.items()}
    comparison = compare(instance, (*usual_policies(instance), specification), progress=report, **limits)
    result, seconds = comparison.results[-1], perf_counter() - began
    trajectory.add(seconds, result.makespan, result.bound)
    extra = {"trajectory": trajectory} if "trajectory" in record else {}
    return _judge(result.schedule, record, extra) | {"bound_ns": nanoseconds(result.bound), "seconds": seconds}


def _judge(schedule: Schedule, record: tuple[str, ...], extra: Columns) -> Columns:
    """Columns of a valid schedule; `makespan_ns` is what is minimised."""
    validate(schedule)
    values = schedule_row(schedule)
    metrics = {name: value for name, value in values.items() if name not in RECORDED}
    extra = _facts(schedule.instance) | {"stages": schedule.plan.num_stages} | metrics | extra
    if "activity" in record:
        extra["activity"] = activity(schedule)
    return {name: values[name] for name in RECORDED if name in values} | {"extra": json.dumps(extra)}


def _facts(instance: Instance) -> Columns:
    """What `extra` tells of the compute of an instance, whatever the policy."""
    if not has_launches(instance):
        return {}
    facts = {"compute_ns": nanoseconds(instance.compute), "steps": instance.steps}
    return facts | {"memory_bytes": instance.parameter_bytes}


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
    """Share of each window of :data:`WINDOW` for which each row of stages is held; with compute, of the last iteration.

    Returns `window_ns`, and in `dimensions` a list of shares, 0..1, for each dimension of the network; the last window
      ends with the schedule.
    """
    shown, shares = last_periods(schedule, 1), []
    edges = np.append(np.arange(0, shown.length, WINDOW), shown.length)
    for lane in range(len(shown.lanes)):
        intervals = shown.busy_intervals(lane)
        lengths = intervals[:, 1] - intervals[:, 0]
        until = np.stack([lengths.cumsum() - lengths, lengths.cumsum()], axis=1)  # held until each start and end
        held = np.interp(edges, intervals.ravel(), until.ravel()) if len(intervals) else np.zeros(len(edges))
        shares.append((np.diff(held) / np.diff(edges)).round(4).tolist())
    return {"window_ns": nanoseconds(WINDOW), "dimensions": shares}

"""What an NPU holds over time, in bytes: the sum of four parts, each known exactly from a schedule.

- parameters of tasks, always;
- activations of a task, from its start to the end of the task that frees them;
- what an all-gather with `freed_after` brings, from the moment it is launched to the end of the last of these tasks:
  what is fused is one buffer;
- what a reduce-scatter sums up, from the start of the task that makes it until the result has arrived.

Gradients of an all-reduce are summed in place, and gathered bytes without `freed_after` stay: neither changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.event_loop import NEVER

if TYPE_CHECKING:
    from themis_opt.base.arrays import IntArray
    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.schedule import Schedule


class MemoryCurve(NamedTuple):
    """Bytes that one NPU holds from each time to the next, in picoseconds of the schedule; arrays of one shape."""

    time: IntArray
    held: IntArray


class _Holdings(NamedTuple):
    """Bytes that are held in every iteration between two times, shape (iterations,); NEVER where one is unknown."""

    stage: int
    begin: IntArray
    end: IntArray
    size: int


def changes_memory(instance: Instance) -> bool:
    """Whether what NPUs hold changes within an iteration in a way that an instance tells."""
    given = instance.memory is not None or any(task.activation_bytes for task in instance.tasks)
    return given or any(exchange.freed_task >= 0 for exchange in instance.exchanges)


def memory_curves(schedule: Schedule) -> tuple[MemoryCurve, ...]:
    """For each stage of a pipeline what its NPUs hold, from the first iteration to the start of the last."""
    instance, holdings = schedule.instance, tuple(_holdings(schedule))
    until = int(schedule.task_start[-1].min())
    curves = []
    for stage, chain in enumerate(instance.chains):
        kept = sum(instance.tasks[task].parameter_bytes for task in chain)
        curves.append(_curve([part for part in holdings if part.stage == stage], kept, until))
    return tuple(curves)


def memory_peak(schedule: Schedule) -> int:
    """The most bytes that any NPU holds at any time."""
    return max(int(curve.held.max()) for curve in memory_curves(schedule))


def _curve(holdings: list[_Holdings], kept: int, until: int) -> MemoryCurve:
    begins = np.concatenate([np.zeros(1, dtype=np.int64), *(part.begin for part in holdings)])
    ends = np.concatenate([np.full(1, NEVER), *(part.end for part in holdings)])
    sizes = np.repeat([kept, *(part.size for part in holdings)], [1, *(len(part.begin) for part in holdings)])
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    times, held = times[order], np.concatenate([sizes, -sizes])[order].cumsum()
    last = np.append(times[1:] > times[:-1], True) & (times <= until)  # what is freed makes room at once
    return MemoryCurve(times[last], held[last])


def _holdings(schedule: Schedule) -> Iterator[_Holdings]:
    instance, plan, period = schedule.instance, schedule.plan, schedule.period
    for number, task in enumerate(instance.tasks):
        if task.activation_bytes:
            freed = number if task.freed_after is None else instance.task_index[task.freed_after]
            ends = _in(period.task_end[:, freed], int(freed < number))
            yield _Holdings(task.stage, schedule.task_start[:, number], ends, task.activation_bytes)
    for number, launch in enumerate(plan.launches_of(instance)):
        exchanges = [instance.exchanges[tensor] for tensor in launch.tensors]
        freed_tasks = {(e.freed_task, e.freed_later) for e in exchanges if e.freed_task >= 0}
        if freed_tasks:
            ends = np.max([_in(period.task_end[:, task], later) for task, later in freed_tasks], axis=0)
            size = sum(exchange.size for exchange in exchanges)
            yield _Holdings(instance.tasks[exchanges[0].needed_task].stage, _launched(schedule, number), ends, size)
        elif exchanges[0].kind is CollectiveKind.REDUCE_SCATTER:
            for exchange in exchanges:
                stage, begins = instance.tasks[exchange.ready_task].stage, schedule.task_start[:, exchange.ready_task]
                yield _Holdings(stage, begins, arrivals(schedule, number), exchange.size)


def _launched(schedule: Schedule, number: int) -> IntArray:
    """When a launch is released, and so its buffer is taken, in every iteration."""
    launch = schedule.plan.launches_of(schedule.instance)[number]
    times = [np.zeros(schedule.num_iterations, dtype=np.int64)]
    if launch.after is not None:
        times.append(_in(schedule.period.task_end[:, launch.after.task], launch.after.later))
    times += [arrivals(schedule, other) for other in launch.after_launches]
    begins: IntArray = np.max(times, axis=0)
    return begins


def arrivals(schedule: Schedule, launch: int) -> IntArray:
    """When a launch has its whole result, shape (iterations,); NEVER where one of its stages has no time."""
    _, last = schedule.plan.ends_of_chunks[launch]
    start, ready = (times.reshape(schedule.num_iterations, -1)[:, last] for times in (schedule.start, schedule.ready))
    times: IntArray = np.where(start >= 0, ready, NEVER).max(axis=1)
    return times


def _in(times: IntArray, later: int) -> IntArray:
    """The times of a task so many iterations later, never where these were not simulated."""
    return np.append(times[later:], np.full(later, NEVER)) if later else times

"""Why a makespan is what it is: the disjunctive graph, its critical path, and where the time of each resource goes.

The disjunctive graph (B. Roy and B. Sussmann, 1964) has a node per stage, arcs along the path of each chunk
and arcs along the sequence of each resource; the makespan is its longest path.  With compute it also has a node per
task, arcs along the tasks of all iterations in turn, from tasks and launches to the launches that they release, and
from launches to the task that waits for them; its longest path is the start of the last iteration.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.schedules.period import covered
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import build_operations
from themis_opt.schedules.timed import CriticalStep, Explanation, RailLoad, ResourceTime, TimedOperations


def explain(schedule: Schedule) -> Explanation:
    """Explain the makespan of a valid schedule, or the last whole period of one with compute."""
    resources = tuple(resource_time(schedule, number) for number in range(schedule.instance.num_resources))
    rails = tuple(rail_loads(schedule))
    if not schedule.has_period:
        return Explanation(critical_path(schedule), resources, rails=rails)
    return Explanation(critical_path(schedule), (compute_time(schedule), *resources), schedule.period.waits, rails)


def rail_loads(schedule: Schedule) -> Iterator[RailLoad]:
    """What the rails of all dimensions carry."""
    fabric = schedule.instance.fabric
    for k, carried in schedule.rail_bytes.items():
        loads = carried.sum(axis=0)
        shares = loads / max(loads.sum(), 1.0)
        for rail, load, share in zip(fabric.dimensions[k].rails, loads.tolist(), shares.tolist(), strict=True):
            yield RailLoad(fabric.dimension_names[k], rail.name, load, share)


def critical_path(schedule: Schedule) -> tuple[CriticalStep, ...]:
    """A longest path of the disjunctive graph.

    With compute it is the part of the path in the last whole period, which ends where the iteration after it starts;
    its first step may have begun before.
    """
    timed, count = timed_operations(schedule), len(schedule.instance.tasks) + schedule.plan.num_stages
    path = timed.longest_path((schedule.num_iterations - 1) * count if schedule.has_period else None)
    earlier = [-1, *(operation for operation, _ in path)]
    steps = [_step(schedule, timed, *one, before) for one, before in zip(path, earlier, strict=False)]
    if not schedule.has_period:
        return tuple(steps)
    inside = sum(step.start > schedule.task_start[-2, 0] for step in steps)
    return tuple(steps[-inside - 1 : -1])


def timed_operations(schedule: Schedule) -> TimedOperations:
    """The tasks and stages of all iterations, numbered as the simulator does."""
    instance, rows = schedule.instance, schedule.num_iterations
    operations = build_operations(instance, schedule.plan, schedule.costs, rows)
    start = np.concatenate([schedule.task_start, schedule.start.reshape(rows, -1)], axis=1).ravel()
    npus = [f"NPU of stage {stage + 1}" for stage in range(instance.num_stages)]
    return TimedOperations(operations, start, partial(_label, schedule), (*instance.resource_names, *npus))


def _label(schedule: Schedule, operation: int) -> str:
    """An operation in words, with its iteration where there are several."""
    instance, plan, tasks = schedule.instance, schedule.plan, len(schedule.instance.tasks)
    iteration, number = divmod(operation, tasks + plan.num_stages)
    label = instance.tasks[number].name if number < tasks else plan.label(instance, number - tasks)
    return f"iteration {iteration}: {label}" if schedule.has_period else label


def _step(schedule: Schedule, timed: TimedOperations, operation: int, waited_for: str, before: int) -> CriticalStep:
    """An operation of the path, and whether it waited for a task, a dimension or data."""
    tasks, count = len(schedule.instance.tasks), len(schedule.instance.tasks) + schedule.plan.num_stages
    iteration, number = divmod(operation, count)
    if waited_for == "resource":
        waited_for = "dimension"
    elif waited_for == "data" and before % count < tasks:
        waited_for = "task"
    stage = None if number < tasks else number - tasks
    start, busy, lag = (int(a[operation]) for a in (timed.start, timed.operations.duration, timed.operations.lag))
    return CriticalStep(timed.label(operation), iteration, stage, start, busy, lag, waited_for)


def compute_time(schedule: Schedule) -> ResourceTime:
    """How the NPU spends the last whole period: computing, or waiting for communication."""
    begin, end = _shown(schedule)
    busy = schedule.instance.compute
    return ResourceTime("compute", busy, 0, end - begin - busy)


def resource_time(schedule: Schedule, resource: int) -> ResourceTime:
    """Split the time of a resource of the network in busy, lag and idle time."""
    begin, end = _shown(schedule)
    order, name = schedule.sequence(resource), schedule.instance.resource_names[resource]
    busy = covered(schedule.start[order], schedule.end[order], begin, end)
    free_from = np.concatenate([[begin], schedule.end[order]])
    free_until = np.concatenate([schedule.start[order], [end]])
    sent_at = np.concatenate([_input_sent(schedule)[order], schedule.end[order[-1:]]])
    arrived_at = np.concatenate([schedule.start[order], schedule.ready[order[-1:]]])
    overlap = np.minimum(free_until, arrived_at).clip(max=end) - np.maximum(free_from, sent_at).clip(min=begin)
    lag = int(np.maximum(overlap, 0).sum())
    return ResourceTime(name, busy, lag, end - begin - busy - lag)


def _shown(schedule: Schedule) -> tuple[int, int]:
    """Begin and end of the time that is explained: the makespan, or the last whole period."""
    if not schedule.has_period:
        return 0, schedule.makespan
    begin, end = schedule.task_start[-2:, 0].tolist()
    return begin, end


def _input_sent(schedule: Schedule) -> IntArray:
    """When the input of each stage left the dimension before; its start where it waited for something else."""
    is_first = np.tile(schedule.plan.positions == 0, schedule.num_iterations)
    sent, ready = (np.concatenate([[0], times[:-1]]) for times in (schedule.end, schedule.ready))
    waited: IntArray = np.where(is_first | (ready != schedule.start), schedule.start, sent)
    return waited

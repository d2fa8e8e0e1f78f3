"""Why a makespan is what it is: the disjunctive graph, its critical path, and where the time of each resource goes.

The disjunctive graph (B. Roy and B. Sussmann, 1964) has a node per stage, arcs along the path of each chunk
and arcs along the sequence of each resource; the makespan is its longest path.  With compute it also has a node per
task, arcs along the tasks of all iterations in turn, from tasks and launches to the launches that they release, and
from launches to the task that waits for them; its longest path is the start of the last iteration.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.schedules.event_loop import NEVER
from themis_opt.schedules.period import covered
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.timed import CriticalStep, Explanation, RailLoad, ResourceTime

SOURCE = -1  # in place of an operation: what begins there waits for nothing but its release


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
    graph = _Graph(schedule)
    starts, arcs = _longest_paths(graph)
    begin, end = -1, max(graph.results, key=lambda result: starts[result])
    if schedule.has_period:
        rows = schedule.num_iterations
        begin, end = starts[graph.task(rows - 2, 0)], graph.task(rows - 1, 0)
    steps: list[CriticalStep] = []
    operation = arcs[end].before
    while operation != SOURCE:
        if operation not in graph.results:
            steps.append(_step(schedule, graph, operation, arcs[operation].kind))
        operation = arcs[operation].before if starts[operation] > begin else SOURCE
    return tuple(reversed(steps))


def _step(schedule: Schedule, graph: "_Graph", operation: int, waited_for: str) -> CriticalStep:
    start, busy, lag = (values[operation] for values in (graph.start, graph.duration, graph.lag))
    if operation in graph.stages:
        iteration, stage = divmod(operation, schedule.plan.num_stages)
        label = schedule.plan.label(schedule.instance, stage)
        label = f"iteration {iteration}: {label}" if schedule.has_period else label
        return CriticalStep(label, iteration, stage, start, busy, lag, waited_for)
    iteration, task = divmod(operation - graph.tasks.start, len(schedule.instance.tasks))
    label = f"iteration {iteration}: {schedule.instance.tasks[task].name}"
    return CriticalStep(label, iteration, None, start, busy, lag, waited_for)


class _Arc(NamedTuple):
    """An operation that another one waits for, `passed` picoseconds from its start on."""

    before: int
    passed: int
    kind: str


FROM_SOURCE = _Arc(SOURCE, 0, "release")


class _Graph:
    """The disjunctive graph of a schedule.

    Operations are numbered: the stages of all iterations, their tasks, and the whole results of their launches, which
    take no time and spare arcs from every last stage of a launch to everything that waits for it.
    """

    def __init__(self, schedule: Schedule) -> None:
        plan, instance, rows = schedule.plan, schedule.instance, schedule.num_iterations
        self.plan, self.instance, self.rows = plan, instance, rows
        self.launches = plan.launches_of(instance)
        ends = np.cumsum([0, *(rows * count for count in (plan.num_stages, len(instance.tasks), len(self.launches)))])
        self.stages, self.tasks, self.results = (range(a, b) for a, b in pairwise(ends.tolist()))
        ready = np.where(schedule.start >= 0, schedule.ready, NEVER).reshape(rows, -1)
        arrivals = np.stack([ready[:, last].max(axis=1) for _, last in plan.ends_of_chunks], axis=1)
        durations = np.array([task.duration for task in instance.tasks], dtype=np.int64)
        self.start = _joined(schedule.start, schedule.task_start, arrivals)
        self.duration = _joined(*(np.tile(values, rows) for values in (schedule.costs.occupancy, durations)))
        self.lag = _joined(np.tile(schedule.costs.lag, rows), 0 * schedule.task_start)
        self._launch, self._position = plan.launch_of_stage.tolist(), plan.positions.tolist()
        self._release: list[int] = plan.releases(instance).tolist()
        self._last = [last.tolist() for _, last in plan.ends_of_chunks]
        self._needed: list[list[tuple[int, int]]] = [[] for _ in instance.tasks]
        turns = [(chain[-1:] + chain[:-1], chain) for chain in instance.chains]
        self._turn = {
            task: (before, int(task == chain[0]))
            for earlier, chain in turns
            for before, task in zip(earlier, chain, strict=True)
        }
        self._waits: list[list[int]] = [[] for _ in instance.tasks]
        for one, other in instance.waits:
            self._waits[other].append(one)
        for number, launch in enumerate(self.launches):
            if launch.before:
                self._needed[launch.before.task].append((number, launch.before.later))
        before = np.full(len(self.stages), SOURCE)
        for resource in range(instance.num_resources):
            order = schedule.sequence(resource)
            before[order[1:]] = order[:-1]
        self._before = before.tolist()

    def task(self, row: int, number: int) -> int:
        """The operation that a task is."""
        return self.tasks.start + row * len(self.instance.tasks) + number

    def in_turn(self) -> list[int]:
        """All operations that the schedule runs, each after those that it waits for.

        Only results and tasks can take no time: at one time results come first, then tasks.
        """
        start = np.array(self.start)
        rank = np.repeat([2, 1, 0], [len(members) for members in (self.stages, self.tasks, self.results)])
        order = np.lexsort((np.arange(len(start)), rank, start))
        in_turn: list[int] = order[start[order] >= 0].tolist()
        return in_turn

    def release(self, operation: int) -> int:
        """Before when an operation does not start, whatever it waits for."""
        return self._release[operation % self.plan.num_stages] if operation in self.stages else 0

    def arcs_into(self, operation: int) -> Iterator[_Arc]:
        """What an operation waits for."""
        if operation in self.stages:
            yield from self._into_stage(operation)
        elif operation in self.tasks:
            yield from self._into_task(operation)
        else:
            row, launch = divmod(operation - self.results.start, len(self.launches))
            for stage in self._last[launch]:
                yield self._data(row * self.plan.num_stages + stage)

    def _into_stage(self, operation: int) -> Iterator[_Arc]:
        row, stage = divmod(operation, self.plan.num_stages)
        if self._position[stage]:
            yield self._data(operation - 1)
        else:
            launch = self.launches[self._launch[stage]]
            for other in launch.after_launches:
                yield self._result(row, other)
            if launch.after and row + launch.after.later < self.rows:
                yield self._after_task(self.task(row + launch.after.later, launch.after.task))
        before = self._before[operation]
        if before != SOURCE:
            yield _Arc(before, self.duration[before], "dimension")

    def _into_task(self, operation: int) -> Iterator[_Arc]:
        row, task = divmod(operation - self.tasks.start, len(self.instance.tasks))
        for number, later in self._needed[task]:
            if row >= later:
                yield self._result(row - later, number)
        for one in self._waits[task]:
            yield self._after_task(self.task(row, one))
        before, earlier = self._turn[task]
        if row >= earlier:
            yield self._after_task(self.task(row - earlier, before))

    def _data(self, stage: int) -> _Arc:
        return _Arc(stage, self.duration[stage] + self.lag[stage], "data")

    def _result(self, row: int, launch: int) -> _Arc:
        return _Arc(self.results.start + row * len(self.launches) + launch, 0, "data")

    def _after_task(self, task: int) -> _Arc:
        return _Arc(task, self.duration[task], "task")


def _joined(*arrays: IntArray) -> list[int]:
    joined: list[int] = np.concatenate([array.ravel() for array in arrays]).tolist()
    return joined


def _longest_paths(graph: _Graph) -> tuple[list[int], list[_Arc]]:
    """The longest path to each operation: its length, and its last arc.

    Arcs that the times contradict are left out: a valid schedule may launch something earlier than its plan says.
    """
    lengths, arcs = [0] * len(graph.start), [FROM_SOURCE] * len(graph.start)
    for operation in graph.in_turn():
        longest, last = -1, FROM_SOURCE
        for arc in graph.arcs_into(operation):
            length = lengths[arc.before] + arc.passed
            obeyed = 0 <= graph.start[arc.before] <= graph.start[operation] - arc.passed
            if obeyed and length > longest:
                longest, last = length, arc
        release = graph.release(operation)
        lengths[operation], arcs[operation] = (release, FROM_SOURCE) if release > longest else (longest, last)
    return lengths, arcs


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

"""Simulated annealing of plans on the simulator: paths and priorities of chunks, sizes given.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, *Optimization by Simulated Annealing*, Science 220 (1983).
"""

from dataclasses import replace

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.compiled import FirstUse
from themis_opt.base.errors import CyclicPlan
from themis_opt.policies.baseline import Baseline
from themis_opt.problem.catalog import random_instance
from themis_opt.schedules.event_loop import NEVER
from themis_opt.schedules.kernel import Operations, workspace
from themis_opt.schedules.period import FEW
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import build_operations, simulate
from themis_opt.search.annealing_loop import ANNEAL
from themis_opt.search.annealing_state import (
    BEST,
    MAX_TOUCHED,
    USUAL_MOVES,
    AnnealingProblem,
    ChunkLayout,
    MoveParams,
    State,
)
from themis_opt.solving.lowering import OccupancyParts, occupancies, occupancy_parts, resources_and_lags, stacked
from themis_opt.solving.sizing import granule, with_shares


def _compile() -> None:
    """Take no steps with some instance."""
    instance = random_instance(0)
    Annealing(simulate(instance, Baseline()(instance))).run(0, 1.0, 1.0)


is_ready = FirstUse(_compile).is_over  # whether the search can begin within some seconds (None: however long it takes)


class Annealing:
    """A search that starts from a schedule and keeps its chunk sizes, unless it `resizes`.

    A step changes the paths or the priorities of one or two chunks and simulates; a dimension always serves the waiting
    stage of the smallest priority, and the start times of an accepted plan are its priorities from then on.  A step
    takes O(n (D + log n)) time for n stages on D dimensions.

    Where there is compute, a step may also move a whole launch, launches stay what they are, and as many iterations are
    simulated as the first schedule has: all are alike, and their priorities an iteration apart.

    `start`: where to begin; where there is compute, :func:`can_anneal` says whether it can.
    `seed`: equal seeds and calls of :meth:`run` give equal results.
    `moves`: how often a step changes what.
    `resizes`: whether a step may also move bytes from one chunk to another.  Not where there is compute.
    """

    def __init__(
        self, start: Schedule, seed: int = 0, moves: MoveParams = USUAL_MOVES, *, resizes: bool = False
    ) -> None:
        self._start = start
        self._seeds = np.random.SeedSequence(seed)
        operations = build_operations(start.instance, start.plan, start.costs, start.num_iterations)
        self._problem = _problem(start, moves, resizes)
        self._state = _state(start, operations, self._problem)

    def run(self, steps: int, hot: float, cold: float) -> None:
        """Take `steps` steps while the temperature falls from `hot` to `cold`, fractions of the first makespan."""
        seed, scale = int(self._seeds.spawn(1)[0].generate_state(1)[0]), self._start.makespan
        ANNEAL.compiled(self._problem, self._state, steps, hot * scale, cold * scale, seed)

    @property
    def step_work(self) -> int:
        """Stages and tasks that are simulated in one step."""
        return len(self._state.operations.resource)

    @property
    def makespan(self) -> int:
        """Makespan of the best plan so far, in picoseconds."""
        return int(self._state.makespans[BEST])

    def best(self) -> Schedule:
        """The best schedule so far; the first one if none is better."""
        try:
            best = simulate(self._start.instance, self._best_plan())
        except CyclicPlan:  # stages at one instant that wait for each other through tasks that take no time
            return self._start
        return min(self._start, best, key=lambda schedule: schedule.makespan)

    def _best_plan(self) -> Plan:
        old, chunks, starts = self._start.plan, [], []
        for number, (launch, exchange) in enumerate(zip(old.chunks, self._start.launched, strict=True)):
            stages, shape = slice(*old.offsets[number : number + 2]), (len(launch.sizes), -1, len(exchange.span))
            local = self._state.best.path[stages].reshape(shape)
            chunks.append(Chunks(launch.sizes, np.array(exchange.span)[local].reshape(launch.paths.shape)))
            starts.append(np.take_along_axis(self._state.best.key[stages].reshape(shape), local, axis=2).ravel())
        plan, start = replace(old, chunks=tuple(chunks), keys=None), np.concatenate(starts)
        if self._start.has_period:
            later, place = np.divmod(start.astype(np.int64), self.makespan)
            return plan.in_order_of(self._start.instance, place, later)
        plan = plan.in_order_of(self._start.instance, start)
        return with_shares(plan, self._start.instance, self._state.best.size) if self._problem.resizes else plan


def can_anneal(schedule: Schedule) -> bool:
    """Whether a schedule has a makespan, or iterations of which few suffice to know how they go on."""
    if not schedule.has_period:
        return True
    begins = all(launch.after is not None for launch in schedule.plan.launches_of(schedule.instance))
    return begins and schedule.period.is_steady and schedule.num_iterations <= FEW


def _problem(start: Schedule, moves: MoveParams, resizes: bool) -> AnnealingProblem:
    instance, launched, reverses = start.instance, start.launched, start.instance.ag_order == "reverse"
    num_chunks = [len(launch.sizes) for launch in start.plan.chunks]
    launch = np.repeat(np.arange(len(num_chunks)), num_chunks)
    num_phases = np.array([len(exchange.kind.rule.phases) for exchange in launched])
    num_dimensions = np.array([len(exchange.span) for exchange in launched])
    num_stages = (num_phases * num_dimensions)[launch]
    size_class, duration = _durations(start)
    resource, lag = resources_and_lags(instance, launched)
    columns = zip(*(occupancy_parts(instance, exchange) for exchange in launched), strict=True)
    return AnnealingProblem(
        iterations=start.num_iterations,
        num_tasks=len(instance.tasks),
        num_operations=len(instance.tasks) + start.plan.num_stages,
        first_stage=np.cumsum(num_stages) - num_stages,
        launch=launch,
        size_class=size_class,
        num_phases=num_phases[launch],
        num_dimensions=num_dimensions[launch],
        retraces=np.array([reverses and exchange.kind.rule.mirrors for exchange in launched])[launch],
        pinned=np.array([reverses and part.part != "whole" for part in start.plan.launches_of(instance)])[launch],
        first_chunk=np.concatenate([[0], np.cumsum(num_chunks)]),
        resource=resource,
        duration=duration,
        lag=lag,
        resizes=resizes,
        parts=OccupancyParts._make(map(stacked, columns)),
        granule=np.array([granule(instance, exchange) for exchange in launched], dtype=np.float64),
        moves=moves,
    )


def _durations(start: Schedule) -> tuple[IntArray, IntArray]:
    """The class of every chunk, chunks of one launch and size forming one, and the durations of each class."""
    classes, tables = [], list[IntArray]()
    for launch, exchange in zip(start.plan.chunks, start.launched, strict=True):
        sizes, members = np.unique(launch.sizes, return_inverse=True)
        classes.append(len(tables) + members)
        tables.extend(occupancies(start.instance, exchange, sizes))
    return np.concatenate(classes), stacked(tables)


def _state(start: Schedule, operations: Operations, problem: AnnealingProblem) -> State:
    """The start as the current and the best plan; the kernel's view of it is laid out at the first step."""
    path, key = _paths_and_keys(start)
    sizes = np.concatenate([launch.sizes for launch in start.plan.chunks]).astype(np.float64)
    count, num_resources = len(operations.resource), len(operations.enforced)
    load, first = np.zeros(num_resources, dtype=np.int64), slice(count // start.num_iterations)
    np.add.at(load, operations.resource[first], operations.duration[first])
    return State(
        candidate=ChunkLayout(path, key, sizes),
        current=ChunkLayout(path.copy(), key.copy(), sizes.copy()),
        best=ChunkLayout(path.copy(), key.copy(), sizes.copy()),
        operations=_served_by_key(operations, start),
        load=load,
        touched=np.zeros(MAX_TOUCHED + max(len(launch.sizes) for launch in start.plan.chunks), dtype=np.int64),
        makespans=np.full(2, start.makespan, dtype=np.int64),
        workspace=workspace(count, num_resources),
        known=np.full(count, NEVER),
        known_ready=np.zeros(count, dtype=np.int64),
        tail=np.zeros(count, dtype=np.int64),
        remaining=np.zeros(num_resources, dtype=np.int64),
        arriving=np.zeros((num_resources, 2), dtype=np.int64),
    )


def _served_by_key(operations: Operations, start: Schedule) -> Operations:
    """A copy that serves by `major` alone, which are the start times at first, and waits for nothing in a sequence."""
    begins = start.makespan * np.arange(start.num_iterations, dtype=np.float64)[:, None]
    major = np.concatenate([np.zeros(len(start.instance.tasks)), _start_times(start)]) + begins
    return Operations._make(array.copy() for array in operations)._replace(
        major=major.ravel(),
        minor=np.zeros_like(operations.minor),
        time_sign=np.zeros_like(operations.time_sign),
        enforced=np.zeros_like(operations.enforced),
    )


def _start_times(start: Schedule) -> FloatArray:
    """Start of every stage, in the last whole iteration counted from its begin, shape (stages,)."""
    if not start.has_period:
        return start.start.astype(np.float64)
    row = start.num_iterations - 2
    times: FloatArray = (start.period.stage_start[row] - start.task_start[row, 0]).astype(np.float64)
    return times


def _paths_and_keys(start: Schedule) -> tuple[IntArray, FloatArray]:
    """Local dimension of every stage, and its start by phase and local dimension, shape (stages,)."""
    paths, keys, starts = [], [], _start_times(start)
    for number, (launch, exchange) in enumerate(zip(start.plan.chunks, start.launched, strict=True)):
        stages = slice(*start.plan.offsets[number : number + 2])
        local = np.searchsorted(exchange.span, launch.paths).reshape(len(launch.sizes), -1, len(exchange.span))
        key = np.zeros(local.shape)
        np.put_along_axis(key, local, starts[stages].reshape(local.shape), axis=2)
        paths.append(local.ravel())
        keys.append(key.ravel())
    return np.concatenate(paths), np.concatenate(keys)

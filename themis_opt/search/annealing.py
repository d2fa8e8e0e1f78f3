"""Simulated annealing of plans on the simulator: paths and priorities of chunks, sizes given.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, *Optimization by Simulated Annealing*, Science 220 (1983).
"""

from threading import Thread

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.policies.baseline import Baseline
from themis_opt.problem.cost import fixed_lag
from themis_opt.problem.instance import Instance
from themis_opt.problem.random_networks import random_instance
from themis_opt.schedules.kernel import Operations, workspace
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import build_operations, simulate
from themis_opt.search.annealing_loop import ANNEAL, BEST, MAX_TOUCHED, USUAL, MoveParams, Problem, State
from themis_opt.solving.lowering import occupancies

_compiling: Thread | None = None


def is_ready(seconds: float | None) -> bool:
    """Whether the search can begin within some seconds (None: however long it takes).

    The first use on a machine compiles the inner loop, which takes seconds and cannot be interrupted; it goes on in
    a thread of its own.
    """
    global _compiling
    if _compiling is None:
        _compiling = Thread(target=_compile, daemon=True)
        _compiling.start()
    _compiling.join(seconds)
    return not _compiling.is_alive()


def _compile() -> None:
    """Take no steps with some instance."""
    instance = random_instance(0)
    Annealing(simulate(instance, Baseline()(instance))).run(0, 1.0, 1.0)


class Annealing:
    """A search that starts from a schedule and keeps its chunk sizes.

    A step changes the paths or the priorities of one or two chunks and simulates; a dimension always serves the waiting
    stage of the smallest priority, and the start times of an accepted plan are its priorities from then on.  A step
    takes O(n (D + log n)) time for n stages on D dimensions.

    Parameters
    ----------
    start : Schedule
        Where to begin.
    seed : int
        Equal seeds and calls of :meth:`run` give equal results.
    moves : MoveParams
        What one step changes.
    """

    def __init__(self, start: Schedule, seed: int = 0, moves: MoveParams = USUAL) -> None:
        self._start = start
        self._seeds = np.random.SeedSequence(seed)
        operations = build_operations(start.instance, start.plan, start.costs)
        self._problem = _problem(start, moves)
        self._state = _state(start, operations)

    def run(self, steps: int, hot: float, cold: float) -> None:
        """Take `steps` steps while the temperature falls from `hot` to `cold`, fractions of the first makespan."""
        (child,) = self._seeds.spawn(1)
        seed = int(child.generate_state(1)[0])
        scale = self._start.makespan
        ANNEAL.compiled(self._problem, self._state, steps, hot * scale, cold * scale, seed)

    @property
    def makespan(self) -> int:
        """Makespan of the best plan so far, in picoseconds."""
        return int(self._state.makespans[BEST])

    def best(self) -> Schedule:
        """The best schedule so far; the first one if none is better."""
        found = simulate(self._start.instance, self._best_plan())
        return min(self._start, found, key=lambda schedule: schedule.makespan)

    def _best_plan(self) -> Plan:
        instance, old = self._start.instance, self._start.plan
        chunks, starts = [], []
        for number, own in enumerate(old.chunks):
            span, stages = instance.exchanges[number].span, slice(old.offsets[number], old.offsets[number + 1])
            shape = (len(own.sizes), -1, len(span))
            local = self._state.best_path[stages].reshape(shape)
            chunks.append(Chunks(own.sizes, np.array(span)[local].reshape(own.paths.shape)))
            starts.append(np.take_along_axis(self._state.best_key[stages].reshape(shape), local, axis=2).ravel())
        return Plan(tuple(chunks), old.dispatch).in_order_of(instance, np.concatenate(starts))


def _problem(start: Schedule, moves: MoveParams) -> Problem:
    instance, plan = start.instance, start.plan
    num_chunks = [len(own.sizes) for own in plan.chunks]
    collective = np.repeat(np.arange(len(num_chunks)), num_chunks)
    num_legs = np.array([len(c.kind.rule.phases) for c in instance.exchanges])
    num_dimensions = np.array([len(own.span) for own in instance.exchanges])
    mirrored = [instance.ag_order == "reverse" and c.kind.rule.mirrors for c in instance.exchanges]
    num_stages = (num_legs * num_dimensions)[collective]
    size_class, duration = _durations(instance, plan, num_legs.max(), num_dimensions.max())
    return Problem(
        first_stage=np.cumsum(num_stages) - num_stages,
        collective=collective,
        size_class=size_class,
        num_legs=num_legs[collective],
        num_dimensions=num_dimensions[collective],
        mirrored=np.array(mirrored)[collective],
        span=_spans(instance, num_dimensions.max()),
        duration=duration,
        lag=_lags(instance, num_legs.max(), num_dimensions.max()),
        moves=moves,
    )


def _spans(instance: Instance, width: int) -> IntArray:
    spans = np.zeros((len(instance.exchanges), width), dtype=np.int64)
    for own, exchange in zip(spans, instance.exchanges, strict=True):
        own[: len(exchange.span)] = exchange.span
    return spans


def _lags(instance: Instance, num_legs: int, width: int) -> IntArray:
    lags = np.zeros((len(instance.exchanges), num_legs, width), dtype=np.int64)
    for own, exchange in zip(lags, instance.exchanges, strict=True):
        for leg, phase in enumerate(exchange.kind.rule.phases):
            own[leg, : len(exchange.span)] = fixed_lag(instance, phase, np.array(exchange.span))
    return lags


def _durations(instance: Instance, plan: Plan, num_legs: int, width: int) -> tuple[IntArray, IntArray]:
    """The class of every chunk, chunks of one collective and size forming one, and the durations of each class."""
    classes, tables = [], []
    first = 0
    for number, own in enumerate(plan.chunks):
        sizes, members = np.unique(own.sizes, return_inverse=True)
        classes.append(first + members)
        first += len(sizes)
        exact = occupancies(instance, instance.exchanges[number], sizes)
        table = np.zeros((len(sizes), num_legs, 2**width, width), dtype=np.int64)
        table[:, : exact.shape[1], : exact.shape[2], : exact.shape[3]] = exact
        tables.append(table)
    return np.concatenate(classes), np.concatenate(tables)


def _state(start: Schedule, operations: Operations) -> State:
    """The start as the current and the best plan; the kernel's view of it is laid out at the first step."""
    path, key = _paths_and_keys(start)
    return State(
        path=path,
        current_path=path.copy(),
        best_path=path.copy(),
        key=key,
        current_key=key.copy(),
        best_key=key.copy(),
        operations=_served_by_key(operations, start),
        load=_loads(operations),
        touched=np.zeros(MAX_TOUCHED, dtype=np.int64),
        makespans=np.full(2, start.makespan, dtype=np.int64),
        workspace=workspace(len(operations.resource), len(operations.enforced)),
    )


def _served_by_key(operations: Operations, start: Schedule) -> Operations:
    """A copy that serves by `major` alone, which are the start times at first, and waits for nothing in a sequence."""
    return operations._replace(
        resource=operations.resource.copy(),
        duration=operations.duration.copy(),
        lag=operations.lag.copy(),
        major=start.start.astype(np.float64),
        minor=np.zeros_like(operations.minor),
        time_sign=np.zeros_like(operations.time_sign),
        enforced=np.zeros_like(operations.enforced),
    )


def _loads(operations: Operations) -> IntArray:
    loads = np.zeros(operations.resource.max() + 1, dtype=np.int64)
    np.add.at(loads, operations.resource, operations.duration)
    return loads


def _paths_and_keys(start: Schedule) -> tuple[IntArray, np.ndarray]:
    """Local dimension of every stage, and its start by leg and local dimension, shape (stages,)."""
    paths, keys = [], []
    for number, own in enumerate(start.plan.chunks):
        span = start.instance.exchanges[number].span
        stages = slice(start.plan.offsets[number], start.plan.offsets[number + 1])
        local = np.searchsorted(span, own.paths).reshape(len(own.sizes), -1, len(span))
        key = np.zeros(local.shape)
        np.put_along_axis(key, local, start.start[stages].reshape(local.shape).astype(np.float64), axis=2)
        paths.append(local.ravel())
        keys.append(key.ravel())
    return np.concatenate(paths), np.concatenate(keys)

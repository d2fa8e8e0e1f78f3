"""Simulation of training iterations: the kernel of the collectives, with compute as one more resource."""

from functools import lru_cache

import numpy as np

from themis_opt.cost import FloatArray, IntArray, check_clock
from themis_opt.dispatch import DISPATCH
from themis_opt.errors import CyclicPlan, InputError
from themis_opt.instance import CollectiveKind
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan, TaskOf
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.kernel import Operations, start_times
from themis_opt.units import MAX_CLOCK, PICOSECONDS_PER_SECOND

FEWEST, MOST = 4, 64
"""Iterations to simulate where their number is not given: until they repeat each other, but no more."""


def simulate_iterations(
    instance: IterationInstance, plan: IterationPlan, iterations: int | None = None
) -> IterationSchedule:
    """Run a plan for several iterations in a row.

    Parameters
    ----------
    iterations : int, optional
        How many, at least 2; by default as many as it takes until they repeat each other.

    Raises
    ------
    CyclicPlan
        If launches, tasks and enforced sequences wait for each other.
    InputError
        If the clock is too small for the iterations.
    """
    if iterations is not None:
        return _simulate(instance, plan, iterations)
    count = FEWEST
    schedule = _simulate(instance, plan, count)
    while not schedule.is_steady and count < MOST:
        count *= 2
        schedule = _simulate(instance, plan, count)
    return schedule


def _simulate(instance: IterationInstance, plan: IterationPlan, iterations: int) -> IterationSchedule:
    _check_clock_once(instance)
    start = start_times(unrolled(instance, plan, iterations))
    if start.reshape(iterations, -1)[:-1].min() < 0:
        raise CyclicPlan("launches, tasks and sequences wait for each other", field="plan")
    own = start.reshape(iterations, -1)  # -1 in the last where a launch waits for the iteration after it
    tasks = len(instance.iteration.tasks)
    return IterationSchedule(instance, plan, own[:, :tasks], own[:, tasks:])


@lru_cache(maxsize=256)
def _check_clock_once(instance: IterationInstance) -> None:
    check_clock(instance.one_by_one())


def _check_clock_of_row(one: float, iterations: int) -> None:
    """Refuse iterations in a row that could outlast the clock, where one has `one` picoseconds of operations."""
    if iterations * one > MAX_CLOCK:
        seconds = iterations * one / PICOSECONDS_PER_SECOND
        rule = f"{iterations} of it, one operation after another, take {seconds:.3g} s, more than the clock holds"
        raise InputError(rule, field="iteration")


def unrolled(instance: IterationInstance, plan: IterationPlan, iterations: int) -> Operations:
    """Several iterations as the kernel sees them: per iteration its tasks, then the stages of its launches."""
    tasks, costs = instance.iteration.tasks, plan.chunks.costs(plan.stream)
    _check_clock_of_row(instance.compute + float(np.sum(costs.occupancy + costs.lag, dtype=np.float64)), iterations)
    compute = instance.num_resources
    resources = np.array(instance.resources)[plan.chunks.stage_dimensions]
    count = len(tasks) + plan.chunks.num_stages
    edges = _edges(instance, plan, iterations)
    predecessors = np.bincount(edges[:, 1], minlength=iterations * count)
    major, minor, sign = _priorities(instance, plan, iterations)
    enforced: np.ndarray = np.zeros(compute + 1, dtype=np.bool_)
    if plan.sequences:
        enforced[:compute] = True
        major = _positions(instance, plan, iterations, major)
    return Operations(
        resource=np.tile(np.concatenate([np.full(len(tasks), compute), resources]), iterations),
        duration=np.tile(np.concatenate([[t.duration for t in tasks], costs.occupancy]), iterations).astype(np.int64),
        lag=np.tile(np.concatenate([np.zeros(len(tasks), dtype=np.int64), costs.lag]), iterations),
        release=np.zeros(iterations * count, dtype=np.int64),
        successor_start=np.searchsorted(edges[:, 0], np.arange(iterations * count + 1)),
        successor=np.ascontiguousarray(edges[:, 1]),
        num_predecessors=predecessors,
        major=major,
        minor=minor,
        time_sign=sign,
        enforced=enforced,
    )


def _edges(instance: IterationInstance, plan: IterationPlan, iterations: int) -> IntArray:
    """Who waits for whom, shape (edges, 2), sorted; waits in iterations after the last are left out.

    What waits for a later iteration has an edge whose source is beyond all operations: it is never reached.
    """
    tasks, stages = len(instance.iteration.tasks), plan.chunks.num_stages
    count = tasks + stages
    parts = [np.stack([np.arange(tasks - 1), np.arange(1, tasks)], axis=1), np.array([[tasks - 1, count]])]
    for number, launch in enumerate(plan.launches):
        first, last = (tasks + ends for ends in plan.ends_of_chunks[number])
        parts.append(_all_pairs(_task(launch.after, count), first))
        parts.append(_all_pairs(last, _task(launch.before, count)))
        parts += [_all_pairs(tasks + plan.ends_of_chunks[other][1], first) for other in launch.after_launches]
    continues = np.ones(stages, dtype=np.bool_)
    for _, last in plan.ends_of_chunks:
        continues[last] = False
    inner = tasks + np.flatnonzero(continues)
    parts.append(np.stack([inner, inner + 1], axis=1))
    one = np.concatenate(parts)
    every = (one[None] + (np.arange(iterations) * count)[:, None, None]).reshape(-1, 2)
    every = every[every[:, 1] < iterations * count]
    found: IntArray = every[np.lexsort((every[:, 1], every[:, 0]))]
    return found


def _task(of: TaskOf, count: int) -> IntArray:
    return np.array([of.task + of.later * count])


def _all_pairs(before: IntArray, after: IntArray) -> IntArray:
    return np.stack([np.repeat(before, len(after)), np.tile(after, len(before))], axis=1)


def _priorities(
    instance: IterationInstance, plan: IterationPlan, iterations: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Keys of all operations: first by launch, then as the chunks say; tasks run in their order anyway."""
    tasks, stages = len(instance.iteration.tasks), plan.chunks.num_stages
    last = np.concatenate([np.repeat(e, e[0] - s[0] + 1) for s, e in plan.ends_of_chunks]) if stages else np.zeros(0)
    keys = DISPATCH[plan.chunks.dispatch](plan.chunks.costs(plan.stream), last.astype(np.int64))
    own = keys.major if plan.keys is None else plan.keys
    ranks = _launch_ranks(instance, plan, iterations)[:, plan.launch_of_stage]
    major = np.zeros((iterations, tasks + stages))
    major[:, tasks:] = _dense(ranks.ravel(), np.tile(own, iterations)).reshape(iterations, stages)
    minor, sign = (np.zeros((iterations, tasks + stages), dtype=np.int64) for _ in range(2))
    if plan.keys is None:
        minor[:, tasks:], sign[:, tasks:] = keys.minor, keys.time_sign
    return major.ravel(), minor.ravel(), sign.ravel()


def _dense(first: FloatArray, second: FloatArray) -> FloatArray:
    """Whole numbers that order pairs as they are ordered, equal for equal pairs."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    differs = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    dense = np.zeros(len(order))
    dense[order] = np.concatenate([[0], np.cumsum(differs)])
    return dense


def _launch_ranks(instance: IterationInstance, plan: IterationPlan, iterations: int) -> FloatArray:
    """Priority of every launch of every iteration, the smallest first, shape (iterations, launches).

    Dispatch rules look at the time when a stage is ready themselves; keys do not, so that with them launches are
    ranked by the tasks that release them.
    """
    tasks, launches = len(instance.iteration.tasks), plan.launches
    row = np.arange(iterations, dtype=np.float64)[:, None]
    ranks = np.zeros((iterations, len(launches)))
    if plan.order == "newest":
        ranks = -(row * len(launches) + np.arange(len(launches)))
    elif plan.order == "layer":
        ranks = row * tasks + np.array([launch.before.task + tasks * launch.before.later for launch in launches])
    elif plan.keys is not None:
        ranks = row * tasks + np.array([launch.after.task + tasks * launch.after.later for launch in launches])
    urgent = [launch.kind is CollectiveKind.ALL_TO_ALL for launch in plan.launches]
    return np.where(urgent, -np.inf, ranks)


def _positions(instance: IterationInstance, plan: IterationPlan, iterations: int, major: FloatArray) -> FloatArray:
    """Major keys with the position in the enforced sequences, period after period."""
    tasks = len(instance.iteration.tasks)
    position = major.copy().reshape(iterations, -1)
    for sequence in plan.sequences:
        periods = np.arange(iterations + 2)
        row = (periods[:, None] - sequence[None, :, 1]).ravel()
        stage = np.tile(sequence[:, 0], len(periods))
        inside = (row >= 0) & (row < iterations)
        position[row[inside], tasks + stage[inside]] = np.arange(int(inside.sum()))
    return position.ravel()


def sequences_of(schedule: IterationSchedule) -> tuple[IntArray, ...]:
    """The sequences of the last whole period of a schedule, for :meth:`IterationPlan.enforcing`."""
    begins = schedule.task_start[:, 0]
    last = schedule.num_iterations - 2
    resources = np.array(schedule.instance.resources)[schedule.plan.chunks.stage_dimensions]
    shifts = np.zeros(len(resources), dtype=np.int64)
    times = schedule.stage_start[last].copy()
    late = times >= begins[last + 1]
    shifts[late] = 1
    times[late] -= schedule.iteration_time
    order = np.lexsort((schedule.costs.occupancy, times))
    return tuple(
        np.stack([order[resources[order] == r], shifts[order[resources[order] == r]]], axis=1)
        for r in range(schedule.instance.num_resources)
    )

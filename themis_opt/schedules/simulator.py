"""Simulation: exact times of a plan, on one clock for all collectives and policies, and for compute beside them."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray, read_only
from themis_opt.base.errors import CyclicPlan, InputError
from themis_opt.base.units import MAX_CLOCK, format_seconds
from themis_opt.problem.cost import StageCosts, check_clock
from themis_opt.problem.instance import Instance
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.kernel import Operations, start_times
from themis_opt.schedules.plan import Launch, Plan, TaskOf, check_sequences
from themis_opt.schedules.schedule import Schedule

_check_clock_once = lru_cache(maxsize=256)(check_clock)

FEWEST_ITERATIONS, MOST_ITERATIONS = 4, 64
"""Iterations to simulate where their number is not given: until they repeat each other, but no more."""


def simulate(instance: Instance, plan: Plan, iterations: int | None = None) -> Schedule:
    """Run a plan; where the instance has compute, for several iterations in a row.

    Raises CyclicPlan if enforced sequences, paths, launches and tasks wait for each other. Raises InputError if a
    sequence is no ordering of the stages of its resource, or the clock is too small.

    `iterations`: how many, at least 2, where there is compute; by default as many as it takes until they repeat each
      other.
    """
    _check_clock_once(instance)
    costs = plan.costs(instance)
    if not instance.tasks:
        return _run(instance, plan, costs, 1)
    if iterations is not None:
        return _run(instance, plan, costs, iterations)
    count = FEWEST_ITERATIONS
    while not (schedule := _run(instance, plan, costs, count)).period.is_steady and count < MOST_ITERATIONS:
        count *= 2
    return schedule


def _run(instance: Instance, plan: Plan, costs: StageCosts, iterations: int) -> Schedule:
    operations = build_operations(instance, plan, costs, iterations)
    start = start_times(operations).reshape(iterations, -1)
    whole = start[: max(iterations - 1, 1)]  # in the last of several, launches may wait for one more
    if whole.min() < 0:
        raise CyclicPlan(_describe_cycle(instance, plan, start[0]), field="sequences")
    tasks = len(instance.tasks)
    stages = start[:, tasks:]
    end = stages + costs.occupancy
    times = (stages.ravel(), end.ravel(), (end + costs.lag).ravel())
    return Schedule(instance, plan, *times, start[:, :tasks]).knowing(costs)


def build_operations(instance: Instance, plan: Plan, costs: StageCosts, iterations: int = 1) -> Operations:
    """The plan as the kernel sees it: per iteration the compute tasks in turn, then one operation per stage."""
    _check_clock_of_row(instance, costs, iterations)
    tasks = len(instance.tasks)
    successor_start, successor, num_predecessors = _waits(instance, plan, iterations)
    major, minor, sign = _priorities(instance, plan, costs, iterations)
    major, enforced = _enforced(instance, plan, major)

    stages = np.array([task.stage for task in instance.tasks], dtype=np.int64)

    def of_row(of_tasks: IntArray | int, of_stages: IntArray) -> IntArray:
        if not tasks and iterations == 1:
            return of_stages
        row = np.concatenate([np.full(tasks, of_tasks, dtype=np.int64), of_stages])
        return np.tile(row, iterations)

    return Operations(
        resource=of_row(instance.num_resources + stages, plan.stage_resources(instance)),
        duration=of_row(np.array([task.duration for task in instance.tasks], dtype=np.int64), costs.occupancy),
        lag=of_row(0, costs.lag),
        release=of_row(0, plan.releases(instance)),
        successor_start=successor_start,
        successor=successor,
        num_predecessors=num_predecessors,
        major=major.ravel(),
        minor=minor.ravel(),
        time_sign=sign.ravel(),
        enforced=enforced,
    )


def _check_clock_of_row(instance: Instance, costs: StageCosts, iterations: int) -> None:
    """Refuse iterations in a row that could outlast the clock, one operation after another."""
    total = iterations * (instance.work + float(np.sum(costs.occupancy + costs.lag, dtype=np.float64)))
    if total > MAX_CLOCK:
        time = format_seconds(total)
        rule = f"{iterations} of it, one operation after another, take {time}, more than the clock holds"
        raise InputError(rule, field="iteration")


Waits = tuple[IntArray, IntArray, IntArray]


def _waits(instance: Instance, plan: Plan, iterations: int) -> Waits:
    """Where the successors of each operation begin, successors, and for how many operations each waits."""
    if not instance.tasks and not any(launch.after_launches for launch in plan.launches):
        return _waits_along(tuple(chunks.paths.shape for chunks in plan.chunks))
    count = iterations * (len(instance.tasks) + plan.num_stages)
    before, after = _edges(instance, plan, iterations).T
    successor_start = np.searchsorted(before, np.arange(count + 1))
    return successor_start, np.ascontiguousarray(after), np.bincount(after, minlength=count)


@lru_cache(maxsize=256)
def _waits_along(shapes: tuple[tuple[int, ...], ...]) -> Waits:
    """Those along the paths alone, for the shapes (chunks, stages) of all collectives."""
    waits = np.concatenate([np.arange(chunks * length) % length > 0 for chunks, length in shapes])
    successor_start = np.concatenate([[0], np.cumsum(np.append(waits[1:], False))])
    return read_only(successor_start), read_only(np.flatnonzero(waits)), read_only(waits.astype(np.int64))


def _edges(instance: Instance, plan: Plan, iterations: int) -> IntArray:
    """Who waits for whom, shape (edges, 2), sorted by source so that successors of one operation stand together.

    Waits in iterations after the last are left out.  What waits for a later iteration has an edge whose source is
    beyond all operations: it is never reached.
    """
    tasks, stages = len(instance.tasks), plan.num_stages
    count = tasks + stages
    # Tasks of a stage in turn, and the first one of the next iteration after the last one of this.
    parts = [np.array([*pairwise(chain), (chain[-1], chain[0] + count)]) for chain in instance.chains]
    parts += [np.array([wait]) for wait in instance.waits]
    for number, launch in enumerate(plan.launches_of(instance)):
        parts += _launch_edges(plan, number, launch, tasks, count)
    inner = tasks + np.flatnonzero(plan.last_of_chunk != np.arange(stages))
    parts.append(np.stack([inner, inner + 1], axis=1))
    one = np.concatenate(parts)
    reach = (iterations + 1) * count  # above all numbers
    # One whole number per edge, which sorts many times faster than pairs do; shifting both ends adds a constant to it.
    keys = (one @ np.array([reach, 1]) + (np.arange(iterations) * count * (reach + 1))[:, None]).ravel()
    keys = np.sort(keys[keys % reach < iterations * count])
    return np.stack(np.divmod(keys, reach), axis=1)


def _launch_edges(plan: Plan, number: int, launch: Launch, tasks: int, count: int) -> list[IntArray]:
    """Edges into the first stages of the chunks of a launch, and out of their last ones."""
    first, last = (tasks + ends for ends in plan.ends_of_chunks[number])
    parts = [_all_pairs(tasks + plan.ends_of_chunks[other][1], first) for other in launch.after_launches]
    if launch.after is not None:
        parts.append(_all_pairs(_task(launch.after, count), first))
    if launch.before is not None:
        parts.append(_all_pairs(last, _task(launch.before, count)))
    return parts


def _task(of: TaskOf, count: int) -> IntArray:
    return np.array([of.task + of.later * count])


def _all_pairs(before: IntArray, after: IntArray) -> IntArray:
    return np.stack([np.repeat(before, len(after)), np.tile(after, len(before))], axis=1)


def _priorities(
    instance: Instance, plan: Plan, costs: StageCosts, iterations: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Keys of all operations, shape (iterations, operations): first by launch, then as the dispatch rule or keys say.

    Tasks need none: each waits for the one before it.
    """
    tasks, stages = len(instance.tasks), plan.num_stages
    keys = DISPATCH[plan.dispatch](costs, plan.last_of_chunk)
    keys_of_stages = keys.major if plan.keys is None else plan.keys
    ranks = _launch_ranks(instance, plan, iterations)
    major = np.zeros((iterations, tasks + stages))
    major[:, tasks:] = keys_of_stages
    if ranks.any():
        ranks = ranks[:, plan.launch_of_stage]
        major[:, tasks:] = _dense(ranks.ravel(), major[:, tasks:].ravel()).reshape(iterations, stages)
    minor, sign = (np.zeros((iterations, tasks + stages), dtype=np.int64) for _ in range(2))
    if plan.keys is None:
        minor[:, tasks:], sign[:, tasks:] = keys.minor, keys.time_sign
    return major, minor, sign


def _dense(first: FloatArray, second: FloatArray) -> FloatArray:
    """Whole numbers that order pairs as they are ordered, equal for equal pairs."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    differs = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    dense = np.zeros(len(order))
    dense[order] = np.concatenate([[0], np.cumsum(differs)])
    return dense


def _launch_ranks(instance: Instance, plan: Plan, iterations: int) -> FloatArray:
    """Priority of every launch of every iteration, the smallest first, shape (iterations, launches).

    Dispatch rules look at the time when a stage is ready themselves; keys do not, so that with them launches are
    ranked by the tasks that release them.
    """
    tasks, launches = len(instance.tasks), plan.launches_of(instance)
    row = np.arange(iterations, dtype=np.float64)[:, None]
    ranks = np.zeros((iterations, len(launches)))
    if plan.order == "newest":
        ranks = -(row * len(launches) + np.arange(len(launches)))
    elif plan.order == "layer":
        ranks = row * tasks + np.array(_needed(launches, tasks))
    elif plan.keys is not None:
        ranks = row * tasks + np.array([_moment(launch.after, tasks) for launch in launches])
    ranks[:, [launch.urgent for launch in launches]] = -np.inf
    return ranks


def _needed(launches: Sequence[Launch], tasks: int) -> list[int]:
    """The first task that needs the result of each launch, or of a launch that waits for it."""
    needed = [_moment(launch.before, tasks) for launch in launches]
    waiting = list(range(len(launches)))
    while waiting:
        number = waiting.pop()
        for earlier in launches[number].after_launches:
            if needed[number] < needed[earlier]:
                needed[earlier] = needed[number]
                waiting.append(earlier)
    return needed


def _moment(task: TaskOf | None, tasks: int) -> int:
    """Place of a task among those of two iterations; before all of them where there is none."""
    return -1 if task is None else task.task + tasks * task.later


def _enforced(instance: Instance, plan: Plan, major: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Major keys, shape (iterations, operations), with the place in the sequence where one is enforced, and where.

    The stage that a sequence serves `shift` periods after its iteration began belongs, in period p, to iteration
    p - shift; those of iterations before the first and after the last are not there.
    """
    row: IntArray | int
    iterations, tasks = len(major), len(instance.tasks)
    enforced: BoolArray = np.zeros(instance.num_resources + len(instance.chains), dtype=np.bool_)
    if not plan.sequences:
        return major, enforced
    _check_sequences(instance, plan)
    major = major.copy()
    for resource, sequence in enumerate(plan.sequences):
        if sequence is None:
            continue
        enforced[resource] = True
        row, stage = _turns(plan, sequence, iterations) if iterations > 1 else (0, sequence)
        major[row, tasks + stage] = np.arange(np.size(stage))
    return major, enforced


def _turns(plan: Plan, sequence: IntArray, iterations: int) -> tuple[IntArray, IntArray]:
    """Iterations and stages in the order in which a sequence serves them, period after period."""
    shifts = plan.shifts if len(plan.shifts) else np.zeros(plan.num_stages, dtype=np.int64)
    periods = np.arange(iterations + int(shifts.max(initial=0)))
    row = (periods[:, None] - shifts[sequence]).ravel()
    inside = (row >= 0) & (row < iterations)
    return row[inside], np.tile(sequence, len(periods))[inside]


def _check_sequences(instance: Instance, plan: Plan) -> None:
    if len(plan.sequences) != instance.num_resources:
        raise InputError(f"must have one entry per dimension ({instance.num_resources})", field="sequences")
    if not _lists_each_stage_once(plan, plan.stage_resources(instance)):
        names = (f"sequences.{name}" for name in instance.resource_names)
        check_sequences(instance, plan, dict(zip(names, plan.sequences, strict=True)))


def _lists_each_stage_once(plan: Plan, resources: IntArray) -> bool:
    """Whether every resource has a sequence, and each stage stands once, in that of its resource."""
    known = [sequence for sequence in plan.sequences if sequence is not None]
    if len(known) < len(plan.sequences) or sum(map(len, known)) != len(resources):
        return False
    served = np.full(len(resources), -1)
    for resource, sequence in enumerate(known):
        if len(sequence) and not 0 <= sequence.min() <= sequence.max() < len(resources):
            return False
        served[sequence] = resource  # a stage that stands twice leaves another without a resource
    return bool((served == resources).all())


def _describe_cycle(instance: Instance, plan: Plan, start: IntArray) -> str:
    """Name stages of one iteration that wait for each other: each waits for its chunk or its sequence."""
    if instance.tasks or any(launch.after_launches for launch in plan.launches):
        return "launches, tasks and sequences wait for each other"
    waits_for: dict[int, int] = {}
    before = {int(b): int(a) for s in plan.sequences if s is not None for a, b in pairwise(s)}
    stuck = set(np.flatnonzero(start < 0).tolist())
    for stage in stuck:
        before_it = stage - 1 if plan.positions[stage] else -1
        waits_for[stage] = before_it if before_it in stuck else before[stage]
    return "stages wait for each other: " + " <- ".join(plan.label(instance, s) for s in _cycle(waits_for, min(stuck)))


def _cycle(waits_for: dict[int, int], stage: int) -> list[int]:
    seen: list[int] = []
    while stage not in seen:
        seen.append(stage)
        stage = waits_for[stage]
    return [*seen[seen.index(stage) :], stage]

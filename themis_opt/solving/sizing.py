"""Free chunk sizes: the sizes that suit a schedule best, in whole elements."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from formulations.chunk_sizes import END, SizingData, best_shares
from formulations.job_plans import SizedOutcome
from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.cost import fixed_occupancy, rails_offset, variable_occupancy
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

MAX_SIZED_STAGES = 4_000  # stages up to which sizes of chunks are chosen: on more, the solver gives up after a second
SizeWait = tuple[int, int, int, int]  # events i and j, the height, and 1 if j waits for the result of i


def resized(schedule: Schedule) -> Schedule:
    """The same launches, paths and sequences with the best chunk sizes.

    They come from :mod:`formulations.chunk_sizes`.  Sizes are whole multiples of :func:`granule`; chunks that end with
    nothing are dropped.  The schedule itself is returned where rounding leaves no gain, or the solver gives up; where
    there are more than :data:`MAX_SIZED_STAGES`, or iterations do not repeat each other; and where halves of
    all-reduces are launched alone.
    """
    is_whole = all(launch.part == "whole" for launch in schedule.plan.launches)
    has_free_sizes = not schedule.has_period or (is_whole and schedule.period.is_steady)
    if schedule.plan.num_stages > MAX_SIZED_STAGES or not has_free_sizes:
        return schedule
    plan = schedule.enforced_plan()
    try:
        shares = best_shares(_data(schedule, plan))
        resized = simulate(schedule.instance, with_shares(plan, schedule.instance, shares))
    except (ArithmeticError, CyclicPlan):
        return schedule
    return min(schedule, resized, key=lambda candidate: candidate.makespan)


def granule(instance: Instance, exchange: Exchange) -> int:
    """Bytes that free chunk sizes of a collective are multiples of: one element for every NPU it spans."""
    npus = math.prod(instance.fabric.sizes[k] for k in exchange.span)
    whole = npus * exchange.element_bytes
    return whole if exchange.size % whole == 0 else exchange.element_bytes


@dataclass(frozen=True)
class AffineTimes:
    """How the holding times of a plan's stages depend on the shares that its chunks have of their collectives.

    `rate`, `fixed`, shape (stages,): picoseconds for the whole collective, and whatever the share.
    `chunk`, shape (stages,): chunk of each stage, numbered through.
    `group`, shape (chunks,): collective of each chunk.
    """

    rate: FloatArray
    fixed: FloatArray
    chunk: IntArray
    group: IntArray


def affine_times(instance: Instance, plan: Plan, sent: FloatArray) -> AffineTimes:
    """Holding times without the rounding to whole packets and picoseconds, from the bytes that each stage sends.

    On rails, where times are concave in the bytes, they are those of the line that touches there.
    """
    counts = np.array([c.paths.shape[1] for c in plan.chunks for _ in c.sizes])
    chunk = np.repeat(np.arange(len(counts)), counts)
    group = np.repeat(np.arange(len(plan.chunks)), [len(c.sizes) for c in plan.chunks])
    totals = np.array([exchange.size for exchange in plan.launched(instance)], dtype=np.float64)
    chunk_sizes = np.concatenate([c.sizes for c in plan.chunks])[chunk]
    phases, dimensions = plan.phases(instance), plan.stage_dimensions
    variable = variable_occupancy(instance, phases, dimensions, sent, whole_packets=False)
    offset = rails_offset(instance, phases, dimensions, sent)
    fixed = fixed_occupancy(instance, phases, dimensions) + offset
    rate = np.maximum(variable - offset, 0.0) / chunk_sizes * totals[group[chunk]]
    return AffineTimes(rate, fixed.astype(np.float64), chunk, group)


def _data(schedule: Schedule, plan: Plan) -> SizingData:
    """The data of tasks and stages, whose sequences are those of the enforced `plan`."""
    tasks = np.array([task.duration for task in schedule.instance.tasks], dtype=np.float64)
    times = affine_times(schedule.instance, plan, schedule.costs.sent)
    none = np.zeros(len(tasks))
    waits = _period_waits(schedule, plan) if schedule.has_period else _waits(plan, times.chunk)
    return SizingData(
        rate=np.concatenate([none, times.rate]),
        fixed=np.concatenate([tasks, times.fixed]),
        lag=np.concatenate([none, schedule.costs.lag]),
        release=np.concatenate([none, plan.releases(schedule.instance)]),
        job=np.concatenate([none.astype(np.int64), times.chunk]),
        group=times.group,
        waits=np.array(list(waits), dtype=np.int64),
    )


def _waits(plan: Plan, chunk: IntArray) -> Iterator[SizeWait]:
    """What waits for what among stages of these chunks."""
    follows = chunk[1:] == chunk[:-1]
    yield from ((stage, stage + 1, 0, 1) for stage in np.flatnonzero(follows).tolist())
    for sequence in plan.sequences:
        yield from ((one, other, 0, 0) for one, other in pairwise([] if sequence is None else sequence.tolist()))
    yield from ((stage, END, 1, 1) for stage in np.flatnonzero(~np.append(follows, False)).tolist())


def _period_waits(schedule: Schedule, plan: Plan) -> Iterator[SizeWait]:
    """What waits for what: tasks, then stages, numbered through."""
    tasks = len(schedule.instance.tasks)
    for chain in schedule.instance.chains:
        yield from ((one, other, 0, 0) for one, other in pairwise(chain))
        yield chain[-1], chain[0], 1, 0
    yield from ((one, other, 0, 0) for one, other in schedule.instance.waits)
    for number, launch in enumerate(plan.launches_of(schedule.instance)):
        first, last = (ends.tolist() for ends in plan.ends_of_chunks[number])
        if launch.after is not None:
            yield from ((launch.after.task, tasks + stage, -launch.after.later, 0) for stage in first)
        if launch.before is not None:
            yield from ((tasks + stage, launch.before.task, launch.before.later, 1) for stage in last)
        before = [int(stage) for other in launch.after_launches for stage in plan.ends_of_chunks[other][1]]
        yield from ((tasks + one, tasks + other, 0, 1) for one in before for other in first)
        for start, end in zip(first, last, strict=True):
            yield from ((tasks + stage, tasks + stage + 1, 0, 1) for stage in range(start, end))
    for sequence in plan.sequences:
        yield from _turns(sequence, plan.shifts, tasks)


def _turns(sequence: IntArray | None, shifts: IntArray, tasks: int) -> Iterator[SizeWait]:
    """Each stage of a resource waits for the one before it, the first for the last of the period before."""
    served = [] if sequence is None else sequence.tolist()
    for place, (one, other) in enumerate(zip(served, served[1:] + served[:1], strict=True)):
        next_period = int(place == len(served) - 1)
        yield tasks + one, tasks + other, int(shifts[one] - shifts[other]) + next_period, 0


def with_shares(plan: Plan, instance: Instance, shares: FloatArray) -> Plan:
    """The chunks of a plan in new sizes, by the share of each of its launch; those that get nothing are dropped."""
    cuts = np.cumsum([len(c.sizes) for c in plan.chunks])[:-1]
    pairs = zip(np.split(shares, cuts), plan.launched(instance), strict=True)
    return with_sizes(plan, [rounded(part, exchange.size, granule(instance, exchange)) for part, exchange in pairs])


def with_sizes(plan: Plan, sizes: Sequence[IntArray]) -> Plan:
    """The chunks of a plan in other sizes, one array per launch; those that get nothing are dropped."""
    keep = [size > 0 for size in sizes]
    chunks = tuple(Chunks(s[k], c.paths[k]) for s, k, c in zip(sizes, keep, plan.chunks, strict=True))
    alive = np.concatenate([np.repeat(k, c.paths.shape[1]) for k, c in zip(keep, plan.chunks, strict=True)])
    number = np.cumsum(alive) - 1
    sequences = tuple(number[s[alive[s]]] for s in plan.sequences if s is not None)
    shifts = plan.shifts[alive] if len(plan.shifts) else plan.shifts
    keys = None if plan.keys is None else plan.keys[alive]
    return replace(plan, chunks=chunks, keys=keys, sequences=sequences, shifts=shifts)


def plan_with_shares(instance: Instance, outcome: SizedOutcome) -> Plan:
    """The paths, sequences and sizes of a plan for the only collective."""
    paths = np.array([[k for phase in job.paths for k in phase] for job in outcome.jobs])
    starts = np.array([s for job in outcome.jobs for phase in job.starts for s in phase])
    plan = Plan((Chunks(np.ones(len(paths), dtype=np.int64), paths),)).in_order_of(instance, starts)
    return with_shares(plan, instance, np.array(outcome.shares))


def scaled(plan: Plan, instance: Instance) -> Plan:
    """The plan with every launch as large as in the instance; launches of the right size stay as they are."""
    pairs = zip(plan.chunks, plan.launched(instance), strict=True)
    return with_sizes(plan, [_scaled_sizes(chunks.sizes, exchange, instance) for chunks, exchange in pairs])


def _scaled_sizes(sizes: IntArray, exchange: Exchange, instance: Instance) -> IntArray:
    if sizes.sum() == exchange.size and (sizes % exchange.element_bytes == 0).all():
        return sizes
    return rounded(sizes.astype(np.float64), exchange.size, granule(instance, exchange))


def rounded(shares: FloatArray, total: int, unit: int) -> IntArray:
    """Sizes that sum to `total`, in multiples of `unit`, nearest to the shares (largest remainders first)."""
    units = total // unit
    exact = shares / shares.sum() * units
    sizes = np.floor(exact).astype(np.int64)
    missing = units - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:missing]] += 1
    whole: IntArray = sizes * unit
    return whole


def replanned(schedule: Schedule, instance: Instance, sizes: Literal["equal", "free"] | None = None) -> Schedule:
    """The plan of a schedule, simulated again; the schedule itself where nothing changes.

    `instance`: the same exchanges and dimensions, perhaps with other costs.
    `sizes`: chunks of equal size, or of the sizes that suit the order of the plan best, not the present ones; paths and
      orders stay, and so does the number of chunks, but for those that end with nothing.
    """
    plan = _with_equal_sizes(schedule.plan, instance) if sizes == "equal" else schedule.plan
    is_same = plan is schedule.plan and instance is schedule.instance
    changed = schedule if is_same else simulate(instance, plan)
    return resized(changed) if sizes == "free" else changed


def _with_equal_sizes(plan: Plan, instance: Instance) -> Plan:
    chunks = tuple(
        replace(chunks, sizes=equal_sizes(replace(exchange, max_chunks=len(chunks.sizes))))
        for chunks, exchange in zip(plan.chunks, plan.launched(instance), strict=True)
    )
    return replace(plan, chunks=chunks)

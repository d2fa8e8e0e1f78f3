"""Sizes and numbers of chunks of a schedule of iterations whose paths and sequences stay."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from formulations.period_sizes import PeriodSizingData, best_period_shares
from themis_opt.cost import FloatArray, IntArray
from themis_opt.errors import CyclicPlan
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan, stream_of
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import sequences_of, simulate_iterations
from themis_opt.plan import Plan
from themis_opt.refinement import refined
from themis_opt.sizing import affine_times, granule, rounded, with_sizes

MAX_STAGES = 4_000
"""Largest plan whose sizes are optimised."""

Wait = tuple[int, int, int, float]
"""Events i and j, the height and the lag."""


def resized(schedule: IterationSchedule) -> IterationSchedule:
    """The same launches, paths and sequences with the best chunk sizes (:mod:`formulations.period_sizes`).

    The schedule itself is returned where that is no gain, where it does not repeat itself, and where halves of
    all-reduces are launched on their own.
    """
    plan = schedule.plan
    halves = any(launch.part != "whole" for launch in plan.launches)
    if halves or not schedule.is_steady or plan.chunks.num_stages > MAX_STAGES:
        return schedule
    sequences = sequences_of(schedule)
    try:
        shares = best_period_shares(_sizing_data(schedule, sequences))
        found = simulate_iterations(schedule.instance, _with_shares(plan, sequences, shares))
    except (ArithmeticError, CyclicPlan):
        return schedule
    return min(schedule, found, key=lambda own: own.iteration_time)


def refined_plan(instance: IterationInstance, schedule: IterationSchedule) -> IterationPlan:
    """The plan of a schedule of few chunks with as many equal ones as the instance says (:mod:`themis_opt.refinement`).

    Every chunk is replaced by its share of them, which keep its path and its place in the sequences.
    """
    plan, sequences = schedule.plan, sequences_of(schedule)
    stream = stream_of(instance, plan.launches)
    counts = [
        rounded(own.sizes.astype(np.float64), collective.chunks, 1)
        for own, collective in zip(plan.chunks.chunks, stream.collectives, strict=True)
    ]
    fine = refined(plan.chunks.enforcing(tuple(s[:, 0] for s in sequences)), stream, counts)
    later = np.zeros(plan.chunks.num_stages, dtype=np.int64)
    for sequence in sequences:
        later[sequence[:, 0]] = sequence[:, 1]
    parts = [
        np.repeat(own.reshape(c.paths.shape), count, axis=0).ravel()
        for own, c, count in zip(np.split(later, plan.chunks.offsets[1:-1]), plan.chunks.chunks, counts, strict=True)
    ]
    fine_later = np.concatenate(parts)
    kept = tuple(np.stack([own, fine_later[own]], axis=1) for own in fine.sequences if own is not None)
    return replace(plan, stream=stream, chunks=Plan(fine.chunks, plan.chunks.dispatch), keys=None, sequences=kept)


def _sizing_data(schedule: IterationSchedule, sequences: Sequence[IntArray]) -> PeriodSizingData:
    tasks = np.array([task.duration for task in schedule.instance.iteration.tasks], dtype=np.float64)
    times = affine_times(schedule.plan.stream, schedule.plan.chunks, schedule.costs.sent)
    waits = list(_waits(schedule, sequences))
    none = np.zeros(len(tasks))
    return PeriodSizingData(
        rate=np.concatenate([none, times.rate]),
        fixed=np.concatenate([tasks, times.fixed]),
        job=np.concatenate([none.astype(np.int64), times.chunk]),
        group=times.group,
        waits=np.array([wait[:3] for wait in waits], dtype=np.int64),
        lag=np.array([wait[3] for wait in waits]),
    )


def _waits(schedule: IterationSchedule, sequences: Sequence[IntArray]) -> Iterator[Wait]:
    """What waits for what: tasks, then stages, numbered through."""
    plan, tasks = schedule.plan, len(schedule.instance.iteration.tasks)
    lag = schedule.costs.lag.tolist()
    yield from ((task, task + 1, 0, 0.0) for task in range(tasks - 1))
    yield tasks - 1, 0, 1, 0.0
    for number, launch in enumerate(plan.launches):
        first, last = (ends.tolist() for ends in plan.ends_of_chunks[number])
        yield from ((launch.after.task, tasks + stage, -launch.after.later, 0.0) for stage in first)
        yield from ((tasks + stage, launch.before.task, launch.before.later, lag[stage]) for stage in last)
        before = [int(stage) for other in launch.after_launches for stage in plan.ends_of_chunks[other][1]]
        yield from ((tasks + one, tasks + other, 0, lag[one]) for one in before for other in first)
        for start, end in zip(first, last, strict=True):
            yield from ((tasks + stage, tasks + stage + 1, 0, lag[stage]) for stage in range(start, end))
    for sequence in sequences:
        served = sequence.tolist()
        for (one, later), (other, also_later) in zip(served, served[1:] + served[:1], strict=True):
            next_period = int((other, also_later) == tuple(served[0]))
            yield tasks + one, tasks + other, later - also_later + next_period, 0.0


def _with_shares(plan: IterationPlan, sequences: Sequence[IntArray], shares: FloatArray) -> IterationPlan:
    """The plan with new sizes; chunks that get nothing are dropped."""
    cuts = np.cumsum([len(c.sizes) for c in plan.chunks.chunks])[:-1]
    sizes = [
        rounded(part, plan.stream.collectives[number].size, granule(plan.stream, number))
        for number, part in enumerate(np.split(shares, cuts))
    ]
    chunks = with_sizes(plan.chunks.enforcing(tuple(s[:, 0] for s in sequences)), sizes)
    alive = np.concatenate(
        [np.repeat(own > 0, c.paths.shape[1]) for own, c in zip(sizes, plan.chunks.chunks, strict=True)]
    )
    later = [s[alive[s[:, 0]], 1] for s in sequences]
    kept = tuple(
        np.stack([stages, own], axis=1)
        for stages, own in zip((s for s in chunks.sequences if s is not None), later, strict=True)
    )
    return replace(plan, chunks=Plan(chunks.chunks, plan.chunks.dispatch), keys=None, sequences=kept)

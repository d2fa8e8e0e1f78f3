"""The chunk-order problem by enumeration: every path, every machine sequence."""

from collections.abc import Iterator
from itertools import pairwise, permutations

from formulations.chunk_order import JobPlans
from formulations.lattice import JobClass, JobPhase

Stages = tuple[tuple[int, int, int], ...]  # resource, duration and lag of each stage of a job, in order


def paths(job: JobClass) -> Iterator[Stages]:
    """All ways of one job through its phases."""
    for first in permutations(job.machines):
        for second in seconds(job, first):
            yield tuple(
                stage
                for phase, order in zip(job.phases, (first, second), strict=False)
                for stage in along(phase, order)
            )


def seconds(job: JobClass, first: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Orders of the second phase; one that stands for nothing where there is none."""
    if len(job.phases) == 1:
        yield ()
    elif job.mirrored:
        yield first[::-1]
    else:
        yield from permutations(job.machines)


def along(phase: JobPhase, order: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """The stages of one phase."""
    visited = 0
    for machine in order:
        yield phase.held(machine), int(phase.duration[visited, machine]), int(phase.lag[machine])
        visited |= 1 << machine


def brute_force(jobs: list[JobClass]) -> int:
    """Least makespan over all paths and all machine sequences.

    Every sequence has a topological order: appending stages job by job in all interleavings, each as early as
    its machine and its input allow, meets the best schedule.  Within a phase the results of *all* earlier stages
    are waited for.
    """
    single = [job for job in jobs for _ in range(job.count)]
    best = sum(int(job.release) + sum(sum(stage[1:]) for stage in max(paths(job), key=total)) for job in single)

    def extend(remaining: tuple[Stages, ...], ready: tuple[int, ...], free: dict[int, int], makespan: int) -> None:
        nonlocal best
        if makespan >= best:
            return
        if not any(remaining):
            best = makespan
            return
        for i, stages in enumerate(remaining):
            if stages:
                machine, duration, lag = stages[0]
                end = max(ready[i], free.get(machine, 0)) + duration
                extend(
                    (*remaining[:i], stages[1:], *remaining[i + 1 :]),
                    (*ready[:i], end + lag, *ready[i + 1 :]),
                    free | {machine: end},
                    max(makespan, end + lag),
                )

    for chosen in combinations_of_paths(single):
        extend(chosen, tuple(int(job.release) for job in single), {}, 0)
    return best


def total(stages: Stages) -> int:
    return sum(duration + lag for _, duration, lag in stages)


def combinations_of_paths(jobs: list[JobClass]) -> Iterator[tuple[Stages, ...]]:
    if not jobs:
        yield ()
        return
    for path in paths(jobs[0]):
        for others in combinations_of_paths(jobs[1:]):
            yield (path, *others)


def recomputed_makespan(jobs: list[JobClass], plans: JobPlans) -> int:
    """The makespan of a solution, from its paths and starts; fails if it breaks a rule."""
    busy: dict[int, list[tuple[int, int]]] = {}
    makespan = 0
    for job, plans_of_class in zip(jobs, plans, strict=True):
        assert len(plans_of_class) == job.count
        for times in plans_of_class:
            ready = int(job.release)
            if job.mirrored:
                assert times.paths[1] == times.paths[0][::-1]
            for phase, order, starts in zip(job.phases, times.paths, times.starts, strict=True):
                assert sorted(order) == sorted(job.machines)
                for (machine, duration, lag), start in zip(along(phase, order), starts, strict=True):
                    assert start >= ready
                    busy.setdefault(machine, []).append((start, start + duration))
                    ready = start + duration + lag
            makespan = max(makespan, ready)
    for intervals in busy.values():
        intervals.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(intervals))
    return makespan

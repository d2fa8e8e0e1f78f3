"""Chunk counts on cases that can be solved by hand, and against enumeration."""

import random
from collections.abc import Iterator

import pytest
from brute_force import brute_force

from formulations.chunk_count import ChunkCount
from formulations.lattice import JobClass, JobPhase, arcs

SEEDS = range(12)


def jobs(*rates: float, phases: int = 1, lag: float = 0.0, release: float = 0.0) -> JobClass:
    """A class that holds machine k for `rates[k]` in each phase, whatever the order."""
    machines = tuple(range(len(rates)))
    phase = JobPhase({arc: rates[arc[1]] for arc in arcs(machines)}, dict.fromkeys(machines, lag))
    return JobClass(machines, (phase,) * phases, release=release)


def counted(whole: JobClass, fixed: JobClass, most: int) -> ChunkCount:
    return ChunkCount([whole], [fixed], [most])


def test_every_job_costs_what_is_fixed() -> None:
    """On one machine one job is best: 10 and 3."""
    count = counted(jobs(10), jobs(3), 8)
    assert [count.bound_of((n,)) for n in (1, 2, 3)] == pytest.approx([13, 16, 19])
    assert count.bound() == pytest.approx(13)


def test_few_jobs_are_long_chains() -> None:
    """One job passes both machines in 10 + 10; two hold each for 10, one after a half of 5 elsewhere."""
    count = counted(jobs(10, 10), jobs(0, 0), 2)
    assert count.bound_of((1,)) == pytest.approx(20)
    assert count.bound_of((2,)) == pytest.approx(10)


def test_the_best_number_is_between_loads_and_chains() -> None:
    """Chains take 40 / n + 2, loads 20 + n: at 2 jobs both are 22."""
    count = counted(jobs(20, 20), jobs(1, 1), 64)
    assert [round(count.bound_of((n,)), 6) for n in (1, 2, 3)] == [42, 22, 23]
    assert count.bound() == pytest.approx(22)


def test_no_more_jobs_than_allowed() -> None:
    assert counted(jobs(20, 20, 20), jobs(0, 0, 0), 2).bound() == pytest.approx(30)


def test_gathers_wait_for_whole_scatters() -> None:
    """Of 3 jobs the three gathers take 12 + 3 on machine 0, each after 2 + 2 x 1 of scatters, and a lag after."""
    fixed, slow = jobs(1, 1, phases=2, lag=1), jobs(0, 0, phases=1).phases[0]
    gather = JobPhase({arc: 12.0 if arc[1] == 0 else 0.0 for arc in slow.duration}, slow.lag)
    count = counted(JobClass((0, 1), (slow, gather)), fixed, 3)
    assert count.loads((3,)) == pytest.approx(max(4 + 15 + 1, 18 + 1))


def test_gathers_of_several_classes_wait_for_the_shortest_scatters() -> None:
    """Gathers of 12 + 1 and 20 + 3 on machine 0, after scatters of 2 x (1 + 1) or 2 x (3 + 4) and before a lag of 2."""
    slow = jobs(0, 0).phases[0]
    gathers = [
        JobPhase({arc: time if arc[1] == 0 else 0.0 for arc in slow.duration}, slow.lag) for time in (12.0, 20.0)
    ]
    whole = [JobClass((0, 1), (slow, gather)) for gather in gathers]
    least = [
        JobClass((0, 1), (jobs(1, 1, lag=1).phases[0], jobs(1, 0, lag=5).phases[0])),
        JobClass((0, 1), (jobs(3, 3, lag=4).phases[0], jobs(3, 0, lag=2).phases[0])),
    ]
    for order in (slice(None), slice(None, None, -1)):
        count = ChunkCount(whole[order], least[order], [1, 1])
        assert count.loads((1, 1)) == pytest.approx(4 + 13 + 23 + 2)


def test_releases_and_classes_add_up() -> None:
    both = ChunkCount([jobs(10), jobs(5, release=20)], [jobs(1), jobs(1)], [4, 4])
    assert both.bound_of((1, 2)) == pytest.approx(max(20 + 7, 11 + 7))
    assert both.bound() == pytest.approx(26)


def test_the_class_with_the_least_lag_may_be_the_last() -> None:
    """Of two jobs on one machine, that of lag 5 may go first."""
    assert ChunkCount([jobs(10), jobs(10)], [jobs(0), jobs(0, lag=5)], [1, 1]).loads((1, 1)) == pytest.approx(20)


def partitions(units: int, count: int) -> Iterator[tuple[int, ...]]:
    """Sizes of `count` jobs, the largest first."""
    if count == 1:
        yield (units,)
        return
    for largest in range(units - count + 1, 0, -1):
        yield from ((largest, *rest) for rest in partitions(units - largest, count - 1) if rest[0] <= largest)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_sizes_beat_the_bound(seed: int) -> None:
    """Every number of jobs, every split in units, every path and every sequence."""
    generator, units = random.Random(seed), 6
    phases = seed % 2 + 1
    rates = [{arc: generator.randint(0, 12) for arc in arcs((0, 1))} for _ in range(phases)]
    fixed = [{k: generator.randint(0, 9) for k in (0, 1)} for _ in range(phases)]
    lags = [{k: generator.randint(0, 9) for k in (0, 1)} for _ in range(phases)]
    mirrored = phases == 2 and bool(generator.randint(0, 1))

    def job(size: int, start: int) -> JobClass:
        each = (
            JobPhase({arc: d * size + start * fixed_of_phase[arc[1]] for arc, d in rate.items()}, lag)
            for rate, fixed_of_phase, lag in zip(rates, fixed, lags, strict=True)
        )
        return JobClass((0, 1), tuple(each), mirrored=mirrored)

    most = 3 if phases == 1 else 2
    count = counted(job(units, 0), job(0, 1), most)
    best = [
        min(brute_force([job(size, 1) for size in sizes]) for sizes in partitions(units, n)) for n in (1, 2, 3)[:most]
    ]
    assert all(count.bound_of((n,)) <= least * (1 + 1e-9) for n, least in enumerate(best, start=1))
    assert count.bound() <= min(best) * (1 + 1e-9)

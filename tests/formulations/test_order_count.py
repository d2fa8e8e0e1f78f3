"""The integer flow of equal jobs on cases that can be solved by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.fluid import fluid_bound
from formulations.lattice import JobClass, JobPhase, arcs
from formulations.limits import Limits
from formulations.order_count import order_count_bound

EXACTLY = Limits(seconds=600.0, workers=1, gap=0.0)


def bound(*jobs: JobClass) -> int:
    return order_count_bound(jobs, EXACTLY)


NO_LAG = {0: 0, 1: 0}
FREE = JobPhase({(0, 0): 3, (1, 1): 1, (0, 1): 6, (2, 0): 1}, NO_LAG)
"""Machine 0 first: loads 3 and 1.  Machine 1 first: loads 1 and 6."""


def on_one(lag: int, count: int, release: int = 0) -> JobClass:
    """Jobs that hold one machine for 5."""
    return JobClass((0,), (JobPhase({(0, 0): 5}, {0: lag}),), count=count, release=release)


def apart(first: int, second: int, lags: tuple[int, int]) -> JobClass:
    """Two jobs that go to machine 0 first, as the other way is out of the question: it would take 1000."""
    phase = JobPhase({(0, 0): first, (1, 1): second, (0, 1): 1000, (2, 0): 1}, dict(enumerate(lags)))
    return JobClass((0, 1), (phase,), count=2)


BY_HAND = {
    "a machine serves all jobs one after another": ([on_one(2, 3)], 3 * 5 + 2),
    "a release delays head and load": ([on_one(2, 3, release=10)], 10 + 3 * 5 + 2),
    "loads of two classes add up": ([on_one(0, 2), on_one(0, 1)], 15),
    # Starting on 0, machine 1 waits 3 and works 1; starting on 1, machine 0 waits 6 and works 1.
    "a job takes a whole order": ([JobClass((0, 1), (FREE,))], 4),
    # Of three jobs two start on machine 0 (loads 7 and 8) or all do (9, and a wait of 3 for machine 1).
    "whole jobs cannot balance the machines": ([JobClass((0, 1), (FREE,), count=3)], 8),
    "a machine waits for the first stage elsewhere": ([apart(3, 5, (2, 0))], (3 + 2) + 2 * 5),
    "a machine has a last stage elsewhere behind it": ([apart(5, 3, (0, 2))], 2 * 5 + (3 + 2)),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_bounds_are_those_by_hand(case: str) -> None:
    jobs, least = BY_HAND[case]
    assert bound(*jobs) == least


def test_a_mirrored_second_phase_pays_for_the_order_of_the_first() -> None:
    """Free, both phases are cheap on machine 0 first; the reverse of that order is costly."""
    dear_second = JobPhase({(0, 0): 3, (1, 1): 1, (0, 1): 60, (2, 0): 1}, NO_LAG)
    job = JobClass((0, 1), (FREE, dear_second))
    assert bound(replace(job, mirrored=True)) > bound(job)


@pytest.mark.parametrize("budget", [Limits(seconds=0.01, workers=1), Limits(seconds=1e-6, deterministic=True)])
def test_a_search_without_time_still_returns_a_bound(budget: Limits) -> None:
    assert 0 <= order_count_bound([JobClass((0, 1), (FREE,), count=10**6)], budget) <= 10**6 * 3 + 10**6


def test_a_bound_does_not_creep_up_tick_by_tick() -> None:
    """CP-SAT counts hardly any work for such steps, so that a limit of work does not end them."""
    few = JobPhase({(0, 0): 102553, (0, 1): 58, (1, 1): 58, (2, 0): 102553}, NO_LAG)
    many = JobPhase({(0, 0): 15396625, (0, 1): 14853226, (1, 1): 1650358, (2, 0): 1539662}, NO_LAG)
    late = JobClass((0, 1), (many,), count=4, release=54)
    jobs = [JobClass((0, 1), (few,), count=5), late, late]
    work = order_count_bound(jobs, Limits(seconds=0.5, gap=1e-5, deterministic=True))
    assert work >= order_count_bound(jobs, EXACTLY) * (1 - 1e-5)


@given(st.lists(st.integers(1, 1000), min_size=12, max_size=12), st.integers(1, 5))
def test_whole_jobs_are_never_below_the_fluid_bound(durations: list[int], count: int) -> None:
    machines = (0, 1, 2)
    lag = dict.fromkeys(machines, 0)
    job = JobClass(machines, (JobPhase(dict(zip(arcs(machines), durations, strict=True)), lag),), count)
    whole = JobClass(machines, (JobPhase({a: d * count for a, d in job.phases[0].duration.items()}, lag),))
    assert bound(job) >= fluid_bound([whole]) * (1 - 1e-9)

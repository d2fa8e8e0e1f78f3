"""The fluid relaxation on cases that can be solved by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.fluid import fluid_bound, least_lag, rows
from formulations.lattice import JobClass, JobPhase, arcs


def one_machine(duration: float, lag: float = 0, release: float = 0, machine: int = 0) -> JobClass:
    return JobClass((machine,), (JobPhase({(0, machine): duration}, {machine: lag}),), release=release)


TWO_ORDERS = JobClass((0, 1), (JobPhase({(0, 0): 3, (1, 1): 1, (0, 1): 6, (2, 0): 1}, {0: 0, 1: 0}),))
"""Machine 0 first: loads 3 and 1.  Machine 1 first: loads 1 and 6.  Best: 5/7 and 2/7, both loads 17/7."""


@pytest.mark.parametrize(
    ("jobs", "bound"),
    [
        ([one_machine(5, lag=2)], 7),
        ([one_machine(5), one_machine(7)], 12),
        ([one_machine(5), one_machine(7, machine=1)], 7),
        ([TWO_ORDERS], 17 / 7),
        ([one_machine(5, release=10)], 15),
        ([one_machine(2), one_machine(5, release=10)], 15),  # what comes later does not wait for what came before
        ([one_machine(20), one_machine(5, release=10)], 25),  # all load counts from the first release
        ([one_machine(5, lag=2), one_machine(5, lag=1)], 11),  # the least lag on the machine counts
    ],
)
def test_loads_lags_and_releases_count(jobs: list[JobClass], bound: float) -> None:
    assert fluid_bound(jobs) == pytest.approx(bound)


def test_the_least_lag_ignores_classes_released_earlier() -> None:
    assert least_lag([one_machine(5, lag=1), one_machine(5, lag=2, release=10)], threshold=10, resource=0) == 2


def test_a_mirrored_job_cannot_choose_its_second_phase() -> None:
    """Scattering 0 then 1 costs 4 on machine 0; its reverse costs 4 there again.  Free, both phases avoid that."""
    scatter = JobPhase({(0, 0): 4, (1, 1): 0, (0, 1): 0, (2, 0): 4}, {0: 0, 1: 0})
    gather = JobPhase({(0, 0): 0, (1, 1): 9, (0, 1): 9, (2, 0): 8}, {0: 0, 1: 0})
    free = fluid_bound([JobClass((0, 1), (scatter, gather))])
    assert fluid_bound([JobClass((0, 1), (scatter, gather), mirrored=True)]) >= free


def test_there_is_a_row_per_threshold_and_machine_in_use() -> None:
    jobs = [one_machine(1), one_machine(1, release=5, machine=1)]
    assert rows(jobs) == [(0, 0), (0, 1), (5, 1)]


@given(st.lists(st.integers(1, 10**15), min_size=12, max_size=12), st.floats(0, 1))
def test_a_mix_of_two_orders_is_never_below_the_bound(durations: list[int], share: float) -> None:
    """Weak duality from the other side: any feasible flow, numbers as large as picoseconds get."""
    job = JobClass((0, 1, 2), (JobPhase(dict(zip(arcs((0, 1, 2)), durations, strict=True)), {0: 0, 1: 0, 2: 0}),))
    phase = job.phases[0].duration
    forwards = {0: phase[0b000, 0], 1: phase[0b001, 1], 2: phase[0b011, 2]}
    backwards = {2: phase[0b000, 2], 1: phase[0b100, 1], 0: phase[0b110, 0]}
    makespan = max(share * forwards[k] + (1 - share) * backwards[k] for k in range(3))
    assert fluid_bound([job]) <= makespan * (1 + 1e-9)

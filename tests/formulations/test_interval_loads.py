"""Loads of intervals: horizons that can be judged by hand, against enumeration, and the parts on their own."""

import random
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from brute_force import brute_force
from test_chunk_count import jobs, partitions
from test_sized_order import part, random_class

from formulations.budget import Budget
from formulations.chunk_count import ChunkCount
from formulations.interval_loads import NEVER, IntervalLoads, IntervalParams, cheapest_cells, chosen_cells
from formulations.lattice import JobClass, Leg

LONG = Budget(seconds=600.0, deterministic=True)
FINE = IntervalParams(intervals=20, ticks=10, units=60)
ROUNDING = 0.03
"""What so many ticks and units hide."""


def model(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> IntervalLoads:
    return IntervalLoads(replace(whole, count=count), fixed, horizon, FINE)


def is_refuted(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> bool:
    own = model(whole, fixed, count, horizon)
    return own.solve(count, own.num_ticks, LONG).status == "infeasible"


def test_one_job_passes_its_machines_one_after_the_other() -> None:
    """10 and 1 on each of two machines, a lag of 2 after each, from 5 on."""
    whole, fixed = jobs(10, 10, release=5), jobs(1, 1, lag=2, release=5)
    assert is_refuted(whole, fixed, 1, 31 * (1 - ROUNDING))
    assert not is_refuted(whole, fixed, 1, 31)


def test_loads_of_whole_horizons_are_seen() -> None:
    """Halves on two machines: each holds both for 5 + 1 twice."""
    whole, fixed = jobs(10, 10), jobs(1, 1)
    assert is_refuted(whole, fixed, 2, 12 * (1 - ROUNDING))
    assert not is_refuted(whole, fixed, 2, 12)


def test_a_machine_waits_for_whole_jobs_from_elsewhere() -> None:
    """Two jobs that begin on machine 0 hold both for 12, but 1 has nothing to do until the first arrives: 18."""
    leg = Leg({(0, 0): 12, (0, 1): 99, (1, 1): 12, (2, 0): 99}, {0: 0, 1: 0})
    whole, fixed = JobClass((0, 1), (leg,)), jobs(0, 0)
    assert ChunkCount([whole], [fixed], [2]).bound_of((2,)) < 12.1
    assert is_refuted(whole, fixed, 2, 15)
    assert not is_refuted(whole, fixed, 2, 18)


@pytest.mark.parametrize("seed", range(8))
def test_no_horizon_that_some_sizes_reach_is_refuted(seed: int) -> None:
    legs, count = seed % 2 + 1, 3 - seed % 2
    whole, least = random_class(random.Random(seed), legs)
    best = min(brute_force([part(whole, least, units) for units in own]) for own in partitions(6, count))
    assert not is_refuted(whole, least, count, best)
    bound = ChunkCount([whole], [least], [count]).bound_of((count,))
    assert is_refuted(whole, least, count, bound * (1 - ROUNDING))


@pytest.mark.parametrize("seed", range(4))
def test_one_model_answers_for_all_numbers_and_horizons(seed: int) -> None:
    """Shorter horizons of a long one are refuted as those asked on their own, and never where some sizes fit."""
    whole, least = random_class(random.Random(seed), 1)
    best = [min(brute_force([part(whole, least, u) for u in own]) for own in partitions(6, n)) for n in (1, 2, 3)]
    own = model(whole, least, 3, 1.5 * max(best))
    for count in (3, 1, 2):
        makespan, bound = best[count - 1], ChunkCount([whole], [least], [count]).bound_of((count,))
        assert own.solve(count, own.ticks(makespan) + 1, LONG).status == "fits"
        assert own.solve(count, own.ticks(bound * (1 - ROUNDING)), LONG).status == "infeasible"
        assert own.horizon(int(own.refuted[count])) <= makespan


def test_what_is_learnt_is_kept() -> None:
    """A question cut off after each round is answered like one that is not, then at once, as are those it settles."""
    whole, fixed = jobs(20, 20, 20, legs=2), jobs(1, 1, 1, legs=2)
    own, short = model(whole, fixed, 3, 50), Budget(seconds=1e-9, deterministic=True)
    assert own.solve(3, 185, short).status == "unknown"
    answers = (own.solve(3, 185, short).status for _ in range(50))
    answer = next(status for status in answers if status != "unknown")
    assert answer == model(whole, fixed, 3, 50).solve(3, 185, LONG).status
    proven = int(own.refuted[3])
    assert proven > 150
    again = own.solve(3, proven, LONG)
    assert (again.status, again.work) == ("infeasible", 0.0)


def test_no_time_says_nothing() -> None:
    outcome = model(jobs(20, 20), jobs(1, 1), 2, 21).solve(2, 200, Budget(seconds=0.0))
    assert (outcome.status, outcome.work) == ("unknown", 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_cheapest_cells_are_the_least_of_all(seed: int) -> None:
    generator = np.random.default_rng(seed)
    costs = generator.random(6).round(2)
    count = 3
    sums = [sum(costs[list(own)]) for own in combinations_with_replacement(range(6), count) if sum(own) + count >= 9]
    least, choices = cheapest_cells(costs, 9, count)
    chosen = chosen_cells(choices, 9)
    assert least[-1] == pytest.approx(min(sums))
    assert least[-1] == pytest.approx(sum(costs[chosen]))
    assert sum(chosen) + count >= 9
    assert least[1] >= NEVER

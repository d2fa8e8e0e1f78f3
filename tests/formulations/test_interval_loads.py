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
from formulations.interval_loads import NEVER, IntervalLoads, IntervalOutcome, IntervalParams, cheapest_cells
from formulations.lattice import JobClass, Leg

LONG = Budget(seconds=600.0, deterministic=True)
FINE = IntervalParams(intervals=20, ticks=10, units=60)
ROUNDING = 0.03
"""What so many ticks and units hide."""


def ask(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> IntervalOutcome:
    return IntervalLoads(replace(whole, count=count), fixed, horizon, FINE).solve(LONG)


def is_refuted(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> bool:
    return ask(whole, fixed, count, horizon).status == "infeasible"


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


def test_prices_start_another_horizon() -> None:
    whole, fixed = jobs(20, 20, 20, legs=2), jobs(1, 1, 1, legs=2)
    refuted = ask(whole, fixed, 3, 40)
    assert refuted.status == "infeasible"
    again = IntervalLoads(replace(whole, count=3), fixed, 39, params=FINE).solve(LONG, refuted.prices)
    assert again.status == "infeasible"
    assert again.work <= refuted.work


def test_no_time_says_nothing() -> None:
    outcome = IntervalLoads(replace(jobs(20, 20), count=2), jobs(1, 1), 21, params=FINE).solve(Budget(seconds=0.0))
    assert (outcome.status, outcome.work) == ("unknown", 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_cheapest_cells_are_the_least_of_all(seed: int) -> None:
    generator = np.random.default_rng(seed)
    costs = generator.random(6).round(2)
    count = 3
    sums = [sum(costs[list(own)]) for own in combinations_with_replacement(range(6), count) if sum(own) + count >= 9]
    least, chosen = cheapest_cells(costs, 9, count)
    assert least == pytest.approx(min(sums))
    assert least == pytest.approx(sum(costs[chosen]))
    assert sum(chosen) + count >= 9
    assert cheapest_cells(costs, 9, 1)[0] >= NEVER

"""Loads of intervals: horizons that can be judged by hand, against enumeration, and the parts alone."""

import random
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from brute_force import brute_force
from sized_jobs import part, random_class
from test_chunk_count import jobs, partitions

from formulations.chunk_count import ChunkCount
from formulations.interval_loads import IMPOSSIBLE, IntervalLoads, cheapest_cells, chosen_cells
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits

LONG = Limits(seconds=600.0, deterministic=True)
FINE, COARSE = (20, 10, 60), ((3, 2, 60), (6, 1, 60), (5, 3, 12))  # intervals, ticks of each, and units
ROUNDING = 0.03  # what so many ticks and units hide


def model(
    whole: JobClass, fixed: JobClass, count: int, horizon: float, precision: tuple[int, int, int] = FINE
) -> IntervalLoads:
    return IntervalLoads(replace(whole, count=count), fixed, horizon, *precision)


def is_refuted(
    whole: JobClass, fixed: JobClass, count: int, horizon: float, precision: tuple[int, int, int] = FINE
) -> bool:
    loads = model(whole, fixed, count, horizon, precision)
    return loads.solve(count, loads.num_ticks, LONG).status == "infeasible"


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
    phase = JobPhase({(0, 0): 12, (0, 1): 99, (1, 1): 12, (2, 0): 99}, {0: 0, 1: 0})
    whole, fixed = JobClass((0, 1), (phase,)), jobs(0, 0)
    assert ChunkCount([whole], [fixed], [2]).bound_of((2,)) < 12.1
    assert is_refuted(whole, fixed, 2, 15)
    assert not is_refuted(whole, fixed, 2, 18)


@pytest.mark.parametrize("seed", range(8))
def test_no_horizon_that_some_sizes_reach_is_refuted(seed: int) -> None:
    phases, count = seed % 2 + 1, 3 - seed % 2
    whole, least = random_class(random.Random(seed), phases)
    best = min(brute_force([part(whole, least, units) for units in sizes]) for sizes in partitions(6, count))
    assert not is_refuted(whole, least, count, best)
    bound = ChunkCount([whole], [least], [count]).bound_of((count,))
    assert is_refuted(whole, least, count, bound * (1 - ROUNDING))


@pytest.mark.parametrize("precision", COARSE)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_never_refuted_however_coarse_the_ticks(
    seed: int, count: int, precision: tuple[int, int, int]
) -> None:
    """Neither where one job passes all stages in turn, nor where a single machine is always busy."""
    whole, least = random_class(random.Random(seed), phases=2 if count == 1 else 1)
    best = min(brute_force([part(whole, least, units) for units in sizes]) for sizes in partitions(6, count))
    assert not is_refuted(whole, least, count, best, precision)
    busy = jobs(7 + seed), jobs(seed)
    assert not is_refuted(*busy, count, 7 + seed + count * seed, precision)


@pytest.mark.parametrize("seed", range(4))
def test_one_model_answers_for_all_numbers_and_horizons(seed: int) -> None:
    """Shorter horizons of a long one are refuted as those asked alone, and never where some sizes fit."""
    whole, least = random_class(random.Random(seed), 1)
    best = [min(brute_force([part(whole, least, u) for u in sizes]) for sizes in partitions(6, n)) for n in (1, 2, 3)]
    loads = model(whole, least, 3, 1.5 * max(best))
    for count in (3, 1, 2):
        makespan, bound = best[count - 1], ChunkCount([whole], [least], [count]).bound_of((count,))
        assert loads.solve(count, loads.ticks(makespan), LONG).status == "fits"
        assert loads.solve(count, loads.ticks(bound * (1 - ROUNDING)) - 1, LONG).status == "infeasible"
        assert loads.horizon(int(loads.refuted[count])) <= makespan


def test_what_is_learnt_is_kept() -> None:
    """A question cut off after each round is answered like one that is not, then at once, as are those it settles."""
    whole, fixed = jobs(20, 20, 20, phases=2), jobs(1, 1, 1, phases=2)
    loads, short = model(whole, fixed, 3, 50), Limits(seconds=1e-9, deterministic=True)
    assert loads.solve(3, 185, short).status == "unknown"
    answers = (loads.solve(3, 185, short).status for _ in range(50))
    answer = next(status for status in answers if status != "unknown")
    assert answer == model(whole, fixed, 3, 50).solve(3, 185, LONG).status
    proven = int(loads.refuted[3])
    assert proven > 150
    again = loads.solve(3, proven, LONG)
    assert (again.status, again.work) == ("infeasible", 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_cheapest_cells_are_the_least_of_all(seed: int) -> None:
    generator = np.random.default_rng(seed)
    costs = generator.random(6).round(2)
    count = 3
    chosen_sets = combinations_with_replacement(range(6), count)
    sums = [sum(costs[list(cells)]) for cells in chosen_sets if sum(cells) + count >= 9]
    least, choices = cheapest_cells(costs, 9, count)
    chosen = chosen_cells(choices, 9)
    assert least[-1] == pytest.approx(min(sums))
    assert least[-1] == pytest.approx(sum(costs[chosen]))
    assert sum(chosen) + count >= 9
    assert least[1] >= IMPOSSIBLE

"""Dispatch trees: horizons that can be judged by hand, against enumeration, and what they keep to themselves."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from brute_force import brute_force
from sized_jobs import part, random_class, random_pair
from test_chunk_count import jobs, partitions

from formulations.chunk_count import ChunkCount
from formulations.dispatch_tree import JobStates
from formulations.job_plans import JobTimes, SizedOutcome
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits
from themis_opt.search import refuter
from themis_opt.search.refuter import search_tree

LONG = Limits(seconds=600.0, deterministic=True)
ROUNDING = 1e-6  # what horizons are longer or shorter by


@pytest.fixture(autouse=True)
def _short_memo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are forgotten, and met again."""
    monkeypatch.setattr(refuter, "ENTRIES", 1 << 8)


def outcome(whole: JobClass, fixed: JobClass, count: int, horizon: float, limits: Limits = LONG) -> SizedOutcome:
    weights = [1 / (1 + k) for k in range(len(whole.machines))]
    return search_tree(JobStates(whole, fixed, weights), count, horizon, limits)


def is_refuted(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> bool:
    return outcome(whole, fixed, count, horizon).status == "infeasible"


def test_one_job_passes_its_machines_one_after_the_other() -> None:
    """10 and 1 on each of two machines, a lag of 2 after each, from 5 on."""
    whole, fixed = jobs(10, 10, release=5), jobs(1, 1, lag=2, release=5)
    assert is_refuted(whole, fixed, 1, 31 * (1 - ROUNDING))
    assert not is_refuted(whole, fixed, 1, 31)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_stages(count: int) -> None:
    """One phase of three machines, on each of which whole jobs take 12 in all and 1 each."""
    whole, fixed = jobs(12, 12, 12), jobs(1, 1, 1)
    horizon = max(3 * (12 / count + 1), 12 + count)
    assert is_refuted(whole, fixed, count, horizon * (1 - ROUNDING))
    assert outcome(whole, fixed, count, horizon * (1 + ROUNDING)).status == "feasible"


def test_a_machine_waits_for_the_smallest_job_from_elsewhere() -> None:
    """Two jobs that begin on machine 0 for 12 in all; on 1 the first begins when it arrives: sizes 1/2, so 18."""
    phase = JobPhase({(0, 0): 12, (0, 1): 99, (1, 1): 12, (2, 0): 99}, {0: 0, 1: 0})
    whole, fixed = JobClass((0, 1), (phase,)), jobs(0, 0)
    assert is_refuted(whole, fixed, 2, 18 * (1 - ROUNDING))
    assert not is_refuted(whole, fixed, 2, 18 * (1 + ROUNDING))


@pytest.mark.parametrize("seed", range(24))
def test_no_horizon_that_some_sizes_reach_is_refuted(seed: int) -> None:
    phases = seed % 2 + 1
    count = 2 if phases == 2 else 3
    whole, least = random_class(random.Random(seed), phases)
    best = min(brute_force([part(whole, least, units) for units in sizes]) for sizes in partitions(6, count))
    answer = outcome(whole, least, count, best * (1 + ROUNDING))
    assert answer.status == "feasible"
    assert is_refuted(whole, least, count, best / 2)


NODES = [(43, 8, 2), (0, 30, 12), (0, 8, 8), (30, 26, 12), (0, 16, 2), (0, 0, 16), (38, 8, 8), (0, 50, 32)]
"""Nodes until horizons of 95, 90 and 85 % of the best one are refuted, by seed; 0 where some sizes fit."""


@pytest.mark.parametrize(("seed", "nodes"), list(enumerate(NODES)))
def test_horizons_are_refuted_by_as_few_nodes_as_ever(seed: int, nodes: tuple[int, ...]) -> None:
    """A relaxation that is weaker or cuts too much, and a node that is met twice, change their number."""
    phases = seed % 2 + 1
    count = 2 if phases == 2 else 3
    whole, least = random_class(random.Random(seed), phases)
    best = min(brute_force([part(whole, least, units) for units in sizes]) for sizes in partitions(6, count))
    for horizon, number in zip((0.95 * best, 0.9 * best, 0.85 * best), nodes, strict=True):
        answer = search_tree(JobStates(whole, least, [1, 0.5]), count, horizon, LONG)
        assert answer.status == ("infeasible" if number else "feasible")
        assert not number or round(answer.work / refuter.WORK_PER_NODE / count) == number


MORE_NODES = [
    (2, [39, 53, 60, 10]),
    (4, [20, 133, 150, 262]),
    (3, [19, 112, 697, 49]),
    (4, [22, 347, 1199, 14817]),
    (2, [15, 40, 10, 13]),
    (2, [30, 219, 27, 43]),
    (3, [15, 70, 357, 157]),
    (4, [9, 19, 142, 393]),
    (3, [15, 15, 39, 9]),
    (2, [92, 222, 25, 64]),
    (4, [17, 43, 73, 176]),
    (4, [149, 607, 1411, 10756]),
]
"""The same of 100, 105, 110 and 115 % of a bound of jobs on three machines, and how many of these are refuted."""


@pytest.mark.parametrize(("seed", "refuted", "nodes"), [(seed, *pair) for seed, pair in enumerate(MORE_NODES)])
def test_horizons_of_three_machines_take_as_few_nodes_as_ever(seed: int, refuted: int, nodes: list[int]) -> None:
    count, (whole, least) = 2 + seed % 2, random_pair(seed, 1 + seed // 2 % 2)
    bound = ChunkCount([whole], [least], [count]).bound_of((count,))
    states = JobStates(whole, least, [1, 0.5, 0.25])
    answers = [search_tree(states, count, share * bound, LONG) for share in (1.0, 1.05, 1.1, 1.15)]
    assert [answer.status == "infeasible" for answer in answers] == [number < refuted for number in range(4)]
    assert [round(answer.work / refuter.WORK_PER_NODE / count) for answer in answers] == nodes


def stages(whole: JobClass, fixed: JobClass, plan: JobTimes, share: float) -> Iterator[tuple[int, float, float, float]]:
    """Machine, start, end and result of all stages of a job."""
    for phase, one, order, starts in zip(whole.phases, fixed.phases, plan.paths, plan.starts, strict=True):
        visited = 0
        for k, start in zip(order, starts, strict=True):
            end = start + phase.duration[visited, k] * share + one.duration[visited, k]
            yield k, start, end, end + phase.lag[k]
            visited |= 1 << k


@pytest.mark.parametrize("seed", range(8))
def test_what_fits_is_a_plan(seed: int) -> None:
    """Its starts keep all rules within the horizon, but for being whole."""
    whole, fixed = random_class(random.Random(seed), phases=1)
    horizon = 1.5 * min(brute_force([part(whole, fixed, units) for units in sizes]) for sizes in partitions(6, 3))
    answer = outcome(whole, fixed, 3, horizon)
    assert sum(answer.shares) == pytest.approx(1)
    served: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for plan, share in zip(answer.jobs, answer.shares, strict=True):
        result = 0.0
        for k, start, end, ready in stages(whole, fixed, plan, share):
            assert start >= result - 1
            result = ready
            served[k].append((start, end))
        assert result <= horizon + ROUNDING
    for intervals in served.values():
        assert all(one[1] <= other[0] + 1 for one, other in pairwise(sorted(intervals)))


def test_what_takes_too_long_is_unknown() -> None:
    for deterministic in (True, False):
        none, enough = (Limits(seconds=seconds, deterministic=deterministic) for seconds in (0.0, 600.0))
        answer = outcome(jobs(10, 10), jobs(1, 1), 2, 12.5, none)
        assert (answer.status, answer.jobs, answer.work) == ("unknown", (), 0)
        assert outcome(jobs(10, 10), jobs(1, 1), 2, 12.5, enough).status != "unknown"

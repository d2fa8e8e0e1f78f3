"""Horizons for an exact number of jobs of any sizes: by hand, and against enumeration."""

import random
from dataclasses import replace

import pytest
from brute_force import brute_force
from test_chunk_count import jobs, partitions

from formulations.chunk_count import ChunkCount
from formulations.lattice import JobClass, JobPhase, arcs
from formulations.limits import Limits
from formulations.sized_order import SizedOrder, SizedOutcome

LONG = Limits(seconds=600.0, deterministic=True)
FINE, UNITS = 4_000, 960
"""Ticks of a horizon and units of size; every third and fourth of a job is whole."""

ROUNDING = 0.005
"""What so many ticks may hide."""


def ask(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> SizedOutcome:
    return SizedOrder([replace(whole, count=count)], [fixed], horizon, FINE, UNITS).solve(LONG)


def is_refuted(whole: JobClass, fixed: JobClass, count: int, horizon: float) -> bool:
    return ask(whole, fixed, count, horizon).status == "infeasible"


def test_one_job_passes_its_machines_one_after_the_other() -> None:
    """10 and 1 on each of two machines, and a lag of 2 after each."""
    whole, fixed = jobs(10, 10), jobs(1, 1, lag=2)
    assert is_refuted(whole, fixed, 1, 26 * (1 - ROUNDING))
    assert not is_refuted(whole, fixed, 1, 26)


def test_two_jobs_cross() -> None:
    """Halves on two machines: each holds both for 5 + 1 twice."""
    whole, fixed = jobs(10, 10), jobs(1, 1)
    assert is_refuted(whole, fixed, 2, 12 * (1 - ROUNDING))
    assert not is_refuted(whole, fixed, 2, 12)


def test_a_solution_has_paths_starts_and_sizes() -> None:
    outcome = ask(jobs(10, 10, phases=2), jobs(1, 1, phases=2), 2, 30)
    assert outcome.jobs is not None
    assert outcome.shares is not None
    assert all(sorted(path) == [0, 1] for job in outcome.jobs[0] for path in job.paths)
    assert outcome.shares[0][0] >= outcome.shares[0][1]
    assert 1 - 2 / UNITS <= sum(outcome.shares[0]) <= 1


def random_class(generator: random.Random, phases: int) -> tuple[JobClass, JobClass]:
    """What a unit of six costs on two machines, and what every job does."""
    every = list(arcs((0, 1)))
    lags = [{k: generator.randint(0, 6) for k in (0, 1)} for _ in range(phases)]
    rates = [JobPhase({arc: 6 * generator.randint(1, 12) for arc in every}, lag) for lag in lags]
    fixed = [{k: generator.randint(0, 9) for k in (0, 1)} for _ in range(phases)]
    least = [JobPhase({arc: cost[arc[1]] for arc in every}, lag) for cost, lag in zip(fixed, lags, strict=True)]
    mirrored = phases == 2 and bool(generator.randint(0, 1))
    return JobClass((0, 1), tuple(rates), mirrored=mirrored), JobClass((0, 1), tuple(least), mirrored=mirrored)


def part(whole: JobClass, least: JobClass, units: int) -> JobClass:
    """A job of so many units of six."""
    phases = (
        JobPhase({arc: d * units // 6 + one.duration[arc] for arc, d in phase.duration.items()}, phase.lag)
        for phase, one in zip(whole.phases, least.phases, strict=True)
    )
    return replace(whole, phases=tuple(phases))


@pytest.mark.parametrize("seed", range(8))
def test_no_horizon_that_some_sizes_reach_is_refuted(seed: int) -> None:
    phases, count = seed % 2 + 1, 3 - seed % 2
    whole, least = random_class(random.Random(seed), phases)
    splits = partitions(6, count)
    best = min(brute_force([part(whole, least, units) for units in sizes]) for sizes in splits)
    assert not is_refuted(whole, least, count, best)
    bound = ChunkCount([whole], [least], [count]).bound_of((count,))
    assert is_refuted(whole, least, count, bound * (1 - 4 * ROUNDING))

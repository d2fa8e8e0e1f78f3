"""Bounds of random jobs are as strong as ever: what makes one weaker is no error, and nothing else notices it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sized_jobs import part, random_pair
from test_pieces import random_class as random_pieces

from formulations.chunk_count import ChunkCount
from formulations.fluid import fluid_bound
from formulations.head_tail import head_tail_proof
from formulations.interval_loads import IntervalLoads
from formulations.lattice import JobClass
from formulations.limits import Limits
from formulations.order_count import order_count_bound
from formulations.pieces import piece_bound

SEEDS = range(6)
LONG = Limits(seconds=600.0, deterministic=True, workers=1)


def pairs(seed: int) -> tuple[list[JobClass], list[JobClass]]:
    """One to three classes of all or some machines."""
    chosen = [(seed, 1, (0, 1, 2)), (seed + 100, 2, (0, 2)), (seed + 200, 2, (0, 1, 2))][: 1 + seed % 3]
    whole, least = zip(*(random_pair(*each) for each in chosen), strict=True)
    return list(whole), list(least)


def equal_jobs(seed: int) -> list[JobClass]:
    """Thirds of these classes, three of each."""
    return [replace(part(*each, 2), count=3) for each in zip(*pairs(seed), strict=True)]


def total(values: Iterable[float]) -> Any:
    """Their sum, up to what floating point costs."""
    return pytest.approx(sum(values), rel=1e-7)


def test_fluid_bounds_and_heads_and_tails() -> None:
    fluid = [fluid_bound(pairs(seed)[0]) for seed in SEEDS]
    head_tail = [head_tail_proof(*pairs(seed), fluid[seed])[0] for seed in SEEDS]
    assert total(fluid) == 537.888582
    assert total(head_tail) == 556.293878


COUNTS = [ChunkCount(*pairs(seed), [5] * (1 + seed % 3)) for seed in SEEDS]


def test_chunk_counts() -> None:
    assert total(count.bound() for count in COUNTS) == 673.672646
    assert [count.few(count.bound()) for count in COUNTS] == [(3,), (0, 1), (0, 0, 1), (3,), (1, 1), (0, 0, 1)]


@pytest.mark.parametrize(
    ("numbers", "bound", "loads", "weights"),
    [
        ((1, 1, 1), 963.0, 617.049877, 11.793432),
        ((2, 1, 2), 777.734807, 668.234807, 11.68232),
        ((4, 2, 3), 777.987569, 777.987569, 13.68232),
    ],
)
def test_chunk_counts_of_so_many(numbers: tuple[int, ...], bound: float, loads: float, weights: float) -> None:
    """Weights of machines times one more than their numbers."""
    each = [(count, numbers[: len(count.jobs)]) for count in COUNTS]
    assert total(count.bound_of(n) for count, n in each) == bound
    assert total(count.loads(n) for count, n in each) == loads
    assert total((k + 1) * w for count, n in each for k, w in count.machine_weights(n).items()) == weights


def test_order_counts() -> None:
    assert [order_count_bound(equal_jobs(seed), LONG) for seed in SEEDS] == [56, 118, 260, 89, 114, 191]


def test_pieces() -> None:
    generators = [np.random.default_rng(seed) for seed in range(3)]
    assert (
        total(piece_bound([random_pieces(one, 10), random_pieces(one, 14)], 60.0) for one in generators) == 231.421388
    )


@pytest.mark.parametrize(
    ("seed", "load", "refuted"),
    [
        (0, 0.5819674, [48, 48, 44, 36]),
        (1, 0.8554597, [48, 48, 41, 36]),
        (2, 0.5578047, [39, 39, 34, 33]),
        (3, 0.6599264, [48, 48, 42, 31]),
        (4, 0.6752206, [48, 48, 34, 33]),
        (5, 0.5505541, [48, 48, 36, 28]),
    ],
)
def test_intervals_refute_as_long_horizons_as_ever(seed: int, load: float, refuted: list[int]) -> None:
    """By number of jobs, in ticks."""
    whole, least = random_pair(seed, 1 + seed % 2)
    bound = ChunkCount([whole], [least], [3]).bound_of((3,))
    loads = IntervalLoads(replace(whole, count=3), least, 1.3 * bound, 12, 4, 24)
    outcome = loads.solve(3, loads.ticks(1.1 * bound), LONG)
    assert loads.solve(2, loads.num_ticks, LONG).status == "fits"
    loads.solve(3, loads.ticks(0.97 * bound), LONG)
    assert outcome.load == pytest.approx(load, rel=1e-6)
    assert loads.refuted.tolist() == refuted

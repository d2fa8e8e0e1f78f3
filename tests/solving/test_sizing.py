"""Free chunk sizes, and few chunks carried over to many."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from layered_iterations import layers
from strategies import enforced_plans
from test_period_bounds import random_iteration

from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.catalog import random_instance
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.solving.bounds import bounds
from themis_opt.solving.sizing import granule, resized, rounded


def scheduled(instance: Instance, policy: str = "themis+scf"):
    return simulate(instance, make_policy(policy)(instance))


@given(enforced_plans())
def test_best_sizes_are_legal_and_never_worse(case: tuple[Instance, Plan]) -> None:
    schedule = simulate(*case)
    better = resized(schedule)
    validate(better)
    assert better.makespan <= schedule.makespan


def test_best_sizes_close_most_of_the_gap(hetero: Instance) -> None:
    few = hetero.overridden(chunks=8)
    schedule = scheduled(few, "themis+fifo")
    bound = bounds(few, equal_sizes=False)["fluid"]
    assert resized(schedule).makespan - bound < (schedule.makespan - bound) / 5


def test_free_sizes_are_whole_granules(hetero: Instance) -> None:
    (chunks,) = resized(scheduled(hetero.overridden(chunks=8))).plan.chunks
    assert (chunks.sizes % granule(hetero, hetero.exchanges[0]) == 0).all()
    assert granule(hetero, hetero.exchanges[0]) == 1024 * 2


def test_a_size_that_holds_no_whole_granules_is_cut_by_elements(hetero: Instance) -> None:
    odd = hetero.overridden(size=1_000_002)
    assert granule(odd, odd.exchanges[0]) == 2


def test_rounding_keeps_the_total_and_the_unit() -> None:
    sizes = rounded(np.array([0.5, 0.3, 0.2]), 70, 10)
    assert sizes.tolist() == [40, 20, 10]


def test_free_sizes_reach_the_fluid_bound_of_figure_5(figure_5: Instance) -> None:
    """Themis (ISCA 2022), figure 5: 7 units are optimal for equal chunks, 20/3 for free ones."""
    reference = Exact(seconds=5, workers=1, sizes="free", deterministic=True).solve(
        figure_5, bounds(figure_5, equal_sizes=False)["fluid"]
    )
    validate(reference.schedule)
    assert reference.schedule.makespan == pytest.approx(20e9 / 3, rel=1e-6)


def gives_up(*_: object) -> None:
    raise ArithmeticError


def test_a_solver_that_gives_up_leaves_the_sizes_alone(figure_5: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("themis_opt.solving.sizing.best_shares", gives_up)
    schedule = scheduled(figure_5)
    assert resized(schedule) is schedule
    monkeypatch.undo()
    assert resized(schedule) is not schedule
    monkeypatch.setattr("themis_opt.solving.sizing.MAX_SIZED_STAGES", schedule.plan.num_stages - 1)
    assert resized(schedule) is schedule


@pytest.mark.parametrize("launching", LAUNCHING)
@pytest.mark.parametrize("latency", ["lag", "occupy"])
def test_better_sizes_are_legal_and_never_slower(launching: str, latency: str) -> None:
    schedule = scheduled(layers(4, chunks=4, latency=latency), f"{launching}/hourglass")
    better = resized(schedule)
    validate(better)
    assert better.makespan <= schedule.makespan


def test_sizes_shorten_a_collective_that_nothing_hides() -> None:
    schedule = scheduled(layers(1, chunks=3), "fused/hourglass")
    assert resized(schedule).makespan < schedule.makespan


@pytest.mark.parametrize(
    ("make", "policy", "picoseconds"),
    [
        (lambda seed: random_instance(seed).overridden(chunks=5), "themis+scf", 361_990_790_556),
        (lambda seed: random_iteration(seed, chunks=4), "wait_free/baseline+fifo", 218_788_428),
        (lambda seed: random_iteration(seed, chunks=4), "dear:threshold=1B/themis+scf", 91_243_085),
    ],
)
def test_best_sizes_gain_as_much_as_ever(make: Callable[[int], Instance], policy: str, picoseconds: int) -> None:
    """Of eight schedules in all."""
    starts = [scheduled(make(seed), policy) for seed in range(8)]
    assert sum(start.makespan - resized(start).makespan for start in starts) == picoseconds

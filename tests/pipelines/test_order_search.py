"""Annealing of the orders of a pipeline: legal, never slower, and near the optimum."""

import pytest
from pipeline_samples import pipeline, random_pipeline

from themis_opt.base.allowance import Allowance
from themis_opt.pipelines.gaps import filled
from themis_opt.pipelines.order_search import anneal
from themis_opt.pipelines.policies import zbv
from themis_opt.pipelines.priorities import greedy
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.steps import best_policy
from themis_opt.pipelines.validation import validate


def work(seconds):
    return Allowance(seconds, counts_work=True)


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_orders_are_legal_and_no_slower(seed):
    start = best_policy(random_pipeline(seed))
    schedule = anneal(start, work(0.1), 0)
    assert schedule.value <= start.value
    for changed in (schedule, *filled(start.pipeline, start.orders)):
        validate(changed)


def test_memory_that_a_v_leaves_fills_its_gaps():
    problem = pipeline(8, 16, 10, 11, 9, message=1, parts=2, placement="v", memory=24)
    start = simulate(problem, zbv(problem))
    best = min(filled(problem, start.orders), key=lambda schedule: schedule.value)
    validate(best)
    assert best.value < 0.98 * start.value
    assert max(start.peaks()) == 16 < max(best.peaks()) <= 24


@pytest.mark.parametrize(
    ("stages", "times", "message", "optimum"), [(2, (2, 2, 2), 1, 54), (4, (10, 20, 10), 2, 394), (3, (2, 2, 2), 1, 60)]
)
def test_small_pipelines_are_solved(stages, times, message, optimum):
    """What CP-SAT proves for them."""
    placement = "v" if optimum == 394 else "interleaved"
    problem = pipeline(stages, 4, *times, message=message, parts=2, placement=placement, memory=2 * stages)
    start = simulate(problem, greedy(problem, 1))
    assert start.value > optimum == anneal(start, work(10), optimum).value


def test_equal_seeds_give_equal_orders():
    start = best_policy(pipeline(4, 8, 10, 20, 10, message=2, parts=2, placement="v", memory=8))
    assert anneal(start, work(0.15), 0, seed=3).orders == anneal(start, work(0.15), 0, seed=3).orders

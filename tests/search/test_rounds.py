"""The step with rounds of CP-SAT on one period."""

import pytest
from layered_iterations import layers, scheduled

from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.schedules.steps import take_turns
from themis_opt.schedules.validation import validate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.orders import Rounds
from themis_opt.solving.bounds import bounds


def improved(instance: Instance, launching: str, seconds: float) -> Incumbent:
    """What the step alone makes of the schedule of a launching policy."""
    limits = Limits(seconds=seconds, workers=1, deterministic=True)
    incumbent = Incumbent(limits, scheduled(instance, launching), max(bounds(instance).values()))
    take_turns(incumbent, [Rounds()])
    return incumbent


def test_the_best_of_given_launches_and_sizes_is_proven() -> None:
    incumbent = improved(layers(2, chunks=1), "wait_free", 5.0)
    assert incumbent.bound < incumbent.launch_bound <= incumbent.best.makespan
    assert incumbent.best.makespan <= incumbent.launch_bound * (1 + incumbent.limits.gap)
    assert incumbent.left > 0


def test_rounds_improve_orders_and_sizes() -> None:
    instance = layers(3, task=20, chunks=3)
    incumbent = improved(instance, "wait_free", 2.0)
    validate(incumbent.best)
    assert incumbent.best.makespan < scheduled(instance, "wait_free").makespan
    assert incumbent.bound <= incumbent.launch_bound <= incumbent.best.makespan


def test_a_model_that_takes_too_long_to_build_is_left_out() -> None:
    instance = layers(3, task=20, chunks=3)
    assert improved(instance, "wait_free", 0.001).best == scheduled(instance, "wait_free")


@pytest.mark.parametrize(("number", "chunks", "launching"), [(3, 64, "wait_free"), (800, 1, "fused")])
def test_too_many_stages_or_tasks_are_left_alone(number: int, chunks: int, launching: str) -> None:
    instance = layers(number, task=20, chunks=chunks)
    assert improved(instance, launching, 5.0).left == 5.0

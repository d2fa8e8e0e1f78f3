"""Policies for parameters that are gathered before use: what is one bucket, and when it leaves."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from sharded_iterations import sharded
from small_iterations import FOUR_TASKS, iteration, run, tensor

from themis_opt.policies.launching.common import of_runs
from themis_opt.policies.launching.prefetch import as_early_as_fits
from themis_opt.policies.planning import plan_launches
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.memory import memory_curves
from themis_opt.schedules.plan import Launch
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

LAYERS = sharded(8, 8, 8)


def left_after(instance: Instance, launches: Sequence[Launch]) -> dict[str, str]:
    """The task after which every gather leaves, with a plus where it is of the next iteration."""
    names = [task.name for task in instance.tasks]
    return {
        launch.name: names[launch.after.task] + "+" * launch.after.later
        for launch in launches
        if launch.after and launch.kind == "all_gather"
    }


def planned(instance: Instance, policy: str) -> dict[str, str]:
    return left_after(instance, make_policy(policy)(instance).launches)


def held_in(schedule: Schedule, task: str) -> int:
    """Bytes when a task of the last whole iteration begins."""
    (curve,) = memory_curves(schedule)
    begin = schedule.task_start[-2, schedule.instance.task_index[task]]
    return int(curve.held[np.searchsorted(curve.time, begin, side="right") - 1])


def test_a_gather_leaves_when_the_use_before_it_begins() -> None:
    assert planned(LAYERS, "fsdp2/baseline") == {
        "parameters1": "update1",
        "parameters2": "update1",  # the task before forward1 of the next iteration
        "parameters3": "forward1+",
        "again2": "forward2",
        "again1": "backward3",
    }


def test_two_places_ahead_it_leaves_one_use_earlier() -> None:
    assert planned(LAYERS, "fsdp2:ahead=2/baseline")["again1"] == "forward2"
    assert planned(LAYERS, "fsdp2:ahead=2/baseline")["parameters3"] == "update1"


def test_zero_places_ahead_it_leaves_when_it_is_needed() -> None:
    after = planned(LAYERS, "wait_free:ahead=0/baseline")
    assert (after["parameters2"], after["again1"]) == ("forward1+", "backward2")


def test_a_block_is_what_names_begin_with() -> None:
    tensors = [tensor(name, 8, "backward1", "forward1") for name in ("layer1.a", "layer1.b", "layer2.a", "head")]
    plan = make_policy("blocks/baseline")(iteration(FOUR_TASKS, tensors))
    assert sorted(launch.name for launch in plan.launches) == ["head", "layer1.a+layer1.b", "layer2.a"]


def test_collectives_of_one_stream_are_never_under_way_together() -> None:
    schedule = run(LAYERS, "one_stream/baseline")
    row = schedule.num_iterations - 2
    begins = [schedule.period.stage_start[row, first].min() for first, _ in schedule.plan.ends_of_chunks]
    ends = schedule.period.launch_ready[row]
    order = np.argsort(begins)
    assert all(ends[one] <= begins[other] for one, other in pairwise(order.tolist()))


@pytest.mark.parametrize("policy", ["blocks", "fsdp2", "one_stream", "stream_per_domain", "inductor"])
def test_policies_of_frameworks_are_legal(policy: str) -> None:
    assert run(LAYERS, f"{policy}/baseline").makespan >= LAYERS.compute


def test_inductor_launches_no_gather_further_ahead_than_it_looks() -> None:
    after = planned(LAYERS, "inductor:max_compute_pre_fetch=0/baseline")
    assert (after["again2"], after["again1"]) == ("backward3", "backward2")


def test_inductor_fuses_gathers_that_one_task_hides() -> None:
    schedule = run(sharded(2, 2, 2, 2), "inductor/baseline")
    assert len(schedule.plan.launches) < len(schedule.instance.exchanges)
    alone = run(sharded(2, 2, 2, 2), "inductor:max_bucket_memory=3kB/baseline")
    assert len(alone.plan.launches) == len(alone.instance.exchanges)


def test_gathers_leave_as_early_as_they_may_without_a_limit() -> None:
    after = left_after(LAYERS, as_early_as_fits(LAYERS, of_runs(LAYERS, ()), 10**9))
    assert after["parameters3"] == "update1"
    assert after["again1"] == "forward2"  # not before the one that is used before it
    after = left_after(LAYERS, as_early_as_fits(LAYERS, of_runs(LAYERS, ()), 10**9, in_order=False))
    assert (after["parameters3"], after["again1"]) == ("update3", "forward1")


def test_gathers_that_fit_alone_leave_when_they_are_needed() -> None:
    after = left_after(LAYERS, as_early_as_fits(LAYERS, of_runs(LAYERS, ()), 16_000))
    assert (after["parameters2"], after["again1"]) == ("update1", "backward2")


def test_a_fused_gather_is_one_buffer_until_all_of_it_was_used() -> None:
    numbers = {exchange.name: number for number, exchange in enumerate(LAYERS.exchanges)}
    bucket = (numbers["again2"], numbers["again1"])
    apart, fused = (
        simulate(LAYERS, plan_launches(LAYERS, of_runs(LAYERS, buckets), "layer", make_policy("baseline")))
        for buckets in ((), (bucket,))
    )
    assert held_in(fused, "backward1") == held_in(apart, "backward1") + 8000

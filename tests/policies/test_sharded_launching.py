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

ONE_AHEAD = {
    "parameters1": "update1",
    "parameters2": "update1",  # the task before forward1 of the next iteration
    "parameters3": "forward1+",
    "again2": "forward2",
    "again1": "backward3",
}


def left_after(instance: Instance, launches: Sequence[Launch]) -> dict[str, str]:
    """The task after which every gather leaves, with a plus where it is of the next iteration."""
    names = [task.name for task in instance.tasks]
    return {
        launch.name: names[launch.after.task] + "+" * launch.after.later
        for launch in launches
        if launch.after and launch.kind == "all_gather"
    }


def held_in(schedule: Schedule, task: str) -> int:
    """Bytes when a task of the last whole iteration begins."""
    (curve,) = memory_curves(schedule)
    begin = schedule.task_start[-2, schedule.instance.task_index[task]]
    return int(curve.held[np.searchsorted(curve.time, begin, side="right") - 1])


@pytest.mark.parametrize(
    ("policy", "after"),
    [
        pytest.param("fsdp2", ONE_AHEAD, id="the use before begins"),
        pytest.param("fsdp2:ahead=2", {"again1": "forward2", "parameters3": "update1"}, id="one use earlier"),
        pytest.param("wait_free:ahead=0", {"parameters2": "forward1+", "again1": "backward2"}, id="it is needed"),
        pytest.param(
            "inductor:max_compute_pre_fetch=0", {"again2": "backward3", "again1": "backward2"}, id="it looks so far"
        ),
        pytest.param((10**9, True), {"parameters3": "update1", "again1": "forward2"}, id="the one used before does"),
        pytest.param((10**9, False), {"parameters3": "update3", "again1": "forward1"}, id="it may"),
        pytest.param((16_000, True), {"parameters2": "update1", "again1": "backward2"}, id="it fits"),
    ],
)
def test_a_gather_leaves_when(policy: str | tuple[int, bool], after: dict[str, str]) -> None:
    """By a policy, or as early as fits into some bytes, in order of use or not."""
    if isinstance(policy, str):
        launches = make_policy(f"{policy}/baseline")(LAYERS).launches
    else:
        limit, in_order = policy
        launches = tuple(as_early_as_fits(LAYERS, of_runs(LAYERS, ()), limit, in_order=in_order))
    assert after.items() <= left_after(LAYERS, launches).items()


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


def test_inductor_fuses_gathers_that_one_task_hides() -> None:
    schedule = run(sharded(2, 2, 2, 2), "inductor/baseline")
    assert len(schedule.plan.launches) < len(schedule.instance.exchanges)
    alone = run(sharded(2, 2, 2, 2), "inductor:max_bucket_memory=3kB/baseline")
    assert len(alone.plan.launches) == len(alone.instance.exchanges)


def test_a_fused_gather_is_one_buffer_until_all_of_it_was_used() -> None:
    numbers = {exchange.name: number for number, exchange in enumerate(LAYERS.exchanges)}
    bucket = (numbers["again2"], numbers["again1"])
    apart, fused = (
        simulate(LAYERS, plan_launches(LAYERS, of_runs(LAYERS, buckets), "layer", make_policy("baseline")))
        for buckets in ((), (bucket,))
    )
    assert held_in(fused, "backward1") == held_in(apart, "backward1") + 8000

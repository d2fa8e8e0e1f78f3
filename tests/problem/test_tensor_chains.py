"""Tensors that come one after the other: every policy obeys them, and schedules that do not are refused."""

from dataclasses import replace

import pytest

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds

NETWORK = Network(
    dimensions=(
        Dimension(kind="ring", size=4, bandwidth="4 GB/s", latency="1 us", name="node"),
        Dimension(kind="switch", size=2, bandwidth="1 GB/s", latency="3 us", name="rail"),
    )
)
TASKS = (ComputeTask(name="forward", duration="2 ms"), ComputeTask(name="backward", duration="4 ms"))


def tensor(name: str, kind: str, size: str, where: str, *after: str, ready: str = "backward") -> Tensor:
    return Tensor(
        name=name, kind=kind, size=size, ready_after=ready, needed_before="forward", dimensions=(where,), after=after
    )


def instance(*tensors: Tensor) -> Instance:
    return Instance(network=NETWORK, iteration=Iteration(tasks=TASKS, tensors=tensors), chunks=1)


CHAIN = instance(
    tensor("scattered", "reduce_scatter", "4 MB", "node"),
    tensor("reduced", "all_reduce", "1 MB", "rail", "scattered"),
    tensor("gathered", "all_gather", "4 MB", "node", "reduced"),
)
ALONE = 6e9 + 2 * (3e6 * 1e12 / 4e9 + 3e6) + 2 * (0.5e6 * 1e12 / 1e9 + 3e6)
"""Picoseconds of compute and of the three tensors one after the other."""


@pytest.mark.parametrize("chunk_policy", ["hourglass", "search:evaluations=8"])
@pytest.mark.parametrize("launching", LAUNCHING)
def test_every_policy_sends_them_one_after_the_other(launching: str, chunk_policy: str) -> None:
    made = simulate(CHAIN, make_policy(f"{launching}/{chunk_policy}")(CHAIN))
    validate(made)
    assert made.makespan == ALONE


def test_reference_and_bound_agree_with_the_policies() -> None:
    made = simulate(CHAIN, make_policy("exact:seconds=2")(CHAIN))
    validate(made)
    assert max(bounds(CHAIN).values()) <= made.makespan == ALONE


def test_schedule_that_does_not_wait_is_refused() -> None:
    plan = make_policy("wait_free/hourglass")(CHAIN)
    hasty = tuple(replace(launch, after_launches=()) for launch in plan.launches)
    with pytest.raises(InvalidSchedule, match=r"reduced starts at .* its data are ready at"):
        validate(simulate(CHAIN, replace(plan, launches=hasty)))


def test_without_launches_of_a_plan_each_waits_too() -> None:
    plan = make_policy("wait_free/hourglass")(CHAIN)
    made = simulate(CHAIN, replace(plan, launches=()))
    validate(made)
    assert made.makespan == ALONE


def test_launches_of_a_chain_are_never_fused() -> None:
    plan = make_policy("fused/hourglass")(CHAIN)
    assert [launch.tensors for launch in plan.launches] == [(0,), (1,), (2,)]
    assert [launch.after_launches for launch in plan.launches] == [(), (0,), (1,)]


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ((tensor("a", "all_reduce", "1 MB", "node", "b"),), "names 'b', there is no such other tensor"),
        ((tensor("a", "all_reduce", "1 MB", "node", "a"),), "names 'a', there is no such other tensor"),
        (
            (tensor("a", "all_reduce", "1 MB", "node", "b"), tensor("b", "all_reduce", "1 MB", "node", "a")),
            "dependencies form a cycle",
        ),
        (
            (
                tensor("a", "all_reduce", "1 MB", "node", "b", ready="forward"),
                tensor("b", "all_reduce", "1 MB", "node"),
            ),
            "'a' is ready before 'b', which it comes after",
        ),
    ],
)
def test_chains_that_make_no_sense_are_refused(tensors: tuple[Tensor, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        instance(*tensors)

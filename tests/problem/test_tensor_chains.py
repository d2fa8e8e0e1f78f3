"""Tensors that come one after the other are obeyed or refused; collectives written as an iteration take equal time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.plan import Plan, default_launches
from themis_opt.schedules.schedule import Schedule
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


POLICIES = ("baseline+fifo", "themis+scf", "themis+lifo", "random+longest_remaining", "hourglass")


def as_iteration(instance: Instance) -> Instance:
    """The collectives of an instance as tensors that tasks as long as the waits for their releases make."""
    releases = sorted({exchange.release for exchange in instance.exchanges})
    tasks = tuple(
        ComputeTask(name=str(until), duration=f"{until - since} ps")
        for since, until in zip([0, *releases], releases, strict=False)
    )
    tensors = tuple(
        Tensor(
            name=exchange.name,
            kind=collective.kind,
            size=collective.size,
            ready_after=str(collective.release),
            needed_before=tasks[0].name,
            needed_in="next",
            dimensions=collective.dimensions,
            element_bytes=collective.element_bytes,
        )
        for collective, exchange in zip(instance.collectives, instance.exchanges, strict=True)
    )
    return Instance(
        network=instance.network,
        iteration=Iteration(tasks=tasks, tensors=tensors),
        chunks=max(collective.chunks for collective in instance.collectives),
        latency=instance.latency,
        ag_order=instance.ag_order,
    )


def first_of_several(instance: Instance, plan: Plan) -> Schedule:
    """The schedule of a plan for collectives, which an iteration repeats when all of them are done."""
    iteration = as_iteration(instance)
    return simulate(iteration, replace(plan, launches=default_launches(iteration)), iterations=3)


@pytest.mark.parametrize("policy", POLICIES)
@given(instance=instances())
def test_collectives_beside_compute_start_when_they_start_alone(policy: str, instance: Instance) -> None:
    alone = simulate(instance, make_policy(policy)(instance))
    for plan in (alone.plan, alone.enforced_plan()):
        beside = first_of_several(instance, plan)
        validate(beside)
        assert np.array_equal(beside.start[: plan.num_stages], alone.start)
        assert beside.makespan == alone.makespan
        assert beside.period.exposed == alone.makespan - max(exchange.release for exchange in instance.exchanges)


@given(data=st.data())
def test_a_plan_without_launches_launches_each_exchange_when_it_is_ready(data: st.DataObject) -> None:
    iteration = as_iteration(data.draw(instances()))
    plan = make_policy(data.draw(st.sampled_from(POLICIES[:-1])))(iteration)
    assert not plan.launches
    named = replace(plan, launches=default_launches(iteration))
    assert np.array_equal(simulate(iteration, plan).start, simulate(iteration, named).start)

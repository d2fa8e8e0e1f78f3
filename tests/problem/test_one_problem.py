"""Collectives written as a training iteration whose tasks only tell the time of their releases: the same schedule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances

from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.schedules.plan import Plan, default_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

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

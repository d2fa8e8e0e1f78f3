"""From launches to plans: which chunk policy plans what, and how its sequences are combined."""

import numpy as np
import pytest
from small_iterations import PAIR, iteration, run, tensor, two_layers

import themis_opt
from themis_opt.policies.launching.wait_free import WaitFree
from themis_opt.policies.planning import fastest, plan_launches
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.simulator import simulate


def groups_planned(instance: themis_opt.Instance) -> list[list[str]]:
    """Names of the collectives in each instance that the chunk policy is given."""
    seen: list[list[str]] = []

    def policy(group: Instance) -> Plan:
        seen.append([collective.name for collective in group.collectives])
        return make_policy("baseline")(group)

    plan_launches(instance, WaitFree()(instance), "ready", policy)
    return seen


def test_launches_that_one_task_releases_are_planned_together() -> None:
    tensors = [tensor(name, size, "work", "work") for name, size in (("a", 4), ("b", 6))]
    assert groups_planned(iteration({"work": 10}, tensors)) == [["a", "b"]]


def test_launches_of_different_tasks_are_planned_apart() -> None:
    assert groups_planned(two_layers(4, 10)) == [["gradients2"], ["gradients1"]]


def test_equal_groups_are_planned_once() -> None:
    assert groups_planned(two_layers(8, 8)) == [["gradients2"]]


def test_a_launch_of_few_elements_has_as_many_chunks() -> None:
    instance = iteration({"work": 10}, [tensor("t", 0.006, "work", "work")], chunks=64)
    assert len(make_policy("fused/baseline")(instance).chunks[0].sizes) == 3


@pytest.mark.parametrize("chunk_policy", ["hourglass", "search:evaluations=8"])
def test_sequences_of_dimensions_that_share_a_resource_do_not_wait_for_each_other(chunk_policy: str) -> None:
    split = {"dimension": "dim1", "sizes": [2, 3], "names": ["inner", "outer"], "shared": True}
    wire = {"in_network": True, "compression": 4.0}
    slow = {"size": 6, "bandwidth": "20 MB/s", "latency": "23271 ps"} | wire
    fast = {"kind": "ring", "bandwidth": 1e16, "latency": "16309 ps", "launch_overhead": "4642 ps"} | wire
    tensors = [
        tensor("a", 59.516, "work", "work", element_bytes=4),
        tensor("b", 0.028, "work", "work", element_bytes=4, parallelism="model"),
    ]
    network = {"dimensions": [PAIR | slow, PAIR | fast]}
    rules = {"chunks": 5, "latency": "occupy", "ag_order": "reverse"}
    instance = iteration({"work": 0}, tensors, network=network, splits=[split], **rules)
    assert run(instance, f"fused:order=layer/{chunk_policy}").makespan > 0


def test_a_gather_that_reverses_its_scatter_takes_its_chunks() -> None:
    instance = two_layers(3000, 7000, dimensions=3, chunks=6, ag_order="reverse")
    plan = make_policy("dear:threshold=1B/hourglass:sizes=free")(instance)
    chunks_of = {(launch.tensors, launch.part): c for launch, c in zip(plan.launches, plan.chunks, strict=True)}
    for (tensors, part), chunks in chunks_of.items():
        if part == "gather":
            assert np.array_equal(chunks.sizes, chunks_of[tensors, "scatter"].sizes)
            assert np.array_equal(chunks.paths, chunks_of[tensors, "scatter"].paths[:, ::-1])


def test_the_fastest_of_some_plans_is_kept() -> None:
    instance = two_layers()
    plans = [make_policy(f"{name}/baseline")(instance) for name in ("fused", "wait_free", "ddp")]
    times = [simulate(instance, plan).makespan for plan in plans]
    assert fastest(instance, plans).makespan == min(times)

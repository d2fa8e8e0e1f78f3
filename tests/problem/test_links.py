"""Links beside the network, and dimensions behind one link of an NPU."""

from typing import Any

import pytest
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.description import tables
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds

NETWORK = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="1 GB/s", name="ring"),))
HOST = Dimension(kind="switch", size=2, bandwidth="2 GB/s", latency="1 us", name="host")


def instance(swapped: str, gradients: str, link: Dimension = HOST) -> Instance:
    """Activations of a layer leave for the host after its forward pass and come back before its backward pass."""
    names = ("forward 1", "forward 2", "backward 2", "backward 1")
    swap = {"kind": "send", "size": swapped, "dimensions": ("host",), "parallelism": "model"}
    out = Tensor(name="out", ready_after="forward 1", needed_before="backward 1", **swap)
    back = Tensor(name="back", ready_after="forward 1", needed_before="backward 1", after=("out",), **swap)
    gradient = Tensor(name="gradients", size=gradients, ready_after="backward 2", needed_before="forward 2")
    tasks = tuple(ComputeTask(name=name, duration="1 ms") for name in names)
    return Instance(
        network=NETWORK, iteration=Iteration(tasks=tasks, tensors=(out, back, gradient), links=(link,)), chunks=2
    )


@pytest.mark.parametrize("launching", LAUNCHING)
@pytest.mark.parametrize(("swapped", "gradients"), [("1 MB", "1 MB"), ("8 MB", "1 MB"), ("1 MB", "16 MB")])
def test_iteration_is_never_below_compute_link_and_network(launching: str, swapped: str, gradients: str) -> None:
    linked = instance(swapped, gradients)
    schedule = schedule_of(linked, f"{launching}/hourglass")
    validate(schedule)
    out, _, gradient = linked.exchanges
    link, network = 2 * out.size / 2e9 * 1e12, 2 * 0.75 * gradient.size / 1e9 * 1e12
    assert schedule.makespan >= max(linked.compute, link, network)
    assert schedule.makespan >= max(bounds(linked).values()) * (1 - 1e-9)


def test_swaps_and_gradients_do_not_share_a_resource() -> None:
    linked = instance("1 MB", "1 MB")
    assert linked.resource_names == ("ring", "host")
    assert [exchange.span for exchange in linked.exchanges] == [(1,), (1,), (0,)]


def test_bound_counts_the_way_out_and_back() -> None:
    linked = instance("8 MB", "1 MB")
    assert max(bounds(linked).values()) == pytest.approx(1e9 + 2 * (4e9 + 1e6) + 1e9, rel=1e-6)


def test_link_without_a_name_or_with_that_of_a_dimension_is_refused() -> None:
    with pytest.raises(InputError, match="links must have names"):
        instance("1 MB", "1 MB", HOST.replace(name=""))
    with pytest.raises(InputError, match="names must differ"):
        instance("1 MB", "1 MB", HOST.replace(name="ring"))


OVERSUBSCRIBED = 2
NIC = 50e9


def cluster(*dimensions: dict[str, Any], kind: str = "all_reduce") -> Instance:
    """A collective of 1 GB in 16 chunks on switches."""
    network = {"dimensions": [{"kind": "switch", "bandwidth": NIC} | dimension for dimension in dimensions]}
    return Instance.model_validate({"network": network, "collectives": [{"kind": kind, "size": 10**9, "chunks": 16}]})


LEAF = {"name": "leaf", "size": 8}
SPINE = {"name": "spine", "size": 4, "bandwidth": NIC / OVERSUBSCRIBED}
WAYS = {
    "the spine shares": (LEAF, SPINE | {"shares": "leaf"}),
    "the leaf shares": (LEAF | {"shares": "spine"}, SPINE),
    "both share": (LEAF | {"shares": "spine"}, SPINE | {"shares": "leaf"}),
}


def microseconds(instance: Instance, policy: str = "baseline+fifo") -> float:
    schedule = schedule_of(instance, policy)
    validate(schedule)
    return schedule.makespan / 1e6


@pytest.mark.parametrize("way", WAYS)
def test_an_oversubscribed_cluster_gives_one_answer_whichever_way_it_is_written(way: str) -> None:
    """7/8 of the bytes at the full rate of the NIC and 3/32 at half of it, twice; and no order is better."""
    problem = cluster(*WAYS[way])
    expected = 2 * (7 / 8 + OVERSUBSCRIBED * 3 / 32) * 1e9 / NIC * 1e6
    assert microseconds(problem) == pytest.approx(expected)
    assert max(bounds(problem).values()) / 1e6 == pytest.approx(expected)
    assert problem.network.identity == cluster(*WAYS["both share"]).network.identity


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_without_oversubscription_it_is_one_switch(kind: str) -> None:
    both = cluster(LEAF, SPINE | {"shares": "leaf", "bandwidth": NIC}, kind=kind)
    one = cluster({"size": 32}, kind=kind)
    assert microseconds(both) == pytest.approx(microseconds(one))
    for name in ("fluid", "ideal", "cut", "order_count"):
        assert bounds(both)[name] == pytest.approx(bounds(one)[name]), name


def test_without_sharing_they_are_two_links() -> None:
    assert microseconds(cluster(LEAF, SPINE), "hourglass") < 0.7 * microseconds(
        cluster(LEAF, SPINE | {"shares": "leaf"})
    )


def test_a_group_of_exchanges_shares_what_they_share() -> None:
    problem = cluster(*WAYS["the leaf shares"])
    assert problem.group(problem.exchanges).links == problem.links == (0, 0)


def test_it_is_said() -> None:
    rows = tables(cluster(*WAYS["the spine shares"]))["network"]
    assert [row["extras"] for row in rows] == ["on the link of spine", "on the link of leaf"]


@pytest.mark.parametrize("name", ["rail", "spine"])
def test_only_another_dimension_can_be_named(name: str) -> None:
    with pytest.raises(ModelError, match=f"dimensions.1..shares names '{name}', the others are leaf"):
        cluster(LEAF, SPINE | {"shares": name})

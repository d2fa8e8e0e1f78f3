"""Dimensions behind one link of an NPU, as leaf and spine are behind one NIC."""

from typing import Any

import pytest
from planning import schedule_of

from themis_opt.problem.description import tables
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds

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

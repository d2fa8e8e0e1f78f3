"""Plans by slots on boxes on rails: legal message by message, near bounds, and the same from a file."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graph_samples import boxes_on_rails, instance_of, shipped
from samples import rare

import themis_opt
from formulations.limits import Limits
from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.graphs.bounds import best_bound
from themis_opt.graphs.clusters import cluster_named
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.policies import exchange_plan, hierarchical_plan, scatter_plan, with_transfers
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.rails import Rails
from themis_opt.graphs.schedule import GraphSchedule, in_best_chunks, simulate_graph
from themis_opt.graphs.schedule_file import read_graph_schedule, schedule_text
from themis_opt.graphs.slots import SlotMessages, SlotPlan, Slots, SlotTable, slot_plan
from themis_opt.graphs.validation import _check_apart, _joined, validate_graph
from themis_opt.reports.pictures import draw_schedule

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def slots_of(instance: GraphInstance, chunks: int = 2) -> GraphSchedule:
    return simulate_graph(slot_plan("hierarchical", instance), chunks)


@pytest.mark.parametrize("kind", ["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce"])
@pytest.mark.parametrize(
    "lost",
    [("nic0.0",), ("nic2.1", "nic2.2"), ("b3.g2",), *map(rare, [("nic0.0", "b5.g3-b5.nvs"), ("s1",), ("p1.leaf2",)])],
    ids=str,
)
def test_slots_are_legal_around_losses(kind: str, lost: tuple[str, ...]) -> None:
    instance = instance_of(boxes_on_rails(8, 4, lost), kind, "1001 KB")
    schedule = slots_of(instance)
    validate_graph(schedule)
    assert schedule.makespan >= best_bound(instance).picoseconds


@pytest.mark.parametrize("kind", KINDS)
def test_slots_of_meshed_boxes_are_near_the_bound(kind: str) -> None:
    instance = instance_of(boxes_on_rails(16, 4, meshed=True), kind, "1 GB")
    validate_graph(slots_of(instance, 3))
    assert slots_of(instance, 64).makespan <= best_bound(instance).picoseconds * 1.01


@pytest.mark.parametrize(("boxes", "gpus", "most"), [(8, 4, 1.02), (12, 6, 1.035)])
@pytest.mark.parametrize("lost", [("nic0.0",), ("nic2.1", "nic4.3")], ids=str)
def test_all_nics_carry_what_a_lost_one_did(boxes: int, gpus: int, most: float, lost: tuple[str, ...]) -> None:
    instance = instance_of(boxes_on_rails(boxes, gpus, lost, pod=boxes), "all_reduce", "1 GB")
    hops = hierarchical_plan(instance).hops
    busy = np.bincount(hops.link, hops.durations(1)[0][1])
    assert best_bound(instance).picoseconds * 0.99 < busy.max() <= best_bound(instance).picoseconds * most


@pytest.mark.parametrize(
    ("cluster", "lost", "kind", "size", "most"),
    [
        ("nvl72:npus=288", ("rack0.nic0_0",), "all_gather", "1 GB", 1.01),
        ("h100:npus=1024", ("pod0.box0.port0", "pod1.box1.nvswitch"), "all_reduce", "1 GB", 1.01),
        ("h100:npus=128", ("box0.nic0",), "all_reduce", "1 GB", 1.015),
        ("h100:boxes=16:levels=3:oversubscription=4", ("block0.box0.nic0",), "all_gather", "1 GB", 1.2),
        ("h100:npus=512", ("pod0.box0.nic0",), "all_reduce", "1 GB", 1.025),
        ("h100:npus=64", (), "all_reduce", "1 MiB", 1.11),
        ("h100:npus=1024", ("spine0",), "all_gather", "1 GB", 1.01),
        ("h100:npus=1024", tuple(f"pod0.box0.gpu{g}" for g in range(8)), "reduce_scatter", "1 GB", 1.02),
        ("h100:npus=1024", ("pod0.leaf0",), "all_gather", "1 GB", 1.01),
        ("h100:npus=128:levels=3", ("block0.leaf0",), "all_reduce", "1 GB", 1.08),
        ("h100:npus=256", ("leaf0",), "broadcast", "1 GB", 1.01),
        ("h100:boxes=16:levels=3:oversubscription=4", ("block0.leaf0",), "all_gather", "1 GB", 2.2),
        ("h100:npus=64", ("box3.nic2",), "reduce", "1 GB", 1.01),
        ("h100:npus=64", (), "broadcast", "1 KiB", 1.04),  # in one tree
        ("h100:npus=64", (), "all_to_all", "32 KiB", 1.1),
    ],
)
def test_slots_of_clusters_are_near_the_bound(
    cluster: str, lost: tuple[str, ...], kind: str, size: str, most: float
) -> None:
    instance = instance_of(cluster_named(f"cluster:{cluster}").network.without(lost), kind, size)
    plan = hierarchical_plan(instance)
    assert isinstance(plan, SlotPlan) == (size != "1 KiB")
    bound = best_bound(instance).picoseconds
    schedule = in_best_chunks(plan)
    validate_graph(schedule)
    assert bound <= schedule.makespan <= most * bound


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("slow", [0, 3])
def test_boxes_need_no_nic_with_its_like_in_others(slow: int) -> None:
    network = boxes_on_rails(3, 3, ("nic0.1", "nic1.1")).slowed({f"nic2.{g}": 0.5 for g in range(slow)})
    instance = instance_of(network, "all_reduce", "1 MB")
    validate_graph(schedule := in_best_chunks(hierarchical_plan(instance)))
    assert schedule.makespan <= 1.7 * best_bound(instance).picoseconds
    assert Rails(network).shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("cluster", "kind", "size", "most"),
    [
        ("h100:boxes=3", "reduce", "32 KiB", 1.15),
        ("h100:boxes=4", "all_reduce", "1 KiB", 1.05),
        ("h100:boxes=4", "all_reduce", "32 KiB", 1.1),
        ("tpu_v4:shape=4x4x4", "all_reduce", "1 KiB", 1.01),
    ],
)
def test_small_messages_cross_the_network_once(cluster: str, kind: str, size: str, most: float) -> None:
    instance = instance_of(cluster_named(f"cluster:{cluster}").network, kind, size)
    schedule = in_best_chunks(exchange_plan(instance) if kind == "all_reduce" else scatter_plan(instance))
    validate_graph(schedule)
    bound = best_bound(instance).picoseconds
    assert bound <= schedule.makespan <= most * bound


def test_links_take_no_two_messages_of_a_slot_at_once() -> None:
    schedule = slots_of(instance_of(boxes_on_rails(4, 5), "all_gather", "1 MB"))
    validate_graph(schedule)
    assert isinstance(schedule.plan, SlotPlan)
    table = schedule.plan.hops.table
    turns = table.messages[0].turns
    table.messages[0] = table.messages[0]._replace(turns=turns.clip(max=turns.max() - 1))
    with pytest.raises(InvalidSchedule, match="capacity"):
        validate_graph(schedule)


Lifted = tuple[SlotMessages, IntArray, bool]


def of_another_piece(messages: SlotMessages, starts: IntArray, are_sums: bool) -> Lifted:
    return messages._replace(roots=messages.roots if are_sums else messages.roots ^ 1), starts, are_sums


def twice_there(messages: SlotMessages, starts: IntArray, are_sums: bool) -> Lifted:
    """A copy is that of another piece."""
    roots = messages.roots.copy()
    roots[np.flatnonzero(roots != roots[0])[0]] = roots[0]
    return messages if are_sums else messages._replace(roots=roots), starts, are_sums


def one_too_few(messages: SlotMessages, starts: IntArray, are_sums: bool) -> Lifted:
    return SlotMessages(*(array[1:] for array in messages)), starts[1:], are_sums


def between_pods_late(messages: SlotMessages, starts: IntArray, are_sums: bool) -> Lifted:
    return messages, starts + (messages.nodes.shape[1] > 3) * 10**12, are_sums


def from_a_switch(messages: SlotMessages, starts: IntArray, are_sums: bool) -> Lifted:
    return SlotMessages(messages.roots, *(array[:, 1:] for array in messages[1:])), starts[:, 1:], are_sums


def to_itself(messages: SlotMessages, starts: IntArray, are_sums: bool) -> Lifted:
    return messages._replace(nodes=0 * messages.nodes), starts, are_sums


@pytest.mark.parametrize(
    ("kind", "change", "rule"),
    [
        ("all_gather", lambda m, starts, s: (m, starts - 1 - starts.min(), s), "a message leaves a node before it is"),
        ("all_gather", lambda m, starts, s: (m, starts[:, ::-1], s), "a message leaves a node before it is"),
        ("all_gather", from_a_switch, "a switch only passes messages on"),
        ("all_gather", to_itself, "a message goes where no link is"),
        ("all_gather", of_another_piece, "piece 0: node 0 does not get it"),
        ("all_gather", between_pods_late, "a node sends what it does not have"),
        ("all_reduce", twice_there, "a node does not get it, or adds something twice"),
        ("all_reduce", one_too_few, "a node does not get it, or adds something twice"),
        ("all_reduce", of_another_piece, "a piece is copied from another node than that with its sum"),
        ("all_to_all", lambda m, starts, s: (m, starts + 10**12, s), "makespan"),
        *(
            (kind, lambda m, starts, s: (m, starts, not s), "not the sums and copies")
            for kind in KINDS
            if kind != "all_reduce"
        ),
        *(
            ("all_reduce", lambda m, starts, s, sums=sums: (m, starts, sums), "not the sums and copies")
            for sums in (True, False)
        ),
    ],
)
def test_messages_that_break_a_rule_are_refused(
    monkeypatch: pytest.MonkeyPatch, kind: str, change: Callable[[SlotMessages, IntArray, bool], Lifted], rule: str
) -> None:
    schedule, lift = slots_of(instance_of(boxes_on_rails(8, 2), kind, "1 MB")), Slots.lift

    def changed(slots: Slots, start: IntArray, chunks: int) -> Iterator[Lifted]:
        return (change(*messages) for messages in lift(slots, start, chunks))

    monkeypatch.setattr(Slots, "lift", changed)
    with pytest.raises(InvalidSchedule, match=rule):
        validate_graph(schedule)


def test_slots_with_another_makespan_or_before_their_data_are_refused() -> None:
    schedule = slots_of(instance_of(boxes_on_rails(4, 2), "all_reduce", "1 MB"))
    early = (schedule.start - schedule.start.max() // 3).clip(0)
    changes = [("makespan", {"makespan": schedule.makespan + later}) for later in (-1, 1)]
    for rule, change in [*changes, ("order", {"start": early, "end": early + schedule.end - schedule.start})]:
        with pytest.raises(InvalidSchedule, match=rule):
            validate_graph(replace(schedule, **change))


@pytest.mark.parametrize("oversubscription", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_slots_cross_three_layers_of_switches(kind: str, oversubscription: int) -> None:
    name = f"cluster:h100:boxes=8:levels=3:oversubscription={oversubscription}"
    instance = instance_of(cluster_named(name).network, kind, "1 GB")
    crossing = [messages for messages in slots_of(instance).plan.hops.table.messages if messages.nodes.shape[1] == 7]
    assert crossing
    validate_graph(slots_of(instance, 3))
    assert slots_of(instance, 256).makespan <= best_bound(instance).picoseconds * 1.03


FOLDED_NETWORKS = {
    "pods": lambda: boxes_on_rails(8, 4, (), 4),
    "a lost NIC": lambda: boxes_on_rails(8, 4, ("nic2.1",), 8),
    "three layers": lambda: cluster_named("cluster:h100:boxes=4:levels=3").network,
    "a damaged box under cores": lambda: (
        cluster_named("cluster:h100:boxes=4:levels=3").network.without(["block0.box0.port2"])
    ).slowed({"block0.box0.nic4": 0.5}),
    "few uplinks": lambda: cluster_named("cluster:h100:boxes=16:levels=3:oversubscription=4").network.without(
        ["block0.box0.nic0", "block0.box1.nic0"]
    ),
    "racks": lambda: cluster_named("cluster:nvl72:boxes=8").network,
}


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all", "broadcast"])
@pytest.mark.parametrize("network", FOLDED_NETWORKS.values(), ids=FOLDED_NETWORKS)
def test_slots_are_those_of_all_messages(network: Callable[[], GraphNetwork], kind: str) -> None:
    instance = instance_of(network(), kind, "64 MB")
    folded = slot_plan("hierarchical", instance).hops
    table = folded.table
    lifted = SlotTable(table.rails, table.elements, table.personal, table.root, table.relays, is_lifted=True)
    assert (table.edges, table.links, table.made) == (lifted.edges, lifted.links, [])
    assert folded.durations(3)[0].tolist() == Slots(instance, lifted).durations(3)[0].tolist()


def test_messages_that_follow_each_other_on_two_links_stay_apart() -> None:
    links, start, end = np.array([0, 1, 1]), np.array([0, 10, 15]), np.array([10, 20, 25])
    with pytest.raises(InvalidSchedule, match="two messages at once"):
        _check_apart(*_joined(links, start, end))


def without_some(messages: SlotMessages) -> SlotMessages:
    return SlotMessages(*(array[1:] for array in messages))


def for_others(messages: SlotMessages) -> SlotMessages:
    """The first two messages, each as that between another pair of NPUs."""
    roots = messages.roots.copy()
    roots[[0, 1]] = roots[[1, 0]]
    return messages._replace(roots=roots)


@pytest.mark.parametrize("forge", [without_some, for_others])
def test_an_all_to_all_that_lacks_messages_or_mixes_them_up_is_refused(
    forge: Callable[[SlotMessages], SlotMessages],
) -> None:
    schedule = slots_of(instance_of(boxes_on_rails(4, 3), "all_to_all", "1200 KB"))
    assert isinstance(schedule.plan, SlotPlan)
    messages = schedule.plan.hops.table.messages
    messages[-1] = forge(messages[-1])
    with pytest.raises(InvalidSchedule, match="data"):
        validate_graph(schedule)


def test_an_all_to_all_that_leaves_a_box_before_it_is_on_its_rail_is_refused() -> None:
    instance = instance_of(boxes_on_rails(4, 3), "all_to_all", "1200 B")
    plan = slot_plan("hierarchical", instance)
    table, within = plan.hops.table, plan.hops.names.index("switches to their NPUs")
    table.edges[:] = [edge for edge in table.edges if table.links[edge[0]] != within]
    schedule = simulate_graph(replace(plan, slots=Slots(instance, table)), 2)
    with pytest.raises(InvalidSchedule, match="data"):
        validate_graph(schedule)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce"])
def test_files_hold_the_policy_in_place_of_messages(tmp_path: Path, kind: str) -> None:
    schedule, path = slots_of(instance_of(boxes_on_rails(4, 2), kind, "1 MB")), tmp_path / "schedule.json"
    path.write_text(schedule_text(schedule))
    again, _ = read_graph_schedule(path)
    assert (again.makespan, again.chunks) == (schedule.makespan, schedule.chunks)
    validate_graph(simulate_graph(with_transfers(again.plan), 2))
    draw_schedule(again, tmp_path / "schedule.svg")
    assert "NICs out" in (tmp_path / "schedule.svg").read_text()


def test_slots_stand_for_all_policies_where_there_is_no_time() -> None:
    compared = compare_graph(instance_of(boxes_on_rails(20, 4), "all_reduce"), limits=Limits(seconds=0.001))
    assert [result.policy for result in compared.results] == ["hierarchical"]


def test_networks_without_rails_have_no_slots() -> None:
    with pytest.raises(InputError, match="on rails"):
        slot_plan("hierarchical", shipped("dragonfly", kind="all_gather"))
    assert isinstance(hierarchical_plan(instance_of(boxes_on_rails(6, 4), "all_gather")), SlotPlan)
    without_uplinks = cluster_named("cluster:h100:boxes=4:levels=3").network.without(
        ["block0.leaf0.up0", "block0.leaf0.up1"]
    )
    assert not isinstance(hierarchical_plan(instance_of(without_uplinks, "all_reduce", "1 MB")), SlotPlan)


def test_routes_take_no_third_switch_where_two_are_joined() -> None:
    network = themis_opt.load("dragonfly-64.all_reduce.1GB").network
    rails = Rails(network)
    routes = [route for root in rails.boxes[0].tolist() for route in rails.out(root)]
    names = [[network.nodes[node].name for node in route] for route in routes]
    assert {len(route) for route in routes} == {3, 4}
    assert ["group0.npu0_0", "group0.router0", "group0.router3", "group0.npu3_1"] in names

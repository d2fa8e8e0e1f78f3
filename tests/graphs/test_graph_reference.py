"""The search on small graphs: legal, no slower than rules, and bounded in its class."""

import random
from dataclasses import replace

import pytest
from graph_samples import instance_of, network_of, random_graph, searched, shipped

from formulations.flow_network import CapacityGraph
from formulations.limits import Limits
from themis_opt.base.errors import InputError
from themis_opt.graphs import exact
from themis_opt.graphs.bounds import best_bound
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.meetings import plan_of_ways, random_meeting, routes_of_ways
from themis_opt.graphs.mirroring import mirrored_plan, turned_instance
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.rarest import rarest_plan
from themis_opt.graphs.schedule import simulate_graph
from themis_opt.graphs.validation import validate_graph

SMALL = Limits(seconds=1.5, workers=1)


def torus(kind: str, size: str = "12 KB") -> GraphInstance:
    """Two rows of three, with links around."""
    pairs = {(a, b) for row in (0, 3) for a, b in ((row, row + 1), (row + 1, row + 2), (row, row + 2))}
    pairs |= {(column, column + 3) for column in range(3)}
    arcs = dict.fromkeys((arc for pair in sorted(pairs) for arc in (pair, pair[::-1])), 1)
    return instance_of(network_of(CapacityGraph(6, tuple(range(6)), arcs), latency="1 us"), kind, size)


@pytest.mark.parametrize(("kind", "gap"), [("all_gather", 0.05), ("all_to_all", 0.2)])
def test_the_search_beats_rules_and_is_proven_in_its_class(kind: str, gap: float) -> None:
    best = compare_graph(torus(kind), ["trees", "trees=1", "direct", "exact"], replace(SMALL, deterministic=True)).best
    assert best.gap <= gap
    assert best.class_bound is not None
    assert best.schedule.makespan >= best.class_bound.picoseconds >= best.bound


def test_the_bound_of_a_class_holds_for_chunks_of_unequal_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five elements in four chunks of one or two go along a line in 14 ns; four chunks of two would take 20 ns."""
    line = CapacityGraph(3, (0, 1, 2), {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1})
    instance = instance_of(network_of(line), "broadcast", "10 B")
    monkeypatch.setattr(exact, "REFERENCE_CHUNKS", (1,))
    (result,) = compare_graph(instance, ["exact"], WORK).results
    assert result.class_bound is None or result.bound <= result.class_bound.picoseconds <= result.makespan


def test_the_search_is_only_for_small_graphs_and_can_be_asked_for() -> None:
    assert [r.policy for r in compare_graph(torus("all_gather"), ["ring", "exact"], SMALL).results][-1] == "ring"
    large = CapacityGraph(17, tuple(range(17)), {(a, b % 17): 1 for a in range(17) for b in (a + 1, a + 16)})
    with pytest.raises(InputError, match="fewer nodes"):
        compare_graph(instance_of(network_of(large), "all_gather"), ["exact"], SMALL)


def test_ctrl_c_keeps_what_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exact, "matched_plan", ends)
    compared = compare_graph(torus("all_gather"), ["ring", "exact"], SMALL)
    assert compared.interrupted
    assert [result.policy for result in compared.results] == ["ring"]
    with pytest.raises(KeyboardInterrupt):
        compare_graph(torus("all_gather"), ["exact"], SMALL)


WORK = Limits(seconds=0.5, workers=1, deterministic=True)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "broadcast", "reduce", "all_reduce"])
@pytest.mark.parametrize("seed", range(2))
def test_rarest_chunks_first_are_legal_and_never_below_a_bound(seed: int, kind: str) -> None:
    graph = random_graph(seed, symmetric=seed == 0, switches=seed, most=6)
    instance = instance_of(network_of(graph, latency="1 us"), kind, "64 KB")
    schedule = simulate_graph(rarest_plan(instance, 8))
    validate_graph(schedule)
    assert schedule.makespan >= best_bound(instance).picoseconds


def test_switches_have_sums_only_of_what_they_received() -> None:
    instance = shipped("h100_x2_sharp", kind="reduce", size="64 KiB")
    validate_graph(simulate_graph(rarest_plan(instance, 4)))


def test_a_root_sends_every_chunk_once_where_links_are_alike() -> None:
    instance = torus("broadcast", "96 KB")
    schedule = simulate_graph(rarest_plan(instance, 128))
    assert schedule.makespan <= 1.1 * best_bound(instance).picoseconds


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("seed", range(2))
def test_mixtures_are_legal_repeat_themselves_and_are_never_below_a_bound(seed: int, kind: str) -> None:
    graph = random_graph(seed, symmetric=True, switches=seed % 2, most=6)
    instance = instance_of(network_of(graph, latency="1 us"), kind, "64 KB")
    schedule = searched("mix", instance, WORK)
    assert schedule is not None
    validate_graph(schedule)
    assert schedule.makespan >= best_bound(instance).picoseconds
    again = searched("mix", instance, WORK)
    assert again is not None
    assert again.makespan == schedule.makespan


def test_small_sums_meet_on_their_way_sooner_than_at_any_root() -> None:
    instance = torus("all_reduce", "240 B")
    rooted = min(result.schedule.makespan for result in compare_graph(instance).results)
    schedule = searched("mix", instance, WORK.within(2.0))
    assert schedule is not None
    assert schedule.makespan <= 0.85 * rooted


def test_switches_that_sum_and_copy_meet_as_well() -> None:
    instance = shipped("h100_x2_sharp", size="64 KiB")
    schedule = searched("mix", instance, WORK)
    assert schedule is not None
    validate_graph(schedule)
    switches = {instance.network.index[f"box{box}.nvswitch"] for box in range(2)}
    assert any(transfer.route[-1] in switches for transfer in schedule.plan.transfers)


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_a_half_reach_all_its_nodes_where_the_other_half_has_no_npus(seed: int) -> None:
    nodes = [*({"name": name} for name in "abcd"), {"name": "s", "kind": "switch", "sums": True, "multicasts": True}]
    links = [{"ends": list(ends), "bandwidth": "1 GB/s"} for ends in ("ab", "bs", "sc", "cd")]
    links += [{"ends": ["a", "d"], "bandwidth": "1 GB/s", "back": "0 GB/s"}]
    instance = instance_of(GraphNetwork.model_validate({"nodes": nodes, "links": links}), "all_reduce", "240 B")
    routes = {(route[0], route[-1]): route for route in routes_of_ways(instance)}
    chance = random.Random(seed)
    way = random_meeting(instance.network, routes, dict.fromkeys(routes, 1.0), chance, trees=False)
    validate_graph(simulate_graph(plan_of_ways("meeting", instance, [(120, (None, None), tuple(way))])))


@pytest.mark.parametrize(
    ("search", "name", "kind", "size", "seconds", "enough", "most"),
    [
        ("mix", "boxes_5_3", "all_reduce", "64 KiB", 1.5, 1.04, 1.06),
        ("mix", "boxes_5_3", "broadcast", "64 KiB", 2.0, 1.02, 1.02),
        ("mirror", "h100_x2_sharp", "reduce_scatter", "256 KiB", 1.0, 1.1, 1.1),
    ],
    ids=["small sums on uneven boxes", "trees that wait for nothing", "sums in switches, as copies backwards"],
)
def test_searches_are_near_the_bound(
    search: str, name: str, kind: str, size: str, seconds: float, enough: float, most: float
) -> None:
    instance = shipped(name, kind=kind, size=size)
    least = float(best_bound(instance).picoseconds)
    schedule = searched(search, instance, WORK.within(seconds), enough * least)
    assert schedule is not None
    validate_graph(schedule)
    assert schedule.makespan <= most * least


@pytest.mark.parametrize("kind", ["reduce_scatter", "reduce"])
@pytest.mark.parametrize("seed", range(4))
def test_sums_take_what_gathers_take_on_the_graph_turned_around(kind: str, seed: int) -> None:
    network = network_of(random_graph(seed, symmetric=False, switches=seed % 2), latency="1 us")
    instance = instance_of(network, kind, "40 KB")
    gather = simulate_graph(rarest_plan(turned_instance(instance), 4), 1 + seed)
    plan = mirrored_plan("mirror", instance, gather)
    assert plan is not None
    schedule = simulate_graph(plan)
    validate_graph(schedule)
    assert schedule.makespan <= 1.1 * gather.makespan
    assert best_bound(instance).picoseconds == pytest.approx(best_bound(turned_instance(instance)).picoseconds)


def test_slow_links_that_nobody_uses_do_not_raise_the_bound_of_the_class() -> None:
    fast = [{"ends": list(pair), "bandwidth": "1 GB/s"} for pair in ("ab", "bc", "ca")]
    slow = {"ends": ["a", "d"], "bandwidth": "1 GB/s", "latency": "100 us"}
    links = [*fast, {"ends": ["c", "d"], "bandwidth": "1 GB/s"}, slow]
    nodes = [{"name": name} for name in "abcd"]
    what = [{"kind": "all_gather", "size": "4 KB"}]
    graph = GraphInstance.model_validate({"network": {"nodes": nodes, "links": links}, "collectives": what})
    best = compare_graph(graph, ["exact"], SMALL).best
    assert best.class_bound is not None
    assert best.class_bound.picoseconds <= best.makespan < 100_000_000

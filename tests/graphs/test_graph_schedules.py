"""Schedules on graphs: legal, never below a bound, and at it where trees fill pipelines."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from graph_samples import boxes_on_rails, instance_of, network_of, random_graph, shipped
from library import check

from formulations.edge_splitting import balanced, merged, split_switches
from formulations.flow_network import CapacityGraph
from formulations.interruption import TimeUp
from formulations.limits import Limits
from formulations.tree_packing import pack_trees
from formulations.worst_cut import scaled, worst_cut
from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.graphs import comparison
from themis_opt.graphs.bounds import best_bound, graph_bounds
from themis_opt.graphs.certificates import graph_order
from themis_opt.graphs.clusters import Cluster, cluster, made
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.plan import GraphPlan, PlanBuilder, demands, divide
from themis_opt.graphs.policies import (
    bine_plan,
    double_tree_plan,
    exchange_plan,
    hierarchical_plan,
    pat_plan,
    scatter_plan,
    two_tree_plan,
)
from themis_opt.graphs.problem import GraphInstance, GraphNetwork, graph_text, load_graph
from themis_opt.graphs.registry import GRAPH_POLICIES
from themis_opt.graphs.schedule import GraphSchedule, chunked_schedules, in_best_chunks, simulate_graph
from themis_opt.graphs.trees import gather_capacities, tree_plan
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.catalog import shipped_graphs
from themis_opt.problem.fields import ModelError

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce")


@pytest.mark.parametrize("seed", range(30))
def test_trees_span_and_fit_capacities(seed: int) -> None:
    graph = balanced(random_graph(seed, symmetric=seed % 2 == 0, switches=seed % 3, most=9))
    ratio = worst_cut(graph).ratio
    capacities = scaled(graph, ratio.denominator)
    units = dict.fromkeys(graph.terminals, ratio.numerator)
    trees = pack_trees(graph.terminals, split_switches(capacities, units), units)
    used: Counter[tuple[int, int]] = Counter()
    roots: Counter[int] = Counter()
    for tree in trees:
        roots[tree.root] += tree.count
        assert sorted([tree.root, *(route[-1] for route in tree.routes)]) == list(graph.terminals)
        reached = {tree.root}
        for route in tree.routes:
            assert route[0] in reached
            reached.add(route[-1])
            used.update(dict.fromkeys(pairwise(route), tree.count))
    assert roots == units
    assert all(count <= capacities.arcs[arc] for arc, count in used.items())


@pytest.mark.parametrize(("symmetric", "figures"), [(True, (713, 7179, 335, 6192)), (False, (696, 7722, 300, 5971))])
def test_routes_and_trees_are_as_few_and_as_flat_as_ever(symmetric: bool, figures: tuple[int, ...]) -> None:
    """Routes without switches and their capacities, trees and the depths of their nodes, of thirty graphs in all."""
    sums = np.zeros(4, dtype=np.int64)
    for seed in range(30):
        graph = balanced(random_graph(seed, symmetric=symmetric, switches=seed % 4, most=9))
        ratio = worst_cut(graph).ratio
        units = dict.fromkeys(graph.terminals, ratio.numerator)
        routes = split_switches(scaled(graph, ratio.denominator), units)
        trees = pack_trees(graph.terminals, routes, units)
        depth = sum(tree.count * sum(tree.depths.values()) for tree in trees)
        sums += (len(routes), sum(routes.values()), len(trees), depth)
    assert sums.tolist() == list(figures)


TREE_TIMES = (1_232_428_340, 1_188_212_977, 2_363_654_456, 1_362_756_269, 1_825_509_872, 1_954_905_409)


@pytest.mark.parametrize(("kind", "picoseconds"), [*zip(KINDS, TREE_TIMES, strict=True)])
def test_trees_are_as_fast_as_ever(kind: str, picoseconds: int) -> None:
    """In three chunks, on eight graphs in all."""
    graphs = [random_graph(seed, symmetric=seed % 2 == 0, switches=seed % 3, most=7) for seed in range(8)]
    instances = [instance_of(network_of(graph, latency="1 us"), kind, "1 MB") for graph in graphs]
    assert sum(simulate_graph(tree_plan(instance), 3).makespan for instance in instances) == picoseconds


@pytest.mark.parametrize("seed", range(15))
def test_routes_without_switches_carry_as_much(seed: int) -> None:
    graph = balanced(random_graph(seed, symmetric=True, switches=2, most=9))
    ratio = worst_cut(graph).ratio
    units = dict.fromkeys(graph.terminals, ratio.numerator)
    routes = split_switches(scaled(graph, ratio.denominator), units)
    alone = CapacityGraph(graph.num_nodes, graph.terminals, merged(routes))
    assert all({route[0], route[-1]} <= set(graph.terminals) for route in routes)
    assert worst_cut(alone).ratio >= ratio.numerator


@pytest.mark.parametrize("name", ["a100_x3", "h100_8_8_8_4"])
def test_trees_behind_switches_are_flat(name: str) -> None:
    capacities, units = gather_capacities(shipped(name).network, None, False)
    trees = pack_trees(capacities.terminals, split_switches(capacities, units), units)
    assert max(max(tree.depths.values()) for tree in trees) == 2


def test_nodes_do_not_all_send_to_the_same_one_at_once() -> None:
    instance = changed(shipped("a100_x8", kind="all_gather"), "links", latency="0")
    schedule = simulate_graph(tree_plan(instance), 2)
    assert schedule.makespan <= 1.15 * best_bound(instance).picoseconds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["dgx1", "mesh_4x4"])
def test_trees_reach_the_optimum_of_throughput(name: str, kind: str) -> None:
    instance = shipped(name, kind=kind)
    instance = changed(instance, "links", latency="0")
    bound = float(best_bound(instance, trees=True).picoseconds)
    schedule = in_best_chunks(tree_plan(instance), 1.02 * bound)
    validate_graph(schedule)
    assert schedule.makespan <= 1.02 * bound


@pytest.mark.parametrize(("seed", "symmetric"), [(1, True), (2, False), (3, False), (5, True)])
def test_all_reduce_on_random_graphs_reaches_what_trees_can(seed: int, symmetric: bool) -> None:
    instance = instance_of(network_of(random_graph(seed, symmetric=symmetric, most=6)), "all_reduce", "1 GB")
    bound = float(best_bound(instance, trees=True).picoseconds)
    assert in_best_chunks(tree_plan(instance), 1.01 * bound).makespan <= 1.011 * bound


def test_switches_that_sum_and_copy_are_nodes_of_trees() -> None:
    instance = shipped("h100_x2_sharp", size="256 MB")
    plan = tree_plan(instance)
    schedule = simulate_graph(plan, 64)
    validate_graph(schedule)
    switch = instance.network.index["box0.nvswitch"]
    assert any(transfer.route[-1] == switch for transfer in plan.transfers)
    plain = changed(instance, "nodes", sums=False, multicasts=False)
    assert schedule.makespan < best_bound(plain, trees=True).picoseconds


def changed(instance: GraphInstance, part: str, **fields: object) -> GraphInstance:
    """The instance with fields of all nodes or all links changed."""
    document = instance.network.model_dump(mode="json")
    document[part] = [each | fields for each in document[part]]
    return instance.on(GraphNetwork.model_validate(document))


def test_uneven_roots_are_faster_than_rings_and_equal_shares() -> None:
    instance = shipped("mesh_4x5", size="256 MB")
    plans = (GRAPH_POLICIES[name](instance) for name in ("trees", "trees=1", "ring"))
    trees, *others = (simulate_graph(plan, 64).makespan for plan in plans)
    assert all(trees * 1.2 < other for other in others)


def test_few_trees_are_better_for_small_messages() -> None:
    instance = changed(shipped("a100_x2", size="256 KiB"), "links", latency="1 us")
    few, many = (in_best_chunks(tree_plan(instance, count)).makespan for count in (1, None))
    assert few < many


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce"])
def test_hierarchical_plans_are_near_the_bound_on_rails(kind: str) -> None:
    instance = instance_of(boxes_on_rails(4, 4), kind, "1 GB")
    best = in_best_chunks(hierarchical_plan(instance))
    validate_graph(best)
    assert 1 <= best.makespan / best_bound(instance).picoseconds <= 1.01


def test_plans_by_boxes_go_around_a_lost_nic() -> None:
    instance = instance_of(boxes_on_rails(3, 2, ("nic0.0",)), "all_reduce", "1 MB")
    validate_graph(simulate_graph(hierarchical_plan(instance), 3))
    validate_graph(simulate_graph(exchange_plan(instance), 3))


@pytest.mark.parametrize("npus", [5, 8])
def test_trees_of_pat_are_for_any_number_of_npus_and_bine_trees_for_powers_of_two(npus: int) -> None:
    links = [{"ends": [f"n{k}", f"n{(k + 1) % npus}"], "bandwidth": "25 GB/s"} for k in range(npus)]
    ring = {"nodes": [{"name": f"n{k}"} for k in range(npus)], "links": links}
    collective = {"kind": "all_reduce", "size": "1 MB"}
    instance = GraphInstance.model_validate({"network": ring, "collectives": [collective]})
    plans = [pat_plan] if npus == 5 else [pat_plan, bine_plan]
    for plan in plans:
        validate_graph(simulate_graph(plan(instance), 1))
    if npus == 5:
        with pytest.raises(InputError, match="is for 2, 4, 8"):
            bine_plan(instance)
        return
    hops = {abs(t.route[0] - t.route[-1]) % npus for t in bine_plan(instance).transfers}
    assert hops == {1, 7, 3, 5}  # distances 1, -1 and 3, around the ring


@pytest.mark.parametrize("policy", GRAPH_POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_policy_is_legal_where_it_is_offered(policy: str, kind: str) -> None:
    instance = shipped("h100_x2_sharp", kind=kind, size="1 MB")  # of 16 GPUs
    try:
        plan = GRAPH_POLICIES[policy](instance)
    except InputError:
        assert policy in ("double_tree", "exchange", "greedy", "scatter", "shortest", "two_tree")
        return
    schedule = simulate_graph(plan, 1 if plan.ranked else 3)
    validate_graph(schedule)
    assert schedule.makespan >= best_bound(instance).picoseconds


@pytest.mark.parametrize(
    ("policy", "boxes", "kind", "rule"),
    [
        (hierarchical_plan, 1, "all_reduce", "= '1 boxes': is for several boxes of NPUs"),
        (scatter_plan, 2, "all_gather", "is for what one NPU sends to all"),
        (exchange_plan, 2, "all_gather", "is for sums for all"),
    ],
)
def test_policies_say_what_they_are_for(
    policy: Callable[[GraphInstance], GraphPlan], boxes: int, kind: str, rule: str
) -> None:
    with pytest.raises(InputError, match=rule):
        policy(instance_of(boxes_on_rails(boxes, 4), kind, "1 MB"))


def schedule_of_all_reduce() -> GraphSchedule:
    return simulate_graph(tree_plan(shipped("mesh_4x4", size="1 MB")), 2)


@pytest.mark.parametrize("seed", range(12))
def test_no_message_leaves_earlier_or_takes_less_by_a_picosecond(seed: int) -> None:
    network = network_of(random_graph(seed, symmetric=False, switches=seed % 2, most=5), 7e8, None, seed)
    size, chunks = ((5998, 2), (2, 1))[seed % 2]
    instance = instance_of(network, KINDS[seed % 6], f"{network.num_npus * size} B")
    schedule = simulate_graph(tree_plan(instance), chunks)
    validate_graph(schedule)
    for place in np.ndindex(*schedule.start.shape):
        for earlier in (0, 1) if schedule.start[place] else (0,):
            start, end = schedule.start.copy(), schedule.end.copy()
            start[place], end[place] = start[place] - earlier, end[place] - 1
            with pytest.raises(InvalidSchedule, match=r"breaks rule '(capacity|order|data)'"):
                validate_graph(replace(schedule, start=start, end=end, makespan=last_arrival(schedule, end)))


def last_arrival(schedule: GraphSchedule, end: IntArray) -> int:
    latencies = schedule.plan.instance.network.latencies
    arcs = [arc for transfer in schedule.plan.transfers for arc in pairwise(transfer.route)]
    return int((end + [latencies[arc] for arc in arcs]).max())


def test_a_lost_message_is_refused() -> None:
    schedule = simulate_graph(tree_plan(shipped("dgx1", kind="all_gather", size="1 MB")), 1)
    plan = replace(schedule.plan, transfers=schedule.plan.transfers[:-1])
    shorter = GraphSchedule(plan, 1, schedule.start[:, :-1], schedule.end[:, :-1], int(schedule.end[:, :-1].max()))
    with pytest.raises(InvalidSchedule, match="does not get it"):
        validate_graph(shorter)


def test_a_sum_that_counts_twice_is_refused() -> None:
    plan = tree_plan(shipped("mesh_4x4", kind="reduce", size="1 MB"))
    twice = simulate_graph(replace(plan, transfers=(*plan.transfers, plan.transfers[0])), 1)
    with pytest.raises(InvalidSchedule, match="adds something twice"):
        validate_graph(twice)
    document = json.loads(graph_text(plan.instance), parse_float=Fraction)
    with pytest.raises(check.Refused, match="adds something twice"):
        check.judge(document, graph_order(twice))


def test_a_piece_too_small_is_refused() -> None:
    schedule = schedule_of_all_reduce()
    pieces = (schedule.plan.pieces[0]._replace(elements=1), *schedule.plan.pieces[1:])
    with pytest.raises(InvalidSchedule, match="amounts"):
        validate_graph(replace(schedule, plan=replace(schedule.plan, pieces=pieces)))


def test_shares_make_up_the_whole() -> None:
    instance = shipped("dgx1", kind="all_gather", size="1000002")
    assert sum(demands(instance).values()) == 500001
    assert divide(10, [1, 1, 1]) == [3, 4, 3]


def test_a_busy_link_serves_the_first_chunk_first() -> None:
    schedule = simulate_graph(tree_plan(shipped("dgx1", kind="broadcast", size="1 MB")), 4)
    assert (np.diff(schedule.start, axis=0) > 0).all()


@pytest.mark.parametrize("name", shipped_graphs())
def test_shipped_graphs_have_bounds(name: str) -> None:
    instance = shipped(name.partition(".")[0])
    assert best_bound(instance).picoseconds > 0
    assert best_bound(instance, trees=True).picoseconds >= best_bound(instance).picoseconds * (1 - 1e-9)


def at_once(*kinds: str, size: str = "8 MB") -> GraphInstance:
    return shipped("dgx1").model_copy(
        update={"collectives": tuple(shipped("dgx1", kind=kind, size=size).collective for kind in kinds)}
    )


def test_collectives_at_once_need_what_all_of_them_send() -> None:
    halves, whole = at_once("all_gather", "all_gather"), shipped("dgx1", size="16 MB")
    assert best_bound(halves).picoseconds == best_bound(whole).picoseconds
    both = best_bound(at_once("all_reduce", "broadcast"))
    assert both.name == "loads"
    assert both.picoseconds > max(
        best_bound(single).picoseconds for single in at_once("all_reduce", "broadcast").singles
    )


@pytest.mark.parametrize("kind", KINDS)
def test_two_at_once_need_twice_as_long_on_a_cable(kind: str) -> None:
    network = {"nodes": [{"name": "a"}, {"name": "b"}], "links": [{"ends": ["a", "b"], "bandwidth": "1 GB/s"}]}
    instance = GraphInstance.model_validate({"network": network, "collectives": [{"kind": kind, "size": "6 kB"}] * 2})
    assert best_bound(instance).picoseconds == 2 * best_bound(instance.singles[0]).picoseconds


@pytest.mark.parametrize("kinds", [("all_gather", "reduce"), ("all_reduce", "broadcast", "all_to_all")])
def test_plans_of_collectives_at_once_are_legal(kinds: tuple[str, ...]) -> None:
    compared = compare_graph(at_once(*kinds), ["trees", "ring"])
    for result in compared.results:
        assert result.schedule.makespan >= result.bound
    assert " and ".join(kinds) in compared.verdict[0]


def test_collectives_at_once_have_elements_of_one_size() -> None:
    document = at_once("all_gather", "reduce").model_dump(mode="json")
    document["collectives"][1]["element_bytes"] = 4
    with pytest.raises(ModelError, match="must be that of the first collective"):
        GraphInstance.model_validate(document)


@pytest.mark.parametrize("what", [{"size": "2 B"}, {"size": "126 B"}, {"size": "8 B", "chunks": 100}])
def test_graphs_take_collectives_of_fewer_elements_than_chunks(what: dict[str, object]) -> None:
    network = network_of(random_graph(0, symmetric=True))
    document = {"network": network, "collectives": [{"kind": "all_gather"} | what]}
    instance = GraphInstance.model_validate(document)
    compared = compare_graph(instance)
    assert compared.best.makespan > 0 <= compared.best.gap
    assert compared.verdict
    assert GraphInstance.model_validate_json(graph_text(instance)).fingerprint == instance.fingerprint


@pytest.mark.parametrize("kind", ["all_gather", "all_reduce"])
@pytest.mark.parametrize("seed", range(3))
def test_trees_are_no_slower_than_rivals_for_large_messages(seed: int, kind: str) -> None:
    network = network_of(random_graph(seed, symmetric=True, switches=seed % 2, most=6), latency="1 us")
    compared = compare_graph(instance_of(network, kind, "256 MB"))
    times = {result.policy: result.schedule.makespan for result in compared.results}
    assert {"ring", "greedy"} <= set(times)
    assert times["trees"] <= 1.01 * min(times.values())


ONE_WAY = {"ends": ["c", "d"], "bandwidth": "4 GB/s", "back": "0 GB/s"}


def test_searches_take_links_that_carry_one_way_alone() -> None:
    both = [{"ends": list(pair), "bandwidth": "2 GB/s"} for pair in ("ab", "ac", "da", "bc", "db")]
    nodes = [{"name": name} for name in "abcd"]
    what = [{"kind": "all_reduce", "size": "240 B", "element_bytes": 2}]
    graph = GraphInstance.model_validate({"network": {"nodes": nodes, "links": [*both, ONE_WAY]}, "collectives": what})
    compared = compare_graph(graph, None, Limits(seconds=2.0, deterministic=True))
    assert "mix" in {result.policy for result in compared.results}
    assert all(result.gap >= 0 for result in compared.results)


def test_trees_are_refused_where_switches_let_out_less_than_they_let_in() -> None:
    nodes = [*({"name": name} for name in "abc"), {"name": "s", "kind": "switch"}]
    one_way = {"bandwidth": "1 GB/s", "back": "0 GB/s"}
    links = [{"ends": list(ends), **one_way} for ends in ("as", "bs", "sc", "ca", "cb")]
    what = [{"kind": "reduce_scatter", "size": "1200 B", "element_bytes": 2}]
    graph = GraphInstance.model_validate({"network": {"nodes": nodes, "links": links}, "collectives": what})
    compared = compare_graph(graph, ["trees", "mirror", "ring"], Limits(seconds=1.0, deterministic=True))
    assert "switches that let out as much as they let in" in compared.refused["trees"]
    assert {result.policy for result in compared.results} == {"mirror", "ring"}


def test_trees_leave_out_switches_that_have_nothing_to_sum() -> None:
    nodes = [{"name": "a"}, {"name": "b"}]
    nodes += [{"name": "s", "kind": "switch", "multicasts": True, "sums": True}]
    nodes += [{"name": "t", "kind": "switch", "sums": True}]
    links = [{"ends": list(pair), "bandwidth": "3 GB/s"} for pair in ("ta", "bs", "tb", "st")]
    links += [{"ends": ["a", "b"], "bandwidth": "1 GB/s"}]
    what = [{"kind": "all_reduce", "size": "1200 B", "element_bytes": 2}]
    graph = GraphInstance.model_validate({"network": {"nodes": nodes, "links": links}, "collectives": what})
    assert compare_graph(graph, ["trees"]).best.policy == "trees"


def test_the_worst_of_single_cuts_stands_for_bounds_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_too_long(_: GraphInstance) -> None:
        raise TimeUp

    instance = shipped("torus_8x8")
    least = best_bound(instance).picoseconds
    monkeypatch.setattr(comparison, "each_bound", take_too_long)
    best = compare_graph(instance, ["shortest"], Limits(seconds=5.0, deterministic=True)).best
    assert (best.proof.name, best.proof.picoseconds <= least) == ("loads", True)


def test_a_policy_with_an_illegal_plan_is_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_arrives(instance: GraphInstance) -> GraphPlan:
        plan = GRAPH_POLICIES["trees"](instance)
        return replace(plan, transfers=plan.transfers[:1])

    monkeypatch.setattr(comparison, "GRAPH_POLICIES", {**GRAPH_POLICIES, "ring": nothing_arrives})
    compared = compare_graph(load_graph(shipped_graphs()["dgx1.all_gather.1GB"]), ["trees", "ring"])
    assert [result.policy for result in compared.results] == ["trees"]
    assert "breaks rule" in compared.refused["ring"]


def star(kind: str, rates: tuple[str, str] = ("1 GB/s", "1 GB/s"), **skills: bool) -> GraphInstance:
    nodes = [{"name": name} for name in "abc"] + [{"name": "s", "kind": "switch", **skills}]
    links = [{"ends": [name, "s"], "bandwidth": rates[0], "back": rates[1]} for name in "abc"]
    what = [{"kind": kind, "size": "6 kB"}]
    return GraphInstance.model_validate({"network": {"nodes": nodes, "links": links}, "collectives": what})


Sent = tuple[tuple[int, ...], tuple[int, ...]]  # a route, and the numbers of those that it waits for


@pytest.mark.parametrize(
    ("kind", "skills", "sums", "copies", "rule"),
    [
        ("reduce", ["multicasts"], [((1, 3), ()), ((2, 3), ()), ((3, 0), (0, 1))], [], "only passes messages on"),
        ("broadcast", ["sums"], [], [((0, 3), ()), ((3, 1), (0,)), ((3, 2), (0,))], "only passes messages on"),
        ("broadcast", [], [], [((0, 3, 1), ()), ((2, 3, 1), (0,)), ((1, 3, 2), (0,))],
         "node 2 sends what it does not have"),
        ("all_reduce", ["sums"], [((npu, 3), ()) for npu in range(3)], [((3, npu), (0, 1, 2)) for npu in range(3)],
         "s sends a sum twice, and does not copy"),
    ],
)  # fmt: skip
def test_nodes_do_what_they_can_alone(
    kind: str, skills: list[str], sums: list[Sent], copies: list[Sent], rule: str
) -> None:
    builder = PlanBuilder("star", star(kind, **dict.fromkeys(skills, True)))
    piece = builder.add_piece(3000, 0 if kind == "broadcast" else None, 0 if kind == "reduce" else None)
    for route, after in sums:
        builder.send(piece, route, after, adds=True)
    for route, after in copies:
        builder.send(piece, route, after)
    with pytest.raises(InvalidSchedule, match=rule):
        validate_graph(simulate_graph(builder.build()))


@pytest.mark.parametrize("copies", [True, False])
def test_partitions_bound_nothing_where_a_switch_sums(copies: bool) -> None:
    graph = star("all_reduce", sums=True, multicasts=copies)
    best = compare_graph(graph, ["trees"]).best.makespan
    assert best_bound(graph).picoseconds <= best
    assert best_bound(graph, trees=True).picoseconds >= 0.75 * best


def test_all_collectives_send_their_elements_out_of_a_node() -> None:
    graph = star("all_gather")
    both = (graph.collective.replace(name="one"), graph.collective.replace(name="other", kind="reduce_scatter"))
    loads = graph_bounds(graph.model_copy(update={"collectives": both}))["loads"]
    assert loads.picoseconds == 6_000_000  # a third of the data for the one, two thirds for the other


@pytest.mark.parametrize(("skill", "rates"), [("sums", ("4 GB/s", "3 GB/s")), ("multicasts", ("3 GB/s", "4 GB/s"))])
def test_partitions_bound_nothing_where_a_switch_sums_or_copies_alone(skill: str, rates: tuple[str, str]) -> None:
    graph = star("all_reduce", rates, **{skill: True})
    builder = PlanBuilder("star", graph)
    for root, (one, other) in enumerate([(1, 2), (0, 2), (0, 1)]):
        piece = builder.add_piece(1000, None, None)
        if skill == "sums":
            sums = [builder.send(piece, (npu, 3), adds=True) for npu in (one, other)]
            result = builder.send(piece, (3, root), sums, adds=True)
            for npu in (one, other):
                builder.send(piece, (root, 3, npu), [result])
        else:
            result = builder.send(
                piece, (root, 3), [builder.send(piece, (npu, 3, root), adds=True) for npu in (one, other)]
            )
            for npu in (one, other):
                builder.send(piece, (3, npu), [result])
    schedule = simulate_graph(builder.build(), 50)
    validate_graph(schedule)
    assert best_bound(graph).picoseconds <= schedule.makespan
    assert check.judge(json.loads(graph_text(graph)), graph_order(schedule)).makespan == schedule.makespan


def test_a_plan_that_cannot_beat_a_rival_is_simulated_in_a_tenth_of_the_chunks_and_hardly_longer() -> None:
    plan = double_tree_plan(shipped("h100_x2_sharp"))
    alone, beaten = (list(chunked_schedules(plan, rival)) for rival in (math.inf, 0))
    least, quick = (min(schedule.makespan for schedule in made) for made in (alone, beaten))
    assert 0 <= quick / least - 1 < 0.01
    assert sum(schedule.chunks for schedule in beaten) < sum(schedule.chunks for schedule in alone) / 2


@pytest.mark.parametrize(("kind", "nics_lost"), [("broadcast", 0), ("reduce", 1)])
def test_two_trees_for_each_rail_nearly_reach_the_bound(kind: str, nics_lost: int) -> None:
    graph = made(cluster(Cluster("h100", 64), kind))
    nics = [link.name for link in graph.network.links if ".nic" in link.name]
    graph = graph.on(graph.network.without(nics[:nics_lost]))
    schedule = simulate_graph(two_tree_plan(graph), 128)
    validate_graph(schedule)
    assert 1 <= schedule.makespan / best_bound(graph).picoseconds < 1.05

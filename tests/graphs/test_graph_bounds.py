"""Bounds on graphs: equal to published figures, to brute force, and to other programmes."""

import json
import random
from contextlib import suppress
from fractions import Fraction
from itertools import product

import pytest
from graph_samples import instance_of, network_of, partitions, random_graph, shipped, subsets
from library import check
from ortools.linear_solver import pywraplp
from samples import every

from formulations.concurrent_flow import Lengths, concurrent_flow, length_time
from formulations.flow_network import CapacityGraph
from formulations.interruption import SECONDS_LEFT, TimeUp
from formulations.shared_roots import partition_bound, partition_throughput, share_roots
from formulations.worst_cut import fixed_shares, worst_broadcast, worst_cut, worst_cut_of_shares
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.bounds import best_bound, graph_bounds, throughput
from themis_opt.graphs.certificates import graph_certificate, graph_order
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.conversion import as_graph
from themis_opt.graphs.problem import GraphInstance, GraphNetwork, graph_text
from themis_opt.graphs.registry import GRAPH_POLICIES, is_search
from themis_opt.problem.catalog import load
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.cut import cut

SEEDS = range(40)


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("a100_x2", Fraction(1040, 3)),
        ("a100_x3", Fraction(300)),
        ("mi250", Fraction(2400, 7)),
        ("mi250_16_16", Fraction(5312, 15)),
        ("dgx1", 25 * 8 * Fraction(6, 7)),
    ],
)
def test_all_gathers_have_the_throughput_of_forestcoll(name: str, bandwidth: Fraction) -> None:
    instance = shipped(name, kind="all_gather", size="1008 MB")  # equal shares of 8, 14, 16, 24 and 32 NPUs
    best = best_bound(instance)
    assert best.picoseconds == instance.collective.size * PICOSECONDS_PER_SECOND / (bandwidth * 10**9)


@pytest.mark.parametrize("kind", ["reduce_scatter", "all_gather"])
def test_cuts_count_whole_elements(kind: str) -> None:
    network = {"nodes": [{"name": "a"}, {"name": "b"}], "links": [{"ends": ["a", "b"], "bandwidth": "1 GB/s"}]}
    what = [{"kind": kind, "size": "6 B", "chunks": 1}]
    instance = GraphInstance.model_validate({"network": network, "collectives": what})
    assert graph_bounds(instance)["cut"].picoseconds in (2000, 4000)  # shares of two elements and of one
    assert compare_graph(instance, ["trees"]).best.makespan == 4000


def test_the_last_byte_of_a_cut_may_take_the_link_of_least_latency() -> None:
    nodes = [{"name": "a"}, {"name": "b"}, {"name": "s", "kind": "switch"}]
    latencies = {"ab": "1 us", "as": "9 us", "sb": "9 us"}
    links = [{"ends": list(pair), "bandwidth": "1 GB/s", "latency": time} for pair, time in latencies.items()]
    graph = GraphNetwork.model_validate({"nodes": nodes, "links": links})
    bounds = graph_bounds(instance_of(graph, "all_reduce", "2 MB"))
    assert bounds["cut"].picoseconds == 10**9 + 10**6
    assert bounds["partition"].picoseconds == 10**9 + 10**6
    assert bounds["trees"].picoseconds == pytest.approx(10**9 + 10**6, rel=1e-6)


@pytest.mark.parametrize("seed", every(4, range(24)))
def test_no_bound_lies_above_a_schedule_on_graphs_of_unequal_latencies(seed: int) -> None:
    """By the checker of the library too, which bounds the same cut."""
    kind = [k for k in CollectiveKind if k is not CollectiveKind.SEND][seed // 4 % 6]
    chance = random.Random(seed)
    switches, skills = chance.randint(0, 2), {skill: chance.random() < 0.6 for skill in ("multicasts", "sums")}
    network = network_of(random_graph(seed, symmetric=False, switches=switches, most=5), 1e8, None, seed, **skills)
    instance = instance_of(network, kind.value, f"{12 * network.num_npus * 5 ** chance.randint(0, 3)} kB")
    best = compare_graph(instance, [name for name in GRAPH_POLICIES if not is_search(name)]).best
    bounds = graph_bounds(instance)
    assert best_bound(instance).picoseconds <= best.makespan
    assert best_bound(instance, trees=True).picoseconds <= best.makespan
    document = json.loads(graph_text(instance), parse_float=Fraction)
    parts = json.loads(json.dumps(graph_certificate(instance)))
    verdict = check.judge(document, graph_order(best.schedule), parts)
    assert verdict.makespan == best.makespan
    assert verdict.best(trusted=False) <= verdict.makespan
    if not instance.demand.personal:
        assert verdict.best(trusted=False) == bounds["cut"].picoseconds
    if instance.demand.rooted:
        parts["bounds"][0]["into"] = not parts["bounds"][0]["into"]
        with pytest.raises(check.Refused, match="nothing crosses"):
            check.judge(document, None, parts)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "all_reduce"])
def test_two_npus_take_what_the_checker_says_of_their_cut(kind: str) -> None:
    links = [{"ends": ["a", "b"], "bandwidth": "1 GB/s", "back": "2 GB/s"}]
    network = GraphNetwork.model_validate({"nodes": [{"name": "a"}, {"name": "b"}], "links": links})
    instance = instance_of(network, kind, "6 kB")
    document = json.loads(graph_text(instance), parse_float=Fraction)
    cuts = []
    for node, into in product("ab", (False, True)):
        with suppress(check.Refused):  # nothing crosses
            part = {"kind": "cut", "nodes": [node], "into": into}
            cuts += check.judge(document, certificate={"bounds": [part]}).bounds
    assert max(cut.picoseconds for cut in cuts) == best_bound(instance).picoseconds
    assert best_bound(instance).picoseconds <= compare_graph(instance, ["direct", "ring"]).best.makespan


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "all_reduce"])
@pytest.mark.parametrize("rates", [("1 GB/s", "10 GB/s"), ("10 GB/s", "1 GB/s")])
def test_no_bound_lies_above_a_schedule_of_uneven_shares(rates: tuple[str, str], kind: str) -> None:
    link = {"ends": ["a", "b"], "bandwidth": rates[0], "back": rates[1], "latency": "1 us"}
    network = GraphNetwork.model_validate({"nodes": [{"name": "a"}, {"name": "b"}], "links": [link]})
    instance = instance_of(network, kind, "6 B")  # three elements
    makespan = compare_graph(instance, ["direct", "ring"]).best.makespan
    assert best_bound(instance).picoseconds <= makespan
    document, parts = json.loads(graph_text(instance), parse_float=Fraction), graph_certificate(instance)
    with suppress(check.Refused):  # "the size is not divided evenly", by the checker of the library
        assert check.judge(document, None, json.loads(json.dumps(parts))).best(trusted=False) <= makespan


@pytest.mark.parametrize(("kind", "backwards"), [("all_gather", "reduce_scatter"), ("broadcast", "reduce")])
@pytest.mark.parametrize("seed", range(6))
def test_a_sum_is_a_copy_on_the_graph_turned_around(seed: int, kind: str, backwards: str) -> None:
    chance = random.Random(seed)
    arcs = {(node, (node + 1) % 5): chance.randint(1, 6) for node in range(5)}
    arcs |= {
        (a, b): chance.randint(1, 6) for a, b in product(range(5), repeat=2) if a > b + 1 and chance.random() < 0.4
    }
    latencies = {arc: f"{chance.randint(1, 40)} us" for arc in arcs}
    bounds = []
    for sign, what in ((1, kind), (-1, backwards)):
        nodes = [{"name": f"n{node}"} for node in range(5)]
        links = [
            {
                "ends": [f"n{node}" for node in arc[::sign]],
                "bandwidth": rate * 1e8,
                "back": 0,
                "latency": latencies[arc],
            }
            for arc, rate in arcs.items()
        ]
        instance = instance_of(GraphNetwork.model_validate({"nodes": nodes, "links": links}), what, "60 kB")
        bounds.append({name: bound.picoseconds for name, bound in graph_bounds(instance).items()})
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize(("name", "units"), [("a100_x2", 13), ("mi250", 3), ("mi250_16_16", 83), ("dgx1", 6)])
def test_optimal_trees_are_as_many_as_published(name: str, units: int) -> None:
    assert worst_cut(shipped(name).network.capacities).ratio.numerator == units


@pytest.mark.parametrize(("count", "bandwidth"), [(1, 320), (2, 341.33), (3, 342.86), (4, 341.33), (5, 347.83)])
def test_few_trees_have_the_throughput_of_forestcoll(count: int, bandwidth: float) -> None:
    network = shipped("mi250_16_16").network
    scale, _ = fixed_shares(network.capacities, count)
    rate = count / scale * network.unit * network.num_npus / 10**9
    assert float(rate) == pytest.approx(bandwidth, abs=0.005)


@pytest.mark.parametrize(("name", "gain"), [("mesh_4x4", 1.5), ("mesh_4x5", 1.55)])
def test_shared_roots_beat_twice_the_best_all_gather(name: str, gain: float) -> None:
    graph = shipped(name).network.capacities
    equal = worst_cut(graph).ratio * len(graph.terminals) / 2
    assert share_roots(graph).throughput / equal == pytest.approx(gain, abs=0.005)


@pytest.mark.parametrize(("lost", "gain"), [(1, 31 / 28), (4, 1.5)])
def test_lost_links_of_four_boxes_cost_little(lost: int, gain: float) -> None:
    graph = boxes_of_a100(4, lost)
    assert share_roots(graph).throughput / (worst_cut(graph).ratio * 16) == pytest.approx(gain, rel=1e-6)


@pytest.mark.parametrize(("lost", "overhead"), [(1, 0.008), (2, 0.016), (4, 0.067)])
def test_the_overhead_of_lost_links_of_one_box_of_sixteen(lost: int, overhead: float) -> None:
    network = shipped("h100_x16").network
    whole = network.capacities
    less = network.without([f"box0.nic{j}" for j in range(lost)]).capacities
    healthy = worst_cut(whole).ratio * len(whole.terminals) / 2
    assert float(healthy) / share_roots(less).throughput - 1 == pytest.approx(overhead, abs=6e-4)


def test_a_box_of_slower_npus_costs_less_with_uneven_roots() -> None:
    arcs = {}
    for npu in range(32):
        inside, outside = (18, 2) if npu < 24 else (12, 1)
        for switch, capacity in ((33 + npu // 8, inside), (32, outside)):
            arcs[npu, switch] = arcs[switch, npu] = capacity
    graph = CapacityGraph(37, tuple(range(32)), arcs)
    assert share_roots(graph).throughput / (worst_cut(graph).ratio * 16) == pytest.approx(1.3125, rel=1e-6)


def boxes_of_a100(count: int, lost: int) -> CapacityGraph:
    """Boxes of 8 with 12 units inside, and one each outside but for some of the first box."""
    arcs, outside = {}, 9 * count
    for box in range(count):
        for j in range(8):
            links = [(8 * count + box, 12)] + ([] if box == 0 and j < lost else [(outside, 1)])
            for switch, capacity in links:
                arcs[8 * box + j, switch] = arcs[switch, 8 * box + j] = capacity
    return CapacityGraph(outside + 1, tuple(range(8 * count)), arcs)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_worst_cut_is_that_of_all_cuts(seed: int) -> None:
    graph = random_graph(seed, symmetric=False, switches=seed % 3, most=9)
    npus = set(graph.terminals)
    ratios = [
        Fraction(graph.capacity_out(nodes), len(nodes & npus))
        for nodes in subsets(range(graph.num_nodes))
        if nodes & npus and not npus <= nodes
    ]
    worst = worst_cut(graph)
    assert worst.ratio == min(ratios)
    assert worst.ratio == Fraction(graph.capacity_out(worst.nodes), len(worst.nodes & npus))


@pytest.mark.parametrize("seed", range(10))
def test_the_cut_behind_a_root_is_that_of_all_cuts(seed: int) -> None:
    graph = random_graph(seed, symmetric=False, switches=1, most=8)
    npus = set(graph.terminals)
    cuts = [graph.capacity_out(s) for s in subsets(range(graph.num_nodes)) if 0 in s and not npus <= s]
    assert worst_broadcast(graph, 0).ratio == min(cuts)


def numbered(parts: list[frozenset[int]]) -> list[int]:
    """The number of the part of each node."""
    part_of = {node: number for number, part in enumerate(parts) for node in part}
    return [part_of[node] for node in sorted(part_of)]


@pytest.mark.parametrize("seed", SEEDS)
def test_trees_attain_the_strength_of_symmetric_graphs(seed: int) -> None:
    graph = random_graph(seed, symmetric=True, most=7)
    every = [parts for parts in partitions(list(range(graph.num_nodes))) if len(parts) > 1]
    strength = min(partition_throughput(graph, numbered(parts)) for parts in every)
    assert share_roots(graph).throughput == pytest.approx(float(strength), rel=1e-6)
    assert partition_bound(graph) >= strength


@pytest.mark.parametrize("seed", SEEDS)
def test_no_trees_beat_a_partition(seed: int) -> None:
    graph = random_graph(seed, symmetric=seed % 2 == 0, switches=1 + seed % 2, most=7)
    every = [
        parts
        for parts in partitions(list(range(graph.num_nodes)))
        if sum(not part.isdisjoint(graph.terminals) for part in parts) > 1
    ]
    trees = share_roots(graph).throughput
    assert trees <= float(min(partition_throughput(graph, numbered(parts)) for parts in every)) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_concurrent_flow_is_that_of_all_pairs(seed: int) -> None:
    graph = random_graph(seed, symmetric=seed % 2 == 0, switches=seed % 3, most=6)
    best = flow_of_pairs(graph)
    for fold in (False, True):
        flow = concurrent_flow(graph, fold=fold)
        assert flow_proven(graph, flow.lengths) >= best * (1 - 1e-7)
    assert concurrent_flow(graph, fold=False).throughput == pytest.approx(best, rel=1e-6)
    assert flow_proven(graph, concurrent_flow(graph, fold=False).lengths) == pytest.approx(best, rel=1e-6)


def test_a_solver_that_its_limit_ends_is_late() -> None:
    """Also where time is left, since its milliseconds are whole."""
    token = SECONDS_LEFT.set(lambda: 1e-3)
    try:
        with pytest.raises(TimeUp):
            concurrent_flow(boxes_on_rails(6, 8, 8), fold=False)
    finally:
        SECONDS_LEFT.reset(token)


def flow_proven(graph: CapacityGraph, lengths: Lengths) -> float:
    """The part of all units that flows at most, without latencies."""
    amounts = dict.fromkeys(graph.terminals, Fraction(1))
    return float(1 / length_time(graph, lengths, dict.fromkeys(graph.arcs, 0), amounts))


def flow_of_pairs(graph: CapacityGraph) -> float:
    """The maximum concurrent flow with one commodity for each pair of terminals."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    part = solver.NumVar(0, solver.infinity(), "part")
    pairs = [(s, t) for s in graph.terminals for t in graph.terminals if s != t]
    flows = {(pair, arc): solver.NumVar(0, solver.infinity(), "") for pair in pairs for arc in graph.arcs}
    for arc, capacity in graph.arcs.items():
        solver.Add(sum(flows[pair, arc] for pair in pairs) <= capacity)
    for source, sink in pairs:
        for node in range(graph.num_nodes):
            net = sum(
                ((arc[1] == node) - (arc[0] == node)) * flows[(source, sink), arc] for arc in graph.arcs if node in arc
            )
            solver.Add(net == ((node == sink) - (node == source)) * part)
    solver.Maximize(part)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(part.solution_value())


@pytest.mark.parametrize(("size", "bandwidth"), [(4, 100), (6, 200 / 3), (8, 50)])
def test_all_to_all_on_a_ring_goes_both_ways(size: int, bandwidth: float) -> None:
    arcs = {(a, b % size): 1 for a in range(size) for b in (a + 1, a + size - 1)}
    instance = instance_of(network_of(CapacityGraph(size, tuple(range(size)), arcs), 50e9), "all_to_all")
    assert throughput(instance, best_bound(instance)) / 1e9 == pytest.approx(bandwidth)


def test_all_to_all_on_a_torus() -> None:
    instance = shipped("torus_4x4")
    assert best_bound(instance).picoseconds == 10_000_500_000  # 100 GB/s, and the latency of a link


def test_flows_of_an_all_to_all_are_idle_while_latencies_last() -> None:
    bound = best_bound(shipped("h100_x2_sharp", kind="all_to_all", size="1 MiB"))
    assert bound.name == "flow"
    assert bound.picoseconds == 2**19 * 20 + 2 * 1_000_000  # half of the data at 50 GB/s, up to the switch and down


def test_an_idle_link_has_no_negative_share() -> None:
    arcs = {(0, 1): 1, (1, 0): 1, (1, 2): 1000, (2, 1): 1000}
    graph, latencies = CapacityGraph(3, (0, 1, 2), arcs), {(0, 1): 0, (1, 0): 0, (1, 2): 10**6, (2, 1): 10**6}
    amounts = dict.fromkeys(graph.terminals, Fraction(1))
    assert length_time(graph, dict.fromkeys(arcs, 1), latencies, amounts) == 4
    assert length_time(graph, dict.fromkeys(arcs, 1), latencies, dict.fromkeys(graph.terminals, Fraction(0))) == 0


@pytest.mark.parametrize(
    "name",
    [
        "forestcoll.a100_2x8.all_gather.1200MB",
        "wafer-mesh.all_reduce.1GB",
        "tacos.mesh_3x3x3.all_gather.1024MiB",
        "one_ring.all_reduce.4MB",
        "root.broadcast.12MB",
    ],
)
def test_products_have_the_bound_that_their_cut_is(name: str) -> None:
    instance = load(name)
    graph = as_graph(instance)
    best = best_bound(graph)
    latency = max(link.latency for link in graph.network.links)
    assert float(best.picoseconds) == pytest.approx(cut(instance), abs=latency + 1, rel=1e-12)


def test_the_cut_is_named_by_boxes() -> None:
    instance = shipped("h100_x16", kind="all_gather")
    assert instance.kind == "all_gather"
    less = instance.on(instance.network.without(["box0.nic7"]))
    assert graph_bounds(less)["cut"].meaning == "out of the 120 NPUs but box0 over 7 links (350 GB/s)"


def test_latency_is_the_longest_distance() -> None:
    instance = shipped("mesh_4x4")
    assert graph_bounds(instance)["latency"].picoseconds == 6 * 500_000


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_latency_and_bandwidth_are_bounded_at_once(kind: str) -> None:
    bounds = graph_bounds(shipped("h100_8_8_8_4", kind=kind, size="1 MiB"))
    assert bounds["arrival"].picoseconds > 1.2 * max(bounds["cut"].picoseconds, bounds["latency"].picoseconds)


def test_arrivals_are_no_earlier_than_the_farthest_npu_or_the_least_cut() -> None:
    for kind in ("broadcast", "reduce", "all_gather", "all_to_all"):
        bounds = graph_bounds(shipped("torus_8x8", kind=kind, size="64 KiB"))
        assert bounds["arrival"].picoseconds >= bounds["latency"].picoseconds


@pytest.mark.parametrize(
    ("symmetric", "roots", "flow", "cuts"),
    [(True, 67.5, 24.383333333, 94.216666667), (False, 62.65, 20.961111111, 102.558333333)],
)
def test_throughputs_are_as_large_as_ever(symmetric: bool, roots: float, flow: float, cuts: float) -> None:
    """Of shared roots, of flows of one source for each class, and by cuts; of twelve graphs in all."""
    graphs = [random_graph(seed, symmetric=symmetric, switches=seed % 3, most=7) for seed in range(12)]
    shared = [share_roots(graph, spread=bool(seed % 2)) for seed, graph in enumerate(graphs)]
    flows = [concurrent_flow(graph, fold=bool(seed % 2)) for seed, graph in enumerate(graphs)]
    assert sum(one.throughput for one in shared) == pytest.approx(roots)
    assert sum(one.throughput for one in flows) == pytest.approx(flow)
    assert float(sum(partition_bound(graph) + worst_cut(graph).ratio for graph in graphs)) == pytest.approx(cuts)


def boxes_on_rails(count: int, gpus: int, trunk: int) -> CapacityGraph:
    """Boxes with a switch of 9 units for each GPU; a NIC of 1 unit for each, whose leaf has links to two spines."""
    npus, arcs = count * gpus, {}
    for box, gpu in product(range(count), range(gpus)):
        npu, leaf = box * gpus + gpu, npus + count + gpu
        arcs |= {(npu, npus + box): 9, (npu, leaf): 1}
    arcs |= {(npus + count + gpu, npus + count + gpus + spine): trunk for gpu in range(gpus) for spine in range(2)}
    return CapacityGraph(npus + count + gpus + 2, tuple(range(npus)), arcs | {arc[::-1]: b for arc, b in arcs.items()})


@pytest.mark.parametrize(("count", "gpus", "trunk"), [(2, 4, 1), (3, 2, 1), (4, 2, 3), (5, 3, 20)])
def test_boxes_are_parts_of_the_worst_partition(count: int, gpus: int, trunk: int) -> None:
    """Boxes must exchange 2 (m - 1) messages, of which each crosses two links of NICs."""
    graph = boxes_on_rails(count, gpus, trunk)
    assert partition_bound(graph) == Fraction(count * gpus, 2 * (count - 1))
    assert float(partition_bound(graph)) == pytest.approx(share_roots(graph).throughput, rel=1e-6)


def test_parts_end_where_the_way_to_a_switch_is_narrowest() -> None:
    """Three pairs, each behind an inner switch that has more to the outer one than to its pair."""
    inner = {(9, 8): 5, (10, 8): 5, (11, 8): 5}
    arcs = {(k, 6 + 3 + k // 2): 1 for k in range(6)} | {(0, 1): 9, (2, 3): 9, (4, 5): 9} | inner
    graph = CapacityGraph(12, tuple(range(6)), arcs | {arc[::-1]: rate for arc, rate in arcs.items()})
    assert partition_bound(graph) == Fraction(3 * 2, 2 * 2)


def test_a_terminal_that_has_everything_receives_nothing() -> None:
    graph = CapacityGraph(3, (0, 1, 2), {(0, 1): 3, (1, 2): 2, (2, 0): 1})
    assert worst_cut_of_shares(graph, {0: 4}).ratio == Fraction(2, 4)


def test_distances_are_between_two_npus() -> None:
    instance = shipped("dgx1")
    links = tuple(link.model_copy(update={"latency": 0}) for link in instance.network.links)
    bound = graph_bounds(instance.on(instance.network.model_copy(update={"links": links})))["latency"]
    first, second = bound.meaning.removeprefix("distance between ").split(" and ")
    assert first != second


@pytest.mark.parametrize(
    ("skill", "kind", "other", "rates"),
    [("sums", "broadcast", "reduce", (2, 1)), ("multicasts", "reduce", "broadcast", (1, 2))],
)
def test_entries_bound_the_half_of_an_all_reduce_that_a_switch_leaves_to_npus(
    skill: str, kind: str, other: str, rates: tuple[int, int]
) -> None:
    names = [f"b{box}.g{npu}" for box, npu in product(range(3), range(2))]
    nodes = [{"name": name} for name in names] + [{"name": "s", "kind": "switch", skill: True}]
    up, down = (f"{rate} GB/s" for rate in rates)
    links = [{"ends": [name, "s"], "bandwidth": up, "back": down, "latency": "1 us"} for name in names]
    network = GraphNetwork.model_validate({"nodes": nodes, "links": links})
    bounds = {one: graph_bounds(instance_of(network, one)).get("entries") for one in ("all_reduce", kind, other)}
    assert bounds[other] is None
    assert bounds["all_reduce"] == bounds[kind] is not None

"""Plans of trees that reach the bounds: for every kind of collective, at the optimum or with few trees per NPU."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial

from formulations.concurrent_flow import concurrent_flow, route_flow
from formulations.edge_splitting import balanced, split_switches
from formulations.flow_network import CapacityGraph
from formulations.shared_roots import WholeShares, share_roots, whole_shares
from formulations.tree_packing import OutTree, pack_trees
from formulations.worst_cut import fixed_shares, scaled, worst_broadcast, worst_cut
from themis_opt.base.errors import InputError
from themis_opt.graphs.plan import GraphPlan, PlanBuilder, demands, divide, num_elements, shares
from themis_opt.graphs.problem import GraphInstance, GraphNetwork

MOST_FLOWS = 100_000  # variables of the flow of an all-to-all: more take minutes
MOST_UNITS = 96  # most units per NPU of exact trees; where more are needed, this many lose a hundredth at most


def tree_plan(instance: GraphInstance, count: int | None = None) -> GraphPlan:
    """A plan of trees.

    `count`: trees from each NPU; by default as many as the optimal throughput needs.  A broadcast has them from its
      root.
    """
    builder = PlanBuilder(f"trees={count}" if count else "trees", instance)
    demand = instance.demand
    if demand.personal:
        _add_routes(builder)
    elif demand.sums_for_all:
        _add_reductions(builder, count)
    else:
        _add_trees(builder, count)
    return builder.build()


one_tree, two_trees = partial(tree_plan, count=1), partial(tree_plan, count=2)


def _add_trees(builder: PlanBuilder, count: int | None) -> None:
    """Out-trees on the graph, or in-trees, which are those of the graph turned around."""
    instance = builder.instance
    turned, rooted = instance.demand.is_backwards, instance.demand.rooted
    trees = _rooted_trees(instance, count, turned) if rooted else _gather_trees(instance.network, count, turned)
    for (source, target), elements in demands(instance).items():
        root = target if source is None else source
        rooted_here = [tree for tree in trees if tree.root == root]
        parts = divide(elements, [tree.count for tree in rooted_here])
        for tree, part in zip(rooted_here, parts, strict=True):
            piece = builder.add_piece(part, source, target)
            if turned:
                builder.collect(piece, tree.routes)
            else:
                builder.spread(piece, tree.routes)


def _rooted_trees(instance: GraphInstance, count: int | None, turned: bool) -> tuple[OutTree, ...]:
    """Trees that all have the same root, as many as the least cut has units."""
    graph = _balanced(instance.network, turned)
    units = int(worst_broadcast(graph, instance.root).ratio)
    _check_connected(units)
    if count is not None and count < units:
        units, graph = count, fixed_shares(graph, count, instance.root)[1]
    roots = {instance.root: units}
    return tuple(pack_trees(graph.terminals, split_switches(graph, roots), roots))


@lru_cache(maxsize=32)
def _gather_trees(network: GraphNetwork, count: int | None, turned: bool) -> tuple[OutTree, ...]:
    """Trees of an all-gather: equally many from every NPU."""
    capacities, units = gather_capacities(network, count, turned)
    return tuple(pack_trees(capacities.terminals, split_switches(capacities, units), units))


def gather_capacities(network: GraphNetwork, count: int | None, turned: bool) -> tuple[CapacityGraph, dict[int, int]]:
    """Whole capacities for the trees of an all-gather, and units of each NPU; on the graph turned around if so."""
    graph = _balanced(network, turned)
    ratio = worst_cut(graph).ratio
    _check_connected(ratio.numerator)
    if count is None and ratio.numerator <= MOST_UNITS:
        units, capacities = ratio.numerator, scaled(graph, Fraction(ratio.denominator))
    else:
        units = count or MOST_UNITS
        capacities = fixed_shares(graph, units)[1]
    return capacities, dict.fromkeys(graph.terminals, units)


def _balanced(network: GraphNetwork, turned: bool) -> CapacityGraph:
    return balanced(network.capacities.reversed if turned else network.capacities)


def _check_connected(units: int) -> None:
    """Refuse graphs on which NPUs do not reach each other once switches let out no more than they let in."""
    if not units:
        rule = "must join all NPUs over switches that let out as much as they let in, for trees"
        raise InputError(rule, field="network.links")


def _add_reductions(builder: PlanBuilder, count: int | None) -> None:
    """Sums along in-trees, and copies of them along out-trees of the same root."""
    instance = builder.instance
    is_even = count is not None or _equal_shares_are_best(instance.network)
    sides = [_gather_trees(instance.network, count, turned) for turned in (True, False)] if is_even else []
    pairs = list(_paired(*(sides or _shared_trees(instance.network))))
    parts = divide(num_elements(instance), [tree.count for tree, _ in pairs])
    for (into, out), elements in zip(pairs, parts, strict=True):
        piece = builder.add_piece(elements, None, None)
        builder.spread(piece, out.routes, builder.collect(piece, into.routes))


def _equal_shares_are_best(network: GraphNetwork) -> bool:
    """Whether no roots beat those with equal shares, which have many trees at once and take less to plan."""
    graph = network.capacities
    if not graph.is_symmetric or network.switches_that("sums") or network.switches_that("multicasts"):
        return False
    equal = worst_cut(graph).ratio * len(graph.terminals) / 2
    return share_roots(graph).throughput <= float(equal) * (1 + 1e-6)


def _shared_trees(network: GraphNetwork) -> list[tuple[OutTree, ...]]:
    """Trees into roots and out of them whose shares are those of the linear programme."""
    whole, nodes = _shared_roots(network)
    sides = []
    for graph in (whole.reduce.reversed, whole.broadcast):
        units = {root: count for root, count in whole.units.items() if count}
        reduced = CapacityGraph(graph.num_nodes, nodes, graph.arcs)
        sides.append(tuple(pack_trees(nodes, split_switches(reduced, units), units)))
    return sides


@lru_cache(maxsize=32)
def _shared_roots(network: GraphNetwork) -> tuple[WholeShares, tuple[int, ...]]:
    """Whole shares, and the nodes that trees span: the NPUs, and switches that sum and copy."""
    graph = network.capacities
    both = set(network.switches_that("sums")) & set(network.switches_that("multicasts"))
    nodes = tuple(sorted({*graph.terminals, *both}))
    spanned = CapacityGraph(graph.num_nodes, nodes, graph.arcs)
    return whole_shares(spanned, share_roots(spanned, both, both, spread=True), nodes), nodes


def _paired(into: tuple[OutTree, ...], out: tuple[OutTree, ...]) -> Iterator[tuple[OutTree, OutTree]]:
    """Trees of both sides with the same root, as many of each."""
    for root in sorted({tree.root for tree in into}):
        first, second = ([tree for tree in side if tree.root == root] for side in (into, out))
        while first:
            count = min(first[-1].count, second[-1].count)
            yield replace(first[-1], count=count), replace(second[-1], count=count)
            for side in (first, second):
                tree = side.pop()
                if tree.count > count:
                    side.append(replace(tree, count=tree.count - count))


def _add_routes(builder: PlanBuilder) -> None:
    """What the maximum concurrent flow sends from each NPU to each other one."""
    instance = builder.instance
    graph, parts = instance.network.capacities, shares(instance)
    if (count := len(graph.terminals) * len(graph.arcs)) > MOST_FLOWS:
        rule = f"must be at most {MOST_FLOWS} NPUs times link directions for routes of an all-to-all"
        raise InputError(rule, field="network", value=count)
    flow = concurrent_flow(graph, fold=False)
    for source in graph.terminals:
        wants = {target: flow.throughput for target in graph.terminals if target != source}
        routes: Mapping[int, list[tuple[tuple[int, ...], float]]] = {target: [] for target in wants}
        for route, amount in route_flow(flow.flows[source], source, wants):
            routes[route[-1]].append((route, amount))
        for target, ways in routes.items():
            elements = divide(parts[target], [amount for _, amount in ways])
            for (route, _), part in zip(ways, elements, strict=True):
                builder.send(builder.add_piece(part, source, target), route)

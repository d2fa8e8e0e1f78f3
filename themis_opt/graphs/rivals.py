"""What others run on graphs: rings, double binary trees, direct messages, and the greedy matching of TACOS."""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

import networkx as nx

from formulations.edge_splitting import Route, RouteCapacities, split_switches
from themis_opt.base.errors import InputError
from themis_opt.graphs.network import GraphInstance, GraphNetwork
from themis_opt.graphs.plan import GraphPlan, PlanBuilder, demands, divide
from themis_opt.graphs.trees import gather_capacities
from themis_opt.problem.phases import CollectiveKind

Routes = list[Route]

GREEDY_CHUNKS = 4
"""Chunks of each share in the greedy matching, which orders every one of them."""


def ring_plan(instance: GraphInstance) -> GraphPlan:
    """Rings in both directions through boxes: as many as a box has NPUs, each of which enters boxes at another one."""
    network = instance.network
    boxes = boxes_of(network)
    rotations = [
        [box[(place + shift) % len(box)] for box in boxes for place in range(len(box))]
        for shift in range(min(map(len, boxes)) if len(boxes) > 1 else 1)
    ]
    rings = [order for ring in rotations for order in (ring, ring[::-1])]
    return _plan_of_trees("ring", instance, [_Ring(network, order) for order in rings])


def direct_plan(instance: GraphInstance) -> GraphPlan:
    """Every NPU sends to every other one over the fastest route."""
    return _plan_of_trees("direct", instance, [_Star(instance.network)])


def double_tree_plan(instance: GraphInstance) -> GraphPlan:
    """Chains within boxes, and between boxes two binary trees in which the leaves of one are inside in the other.

    As many pairs of trees as a box has NPUs (P. Sanders, J. Speck, J. Traff, 2009,
    https://doi.org/10.1016/j.parco.2009.09.001; as in NCCL).  Raises InputError for what is no all-reduce.
    """
    if instance.kind is not CollectiveKind.ALL_REDUCE:
        raise InputError("double binary trees are for all_reduce", field="kind", value=instance.kind.value)
    network, builder = instance.network, PlanBuilder("double_tree", instance)
    boxes = boxes_of(network)
    forests = [
        _box_trees(network, boxes, shift, mirrored)
        for shift in range(min(map(len, boxes)))
        for mirrored in (False, True)
    ]
    total = demands(instance)[None, None]
    for (into, out), part in zip(forests, divide(total, [1] * len(forests)), strict=True):
        piece = builder.add_piece(part, None, None)
        builder.spread(piece, out, builder.collect(piece, into))
    return builder.build()


def greedy_plan(instance: GraphInstance, seed: int = 0) -> GraphPlan:
    """The matching of links and chunks over time (W. Won et al., TACOS, MICRO 2024).

    Whenever a link is free it takes a random chunk that its sender has and its receiver lacks.  A reduce-scatter is
    such an all-gather backwards.  Links are those between NPUs that are left when switches are split off.  Raises
    InputError for other kinds.
    """
    builder, chance = PlanBuilder("greedy", instance), random.Random(seed)
    network, kind = instance.network, instance.kind
    if kind not in (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE):
        rule = "the greedy matching is for all_gather, reduce_scatter and all_reduce"
        raise InputError(rule, field="kind", value=kind.value)
    chunks = [(npu, number) for npu in network.capacities.terminals for number in range(GREEDY_CHUNKS)]
    pieces = _greedy_pieces(builder, chunks)
    arrived: dict[int, tuple[int, ...]] = {}
    if kind is not CollectiveKind.ALL_GATHER:
        arrived = _reduce_greedily(builder, _matching(network, chunks, True, chance), pieces)
    if kind is not CollectiveKind.REDUCE_SCATTER:
        _gather_greedily(builder, _matching(network, chunks, False, chance), pieces, arrived)
    return builder.build(ranked=True)


def boxes_of(network: GraphNetwork) -> list[list[int]]:
    """NPUs by the part of their names before the last full stop, in order; single NPUs are one box."""
    boxes: dict[str, list[int]] = defaultdict(list)
    for npu in network.npus:
        boxes[npu.rpartition(".")[0]].append(network.index[npu])
    return list(boxes.values())


@lru_cache(maxsize=8)
def _fastest_routes(network: GraphNetwork) -> dict[int, dict[int, Route]]:
    """The route between each pair of NPUs on which a megabyte takes least."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for arc, bandwidth in network.arcs.items():
        graph.add_edge(*arc, time=float(10**18 / bandwidth) + network.latencies[arc])
    return {
        npu: {
            target: tuple(route) for target, route in nx.single_source_dijkstra_path(graph, npu, weight="time").items()
        }
        for npu in network.capacities.terminals
    }


class _Star:
    """Trees of one step."""

    def __init__(self, network: GraphNetwork) -> None:
        self._routes, self._npus = _fastest_routes(network), network.capacities.terminals

    def out(self, root: int) -> Routes:
        """Routes from a root."""
        count = len(self._npus)
        place = self._npus.index(root)
        return [self._routes[root][self._npus[(place + shift) % count]] for shift in range(1, count)]

    def into(self, root: int) -> Routes:
        """Routes to a root, turned around."""
        return [self._routes[route[-1]][root][::-1] for route in self.out(root)]


class _Ring:
    """Chains along a ring: into a root through all others, and out of it."""

    def __init__(self, network: GraphNetwork, order: Sequence[int]) -> None:
        self._routes, self._order = _fastest_routes(network), order

    def out(self, root: int) -> Routes:
        """Routes from each NPU to the next one, from a root on."""
        place = self._order.index(root)
        turned = [*self._order[place:], *self._order[:place]]
        return [self._routes[tail][head] for tail, head in itertools.pairwise(turned)]

    def into(self, root: int) -> Routes:
        """Routes from each NPU to the next one, up to a root, turned around and the last one first."""
        place = self._order.index(root) + 1
        turned = [*self._order[place:], *self._order[:place]][::-1]
        return [self._routes[tail][head][::-1] for head, tail in itertools.pairwise(turned)]


def _plan_of_trees(name: str, instance: GraphInstance, forests: Sequence[_Star | _Ring]) -> GraphPlan:
    """Trees from every NPU, or into it, or both: each forest carries an equal part of the data."""
    builder = PlanBuilder(name, instance)
    for (source, target), elements in demands(instance).items():
        if source is not None and target is not None:
            route = _fastest_routes(instance.network)[source][target]
            builder.send(builder.add_piece(elements, source, target), route)
            continue
        root = target if source is None else source
        roots = instance.network.capacities.terminals if root is None else (root,)
        ways = [(forest, end) for forest in forests for end in roots]
        for (forest, end), part in zip(ways, divide(elements, [1] * len(ways)), strict=True):
            piece = builder.add_piece(part, source, target)
            sums = builder.collect(piece, forest.into(end)) if source is None else ()
            if target is None:
                builder.spread(piece, forest.out(end), sums)
    return builder.build()


def _box_trees(
    network: GraphNetwork, boxes: Sequence[Sequence[int]], shift: int, mirrored: bool
) -> tuple[Routes, Routes]:
    """One tree into and out of its root, both as routes out of it."""
    routes = _fastest_routes(network)
    order = boxes[::-1] if mirrored else boxes
    heads = [box[shift % len(box)] for box in order]
    steps = [(heads[parent], heads[child]) for parent, child in _binary(0, len(heads) - 1)]
    for box, head in zip(order, heads, strict=True):
        chain = [head, *(npu for npu in box if npu != head)]
        steps += list(itertools.pairwise(chain))
    return [routes[child][parent][::-1] for parent, child in steps], [routes[parent][child] for parent, child in steps]


def _binary(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Pairs of parent and child of a balanced tree over places in order, parents first."""
    middle = (first + last) // 2
    for low, high in ((first, middle - 1), (middle + 1, last)):
        if low <= high:
            yield middle, (low + high) // 2
            yield from _binary(low, high)


def _greedy_pieces(builder: PlanBuilder, chunks: Sequence[tuple[int, int]]) -> list[int]:
    """A piece for each chunk of each NPU's share."""
    wanted = demands(builder.instance)
    if (None, None) in wanted:
        parts = divide(wanted[None, None], [1] * len(chunks))
        return [builder.add_piece(part, None, None) for part in parts]
    pieces = []
    for (source, target), elements in wanted.items():
        pieces += [builder.add_piece(part, source, target) for part in divide(elements, [1] * GREEDY_CHUNKS)]
    return pieces


Match = tuple[int, Route]
"""The number of a chunk and the route that it takes."""


def _matching(
    network: GraphNetwork, chunks: Sequence[tuple[int, int]], turned: bool, chance: random.Random
) -> list[Match]:
    """Chunks and routes in the order in which they leave."""
    routes = _logical_links(network, turned)
    holds = {npu: {c for c, (owner, _) in enumerate(chunks) if owner == npu} for npu in network.capacities.terminals}
    lacks = {npu: set(range(len(chunks))) - held for npu, held in holds.items()}
    events: list[tuple[float, int, int, Route]] = [(0.0, number, -1, route) for number, route in enumerate(routes)]
    heapify(events)
    idle: dict[int, Routes] = defaultdict(list)
    matches: list[Match] = []
    while events:
        time, _, chunk, route = heappop(events)
        free = [route]
        if chunk >= 0:
            holds[route[-1]].add(chunk)
            free += idle.pop(route[-1], [])
        for link in free:
            wanted = sorted(holds[link[0]] & lacks[link[-1]])
            if not wanted:
                idle[link[0]].append(link)
                continue
            choice = chance.choice(wanted)
            lacks[link[-1]].discard(choice)
            matches.append((choice, link))
            heappush(events, (time + 1 / routes[link], len(matches) + len(routes), choice, link))
    return matches


@lru_cache(maxsize=8)
def _logical_links(network: GraphNetwork, turned: bool) -> RouteCapacities:
    """What is left of the graph when its switches are split off."""
    capacities, units = gather_capacities(network, None, turned)
    return split_switches(capacities, units)


def _gather_greedily(
    builder: PlanBuilder, matches: Sequence[Match], pieces: Sequence[int], arrived: dict[int, tuple[int, ...]]
) -> None:
    """Copies in the order of a matching; those of an owner wait for its sums."""
    arrival: dict[tuple[int, int], tuple[int, ...]] = {}
    for chunk, route in matches:
        after = arrival.get((chunk, route[0]), arrived.get(chunk, ()))
        arrival[chunk, route[-1]] = (builder.send(pieces[chunk], route, after),)


def _reduce_greedily(
    builder: PlanBuilder, matches: Sequence[Match], pieces: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Sums in the reverse order of a matching on the graph turned around; returns what arrives at owners."""
    arrivals: dict[tuple[int, int], list[int]] = defaultdict(list)
    for chunk, route in reversed(matches):
        number = builder.send(pieces[chunk], route[::-1], arrivals[chunk, route[-1]], adds=True)
        arrivals[chunk, route[0]].append(number)
    receivers = {(chunk, route[-1]) for chunk, route in matches}
    return {chunk: tuple(numbers) for (chunk, node), numbers in arrivals.items() if (chunk, node) not in receivers}

"""What others run on graphs: rings, double binary trees, direct messages, and the greedy matching of TACOS."""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import networkx as nx

from formulations.edge_splitting import Route, RouteCapacities, split_switches
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.network import GraphInstance, GraphNetwork
from themis_opt.graphs.plan import GraphPlan, PlanBuilder, demands, divide
from themis_opt.graphs.simulation import simulate_graph
from themis_opt.graphs.trees import gather_capacities

Routes = list[Route]

GREEDY_CHUNKS = (1, 2, 4)
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
    if not instance.demand.sums_for_all:
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
    """The matching of links and chunks over time (W. Won et al., TACOS, MICRO 2024), of several numbers the best.

    Whenever a link is free it takes a random chunk that its sender has and its receiver lacks.  A reduce-scatter is
    such an all-gather backwards.  Links are those between NPUs that are left when switches are split off.  Raises
    InputError for an all-to-all, where NPUs pass on what they do not want.
    """
    if instance.demand.personal:
        raise InputError("the greedy matching is for data that all NPUs want", field="kind", value=instance.kind.value)
    plans = [matched_plan("greedy", instance, count, greedy_matching(instance, seed)) for count in GREEDY_CHUNKS]
    return min(plans, key=lambda plan: simulate_graph(plan).makespan)


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


class OwnedChunk(NamedTuple):
    """A chunk: who has it, or gets its sum, and the only NPU that wants it, if there is one."""

    owner: int
    target: int | None


Match = tuple[int, Route]
"""The number of a chunk and the route that it takes."""

Matching = Callable[[Sequence[OwnedChunk], int, bool], Sequence[Match]]
"""Matches in the order in which they leave, of chunks with so many elements; on the graph turned around if so."""


def matched_plan(name: str, instance: GraphInstance, count: int, matching: Matching) -> GraphPlan:
    """A plan of chunks, so many of each share, in the order of a matching."""
    builder = PlanBuilder(name, instance)
    npus, chunks, pieces = instance.network.capacities.terminals, list[OwnedChunk](), list[int]()
    for (source, target), elements in demands(instance).items():
        owners = npus if source is None and target is None else (target if source is None else source,)
        chunks += [
            OwnedChunk(owner, None if source is None else target)
            for owner in owners
            if owner is not None
            for _ in range(count)
        ]
        pieces += [builder.add_piece(part, source, target) for part in divide(elements, [1] * len(owners) * count)]
    largest = max(builder.pieces[piece].elements for piece in pieces)
    gathers, reduces = (any(getattr(piece, end) is None for piece in builder.pieces) for end in ("target", "source"))
    arrived: dict[int, tuple[int, ...]] = {}
    if reduces:
        arrived = _reduce_matched(builder, matching(chunks, largest, True), pieces)
    if gathers or not reduces:
        _gather_matched(builder, matching(chunks, largest, False), pieces, arrived)
    return builder.build(ranked=True)


def greedy_matching(instance: GraphInstance, seed: int) -> Matching:
    """Random choices over time."""
    chance = random.Random(seed)

    def match(chunks: Sequence[OwnedChunk], elements: int, turned: bool) -> list[Match]:
        size = elements * instance.collective.element_bytes
        return _matching(instance.network, _logical_links(instance.network, turned), chunks, size, chance, turned)

    return match


def _matching(
    network: GraphNetwork,
    routes: RouteCapacities,
    chunks: Sequence[OwnedChunk],
    size: int,
    chance: random.Random,
    turned: bool,
) -> list[Match]:
    """Chunks and routes in the order in which they leave: an event is a free route, or a chunk that arrives."""
    busy, late = _paces(network, routes, size, turned)
    holds = {npu: {c for c, chunk in enumerate(chunks) if chunk.owner == npu} for npu in network.capacities.terminals}
    lacks = {npu: set(range(len(chunks))) - held for npu, held in holds.items()}
    events: list[tuple[float, int, int, Route]] = [(0.0, number, -1, route) for number, route in enumerate(routes)]
    heapify(events)
    idle: dict[int, set[Route]] = defaultdict(set)
    matches: list[Match] = []
    numbers = itertools.count(len(events))
    while events:
        time, _, chunk, route = heappop(events)
        free = {route}
        if chunk >= 0:
            holds[route[-1]].add(chunk)
            free = idle.pop(route[-1], set())
        for link in sorted(free):
            wanted = sorted(holds[link[0]] & lacks[link[-1]])
            if not wanted:
                idle[link[0]].add(link)
                continue
            choice = chance.choice(wanted)
            lacks[link[-1]].discard(choice)
            matches.append((choice, link))
            heappush(events, (time + busy[link], next(numbers), -1, link))
            heappush(events, (time + busy[link] + late[link], next(numbers), choice, link))
    return matches


def _paces(
    network: GraphNetwork, routes: RouteCapacities, size: int, turned: bool
) -> tuple[dict[Route, float], dict[Route, float]]:
    """Picoseconds for which a chunk holds each route, and those from then to its arrival."""
    ways = {route: route[::-1] if turned else route for route in routes}
    arcs = {route: list(itertools.pairwise(way)) for route, way in ways.items()}
    units: dict[tuple[int, int], int] = defaultdict(int)
    for route, capacity in routes.items():
        for arc in arcs[route]:
            units[arc] += capacity
    time = {arc: float(size * PICOSECONDS_PER_SECOND / bandwidth) for arc, bandwidth in network.arcs.items()}
    busy = {route: max(time[arc] * units[arc] for arc in arcs[route]) / routes[route] for route in routes}
    late = {route: sum(network.latencies[arc] for arc in arcs[route]) + 0.0 for route in routes}
    return busy, late


@lru_cache(maxsize=8)
def _logical_links(network: GraphNetwork, turned: bool) -> RouteCapacities:
    """What is left of the graph when its switches are split off."""
    capacities, units = gather_capacities(network, None, turned)
    return split_switches(capacities, units)


def _gather_matched(
    builder: PlanBuilder, matches: Sequence[Match], pieces: Sequence[int], arrived: dict[int, tuple[int, ...]]
) -> None:
    """Copies in the order of a matching; those of an owner wait for its sums."""
    arrival: dict[tuple[int, int], tuple[int, ...]] = {}
    for chunk, route in matches:
        after = arrival.get((chunk, route[0]), arrived.get(chunk, ()))
        arrival[chunk, route[-1]] = (builder.send(pieces[chunk], route, after),)


def _reduce_matched(
    builder: PlanBuilder, matches: Sequence[Match], pieces: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Sums in the reverse order of a matching on the graph turned around; returns what arrives at owners."""
    arrivals: dict[tuple[int, int], list[int]] = defaultdict(list)
    for chunk, route in reversed(matches):
        number = builder.send(pieces[chunk], route[::-1], arrivals[chunk, route[-1]], adds=True)
        arrivals[chunk, route[0]].append(number)
    receivers = {(chunk, route[-1]) for chunk, route in matches}
    return {chunk: tuple(numbers) for (chunk, node), numbers in arrivals.items() if (chunk, node) not in receivers}

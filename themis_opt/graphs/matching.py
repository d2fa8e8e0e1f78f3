"""Plans of chunks in the order of a matching with links over time, and the greedy matching of TACOS."""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from formulations.edge_splitting import Route, RouteCapacities, split_switches
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.plan import GraphPlan, PlanBuilder, demands, divide
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.rails import boxes_of
from themis_opt.graphs.schedule import simulate_graph
from themis_opt.graphs.trees import gather_capacities

GREEDY_CHUNKS, ROOTED_CHUNKS = (1, 2, 4), (16, 64, 256)
"""Chunks of each share in the greedy matching, which orders every one of them: of many shares, and of one."""


class OwnedChunk(NamedTuple):
    """A chunk: who has it, or gets its sum, and the only NPU that wants it, if there is one."""

    owner: int
    target: int | None


Match = tuple[int, Route]  # the number of a chunk and the route that it takes

Matching = Callable[[Sequence[OwnedChunk], int, bool], Sequence[Match]]
"""Matches in the order in which they leave, of chunks with so many elements; on the graph turned around if so."""


def greedy_plan(instance: GraphInstance, seed: int = 0) -> GraphPlan:
    """The matching of links and chunks over time (W. Won et al., TACOS, MICRO 2024), of several numbers the best.

    Whenever a link is free it takes the rarest chunk that its sender has and its receiver lacks, of equal ones a random
    one; or, in the most chunks between boxes, any.  A reduce-scatter is such an all-gather backwards.  Links are those
    between NPUs that are left when switches are split off.  Raises InputError for an all-to-all, where NPUs pass on
    what they do not want.
    """
    if instance.demand.personal:
        raise InputError("the greedy matching is for data that all NPUs want", field="kind", value=instance.kind.value)
    counts = ROOTED_CHUNKS if instance.demand.rooted else GREEDY_CHUNKS
    plans = [matched_plan("greedy", instance, count, greedy_matching(instance, seed)) for count in counts]
    if 1 < len(boxes_of(instance.network)) < instance.network.num_npus:
        plans.append(matched_plan("greedy", instance, counts[-1], greedy_matching(instance, seed, rarest=False)))
    return min(plans, key=lambda plan: simulate_graph(plan).makespan)


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


def greedy_matching(instance: GraphInstance, seed: int, *, rarest: bool = True) -> Matching:
    """Choices over time, random where they are equal, or everywhere."""
    chance = random.Random(seed)

    def match(chunks: Sequence[OwnedChunk], elements: int, turned: bool) -> list[Match]:
        size = elements * instance.collective.element_bytes
        links = _logical_links(instance.network, turned)
        return _matching(instance.network, links, chunks, size, chance, turned, rarest=rarest)

    return match


def _matching(
    network: GraphNetwork,
    routes: RouteCapacities,
    chunks: Sequence[OwnedChunk],
    size: int,
    chance: random.Random,
    turned: bool,
    *,
    rarest: bool,
) -> list[Match]:
    """Chunks and routes in the order in which they leave: an event is a free route, or a chunk that arrives."""
    busy, late = _paces(network, routes, size, turned)
    holds = {npu: {c for c, chunk in enumerate(chunks) if chunk.owner == npu} for npu in network.capacities.terminals}
    lacks = {npu: set(range(len(chunks))) - held for npu, held in holds.items()}
    rank = [chance.random() for _ in chunks] if rarest else []
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
            wanted = holds[link[0]] & lacks[link[-1]]
            if not wanted:
                idle[link[0]].add(link)
                continue
            if rarest:
                choice = min(wanted, key=rank.__getitem__)
                rank[choice] = 1 + int(rank[choice]) + chance.random()
            else:
                choice = chance.choice(sorted(wanted))
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

"""Hill climbing on the simulator: a random piece is moved in another way, which stays if the schedule is no slower."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from formulations.edge_splitting import Route
from formulations.limits import Limits
from themis_opt.base.clock import SEARCH_CLOCK
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.meetings import (
    PieceEnds,
    PieceWay,
    nearest,
    path_to,
    plan_of_ways,
    random_meeting,
    routes_of_ways,
)
from themis_opt.graphs.plan import GraphTransfer, demands, divide
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.registry import GraphSearch
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.problem.phases import Demand, Ends

MOST_CLIMBED_NPUS = 32
"""NPUs up to which ways of pieces are made in a few milliseconds."""

CUTS = {
    Demand(Ends.ALL, Ends.ALL): ((8, 4, False), (12, 8, True)),
    Demand(Ends.EACH, Ends.EACH): ((1, 1, False), (2, 1, False), (4, 1, False)),
}
"""Pieces of each demand, chunks of each piece, and whether pieces meet as two trees, that are tried first."""

TRIAL_SHARE = 0.3
"""Share of the time for trials; the best cut has the rest."""

STEPS_PER_SECOND = 100
"""Steps that count as a second of work where limits are deterministic."""


def is_for_climbs(instance: GraphInstance) -> bool:
    """Whether the kind has ways to choose from, and the graph is small enough."""
    return instance.demand in CUTS and instance.network.num_npus <= MOST_CLIMBED_NPUS


def climbed_schedule(instance: GraphInstance, limits: Limits, enough: float) -> GraphSchedule | None:
    """The best schedule within limits; none where nodes are not joined both ways.

    `enough`: picoseconds at which it stops.
    """
    climbs = [_Climb(instance, *cut, seed=limits.seed) for cut in CUTS[instance.demand]]
    if not all(climb.start() for climb in climbs):
        return None
    for climb in climbs:
        climb.run(limits.within(TRIAL_SHARE * limits.seconds / len(climbs)), enough)
    best = min(climbs, key=lambda climb: climb.makespan)
    best.run(limits.within((1 - TRIAL_SHARE) * limits.seconds), enough)
    return best.schedule()


GRAPH_SEARCH = GraphSearch(is_for_climbs, climbed_schedule)


@dataclass
class _Climb:
    """Pieces, the way of each, and how long links are busy."""

    instance: GraphInstance
    pieces_each: int
    chunks: int
    trees: bool
    seed: int

    def start(self) -> bool:
        """A random way for each piece; whether there is one."""
        self.chance = random.Random(self.seed)
        self.ends: list[PieceEnds] = [ends for ends, amount in demands(self.instance).items() if amount]
        self.ends = [ends for ends in self.ends for _ in range(self.pieces_each)]
        self.loads = dict.fromkeys(self.instance.network.arcs, 0.0)
        self.ways = [self.new_way(ends) for ends in self.ends]
        for way in self.ways:
            self.count(way, 1)
        self.ends_of_pieces = self.times_of_pieces() if all(self.ways) else (0, 0)
        return all(self.ways)

    @property
    def makespan(self) -> int:
        """That of the best ways so far, in picoseconds."""
        return self.ends_of_pieces[0]

    def run(self, limits: Limits, enough: float) -> None:
        """Steps until limits are used up."""
        end, steps = SEARCH_CLOCK.now() + limits.seconds, math.ceil(limits.seconds * STEPS_PER_SECOND)
        while self.makespan > enough and (steps > 0 if limits.deterministic else SEARCH_CLOCK.now() < end):
            self.step()
            steps -= 1

    def step(self) -> None:
        """Move one piece in another way, which stays if that is no slower."""
        number = self.chance.randrange(len(self.ways))
        before = self.ways[number]
        self.count(before, -1)
        self.ways[number] = self.new_way(self.ends[number]) or before
        ends = self.times_of_pieces()
        if ends > self.ends_of_pieces:
            self.ways[number] = before
        self.ends_of_pieces = min(ends, self.ends_of_pieces)
        self.count(self.ways[number], 1)

    def times_of_pieces(self) -> tuple[int, int]:
        """The makespan, and the sum of the ends of all pieces, which tells apart schedules that end together."""
        schedule = self.schedule()
        hops = [sum(len(transfer.route) - 1 for transfer in way) for way in self.ways]
        first = np.cumsum([0, *hops[:-1]])
        return schedule.makespan, int(np.maximum.reduceat(schedule.end.max(axis=0), first).sum())

    def new_way(self, ends: PieceEnds) -> PieceWay:
        """A random way for a piece, where busy links count as longer ones; how much so is random as well."""
        price = max(self.chance.uniform(-1.0, 1.0), 0.0) ** 2
        lengths = {
            pair: time + price * sum(self.loads[arc] for arc in pairwise(self.routes[pair]))
            for pair, time in self.times.items()
        }
        source, target = ends
        if source is None or target is None:
            return tuple(random_meeting(self.instance.network, self.routes, lengths, self.chance, trees=self.trees))
        before = nearest(self.instance.network.capacities.terminals, (source,), lengths, self.chance)
        return (GraphTransfer(0, path_to(target, before, self.routes), False, ()),)

    @cached_property
    def holds(self) -> Mapping[tuple[int, int], float]:
        """Picoseconds of a piece on each link."""
        size = max(demands(self.instance).values()) * self.instance.element_bytes / self.pieces_each
        arcs = self.instance.network.arcs.items()
        return {arc: size * PICOSECONDS_PER_SECOND / float(bandwidth) for arc, bandwidth in arcs}

    @cached_property
    def routes(self) -> dict[tuple[int, int], Route]:
        """The fastest route of a chunk between nodes that keep data, over switches that pass it on."""
        between = routes_of_ways(self.instance)
        between.sort(key=self.time_of, reverse=True)
        return {(route[0], route[-1]): route for route in between}

    def time_of(self, route: Route) -> float:
        """What a chunk takes over a route."""
        return sum(self.hop_times[arc] for arc in pairwise(route))

    @cached_property
    def times(self) -> dict[tuple[int, int], float]:
        """What a chunk takes over each route."""
        return {pair: self.time_of(route) for pair, route in self.routes.items()}

    @cached_property
    def hop_times(self) -> dict[tuple[int, int], float]:
        """What a chunk takes over each link."""
        latencies = self.instance.network.latencies
        return {arc: hold / self.chunks + latencies[arc] for arc, hold in self.holds.items()}

    def count(self, way: PieceWay, sign: int) -> None:
        """Add a way to how long links are busy, or take it away."""
        for transfer in way:
            for arc in pairwise(transfer.route):
                self.loads[arc] += sign * self.holds[arc]

    def schedule(self) -> GraphSchedule:
        """The schedule of all ways."""
        amounts = demands(self.instance)
        elements = {ends: iter(divide(amounts[ends], [1] * self.pieces_each)) for ends in self.ends}
        parts = ((next(elements[ends]), ends, way) for ends, way in zip(self.ends, self.ways, strict=True))
        return simulate_graph(plan_of_ways("climb", self.instance, parts), self.chunks)

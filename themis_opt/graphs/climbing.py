"""Hill climbing on the simulator: a random piece is moved in another way, which stays if the schedule is no slower."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from formulations.edge_splitting import Route
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.meetings import (
    PieceEnds,
    PieceWay,
    plan_of_ways,
    random_way,
    routes_of_ways,
)
from themis_opt.graphs.plan import demands, divide
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.steps import GraphContest, GraphStep
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

STEPS_PER_SECOND = 200
"""Steps that a core takes in a second but for their simulations, for limits that count work."""


def is_for_climbs(instance: GraphInstance) -> bool:
    """Whether the kind has ways to choose from, and the graph is small enough."""
    return instance.demand in CUTS and instance.network.num_npus <= MOST_CLIMBED_NPUS


def climbed_schedules(contest: GraphContest) -> Iterator[GraphSchedule]:
    """The best schedule of each cut, and that after all steps; none where nodes are not joined both ways."""
    climbs = [_Climb(contest.instance, *cut, seed=contest.limits.seed) for cut in CUTS[contest.instance.demand]]
    if not all(climb.start() for climb in climbs):
        return
    seconds = TRIAL_SHARE * contest.left / len(climbs)
    for climb in climbs:
        with contest.allowance.turn(seconds):
            climb.run(contest)
        yield climb.schedule()
    best = min(climbs, key=lambda climb: climb.makespan)
    best.run(contest)
    yield best.schedule()


GRAPH_SEARCH = GraphStep("climb", is_for_climbs, climbed_schedules)


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

    def run(self, contest: GraphContest) -> None:
        """Steps until the turn is over."""
        while self.makespan > contest.enough and contest.left > 0:
            self.step()
            contest.allowance.charge(1 / STEPS_PER_SECOND)

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
        return random_way(self.instance.network, ends, self.routes, lengths, self.chance, trees=self.trees)

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

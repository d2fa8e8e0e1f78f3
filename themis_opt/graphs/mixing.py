"""Mixtures of ways: a linear programme shares each demand among many ways, and asks for more where links are dear.

Ways of a sum are meetings (:mod:`themis_opt.graphs.meetings`), those of data for all NPUs are trees, and for one paths.
Its prices of links (:mod:`formulations.way_shares`) make the next ways, as in column generation, for several limits on
the length of ways.  The best mixtures are cut in chunks of one size, and a link serves the chunk first that has longest
to go.
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from formulations.edge_splitting import Route
from formulations.way_shares import DemandWay, MachineUse, share_ways
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.meetings import (
    NodesBefore,
    PairLengths,
    PieceEnds,
    PieceWay,
    plan_of_ways,
    random_way,
    routes_of_ways,
)
from themis_opt.graphs.plan import GraphPlan, LinkArc, demands, divide, ranked_plan
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule, in_best_chunks, justified, simulate_graph
from themis_opt.graphs.steps import GraphContest, GraphStep

MOST_MIXED_NPUS = 32  # NPUs up to which ways are made in a few milliseconds

SLACKS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.6)
"""Limits on the length of ways: what they may be longer than the shortest, as parts of the best time so far."""

FIRST_WAYS, NEXT_WAYS = 60, 20  # ways of a sum at first, and in each round
PRICE_WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)  # how much prices of links count in the length of a way
SEARCH_SHARE = 0.6  # share of the time for rounds; chunks have the rest
FEWER_WAYS = 10  # ways of a single demand for one of each of many
ROUNDS_PER_SECOND = 4  # rounds that count as a second, for limits that count work
FIRST_CHUNKS, FINEST_CHUNKS = 256, 2048  # chunks of every mixture, and the most that the best of them is cut in
USED_SHARE = 1e-4  # least share of a way that is used


def is_for_mixing(instance: GraphInstance) -> bool:
    """Whether the kind has ways to choose from, and the graph is small enough."""
    return not instance.demand.is_backwards and instance.network.num_npus <= MOST_MIXED_NPUS


def mixed_schedules(contest: GraphContest) -> Iterator[GraphSchedule]:
    """Mixtures of ways that are found in a part of the time, in chunks; none where nodes are not joined both ways."""
    search = _WaySearch(contest.instance, random.Random(contest.limits.seed))
    if search.start():
        with contest.allowance.turn(SEARCH_SHARE * contest.left):
            search.run(contest)
    if search.mixtures:
        yield from search.schedules(contest.enough)


GRAPH_SEARCH = GraphStep("mix", is_for_mixing, mixed_schedules)


class _Mixture(NamedTuple):
    """Ways and their shares, and the time that the programme promises."""

    time: float
    parts: list[tuple[float, DemandWay, PieceWay]]

    @property
    def rank(self) -> tuple[int, float]:
        """The time in whole picoseconds, and of equal ones the longest way, on which chunks wait most."""
        return round(self.time), max(way.length for _, way, _ in self.parts)


@dataclass
class _WaySearch:
    """All ways so far, and the best shares of those within each limit of length."""

    instance: GraphInstance
    chance: random.Random
    ways: dict[tuple[int, PieceWay], DemandWay] = field(default_factory=dict)
    mixtures: dict[float, _Mixture] = field(default_factory=dict)

    @cached_property
    def ends(self) -> list[PieceEnds]:
        """Who has and who wants the data of each demand."""
        return [ends for ends, amount in demands(self.instance).items() if amount]

    def start(self) -> bool:
        """Some ways of each demand; whether there is one for all."""
        equal = dict.fromkeys(self.instance.network.arcs, 1 / len(self.instance.network.arcs))
        self.add_ways(equal, FIRST_WAYS)
        return {demand for demand, _ in self.ways} == set(range(len(self.ends)))

    def run(self, contest: GraphContest) -> None:
        """Rounds until the turn is over, each for the slack that looks best or a random one."""
        unseen = list(SLACKS)
        while contest.left > 0:
            best = min(self.mixtures, key=lambda slack: self.mixtures[slack].rank, default=0.0)
            slack = unseen.pop(0) if unseen else self.chance.choice((best, *SLACKS))
            ways = self.within(slack)
            solution = share_ways([way for way, _ in ways])
            if solution is not None:
                shared = zip(solution.shares, ways, strict=True)
                parts = [(share, *way) for share, way in shared if share > USED_SHARE]
                self.mixtures[slack] = _Mixture(solution.time, parts)
                self.add_ways(solution.prices, NEXT_WAYS)
            contest.allowance.charge(1 / ROUNDS_PER_SECOND)

    def within(self, slack: float) -> list[tuple[DemandWay, PieceWay]]:
        """Ways that are little longer than what the longest demand needs."""
        shortest: dict[int, float] = {}
        for way in self.ways.values():
            shortest[way.demand] = min(shortest.get(way.demand, way.length), way.length)
        time = min((mixture.time for mixture in self.mixtures.values()), default=0.0)
        most = max(shortest.values()) + slack * time
        return [(way, steps) for (_, steps), way in self.ways.items() if way.length <= most]

    def add_ways(self, prices: Mapping[LinkArc, float], count: int) -> None:
        """New ways under prices of links."""
        for _ in range(count if len(self.ends) == 1 else max(count // FEWER_WAYS, 1)):
            for demand, steps in self.new_ways(*self.priced_routes(prices)):
                if steps and (demand, steps) not in self.ways:
                    self.ways[demand, steps] = self.timed(demand, steps)

    def priced_routes(self, prices: Mapping[LinkArc, float]) -> tuple[dict[LinkArc, Route], dict[LinkArc, float]]:
        """The cheapest route of each pair of nodes, and its length, by prices that count more or less."""
        weight, routes, lengths = self.chance.choice(PRICE_WEIGHTS), dict[LinkArc, Route](), dict[LinkArc, float]()
        for route, latency in self.routes.items():
            price = sum(prices.get(arc, 0.0) * self.holds[arc] for arc in pairwise(route))
            length, pair = 1 + latency + weight * self.chance.uniform(0.8, 1.2) * price, (route[0], route[-1])
            if length < lengths.get(pair, math.inf):
                routes[pair], lengths[pair] = route, length
        return routes, lengths

    def new_ways(self, routes: Mapping[LinkArc, Route], lengths: PairLengths) -> Iterator[tuple[int, PieceWay]]:
        """A way of each demand."""
        trees = self.chance.random() < 0.5
        before: dict[int, NodesBefore] = {}
        for demand, ends in enumerate(self.ends):
            network = self.instance.network
            yield demand, random_way(network, ends, routes, lengths, self.chance, trees=trees, before=before)

    def timed(self, demand: int, steps: PieceWay) -> DemandWay:
        """A way with the heads and tails of its uses of links."""
        heads, tails = _heads_and_tails(steps, self.instance.network.latencies)
        part = demands(self.instance)[self.ends[demand]] / self.largest
        uses, latencies = list[MachineUse](), self.instance.network.latencies
        for step, head, tail in zip(steps, heads, tails, strict=True):
            arcs = list(pairwise(step.route))
            left = tail + sum(latencies[arc] for arc in arcs)
            for arc in arcs:
                uses.append(MachineUse(arc, head, left, self.holds[arc] * part))
                head, left = head + latencies[arc], left - latencies[arc]
        return DemandWay(demand, max(use.head + use.tail for use in uses), uses)

    @cached_property
    def largest(self) -> int:
        """Elements of the largest demand."""
        return max(demands(self.instance).values())

    @cached_property
    def holds(self) -> dict[tuple[int, int], float]:
        """Picoseconds of the largest demand on each link."""
        size = self.largest * self.instance.element_bytes * PICOSECONDS_PER_SECOND
        return {arc: size / float(bandwidth) for arc, bandwidth in self.instance.network.arcs.items()}

    @cached_property
    def routes(self) -> dict[Route, int]:
        """Routes between nodes that keep data, over switches that pass it on, and their latencies."""
        latencies = self.instance.network.latencies
        between = routes_of_ways(self.instance)
        return {route: sum(latencies[arc] for arc in pairwise(route)) for route in between}

    def schedules(self, enough: float) -> Iterator[GraphSchedule]:
        """All mixtures in some chunks, the best of them in more as long as that helps, and all in whole ways."""
        ranked = sorted(self.mixtures.values(), key=lambda mixture: mixture.rank)
        makespans = list[int]()
        for mixture in ranked:
            yield (schedule := justified(simulate_graph(self.plan_in_chunks(mixture, FIRST_CHUNKS))))
            makespans.append(schedule.makespan)
        makespan, best = min(zip(makespans, ranked, strict=True), key=lambda pair: pair[0])
        count = FIRST_CHUNKS
        while count < FINEST_CHUNKS:
            count *= 2
            yield (schedule := justified(simulate_graph(self.plan_in_chunks(best, count))))
            if schedule.makespan >= makespan:
                break
            makespan = schedule.makespan
        yield from (in_best_chunks(self.plan_of(mixture), enough) for mixture in ranked)

    def plan_of(self, mixture: _Mixture) -> GraphPlan:
        """A piece for each way."""
        parts = zip(self.elements(mixture), mixture.parts, strict=True)
        ways = ((elements, self.ends[way.demand], steps) for elements, (_, way, steps) in parts if elements)
        return plan_of_ways("mix", self.instance, ways)

    def elements(self, mixture: _Mixture) -> list[int]:
        """Elements of each way."""
        counts = [0] * len(mixture.parts)
        for demand, ends in enumerate(self.ends):
            places = [place for place, (_, way, _) in enumerate(mixture.parts) if way.demand == demand]
            shares = [mixture.parts[place][0] for place in places]
            for place, elements in zip(places, divide(demands(self.instance)[ends], shares), strict=True):
                counts[place] = elements
        return counts

    def plan_in_chunks(self, mixture: _Mixture, count: int) -> GraphPlan:
        """About so many chunks of one size, which begin all the time; links serve first what has longest to go."""
        parts, ranks, counts = list[tuple[int, PieceEnds, PieceWay]](), list[float](), self.elements(mixture)
        for elements, (_, way, steps) in zip(counts, mixture.parts, strict=True):
            chunks = max(round(count * elements / sum(counts)), 1)
            tails = _heads_and_tails(steps, self.instance.network.latencies)[1]
            for chunk, part in enumerate(divide(elements, [1] * chunks)):
                if part:
                    parts.append((part, self.ends[way.demand], steps))
                    ranks += [(chunk + 0.5) / chunks * mixture.time - tail for tail in tails]
        return ranked_plan(plan_of_ways("mix", self.instance, parts), ranks)


def _heads_and_tails(steps: PieceWay, latencies: Mapping[tuple[int, int], int]) -> tuple[list[int], list[int]]:
    """Latency before each transfer of a way, and after it."""
    length = [sum(latencies[arc] for arc in pairwise(step.route)) for step in steps]
    heads, tails = [0] * len(steps), [0] * len(steps)
    for number, step in enumerate(steps):
        heads[number] = max((heads[before] + length[before] for before in step.after), default=0)
    for number in range(len(steps) - 1, -1, -1):
        for before in steps[number].after:
            tails[before] = max(tails[before], tails[number] + length[number])
    return heads, tails

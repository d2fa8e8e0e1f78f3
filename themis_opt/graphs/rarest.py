"""Rarest chunk first: a matching of links and chunks over time that gives up what would arrive too late.

As the matching of TACOS (:mod:`themis_opt.graphs.matching`), with three rules more.  A free link takes the chunk that
fewest nodes have, so that a root sends every chunk once.  Switches that copy, or sum on the graph turned around, have
chunks as NPUs do.  And nothing is sent that would arrive after a horizon, so that slow links leave what others bring
sooner; the shortest horizon with which everybody gets everything is looked for.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count, pairwise

import numpy as np

from formulations.edge_splitting import Route
from formulations.flow_network import reversed_arcs
from themis_opt.base.arrays import BoolArray
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.matching import Match, OwnedChunk, matched_plan
from themis_opt.graphs.plan import GraphPlan, LinkArc, demands, routes_between
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.steps import GraphContest, GraphStep

MOST_NPUS, MOST_MATCHES = 64, 8192
"""Most NPUs, and messages of a matching in one direction: half a second for each horizon."""

HORIZONS = 6  # horizons that are tried: the last are a per cent apart


def is_for_rarest(instance: GraphInstance) -> bool:
    """Whether data are for all NPUs, or sums of all, and the graph is small enough."""
    return not instance.demand.personal and instance.network.num_npus <= MOST_NPUS


def rarest_schedules(contest: GraphContest) -> Iterator[GraphSchedule]:
    """Schedules of numbers of chunks, each twice the one before."""
    for chunks in _counts(contest.instance):
        yield simulate_graph(rarest_plan(contest.instance, chunks, contest.limits.seed))


GRAPH_SEARCH = GraphStep("rarest", is_for_rarest, rarest_schedules)


def rarest_plan(instance: GraphInstance, chunks: int, seed: int = 0) -> GraphPlan:
    """A plan with so many chunks of each share; a root has the whole buffer for its share."""

    def match(owned: Sequence[OwnedChunk], elements: int, turned: bool) -> list[Match]:
        return _ChunkMatching(instance, owned, elements, turned).best(seed)

    return matched_plan("rarest", instance, chunks, match)


def _counts(instance: GraphInstance) -> Iterator[int]:
    """Numbers of chunks, from one for each NPU on."""
    npus, shares = instance.network.num_npus, len(demands(instance))
    first = 1 if shares > 1 or not instance.demand.rooted else npus
    owners = npus if first == 1 else 1
    for power in count():
        chunks = first * 2**power
        if power and (chunks * owners * npus > MOST_MATCHES or chunks * owners > instance.size):
            return
        yield chunks


class _ChunkMatching:
    """Routes, times and chunks of one direction, reductions on the graph turned around."""

    def __init__(self, instance: GraphInstance, owned: Sequence[OwnedChunk], elements: int, turned: bool) -> None:
        network, size = instance.network, elements * instance.element_bytes * PICOSECONDS_PER_SECOND
        hold = {arc: math.ceil(size / bandwidth) for arc, bandwidth in network.arcs.items()}
        self.hold, self.latency = (
            reversed_arcs(times) if turned else dict(times) for times in (hold, network.latencies)
        )
        self.npus = network.capacities.terminals
        self.keepers = {*self.npus, *network.switches_that("sums" if turned else "multicasts")}
        self.routes = self._routes()
        self.owners = [chunk.owner for chunk in owned]

    def _routes(self) -> dict[LinkArc, list[Route]]:
        """By their first arc, routes between nodes that keep chunks."""
        routes: dict[LinkArc, list[Route]] = defaultdict(list)
        for route in routes_between(self.hold, self.keepers):
            routes[route[0], route[1]].append(route)
        return dict(routes)

    def best(self, seed: int) -> list[Match]:
        """The matches with the shortest horizon, by halving."""
        matches, high = _MatchingRun(self, math.inf, seed).run()
        low = 0.0
        for number in range(HORIZONS):
            middle = (low + high) / 2
            run = _MatchingRun(self, middle, seed + number + 1)
            shorter, end = run.run()
            if run.missing:
                low = middle
            else:
                matches, high = shorter, end
        return self._needed(matches)

    def _needed(self, matches: Sequence[Match]) -> list[Match]:
        """The matches without those to switches from which nothing goes on."""
        needed, kept = {(chunk, npu) for chunk in range(len(self.owners)) for npu in self.npus}, list[Match]()
        for chunk, route in reversed(matches):
            if (chunk, route[-1]) in needed:
                needed.add((chunk, route[0]))
                kept.append((chunk, route))
        return kept[::-1]


class _MatchingRun:
    """One matching while it grows."""

    def __init__(self, matching: _ChunkMatching, horizon: float, seed: int) -> None:
        self.matching, self.horizon, self.chance = matching, horizon, np.random.default_rng(seed)
        shape = max(matching.keepers) + 1, len(matching.owners)
        self.holds, self.lacks = np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool)
        self.holds[matching.owners, np.arange(shape[1])] = True
        self.lacks &= ~self.holds
        self.copies = np.ones(shape[1])
        self.missing = int(self.lacks[list(matching.npus)].sum())
        self.free = dict.fromkeys(matching.hold, 0)
        self.matches: list[Match] = []

    def run(self) -> tuple[list[Match], float]:
        """Matches in the order in which they leave, and when the last one arrives."""
        numbers, idle, end = count(), defaultdict[int, set[LinkArc]](set), 0
        first = self.chance.permutation(list(self.matching.routes)).tolist()
        events: list[tuple[int, int, int, int | LinkArc]] = [
            (0, next(numbers), -1, (tail, head)) for tail, head in first
        ]
        heapify(events)
        while events:
            now, _, chunk, where = heappop(events)
            arcs = {where} if isinstance(where, tuple) else idle.pop(where, set())
            if not isinstance(where, tuple):
                self.holds[where, chunk] = True
            for arc in sorted(arcs):
                match = self.choose(arc, now) if self.free[arc] <= now else None
                if match is None:
                    idle[arc[0]].add(arc)
                    continue
                arrival = self.send(*match, now)
                end = max(end, arrival)
                for used in pairwise(match[1]):
                    if used in self.matching.routes:
                        heappush(events, (self.free[used], next(numbers), -1, used))
                heappush(events, (arrival, next(numbers), match[0], match[1][-1]))
        return self.matches, end

    def choose(self, arc: LinkArc, now: int) -> Match | None:
        """The rarest chunk that somebody behind a free arc lacks and gets in time; of equal ones the earliest."""
        routes = self.matching.routes[arc]
        wanted: BoolArray = self.holds[arc[0]] & self.lacks[[route[-1] for route in routes]]
        if not wanted.any():
            return None
        rank = np.where(wanted, self.copies + self.chance.random(len(self.copies)), np.inf)
        options = []
        for route, ranks in zip(routes, rank, strict=True):
            chunk = int(ranks.argmin())
            arrival = self.arrival(route, now)
            if ranks[chunk] < np.inf and arrival <= self.horizon:
                options.append((int(ranks[chunk]), arrival, float(ranks[chunk]), chunk, route))
        return min(options)[3:] if options else None

    def arrival(self, route: Route, now: int) -> int:
        """When a chunk that leaves now arrives."""
        for arc in pairwise(route):
            now = max(now, self.free[arc]) + self.matching.hold[arc] + self.matching.latency[arc]
        return now

    def send(self, chunk: int, route: Route, now: int) -> int:
        """Occupy the arcs of a route; returns the arrival."""
        for arc in pairwise(route):
            self.free[arc] = max(now, self.free[arc]) + self.matching.hold[arc]
            now = self.free[arc] + self.matching.latency[arc]
        self.missing -= route[-1] in self.matching.npus
        self.copies[chunk] += 1
        self.lacks[route[-1], chunk] = False
        self.matches.append((chunk, route))
        return now

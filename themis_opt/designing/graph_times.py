r"""How long collectives take on a graph as a function of its bandwidths, for :mod:`formulations.allocation`.

Every bound on a graph is work over a weighted sum of bandwidths, plus a constant: a piece.

* All-gather, reduce-scatter, broadcast, reduce: a cut S has the bytes that must cross it over the sum of its links.
  The worst cut at some bandwidths comes from maximum flows (:mod:`formulations.worst_cut`).
* All-to-all: lengths of links, the duals of the maximum concurrent flow (:mod:`formulations.concurrent_flow`).
* All-reduce of trees: the duals of the programme of shared roots (:mod:`formulations.shared_roots`), which is linear in
  the bandwidths.  Any algorithm is bound by cuts around the root in both directions, and without switches that sum or
  copy by partitions.  Where there are no switches and all links are alike in both directions, trees are optimal.

The constant is the least latency of what is crossed, none for flows.  The longest distance is a piece without work.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from formulations.allocation import Piece
from formulations.concurrent_flow import concurrent_flow, distances, idle_times
from formulations.flow_network import CapacityGraph
from formulations.shared_roots import partition_lengths, share_roots, worst_partition
from formulations.worst_cut import worst_broadcast, worst_cut
from themis_opt.base.arrays import FloatArray
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.designing.problem import GraphDesignProblem
from themis_opt.graphs.bounds import UNFOLDED, latency_bound, words_of
from themis_opt.graphs.problem import GraphInstance, GraphNetwork

CAPACITY_STEPS = 2**20
"""Whole units of the largest bandwidth in flows that look for cuts."""


class TimeLimit(NamedTuple):
    """A bound on the time of a collective as a function of bandwidths, and what decides in words."""

    piece: Piece
    words: str


@dataclass(frozen=True)
class Wiring:
    """Which rate each direction of a link has: that of a group, or a part of the last one, that of all fixed links."""

    problem: GraphDesignProblem

    @cached_property
    def arcs(self) -> dict[tuple[int, int], tuple[int, float]]:
        """The number of the rate of each arc, and what part of it the arc has."""
        number = {name: k for k, name in enumerate(self.problem.names)}
        index, fixed = self.problem.whole.index, self.problem.network.fixed
        arcs = {}
        for link in self.problem.network.links:
            for (tail, head), rate in link.bandwidths.items():
                place = (len(number), rate / fixed) if link.is_fixed else (number[link.group_name], 1.0)
                arcs[index[tail], index[head]] = place
        return arcs

    def capacities(self, rates: FloatArray) -> CapacityGraph:
        """The graph at some rates, in whole steps, one at least."""
        values = {arc: part * float(rates[k]) for arc, (k, part) in self.arcs.items()}
        step = max(values.values()) / CAPACITY_STEPS
        arcs = {arc: max(round(value / step), 1) for arc, value in values.items()}
        return CapacityGraph(len(self.problem.whole.nodes), self.problem.whole.capacities.terminals, arcs)

    def piece(self, work: float, weights: Mapping[tuple[int, int], float], latency: int) -> Piece:
        """Bytes over the weighted bandwidths of arcs, in picoseconds."""
        shares = np.zeros(len(self.problem.rates))
        for arc, weight in weights.items():
            k, part = self.arcs[arc]
            shares[k] += weight * part
        return Piece(work * PICOSECONDS_PER_SECOND, tuple(shares.tolist()), float(latency))


@dataclass(frozen=True)
class GraphPart:
    """A collective of a workload.

    `weight`: of its time, with how often it runs.
    `instance`: on the whole network.
    """

    name: str
    weight: float
    instance: GraphInstance
    wiring: Wiring

    def limits(self, rates: FloatArray, *, trees: bool) -> Iterator[TimeLimit]:
        """What limits the collective at some rates: any algorithm, or with `trees` all-reduces along trees."""
        graph = self.wiring.capacities(rates)
        demand = self.instance.demand
        if demand.personal:
            yield self._flow_limit(graph)
        elif not demand.sums_for_all:
            yield self._cut_limit(graph, turned=demand.is_backwards)
        elif trees or not self.differs:
            yield self._tree_limit(graph)
        else:
            yield self._cut_limit(graph, turned=False)
            yield self._cut_limit(graph, turned=True)
            if not self._combining:
                yield self._partition_limit(graph)

    @cached_property
    def distance(self) -> TimeLimit:
        """What the longest distance takes, whatever the bandwidths."""
        bound = latency_bound(self.instance)
        ones = dict.fromkeys(self.wiring.arcs, 1.0)
        return TimeLimit(self.wiring.piece(0.0, ones, int(bound.picoseconds)), bound.meaning)

    @property
    def _network(self) -> GraphNetwork:
        return self.instance.network

    @property
    def _combining(self) -> set[int]:
        """Switches that sum or copy."""
        return {*self._network.switches_that("sums"), *self._network.switches_that("multicasts")}

    @property
    def differs(self) -> bool:
        """Whether bounds of any algorithm and of trees may differ, for which there must be switches or uneven links."""
        is_alike = all(link.back in (None, link.bandwidth) for link in self.wiring.problem.network.links)
        return self.instance.demand.sums_for_all and not (is_alike and not self._network.capacities.switches)

    def _cut_limit(self, graph: CapacityGraph, *, turned: bool) -> TimeLimit:
        """The worst cut, out of its nodes or into them."""
        seen = graph.reversed if turned else graph
        is_gather = self.instance.demand.divided
        cut = worst_cut(seen) if is_gather else worst_broadcast(seen, self.instance.root)
        inside = len(cut.nodes & set(graph.terminals)) / len(graph.terminals) if is_gather else 1.0
        crossing = [arc for arc in graph.arcs if (arc[turned] in cut.nodes) and (arc[not turned] not in cut.nodes)]
        words = f"{'into' if turned else 'out of'} {words_of(self._network, cut.nodes)}"
        latency = min(self._network.latencies[arc] for arc in crossing)
        piece = self.wiring.piece(self.instance.size * inside, dict.fromkeys(crossing, 1.0), latency)
        return TimeLimit(piece, words)

    def _flow_limit(self, graph: CapacityGraph) -> TimeLimit:
        """Lengths of links that prove the maximum concurrent flow; an NPU sends one part to each NPU."""
        fold = len(graph.terminals) * len(graph.arcs) > UNFOLDED
        lengths = concurrent_flow(graph, fold=fold).lengths
        reach = (distances(graph.num_nodes, lengths, source) for source in graph.terminals)
        total = sum(sum(distance[sink] for sink in graph.terminals) for distance in reach)
        weights = {arc: length / total for arc, length in lengths.items()}
        idle = min(time for arc, time in idle_times(graph, self._network.latencies).items() if lengths[arc])
        piece = self.wiring.piece(self.instance.size / len(graph.terminals), weights, idle)
        return TimeLimit(piece, f"flows over {self._longest(weights)}")

    def _tree_limit(self, graph: CapacityGraph) -> TimeLimit:
        """Duals of the trees of an all-reduce."""
        sums, copies = self._network.switches_that("sums"), self._network.switches_that("multicasts")
        lengths = share_roots(graph, sums, copies).lengths
        weights = {arc: length for arc, length in lengths.items() if length > LEAST_LENGTH * max(lengths.values())}
        least = min(self._network.latencies.values())
        piece = self.wiring.piece(self.instance.size, weights, least)
        return TimeLimit(piece, f"trees over {self._longest(weights)}")

    def _partition_limit(self, graph: CapacityGraph) -> TimeLimit:
        """The worst of some partitions."""
        weights = partition_lengths(graph, worst_partition(graph))
        least = min(self._network.latencies.values())
        piece = self.wiring.piece(self.instance.size, {arc: float(w) for arc, w in weights.items()}, least)
        return TimeLimit(piece, f"messages between parts of the graph over {self._longest(weights)}")

    def _longest(self, weights: Mapping[tuple[int, int], object]) -> str:
        """The groups of links that have a weight."""
        names = [*self.wiring.problem.names, "fixed links"]
        used = dict.fromkeys(names[self.wiring.arcs[arc][0]] for arc, weight in weights.items() if weight)
        return ", ".join(used)


LEAST_LENGTH = 1e-9
"""Share of the longest length below which one is what the solver rounds."""

"""Designing a graph: the bandwidths of its links that make collectives fastest, against bounds of any algorithm.

The programme is that of :mod:`formulations.allocation`, with the pieces of :mod:`themis_opt.designing.graph_design`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from formulations.allocation import Allocation, AllocationData, Group, Infeasible, Piece, extreme_rates
from formulations.concurrent_flow import concurrent_flow, distances, idle_times
from formulations.flow_network import CapacityGraph
from formulations.shared_roots import partition_lengths, share_roots, worst_partition
from formulations.worst_cut import worst_broadcast, worst_cut
from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_duration, format_percent, nanoseconds
from themis_opt.designing.problem import GraphDesignProblem
from themis_opt.designing.programme import NO_SOLUTION, AnyDesign, allocated, obeys, programme_of
from themis_opt.graphs.bounds import UNFOLDED, graph_bounds, latency_bound, words_of
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.schedule import GraphSchedule

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


KEPT_DIGITS = 7
"""Digits of the largest bandwidth that are kept: capacities are whole numbers in exact flows."""

DECIDES = 1e-5
"""Share by which a limit may be below the time of a collective and count as what decides."""

WORTH_SAYING_EVEN = 1.005
"""Multiple of the time from which equal bandwidths are spoken of."""

MOST_DECIDING = 4
"""Limits of a collective that are named."""


@dataclass(frozen=True, eq=False)
class GraphDesign(AnyDesign):
    """Bandwidths for the links of a graph; no algorithm is faster than the bound.

    Attributes
    ----------
    bandwidths : dict
        Bytes per second of each link of a group; 0 where none is built.
    parts : tuple of GraphPart
    deciding : tuple of tuple of str
        For each part what limits it, in words.
    """

    problem: GraphDesignProblem
    bandwidths: dict[str, float]
    parts: tuple[GraphPart, ...]
    deciding: tuple[tuple[str, ...], ...]

    @cached_property
    def network(self) -> GraphNetwork:
        """The network with these bandwidths."""
        return self.problem.network.at(self.bandwidths)

    def instances(self) -> dict[str, GraphInstance]:
        """The collectives on the network, by name."""
        return {part.name: part.instance.on(self.network) for part in self.parts}

    @cached_property
    def times(self) -> tuple[float, ...]:
        """Picoseconds that trees and flows need for each part."""
        return tuple(_time(instance) for instance in self.instances().values())

    @property
    def time(self) -> float:
        """What is minimised, at what trees and flows need."""
        return self._total(self.times)

    @property
    def values(self) -> list[float]:
        """Bytes per second of every group."""
        return list(self.bandwidths.values())

    @cached_property
    def schedules(self) -> tuple[GraphSchedule, ...]:
        """Validated schedules of trees."""
        return tuple(compare_graph(instance, ["trees"]).best.schedule for instance in self.instances().values())

    @property
    def simulated(self) -> float:
        """What is minimised, for these schedules."""
        return self._total([schedule.makespan for schedule in self.schedules])

    @cached_property
    def even_time(self) -> float | None:
        """The same for equal bandwidths of all links, as large as the constraints allow; None if they allow none."""
        rate = _even_rate(programme_of(self.problem), len(self.bandwidths))
        if rate is None:
            return None
        network = self.problem.network.at(dict.fromkeys(self.bandwidths, _rounded(rate, rate)))
        return self._total([_time(part.instance.on(network)) for part in self.parts])

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group; bandwidths in bytes per second."""
        figures = zip(self.bandwidths.items(), self.problem.rates, self.dimension_prices, strict=False)
        return [
            {
                "links": name,
                "count": len(self.problem.network.members[name]),
                "bandwidth": bandwidth,
                "money": rate.dollars * bandwidth,
                "saved_ns_per_gb_per_s": nanoseconds(saved),
            }
            for (name, bandwidth), rate, saved in figures
        ]

    def part_rows(self) -> list[dict[str, Any]]:
        """One row for each collective; times in nanoseconds."""
        columns = zip(self.parts, self.times, self.schedules, self.deciding, strict=True)
        return [
            {
                "collective": part.name,
                "weight": part.weight,
                "time_ns": nanoseconds(time),
                "simulated_ns": nanoseconds(schedule.makespan),
                "deciding": list(words),
            }
            for part, time, schedule, words in columns
        ]

    def document(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        even = self.even_time
        return {
            "minimised": self.problem.minimise,
            "time_ns": nanoseconds(self.time),
            "bound_ns": nanoseconds(self.bound),
            "gap": self.gap,
            "simulated_ns": nanoseconds(self.simulated),
            "even_ns": None if even is None else nanoseconds(even),
            "money": self.money,
            "links": self.rows(),
            "collectives": self.part_rows(),
            "constraints": self.price_rows(),
        }

    @property
    def verdict(self) -> tuple[str, ...]:
        """What it comes to, and what decides, in sentences."""
        need, least = format_duration(self.time), format_duration(self.bound)
        others = "less" if self.gap < DECIDES else f"less than {least}"
        above = format_percent(self.simulated / self.bound - 1)
        lines = [
            f"The best bandwidths need {need}; no others within the constraints need {others}, with any algorithm.",
            f"Trees take {format_duration(self.simulated)} there, {above} above what is proven.",
        ]
        if self.even_time is not None and self.even_time > self.time * WORTH_SAYING_EVEN:
            lines.append(f"Equal bandwidths of all links need {self.even_time / self.time:.2f} times as long.")
        slowest = max(range(len(self.parts)), key=lambda k: self.parts[k].weight * self.times[k])
        lines.append(f"{self.parts[slowest].name} is limited by {'; '.join(self.deciding[slowest])}.")
        return tuple(lines)

    def _total(self, times: Sequence[float]) -> float:
        weighted = [part.weight * time for part, time in zip(self.parts, times, strict=True)]
        return max(weighted) if self.problem.minimise == "worst" else sum(weighted)


def design_graph(problem: GraphDesignProblem) -> GraphDesign:
    """Find the bandwidths of a graph; of equally good ones the cheapest.

    Raises
    ------
    InputError
        If the problem has no solution, or leaves a bandwidth without limit.
    """
    parts = tuple(_parts(problem))
    allocation, limits = _allocate(problem, parts, trees=True)
    bound = allocation.bound
    if any(part.differs for part in parts):
        bound = min(bound, _allocate(problem, parts, trees=False)[0].bound)
    largest = float(allocation.rates.max())
    pairs = zip(problem.names, problem.rates, allocation.rates.tolist(), strict=False)
    bandwidths = {name: max(_rounded(value, largest), rate.least) for name, rate, value in pairs}
    deciding = tuple(_deciding(known.values(), allocation.rates) for known in limits)
    return GraphDesign(problem, bound, allocation, bandwidths, parts, deciding)


def _parts(problem: GraphDesignProblem) -> Iterator[GraphPart]:
    wiring = Wiring(problem)
    for workload in problem.workloads:
        for each in workload.collectives:
            name = workload.name if len(workload.collectives) == 1 else f"{workload.name}.{each.kind.value}"
            yield GraphPart(name, workload.weight * each.count, problem.instance(each), wiring)


def _allocate(
    problem: GraphDesignProblem, parts: Sequence[GraphPart], *, trees: bool
) -> tuple[Allocation, list[dict[Piece, TimeLimit]]]:
    """The best rates, and for each part the limits that were met, by their pieces."""
    known: list[dict[Piece, TimeLimit]] = [{part.distance.piece: part.distance} for part in parts]
    refining = [_refining(part, limits, trees=trees) for part, limits in zip(parts, known, strict=True)]
    try:
        centre = np.mean(extreme_rates(programme_of(problem)), axis=0)
    except Infeasible:
        raise InputError(NO_SOLUTION, field="constraints") from None
    for refine in refining:
        refine(centre)
    return allocated(problem, _groups(problem, parts, known, refining)), known


def _groups(
    problem: GraphDesignProblem,
    parts: Sequence[GraphPart],
    known: Sequence[Iterable[Piece]],
    refining: Sequence[Callable[[FloatArray], list[Piece]]],
) -> tuple[Group, ...]:
    """A group for each part, or one of all where the worst counts."""
    if problem.minimise == "sum":
        columns = zip(parts, known, refining, strict=True)
        return tuple(Group(part.weight, tuple(pieces), refine) for part, pieces, refine in columns)

    def refine_all(rates: FloatArray) -> list[Piece]:
        pairs = zip(parts, refining, strict=True)
        return [_times(piece, part.weight) for part, refine in pairs for piece in refine(rates)]

    first = (_times(piece, part.weight) for part, pieces in zip(parts, known, strict=True) for piece in pieces)
    return (Group(1.0, tuple(first), refine_all),)


def _refining(part: GraphPart, known: dict[Piece, TimeLimit], *, trees: bool) -> Callable[[FloatArray], list[Piece]]:
    def refine(rates: FloatArray) -> list[Piece]:
        limits = list(part.limits(rates, trees=trees))
        known.update((limit.piece, limit) for limit in limits)
        return [limit.piece for limit in limits]

    return refine


def _times(piece: Piece, weight: float) -> Piece:
    return Piece(piece.work * weight, piece.shares, piece.fixed * weight)


def _even_rate(data: AllocationData, num_groups: int) -> float | None:
    """The largest rate that all groups may have at once; None if the constraints allow none."""
    sums = ((row.limit, sum(row.coefficients)) for row in data.rows if row.sense == "<=")
    rate = min([*data.most[:num_groups], *(limit / total for limit, total in sums if total > 0)])
    rates = np.array([*([rate] * num_groups), *data.most[num_groups:]])
    return rate if rate > 0 and obeys(data, rates) else None


def _rounded(rate: float, largest: float) -> float:
    """A rate with so many digits of the largest, rounded down."""
    step = 10.0 ** (math.floor(math.log10(largest)) + 1 - KEPT_DIGITS)
    return math.floor(rate / step * (1 + 1e-8)) * step


def _time(instance: GraphInstance) -> float:
    """Picoseconds that trees and flows need: bounds of throughput and distance alone."""
    bounds = graph_bounds(instance).items()
    return float(max(bound.picoseconds for name, bound in bounds if name != "arrival"))


def _deciding(limits: Iterable[TimeLimit], rates: FloatArray) -> tuple[str, ...]:
    """What decides at some rates in words, the largest first; of alike ones, which weigh groups equally, one."""
    ranked = sorted(limits, key=lambda limit: -limit.piece.at(rates))
    least = ranked[0].piece.at(rates) * (1 - DECIDES)
    kept: dict[tuple[str, ...], str] = {}
    for limit in ranked:
        piece = limit.piece
        if piece.at(rates) >= least:
            kept.setdefault(tuple(f"{share / piece.work:.6g}" for share in piece.shares if piece.work), limit.words)
    return tuple(dict.fromkeys(kept.values()))[:MOST_DECIDING]

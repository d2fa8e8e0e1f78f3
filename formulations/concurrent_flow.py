r"""All-to-all: the maximum concurrent flow, which no algorithm beats.

Sets and data
    Nodes V, terminals N, arcs e of capacity :math:`b_e`.  Every terminal has one unit for every other one.

Variables
    :math:`f_{se} \ge 0`, what source s sends over arc e; :math:`\theta`, the part of all units that flows.

Objective
    maximise :math:`\theta`

Constraints
    1. :math:`\sum_s f_{se} \le b_e` for every arc;
    2. of what s sends, as much leaves a switch, or s itself, as enters it, but for the :math:`\theta (|N| - 1)` that
       leave s; every other terminal keeps :math:`\theta`.

Bound
    Units of an all-to-all are independent, so that they cannot be summed or copied, and a flow is all there is
    (P. Basu et al., https://arxiv.org/abs/2309.13541).  By duality, lengths :math:`l_e \ge 0` of arcs prove

    .. math:: \theta \le \sum_e b_e l_e \Big/ \sum_{s, t \in N} d_l(s, t)

    with the distances :math:`d_l`: every unit occupies at least its distance.

Time
    With latencies an arc is idle for :math:`c_e` of the time at least: nothing comes to its tail before the latency
    from the nearest terminal, and what leaves it later than its own latency and that to the nearest terminal from the
    end comes too late.  So all is over at T only if it carries :math:`b_e \max(0, T - c_e)` at most, and

    .. math:: \sum_e b_e l_e \max(0, T - c_e) \ge \sum_{s, t \in N} D_t \, d_l(s, t)

    for amounts :math:`D_t`.  :func:`length_time` computes the least such T for the duals of (1) in exact arithmetic, so
    that no tolerance of GLOP stands in the bound.

Symmetry
    Colour refinement (H. Weisfeiler, A. Leman, 1968) sorts nodes, and arcs by what their ends look like.  Where the
    classes are those of automorphisms, flows can be averaged over them, and one source of each class is enough: its
    arcs in a class carry, in the sum over the sources of the class, what the class has.  Lengths of classes are a
    bound whether or not they are; only flows that schedules follow are computed for every source.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import pywraplp

from formulations.edge_splitting import Route
from formulations.flow_network import UNLIMITED, ArcCapacities, CapacityGraph, IntArray, distances, reversed_arcs
from formulations.linear import solve_in_time

Lengths = Mapping[tuple[int, int], int]

LENGTH_STEPS = 10**9  # whole steps of the longest arc, so that distances are exact


class ConcurrentFlow(NamedTuple):
    """The part of all units that flows in the unit of capacities, what proves it, and the flow of each source."""

    throughput: float
    lengths: Lengths
    flows: dict[int, dict[tuple[int, int], float]]


def concurrent_flow(graph: CapacityGraph, *, fold: bool) -> ConcurrentFlow:
    """The maximum concurrent flow; with `fold`, of one source for each class of terminals."""
    classes = node_classes(graph) if fold else list(range(graph.num_nodes))
    kinds = {arc: (classes[arc[0]], classes[arc[1]], capacity) for arc, capacity in graph.arcs.items()}
    members = Counter(classes[terminal] for terminal in graph.terminals)
    sources = {classes[terminal]: terminal for terminal in reversed(graph.terminals)}
    return _FlowProgramme(graph, kinds, {source: members[kind] for kind, source in sources.items()}).solve()


def node_classes(
    graph: CapacityGraph, roots: Sequence[int] = (), delays: npt.NDArray[np.int64] | None = None
) -> list[int]:
    """Numbers of the classes of nodes that colour refinement does not tell apart.

    A class and the sums of hashed arcs out of a node and into it stand for all that is around it.

    `roots`: nodes of which each looks different from all others.
    `delays`, shape (arcs,): what else tells arcs apart than their capacities.
    """
    classes = np.zeros(graph.num_nodes, dtype=np.int64)
    classes[list(graph.terminals)] = 1
    classes[list(roots)] = np.arange(2, len(roots) + 2)
    (tails, heads), (_, arcs) = graph.ends, np.unique(graph.rates, return_inverse=True)
    if delays is not None:
        _, arcs = np.unique(arcs + len(arcs) * np.unique(delays, return_inverse=True)[1], return_inverse=True)
    while True:
        looks = _hashed(classes)
        for number, (ends, others) in enumerate(((tails, heads), (heads, tails))):
            seen, near = _hashed(_hashed(classes[others] * (arcs.max() + 2) + arcs + 1) + number), looks.copy()
            np.add.at(near, ends, seen)
            looks = _hashed(near)
        finer = np.unique(looks, return_inverse=True)[1]
        if finer.max() == len(np.unique(classes)) - 1:
            return classes.tolist()
        classes = finer


def _hashed(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Whole numbers of 64 bits that equal ones share (S. Vigna, splitmix64, 2015, https://prng.di.unimi.it/)."""
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).astype(np.int64)


class _FlowProgramme:
    """The linear programme of some sources, each of which stands for several."""

    def __init__(
        self, graph: CapacityGraph, kinds: Mapping[tuple[int, int], tuple[int, int, int]], weights: Mapping[int, int]
    ) -> None:
        self._graph, self._kinds, self._weights = graph, kinds, weights
        self._scale = max(graph.arcs.values())
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        infinity = self._solver.infinity()
        self._part = self._solver.NumVar(0, infinity, "part")
        self._flows = {
            source: {arc: self._solver.NumVar(0, infinity, f"flow_{source}_{arc}") for arc in graph.arcs}
            for source in weights
        }
        self._capacity = self.capacity_rows()
        for source in weights:
            self.balance_rows(source)
        self._solver.Maximize(self._part)

    def capacity_rows(self) -> dict[tuple[int, int, int], pywraplp.Constraint]:
        """(1) All sources share the capacity of the arcs of a class."""
        counts = Counter(self._kinds.values())
        rows = {
            kind: self._solver.Constraint(-self._solver.infinity(), counts[kind] * kind[2] / self._scale)
            for kind in counts
        }
        for source, weight in self._weights.items():
            for arc, flow in self._flows[source].items():
                rows[self._kinds[arc]].SetCoefficient(flow, weight)
        return rows

    def balance_rows(self, source: int) -> None:
        """(2) Every other terminal keeps its unit of what enters it, the rest is passed on."""
        terminals = set(self._graph.terminals)
        rows = [self._solver.Constraint(0, 0) for _ in range(self._graph.num_nodes)]
        for (tail, head), flow in self._flows[source].items():
            rows[tail].SetCoefficient(flow, -1)
            rows[head].SetCoefficient(flow, 1)
        for node, row in enumerate(rows):
            if node == source:
                row.SetCoefficient(self._part, len(terminals) - 1)
            elif node in terminals:
                row.SetCoefficient(self._part, -1)

    def solve(self) -> ConcurrentFlow:
        """Solve, and say lengths in whole steps."""
        if not solve_in_time(self._solver):
            raise ArithmeticError("the linear programme of an all-to-all was not solved")
        duals = {kind: max(row.dual_value(), 0.0) for kind, row in self._capacity.items()}
        longest = max(duals.values())
        steps = {kind: round(dual / longest * LENGTH_STEPS) for kind, dual in duals.items()}
        flows = {
            source: {arc: flow.solution_value() * self._scale for arc, flow in flows.items()}
            for source, flows in self._flows.items()
        }
        lengths = {arc: steps[kind] for arc, kind in self._kinds.items()}
        return ConcurrentFlow(self._part.solution_value() * self._scale, lengths, flows)


def length_time(
    graph: CapacityGraph, lengths: Lengths, latencies: Lengths, amounts: Mapping[int, Fraction]
) -> Fraction:
    """The least time that lengths prove, for amounts that each terminal wants of every other one.

    `latencies` in any unit of time; `amounts` in that unit for a unit of capacity.
    """
    far = _sums_of_distances(graph, np.array([lengths[arc] for arc in graph.arcs], dtype=np.int64))
    need = sum(amounts[sink] * reach for sink, reach in zip(graph.terminals, far.tolist(), strict=True))
    idle = idle_times(graph, latencies)
    rates = sorted((begin, graph.arcs[arc] * lengths[arc]) for arc, begin in idle.items() if lengths[arc])
    time, rate = Fraction(0), 0
    for begin, more in rates:
        if rate * (begin - time) >= need:
            break
        need -= rate * (begin - time)
        time, rate = Fraction(begin), rate + more
    return time + need / rate if need else time


def _sums_of_distances(graph: CapacityGraph, lengths: IntArray) -> IntArray:
    """Of each terminal the sum of its distances from all: rounds as of L. Ford (1956), of some sources at once."""
    terminals, order = np.array(graph.terminals), np.argsort(graph.ends[1], kind="stable")
    (tails, heads), lengths = graph.ends[:, order], lengths[order]
    reached, first = np.unique(heads, return_index=True)
    far = np.zeros(len(terminals), dtype=np.int64)
    for begin in range(0, len(terminals), SOURCES_AT_ONCE):
        sources = terminals[begin : begin + SOURCES_AT_ONCE]
        distance = np.full((graph.num_nodes, len(sources)), (int(lengths.max()) + 1) * graph.num_nodes)
        distance[sources, np.arange(len(sources))] = 0
        while True:
            nearest = np.minimum.reduceat(distance[tails] + lengths[:, None], first)
            if not (nearest < distance[reached]).any():
                break
            distance[reached] = np.minimum(distance[reached], nearest)
        far += distance[terminals].sum(axis=1)
    return far


SOURCES_AT_ONCE = 64  # sources whose distances are computed at once: some megabytes


def idle_times(graph: CapacityGraph, latencies: Lengths) -> dict[tuple[int, int], int]:
    """How long each arc is idle before the first data and after the last; without those that never have any."""
    first, last = (
        distances(graph.num_nodes, arcs, graph.terminals).tolist() for arcs in (latencies, reversed_arcs(latencies))
    )
    return {
        (tail, head): first[tail] + latencies[tail, head] + last[head]
        for tail, head in graph.arcs
        if max(first[tail], last[head]) < UNLIMITED
    }


def route_flow(
    flow: Mapping[tuple[int, int], float], source: int, wants: Mapping[int, float]
) -> Iterator[tuple[Route, float]]:
    """Divide the flow of a source in routes to the terminals that want some of it, short ones first.

    What is less than a millionth of the least want is left out.
    """
    left, least = dict(flow), 1e-6 * min(wants.values())
    for terminal in wants:
        missing = wants[terminal]
        while missing > least:
            route = _shortest(left, source, terminal, least)
            if not route:
                break
            arcs = list(itertools.pairwise(route))
            part = min(missing, *(left[arc] for arc in arcs))
            for arc in arcs:
                left[arc] -= part
            missing -= part
            yield route, part


def _shortest(left: ArcCapacities | Mapping[tuple[int, int], float], source: int, sink: int, least: float) -> Route:
    """The route of fewest arcs that have something left; none if there is no such route."""
    near: dict[int, list[int]] = {}
    for (tail, head), amount in left.items():
        if amount > least:
            near.setdefault(tail, []).append(head)
    before, layer = {source: source}, [source]
    while layer and sink not in before:
        reached = {head: tail for tail in reversed(layer) for head in near.get(tail, ()) if head not in before}
        before |= reached
        layer = list(reached)
    return tuple(_back(before, source, sink)) if sink in before else ()


def _back(before: Mapping[int, int], source: int, sink: int) -> Sequence[int]:
    nodes = [sink]
    while nodes[-1] != source:
        nodes.append(before[nodes[-1]])
    return nodes[::-1]

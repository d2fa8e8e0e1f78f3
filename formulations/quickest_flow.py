r"""Quickest flow: when a terminal can have data of others, with latencies and bandwidths in one bound.

Sets and data
    Nodes V, arcs e = (u, w) of capacity :math:`b_e` and latency :math:`a_e`, a set of sources that together have an
    amount D at time 0, and a sink that needs all of it.

Variables
    :math:`l_e \ge 0`, how long arc e counts; :math:`p_u`, a time for each node.

Objective
    maximise :math:`p_t` for the sink t

Constraints
    1. :math:`p_s = 0` for every source s;
    2. :math:`p_w \le p_u + a_e + l_e` for every arc;
    3. :math:`\sum_e b_e l_e \le D`.

Bound
    No algorithm is over before :math:`p_t`.  Suppose one is, at T < :math:`p_t`.  Call (u, :math:`\tau`), node u at a
    time, early if :math:`\tau < p_u`.  Sources are never early, and the sink always is until T.  A node that keeps
    data does not become early.  So the sink's knowledge of the data is a function of what arcs carried from nodes that
    were not early to nodes that were: sent from u at :math:`\tau \ge p_u`, and received at
    :math:`\tau + a_e < p_w`.  By (2) that is less than :math:`l_e` of time, so that by (3) less than D was carried
    (the bound is that of cuts, in the network over time: L. Ford, D. Fulkerson, 1958,
    https://doi.org/10.1287/opre.6.3.419).  Without capacities it is the distance, without latencies the least cut.

    With sources and sink in exchange, and arcs turned around, it holds as well: one node has independent data for
    several others, and the bound is the time at which none of them can have all that is meant for it.

Alike nodes
    Nodes of a class may be one: an arc from class to class has the capacity of all, and the least latency.  A way of
    the graph is one of classes that is no longer, and (3) counts the same, so that the bound holds for any classes in
    which the sink is alone.  Where classes are images of each other it is that of all nodes.

Which sources
    Any set of sources gives a bound.  Cuts of the network over time, of nodes (u, k) for intervals k, choose the set.
    A super source feeds its amount into each source at time 0, arcs lead from (u, k) to
    :math:`(w, k + a_e / \delta)`, rounded, with what they carry in an interval of length :math:`\delta`, and data wait
    at nodes.  If less than all flows to the sink within a time, the sources on the side of the super source
    of a least cut cannot bring theirs; their bound is the next time that is tried.

Method
    GLOP solves it.  Its :math:`l_e` are rounded down to whole units of time, so that (3) holds in exact arithmetic;
    :math:`p` are the distances under :math:`a_e + l_e`, which are best for given :math:`l`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.concurrent_flow import node_classes
from formulations.flow_network import CapacityGraph, FlowNetwork, IntArray, distances

Latencies = Mapping[tuple[int, int], int]

TIMED_ARCS, FINEST_INTERVALS = 16_384, 128
"""Arcs of a network over time, which take ten milliseconds, and intervals: more of them hardly find other sources."""

MOST_ARCS = 600  # arcs between classes up to which arrivals are computed: a hundredth of a second for each sink

AMOUNT_UNITS = 2**40  # whole units of all data in a network over time
USED_AMOUNT = 1 - 1e-9  # share of the amount that is used, since the solver may exceed (3) by a little


def quickest_arrival(
    graph: CapacityGraph, latencies: Latencies, sources: Iterable[int], sink: int, amount: Fraction
) -> int:
    """The bound, in the unit of latencies; `amount` in that unit of time for a unit of capacity."""
    starts = sorted(sources)
    counted = _counted_times(graph, latencies, starts, sink, amount)
    if sum(graph.arcs[arc] * time for arc, time in counted.items()) > amount:
        counted = dict.fromkeys(graph.arcs, 0)
    lengths = {arc: latencies[arc] + time for arc, time in counted.items()}
    return int(distances(graph.num_nodes, lengths, starts)[sink])


class Arrival(NamedTuple):
    """When data of some sources can have arrived at a sink."""

    time: int
    sources: tuple[int, ...]
    sink: int


def latest_arrival(
    graph: CapacityGraph, latencies: Latencies, amounts: Mapping[int, Fraction], sink: int, least: int = 0
) -> Arrival:
    """The largest bound over sets of sources with their amounts; all of them, unless others are later than `least`.

    Nodes that look alike are one; -1 where there are too many arcs of different looks.
    """
    roots = (sink, *amounts) if len(amounts) == 1 else (sink,)
    lags = np.array([latencies[arc] for arc in graph.arcs])
    classes = node_classes(graph, roots, lags)
    folded, delays = _folded(graph, lags, classes)
    of_classes = dict[int, Fraction]()
    for source, amount in amounts.items():
        of_classes[classes[source]] = of_classes.get(classes[source], Fraction(0)) + amount
    starts, end, latest = tuple(sorted(of_classes)), classes[sink], Arrival(-1, (), sink)
    if len(delays) > MOST_ARCS:
        return latest
    roundings: list[Callable[[float], int]] = [math.floor, round]  # with floors only those are late that surely are
    while starts and roundings:
        amount = sum((of_classes[start] for start in starts), Fraction(0))
        sources = tuple(source for source in sorted(amounts) if classes[source] in starts)
        arrival = Arrival(quickest_arrival(folded, delays, starts, end, amount), sources, sink)
        if latest.sources and arrival.time <= max(latest.time, least):
            roundings.pop()
        else:
            latest = arrival
        late = max(latest.time, least)
        more = len(of_classes) > 1 and roundings
        starts = _late_sources(folded, delays, of_classes, end, late, roundings[-1]) if more else ()
    return latest


def _folded(graph: CapacityGraph, lags: IntArray, classes: Sequence[int]) -> tuple[CapacityGraph, Latencies]:
    """The graph of classes, and the latencies of its arcs."""
    count, (tails, heads) = max(classes) + 1, np.array(classes)[graph.ends]
    apart = np.flatnonzero(tails != heads)
    keys, first, place = np.unique(tails[apart] * count + heads[apart], return_index=True, return_inverse=True)
    capacities, delays = np.zeros_like(keys), lags[apart[first]]
    np.add.at(capacities, place, graph.rates[apart])
    np.minimum.at(delays, place, lags[apart])
    arcs = list(zip((keys // count).tolist(), (keys % count).tolist(), strict=True))
    joined = CapacityGraph(count, (), dict(zip(arcs, capacities.tolist(), strict=True)))
    return joined, dict(zip(arcs, delays.tolist(), strict=True))


def _late_sources(
    graph: CapacityGraph,
    latencies: Latencies,
    amounts: Mapping[int, Fraction],
    sink: int,
    time: int,
    rounded: Callable[[float], int],
) -> tuple[int, ...]:
    """The sources whose data do not come to the sink within a time, by a least cut of the network over time."""
    count = max(min(TIMED_ARCS // len(graph.arcs), FINEST_INTERVALS), 1)
    interval, unit = time / count, AMOUNT_UNITS / float(sum(amounts.values()))
    capacities = {
        (tail * count + k, head * count + k + lag): min(math.ceil(capacity * interval * unit), AMOUNT_UNITS)
        for (tail, head), capacity in graph.arcs.items()
        for lag in (rounded(latencies[tail, head] / interval),)
        for k in range(count - lag)
    }
    waiting = ((node * count + k, node * count + k + 1) for node in range(graph.num_nodes) for k in range(count - 1))
    capacities |= dict.fromkeys(waiting, AMOUNT_UNITS)
    everywhere = graph.num_nodes * count
    capacities |= {(everywhere, source * count): math.floor(amount * unit) for source, amount in amounts.items()}
    cut = FlowNetwork(tuple(capacities)).min_cut(tuple(capacities.values()), everywhere, sink * count + count - 1)
    return tuple(source for source in sorted(amounts) if source * count in cut.nodes)


def _counted_times(
    graph: CapacityGraph, latencies: Latencies, sources: list[int], sink: int, amount: Fraction
) -> dict[tuple[int, int], int]:
    """How long each arc counts, rounded down."""
    unit = float(amount) / max(graph.arcs.values()) + max(latencies.values())
    largest = max(graph.arcs.values())
    solver = pywraplp.Solver.CreateSolver("GLOP")
    infinity = solver.infinity()
    counted = {arc: solver.NumVar(0, infinity, "") for arc in graph.arcs}
    times = [solver.NumVar(0, 0 if node in sources else infinity, "") for node in range(graph.num_nodes)]
    used = solver.Constraint(-infinity, float(amount) / largest / unit)  # (3)
    for (tail, head), length in counted.items():
        used.SetCoefficient(length, graph.arcs[tail, head] / largest)
        row = solver.Constraint(-infinity, latencies[tail, head] / unit)  # (2)
        for variable, sign in ((times[head], 1), (times[tail], -1), (length, -1)):
            row.SetCoefficient(variable, sign)
    solver.Maximize(times[sink])
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return dict.fromkeys(graph.arcs, 0)
    return {arc: math.floor(max(length.solution_value(), 0.0) * unit * USED_AMOUNT) for arc, length in counted.items()}

r"""Entries into parts: when all parts of a network can have the data of one node, with latencies and bandwidths.

Sets and data
    Nodes V, arcs e = (u, w) of capacity :math:`b_e` and latency :math:`a_e`, terminals, of which one is the root and
    has an amount D at time 0, and disjoint parts :math:`V_0, \dots, V_k` of V.  The root is in :math:`V_0`, and all
    parts have terminals, at least n of them in each but :math:`V_0`.  Only terminals copy data.

    d is the distance by latencies, :math:`m_v` that of a terminal v to the nearest other one of its part, :math:`g_w =
    \min_v d(w, v)` that of a node to the nearest terminal, and :math:`h_w = \min_v d(w, v) + m_v`.

Bound
    No algorithm is over before the T at which

    .. math:: k n D = \sum_e b_e \left( (T - d(r, u) - a_e - g_w)^+ + (n - 1) (T - d(r, u) - a_e - h_w)^+ \right)

    where e = (u, w) are the arcs that leave a part.  Suppose one is, at T.  What enters part j at a terminal v after
    :math:`T - m_v` is late: it serves v alone.  Each terminal of the part knows D of what entered soon enough, E, and
    of what entered late at it; the sum over n of them is :math:`n D \le n E + L`, for what entered late anywhere, L.
    Whatever enters a part leaves another one over an arc e before, not copied on its way.  It does so at
    :math:`d(r, u)` at the earliest, and for an entry in time (late) at :math:`T - a_e - h_w` (:math:`T - a_e - g_w`)
    at the latest.  The sum over parts is the equation, with :math:`\le` for =.

    For sums at a root it holds on the graph turned around: what leaves a part soon holds the data of one terminal.

Method
    The right side is convex in T, so that T is the least of those that its first m terms give, sorted by their start.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from formulations.flow_network import CapacityGraph, distances, reversed_arcs

ArrivalTimes = npt.NDArray[np.int64]

RATIO_ROUNDING = 1e-9  # share by which the bound is lowered, since numbers are rounded


def entry_times(
    graph: CapacityGraph,
    latencies: Mapping[tuple[int, int], int],
    parts: Sequence[Set[int]],
    roots: Sequence[int],
    amount: Fraction,
) -> Iterator[int]:
    """The bound for each root, in the unit of latencies; `amount` in that unit of time for a unit of capacity.

    `parts`: each has a terminal, and one has the root.
    """
    ends, lags = np.array([*latencies]).T, np.array([*latencies.values()])
    part = np.full(graph.num_nodes, -1)
    for number, nodes in enumerate(parts):
        part[list(nodes)] = number
    leaving = (part[ends[0]] >= 0) & (part[ends[0]] != part[ends[1]])
    terminals = np.array(graph.terminals)
    sizes = np.bincount(part[terminals[part[terminals] >= 0]])
    turned, rates = reversed_arcs(latencies), np.array([float(graph.arcs[arc]) for arc in latencies])[leaving]
    near = distances(graph.num_nodes, turned, terminals)[ends[1]]
    mates = _nearest_mates(graph, latencies, part) if (sizes < 2).sum() < 2 else np.zeros_like(terminals)
    next_near = distances(graph.num_nodes, turned, terminals, mates)[ends[1]]
    for root in roots:
        least = int(np.delete(sizes, part[root]).min())
        start = distances(graph.num_nodes, latencies, [root])[ends[0]] + lags
        begin, weights = (start + near)[leaving], rates
        if least > 1:
            soon = (start + next_near)[leaving]
            begin, weights = np.concatenate((begin, soon)), np.concatenate((rates, (least - 1) * rates))
        order = np.argsort(begin)
        weights = weights[order]
        needed = float((len(parts) - 1) * least * amount)
        times = (needed + np.cumsum(weights * begin[order])) / np.cumsum(weights)
        yield int(times.min() * (1 - RATIO_ROUNDING))


def _nearest_mates(graph: CapacityGraph, latencies: Mapping[tuple[int, int], int], part: ArrivalTimes) -> ArrivalTimes:
    """The distance of each terminal to the nearest other one of its part; 0 where there is none."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
    terminals = set(graph.terminals)
    for (tail, head), latency in latencies.items():
        near[tail].append((head, latency))
    return np.array([_nearest_mate(near, terminals, part, npu) for npu in graph.terminals])


def _nearest_mate(near: Sequence[Sequence[tuple[int, int]]], terminals: Set[int], part: ArrivalTimes, npu: int) -> int:
    reached, heap = set[int](), [(0, npu)]
    while heap:
        distance, node = heappop(heap)
        if node != npu and node in terminals and part[node] == part[npu]:
            return distance
        if node not in reached:
            reached.add(node)
            for head, latency in near[node]:
                heappush(heap, (distance + latency, head))
    return 0

r"""The worst cut of a graph: how fast every terminal can send the same to all others, against any algorithm.

Sets and data
    Nodes V, terminals :math:`N \subseteq V`, arcs e of capacity :math:`b_e`; for a set S of nodes,
    :math:`B^+(S)` is the capacity of the arcs that leave it.

Objective
    .. math:: \lambda = \min \{ B^+(S) / |S \cap N| : S \cap N \ne \emptyset, \; N \not\subseteq S \}

Bound
    In an all-gather every terminal has one unit that all others need.  A terminal outside of S needs the
    :math:`|S \cap N|` units of S, and nothing that leaves S can be made of less than it stands for: an encoder of
    fewer bits would have the same output for two inputs (cut-set bound; T. Cover, J. Thomas, *Elements of Information
    Theory*, 15.10).  So it takes at least :math:`1 / \lambda` per unit, whatever nodes compute or copy.  A
    reduce-scatter on the graph with all arcs reversed takes as long: if its parts have to add up to arbitrary numbers,
    the sums that belong to S depend on every value outside, and as many units must enter S.  A broadcast has one
    terminal with data, and :math:`\lambda` is the least capacity of a cut behind it.

    The bound is tight where switches let out as much as they let in (L. Zhao et al., ForestColl,
    https://arxiv.org/abs/2402.06787, theorem 1): out-trees attain it, by J. Edmonds (1973).

Method
    A super source feeds :math:`\lambda` into each terminal.  Then :math:`\lambda` is possible iff, for every terminal
    v, a flow of :math:`\lambda |N|` reaches v: the cut of S and the source has
    :math:`B^+(S) + \lambda |N \setminus S|`.
    Where the flow is smaller, the ratio of its cut is the next :math:`\lambda` (Newton's method of W. Dinkelbach, 1967,
    https://doi.org/10.1287/mnsc.13.7.492): each is a ratio of a cut, so that the last one is exact, with its cut.
    As :math:`\lambda` only falls, a terminal that passed once has passed; later cuts need only sets that hold it.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from formulations.edge_splitting import balanced
from formulations.flow_network import UNLIMITED, CapacityGraph, FlowNetwork, RootedNetwork


class WorstCut(NamedTuple):
    """The least ratio of what leaves a set of nodes and what the set must send, and the set."""

    ratio: Fraction
    nodes: frozenset[int]


def worst_cut(graph: CapacityGraph, receivers: Sequence[int] = ()) -> WorstCut:
    """The worst cut of an all-gather of equal shares, at least two terminals provided.

    `receivers`: terminals before which cuts are sought, all of them if none is given.  Every cut is a bound; where each
    other terminal is the image of one of them under a symmetry, it is the same.
    """
    return worst_cut_of_shares(graph, dict.fromkeys(graph.terminals, 1), receivers)


def worst_cut_of_shares(graph: CapacityGraph, shares: Mapping[int, int], receivers: Sequence[int] = ()) -> WorstCut:
    """The same where terminals have different numbers of units, some of them perhaps none."""
    network, total = RootedNetwork(graph, graph.terminals), sum(shares.values())
    units = np.array([shares.get(node, 0) for node in graph.terminals], dtype=np.int64)
    passed = np.zeros(len(units), dtype=bool)  # later cuts have these terminals on the side of the source
    worst = _worst_receiver(graph, shares, total)
    for terminal in receivers or graph.terminals:
        while True:
            ratio = worst.ratio
            fed = np.where(passed, UNLIMITED // 2 // len(passed), units * ratio.numerator)
            cut = network.cut_before(terminal, graph.rates * ratio.denominator, fed)
            if cut.value >= ratio.numerator * total:
                break
            sent = sum(share for node, share in shares.items() if node in cut.nodes)
            worst = WorstCut(Fraction(graph.capacity_out(cut.nodes), sent), cut.nodes)
        passed[graph.terminals.index(terminal)] = True
    return worst


def worst_broadcast(graph: CapacityGraph, root: int, receivers: Sequence[int] = ()) -> WorstCut:
    """The least capacity behind which a terminal is, seen from the root; `receivers` as for :func:`worst_cut`."""
    network, capacities = FlowNetwork(graph.ends.T), graph.rates
    others = (terminal for terminal in receivers or graph.terminals if terminal != root)
    cuts = (network.min_cut(capacities, root, terminal) for terminal in others)
    least = min(cuts, key=lambda cut: cut.value)
    return WorstCut(Fraction(least.value), least.nodes)


def _worst_receiver(graph: CapacityGraph, shares: Mapping[int, int], total: int) -> WorstCut:
    """The worst of the sets that are everything but one terminal."""
    entering = dict.fromkeys(graph.terminals, 0)
    for (_, head), capacity in graph.arcs.items():
        if head in entering:
            entering[head] += capacity
    ratios = {
        terminal: Fraction(entering[terminal], total - shares.get(terminal, 0))
        for terminal in graph.terminals
        if shares.get(terminal, 0) < total
    }
    terminal = min(ratios, key=lambda node: ratios[node])
    return WorstCut(ratios[terminal], frozenset(range(graph.num_nodes)) - {terminal})


def fixed_shares(graph: CapacityGraph, count: int, root: int | None = None) -> tuple[Fraction, CapacityGraph]:
    r"""The least scale of capacities at which `count` whole units go from every terminal to all others, and the graph.

    Capacities are rounded down at a scale U, so that trees of one unit use them: :math:`\lfloor U b_e \rfloor`.  The
    throughput is count / U per terminal.  U is a multiple of :math:`1 / b_e` for some arc, where a capacity gets one
    unit more.  With a `root` it alone has units.
    """
    lowest = count / _ratio(graph, root)
    steps = sorted({Fraction(1, capacity) for capacity in graph.arcs.values()})
    highest = lowest + steps[-1]
    multiples = {step * n for step in steps for n in range(math.ceil(lowest / step), math.floor(highest / step) + 1)}
    scales = sorted({lowest, *multiples})
    place = bisect_left(scales, True, key=lambda scale: _fits(scaled(graph, scale), count, root))
    scale = scales[place] if place < len(scales) else highest
    while not _fits(scaled(graph, scale), count, root):  # rounding takes more than a unit of the smallest arc
        scale *= 2
    return scale, scaled(graph, scale)


def scaled(graph: CapacityGraph, scale: Fraction) -> CapacityGraph:
    """The graph with whole multiples of its capacities, rounded down, that switches can pass on."""
    arcs = {arc: math.floor(capacity * scale) for arc, capacity in graph.arcs.items()}
    return balanced(CapacityGraph(graph.num_nodes, graph.terminals, {arc: c for arc, c in arcs.items() if c}))


def _ratio(graph: CapacityGraph, root: int | None) -> Fraction:
    return worst_cut(graph).ratio if root is None else worst_broadcast(graph, root).ratio


def _fits(graph: CapacityGraph, count: int, root: int | None) -> bool:
    """Whether so many units reach all terminals."""
    entered = {head for _, head in graph.arcs} | {root}
    return entered.issuperset(graph.terminals) and _ratio(graph, root) >= count

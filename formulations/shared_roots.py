r"""All-reduce over trees whose roots share the data freely: what a graph allows, and shares and capacities for it.

Sets and data
    Nodes V, terminals N, roots R (the terminals, and switches that sum and copy), arcs e of capacity :math:`b_e`.

Variables
    :math:`x_r \ge 0`, the data whose sums root r makes; :math:`u_e, w_e \ge 0`, the capacity of arc e for trees into
    roots, which reduce, and out of roots, which broadcast.

Objective
    maximise :math:`X = \sum_r x_r`

Constraints
    1. :math:`u_e + w_e \le b_e` for every arc;
    2. :math:`\sum_{r \in S} x_r \le w(\delta^+(S))` for every S that misses a terminal: its data have to leave it;
    3. :math:`\sum_{r \in S} x_r \le u(\delta^-(S))` for every S that misses a terminal: sums of its data have to enter;
    4. w leaves a switch that does not copy as it enters; u enters one that does not sum as it leaves.

Bound
    Trees of any kind satisfy all four, so X bounds every algorithm that reduces each element along a tree and
    broadcasts it along one, however its trees share links and follow each other.  Whether it bounds *any* algorithm is
    known by the partition bound alone (:func:`partition_bound`), which equals it where there are no switches and all
    links have as much either way: then u = w reversed is optimal, and (2) the theorem of W. Tutte (1961) and
    C. Nash-Williams (1961, https://doi.org/10.1112/jlms/s1-36.1.445).  Out-trees attain (2) and in-trees (3) where
    switches do as (4) says (:mod:`formulations.tree_packing`); where they copy, trees attain it that span them.

Method
    Cutting planes: GLOP solves the programme with the rows of (2) and (3) so far, and a maximum flow from a super
    source that feeds :math:`x_r` into each root shows, for every terminal, a row that is violated, if there is one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.edge_splitting import balanced
from formulations.flow_network import CapacityGraph, IntArray, RootedNetwork, joined, reversed_arcs
from formulations.linear import solve_in_time

Shares = dict[int, float]
Loads = dict[tuple[int, int], float]

FLOW_UNITS = 2**30  # whole units of the largest capacity in flows that look for violated rows
VIOLATED = 1e-7  # share of all data by which a row must be violated

WORTH_SPREADING = 1e-4
"""Throughput that may be lost for a unit of the least share, or of the mean capacity that is used."""

MAX_CUT_ROUNDS = 400  # most programmes that are solved; graphs of 128 terminals take 4 to 40

MAX_DENOMINATOR = 2520
"""Largest common denominator that is looked for in a solution; those of small graphs are far below."""

FINE_UNITS = 20_000  # units of the largest capacity where there is none: what rounding loses is far below a per cent


@dataclass(frozen=True)
class SharedRoots:
    """The optimum, in the unit of capacities, and what attains it.

    `shares`: data of each root.
    `reduce`, `broadcast`: capacity of each arc for trees into roots, and out of them.
    `lengths`: duals of (1): with other capacities, as alike in both directions, no throughput is above their weighted
      sum.
    """

    throughput: float
    shares: Shares
    reduce: Loads
    broadcast: Loads
    lengths: Loads


@dataclass(frozen=True)
class WholeShares:
    """The same in whole units, `per_unit` of which make one unit of capacity."""

    units: dict[int, int]
    reduce: CapacityGraph
    broadcast: CapacityGraph
    per_unit: Fraction


def share_roots(
    graph: CapacityGraph, sums: Iterable[int] = (), copies: Iterable[int] = (), *, spread: bool = False
) -> SharedRoots:
    """The best shares of roots for an all-reduce; `sums` and `copies` are the switches that do.

    With `spread`, of equal optima one whose least share is large and that leaves no capacity to nobody, up to what
    :data:`WORTH_SPREADING` trades: pipelines of many roots fill sooner, and with more capacity trees are flatter.
    """
    return _RootProgramme(graph, frozenset(sums), frozenset(copies), spread).solve()


class _RootProgramme:
    """The linear programme and its rows, with capacities in units of the largest."""

    def __init__(self, graph: CapacityGraph, sums: frozenset[int], copies: frozenset[int], spread: bool) -> None:
        self._graph, self._scale = graph, max(graph.arcs.values())
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._infinity = self._solver.infinity()
        roots = sorted({*graph.terminals, *(sums & copies)})
        self._share = {root: self._solver.NumVar(0, self._infinity, f"share_{root}") for root in roots}
        self._out = _Side(self._solver, graph, roots, "out", copies)
        is_mirrored = graph.is_symmetric and sums == copies
        self._into = self._out if is_mirrored else _Side(self._solver, graph.reversed, roots, "into", sums)
        self._sides = list(dict.fromkeys((self._out, self._into)))
        self._capacity = self.capacity_rows()
        self.objective(spread)

    def capacity_rows(self) -> dict[tuple[int, int], pywraplp.Constraint]:
        """(1) Both kinds of trees share an arc."""
        return {
            arc: self._solver.Add(self._into.loads[arc[::-1]] + self._out.loads[arc] <= capacity / self._scale)
            for arc, capacity in self._graph.arcs.items()
        }

    def objective(self, spread: bool) -> None:
        """Throughput; where it does not matter, large shares of all roots and much capacity."""
        total = self._solver.Sum(list(self._share.values()))
        if not spread:
            self._solver.Maximize(total)
            return
        least = self._solver.NumVar(0, self._infinity, "least")
        for terminal in self._graph.terminals:
            self._solver.Add(self._share[terminal] >= least)
        used = self._solver.Sum([*self._out.loads.values(), *self._into.loads.values()]) / len(self._graph.arcs)
        self._solver.Maximize(total + WORTH_SPREADING * (least + used))

    def solve(self) -> SharedRoots:
        """Begin with the cuts around single terminals, and add violated rows until there are none."""
        everything = frozenset(range(self._graph.num_nodes))
        for side in self._sides:
            for terminal in self._graph.terminals:
                self.cut_row(side, everything - {terminal})
        for _ in range(MAX_CUT_ROUNDS):
            if not solve_in_time(self._solver):
                raise ArithmeticError("the linear programme of an all-reduce was not solved")
            if not self.add_violated_rows():
                break
        return self.solution()

    def cut_row(self, side: "_Side", nodes: frozenset[int]) -> None:
        """(2) and (3) What a set of nodes holds must cross its cut."""
        crossing = [load for (tail, head), load in side.loads.items() if tail in nodes and head not in nodes]
        held = [share for root, share in self._share.items() if root in nodes]
        self._solver.Add(self._solver.Sum(held) <= self._solver.Sum(crossing))

    def add_violated_rows(self) -> bool:
        """One row for every terminal that too little reaches; whether there were any."""
        fed = [max(round(share.solution_value() * FLOW_UNITS), 0) for share in self._share.values()]
        least, rows = sum(fed) * (1 - VIOLATED), list[tuple[_Side, frozenset[int]]]()
        for side in self._sides:
            loads = [max(round(load * FLOW_UNITS), 0) for load in side.values()]
            cuts = (side.network.cut_before(terminal, loads, fed) for terminal in self._graph.terminals)
            rows += dict.fromkeys((side, cut.nodes) for cut in cuts if cut.value < least)
        for row in rows:
            self.cut_row(*row)
        return bool(rows)

    def solution(self) -> SharedRoots:
        """Shares and loads in the unit of capacities."""
        shares = {root: share.solution_value() * self._scale for root, share in self._share.items()}
        out, into = (
            {arc: max(value, 0.0) * self._scale for arc, value in zip(side.loads, side.values(), strict=True)}
            for side in (self._out, self._into)
        )
        lengths = {arc: max(row.dual_value(), 0.0) for arc, row in self._capacity.items()}
        return SharedRoots(sum(shares.values()), shares, reversed_arcs(into), out, lengths)


class _Side:
    """Trees out of roots; those into roots are such trees on the graph turned around."""

    def __init__(
        self, solver: pywraplp.Solver, graph: CapacityGraph, roots: Sequence[int], name: str, free: frozenset[int]
    ) -> None:
        self.loads = {arc: solver.NumVar(0, solver.infinity(), f"{name}_{arc}") for arc in graph.arcs}
        self.network = RootedNetwork(graph, roots)
        for switch in set(graph.switches) - free:
            self.balance_row(solver, switch)

    def balance_row(self, solver: pywraplp.Solver, switch: int) -> None:
        """(4) What enters a switch leaves it."""
        entering = [load for (_, head), load in self.loads.items() if head == switch]
        leaving = [load for (tail, _), load in self.loads.items() if tail == switch]
        solver.Add(solver.Sum(entering) == solver.Sum(leaving))

    def values(self) -> list[float]:
        """The load of each arc."""
        return [load.solution_value() for load in self.loads.values()]


def whole_shares(graph: CapacityGraph, solution: SharedRoots, spanned: Sequence[int]) -> WholeShares:
    """Shares and capacities in whole units that trees over the nodes to be spanned attain.

    Exactly, where all of a solution are multiples of a small fraction; else a little less.
    """
    per_unit = _common_denominator(solution)
    exact = per_unit is not None
    scale = per_unit or Fraction(FINE_UNITS, max(graph.arcs.values()))
    reduce, broadcast = (
        balanced(_in_units(graph, loads, scale, spanned)) for loads in (solution.reduce, solution.broadcast)
    )
    units = {root: _floor(share, scale) for root, share in solution.shares.items()}
    sides = [(RootedNetwork(side, units), side.rates) for side in (reduce.reversed, broadcast)]

    def fits(least: dict[int, int]) -> bool:
        """Whether whole units of roots reach every terminal."""
        fed, total = [*least.values()], sum(least.values())
        return all(net.cut_before(npu, rates, fed).value >= total for net, rates in sides for npu in spanned)

    if not fits(units):
        if exact:
            return whole_shares(graph, replace(solution, throughput=math.inf), spanned)  # so that it is rounded
        units = _most_units(units, fits)
    return WholeShares(units, reduce, broadcast, scale)


def _most_units(units: dict[int, int], fits: Callable[[dict[int, int]], bool]) -> dict[int, int]:
    """The largest part of the units, in the same proportion, that fits."""
    low, high = 0, FINE_UNITS
    while high - low > 1:
        middle = (low + high) // 2
        part = {root: count * middle // FINE_UNITS for root, count in units.items()}
        low, high = (middle, high) if fits(part) else (low, middle)
    return {root: count * low // FINE_UNITS for root, count in units.items()}


def _common_denominator(solution: SharedRoots) -> Fraction | None:
    """Units per unit of capacity in which everything is whole, if there are few."""
    values = {*solution.shares.values(), *solution.reduce.values(), *solution.broadcast.values()}
    if not math.isfinite(solution.throughput):
        return None
    largest = max(values)
    for d in range(1, MAX_DENOMINATOR):
        if all(abs(value * d - round(value * d)) <= 1e-7 * max(largest * d, 1) for value in values):
            return Fraction(d)
    return None


def _floor(value: float, scale: Fraction) -> int:
    return math.floor(value * float(scale) + 1e-6)


def _in_units(graph: CapacityGraph, loads: Loads, scale: Fraction, spanned: Sequence[int]) -> CapacityGraph:
    arcs = {arc: _floor(load, scale) for arc, load in loads.items()}
    return CapacityGraph(graph.num_nodes, tuple(spanned), {arc: load for arc, load in arcs.items() if load})


def partition_throughput(graph: CapacityGraph, part_of: Sequence[int] | IntArray) -> Fraction:
    r"""What an all-reduce attains at most with any algorithm, by one partition of the nodes.

    Divide V in parts, m of which have terminals.  Of every element, messages between those m parts number at least
    2 (m - 1): the first part that knows its sum heard from each other, directly or not, and then each of them still has
    to hear it (F. Harary, A. Schwenk, 1974, https://doi.org/10.1016/0016-0032(74)90061-5).  Sums of several elements
    count for one bit each.  A message crosses one arc between parts; or, if it passes parts of switches, which neither
    sum nor copy, at least two arcs with an end in such a part.  With half of the capacity of those arcs counted,

    .. math:: X \le \Big( \sum_{e\ \text{between parts of terminals}} b_e
        + \tfrac12 \sum_{e\ \text{at parts of switches}} b_e \Big) \Big/ 2 (m - 1)
    """
    return _PartedGraph(graph).throughput(np.asarray(part_of))


def partition_bound(graph: CapacityGraph) -> Fraction:
    """The least throughput of some partitions: parts are what links of more than some capacity join.

    Of links once all count, once those between nodes of one sort, and once those between terminals.  Parts of switches
    alone are one part: arcs between them would only add to the throughput.
    """
    parted = _PartedGraph(graph)
    ends = parted.is_terminal[graph.ends]
    joining = (ends[0] | True, ends[0] == ends[1], ends[0] & ends[1])
    partitions = {
        np.where(np.isin(parts, parts[parted.terminals]), parts, graph.num_nodes).tobytes()
        for least in {0, *graph.arcs.values()}
        for links in joining
        for parts in (joined(graph.num_nodes, graph.ends[:, links & (graph.rates > least)]),)
    }
    labels = (np.frombuffer(partition, dtype=np.int64) for partition in partitions)
    return min(parted.throughput(label) for label in labels if len(np.unique(label[parted.terminals])) > 1)


class _PartedGraph:
    """A graph as arrays; a partition is a number for each node, which those of a part share."""

    def __init__(self, graph: CapacityGraph) -> None:
        self.graph, self.terminals = graph, np.array(graph.terminals)
        self.is_terminal = np.zeros(graph.num_nodes, dtype=bool)
        self.is_terminal[self.terminals] = True

    def throughput(self, part_of: IntArray) -> Fraction:
        """As :func:`partition_throughput`."""
        tails, heads = part_of[self.graph.ends]
        inhabited = np.zeros(part_of.max() + 1, dtype=bool)
        inhabited[part_of[self.terminals]] = True
        known, kind = np.unique(self.graph.rates, return_inverse=True)
        counts = np.bincount(kind, (tails != heads) * (1 + (inhabited[tails] & inhabited[heads])))
        halves = sum(int(count) * capacity for count, capacity in zip(counts, known.tolist(), strict=True))
        return Fraction(halves, 4 * (int(inhabited.sum()) - 1))

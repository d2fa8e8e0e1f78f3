r"""All-reduce along trees on a symmetric graph, by lengths of its links: one for each class of links that look alike.

Sets and data
    Terminals N, links e with capacity :math:`b_e` in each direction, classes c of links between nodes that colour
    refinement does not tell apart, with equal capacities; :math:`B_c`, the capacity of all links of a class.

Variables
    :math:`\ell_c \ge 0`, the length of each link of a class.

Objective
    minimise :math:`\sum_c B_c \ell_c`

Constraints
    1. :math:`\sum_c n_c(T) \, \ell_c \ge 1` for every tree T that joins the terminals by routes over links, of which it
       uses :math:`n_c(T)` of a class.

Bound
    An element that is reduced along one tree and broadcast along another uses each direction of links for two trees
    that join all terminals, as switches pass on and neither sum nor copy.  Each of the two is at least as long as the
    shortest such tree, which has length 1.  So elements of rate X use :math:`2 X \le 2 \sum_c B_c \ell_c` of lengths
    times capacities of both directions: *any* lengths give a bound, whether or not links of a class are symmetric, and
    the least one is that of :mod:`formulations.shared_roots` where they are: of an optimum and its images under the
    symmetries the mean is an optimum, too (M. Grohe, K. Kersting, M. Mladenov, E. Selman, 2014,
    https://doi.org/10.1007/978-3-662-44777-2_42, for linear programmes and colour refinement).

Method
    Cutting planes: GLOP solves the programme with the trees so far; the shortest tree spans
    the distances between terminals (K. Mehlhorn, 1988, https://doi.org/10.1016/0020-0190(88)90066-X): each node belongs
    to its nearest terminal, and a link joins the terminals of its ends.  Lengths are rounded to whole numbers, and the
    bound is exact for them.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import pywraplp

from formulations.flow_network import CapacityGraph, IntArray, spanning_forest, spread
from formulations.linear import solve_in_time

MOST_CLASSES = 64
"""Classes of links up to which few rounds determine the lengths; others are for the programme of shared roots."""

MAX_TREE_ROUNDS = 200  # most programmes that are solved; clusters take 2 to 20
LENGTH_UNITS = 2**30  # whole units of the largest length: sums over a million links stay within 64 bits
SHORTER = 1e-9  # share by which a tree must be shorter than 1 to be a new row


def has_few_classes(graph: CapacityGraph, classes: Sequence[int]) -> bool:
    """Whether links have as much both ways, and few classes of them."""
    return graph.is_symmetric and len(_link_classes(graph, classes)[2]) <= MOST_CLASSES


def tree_throughput(graph: CapacityGraph, classes: Sequence[int]) -> Fraction:
    """What no all-reduce along trees exceeds, in the unit of capacities, by one length for each class of links.

    The graph must be symmetric, and its terminals connected.  Any classes of nodes give a bound; those of colour
    refinement the best one on clusters.  Where links are few, each is a class.
    """
    return _Programme(graph, classes).solve()


def _link_classes(graph: CapacityGraph, classes: Sequence[int]) -> tuple[IntArray, IntArray, list[int]]:
    """The ends of links in one direction, the number of the class of each, and the capacity of a link of each class."""
    is_link = graph.ends[0] < graph.ends[1]
    links, capacities = graph.ends[:, is_link], graph.rates[is_link]
    ends = np.sort(np.asarray(classes)[links], axis=0) if links.shape[1] > MOST_CLASSES else links
    looks = np.vstack((ends, np.unique(capacities, return_inverse=True)[1]))
    number = np.ravel_multi_index(tuple(looks), tuple(looks.max(axis=1) + 1))
    _, first, of_link = np.unique(number, return_index=True, return_inverse=True)
    return links, of_link, capacities[first].tolist()


class _Programme:
    """The linear programme and its rows, with lengths in units of the capacity of all links."""

    def __init__(self, graph: CapacityGraph, classes: Sequence[int]) -> None:
        links, of_link, capacities = _link_classes(graph, classes)
        counts = np.bincount(of_link)
        self._capacity = [int(count) * capacity for count, capacity in zip(counts, capacities, strict=True)]
        self._trees = _ShortestTrees(graph, links, of_link)
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        infinity = self._solver.infinity()
        self._lengths = [self._solver.NumVar(0, infinity, f"length_{k}") for k in range(len(counts))]
        scale = max(self._capacity)
        self._solver.Minimize(
            self._solver.Sum([b / scale * length for b, length in zip(self._capacity, self._lengths, strict=True)])
        )
        for lengths in (np.ones(len(counts)), 1 / np.array(capacities)):
            self.tree_row(self._trees.shortest(_in_units(lengths))[1])

    def tree_row(self, uses: IntArray) -> None:
        """(1) A tree is at least 1 long."""
        used = zip(uses.tolist(), self._lengths, strict=True)
        self._solver.Add(self._solver.Sum([count * length for count, length in used]) >= 1)

    def solve(self) -> Fraction:
        """Add the shortest tree until none is shorter than 1; the least throughput that lengths of a round prove."""
        best: list[Fraction] = []
        for _ in range(MAX_TREE_ROUNDS):
            if not solve_in_time(self._solver):
                break
            lengths = np.array([max(length.solution_value(), 0.0) for length in self._lengths])
            units = _in_units(lengths)
            shortest, uses = self._trees.shortest(units)
            if shortest:
                total = sum(b * unit for b, unit in zip(self._capacity, units.tolist(), strict=True))
                best.append(Fraction(total, shortest))
            if float(lengths @ uses) >= 1 - SHORTER:
                break
            self.tree_row(uses)
        if not best:
            raise ArithmeticError("the linear programme of the lengths of trees was not solved")
        return min(best)


def _in_units(lengths: npt.NDArray[np.float64]) -> IntArray:
    units: IntArray = np.rint(lengths * (LENGTH_UNITS / lengths.max())).astype(np.int64)
    return units


class _ShortestTrees:
    """Trees that join the terminals over links of some lengths, one for each class of links."""

    def __init__(self, graph: CapacityGraph, links: IntArray, of_link: IntArray) -> None:
        self._num_nodes, self._terminals = graph.num_nodes, np.array(graph.terminals)
        self._ends = np.concatenate((links, links[::-1]), axis=1)
        self._of_arc = np.concatenate((of_link, of_link))
        self._num_classes = int(of_link.max()) + 1

    def shortest(self, lengths: IntArray) -> tuple[int, IntArray]:
        """The length of the shortest tree, and the links of each class in it."""
        distance, nearest, uses = self._near_terminals(lengths)
        tails, heads = self._ends
        weights = distance[tails] + lengths[self._of_arc] + distance[heads]
        joining = np.flatnonzero(nearest[tails[: len(tails) // 2]] != nearest[heads[: len(heads) // 2]])
        arcs = joining[np.argsort(weights[joining], kind="stable")]
        kept = arcs[spanning_forest(self._num_nodes, nearest[self._ends[:, arcs]])]
        if len(kept) < len(self._terminals) - 1:
            raise ValueError("the terminals of the graph are not connected")
        used = uses[tails[kept]].sum(axis=0) + uses[heads[kept]].sum(axis=0)
        used += np.bincount(self._of_arc[kept], minlength=self._num_classes)
        return int(weights[kept].sum()), used

    def _near_terminals(self, lengths: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The distance of each node from the terminals, the nearest of them, and the links on the way by class."""
        distance = np.full(self._num_nodes, lengths.sum() * self._num_nodes + 1)
        distance[self._terminals] = 0
        nearest = np.arange(self._num_nodes)
        uses = np.zeros((self._num_nodes, self._num_classes), dtype=np.int64)
        for nodes, arcs in spread(distance, self._ends, lengths[self._of_arc]):
            tails = self._ends[0, arcs]
            nearest[nodes], uses[nodes] = nearest[tails], uses[tails]
            uses[nodes, self._of_arc[arcs]] += 1
        return distance, nearest, uses

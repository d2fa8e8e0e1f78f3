"""Maximum flows and minimum cuts on directed graphs with whole capacities, which other formulations test cuts with."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

ArcCapacities = Mapping[tuple[int, int], int]  # capacity of each arc, from a node to a node

IntArray = npt.NDArray[np.int64]

UNLIMITED = 2**60  # more than any sum of capacities that a flow may reach
AMPLE = 2**58  # the same for arcs of which some are summed: the sum stays within 64 bits


@dataclass(frozen=True)
class CapacityGraph:
    """Nodes 0, 1, ... with whole capacities between them.

    `terminals`: nodes that have data, or want them; the others are switches, which pass on what they receive.
    """

    num_nodes: int
    terminals: tuple[int, ...]
    arcs: dict[tuple[int, int], int]

    @property
    def reversed(self) -> "CapacityGraph":
        """The graph with every arc turned around: what is said of gathering there, is true of reducing here."""
        return CapacityGraph(self.num_nodes, self.terminals, reversed_arcs(self.arcs))

    @cached_property
    def ends(self) -> IntArray:
        """The tails and heads of the arcs, shape (2, arcs)."""
        return np.array([*self.arcs], dtype=np.int64).reshape(-1, 2).T

    @cached_property
    def rates(self) -> IntArray:
        """The capacities of the arcs, in their order."""
        return np.array([*self.arcs.values()], dtype=np.int64)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every arc has as much as the one against it."""
        there, back = ((ends[0] * self.num_nodes + ends[1]) for ends in (self.ends, self.ends[::-1]))
        order, other = np.argsort(there), np.argsort(back)
        return np.array_equal(there[order], back[other]) and np.array_equal(self.rates[order], self.rates[other])

    @property
    def switches(self) -> tuple[int, ...]:
        """The nodes that are no terminals."""
        return tuple(sorted(set(range(self.num_nodes)) - set(self.terminals)))

    def capacity_out(self, nodes: Iterable[int]) -> int:
        """The capacity of all arcs that leave a set of nodes."""
        inside = set(nodes)
        return sum(c for (tail, head), c in self.arcs.items() if tail in inside and head not in inside)


OfArc = TypeVar("OfArc")


def reversed_arcs(arcs: Mapping[tuple[int, int], OfArc]) -> dict[tuple[int, int], OfArc]:
    """The arcs, each turned around."""
    return {(head, tail): capacity for (tail, head), capacity in arcs.items()}


def joined(num_nodes: int, ends: IntArray) -> IntArray:
    """The least node of the part of each node that arcs connect: labels follow lower ones until none does."""
    label = np.arange(num_nodes)
    while True:
        near = label[ends]
        lower = label.copy()
        for end in near:
            np.minimum.at(lower, end, near.min(axis=0))
        while not np.array_equal(lower, lower[lower]):
            lower = lower[lower]
        if np.array_equal(lower, label):
            return label
        label = lower


def spanning_forest(num_nodes: int, ends: IntArray) -> IntArray:
    """The numbers of the arcs of a spanning forest, of each cycle all but the last (O. Borůvka, 1926).

    Each part takes the first arc that leaves it, and the parts that these arcs join are the next parts.
    """
    label, left, kept = np.arange(num_nodes), np.arange(ends.shape[1]), [np.empty(0, dtype=np.int64)]
    while True:
        near = label[ends[:, left]]
        leaving = near[0] != near[1]
        left, near = left[leaving], near[:, leaving]
        if not len(left):
            return np.sort(np.concatenate(kept))
        first = np.full(num_nodes, ends.shape[1])
        for end in near:
            np.minimum.at(first, end, left)
        kept.append(np.unique(first[first < ends.shape[1]]))
        label = joined(num_nodes, label[ends[:, kept[-1]]])[label]


def spread(distance: IntArray, ends: IntArray, lengths: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Lower distances along arcs in place until none falls: rounds as of L. Ford (1956), as many as a way has arcs.

    Each round gives the nodes that came nearer, and the arcs over which they did.  `ends`: tails and heads.
    """
    tails, heads = ends
    while True:
        reached = distance[tails] + lengths
        order = np.argsort(reached, kind="stable")[::-1]
        best = np.full(len(distance), -1)
        best[heads[order]] = order  # the nearest is written last
        nodes = np.flatnonzero((best >= 0) & (reached[best] < distance))
        if not len(nodes):
            return
        arcs = best[nodes]
        distance[nodes] = reached[arcs]
        yield nodes, arcs


def distances(
    num_nodes: int,
    lengths: Mapping[tuple[int, int], int],
    sources: Sequence[int] | IntArray,
    begin: int | IntArray = 0,
) -> IntArray:
    """The least sum of lengths from sources to each node, :data:`UNLIMITED` where none leads to it.

    `begin`: of the sources, what is added to ways from them.
    """
    distance = np.full(num_nodes, UNLIMITED)
    distance[np.asarray(sources)] = begin
    for _ in spread(distance, np.array([*lengths]).T, np.array([*lengths.values()])):
        pass
    return distance


class MinimumCut(NamedTuple):
    """What a maximum flow ends with: its value, and the nodes on the side of the source."""

    value: int
    nodes: frozenset[int]


class FlowNetwork:
    """Arcs, in the order of their capacities, which change from flow to flow."""

    def __init__(self, arcs: Sequence[tuple[int, int]] | IntArray) -> None:
        from ortools.graph.python import max_flow  # slow to import, and commands that only read graphs do without

        self._solver = max_flow.SimpleMaxFlow()
        ends = np.asarray(arcs, dtype=np.int32).reshape(-1, 2)
        zeros = np.zeros(len(ends), dtype=np.int64)
        self._numbers = self._solver.add_arcs_with_capacity(ends[:, 0].copy(), ends[:, 1].copy(), zeros)

    def max_flow(self, capacities: Sequence[int] | np.ndarray, source: int, sink: int) -> int:
        """The value of a maximum flow. Raises OverflowError if sums of capacities do not fit in 63 bits."""
        self._solver.set_arcs_capacity(self._numbers, np.asarray(capacities, dtype=np.int64))
        if self._solver.solve(source, sink) != self._solver.OPTIMAL:
            raise OverflowError("capacities of the graph are too large for exact flows")
        return int(self._solver.optimal_flow())

    def min_cut(self, capacities: Sequence[int] | np.ndarray, source: int, sink: int) -> MinimumCut:
        """The value of a maximum flow, and the nodes that its residual network reaches from the source."""
        value = self.max_flow(capacities, source, sink)
        return MinimumCut(value, frozenset(map(int, self._solver.get_source_side_min_cut())))


class RootedNetwork(FlowNetwork):
    """A graph with a super source that feeds some nodes, the roots."""

    def __init__(self, graph: CapacityGraph, roots: Iterable[int]) -> None:
        self._super = graph.num_nodes
        super().__init__([*graph.arcs, *((self._super, root) for root in roots)])

    def cut_before(
        self, terminal: int, capacities: Sequence[int] | np.ndarray, fed: Sequence[int] | np.ndarray
    ) -> MinimumCut:
        """The least cut between the super source and a node, for what each root is fed."""
        value, nodes = self.min_cut(np.concatenate((capacities, fed)), self._super, terminal)
        return MinimumCut(value, nodes - {self._super})

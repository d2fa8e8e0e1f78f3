r"""Packing of out-trees: whole numbers of trees from every root that share the capacities of arcs.

Sets and data
    Nodes V, arcs e of whole capacity :math:`c_e`, and :math:`m_i` trees that are to grow from a set :math:`R_i` of
    nodes, at first one root each.

Condition
    Trees that span V exist iff :math:`c(\delta^-(S)) \ge \sum_{i : R_i \cap S = \emptyset} m_i` for every set S of
    nodes: each tree that has no node in S has to enter it (J. Edmonds, 1973; with sets of roots L. Lovasz, 1976,
    https://doi.org/10.1016/0095-8956(76)90049-6).

Step
    Trees of batch 1 grow over an arc (x, y) out of :math:`R_1`.  For :math:`\mu` of them the condition changes for
    sets S with y and without x alone: what enters falls by :math:`\mu`, and so does what has to enter if :math:`R_1`
    does not meet S.  So

    .. math:: \mu \le \min \{ m_1, \; c_{xy}, \; F(x, y) - \sum_{i \ne 1} m_i \}

    where F is the least cut between x and y in the graph with a node for every other batch, which :math:`m_i` enters
    from x and nothing limits from there to :math:`R_i`.  The :math:`m_1 - \mu` trees that do not grow over it become
    a batch of their parts.  Lovasz proves that some arc always has :math:`\mu \ge 1`.

Arcs from shallow nodes are tried first, so that trees are flat, and of these the ones with most capacity left.  An
arc that was refused is so for as long as its tree grows: F falls with capacities, and by no more than the other sum
rises where a batch is divided.

Method
    Trees first grow without tests, many at once, which succeeds where capacity is not scarce.  Whether the others can
    still be packed is one flow to every node; if not, half as many are tried, and single ones are tested arc by arc.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from formulations.edge_splitting import Route, merged
from formulations.flow_network import AMPLE, FlowNetwork


@dataclass(frozen=True)
class OutTree:
    """Trees that are alike: how many, from which root, over which routes in the order they grew."""

    root: int
    count: int
    routes: tuple[Route, ...] = ()

    @property
    def depths(self) -> dict[int, int]:
        """Steps from the root to each of its nodes."""
        depths = {self.root: 0}
        for route in self.routes:
            depths[route[-1]] = depths[route[0]] + 1
        return depths


def pack_trees(nodes: tuple[int, ...], routes: Mapping[Route, int], units: Mapping[int, int]) -> list[OutTree]:
    """Trees over routes that span the nodes, as many from each root as it has units.

    Raises ArithmeticError if the capacities do not suffice.
    """
    return list(_Packing(nodes, routes, units).grow())


class _Packing:
    """Capacities that are left, and batches that have not grown."""

    def __init__(self, nodes: tuple[int, ...], routes: Mapping[Route, int], units: Mapping[int, int]) -> None:
        self._nodes, self._left = nodes, dict(routes)
        self._waiting = [OutTree(root, count) for root, count in sorted(units.items()) if count]
        self._next: dict[int, list[Route]] = {node: [] for node in nodes}
        for route in sorted(routes, key=len):
            self._next[route[0]].append(route)

    def grow(self) -> Iterator[OutTree]:
        """Let one batch after the other span all nodes, at first as many as there are without tests."""
        size = patience = len(self._waiting)
        while self._waiting:
            trees = self._try(min(size, len(self._waiting))) if size else []
            yield from trees
            if trees:
                size *= 2
            elif size > 1:
                size //= 2
            else:
                for _ in range(min(patience, len(self._waiting))):
                    yield self._span(self._waiting.pop(), self._test())

    def _try(self, size: int) -> list[OutTree]:
        """Some trees that grew without tests; none if the others cannot be packed after them."""
        left, waiting = dict(self._left), list(self._waiting)
        try:
            trees = [self._span(self._waiting.pop(), None) for _ in range(size)]
        except ArithmeticError:
            trees = []
        if trees and (not self._waiting or self._test().passes(self._nodes)):
            return trees
        self._left, self._waiting = left, waiting
        return []

    def _span(self, tree: OutTree, test: "_GrowthTest | None") -> OutTree:
        """Let a batch span all nodes; what cannot grow over an arc with it goes on waiting."""
        depths = tree.depths
        heap = [step for node in depths for step in self._steps(node, depths[node], tree.count)]
        heapify(heap)
        while len(depths) < len(self._nodes):
            if not heap:
                raise ArithmeticError("the capacities of the graph do not suffice for the trees")
            route = heappop(heap)[-1]
            if route[-1] in depths:
                continue
            count = min(tree.count, self._left[route])
            count = min(count, test.most(route[0], route[-1])) if test else count
            if count <= 0:
                continue
            if count < tree.count:
                self._waiting.append(replace(tree, count=tree.count - count))
                test = self._test() if test else None
            tree = replace(tree, count=count, routes=(*tree.routes, route))
            self._left[route] -= count
            if test:
                test.take(route, count)
            depths[route[-1]] = depths[route[0]] + 1
            for step in self._steps(route[-1], depths[route[-1]], count):
                heappush(heap, step)
        return tree

    def _steps(self, tail: int, depth: int, count: int) -> list[tuple[int, int, int, int, Route]]:
        """Routes from a node that have something left, and their ranks: the smallest first."""
        left = self._left
        return [
            (depth, -min(left[route], count), len(route), -left[route], route)
            for route in self._next[tail]
            if left[route]
        ]

    def _test(self) -> "_GrowthTest":
        return _GrowthTest(self._nodes, self._left, self._waiting)


class _GrowthTest:
    """The graph with a node for every other batch that has grown; the others feed their roots."""

    def __init__(self, nodes: tuple[int, ...], left: Mapping[Route, int], waiting: Sequence[OutTree]) -> None:
        capacities = merged(left)
        self._place = {ends: number for number, ends in enumerate(capacities)}
        self._node = {node: len(capacities) + number for number, node in enumerate(nodes)}
        self._source = max(nodes) + 1
        grown = [tree for tree in waiting if tree.routes]
        batches = range(self._source + 1, self._source + 1 + len(grown))
        members = [(batch, node) for batch, tree in zip(batches, grown, strict=True) for node in tree.depths]
        fed = [(self._source, node) for node in (*nodes, *batches)]
        self._network = FlowNetwork([*capacities, *fed, *members])
        roots = [sum(tree.count for tree in waiting if not tree.routes and tree.root == node) for node in nodes]
        rest = [*(tree.count for tree in grown), *(AMPLE for _ in members)]
        self._capacities = np.array([*capacities.values(), *roots, *rest], dtype=np.int64)
        self._demand = sum(tree.count for tree in waiting)

    def take(self, route: Route, count: int) -> None:
        """Use a part of the capacity of a route."""
        self._capacities[self._place[route[0], route[-1]]] -= count

    def passes(self, nodes: Iterable[int]) -> bool:
        """Whether all batches can be packed."""
        return all(self._network.max_flow(self._capacities, self._source, node) >= self._demand for node in nodes)

    def most(self, tail: int, head: int) -> int:
        """How many trees can grow over an arc, as far as the others are concerned."""
        capacities = self._capacities.copy()
        capacities[self._node[tail]] = AMPLE
        return self._network.max_flow(capacities, self._source, head) - self._demand

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

Arcs from shallow nodes are tried first, so that trees are flat, and of their routes those over the fewest switches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.edge_splitting import Route, merged
from formulations.flow_network import UNLIMITED, FlowNetwork


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

    Raises
    ------
    ArithmeticError
        If the capacities do not suffice.
    """
    return list(_Packing(nodes, routes, units).grow())


class _Packing:
    """Capacities that are left, and batches that have not grown."""

    def __init__(self, nodes: tuple[int, ...], routes: Mapping[Route, int], units: Mapping[int, int]) -> None:
        self._nodes, self._left = nodes, dict(routes)
        self._waiting = [OutTree(root, count) for root, count in sorted(units.items()) if count]
        self._routes_of: dict[tuple[int, int], list[Route]] = {}
        for route in sorted(routes, key=len):
            self._routes_of.setdefault((route[0], route[-1]), []).append(route)
        self._next: dict[int, list[int]] = {node: [] for node in nodes}
        for tail, head in self._routes_of:
            self._next[tail].append(head)

    def grow(self) -> Iterator[OutTree]:
        """Let one batch after the other span all nodes."""
        while self._waiting:
            tree = self._waiting.pop()
            test = self._test()
            while len(tree.routes) < len(self._nodes) - 1:
                route, count = next(self._steps(tree, test), (None, 0))
                if route is None:
                    raise ArithmeticError("the capacities of the graph do not suffice for the trees")
                if count < tree.count:
                    self._waiting.append(replace(tree, count=tree.count - count))
                    test = self._test()
                tree = replace(tree, count=count, routes=(*tree.routes, route))
                self._left[route] -= count
                test.take(route, count)
            yield tree

    def _steps(self, tree: OutTree, test: "_GrowthTest") -> Iterator[tuple[Route, int]]:
        """Routes over which some of the trees can grow, and how many of them, the shallow ones first."""
        depths = tree.depths
        for tail in sorted(depths, key=lambda node: depths[node]):
            for head in self._next[tail]:
                routes = [route for route in self._routes_of[tail, head] if self._left[route]]
                if head in depths or not routes:
                    continue
                route = max(routes, key=lambda route: (min(self._left[route], tree.count), -len(route)))
                most = min(tree.count, self._left[route])
                count = min(most, test.most(tail, head))
                if count > 0:
                    yield route, count

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
        rest = [*(tree.count for tree in grown), *(UNLIMITED // 4 for _ in members)]
        self._capacities = np.array([*capacities.values(), *roots, *rest], dtype=np.int64)
        self._demand = sum(tree.count for tree in waiting)

    def take(self, route: Route, count: int) -> None:
        """Use a part of the capacity of a route."""
        self._capacities[self._place[route[0], route[-1]]] -= count

    def most(self, tail: int, head: int) -> int:
        """How many trees can grow over an arc, as far as the others are concerned."""
        capacities = self._capacities.copy()
        capacities[self._node[tail]] = UNLIMITED // 4
        return self._network.max_flow(capacities, self._source, head) - self._demand

r"""Edge splitting: a graph without switches whose routes carry what the graph with them carries.

Sets and data
    A graph with terminals N and switches, and :math:`k_r` units at each terminal r, K in all, such that a flow of K
    reaches every terminal from a super source that feeds :math:`k_r` into r (:mod:`formulations.worst_cut`).  Every
    switch lets out as much as it lets in.

Step
    Splitting off :math:`\gamma` at (u, w), (w, t) for a switch w takes :math:`\gamma` from both arcs and gives it to
    an arc (u, t), whose route goes over w.  Of a set S of nodes with the source, what leaves it falls by
    :math:`\gamma` where it holds u and t and not w, or w and neither u nor t, and else stays.  So flows of K remain iff

    .. math::
        \gamma \le \min \{ b(u, w), \; b(w, t), \; F(s + u + t, w + v) - K, \; F(s + w, u + t + v) - K : v \in N \}

    with F the least cut between two sets.  Some pair can always be split (W. Mader, 1982; J. Bang-Jensen, A. Frank,
    B. Jackson, 1995, https://doi.org/10.1137/S0036142993226983), until nothing is left of w.  This is how ForestColl
    (https://arxiv.org/abs/2402.06787, section 5.3) removes switches.

    The least cut over all v is that of v = 1, 2... in turn, where those before are on the side of the source.
"""

import itertools
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping

import numpy as np

from formulations.flow_network import AMPLE, UNLIMITED, CapacityGraph, FlowNetwork

Route = tuple[int, ...]  # nodes from a terminal over switches to a terminal, both included

RouteCapacities = dict[Route, int]


def balanced(graph: CapacityGraph) -> CapacityGraph:
    """The graph with capacities lowered until every switch lets out as much as it lets in."""
    arcs = dict(graph.arcs)
    while True:
        surplus = {  # what enters a node beyond what leaves it
            node: sum(c * ((head == node) - (tail == node)) for (tail, head), c in arcs.items())
            for node in graph.switches
        }
        node = next((node for node, amount in surplus.items() if amount), None)
        if node is None:
            return CapacityGraph(graph.num_nodes, graph.terminals, {arc: c for arc, c in arcs.items() if c})
        _lower(arcs, node, surplus[node])


def _lower(arcs: dict[tuple[int, int], int], node: int, surplus: int) -> None:
    """Take a surplus, or a lack if it is negative, from the largest arcs on its side."""
    side = [arc for arc in arcs if arc[1 if surplus > 0 else 0] == node]
    for _ in range(abs(surplus).bit_length()):  # halves, so that no arc pays for all of it
        for arc in sorted(side, key=lambda arc: -arcs[arc]):
            part = min(-(-abs(surplus) // len(side)), abs(surplus), arcs[arc])
            arcs[arc] -= part
            surplus -= part if surplus > 0 else -part
    for arc in side:
        part = min(abs(surplus), arcs[arc])
        arcs[arc] -= part
        surplus -= part if surplus > 0 else -part


def split_switches(graph: CapacityGraph, units: Mapping[int, int]) -> RouteCapacities:
    """Routes between terminals that no two share the capacity of, for the units of each terminal."""
    routes: RouteCapacities = {tuple(arc): capacity for arc, capacity in graph.arcs.items()}
    for switch in sorted(graph.switches, key=lambda node: sum(node in arc for arc in graph.arcs)):
        routes = _without(graph, routes, units, switch)
    return routes


def _without(graph: CapacityGraph, routes: RouteCapacities, units: Mapping[int, int], switch: int) -> RouteCapacities:
    """Routes without a switch.

    Most switches are symmetric: even parts to all neighbours are tried first, which make trees flat; where most are
    terminals, first to those.  Then neighbours shifted by a power of two are, all pairs at once.  One flow to every
    terminal tells where a pair would ask for as many.
    """
    ports = sum(route[-1] == switch for route in routes)
    near = [tail in graph.terminals for tail, head in graph.arcs if head == switch]
    first = (TERMINALS_FIRST,) if len(near) / 2 < sum(near) < len(near) else ()
    for shift in (*first, EVENLY, *(2**k for k in range(ports.bit_length()))):
        splitter = _Splitter(graph, routes, units, switch, shift)
        splitter.split(tests=False)
        if splitter.carries_enough():
            return splitter.routes
    splitter = _Splitter(graph, routes, units, switch)
    splitter.split()
    return splitter.routes


def merged(routes: Mapping[Route, int]) -> dict[tuple[int, int], int]:
    """The capacity between the ends of routes."""
    arcs: dict[tuple[int, int], int] = defaultdict(int)
    for route, capacity in routes.items():
        arcs[route[0], route[-1]] += capacity
    return dict(arcs)


Pair = tuple[int, int]

TERMINALS_FIRST, EVENLY = -1, 0  # in the place of a shift: even parts, first those between terminals, or all at once


class _Splitter:
    """The removal of one switch."""

    def __init__(
        self, graph: CapacityGraph, routes: RouteCapacities, units: Mapping[int, int], switch: int, shift: int = 1
    ) -> None:
        self._graph, self._units, self._switch, self._shift = graph, units, switch, shift
        self._routes: dict[Pair, RouteCapacities] = {}
        for route, capacity in routes.items():
            self._routes.setdefault((route[0], route[-1]), {})[route] = capacity
        self._total = sum(units.values())
        self._arcs = merged(routes)
        self._before = sorted(tail for tail, head in self._arcs if head == switch)
        self._after = sorted(head for tail, head in self._arcs if tail == switch)
        for pair in itertools.product(self._before, self._after):
            self._arcs.setdefault(pair, 0)
        self._source, self._sink = graph.num_nodes, graph.num_nodes + 1
        nodes = range(graph.num_nodes)
        fed, drained = [(self._source, node) for node in nodes], [(node, self._sink) for node in nodes]
        self._network = FlowNetwork([*self._arcs, *fed, *drained])

    @property
    def routes(self) -> RouteCapacities:
        """The routes that are left."""
        return {route: capacity for routes in self._routes.values() for route, capacity in routes.items()}

    def split(self, *, tests: bool = True) -> None:
        """Split pairs off while there are any, each as much as `tests` of cuts allow, then drop what is left."""
        if self._shift == TERMINALS_FIRST:
            self._spread(set(self._graph.terminals))
        if self._shift <= EVENLY:
            self._spread(range(self._graph.num_nodes))
        for pairs in self._groups():
            if tests:
                self._split_tested(pairs)
            else:
                self._move_all(pairs)
        for ends in [ends for ends in self._routes if self._switch in ends]:
            del self._routes[ends]

    def _spread(self, among: Container[int]) -> None:
        """Split the same off at all pairs among some nodes while there is something; few go to the first of them."""
        groups = [
            [(tail, head) for tail, head in pairs if tail != head and tail in among and head in among]
            for pairs in self._offsets()
        ]
        while any(self._both(pair) for pairs in groups for pair in pairs):
            left = [self._arcs[tail, self._switch] for tail in self._before]
            part = max(min((amount for amount in left if amount), default=0) // len(groups), 1)
            for pair in itertools.chain.from_iterable(groups):
                self._move(*pair, min(part, self._both(pair)))

    def _offsets(self) -> Iterator[list[Pair]]:
        """Pairs of neighbours by their distance, only between parts of the graph that the switch alone joins well.

        Neighbours in the same place of all other parts come before those in the next place.
        """
        parts = self._parts(0)
        if len(parts) == 1:
            parts = self._parts(max(c for ends, c in self._arcs.items() if self._switch in ends))
        place = {node: (number, position) for number, part in enumerate(parts) for position, node in enumerate(part)}
        steps = range(1, len(parts)) if len(parts) > 1 else range(1)
        for shift, step in itertools.product(range(max(map(len, parts), default=0)), steps):
            pairs = []
            for tail in self._before:
                number, position = place[tail]
                part = parts[(number + step) % len(parts)]
                if shift < len(part):
                    pairs.append((tail, part[(position + shift) % len(part)]))
            yield [pair for pair in pairs if (self._switch, pair[1]) in self._arcs]

    def _parts(self, least: int) -> list[list[int]]:
        """The neighbours of the switch by the parts that arcs of more than some capacity join without it."""
        part = {node: {node} for node in range(self._graph.num_nodes)}
        for (tail, head), capacity in self._arcs.items():
            if capacity > least and self._switch not in (tail, head) and part[tail] is not part[head]:
                part[tail] |= part[head]
                part |= dict.fromkeys(part[head], part[tail])
        parts: dict[int, list[int]] = {}
        for node in sorted({*self._before, *self._after}):
            parts.setdefault(id(part[node]), []).append(node)
        return list(parts.values())

    def _groups(self) -> Iterator[list[Pair]]:
        """Pairs of neighbours before and after the switch by their distance in order.

        Far ones come first but for a first distance; those that are one node come last, as they lose capacity.
        """
        count = len(self._after)
        shifts = dict.fromkeys((self._shift, *(count >> k for k in range(1, count.bit_length())), *range(count)))
        for shift in shifts:
            pairs = ((tail, self._after[(place + shift) % count]) for place, tail in enumerate(self._before))
            yield [pair for pair in pairs if pair[0] != pair[1]]
        yield [(node, node) for node in self._before if node in self._after]

    def _split_tested(self, pairs: list[Pair]) -> None:
        """Split pairs off together if flows allow it, else each half of them, a single one as much as cuts allow."""
        pairs = [pair for pair in pairs if self._both(pair)]
        if len(pairs) == 1:
            self._move(*pairs[0], self._most(*pairs[0], self._both(pairs[0])))
        elif pairs:
            before = self._routes, self._arcs
            self._routes = {ends: dict(routes) for ends, routes in self._routes.items()}
            self._arcs = dict(self._arcs)
            self._move_all(pairs)
            if not self.carries_enough():
                self._routes, self._arcs = before
                self._split_tested(pairs[: len(pairs) // 2])
                self._split_tested(pairs[len(pairs) // 2 :])

    def _move_all(self, pairs: list[Pair]) -> None:
        for pair in pairs:
            self._move(*pair, self._both(pair))

    def _both(self, pair: Pair) -> int:
        """What both arcs of a pair have."""
        return min(self._arcs[pair[0], self._switch], self._arcs[self._switch, pair[1]])

    def carries_enough(self) -> bool:
        """Whether flows of all units reach every terminal."""
        self._arcs = dict.fromkeys(self._arcs, 0) | merged(self.routes)
        return self._least_cut((), ()) >= self._total

    def _most(self, tail: int, head: int, amount: int) -> int:
        """How much of an amount can be split off at a pair."""
        switch = self._switch
        for inside, outside in (((switch,), (tail, head)), ((tail, head), (switch,))):
            if amount:
                amount = min(amount, self._least_cut(inside, outside) - self._total)
        return amount

    def _least_cut(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> int:
        """The least cut of the source with some nodes, without others and without some terminal."""
        fed = [self._units.get(node, 0) for node in range(self._graph.num_nodes)]
        drained = [0] * self._graph.num_nodes
        for node in inside:
            fed[node] = AMPLE
        for node in outside:
            drained[node] = AMPLE
        if not set(outside).isdisjoint(self._graph.terminals):
            return self._cut(fed, drained)
        least = UNLIMITED
        for terminal in sorted(set(self._graph.terminals) - set(inside)):
            drained[terminal] = AMPLE
            least = min(least, self._cut(fed, drained))
            drained[terminal], fed[terminal] = 0, AMPLE
        return least

    def _cut(self, fed: Iterable[int], drained: Iterable[int]) -> int:
        capacities = np.array([*self._arcs.values(), *fed, *drained], dtype=np.int64)
        return self._network.max_flow(capacities, self._source, self._sink)

    def _move(self, tail: int, head: int, amount: int) -> None:
        """Join routes that end at the switch with routes that begin there."""
        self._arcs[tail, self._switch] -= amount
        self._arcs[self._switch, head] -= amount
        if tail != head:
            self._arcs[tail, head] += amount
        while amount:
            (first, before), (second, after) = (
                next(iter(self._routes[ends].items())) for ends in ((tail, self._switch), (self._switch, head))
            )
            part = min(amount, before, after)
            if tail != head:
                joined = self._routes.setdefault((tail, head), {})
                joined[first + second[1:]] = joined.get(first + second[1:], 0) + part
            self._take(first, part)
            self._take(second, part)
            amount -= part

    def _take(self, route: Route, part: int) -> None:
        routes = self._routes[route[0], route[-1]]
        routes[route] -= part
        if not routes[route]:
            del routes[route]

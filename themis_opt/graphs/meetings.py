"""Ways in which the sum of a piece comes to all NPUs: groups of nodes meet and exchange their sums.

Nodes are divided in two groups, these again, and so on.  Where two groups meet, nodes at their border exchange the sums
of both, and copies of what they get go on to those who need it.  One pair of nodes at the first meeting gives two
trees whose roots exchange, with as few messages as trees have, 2 (p - 1); borders that are whole groups give recursive
doubling (R. Rabenseifner, 2004, https://doi.org/10.1007/978-3-540-24685-5_1), which is over when the farthest NPUs can
have heard of each other.  No contribution counts twice, because groups have no node in common.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from formulations.edge_splitting import Route
from themis_opt.graphs.plan import GraphPiece, GraphPlan, GraphTransfer, merged_plan, routes_between
from themis_opt.graphs.problem import GraphInstance, GraphNetwork

NodeGroup = frozenset[int]
GroupHalves = dict[NodeGroup, tuple[NodeGroup, NodeGroup]]
PairLengths = Mapping[tuple[int, int], float]
PieceEnds = tuple[int | None, int | None]
PieceWay = tuple[GraphTransfer, ...]
NodesBefore = dict[int, int | None]


class Border(NamedTuple):
    """A message at a meeting: sender and receiver."""

    sender: int
    receiver: int


def nearest(
    nodes: Iterable[int], sources: Iterable[int], lengths: PairLengths, chance: random.Random, *, turned: bool = False
) -> NodesBefore:
    """Nodes by their distance from sources, or to them if turned, and the one before each; of equal ones a random one.

    Nodes that are not reached are missing.
    """
    before = NodesBefore()
    inside, near = set(nodes), [(0.0, chance.random(), source, None) for source in sources]
    heap: list[tuple[float, float, int, int | None]] = list(near)
    heapify(heap)
    while heap:
        distance, _, node, previous = heappop(heap)
        if node in before:
            continue
        before[node] = previous
        for other in inside - before.keys():
            length = lengths.get((other, node) if turned else (node, other))
            if length is not None:
                heappush(heap, (distance + length, chance.random(), other, node))
    return before


def routes_of_ways(instance: GraphInstance) -> list[Route]:
    """Routes between nodes that keep data, over switches that pass it on."""
    network = instance.network
    keepers = {*network.capacities.terminals}
    if not instance.demand.personal:
        copying = {*network.switches_that("multicasts")}
        is_sum = instance.demand.sums
        keepers |= copying & {*network.switches_that("sums")} if is_sum else copying
    return routes_between(network.arcs, keepers)


def random_tree(
    network: GraphNetwork,
    root: int,
    routes: Mapping[tuple[int, int], Route],
    lengths: PairLengths,
    chance: random.Random,
) -> list[GraphTransfer]:
    """Copies from a root to all NPUs along a tree of short ways, of short links, or between both.

    The next node is that with the least length of its link and of a part of the way to it: with the whole of it ways
    are shortest (E. Dijkstra, 1959), with none the tree is light (R. Prim, 1957).  No transfers where NPUs are not
    reached.
    """
    part, npus = chance.choice((0.0, chance.random(), 1.0)), set(network.capacities.terminals)
    near: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for (tail, head), length in lengths.items():
        near[tail].append((head, length))
    heap, before = [(0.0, 0.0, root, root)], dict[int, int]()
    while heap:
        distance, _, node, previous = heappop(heap)
        if node not in before:
            before[node] = previous
            for head, length in near[node]:
                heappush(heap, (part * distance + length, chance.random(), head, node))
    needed = set[int]()
    for node in npus & before.keys():
        while node not in needed:
            needed.add(node)
            node = before[node]
    transfers, arrival = list[GraphTransfer](), dict[int, tuple[int, ...]]({root: ()})
    for node, previous in before.items():
        if node in needed and node != root:
            arrival[node] = (len(transfers),)
            transfers.append(GraphTransfer(0, routes[previous, node], False, arrival[previous]))
    return transfers if npus <= before.keys() else []


def path_to(target: int, before: Mapping[int, int | None], routes: Mapping[tuple[int, int], Route]) -> Route:
    """The route to a node from the source of :func:`nearest`."""
    nodes = [target]
    while (previous := before[nodes[-1]]) is not None:
        nodes.append(previous)
    route: Route = (nodes[-1],)
    for pair in itertools.pairwise(reversed(nodes)):
        route += routes[pair][1:]
    return route


def plan_of_ways(name: str, instance: GraphInstance, parts: Iterable[tuple[int, PieceEnds, PieceWay]]) -> GraphPlan:
    """A piece for each way: its elements, who has and who wants them, and the transfers, numbered from 0."""
    return merged_plan(
        instance, [GraphPlan(name, instance, (GraphPiece(elements, *ends),), way) for elements, ends, way in parts]
    )


def random_way(
    network: GraphNetwork,
    ends: PieceEnds,
    routes: Mapping[tuple[int, int], Route],
    lengths: PairLengths,
    chance: random.Random,
    *,
    trees: bool,
    before: dict[int, NodesBefore] | None = None,
) -> PieceWay:
    """A way of a piece: a meeting for a sum, a tree for data that all NPUs want, or the shortest path.

    `before`: for paths, what :func:`nearest` says of sources; those that are missing are added.
    """
    source, target = ends
    if source is None:
        return tuple(random_meeting(network, routes, lengths, chance, trees=trees))
    if target is None:
        return tuple(random_tree(network, source, routes, lengths, chance))
    before = {} if before is None else before
    if source not in before:
        before[source] = nearest(network.capacities.terminals, (source,), lengths, chance)
    return (GraphTransfer(0, path_to(target, before[source], routes), False, ()),)


def random_meeting(
    network: GraphNetwork,
    routes: Mapping[tuple[int, int], Route],
    lengths: PairLengths,
    chance: random.Random,
    *,
    trees: bool,
) -> list[GraphTransfer]:
    """The transfers of a piece, numbered from 0; `routes` and `lengths` of pairs of NPUs and switches that sum.

    `trees`: whether two trees meet, where a link has nodes around both ends.  No transfers where groups are not
      connected both ways.
    """
    npus = network.capacities.terminals
    everything = frozenset({*npus, *(node for pair in routes for node in pair)})
    meeting = _Meeting(npus, everything, routes, lengths, chance)
    is_pair = trees and meeting.divide_at_a_link(everything)
    if is_pair or meeting.divide_by_matchings(everything):
        meeting.join(everything, npus)
    return meeting.transfers if meeting.is_whole else []


class _Meeting:
    """The transfers while they grow: which arrivals make up what each node has, none where that is its own alone.

    `is_whole`: whether links led to every node that wants the sum; one-way links may not.
    """

    def __init__(
        self,
        npus: Sequence[int],
        nodes: NodeGroup,
        routes: Mapping[tuple[int, int], Route],
        lengths: PairLengths,
        chance: random.Random,
    ) -> None:
        self.npus, self.routes, self.lengths, self.chance = set(npus), routes, lengths, chance
        self.transfers: list[GraphTransfer] = []
        self.arrivals: dict[int, tuple[int, ...]] = dict.fromkeys(sorted(nodes), ())
        self.halves: GroupHalves = {}
        self.only: tuple[int, int] | None = None
        self.is_whole = True
        self.thin = max(chance.uniform(-0.5, 0.5), 0.0)  # share of borders of one node, none in half of the meetings

    def divide_at_a_link(self, nodes: NodeGroup) -> bool:
        """Two groups around the ends of a random link that carries both ways, each of the nodes nearer to its end.

        Whether both groups have NPUs and are connected, since both send over the link.
        """
        both_ways = sorted(pair for pair in self.lengths if pair[::-1] in self.lengths)
        if not both_ways:
            return False
        first, second = self.only = self.chance.choice(both_ways)
        before = nearest(nodes, (first, second), self.lengths, self.chance)
        side = {first: first, second: second}
        for node, previous in before.items():
            side.setdefault(node, side[previous] if previous is not None else node)
        one = frozenset(node for node in nodes if side.get(node) == first)
        self.halves = {nodes: (one, nodes - one)}
        if len(before) < len(nodes) or not (one & self.npus and (nodes - one) & self.npus):
            return False
        return self._is_connected(one, first) and self._is_connected(nodes - one, second)

    def _is_connected(self, group: NodeGroup, root: int) -> bool:
        sides = (nearest(group, (root,), self.lengths, self.chance, turned=turned) for turned in (False, True))
        return all(len(side) == len(group) for side in sides)

    def divide_by_matchings(self, nodes: NodeGroup) -> bool:
        """Single nodes meet in pairs, pairs in fours, and so on: those whose borders are long and near.

        Whether all of them do.
        """
        import networkx as nx  # slow to import

        self.only, self.halves = None, {}
        groups = [frozenset([node]) for node in sorted(nodes)]
        while len(groups) > 1:
            graph: nx.Graph[int] = nx.Graph()
            for (a, one), (b, other) in itertools.combinations(enumerate(groups), 2):
                if weight := self._nearness(one, other):
                    graph.add_edge(a, b, weight=weight)
            pairs = sorted(map(sorted, nx.max_weight_matching(graph, maxcardinality=True)))
            if not pairs:
                return False
            joined = [groups[a] | groups[b] for a, b in pairs]
            self.halves |= {groups[a] | groups[b]: (groups[a], groups[b]) for a, b in pairs}
            matched = set(itertools.chain.from_iterable(pairs))
            groups = [*joined, *(group for number, group in enumerate(groups) if number not in matched)]
        return True

    def _nearness(self, one: NodeGroup, other: NodeGroup) -> float:
        """How well two groups would meet; 0 if they cannot."""
        both_ways = [(a, b) for a in one for b in other if (a, b) in self.lengths and (b, a) in self.lengths]
        if not both_ways:
            return 0.0
        least = min(self.lengths[pair] for pair in both_ways)
        border = min(len({pair[end] for pair in both_ways}) / len(group) for end, group in enumerate((one, other)))
        return (border + 0.01) / (least + 1) * self.chance.uniform(0.7, 1.3)

    def join(self, group: NodeGroup, receivers: Iterable[int]) -> None:
        """All transfers after which the receivers have the sum of a group."""
        wanting = set(receivers)
        if len(group) == 1 or not group & self.npus or (len(wanting) == 1 and self._collect(group, *wanting)):
            return
        halves, borders = self.halves[group], list[Border]()
        for near, far in (halves, halves[::-1]):
            if near & wanting and far & self.npus:
                borders += self._borders(near, far, near & wanting)
        for half, other in (halves, halves[::-1]):
            needing = {node for border in borders for node in border} & half
            if not other & self.npus:  # nobody brings these nodes more than the sum of their half
                needing |= wanting & half
            if needing:
                self.join(half, needing)
        has_data = {node for half in halves if half & self.npus for node in half}
        before = dict(self.arrivals)
        for sender, receiver in borders:
            is_first = receiver not in has_data
            number = self._send(sender, receiver, before[sender], adds=not is_first)
            self.arrivals[receiver] = (number,) if is_first else (*before[receiver], number)
        for half in halves:
            self._spread(half, wanting & half, {receiver for _, receiver in borders} & half)

    def _borders(self, near: NodeGroup, far: NodeGroup, wanting: Set[int]) -> Iterator[Border]:
        """Who sends to whom in one direction: to all who want it and have a link, or to a node on the way to them."""
        senders = {
            node: [other for other in sorted(far) if (other, node) in self.lengths]
            for node in sorted(near)
        }  # fmt: skip
        linked = [node for node, others in senders.items() if others]
        if self.only and len(near) + len(far) == len(self.arrivals):
            first, second = self.only
            yield Border(*((second, first) if first in near else (first, second)))
            return
        direct = [node for node in linked if node in wanting]
        if not direct:
            before = nearest(near, wanting, self.lengths, self.chance, turned=True)
            direct = [node for node in before if node in linked][:1]
            self.is_whole &= bool(direct)
        elif self.chance.random() < self.thin:
            direct = [self.chance.choice(direct)]
        for node in direct:
            yield Border(min(senders[node], key=lambda s, n=node: (self.lengths[s, n], self.chance.random())), node)  # type: ignore[misc]

    def _collect(self, group: NodeGroup, root: int) -> bool:
        """Sums along a tree of shortest paths to a root; whether there is one."""
        before = nearest(group, (root,), self.lengths, self.chance, turned=True)
        if len(before) < len(group):
            return False
        for node, following in reversed(before.items()):
            if following is not None and (node in self.npus or self.arrivals[node]):
                number = self._send(node, following, self.arrivals[node], adds=True)
                self.arrivals[following] = (*self.arrivals[following], number)
        return True

    def _spread(self, group: NodeGroup, wanting: Set[int], informed: Set[int]) -> None:
        """Copies from who has been told to all others who want it."""
        if not informed or wanting <= informed:
            return
        before, needed = nearest(group, informed, self.lengths, self.chance), set[int]()
        self.is_whole &= wanting <= before.keys()
        for node in wanting & before.keys():
            step: int | None = node
            while step is not None and step not in needed and step not in informed:
                needed.add(step)
                step = before[step]
        for node, previous in before.items():
            if node in needed and previous is not None:
                self.arrivals[node] = (self._send(previous, node, self.arrivals[previous], adds=False),)

    def _send(self, sender: int, receiver: int, after: tuple[int, ...], *, adds: bool) -> int:
        self.transfers.append(GraphTransfer(0, self.routes[sender, receiver], adds, after))
        return len(self.transfers) - 1

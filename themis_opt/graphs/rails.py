"""Boxes on rails: who sends to whom between NPUs at the same place of their boxes, around NICs that are lost or slow.

A piece goes from its root to one NPU of each other box, over the rail of its root, and from there to the others of the
box.  Where one of both has no NIC of full speed, the NPUs at another place of both boxes stand in: sources and targets
share these evenly, so that the other NICs of a damaged box carry its load.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise, product

import numpy as np

from formulations.edge_splitting import Route
from formulations.interruption import count_work
from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.errors import InputError
from themis_opt.graphs.problem import GraphNetwork


def box_name(node: str) -> str:
    """The part of a name before the last full stop: nodes of a box share it."""
    return node.rpartition(".")[0]


def boxes_of(network: GraphNetwork) -> list[list[int]]:
    """NPUs by the names of their boxes, in order; single NPUs are one box."""
    boxes: dict[str, list[int]] = defaultdict(list)
    for npu in network.npus:
        boxes[box_name(npu)].append(network.index[npu])
    return list(boxes.values())


ROUTED_PER_SECOND = 1_000_000  # links that the routes of NPUs take, for limits on work


class FastestRoutes(dict[int, dict[int, Route]]):
    """From each node to each NPU the route on which a megabyte takes least, made when it is asked for."""

    def __init__(self, network: GraphNetwork) -> None:
        import networkx as nx  # slow to import, and plans by slots ask for no route

        self.npus: tuple[int, ...] = network.capacities.terminals
        self.graph: nx.DiGraph[int] = nx.DiGraph()
        for arc, bandwidth in network.arcs.items():
            self.graph.add_edge(*arc, time=float(10**18 / bandwidth) + network.latencies[arc])

    def __missing__(self, source: int) -> dict[int, Route]:
        import networkx as nx

        count_work(len(self.graph.edges) / ROUTED_PER_SECOND)
        ways = nx.single_source_dijkstra_path(self.graph, source, weight="time")
        self[source] = {npu: tuple(ways[npu]) for npu in self.npus}
        return self[source]


@lru_cache(maxsize=8)
def fastest_routes(network: GraphNetwork) -> FastestRoutes:
    """The fastest routes of a network."""
    return FastestRoutes(network)


class Forest:
    """A tree for each root, whose messages go over routes from NPU to NPU."""

    def pairs(self, root: int) -> Iterable[tuple[int, int]]:
        """Parent and child of each branch of the tree of a root, as it grows."""
        raise NotImplementedError

    def route(self, tail: int, head: int) -> Route:
        """The route from one NPU to another."""
        raise NotImplementedError

    def out(self, root: int) -> list[Route]:
        """Routes from a root, in the order that the tree grows."""
        return [self.route(tail, head) for tail, head in self.pairs(root)]

    def into(self, root: int) -> list[Route]:
        """Routes to a root, turned around."""
        return [self.route(head, tail)[::-1] for tail, head in self.pairs(root)]


@dataclass(frozen=True, eq=False)
class Rails(Forest):
    """The boxes of a network, and routes between NPUs at the same place.

    `variant`: of a piece with several parts, the number of the part, each of which has other NPUs that stand in.
    `splits`: whether an NPU that has lost all links to its box is another box, at the same place.
    Raises InputError if there are no boxes.
    """

    network: GraphNetwork
    variant: int = 0
    splits: bool = True

    def __post_init__(self) -> None:
        if not 1 < len(self.boxes) < self.network.num_npus:
            raise InputError("is for several boxes of NPUs", field="network.nodes", value=f"{len(self.boxes)} boxes")

    @cached_property
    def inside(self) -> dict[int, int]:
        """The box of each NPU by its name, and of switches that join nothing else."""
        box_of = {npu: b for b, box in enumerate(boxes_of(self.network)) for npu in box}
        around: dict[int, set[int]] = defaultdict(set)
        for tail, head in self.network.arcs:
            around[head].add(box_of.get(tail, -1))
        return {node: min(boxes) for node, boxes in around.items() if len(boxes) == 1 and -1 not in boxes} | box_of

    @cached_property
    def boxes(self) -> IntArray:
        """The NPU at each place of each box, -1 where there is none; shape (boxes, places)."""
        boxes, kept, of = boxes_of(self.network), set(self.inside), self.inside.get
        if self.splits and (joined := {tail for tail, head in self.network.arcs if of(tail) == of(head, -1)}):
            kept = joined | {box[0] for box in boxes if joined.isdisjoint(box)}
        alone = [npu for box in boxes for npu in box if npu not in kept]
        rows = np.full((len(boxes) + len(alone), max(map(len, boxes))), -1)
        for b, box in enumerate(boxes):
            rows[[b if npu in kept else len(boxes) + alone.index(npu) for npu in box], range(len(box))] = box
        return rows

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """The box of each NPU, and its place there."""
        boxes = enumerate(self.boxes.tolist())
        return dict(sorted((npu, (b, g)) for b, box in boxes for g, npu in enumerate(box) if npu >= 0))

    @cached_property
    def hubs(self) -> list[int]:
        """The switch of each box, which joins nothing else; -1 where there is none."""
        hub_of = {box: node for node, box in self.inside.items() if node not in self.place}
        return [hub_of.get(box, -1) for box in range(len(self.boxes))]

    @cached_property
    def is_joined(self) -> BoolArray:
        """Which boxes have a switch, or a link between each two of their NPUs."""
        arcs = self.network.arcs
        return np.array(
            [
                hub >= 0 or all((tail, head) in arcs for tail in box for head in box if tail != head)
                for hub, box in zip(self.hubs, self.boxes.tolist(), strict=True)
            ]
        )

    @cached_property
    def leaf(self) -> IntArray:
        """The switch of the NIC of each NPU, -1 where there is none; shape (boxes, places)."""
        rates, leaves = dict[int, Fraction](), np.full(self.boxes.shape, -1, dtype=np.int64)
        hubs = set(self.hubs)
        for (tail, head), rate in self.network.arcs.items():
            if tail in self.place and head not in self.place and head not in hubs and rate > rates.get(tail, 0):
                rates[tail], leaves[self.place[tail]] = rate, head
        return leaves

    @cached_property
    def pods(self) -> list[IntArray]:
        """Boxes by their leaves: those of a pod have one in common."""
        joined = (self.leaf[:, None] == self.leaf) & (self.leaf >= 0)
        pod = joined.any(axis=2).argmax(axis=1)
        return [np.flatnonzero(pod == first) for first in np.unique(pod)]

    @cached_property
    def has_nic(self) -> BoolArray:
        """Which NPUs have a NIC of full speed, that of most; all where none has a switch; shape (boxes, places)."""
        ends = {npu: (npu, int(self.leaf[at])) for npu, at in self.place.items() if self.leaf[at] >= 0}
        if not ends:
            return self.boxes >= 0
        rates = {npu: min(self._rate(arc), self._rate(arc[::-1])) for npu, arc in ends.items()}
        usual = Counter(rates.values()).most_common(1)[0][0]
        full = np.zeros(self.boxes.shape, dtype=bool)
        for npu, rate in rates.items():
            full[self.place[npu]] = rate >= usual
        return full

    @cached_property
    def is_whole(self) -> BoolArray:
        """Which boxes are joined and have all their NICs."""
        return self.has_nic.all(axis=1) & self.is_joined

    @cached_property
    def is_alike(self) -> BoolArray:
        """Which boxes lack the same NICs as many others, and share slots with whole ones: those below a lost leaf."""
        _, kind, counts = np.unique(self.has_nic, axis=0, return_inverse=True, return_counts=True)
        return (counts[kind.reshape(-1)] > FEW_ALIKE) & self.is_joined & ~self.is_whole

    def far_shares(self, root: int) -> FloatArray:
        """Equal shares of NPUs to which a root scatters: in other boxes that share slots, where its own has a NIC too.

        Raises InputError if there are none.
        """
        (home, _), places = self.place[root], self.place.values()
        has_both = self.has_nic & self.has_nic[home] & (self.is_whole | self.is_alike)[:, None]
        shares = np.array([float(b != home and has_both[b, g]) for b, g in places])
        if not shares.any():
            raise InputError("must have another box with all its NICs", field="network.links")
        return shares

    def _rate(self, arc: tuple[int, int]) -> Fraction:
        return self.network.arcs.get(arc, Fraction(0))

    @cached_property
    def stands_in(self) -> list[list[int]]:
        """Places that stand in for others in each box, and those of NPUs with a NIC: alike boxes have one list."""
        known: dict[tuple[bool, ...], list[int]] = {}
        rows = [tuple(row) for row in self.has_nic.tolist()]
        return [known.setdefault(row, [g for g, has in enumerate(row) if has]) for row in rows]

    def heads(self, b: IntArray, g: IntArray, other: IntArray, variant: IntArray | int = 0) -> IntArray:
        """The place at which pieces of roots (b, g) enter other boxes: that `nearest` to it if both share none."""
        both = self.has_nic[b] & self.has_nic[other]
        count = both.sum(axis=1)
        turn = (b + other + g + variant) % np.maximum(count, 1)
        chosen = np.argmax(np.cumsum(both, axis=1) > turn[:, None], axis=1)
        return np.where((self.has_nic[b, g] & self.has_nic[other, g]) | (count == 0), g, chosen)

    @cached_property
    def nearest(self) -> IntArray:
        """The place whose NIC serves each place of a box, slow ones if none has full speed; shape (boxes, places)."""
        serves = self.has_nic | (~self.has_nic.any(axis=1, keepdims=True) & (self.leaf >= 0))
        return np.where(serves, range(self.boxes.shape[1]), (2 * serves + (self.boxes >= 0)).argmax(axis=1)[:, None])

    @cached_property
    def variants(self) -> IntArray:
        """Parts of the pieces at each place: as many as NPUs stand in where a box has no NIC there; shape (places,)."""
        lacks = ~self.has_nic[self.is_alike | (len(self.boxes) <= MANY_BOXES)].all(axis=0)
        return np.where(lacks, np.maximum(self.has_nic.sum(axis=1).min(), 1), 1)

    def num_parts(self, npus: Iterable[int]) -> IntArray:
        """Parts of the piece of each NPU."""
        return self.variants[[self.place[npu][1] for npu in npus]]

    @cached_property
    def shares(self) -> FloatArray:
        """Shares of the roots of an all-reduce, such that NICs take equally long; shape (boxes, places).

        A box receives the sums of its roots from all others, and what the roots of others have summed.
        """
        alike = self.has_nic | self.is_alike[:, None]  # slots that boxes share are shortest if roots are equal
        nics, kind, counts = np.unique(alike, axis=0, return_inverse=True, return_counts=True)
        shares = nics.astype(np.float64)
        if len(self.boxes) > MANY_BOXES:
            shares[nics.sum(axis=1) < nics.sum(axis=1).max()] = 0
        elif len(nics) > 1:
            both = nics[:, None] & nics
            even = both / np.maximum(both.sum(axis=2, keepdims=True), 1)
            entries = np.where(both[..., None], np.eye(nics.shape[1]), even[:, :, None])  # of a root at a place
            entries *= (counts - np.eye(len(nics)))[..., None, None]
            for _ in range(BALANCING_ROUNDS):
                loads = np.einsum("cogj,cg->cj", entries, shares) + np.einsum("cogj,og->cj", entries, shares)
                shares /= np.sqrt(np.where(nics & (loads > 0), loads, 1))  # none where no other box has a NIC there
                shares /= counts @ shares.sum(axis=1)
        return shares[kind.reshape(-1)]

    def share(self, root: int, *, balanced: bool) -> float:
        """The share of this variant of a root: of all roots if these are balanced, else of what the root has."""
        place = self.place[root]
        if self.variant >= self.variants[place[1]]:
            return 0.0
        return float(self.shares[place] if balanced else 1) / float(self.variants[place[1]])

    def pairs(self, root: int) -> list[tuple[int, int]]:
        """A tree as it grows: over rails, to the others of the box, over other rails, and within other boxes."""
        b, g = self.place[root]
        others = np.array([other % len(self.boxes) for other in range(b + 1, b + len(self.boxes))])
        heads = self.heads(np.full(len(others), b), np.full(len(others), g), others, self.variant)
        into = self.nearest[others, heads]
        tails, entries = self.boxes[b, self.nearest[b, heads]], self.boxes[others, into]
        rails = list(zip(tails.tolist(), entries.tolist(), strict=True))
        pairs = [pair for pair in rails if pair[0] == root]
        pairs += self._mates(b, g)
        pairs += [pair for pair in rails if pair[0] != root]
        return pairs + [pair for other, j in np.column_stack((others, into)).tolist() for pair in self._mates(other, j)]

    def _mates(self, b: int, g: int) -> list[tuple[int, int]]:
        """From an NPU to the others of its box, each to the next one first."""
        box = self.boxes[b].tolist()
        return [(box[g], mate) for mate in (*box[g + 1 :], *box[:g]) if mate >= 0]

    def route(self, tail: int, head: int) -> Route:
        """Over a link, the switch of the box, or leaves, with a spine between if need be; else the fastest."""
        (b, g), (other, j) = self.place[tail], self.place[head]
        if (tail, head) in self.network.arcs:
            return tail, head
        if b == other and self.hubs[b] >= 0:
            ways: list[Route] = [(tail, self.hubs[b], head)]
        else:
            first, last = int(self.leaf[b, g]), int(self.leaf[other, j])
            middles: Sequence[Route] = [(spine, last) for spine in self.spines(first, last)]
            if first == last or last in self.beside.get(first, ()):
                middles = [() if first == last else (last,)]
            ways = [(tail, first, *middle, head) for middle in middles]
        ways = [way for way in ways if all(arc in self.network.arcs for arc in pairwise(way))]
        return ways[b % len(ways)] if ways else fastest_routes(self.network)[tail][head]

    def spines(self, first: int, last: int) -> list[int]:
        """The switches that join two leaves."""
        return sorted(self.beside.get(first, set()) & self.beside.get(last, set()))

    def middles(self, first: int, last: int) -> list[list[int]]:
        """The ways between two leaves, spine after spine: over a spine, which stands twice around -1, or a core."""
        if spines := self.spines(first, last):
            return [[spine, -1, spine] for spine in spines]
        ends = product(sorted(self.beside.get(first, ())), sorted(self.beside.get(last, ())))
        ways = [(turn, up, core, down) for up, down in ends for turn, core in enumerate(self.spines(up, down))]
        return [way for _, *way in sorted(ways)]

    @cached_property
    def beside(self) -> dict[int, set[int]]:
        """The switches with a link from and to each switch."""
        beside: dict[int, set[int]] = defaultdict(set)
        for tail, head in self.network.arcs:
            if tail not in self.place and head not in self.place and (head, tail) in self.network.arcs:
                beside[tail].add(head)
        return beside


MANY_BOXES = 64
"""Boxes above which those that lack NICs have no roots, since others lose a per cent, and do not wait for these.

Pieces of places that lack NICs have several parts up to these: of more boxes, few that lack a NIC take turns.
"""

FEW_ALIKE = 7  # boxes up to which those that lack the same NICs have slots of their own

BALANCING_ROUNDS = 200  # rounds after which the NICs of boxes take equally long within a tenth of a per cent

"""Plans on rails by slots: thousands of these stand for millions of hops, which follow from them.

A *slot* holds messages that leave together on links of one class: all NICs of whole boxes, those of one damaged box,
and so on.  It is as long as the link with most of its messages needs, which serves them one after the other.  Slots of
a class do not overlap, and one begins when what any of its messages waits for has arrived; so the hops that follow from
slots are a legal schedule, whether or not the network is symmetric, and none is later than its slot.

Slots are made for an all-gather.  A reduce-scatter is the same backwards, and an all-reduce is both, chunk by chunk.
Where leaves have few uplinks, a piece enters one box of each other pod, which passes it on to the others there.
A broadcast scatters pieces to the NPUs of other boxes first, which then gather them; a reduce is that backwards.
In an all-to-all a message goes to the NPU of its box on the rail of its target first, and then over this rail.  Of half
of the pairs of boxes it goes over the rail of its source, and within the box of its target then: NICs send these while
others are on their way within boxes.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from operator import mul
from typing import Any, ClassVar, NamedTuple

import numpy as np

from themis_opt.base.arrays import BoolArray, IntArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.plan import GraphPiece, GraphPlan, demands, divide, shares
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.rails import Rails
from themis_opt.graphs.schedule import picoseconds
from themis_opt.schedules.kernel import Operations

MOST_LIFTED = 1024  # NPUs up to which all hops of slots are made, and validated
MOST_LIFTED_PAIRS = 256  # the same for an all-to-all, whose messages are as many as pairs of NPUs
MOST_DAMAGED = 40  # boxes with a class of their own: more have too many slots
EVEN_PODS = 1.02  # times as many boxes, at which pods with equally many still take fewer slots than all in one order
MOST_SLOTS = 2_000_000  # slots of all chunks in one simulation: about a second

LEAST_CHUNKS, MANY_ELEMENTS = 8, 4096
"""Chunks that are tried first, of pieces with many elements: the whole ones take a fifth longer."""

ON_RAILS = "must be boxes with a switch or links between all NPUs, on rails of one to three layers of switches"


class SlotMessages(NamedTuple):
    """Messages along alike routes: roots, nodes of routes, and of each hop its slot, its link and its turn.

    Roots are pieces, or of an all-to-all the number of the source times that of NPUs, and that of the target.  Links
    are directions, numbered in the order of tail and head.  A turn is how many messages of each size the link serves
    before.  Shapes (messages,), (messages, nodes), (messages, nodes - 1) twice, (messages, nodes - 1, sizes).
    """

    roots: IntArray
    nodes: IntArray
    slots: IntArray
    arcs: IntArray
    turns: IntArray


@dataclass
class SlotTable:
    """The slots of an all-gather on rails, in the order in which links prefer them.

    `elements`: of each piece, or of the messages to each NPU; `sizes`: those that occur.
    `personal`: whether the slots are those of an all-to-all.
    `root`: the NPU that has all pieces at first, if one does.
    `relays`: whether one box of each pod has pieces of others first, and passes them on.
    `links`, `lags`: of each slot the class of its links, and the longest latency.
    `names`, `mirrored`: of each class its name, and the class of the same links the other way.
    `loads`: of each slot bandwidths, by their numbers, and messages of each size that a link with it serves.
    `edges`: pairs of slots of which the second waits for the first.
    `is_lifted`: whether all messages are `made`, and not those of alike places once, for which slots are the same.
    `whole_spread`: the slots in which whole boxes spread their pieces within.
    `first_between_whole`: the slots from this one on join whole boxes.
    """

    rails: Rails
    elements: IntArray
    personal: bool = False
    root: int | None = None
    relays: bool = False
    is_lifted: bool = False
    links: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    mirrored: list[int] = field(default_factory=list)
    loads: list[list[list[int]]] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    made: list[SlotMessages] = field(default_factory=list)
    whole_spread: tuple[int, ...] = ()
    first_between_whole: int = 0

    def __post_init__(self) -> None:
        self._number: dict[str, int] = {}
        self._ways: dict[int, tuple[IntArray, int]] = {}
        self.begins: list[int] = []
        self.home = -1  # the box of the root
        rails, network = self.rails, self.rails.network
        size = len(network.nodes)
        keys = np.array([tail * size + head for tail, head in network.arcs], dtype=np.int64)
        self._order = np.argsort(keys)
        self._keys, self._size = keys[self._order], size
        self._back = np.argsort(np.argsort(self._keys % size * size + self._keys // size))  # if links have both
        _, first, places = np.unique(network.capacities.rates, return_index=True, return_inverse=True)
        self.rates = [list(network.arcs.values())[arc] for arc in first.tolist()]
        self.rate_of = places[self._order]
        self._latency = np.array([network.latencies[arc] for arc in network.arcs])[self._order]
        known, self._kind = np.unique(self.elements, return_inverse=True)
        self.sizes: list[int] = known.tolist()
        self._first_piece = np.full(size, -1)
        npus = network.capacities.terminals
        parts = np.ones(len(npus), dtype=np.int64) if self.personal else rails.num_parts(npus)
        self._first_piece[list(npus)] = np.cumsum(parts) - parts
        self._places = np.arange(rails.boxes.shape[1])
        self._gather()

    def turned(self, messages: SlotMessages) -> SlotMessages:
        """Messages backwards."""
        back = messages._replace(arcs=self._back[messages.arcs])
        return SlotMessages(messages.roots, *(array[:, ::-1] for array in back[1:]))

    @property
    def can_be_lifted(self) -> bool:
        """Whether messages are few enough to be made."""
        return self.rails.network.num_npus <= (MOST_LIFTED_PAIRS if self.personal else MOST_LIFTED)

    @cached_property
    def messages(self) -> list[SlotMessages]:
        """All messages, which are made when they are asked for."""
        table = self
        if not self.is_lifted:
            table = SlotTable(self.rails, self.elements, self.personal, self.root, self.relays, is_lifted=True)
        return table.made

    def arcs(self, tails: IntArray, heads: IntArray) -> IntArray:
        """The numbers of links in one direction. Raises InputError if there is none."""
        wanted = tails * self._size + heads
        arcs = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        if (self._keys[arcs] != wanted).any():
            raise InputError(ON_RAILS, field="network")
        return arcs

    def _class(self, name: str, back: str) -> int:
        """The number of a class of link directions; `back`: of the same links the other way."""
        for one, other in ((name, back), (back, name)):
            if one not in self._number:
                self._number[one] = len(self.names)
                self.names.append(one)
                self.mirrored.append(-1)
            if other in self._number:
                self.mirrored[self._number[one]], self.mirrored[self._number[other]] = (
                    self._number[other],
                    self._number[one],
                )
        return self._number[name]

    def begin(self) -> int:
        """A slot without messages, which stands for what roots have."""
        name = f"roots {len(self.begins)}"
        self.begins.append(self._slot(self._class(name, name), [], 0, ()))
        return self.begins[-1]

    def _slot(self, links: int, loads: list[list[int]], lag: int, waits: Sequence[int]) -> int:
        number = len(self.links)
        self.links.append(links)
        self.loads.append(loads)
        self.lags.append(lag)
        self.edges += [(earlier, number) for earlier in waits]
        return number

    def add(
        self, name: tuple[str, str], roots: IntArray, tails: IntArray, heads: IntArray, waits: Sequence[int]
    ) -> tuple[int, IntArray]:
        """A slot of messages over links, and if all are made a row for each: the slot, the link, and the turn."""
        arcs, kinds = self.arcs(tails, heads), self._kind[roots % len(self._kind)]
        order = np.argsort(arcs, kind="stable")
        by_link = np.append(arcs[order], -1)
        ends = np.flatnonzero(by_link[1:] != by_link[:-1]) + 1
        first = np.append(0, ends[:-1])
        used, place = by_link[first], np.empty_like(arcs)
        place[order] = np.repeat(np.arange(len(used)), ends - first)
        cells = np.bincount(place * len(self.sizes) + kinds, minlength=len(used) * len(self.sizes))
        cells = cells.reshape(len(used), -1)
        rates = self.rate_of[used]
        loads = np.column_stack((rates, cells))[self._unlike(rates, cells)].tolist()
        slot = self._slot(self._class(*name), loads, int(self._latency[used].max()), waits)
        return slot, self._rows(slot, arcs, order, (first, ends), kinds) if self.is_lifted else np.array(slot)

    @staticmethod
    def _unlike(rates: IntArray, counts: IntArray) -> IntArray:
        """One row of each kind; sorts nothing, since slots are many."""
        kind = rates
        for column in counts.T:
            kind = kind * (column.max() + 1) + column
            kind = np.cumsum(np.bincount(kind) > 0)[kind] - 1
        unlike = np.empty(kind.max() + 1, dtype=np.int64)
        unlike[kind] = np.arange(len(kind))
        return unlike

    def _rows(
        self, slot: int, arcs: IntArray, order: IntArray, bounds: tuple[IntArray, IntArray], kinds: IntArray
    ) -> IntArray:
        """Rows of messages; `order` is by link, and `bounds` where those of each begin and end."""
        rows, (first, ends) = self._no_rows(len(order)), bounds
        rows[:, 0], rows[:, 1] = slot, arcs
        for kind in range(len(self.sizes)):
            is_one = kinds[order] == kind
            before = np.cumsum(is_one) - is_one
            rows[order, 2 + kind] = before - np.repeat(before[first], ends - first)
        return rows

    def _no_rows(self, *shape: int) -> IntArray:
        return np.empty((*shape, 2 + len(self.sizes)), dtype=np.int64)

    def _gather(self) -> None:
        """All slots: those of damaged boxes first, which take longest, then boxes to those at each distance.

        Many boxes that lack the same NICs are among the whole ones.
        """
        rails = self.rails
        whole = rails.is_whole | rails.is_alike
        if self.root is not None:
            self.home, _ = rails.place[self.root]
            whole[self.home] = False
        plain, damaged = np.flatnonzero(whole), np.setdiff1d(np.flatnonzero(~whole), self.home)
        if not len(plain):
            raise InputError(ON_RAILS, field="network")
        leaves = rails.leaf[plain[rails.is_whole[plain].argmax()]]
        self._turn_on_rail = np.tril(leaves == leaves[:, None], -1).sum(axis=1)
        if len(damaged) > MOST_DAMAGED:
            rule = f"must leave all but {MOST_DAMAGED} boxes whole"
            raise InputError(rule, field="network", value=f"{len(damaged)} damaged")
        self.rank = np.full(len(whole), 0)
        self.rank[plain], self.rank[damaged] = np.arange(len(plain)), np.arange(len(damaged))
        sides = {-1: plain} | {int(box): np.array([box]) for box in damaged}
        begin = {side: self.begin() for side in sides}
        if self.root is None:
            spread = {side: self._spread(side, boxes, begin[side]) for side, boxes in sides.items()}
        else:
            begin[-1], last = self._scatter(self.root, plain, begin[-1])
            spread = begin | {-1: last}
        for side in (int(box) for box in damaged):
            for other in sides:
                for source, target in ((side, other), (other, side)) if other == -1 else ((side, other),):
                    if source != target:
                        pairs = np.meshgrid(sides[source], sides[target], indexing="ij")
                        self._send(source, pairs[0].ravel(), target, pairs[1].ravel(), begin, spread)
        if not self.is_lifted and not rails.is_alike.any():
            self._places = self._unlike_places(plain)
        self.first_between_whole = len(self.links)
        self._send_between(whole, begin, spread)

    def _send_between(self, whole: BoolArray, begin: dict[int, int], spread: dict[int, int]) -> None:
        """Pieces between whole boxes: those of all boxes of a pod to another one at once, or within it."""
        pods = [pod[whole[pod]] for pod in self.rails.pods]
        if self.relays and max(map(len, pods)) <= 2 * min(map(len, pods)):
            self._relay(pods, begin[-1])
            return
        if len(pods) > 1:  # of all boxes, so that those of a leaf spread evenly over spines
            most = max(map(len, self.rails.pods))
            if len(pods) * most <= EVEN_PODS * len(whole):
                pods = [np.pad(pod, (0, most - len(pod)), constant_values=-1) for pod in self.rails.pods]
            else:
                pods = [np.arange(len(whole))]
        boxes, whole = np.array(pods), np.append(whole, False)
        shifts = list(product(*map(range, boxes.shape)))[1:]
        for number, (pod, place) in enumerate(shifts if self.personal else shifts[::-1]):  # the longest ways first
            tails, heads = boxes.ravel(), np.roll(boxes, (-pod, -place), axis=(0, 1)).ravel()
            if not (both := whole[tails] & whole[heads]).any():
                continue
            if self.personal and 2 * number + 1 < len(shifts):
                self._send_pairs(-1, tails[both], -1, heads[both], begin[-1], changes_late=True)
            else:
                self._send(-1, tails[both], -1, heads[both], begin, spread)

    def _relay(self, pods: list[IntArray], begin: int) -> None:
        """Pieces of boxes to one box of each other pod, from which all others there have them.

        Boxes of a pod stand for those at the same places of others, and pass pieces on to the next ones, one after the
        other.  Pieces of boxes without their like double from round to round.
        """
        shifts = [list(zip(pods, [*pods[shift:], *pods[:shift]], strict=True)) for shift in range(len(pods))]
        entered = [begin]
        for pairs in shifts[1:]:
            ways = [(source[: len(target)], source[: len(target)], target[: len(source)]) for source, target in pairs]
            entered.append(self._pass_on(ways, begin))
        for pairs, wait in zip(shifts, entered, strict=True):
            for shift in range(1, max(map(len, pods))):
                ways = [
                    (source[: len(target)], target[: len(source)], np.roll(target, -shift)[: len(source)])
                    for source, target in pairs
                    if shift < len(target)
                ]
                self._pass_on(ways, wait)
        lines = [  # a box without its like, and boxes that have its pieces after it
            np.append(root, np.roll(target, -place - shift * len(target) // len(pods)))
            for shift, pairs in enumerate(shifts)
            for source, target in pairs
            for place, root in enumerate(source[len(target) :])
        ]
        wait, have = begin, 1
        while have < max(map(len, lines), default=0):
            heads = [line[have : 2 * have] for line in lines]
            ways = [(0 * some + line[0], line[: len(some)], some) for line, some in zip(lines, heads, strict=True)]
            wait, have = self._pass_on(ways, wait), 2 * have

    def _pass_on(self, ways: Sequence[tuple[IntArray, IntArray, IntArray]], wait: int) -> int:
        """The pieces of some boxes from boxes, which have these, to others; the slot in which they enter."""
        roots, tails, heads = map(np.concatenate, zip(*ways, strict=True))
        pieces, _, row, g, _ = self._roots(roots, np.arange(len(roots)))
        return self._cross(-1, -1, (pieces, tails[row], heads[row], g), [wait])[0]

    def _scatter(self, root: int, plain: IntArray, begin: int) -> tuple[int, int]:
        """Pieces from a root to NPUs of whole boxes, over its mates; the slots in which they enter and are spread.

        Each mate copies what it sends to the others of the box of the root, and takes turns with what the root sends.
        """
        boxes, home, (_, at) = self.rails.boxes, self.home, self.rails.place[root]
        pieces, b, _, g, _ = self._roots(plain, plain)
        near, homes = np.flatnonzero((boxes[home] >= 0) & (boxes[home] != root)), np.full(len(pieces), home)
        waits = [begin]
        if len(near):
            mates = np.where(g == at, near[self.rank[b] % len(near)], g)
            waits.append(self._inside(home, pieces, homes, np.full(len(pieces), at), mates, begin, is_root=True))
            rows, others = np.repeat(np.arange(len(pieces)), len(near)), np.tile(near, len(pieces))
            if len(kept := np.flatnonzero(others != mates[rows])):
                rows, others = rows[kept], others[kept]
                self._inside(home, pieces[rows], homes[rows], mates[rows], others, waits[-1])
        return self._cross(home, -1, (pieces, homes, b, g), waits)

    def _unlike_places(self, plain: IntArray) -> IntArray:
        """Those of one rail for all with the same NICs, whose leaves serve the same boxes and have the same uplinks.

        Those that use the same cores are kept with them, and all where cores are not alike.
        """
        rails, every = self.rails, self._places
        uplinks, above = dict[int, tuple[bytes, ...]](), set[tuple[tuple[int, ...], ...]]()
        leaves = np.unique(rails.leaf[plain]).tolist()
        for leaf in leaves:
            spines = np.array(sorted(rails.beside[leaf]), dtype=np.int64)
            uplinks[leaf] = spines.tobytes(), *self._looks(np.full(len(spines), leaf), spines)
            above.add(tuple(sorted(tuple(sorted(rails.beside[spine].difference(leaves))) for spine in spines.tolist())))
        members, first = defaultdict[bytes, list[int]](list), dict[tuple[object, ...], list[int]]()
        kinds = dict[int, tuple[Any, ...]]()
        for place, served in enumerate(rails.leaf[plain].T):
            members[served.tobytes()].append(place)
        for some in members.values():
            served = rails.leaf[plain, some[0]]
            _, begins, number = np.unique(served, return_index=True, return_inverse=True)
            links = tuple(uplinks[int(leaf)] for leaf in served[np.sort(begins)])
            nics = tuple(self._looks(rails.boxes[plain, place], served) for place in some)
            used = (self.elements[self._first_piece[rails.boxes[plain[0], some]]] > 0).tobytes()
            look = begins[number].tobytes(), links, nics, used, rails.variants[some].tobytes()
            first.setdefault(look, some)
            kinds |= {place: (*look, turn) for turn, place in enumerate(some)}
        places, planes = np.sort(np.concatenate(list(first.values()))), next(iter(above))
        if not (cores := [core for plane in planes for core in plane]):
            return places
        looks = {self._looks(*np.array([[core, spine]]).T) for core in cores for spine in rails.beside[core]}
        if not len(looks) == len(above) == len({*map(len, planes)}) == 1 or len({*cores}) < len(cores):
            return every
        shared = math.gcd(len(planes[0]), len(every))
        mixed = {tuple(sorted(kinds[place] for place in every[core::shared].tolist())): core for core in range(shared)}
        return every[np.isin(every % shared, [*mixed.values(), *(places % shared)])]

    def _looks(self, tails: IntArray, heads: IntArray) -> tuple[bytes, ...]:
        """Bandwidths and latencies of links, both ways."""
        both = self.arcs(np.append(tails, heads), np.append(heads, tails))
        return self.rate_of[both].tobytes(), self._latency[both].tobytes()

    def _roots(self, b: IntArray, other: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """The pieces of all places of boxes, with box, other box, place and variant of each."""
        parts = self.rails.variants[self._places]
        places = np.repeat(self._places, parts)
        variants = np.arange(len(places)) - np.repeat(np.cumsum(parts) - parts, parts)
        boxes, others = np.repeat(b, len(places)), np.repeat(other, len(places))
        g, v = np.tile(places, len(b)), np.tile(variants, len(b))
        pieces = self._first_piece[self.rails.boxes[boxes, g]] + v
        used = np.flatnonzero((self.rails.boxes[boxes, g] >= 0) & (self.elements[pieces] > 0))
        return pieces[used], boxes[used], others[used], g[used], v[used]

    def _send(
        self, source: int, b: IntArray, target: int, other: IntArray, begin: dict[int, int], spread: dict[int, int]
    ) -> None:
        """Pieces of boxes to others: over the rails of their roots, then those over other rails."""
        if self.personal:
            self._send_pairs(source, b, target, other, begin[source])
            return
        pieces, b, other, g, variants = self._roots(b, other)
        j = self.rails.heads(b, g, other, variants)
        for stands_in, wait in ((False, begin[source]), (True, spread[source])):
            part = (self.rails.nearest[b, j] != g) == stands_in
            if part.any():
                self._cross(source, target, (pieces[part], b[part], other[part], j[part]), [wait], stands_in=stands_in)

    def _send_pairs(
        self, source: int, b: IntArray, target: int, other: IntArray, begin: int, *, changes_late: bool = False
    ) -> None:
        """Messages of all NPUs of boxes to those of others: in the box to the rail of the target, and over it.

        Those that change rails late go over the rail of the source, and then within the box of the target.
        """
        boxes = self.rails.boxes
        ways = np.stack(np.meshgrid(np.arange(boxes.shape[1]), self._places, indexing="ij")).reshape(2, -1)
        row, way = (side.ravel() for side in np.indices((len(b), ways.shape[1])))
        b, other, (g, h) = b[row], other[row], ways[:: -1 if changes_late else 1, way]
        used = (boxes[b, g] >= 0) & (boxes[other, h] >= 0)
        b, other, g, h = b[used], other[used], g[used], h[used]
        rail, turn = (g, h) if changes_late else (h, g)
        j, pairs, waits = self.rails.heads(b, rail, other, turn), self._pairs(boxes[b, g], boxes[other, h]), [begin]
        if len(self._places) < boxes.shape[1] and not changes_late:
            waits.append(self._again(begin))
        elif (early := (near := self.rails.nearest[b, j]) != g).any():
            waits.append(self._inside(source, pairs[early], b[early], g[early], near[early], begin))
        self._cross(source, target, (pairs, b, other, j), waits, h, stands_in=bool((j != h).any()))

    def _pairs(self, sources: IntArray, targets: IntArray) -> IntArray:
        pairs: IntArray = self._first_piece[sources] * len(self.elements) + self._first_piece[targets]
        return pairs

    def _cross(
        self,
        source: int,
        target: int,
        ends: tuple[IntArray, IntArray, IntArray, IntArray],
        waits: list[int],
        goals: IntArray | None = None,
        *,
        stands_in: bool = False,
    ) -> tuple[int, int]:
        """Messages over NICs, leaves and spines, and within the boxes that they enter: to all, or to their goals.

        The last slots of both.
        """
        roots, b, other, j = ends
        rails, boxes = self.rails, self.rails.boxes
        i, j = rails.nearest[b, j], rails.nearest[other, j]
        tails, heads = boxes[b, i], boxes[other, j]
        first, last = rails.leaf[b, i], rails.leaf[other, j]
        out, into = self._groups(source, other, stands_in), self._groups(target, b, stands_in)
        nics = (self._of(source, "NICs out"), self._of(source, "NICs in"))
        hops, sent = self._no_rows(len(b), 6), []
        for group in np.unique(out):
            chosen = np.flatnonzero(out == group)
            slot, hops[chosen, 0] = self.add(nics, roots[chosen], tails[chosen], first[chosen], waits)
            sent.append(slot)
        up, core, down = middles = np.full((3, len(b)), -1)
        crossing = np.flatnonzero(first != last)
        if len(crossing):
            box = (b if source < 0 else other)[crossing]
            middles[:, crossing] = self._middles(first[crossing], last[crossing], box, j[crossing])
            far, before = np.flatnonzero(core >= 0), sent
            for column, rows, hop_tails, hop_heads, name in (
                (1, crossing, first, up, ("leaves to spines", "spines to leaves")),
                (2, far, up, core, ("spines to cores", "cores to spines")),
                (3, far, core, down, ("cores to spines", "spines to cores")),
                (4, crossing, down, last, ("spines to leaves", "leaves to spines")),
            ):
                if len(rows):
                    slot, hops[rows, column] = self.add(name, roots[rows], hop_tails[rows], hop_heads[rows], before)
                    before = [slot]
            sent = [*before, *(sent if len(crossing) < len(b) else ())]
        nics = (self._of(target, "NICs in"), self._of(target, "NICs out"))
        for group in np.unique(into):
            chosen = np.flatnonzero(into == group)
            slot, hops[chosen, 5] = self.add(nics, roots[chosen], last[chosen], heads[chosen], sent)
            end = slot
            if goals is None:
                end = self._within(target, roots[chosen], other[chosen], j[chosen], slot)
            elif len(late := chosen[goals[chosen] != j[chosen]]) and len(self._places) < boxes.shape[1]:
                end = self._again(slot)
            elif len(late):
                end = self._inside(target, roots[late], other[late], j[late], goals[late], slot)
        if self.is_lifted:
            self._keep_routes(roots, np.stack((tails, first, *middles, last, heads), axis=1), hops)
        return slot, end

    def _keep_routes(self, roots: IntArray, nodes: IntArray, hops: IntArray) -> None:
        """The messages, those within a leaf and those over one spine apart."""
        near, far = nodes[:, 1] == nodes[:, 5], nodes[:, 3] >= 0
        for rows, columns, some in (
            (near, [0, 1, 6], [0, 5]),
            (~near & ~far, [0, 1, 2, 5, 6], [0, 1, 4, 5]),
            (far, [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]),
        ):
            if rows.any():
                self._keep(roots[rows], nodes[rows][:, columns], hops[rows][:, some])

    def _keep(self, roots: IntArray, nodes: IntArray, hops: IntArray) -> None:
        columns = np.ascontiguousarray(hops.T)  # each hop of all messages is looked at by itself
        nodes = np.ascontiguousarray(nodes.T).T
        self.made.append(SlotMessages(roots, nodes, columns[0].T, columns[1].T, columns[2:].T))

    def _of(self, side: int, links: str) -> str:
        return links if side < 0 else f"{links} of box {side}"

    def _groups(self, side: int, far: IntArray, stands_in: bool) -> IntArray:
        """Slots of a damaged box: one for each other box, and for as many boxes as NPUs stand in for whole pieces."""
        if side in (-1, self.home):
            return np.zeros(len(far), dtype=np.int64)
        is_whole = stands_in and (self.personal or self.rails.variants.max() == 1)
        return self.rank[far] // (max(int(self.rails.has_nic[side].sum()), 1) if is_whole else 1)

    def _middles(self, first: IntArray, last: IntArray, boxes: IntArray, places: IntArray) -> IntArray:
        """The spine of each message, or its spine, core and spine, shape (3, messages).

        Boxes and places on one rail take turns at spines, and places have separate cores as far as these suffice.
        """
        pairs, place = np.unique(first * self._size + last, return_inverse=True)
        ways, spines = zip(*map(self._between, pairs.tolist()), strict=True)
        counts = np.array([len(some) for some in ways])
        if not counts.all():
            raise InputError(ON_RAILS, field="network")
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        widths, turns = np.array(spines)[place], boxes + self._turn_on_rail[places]
        cores = counts[place] // widths  # of each spine
        shared = np.gcd(cores, len(self._turn_on_rail))
        core = turns // widths % (cores // shared) * shared + places % shared
        middles: IntArray = np.concatenate(ways)[firsts[place] + core * widths + turns % widths].T
        return middles

    def _between(self, pair: int) -> tuple[IntArray, int]:
        """The ways between two leaves, shape (ways, 3), and over how many spines they begin."""
        if pair not in self._ways:
            ways = self.rails.middles(*divmod(pair, self._size))
            self._ways[pair] = np.array(ways, dtype=np.int64).reshape(-1, 3), len({spine for spine, *_ in ways})
        return self._ways[pair]

    def _spread(self, side: int, boxes: IntArray, begin: int) -> int:
        """Pieces of boxes to the others of each; returns the last slot."""
        if self.personal:
            places = np.arange(self.rails.boxes.shape[1])
            b, g, mates = (axis.ravel() for axis in np.meshgrid(boxes, places, places, indexing="ij"))
            tails, heads = self.rails.boxes[b, g], self.rails.boxes[b, mates]
            used = (tails >= 0) & (heads >= 0) & (g != mates)
            pairs = self._pairs(tails[used], heads[used])
            return self._inside(side, pairs, b[used], g[used], mates[used], begin) if len(pairs) else begin
        pieces, b, _, g, _ = self._roots(boxes, boxes)
        return self._within(side, pieces, b, g, begin) if len(pieces) else begin

    def _again(self, wait: int, pieces: int = 1) -> int:
        """The slots in which whole boxes spread their pieces within, for some times as many; the last slot."""
        for slot in self.whole_spread:
            loads = [[rate, *(pieces * count for count in counts)] for rate, *counts in self.loads[slot]]
            wait = self._slot(self.links[slot], loads, self.lags[slot], [wait])
        return wait

    def _within(self, side: int, roots: IntArray, b: IntArray, g: IntArray, wait: int) -> int:
        """From NPUs at places of boxes to all others there, over the switch of the box or links; the last slot."""
        boxes, count = self.rails.boxes, self.rails.boxes.shape[1]
        if len(self._places) < count:  # pieces of whole boxes enter others at each place, as those of their own do
            entered = np.bincount(b * count + g)[b * count + g] // self.rails.variants[g]
            return self._again(wait, int(entered.max()))
        rows, mates = np.repeat(np.arange(len(b)), count), np.tile(np.arange(count), len(b))
        kept = (mates != g[rows]) & (boxes[b[rows], mates] >= 0)
        rows, mates = rows[kept], mates[kept]
        return self._inside(side, roots[rows], b[rows], g[rows], mates, wait) if len(rows) else wait

    def _inside(
        self, side: int, roots: IntArray, b: IntArray, g: IntArray, mates: IntArray, wait: int, *, is_root: bool = False
    ) -> int:
        """From NPUs at places of boxes to others there, over the switch of the box or links; the last slot."""
        boxes = self.rails.boxes
        nodes = [boxes[b, g], boxes[b, mates]]
        names = [(self._of(side, "links within boxes"),) * 2]
        hubs = np.array(self.rails.hubs)[b]
        if (hubs >= 0).all():
            nodes.insert(1, hubs)
            out, into = self._of(side, "NPUs to their switch"), self._of(side, "switches to their NPUs")
            names = [(out, into), (into, out)]
        if is_root:
            names[0] = "links of the root out", "links of the root in"
        slots, hops = list[int](), list[IntArray]()
        for name, tails, heads in zip(names, nodes, nodes[1:], strict=False):
            wait, rows = self.add(name, roots, tails, heads, [wait])
            slots.append(wait)
            hops.append(rows)
        if self.is_lifted:
            self._keep(roots, np.stack(nodes, axis=1), np.stack(hops, axis=1))
        if not self.whole_spread and side < 0:
            self.whole_spread = tuple(slots)
        return wait


class Slots:
    """The slots of one chunk of a collective as :class:`themis_opt.graphs.schedule.Hops` are: what the clock needs.

    `shift`: of an all-reduce, how many slots of the reduce-scatter come before those of the all-gather.
    """

    worth_doubling: ClassVar = 5e-3  # messages of more chunks take longer to be made and checked
    few_chunks: ClassVar = 1

    def __init__(self, instance: GraphInstance, table: SlotTable) -> None:
        self.instance, self.table = instance, table
        demand, count = instance.demand, len(table.links)
        self.backwards, self.shift = demand.sums, count if demand.sums_for_all else 0
        edges = np.array(table.edges, dtype=np.int64).reshape(-1, 2).T
        links = np.array(table.links)
        turned, lags = np.array(table.mirrored)[links], np.array(table.lags)
        if self.shift:
            begins = np.array(table.begins)
            self.link, self.lag = np.concatenate((turned, links)), np.concatenate((lags, lags))
            joined = np.stack((begins, begins + count))
            edges = np.concatenate((edges[::-1], joined, edges + count), axis=1)
        else:
            self.link, self.lag = (turned if self.backwards else links), lags
            edges = edges[::-1] if self.backwards else edges
        order = np.lexsort((edges[1], edges[0]))
        self.edges = edges[0][order], edges[1][order]
        self.links = self.names = table.names
        self.order = np.arange(len(self.link))
        self.piece = self.link  # what pictures colour

    @property
    def most_chunks(self) -> int:
        """Chunks whose slots are simulated."""
        return max(MOST_SLOTS // len(self.link), 1)

    @property
    def first_chunks(self) -> int:
        """Chunks that are tried first: several where they save much and cost little."""
        elements = self.instance.size // self.instance.element_bytes // self.instance.network.num_npus
        return LEAST_CHUNKS if elements >= MANY_ELEMENTS else 1

    def durations(self, chunks: int) -> tuple[IntArray, int]:
        """Picoseconds of each slot, all as of the larger chunks; shape (2, slots)."""
        times = self._message_times(chunks)
        each = [
            max((sum(map(mul, counts, times[rate])) for rate, *counts in loads), default=0)
            for loads in self.table.loads
        ]
        both = np.array(each * (2 if self.shift else 1), dtype=np.int64)
        return np.stack((both, both)), chunks

    def _message_times(self, chunks: int) -> list[list[int]]:
        """Picoseconds of a message of the larger chunks, by the number of its bandwidth and of its size."""
        element, sizes = self.instance.element_bytes, self.table.sizes
        return [[picoseconds(-(-size // chunks) * element, rate) for size in sizes] for rate in self.table.rates]

    def preferred(self, operations: Operations) -> Operations:
        """Operations whose links serve copies between whole boxes, which nobody waits for, after all of later chunks.

        All are sums, and pieces on their way from a root: of all later chunks, or of the next one where whole boxes
        wait for damaged ones.
        """
        count, waits = len(self.link), len(self.table.begins) > 1
        is_broadcast = self.table.root is not None and not self.backwards
        first = self.shift + self.table.first_between_whole if self.shift or is_broadcast else count
        later = np.arange(len(operations.major)) % count >= first
        return operations._replace(major=operations.major + later * (count if waits else len(operations.major)))

    def label(self, slot: int) -> str:
        """What a slot is, in words."""
        return f"slot {slot % len(self.link)}, chunk {slot // len(self.link)}"

    @property
    def num_hops(self) -> int:
        """Hops of one chunk, as far as they are made."""
        return sum(messages.slots.size for messages in self.table.messages) * (2 if self.shift else 1)

    def lift(self, start: IntArray, chunks: int) -> Iterator[tuple[SlotMessages, IntArray, bool]]:
        """All messages with the starts of their hops, shape (messages, hops, chunks), and whether these are sums.

        `start`: that of each slot, for some of the chunks.
        """
        times, table = np.array(self._message_times(chunks)), self.table
        for messages in table.messages:
            offsets = np.einsum("mhs,mhs->mh", messages.turns, times[table.rate_of[messages.arcs]])
            for first, turned in ((0, True), (self.shift, False)) if self.shift else ((0, self.backwards),):
                starts = np.moveaxis(start[:, first + messages.slots] + offsets, 0, 2)
                yield (table.turned(messages), starts[:, ::-1], True) if turned else (messages, starts, False)


@dataclass(frozen=True)
class SlotPlan(GraphPlan):
    """A plan whose hops follow from slots, and stand in no list of transfers."""

    slots: Slots | None = None

    @cached_property
    def hops(self) -> Slots:  # type: ignore[override]
        """The slots in place of hops."""
        assert self.slots is not None
        return self.slots


def slot_plan(name: str, instance: GraphInstance, rails: Rails | None = None) -> SlotPlan:
    """The plan of trees on rails, by slots.

    Raises InputError if boxes and rails are not alike enough.
    """
    npus, demand, rails = instance.network.capacities.terminals, instance.demand, rails or Rails(instance.network)
    if demand.sums and not instance.network.capacities.is_symmetric:
        raise InputError("must have links that are alike in both directions", field="network.links")
    if demand.personal:
        amounts = shares(instance)
        received = tuple(GraphPiece(amounts[npu], None, npu) for npu in npus)
        table = SlotTable(rails, np.full(len(npus), max(amounts[npu] for npu in npus)), personal=True)
        return SlotPlan(name, instance, received, (), False, Slots(instance, table))
    parts, root = rails.num_parts(npus), instance.root if demand.rooted else None
    if demand.divided:
        pieces = [
            GraphPiece(part, *ends)
            for (ends, amount), count in zip(demands(instance).items(), parts.tolist(), strict=True)
            for part in divide(amount, [1] * count)
        ]
        weights = np.ones(len(npus))
    else:
        every = rails.shares.sum(axis=1) / (rails.boxes >= 0).sum(axis=1)
        weights = every[[rails.place[npu][0] for npu in npus]] if root is None else rails.far_shares(root)
        ((ends, total),) = demands(instance).items()
        portions = divide(total, np.repeat(weights / parts, parts).tolist())
        pieces = [GraphPiece(part, *ends) for part in portions]
    elements = np.array([piece.elements for piece in pieces])
    known, kind = np.unique(np.repeat(weights / parts, parts), return_inverse=True)
    largest = np.zeros(len(known), dtype=np.int64)
    np.maximum.at(largest, kind, elements)
    table = SlotTable(rails, largest[kind], root=root, relays=_needs_relays(instance, rails))
    return SlotPlan(name, instance, tuple(pieces), (), False, Slots(instance, table))


def _needs_relays(instance: GraphInstance, rails: Rails) -> bool:
    """Whether the uplinks of a leaf need more time than NICs, by more than a message takes between boxes.

    So they do if what the boxes of a pod have enters each box of the others over spines.  Where many boxes lack NICs,
    none passes pieces on.
    """
    network, boxes = instance.network, len(rails.boxes)
    far, longer = boxes - min(map(len, rails.pods)), [Fraction(0)]
    for leaf, first, nics in zip(*np.unique(rails.leaf, return_index=True, return_counts=True), strict=True):
        if far and (uplinks := rails.beside.get(int(leaf))):
            nic = network.arcs[rails.boxes.flat[first], leaf]
            crossing = -(-int(nics) // len(uplinks)) / min(network.arcs[leaf, spine] for spine in uplinks)
            longer.append(crossing * far - (boxes - 1) / nic)
    sizes = {int(rails.has_nic[pod].all(axis=1).sum()) for pod in rails.pods}
    rounds = 2 if len(sizes) == 1 and not instance.demand.rooted else 2 + max(sizes).bit_length()
    size = Fraction(instance.size * PICOSECONDS_PER_SECOND, network.num_npus)
    return not rails.is_alike.any() and max(longer) * size > rounds * max(network.latencies.values())

"""Plans on rails by slots: thousands of these stand for millions of hops, which follow from them.

A *slot* holds messages that leave together on links of one class: all NICs of whole boxes, those of one damaged box,
and so on.  It is as long as the link with most of its messages needs, which serves them one after the other.  Slots of
a class do not overlap, and one begins when what any of its messages waits for has arrived; so the hops that follow from
slots are a legal schedule, whether or not the network is symmetric, and none is later than its slot.

Slots are made for an all-gather.  A reduce-scatter is the same backwards, and an all-reduce is both, chunk by chunk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError
from themis_opt.graphs.plan import GraphPiece, GraphPlan, demands, divide, num_elements
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.rails import Rails
from themis_opt.graphs.schedule import picoseconds
from themis_opt.schedules.kernel import Operations

MOST_LIFTED = 1024
"""NPUs up to which all hops of slots are made, and validated."""

MOST_DAMAGED = 40
"""Boxes with a class of their own: more have too many slots."""

MOST_SLOTS = 2_000_000
"""Slots of all chunks in one simulation: about a second."""


ON_RAILS = "must be boxes with a switch or links between all NPUs, on rails of one or two layers of switches"


class SlotMessages(NamedTuple):
    """Messages along alike routes: roots, nodes of routes (-1 after the last), and of each hop its slot and its turn.

    Shapes (messages,), (messages, nodes), (messages, nodes - 1).
    """

    roots: IntArray
    nodes: IntArray
    slots: IntArray
    turns: IntArray


@dataclass
class SlotTable:
    """The slots of an all-gather on rails, in the order in which links prefer them.

    `links`, `lags`, `sizes`: of each slot the class of its links, the longest latency, and the elements of a message.
    `names`, `mirrored`: of each class its name, and the class of the same links the other way.
    `loads`: of each slot pairs of a bandwidth, by its number, and the most messages on a link with it.
    `edges`: pairs of slots of which the second waits for the first.
    `messages`: all messages, where they are made.
    `whole_spread`: the slots in which whole boxes spread their pieces within.
    `first_between_whole`: the slots from this one on join whole boxes.
    """

    rails: Rails
    elements: IntArray
    links: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    mirrored: list[int] = field(default_factory=list)
    loads: list[list[tuple[int, int]]] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    messages: list[SlotMessages] = field(default_factory=list)
    whole_spread: tuple[int, ...] = ()
    first_between_whole: int = 0

    def __post_init__(self) -> None:
        self._number: dict[str, int] = {}
        self.begins: list[int] = []
        rails, network = self.rails, self.rails.network
        size = len(network.nodes)
        keys = np.array([tail * size + head for tail, head in network.arcs], dtype=np.int64)
        self._order = np.argsort(keys)
        self._keys, self._size = keys[self._order], size
        self.rates = sorted(set(network.arcs.values()))
        places = {rate: place for place, rate in enumerate(self.rates)}
        self.rate_of = np.array([places[rate] for rate in network.arcs.values()])[self._order]
        self._latency = np.array([network.latencies[arc] for arc in network.arcs])[self._order]
        self._piece = np.full(size, -1)
        self._piece[list(network.capacities.terminals)] = np.arange(network.num_npus)
        self.is_lifted = network.num_npus <= MOST_LIFTED
        self._places = np.arange(rails.boxes.shape[1])
        self._gather()

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
        self.begins.append(self._slot(self._class(name, name), [], 0, 0, ()))
        return self.begins[-1]

    def _slot(self, links: int, loads: list[tuple[int, int]], lag: int, size: int, waits: Sequence[int]) -> int:
        number = len(self.links)
        self.links.append(links)
        self.loads.append(loads)
        self.lags.append(lag)
        self.sizes.append(size)
        self.edges += [(earlier, number) for earlier in waits]
        return number

    def add(
        self, name: tuple[str, str], roots: IntArray, tails: IntArray, heads: IntArray, waits: Sequence[int]
    ) -> tuple[int, IntArray]:
        """A slot of messages over links, and the turn of each on its link."""
        arcs = self.arcs(tails, heads)
        used, counts = np.unique(arcs, return_counts=True)
        most = np.zeros(len(self.rates), dtype=np.int64)
        np.maximum.at(most, self.rate_of[used], counts)
        loads = [(rate, int(count)) for rate, count in enumerate(most.tolist()) if count]
        links = self._class(*name)
        slot = self._slot(links, loads, int(self._latency[used].max()), int(self.elements[roots].max()), waits)
        return slot, self._turns(arcs) if self.is_lifted else arcs

    @staticmethod
    def _turns(arcs: IntArray) -> IntArray:
        order = np.argsort(arcs, kind="stable")
        ranked = arcs[order]
        first = np.concatenate(([0], np.flatnonzero(np.diff(ranked)) + 1))
        turns = np.empty_like(arcs)
        turns[order] = np.arange(len(arcs)) - np.repeat(first, np.diff(np.append(first, len(arcs))))
        return turns

    def _gather(self) -> None:
        """All slots: those of damaged boxes first, which take longest, then boxes to those at each distance."""
        rails = self.rails
        whole = rails.has_nic.all(axis=1) & rails.is_joined
        plain, damaged = np.flatnonzero(whole), np.flatnonzero(~whole)
        if not len(plain):
            raise InputError(ON_RAILS, field="network")
        if len(damaged) > MOST_DAMAGED:
            rule = f"must leave all but {MOST_DAMAGED} boxes whole"
            raise InputError(rule, field="network", value=f"{len(damaged)} damaged")
        self.rank = np.full(len(whole), 0)
        self.rank[plain], self.rank[damaged] = np.arange(len(plain)), np.arange(len(damaged))
        sides = {-1: plain} | {int(box): np.array([box]) for box in damaged}
        begin = {side: self.begin() for side in sides}
        spread = {side: self._spread(side, boxes, begin[side]) for side, boxes in sides.items()}
        for side in (int(box) for box in damaged):
            for other in sides:
                for source, target in ((side, other), (other, side)) if other == -1 else ((side, other),):
                    if source != target:
                        self._exchange(source, sides[source], target, sides[target], begin, spread)
        if not self.is_lifted:
            self._places = self._unlike_places(plain)
        self.first_between_whole = len(self.links)
        for shift in range(1, len(whole)):  # over all boxes, so that those of a leaf spread evenly over spines
            others = (plain + shift) % len(whole)
            if (both := whole[others]).any():
                self._send(-1, plain[both], -1, others[both], begin, spread)

    def _unlike_places(self, plain: IntArray) -> IntArray:
        """One place for all whose leaves serve the same boxes and have the same links to the same spines."""
        places: dict[tuple[object, ...], int] = {}
        network, rails = self.rails.network, self.rails
        beside = {
            int(leaf): tuple(sorted((spine, network.arcs[int(leaf), spine]) for spine in rails.beside[int(leaf)]))
            for leaf in np.unique(rails.leaf[plain])
        }
        for place, leaves in enumerate(rails.leaf[plain].T):
            number = np.unique(leaves, return_index=True, return_inverse=True)
            alike = (number[1][number[2]].tobytes(), tuple(beside[int(leaf)] for leaf in leaves[np.sort(number[1])]))
            places.setdefault(alike, place)
        return np.array(list(places.values()))

    def _exchange(
        self,
        source: int,
        sources: IntArray,
        target: int,
        targets: IntArray,
        begin: dict[int, int],
        spread: dict[int, int],
    ) -> None:
        """From all boxes of one side to all of another."""
        b, other = (side.ravel() for side in np.meshgrid(sources, targets, indexing="ij"))
        self._send(source, b, target, other, begin, spread)

    def _roots(self, b: IntArray, other: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """All places of boxes, their boxes and the others."""
        count = len(self._places)
        boxes, others, places = np.repeat(b, count), np.repeat(other, count), np.tile(self._places, len(b))
        there = self.rails.boxes[boxes, places] >= 0
        return boxes[there], others[there], places[there]

    def _send(
        self, source: int, b: IntArray, target: int, other: IntArray, begin: dict[int, int], spread: dict[int, int]
    ) -> None:
        """Pieces of boxes to others: over the rails of their roots, then those over other rails."""
        b, other, g = self._roots(b, other)
        j = self.rails.heads(b, g, other)
        used = self.elements[self._piece[self.rails.boxes[b, g]]] > 0
        for part, waits in ((used & (j == g), begin[source]), (used & (j != g), spread[source])):
            if part.any():
                self._cross(source, target, (b[part], g[part], other[part], j[part]), waits)

    def _cross(self, source: int, target: int, ends: tuple[IntArray, IntArray, IntArray, IntArray], wait: int) -> None:
        """Messages over NICs, leaves and spines, and within the boxes that they enter."""
        b, g, other, j = ends
        rails, boxes = self.rails, self.rails.boxes
        roots, tails, heads = self._piece[boxes[b, g]], boxes[b, j], boxes[other, j]
        first, last = rails.leaf[b, j], rails.leaf[other, j]
        out, into = self._groups(source, other, j != g), self._groups(target, b, j != g)
        nics = (self._of(source, "NICs out"), self._of(source, "NICs in"))
        slots, turns = np.full((len(b), 4), -1), np.zeros((len(b), 4), dtype=np.int64)
        sent = []
        for group in np.unique(out):
            chosen = np.flatnonzero(out == group)
            slot, turn = self.add(nics, roots[chosen], tails[chosen], first[chosen], [wait])
            sent.append(slot)
            slots[chosen, 0], turns[chosen, 0] = slot, turn
        middle = np.full(len(b), -1)
        crossing = np.flatnonzero(first != last)
        if len(crossing):
            middle[crossing] = self._spines(first[crossing], last[crossing], (b if source < 0 else other)[crossing])
            waits = sent
            for column, hop_tails, hop_heads, name in (
                (1, first, middle, ("leaves to spines", "spines to leaves")),
                (2, middle, last, ("spines to leaves", "leaves to spines")),
            ):
                slot, turn = self.add(name, roots[crossing], hop_tails[crossing], hop_heads[crossing], waits)
                waits = [slot]
                slots[crossing, column], turns[crossing, column] = slot, turn
            sent = [*waits, *(sent if len(crossing) < len(b) else ())]
        nics = (self._of(target, "NICs in"), self._of(target, "NICs out"))
        for group in np.unique(into):
            chosen = np.flatnonzero(into == group)
            slot, turn = self.add(nics, roots[chosen], last[chosen], heads[chosen], sent)
            slots[chosen, 3], turns[chosen, 3] = slot, turn
            self._within(target, roots[chosen], other[chosen], j[chosen], slot)
        if self.is_lifted:
            self._keep_routes(roots, np.stack((tails, first, middle, last, heads), axis=1), slots, turns)

    def _keep_routes(self, roots: IntArray, nodes: IntArray, slots: IntArray, turns: IntArray) -> None:
        """The messages, those within a leaf apart."""
        near = nodes[:, 1] == nodes[:, 3]
        for rows, columns, hops in ((near, [0, 1, 4], [0, 3]), (~near, [0, 1, 2, 3, 4], [0, 1, 2, 3])):
            if rows.any():
                kept = nodes[rows][:, columns], slots[rows][:, hops], turns[rows][:, hops]
                self.messages.append(SlotMessages(roots[rows], *kept))

    def _of(self, side: int, links: str) -> str:
        return links if side < 0 else f"{links} of box {side}"

    def _groups(self, side: int, far: IntArray, stands_in: IntArray) -> IntArray:
        """Slots of a damaged box: one for each other box, and for as many boxes as NPUs stand in for others."""
        if side < 0:
            return np.zeros(len(far), dtype=np.int64)
        return self.rank[far] // (max(int(self.rails.has_nic[side].sum()), 1) if stands_in.all() else 1)

    def _spines(self, first: IntArray, last: IntArray, boxes: IntArray) -> IntArray:
        """The spine of each message: boxes take turns."""
        pairs, place = np.unique(first * self._size + last, return_inverse=True)
        middles = [self.rails.spines(*divmod(pair, self._size)) for pair in pairs.tolist()]
        counts = np.array([len(spines) for spines in middles])
        if not counts.all():
            raise InputError(ON_RAILS, field="network")
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        spines: IntArray = np.concatenate(middles)[firsts[place] + boxes % counts[place]]
        return spines

    def _spread(self, side: int, boxes: IntArray, begin: int) -> int:
        """Pieces of boxes to the others of each; returns the last slot."""
        b, _, g = self._roots(boxes, boxes)
        used = self.elements[self._piece[self.rails.boxes[b, g]]] > 0
        if not used.any():
            return begin
        b, g = b[used], g[used]
        return self._within(side, self._piece[self.rails.boxes[b, g]], b, g, begin)

    def _within(self, side: int, roots: IntArray, b: IntArray, g: IntArray, wait: int) -> int:
        """From NPUs at places of boxes to all others there, over the switch of the box or links; the last slot."""
        boxes, count = self.rails.boxes, self.rails.boxes.shape[1]
        if len(self._places) < count:  # pieces of whole boxes enter others at each place, as those of their own do
            for slot in self.whole_spread:
                wait = self._slot(self.links[slot], self.loads[slot], self.lags[slot], self.sizes[slot], [wait])
            return wait
        rows, mates = np.repeat(np.arange(len(b)), count), np.tile(np.arange(count), len(b))
        kept = (mates != g[rows]) & (boxes[b[rows], mates] >= 0)
        rows, mates = rows[kept], mates[kept]
        nodes = [boxes[b, g][rows], boxes[b[rows], mates]]
        names = [(self._of(side, "links within boxes"),) * 2]
        hubs = np.array(self.rails.hubs)[b][rows]
        if (hubs >= 0).all():
            nodes.insert(1, hubs)
            out, into = self._of(side, "NPUs to their switch"), self._of(side, "switches to their NPUs")
            names = [(out, into), (into, out)]
        slots, turns = list[int](), list[IntArray]()
        for name, tails, heads in zip(names, nodes, nodes[1:], strict=False):
            wait, turn = self.add(name, roots[rows], tails, heads, [wait])
            slots.append(wait)
            turns.append(turn)
        if self.is_lifted:
            every = np.tile(slots, (len(rows), 1))
            self.messages.append(SlotMessages(roots[rows], np.stack(nodes, axis=1), every, np.stack(turns, axis=1)))
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

    def durations(self, chunks: int) -> tuple[IntArray, int]:
        """Picoseconds of each slot, all as of the larger chunks; shape (2, slots)."""
        times = self._message_times(chunks)
        each = [
            max((count * times[size, rate] for rate, count in loads), default=0)
            for size, loads in zip(self.table.sizes, self.table.loads, strict=True)
        ]
        both = np.array(each * (2 if self.shift else 1), dtype=np.int64)
        return np.stack((both, both)), chunks

    def _message_times(self, chunks: int) -> dict[tuple[int, int], int]:
        """Picoseconds of a message of the larger chunks, by elements and the number of its bandwidth."""
        element, rates = self.instance.element_bytes, self.table.rates
        return {
            (size, number): picoseconds(-(-size // chunks) * element, rate)
            for size in set(self.table.sizes)
            for number, rate in enumerate(rates)
        }

    def preferred(self, operations: Operations) -> Operations:
        """Operations whose links serve sums of all chunks before copies between whole boxes, which nobody waits for."""
        first = self.shift + self.table.first_between_whole if self.shift else len(self.link)
        is_copy = np.arange(len(operations.major)) % len(self.link) >= first
        return operations._replace(major=operations.major + is_copy * float(len(operations.major)))

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
        times = self._message_times(chunks)
        table, sizes = self.table, np.array(self.table.sizes)
        known, place = np.unique(sizes, return_inverse=True)
        lasts = np.array([[times[int(size), rate] for rate in range(len(table.rates))] for size in known])
        for first, turned in ((0, True), (self.shift, False)) if self.shift else ((0, self.backwards),):
            for messages in table.messages:
                tails, heads = messages.nodes[:, :-1].ravel(), messages.nodes[:, 1:].ravel()
                rates = table.rate_of[table.arcs(tails, heads)].reshape(messages.slots.shape)
                offsets = messages.turns * lasts[place[messages.slots], rates]
                starts = np.moveaxis(start[:, first + messages.slots] + offsets, 0, 2)
                yield (_turned(messages), starts[:, ::-1], True) if turned else (messages, starts, False)


def _turned(messages: SlotMessages) -> SlotMessages:
    return SlotMessages(messages.roots, *(array[:, ::-1] for array in messages[1:]))


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
    if demand.personal or demand.rooted:
        raise InputError("has no slots", field="collectives.kind", value=instance.kind.value)
    if demand.sums and not instance.network.capacities.is_symmetric:
        raise InputError("must have links that are alike in both directions", field="network.links")
    if demand.sums_for_all:
        shares = [rails.share(npu) for npu in npus]
        parts = divide(num_elements(instance), shares)
        pieces = tuple(GraphPiece(part, None, None) for part in parts)
        largest = {
            share: max(part for part, one in zip(parts, shares, strict=True) if one == share) for share in set(shares)
        }
        sizes = [largest[share] for share in shares]
    else:
        pieces = tuple(GraphPiece(part, *ends) for ends, part in demands(instance).items())
        sizes = [max(piece.elements for piece in pieces)] * len(pieces)
    table = SlotTable(rails, np.array(sizes))
    return SlotPlan(name, instance, pieces, (), False, Slots(instance, table))

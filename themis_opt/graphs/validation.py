"""Whether a schedule on a graph is legal, from the rules alone: it shares no code with planning and simulation."""

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import numpy as np

from themis_opt.base.arrays import BoolArray, IntArray
from themis_opt.base.errors import InvalidSchedule
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.plan import GraphPiece, GraphTransfer, demands, shares
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule
from themis_opt.graphs.slots import SlotMessages, SlotPlan, Slots

GRAPH_RULES = ("amounts", "switches", "links", "order", "capacity", "data", "makespan")  # the rules that are checked


def validate_graph(schedule: GraphSchedule) -> None:
    """Check a schedule: amounts, links, capacity, and that every NPU ends with what it wants.

    Raises InvalidSchedule with the rule that is broken, and where.
    """
    _check_amounts(schedule)
    if isinstance(schedule.plan, SlotPlan):
        _check_slots(schedule, schedule.plan.hops)
        return
    _check_switches(schedule)
    arrival = _check_hops(schedule)
    _check_capacity(schedule)
    last = int(arrival.max(initial=0))
    if last != schedule.makespan:
        raise InvalidSchedule("makespan", f"is {schedule.makespan} ps, the last byte arrives at {last} ps")
    _check_waits(schedule, arrival)
    by_piece: dict[int, dict[int, GraphTransfer]] = defaultdict(dict)
    for number, transfer in enumerate(schedule.plan.transfers):
        by_piece[transfer.piece][number] = transfer
    for number, piece in enumerate(schedule.plan.pieces):
        if piece.elements:
            _check_data(schedule.plan.instance, piece, by_piece[number], f"piece {number}")


def _hops(schedule: GraphSchedule) -> list[tuple[GraphTransfer, int, int, bool]]:
    """GraphTransfer, tail and head of each hop, and whether it follows the one before."""
    return [
        (transfer, tail, head, place > 0)
        for transfer in schedule.plan.transfers
        for place, (tail, head) in enumerate(zip(transfer.route, transfer.route[1:], strict=False))
    ]


def _check_hops(schedule: GraphSchedule) -> IntArray:
    """Each hop is a link, takes as long as its bytes do, and begins when the one before arrived; returns arrivals."""
    plan, hops = schedule.plan, _hops(schedule)
    network, arcs = plan.instance.network, [(tail, head) for _, tail, head, _ in hops]

    def refuse(broken: BoolArray, rule: str, words: str) -> None:
        if broken.any():
            tail, head = arcs[int(broken.argmax())]
            raise InvalidSchedule(rule, words.format(f"{network.nodes[tail].name} to {network.nodes[head].name}"))

    refuse(np.array([arc not in network.arcs for arc in arcs], dtype=bool), "links", "no link goes from {}")
    elements = [plan.pieces[transfer.piece].elements for transfer, *_ in hops]
    keys = [(count // schedule.chunks, arc) for count, arc in zip(elements, arcs, strict=True)]
    size = plan.instance.element_bytes * PICOSECONDS_PER_SECOND
    least = {
        (count, arc): (math.ceil(count * size / network.arcs[arc]), math.ceil((count + 1) * size / network.arcs[arc]))
        for count, arc in set(keys)
    }
    small, large = np.array([least[key] for key in keys], dtype=np.int64).reshape(-1, 2).T
    larger = np.array(elements, dtype=np.int64) % schedule.chunks
    needed = np.where(np.arange(schedule.chunks)[:, None] < larger, large, small)
    short = np.logical_or.reduce(schedule.end - schedule.start < needed)
    refuse(short, "capacity", "a message from {} takes less than its bytes do")
    arrival = schedule.end + np.array([network.latencies[arc] for arc in arcs], dtype=np.int64)
    follows = np.array([follows for *_, follows in hops], dtype=bool)
    before = np.where(follows, np.roll(arrival, 1, axis=1), 0)
    refuse(np.logical_or.reduce(schedule.start < before), "order", "a message leaves from {} before it is there")
    return arrival


def _check_waits(schedule: GraphSchedule, arrival: IntArray) -> None:
    """In every chunk a transfer leaves once those that it waits for have arrived."""
    plan = schedule.plan
    first = np.flatnonzero([not follows for *_, follows in _hops(schedule)])
    ends = arrival[:, np.append(first[1:], arrival.shape[1]) - 1]
    places = {after: place for place, after in enumerate(dict.fromkeys(t.after for t in plan.transfers if t.after))}
    if not places:
        return
    offsets = np.cumsum([0, *map(len, places)])[:-1]
    there = np.maximum.reduceat(ends[:, np.concatenate([np.array(after) for after in places])], offsets, axis=1)
    waiting = [(number, transfer) for number, transfer in enumerate(plan.transfers) if transfer.after]
    elements = np.array([plan.pieces[transfer.piece].elements for _, transfer in waiting])
    starts = schedule.start[:, first[[number for number, _ in waiting]]]
    early = starts < there[:, [places[transfer.after] for _, transfer in waiting]]
    early &= np.arange(schedule.chunks)[:, None] < elements
    if early.any():
        chunk, place = np.argwhere(early)[0].tolist()
        _, transfer = waiting[place]
        where = f"piece {transfer.piece}, chunk {chunk}"
        raise InvalidSchedule("data", f"{where}: node {transfer.route[0]} sends what it does not have")


def _check_capacity(schedule: GraphSchedule) -> None:
    """A link serves one message at a time."""
    by_link: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, (_, tail, head, _) in enumerate(_hops(schedule)):
        by_link[tail, head].append(number)
    for (tail, head), numbers in by_link.items():
        start, end = schedule.start[:, numbers].ravel(), schedule.end[:, numbers].ravel()
        order = np.lexsort((end, start))
        if (start[order][1:] < end[order][:-1]).any():
            raise InvalidSchedule("capacity", f"two messages at once from node {tail} to node {head}")


def _check_amounts(schedule: GraphSchedule) -> None:
    """Pieces make up what each source has for each target."""
    amounts: dict[tuple[int | None, int | None], int] = defaultdict(int)
    for piece in schedule.plan.pieces:
        amounts[piece.source, piece.target] += piece.elements
    plan = schedule.plan
    if isinstance(plan, SlotPlan) and plan.hops.table.personal:  # a piece is what each other NPU has for one
        wanted: dict[tuple[int | None, int | None], int] = {(None, npu): n for npu, n in shares(plan.instance).items()}
    else:
        wanted = demands(plan.instance)
    if {ends: amount for ends, amount in amounts.items() if amount} != {e: a for e, a in wanted.items() if a}:
        raise InvalidSchedule("amounts", "pieces are not what the collective moves")


def _check_switches(schedule: GraphSchedule) -> None:
    """Only switches that sum receive what is added, and only those that copy receive what they send on.

    A switch that sums and does not copy sends each sum once.
    """
    nodes = schedule.plan.instance.network.nodes
    sent_on = set[int]()
    for transfer in schedule.plan.transfers:
        sender, receiver = nodes[transfer.route[0]], nodes[transfer.route[-1]]
        may_receive = receiver.kind == "npu" or (receiver.sums if transfer.adds else receiver.multicasts)
        may_send = sender.kind == "npu" or sender.sums or sender.multicasts
        if not (may_receive and may_send):
            raise InvalidSchedule("switches", f"{sender.name} to {receiver.name}: a switch only passes messages on")
        if sender.kind != "npu" and not sender.multicasts:
            if not sent_on.isdisjoint(transfer.after):
                raise InvalidSchedule("switches", f"{sender.name} sends a sum twice, and does not copy")
            sent_on.update(transfer.after)


def _check_data(instance: GraphInstance, piece: GraphPiece, steps: dict[int, GraphTransfer], where: str) -> None:
    """Move contributions as they are sent, one bit for each NPU: sums count each once, and copies are whole at the end.

    A transfer sends what its sender had at first, or the last copy that it waits for, and the sums that it waits for.
    """
    npus = instance.network.capacities.terminals
    bit = {npu: 1 << number for number, npu in enumerate(npus)}
    whole = sum(bit.values()) if piece.source is None else bit[piece.source]
    first = bit if piece.source is None else {piece.source: whole}
    sent: dict[int, int] = {}

    def content(node: int, arrivals: Iterable[int]) -> int:
        held = first.get(node, 0)
        for number in sorted(arrivals):
            if not steps[number].adds:
                held = sent[number]
            elif held & sent[number]:
                raise InvalidSchedule("data", f"{where}: node {node} adds something twice")
            else:
                held |= sent[number]
        return held

    @cache
    def contribution(sender: int, after: tuple[int, ...]) -> int:
        """What a node sends once some transfers have arrived."""
        if any(n not in sent or steps[n].route[-1] != sender for n in after):
            return 0
        return content(sender, after)

    received: dict[int, list[int]] = defaultdict(list)
    for number, transfer in steps.items():
        sender = transfer.route[0]
        sent[number] = contribution(sender, transfer.after)
        if not sent[number]:
            raise InvalidSchedule("data", f"{where}: node {sender} sends what it does not have")
        received[transfer.route[-1]].append(number)
    wanting = npus if piece.target is None else (piece.target,)
    held = {node: content(node, arrivals) for node, arrivals in received.items()}
    missing = [npu for npu in wanting if held.get(npu, first.get(npu)) != whole]
    if missing:
        raise InvalidSchedule("data", f"{where}: node {missing[0]} does not get it")


def _check_slots(schedule: GraphSchedule, slots: Slots) -> None:
    """That slots wait and do not overlap, and the messages that follow from them, where these are made."""
    earlier, later = slots.edges
    arrival = schedule.end + slots.lag
    if (schedule.start[:, later] < arrival[:, earlier]).any():
        raise InvalidSchedule("order", "a slot begins before what it waits for has arrived")
    busy = np.flatnonzero((schedule.end > schedule.start).any(axis=0))
    links = np.tile(slots.link[busy], schedule.chunks)
    _check_apart(links, schedule.start[:, busy].ravel(), schedule.end[:, busy].ravel())
    if schedule.makespan != arrival.max():
        raise InvalidSchedule("makespan", f"is {schedule.makespan} ps, the last slot ends at {arrival.max()} ps")
    if slots.table.can_be_lifted:
        is_small = slots.num_hops * schedule.chunks <= MOST_CHECKED_HOPS
        checked = schedule.chunks if is_small else 1  # chunks differ in the starts of their slots alone
        check, halves = (_PairCheck if slots.table.personal else _MessageCheck)(schedule, checked), set[bool]()
        for messages, starts, are_sums in slots.lift(schedule.start[:checked], schedule.chunks):
            check.add(messages, starts, are_sums)
            halves.add(are_sums)
        demand = schedule.plan.instance.demand
        if halves != {demand.sums, demand.is_backwards}:
            raise InvalidSchedule("data", "messages are not the sums and copies of the collective")
        check.end()
        if check.last > schedule.makespan:
            raise InvalidSchedule("makespan", f"is {schedule.makespan} ps, the last byte arrives at {check.last} ps")


MOST_CHECKED_HOPS = 6_000_000  # hops that are checked in every chunk: a second and a half


def _check_apart(links: IntArray, start: IntArray, end: IntArray) -> None:
    """On no link does a message begin before the one before has ended."""
    order = np.lexsort((end, start, links))
    links, start, end = (column[order] for column in (links, start, end))
    if ((links[1:] == links[:-1]) & (start[1:] < end[:-1])).any():
        raise InvalidSchedule("capacity", "two messages at once on a link")


def _joined(links: IntArray, start: IntArray, end: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Link, start and end of messages, where those that stand and follow each other without a gap are one."""
    order = np.argsort(links, kind="stable")
    links, start, end = (column[order] for column in (links, start, end))
    first = np.flatnonzero(np.append(True, (links[1:] != links[:-1]) | (start[1:] != end[:-1])))
    return links[first], start[first], end[np.append(first[1:], len(links)) - 1]


class _MessageCheck:
    """Messages of trees: hops take their time one after the other, each NPU gets or sends each piece once, in order.

    `sent`, `got`: sums that an NPU sends and copies that it gets, shape (pieces, NPUs).
    `summed`, `had`: when all sums that it got and its copy have arrived, shape (chunks, pieces, NPUs).
    `last`: when the last message arrives.
    """

    def __init__(self, schedule: GraphSchedule, chunks: int) -> None:
        plan = schedule.plan
        self.chunks, self.network, self.pieces, self.last = chunks, plan.instance.network, plan.pieces, 0
        self.number = np.full(len(self.network.nodes), -1)
        self.number[list(self.network.capacities.terminals)] = np.arange(self.network.num_npus)
        arcs, self.size = self.network.arcs, len(self.network.nodes)
        keys = np.array([tail * self.size + head for tail, head in arcs], dtype=np.int64)
        order = np.argsort(keys)
        self.keys, self.latency = keys[order], np.array([self.network.latencies[arc] for arc in arcs])[order]
        rates = sorted(set(arcs.values()))
        self.rate = np.array([rates.index(rate) for rate in arcs.values()])[order]
        elements = np.array([piece.elements for piece in self.pieces])
        parts = elements // schedule.chunks + (np.arange(chunks)[:, None] < elements % schedule.chunks)
        counts, self.part = np.unique(parts, return_inverse=True)
        self.part = self.part.reshape(parts.shape)
        byte = plan.instance.element_bytes * PICOSECONDS_PER_SECOND
        self.times = np.array([[math.ceil(count * byte / rate) for rate in rates] for count in counts.tolist()])
        shape = len(self.pieces), self.network.num_npus
        self.sent, self.got = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self.summed, self.had = np.zeros((2, chunks, *shape), dtype=np.int64)
        self.sums: list[tuple[IntArray, IntArray, IntArray]] = []
        self.copies: list[tuple[IntArray, IntArray, IntArray]] = []
        self.busy: list[tuple[IntArray, IntArray, IntArray]] = []
        self.link_type = np.min_scalar_type(len(self.keys))  # numbers of 16 bits are sorted by counting

    def add(self, messages: SlotMessages, starts: IntArray, are_sums: bool) -> None:
        """Check the hops of messages, and keep who sends and gets what when."""
        senders, receivers, arrivals = self.timed(messages, starts)
        np.add.at(self.sent if are_sums else self.got, (messages.roots, senders if are_sums else receivers), 1)
        (self.sums if are_sums else self.copies).append((messages.roots, senders, starts[:, 0]))
        last = self.summed if are_sums else self.had
        for chunk in range(self.chunks):
            np.maximum.at(last[chunk], (messages.roots, receivers), arrivals[:, chunk])

    def timed(self, messages: SlotMessages, starts: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Check the hops of messages; who sends and gets them, and when they arrive, shape (messages, chunks)."""
        tails, heads = messages.nodes[:, :-1], messages.nodes[:, 1:]
        arcs = messages.arcs
        if (self.keys.take(arcs, mode="clip") != tails * self.size + heads).any():
            raise InvalidSchedule("links", "a message goes where no link is")
        parts = self.part[:, messages.roots % len(self.pieces)].T
        ends = starts + self.times[parts[:, None, :], self.rate[arcs][:, :, None]]
        arrivals = ends + self.latency[arcs][:, :, None]
        if (starts < 0).any() or (starts[:, 1:] < arrivals[:, :-1]).any():
            raise InvalidSchedule("order", "a message leaves a node before it is there")
        senders, receivers = self.number[tails[:, 0]], self.number[heads[:, -1]]
        if min(senders.min(), receivers.min()) < 0:
            raise InvalidSchedule("switches", "a switch only passes messages on")
        links = np.tile(arcs.T.ravel().astype(self.link_type), self.chunks)
        self.busy.append(_joined(links, starts.T.ravel(), ends.T.ravel()))
        self.last = max(self.last, int(arrivals.max()))
        return senders, receivers, arrivals[:, -1]

    def end(self) -> None:
        """Check what needs all messages: that links serve one at once, and that every NPU ends with what it wants."""
        _check_apart(*map(np.concatenate, zip(*self.busy, strict=True)))
        used = np.array([piece.elements > 0 for piece in self.pieces])
        roots = self._roots(self.sent, [piece.target for piece in self.pieces], used) if self.sums else None
        if self.copies:
            sources = [piece.source for piece in self.pieces]
            known = self._roots(self.got, sources, used)
            if roots is not None and (known != roots)[used].any():
                raise InvalidSchedule("data", "a piece is copied from another node than that with its sum")
            every = np.arange(len(used))
            self.had[:, every, known] = self.summed[:, every, known]
        for times, messages in ((self.summed, self.sums), (self.had, self.copies)):
            for pieces, senders, starts in messages:
                if (times[:, pieces, senders] > starts.T).any():
                    raise InvalidSchedule("data", "a node sends what it does not have")

    def _roots(self, counts: IntArray, ends: list[int | None], used: BoolArray) -> IntArray:
        """The NPU of each piece that sends no sum, or gets no copy, of which there is one; it is the end if one is."""
        if (counts[used].sum(axis=1) != self.network.num_npus - 1).any() or (counts[used] > 1).any():
            raise InvalidSchedule("data", "a node does not get it, or adds something twice")
        roots: IntArray = counts.argmin(axis=1)
        for piece, end in enumerate(ends):
            if end is not None and used[piece] and roots[piece] != self.number[end]:
                raise InvalidSchedule("data", f"piece {piece}: node {end} does not get it")
        return roots


class _PairCheck(_MessageCheck):
    """Messages of an all-to-all: those of a pair of NPUs follow each other from the source to the target."""

    def __init__(self, schedule: GraphSchedule, chunks: int) -> None:
        super().__init__(schedule, chunks)
        self.legs: list[tuple[IntArray, ...]] = []

    def add(self, messages: SlotMessages, starts: IntArray, are_sums: bool) -> None:
        """Check the hops of messages, and keep who passes on what when."""
        senders, receivers, arrivals = self.timed(messages, starts)
        self.legs.append((messages.roots, senders, receivers, starts[:, 0], arrivals))

    def end(self) -> None:
        """Check capacity, and that what each NPU has for each other one gets there."""
        _check_apart(*map(np.concatenate, zip(*self.busy, strict=True)))
        pairs, senders, receivers, starts, arrivals = map(np.concatenate, zip(*self.legs, strict=True))
        order = np.lexsort((starts[:, 0], pairs))
        pairs, senders, receivers, starts, arrivals = (a[order] for a in (pairs, senders, receivers, starts, arrivals))
        first, count = np.flatnonzero(np.diff(pairs, prepend=-1)), self.network.num_npus
        last, every = np.append(first[1:], len(pairs)) - 1, np.arange(count * count)
        wanted = every[every // count != every % count]
        if not np.array_equal(pairs[first], wanted):
            raise InvalidSchedule("data", "a node does not get what another one has for it")
        if (senders[first] != wanted // count).any() or (receivers[last] != wanted % count).any():
            raise InvalidSchedule("data", "a node sends what it does not have, or gets what others want")
        passed = np.setdiff1d(np.arange(len(pairs)), last)
        if (receivers[passed] != senders[passed + 1]).any() or (arrivals[passed] > starts[passed + 1]).any():
            raise InvalidSchedule("data", "a node sends what it does not have")

"""The law of chunks: few chunks of unequal sizes that keep every dimension of a network busy (docs/law.md).

This file needs the standard library alone, and its functions take floats as well as fractions.  A chunk of s bytes
holds a dimension of P NPUs for s (1 - 1 / P) times its `byte_time` if it visits that dimension first, and for 1 / P' of
that after dimensions of P' NPUs.  All times are of a collective of one byte.

A *block* is a set of chunks of one reduce-scatter or all-reduce on some dimensions, with an order on each dimension.  A
block is *solid* if its dimensions are busy from its begin to its end.  Two groups of dimensions, at least one of them a
single dimension, make a larger block: one portion of the data visits the slower group first, the other portions visit
the faster group first, each as a block of either group (theorem 3).
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod
from operator import add
from typing import NamedTuple

SCATTER, GATHER = 0, 1
FLOAT_ERROR = 1e-12  # relative error of floats that decides no comparison
MOST_PORTIONS = 24  # that visit the faster group first
TRIED_PORTIONS = (1, 2, 3, 4, MOST_PORTIONS)  # few are better where a chunk costs something
MOST_LAW_CHUNKS = 64  # of a block
LEAST_GAP = 1e-6  # gap below which no more portions are made

DimensionGroup = tuple[int, ...]  # dimensions
Stages = list[tuple[int, int]]  # chunks and phases in the order in which a dimension serves them
LawOrders = dict[int, Stages]  # per dimension


class LawDimension(NamedTuple):
    """NPUs of a dimension, and the time in which a byte leaves an NPU.

    `fixed`, `lag`: time for which each stage holds the dimension besides, and from then to its result.
    """

    npus: int
    byte_time: float
    fixed: float = 0
    lag: float = 0


class Chunk(NamedTuple):
    """A share of the data, and the dimensions in the order of its scatters; it gathers in the reverse order.

    `begin`, `tail`: time from the begin of the block to its first stage, and from its last stage to the end.
    """

    share: float
    path: DimensionGroup
    begin: float
    tail: float


class ChunkBlock(NamedTuple):
    """Chunks with an order on each dimension, and whether all dimensions are busy from begin to end."""

    chunks: list[Chunk]
    orders: LawOrders
    is_solid: bool


NO_BLOCK = ChunkBlock([], {}, is_solid=False)  # where all have more than MOST_LAW_CHUNKS


class Visit(NamedTuple):
    """A portion that visits one group first: its scatters there, all it does on the other group, and its gathers.

    `head`, `foot`: least time from its begin to the begin of the middle, and from the end of the middle to its end.
    """

    share: float
    chunks: list[Chunk]
    scatters: LawOrders
    middle: LawOrders
    gathers: LawOrders
    head: float
    foot: float
    is_solid: bool


def best_block(
    network: Sequence[LawDimension], phases: int, size: float, most_chunks: int = MOST_LAW_CHUNKS
) -> ChunkBlock:
    """The block of at most so many chunks that takes the least time for a collective of some bytes.

    More portions than a solid block needs are not tried, nor are costs that depend on the number of chunks solved for.
    """
    by_bandwidth = tuple(sorted(range(len(network)), key=lambda k: network[k].byte_time))
    stages = [(0, SCATTER), (0, GATHER)][:phases]
    best = ChunkBlock([Chunk(1, by_bandwidth, 0, 0)], dict.fromkeys(by_bandwidth, stages), is_solid=False)
    least = makespan(network, best, phases, size)
    for most in TRIED_PORTIONS:
        block = ChunkLaw(network, most).block(tuple(range(len(network))), phases)
        if 0 < len(block.chunks) <= most_chunks:
            time = makespan(network, block, phases, size)
            best, least = (block, time) if time < least else (best, least)
        if block.is_solid:
            break
    return best


def whole_sizes(block: ChunkBlock, size: int, unit: int) -> list[int]:
    """Bytes of each chunk in multiples of a unit, nearest to the shares, largest remainders first."""
    whole = total(chunk.share for chunk in block.chunks)
    exact = [chunk.share / whole * (size // unit) for chunk in block.chunks]
    units = [int(number) for number in exact]
    by_rest = sorted(range(len(units)), key=lambda number: units[number] - exact[number])
    for number in by_rest[: size // unit - sum(units)]:
        units[number] += 1
    return [number * unit for number in units]


NO_VISIT = Visit(0, [], {}, {}, {}, 0, 0, is_solid=False)


class ChunkLaw:
    """The blocks of one network.

    `phases`: 2 for an all-reduce, 1 for a reduce-scatter.  An all-gather is a reduce-scatter backwards.
    `most`: portions that may visit a group first; where these are too few, a block is not solid.
    """

    def __init__(
        self, network: Sequence[LawDimension], most: int = MOST_PORTIONS, rounding: float = FLOAT_ERROR
    ) -> None:
        self.network, self.most, self.rounding = network, most, rounding
        self._blocks: dict[tuple[DimensionGroup, int], ChunkBlock] = {}

    def block(self, group: DimensionGroup, phases: int) -> ChunkBlock:
        """The solid block of fewest chunks, or the shortest block if none is solid."""
        if (group, phases) not in self._blocks:
            self._blocks[group, phases] = self._best(group, phases)
        return self._blocks[group, phases]

    def least_time(self, group: DimensionGroup) -> float:
        """Time in which the dimensions of a group together scatter all data: that of a solid block in each phase."""
        bandwidth = total(1 / self.network[k].byte_time for k in group)
        return (bandwidth / bandwidth - bandwidth / bandwidth / self._npus(group)) / bandwidth

    def _npus(self, group: DimensionGroup) -> int:
        return prod(self.network[k].npus for k in group)

    def _best(self, group: DimensionGroup, phases: int) -> ChunkBlock:
        if len(group) == 1:
            stages = [(0, SCATTER), (0, GATHER)][:phases]
            return ChunkBlock([Chunk(1, group, 0, 0)], {group[0]: stages}, is_solid=True)
        alone = group if len(group) > 2 else group[:1]
        pairs = [self._in_order((k,), tuple(other for other in group if other != k)) for k in alone]
        solid = [block for pair in pairs if (block := self._solid(*pair, phases))]
        if solid:
            return min(solid, key=lambda block: len(block.chunks))
        blocks = [block for pair in pairs if (block := self._of_few(*pair, phases)).chunks]
        return min(blocks, key=lambda block: makespan(self.network, block, phases), default=NO_BLOCK)

    def _in_order(self, one: DimensionGroup, two: DimensionGroup) -> tuple[DimensionGroup, DimensionGroup]:
        """The two groups, first the one that ends later what is scattered on it first if both share data evenly."""
        ratio = self.least_time(two) / self.least_time(one)
        return (one, two) if ratio * ratio * self._npus(two) >= self._npus(one) else (two, one)

    def _solid(self, first: DimensionGroup, other: DimensionGroup, phases: int) -> ChunkBlock | None:
        """The solid block of two groups with fewest portions, if `most` are enough."""
        ratio, npus = self.least_time(other) / self.least_time(first), self._npus(first)
        if ratio >= npus:
            return None
        share = balanced_share(ratio, npus, self._npus(other))
        parts = [self.block(other, 1 if len(other) > 1 else phases), self.block(first, 1)]
        if len(other) > 1:
            parts.append(self.block(other, phases))
        if len(first) > 1:
            parts.append(self.block(first, phases))
        if not all(part.is_solid for part in parts):
            return None
        for count in range(1, self.most + 1):
            sizes, _ = growing_sizes(count, ratio / npus, phases)
            block = self._of_portions(first, other, sizes, share, phases)
            if block.is_solid or not block.chunks:
                return block if block.is_solid else None
        return None

    def _of_few(self, first: DimensionGroup, other: DimensionGroup, phases: int) -> ChunkBlock:
        """A block of two groups in which the other group is idle for a short time (theorem 4)."""
        ratio, npus = self.least_time(other) / self.least_time(first), self._npus(first)
        may_nest = ratio >= npus and len(other) == 1
        for count in range(1, self.most + 1):
            sizes, is_nested = growing_sizes(count, ratio / npus, phases, may_nest)
            if ratio * total(sizes) >= npus / LEAST_GAP:
                break
        share = 1 / (1 + ratio * total(sizes))
        if ratio < npus:
            share = max(share, balanced_share(ratio, npus, self._npus(other)))
        else:
            more, is_more_nested = growing_sizes(count + 1, ratio / npus, phases, may_nest)
            if phases * ratio * share * (1 - 1 / npus) > phases / total(more):
                share, sizes, is_nested = 0, more, is_more_nested
        return self._of_portions(first, other, sizes, share, phases, is_nested=is_nested)._replace(is_solid=False)

    def _of_portions(
        self,
        first: DimensionGroup,
        other: DimensionGroup,
        sizes: Sequence[float],
        share: float,
        phases: int,
        is_nested: bool = False,
    ) -> ChunkBlock:
        """The block in which a share visits the other group first, and portions of these sizes the first group."""
        last = self._visit(other, first, share, phases) if share > 0 else NO_VISIT
        whole = total(sizes)
        visits = [self._visit(first, other, size * (1 - share) / whole, phases) for size in sizes]
        counts = [len(visit.chunks) for visit in (*visits, last)]
        if 0 in counts[:-1] or (share > 0 and counts[-1] == 0) or sum(counts) > MOST_LAW_CHUNKS:
            return NO_BLOCK
        unit = self.least_time(first)
        served = phases * self.least_time(other) / self._npus(first)
        start = share * self.least_time(other)
        ends = [(visits, [visit.head for visit in visits]), (visits[::-1], [visit.foot for visit in visits[::-1]])]
        in_time = all(
            is_in_time([visit.share for visit in portions], waits, unit, start, served, self.rounding)
            for portions, waits in ends[:phases]
        )
        is_solid = in_time and all(visit.is_solid for visit in (last, *visits))
        return _joined(last, visits, unit, phases, is_nested=is_nested, is_solid=is_solid)

    def _visit(self, first: DimensionGroup, other: DimensionGroup, share: float, phases: int) -> Visit:
        """A portion of the data that visits one group first; one of the groups is a single dimension."""
        time = share * self.least_time(first)
        if len(first) > 1:
            block = self.block(first, 1)
            chunks = [Chunk(c.share * share, c.path + other, c.begin * share, c.begin * share) for c in block.chunks]
            middle = [(number, phase) for number in range(len(chunks)) for phase in range(phases)]
            gathers = {k: [(number, GATHER) for number, _ in reversed(order)] for k, order in block.orders.items()}
            return Visit(share, chunks, block.orders, {other[0]: middle}, gathers, time, time, block.is_solid)
        block, part = self.block(other, phases), share / self._npus(first)
        times = [chunk.share * time for chunk in block.chunks]
        begins, head = in_turn(times, [chunk.begin * part for chunk in block.chunks])
        tails, foot = in_turn(times, [chunk.tail * part for chunk in block.chunks])
        chunks = [
            Chunk(chunk.share * share, first + chunk.path, begin, tail)
            for chunk, begin, tail in zip(block.chunks, begins, tails, strict=True)
        ]
        scatters = [(number, SCATTER) for number in sorted(range(len(chunks)), key=begins.__getitem__)]
        gathers_of_one = [(number, GATHER) for number in sorted(range(len(chunks)), key=tails.__getitem__)][::-1]
        orders = {first[0]: scatters}, block.orders, {first[0]: gathers_of_one}
        return Visit(share, chunks, *orders, head, foot, block.is_solid)


def total(numbers: Iterable[float]) -> float:
    """The sum, rounded number by number as in C; `sum` is more exact from Python 3.12 on."""
    return reduce(add, numbers)


def balanced_share(ratio: float, npus: int, other_npus: int) -> float:
    """Share that visits the other group first if both groups take the same time (theorem 1)."""
    balance = 1 - ratio / npus
    return balance / (balance + ratio - ratio / ratio / other_npus)


def growing_sizes(count: int, shrunk: float, phases: int, may_nest: bool = False) -> tuple[list[float], bool]:
    """Sizes of portions of which the first is 1, and whether they gather in the reverse order of their scatters.

    The time on the other group is `shrunk` times that on the first one in each phase.  Sizes grow from both ends if
    both phases of a portion follow each other on the other group, and from one end if they are nested (theorem 2).
    """
    one = shrunk / shrunk
    nested = [one * shrunk**place for place in range(count)]
    if phases == 1:
        return nested, False
    growth = max(one, 2 * shrunk)
    sizes = [one * growth ** min(place, count - 1 - place) for place in range(count)]
    return (nested, True) if may_nest and total(nested) > total(sizes) else (sizes, False)


def in_turn(times: Sequence[float], deadlines: Sequence[float]) -> tuple[list[float], float]:
    """When a dimension begins each chunk if it serves them by their deadlines, and by how much the latest is late."""
    begins: list[float] = [0] * len(times)
    time: float = 0
    late: float = 0
    for number in sorted(range(len(times)), key=deadlines.__getitem__):
        begins[number] = time
        time += times[number]
        late = max(late, time - deadlines[number])
    return begins, late


def is_in_time(
    shares: Sequence[float], waits: Sequence[float], unit: float, start: float, served: float, rounding: float
) -> bool:
    """Whether each portion arrives before the other group has served the ones before it.

    `waits`: time from the begin of each portion to its arrival; `unit`, `served`: time of all data on the first group,
    and on the other group after that; `start`: time for which the other group is busy before the first portion.
    """
    before: float = 0
    for share, wait in zip(shares, waits, strict=True):
        if before * unit + wait > (start + before * served) * (1 + rounding):
            return False
        before += share
    return True


def _joined(
    last: Visit, visits: Sequence[Visit], unit: float, phases: int, *, is_nested: bool, is_solid: bool
) -> ChunkBlock:
    """One block of the portion that visits the other group first and of those that visit the first group."""
    chunks, numbered = list(last.chunks), []
    before: float = 0
    for visit in visits:
        shift, after = len(chunks), total(v.share for v in visits) - before - visit.share
        chunks += [c._replace(begin=c.begin + before * unit, tail=c.tail + after * unit) for c in visit.chunks]
        numbered.append(tuple(_shifted(orders, shift) for orders in (visit.scatters, visit.middle, visit.gathers)))
        before += visit.share
    scatters, middles, gathers = zip(*numbered, strict=True)
    if is_nested:
        gathering = [_in_phase(middle, GATHER) for middle in middles[::-1]]
        middles, gathers = (*(_in_phase(middle, SCATTER) for middle in middles), *gathering), gathers[::-1]
    parts = [last.scatters, *scatters, last.middle, *middles]
    if phases == 2:
        parts += [*gathers, last.gathers]
    orders: LawOrders = {}
    for part in parts:
        for k, stages in part.items():
            orders.setdefault(k, []).extend(stages)
    return ChunkBlock(chunks, orders, is_solid)


def _in_phase(orders: LawOrders, phase: int) -> LawOrders:
    return {k: [stage for stage in order if stage[1] == phase] for k, order in orders.items()}


def _shifted(orders: LawOrders, shift: int) -> LawOrders:
    return {k: [(number + shift, phase) for number, phase in order] for k, order in orders.items()}


def makespan(network: Sequence[LawDimension], block: ChunkBlock, phases: int, size: float = 1) -> float:
    """Time of a collective of some bytes, every dimension serving its stages in the order of the block."""
    ready, free, served = [0 * size] * len(block.chunks), [0 * size] * len(network), [0] * len(network)
    width = len(block.orders)
    place = [0] * len(block.chunks)  # of the next stage of each chunk
    turn = list(range(len(block.chunks)))
    while turn:
        number = turn.pop()
        chunk = block.chunks[number]
        while place[number] < width * phases:
            position = place[number]
            phase = position // width
            local = position if phase == SCATTER else 2 * width - 1 - position
            k = chunk.path[local]
            order = block.orders[k]
            if order[served[k]] != (number, phase):
                break
            dimension = network[k]
            held = chunk.share * size / prod(network[other].npus for other in chunk.path[:local])
            begin = max(ready[number], free[k])
            free[k] = begin + held * dimension.byte_time * (dimension.npus - 1) / dimension.npus + dimension.fixed
            ready[number] = free[k] + dimension.lag
            place[number] += 1
            served[k] += 1
            if served[k] < len(order) and order[served[k]][0] != number:
                turn.append(order[served[k]][0])
    return max(ready)

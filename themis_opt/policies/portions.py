"""Solid blocks of any number of dimensions, from solid blocks of fewer (theorem 4 of docs/law.md).

Two groups of dimensions, at least one of them a single dimension, make a larger block: one portion of the data visits
the slower group first, the other portions visit the faster group first, each as a block of either group.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from themis_opt.policies.chunk_law import (
    FLOAT_ERROR,
    Chunk,
    ChunkBlock,
    LawDimension,
    Path,
    Stages,
    growing_sizes,
    total,
)

MOST_PORTIONS = 24  # that visit the faster group first
MOST_LOTS = 64  # of a block


class Lot(NamedTuple):
    """A chunk of a block; time from the begin of the block to its first stage, and from its last stage to the end."""

    share: float
    path: Path
    begin: float
    tail: float


class Visit(NamedTuple):
    """A portion that visits one group first: its scatters there, all it does on the other group, and its gathers.

    `head`, `foot`: least time from its begin to the begin of the middle, and from the end of the middle to its end.
    """

    share: float
    pieces: list[Lot]
    parts: tuple[Stages, Stages, Stages]
    head: float
    foot: float


Pieces = tuple[list[Lot], Stages]


class Portions:
    """The solid blocks of one network.

    `most_chunks`: of a block; `most`: portions that may visit a group first.
    """

    def __init__(
        self,
        network: Sequence[LawDimension],
        most_chunks: int = MOST_LOTS,
        most: int = MOST_PORTIONS,
        rounding: float = FLOAT_ERROR,
    ) -> None:
        self.network, self.most_chunks, self.most, self.rounding = network, most_chunks, most, rounding
        self._blocks: dict[tuple[Path, int], Pieces | None] = {}

    def block(self, phases: int) -> ChunkBlock | None:
        """The block of fewest chunks for an all-reduce (2 phases) or a reduce-scatter, or None."""
        pieces = self._block(tuple(range(len(self.network))), phases)
        if pieces is None:
            return None
        return ChunkBlock([Chunk(piece.share, piece.path) for piece in pieces[0]], pieces[1], is_solid=True)

    def least_time(self, group: Path) -> float:
        """Time in which the dimensions of a group together scatter one byte."""
        bandwidth = total(1 / self.network[k].byte_time for k in group)
        return (bandwidth / bandwidth - bandwidth / bandwidth / self._npus(group)) / bandwidth

    def _npus(self, group: Path) -> int:
        return prod(self.network[k].npus for k in group)

    def _block(self, group: Path, phases: int) -> Pieces | None:
        if (group, phases) not in self._blocks:
            blocks = self._blocks_of(group, phases)
            self._blocks[group, phases] = min(blocks, key=lambda block: len(block[0]), default=None)
        return self._blocks[group, phases]

    def _blocks_of(self, group: Path, phases: int) -> Iterator[Pieces]:
        if len(group) == 1:
            yield [Lot(1, group * phases, 0, 0)], [(0, 0), (0, 1)][:phases]
            return
        for k in group if len(group) > 2 else group[:1]:
            one, two = (k,), tuple(other for other in group if other != k)
            ratio = self.least_time(two) / self.least_time(one)
            is_in_order = ratio * ratio * self._npus(two) >= self._npus(one)
            block = self._of_two(one, two, phases) if is_in_order else self._of_two(two, one, phases)
            if block:
                yield block

    def _of_two(self, first: Path, other: Path, phases: int) -> Pieces | None:
        """The block of two groups with fewest portions."""
        ratio, npus = self.least_time(other) / self.least_time(first), self._npus(first)
        if ratio >= npus:
            return None
        balance = 1 - ratio / npus
        share = balance / (balance + ratio - ratio / ratio / self._npus(other))
        for count in range(1, self.most + 1):
            sizes, _ = growing_sizes(count, ratio / npus, phases)
            whole = total(sizes)
            last = self.visit(other, first, share, phases)
            visits = [self.visit(first, other, size * (1 - share) / whole, phases) for size in sizes]
            parts = [visit for visit in (last, *visits) if visit]
            if len(parts) <= count or sum(len(visit.pieces) for visit in parts) > self.most_chunks:
                return None
            if self._is_in_time(first, other, parts, phases):
                return joined(parts, self.least_time(first), phases)
        return None

    def _is_in_time(self, first: Path, other: Path, visits: Sequence[Visit], phases: int) -> bool:
        """Whether each portion arrives before the other group has served the ones before it, from both ends."""
        unit, served = self.least_time(first), phases * self.least_time(other) / self._npus(first)
        start, portions = visits[0].share * self.least_time(other), visits[1:]
        ends = [[(v.share, v.head) for v in portions], [(v.share, v.foot) for v in reversed(portions)]]
        for shares in ends[:phases]:
            before: float = 0
            for share, wait in shares:
                if before * unit + wait > (start + before * served) * (1 + self.rounding):
                    return False
                before += share
        return True

    def visit(self, first: Path, other: Path, share: float, phases: int) -> Visit | None:
        """A portion of the data that visits one group first; one of the groups is a single dimension."""
        time, last = share * self.least_time(first), 2 * (len(first) + len(other)) - 1
        block = self._block(first, 1) if len(first) > 1 else self._block(other, phases)
        if block is None or (len(first) > 1 and phases == 2 and self._block(first, 2) is None):
            return None
        pieces, stages = block
        numbers = range(len(pieces))
        if len(first) > 1:
            pieces = [
                Lot(p.share * share, p.path + other * phases + p.path[::-1] * (phases - 1), *[p.begin * share] * 2)
                for p in pieces
            ]
            middle = [(number, len(first) + phase) for number in numbers for phase in range(phases)]
            gathers = [(number, last - position) for number, position in reversed(stages)]
            return Visit(share, pieces, (stages, middle, gathers), time, time)
        part = share / self._npus(first)
        times = [piece.share * time for piece in pieces]
        begins, head = in_turn(times, [piece.begin * part for piece in pieces])
        tails, foot = in_turn(times, [piece.tail * part for piece in pieces])
        pieces = [
            Lot(p.share * share, first + p.path + first * (phases - 1), begin, tail)
            for p, begin, tail in zip(pieces, begins, tails, strict=True)
        ]
        scatters = [(number, 0) for number in sorted(numbers, key=begins.__getitem__)]
        middle = [(number, position + 1) for number, position in stages]
        gathers = [(number, last) for number in sorted(numbers, key=tails.__getitem__)][::-1]
        return Visit(share, pieces, (scatters, middle, gathers), head, foot)


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


def joined(visits: Sequence[Visit], unit: float, phases: int) -> Pieces:
    """One block of the portion that visits the other group first and of those that visit the first group."""
    pieces: list[Lot] = []
    parts: list[list[Stages]] = [[], [], []]
    before: float = 0
    whole = total(visit.share for visit in visits[1:])
    for visit in visits:
        for place, stages in zip(parts, visit.parts, strict=True):
            place.append([(number + len(pieces), position) for number, position in stages])
        if visit is visits[0]:
            pieces += visit.pieces
            continue
        after = whole - before - visit.share
        pieces += [p._replace(begin=p.begin + before * unit, tail=p.tail + after * unit) for p in visit.pieces]
        before += visit.share
    scatters, middles, gathers = parts
    order = [*scatters, *middles, *([*gathers[1:], gathers[0]] if phases == 2 else [])]
    return pieces, [stage for part in order for stage in part]

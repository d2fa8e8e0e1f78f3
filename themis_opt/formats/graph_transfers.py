"""Schedules on graphs as transfers between buffers of GPUs: the messages of :mod:`~.msccl.transfers` for any network.

A piece of a chunk is a *part*, which has a number of whole units of the buffer.  A message through switches goes from
GPU to GPU, and one that other GPUs pass on becomes one for each of them, with scratch in between.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError
from themis_opt.formats.msccl.transfers import (
    INPUT,
    OUTPUT,
    SCRATCH,
    SHARE_TOLERANCE,
    Buffers,
    Copy,
    Layout,
    MscclProgram,
    Transfer,
    UnitPlace,
)
from themis_opt.graphs.plan import divide
from themis_opt.graphs.policies import with_transfers
from themis_opt.graphs.rails import box_name
from themis_opt.graphs.schedule import GraphSchedule, Hops, simulate_graph
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.phases import Demand, Ends

MOST_EXPORTED_CHUNKS = 4  # chunks of a piece: runtimes cut messages in slices themselves


class PiecePart(NamedTuple):
    """A chunk of a piece: ranks of its source and target, and where its units begin in its block, or in the buffer."""

    source: int | None
    target: int | None
    begin: int
    units: int


class Leg(NamedTuple):
    """A message from GPU to GPU, by ranks: a leg of a transfer of a chunk."""

    chunk: int
    transfer: int
    source: int
    target: int
    is_first: bool
    is_last: bool


@dataclass(frozen=True, eq=False)
class GraphLayout(Layout):
    """The buffers of a collective on a graph.

    `ranks`: GPUs.
    `block_units`: units of the block of each of them.
    `relayed`: units of scratch for messages that a GPU passes on.
    """

    ranks: int = 0
    block_units: int = 0
    relayed: int = 0

    @cached_property
    def num_gpus(self) -> int:
        """GPUs of the collective."""
        return self.ranks

    @cached_property
    def total(self) -> int:
        """Units of one block."""
        return self.block_units

    @cached_property
    def coordinates(self) -> list[tuple[int, ...]]:
        """Every GPU by its rank, within boxes and between them."""
        return [(rank, rank) for rank in range(self.ranks)]

    @cached_property
    def buffers(self) -> Buffers:
        """How long the buffers are, with scratch for what is passed on behind them."""
        whole, demand = self.ranks * self.block_units, self.kind.rule.demand
        is_gather, is_scatter = demand == Demand(Ends.EACH, Ends.ALL), demand == Demand(Ends.ALL, Ends.EACH)
        return Buffers(
            self.block_units if is_gather else whole,
            self.block_units if is_scatter else whole,
            self.relayed + (whole if demand and demand.is_backwards else 0),
        )


def to_export(schedule: GraphSchedule) -> GraphSchedule:
    """The schedule in as few chunks as are exported, validated; that of slots with its transfers one by one."""
    plan = with_transfers(schedule.plan)
    if schedule.chunks <= MOST_EXPORTED_CHUNKS and plan is schedule.plan:
        return schedule
    coarser = simulate_graph(plan, min(schedule.chunks, MOST_EXPORTED_CHUNKS))
    validate_graph(coarser)
    return coarser


def legs_of(schedule: GraphSchedule) -> Iterator[Leg]:
    """All messages from GPU to GPU, in an order in which they could be sent one after the other.

    Raises InputError if a switch adds or copies, which sends no messages between GPUs.
    """
    network, hops = schedule.plan.instance.network, Hops(schedule.plan)
    rank = {node: number for number, node in enumerate(network.capacities.terminals)}
    starts = schedule.start[:, hops.first[:-1]]
    order = np.lexsort((np.arange(starts.size), starts.ravel()))
    for chunk, number in (divmod(place, starts.shape[1]) for place in order.tolist()):
        transfer = schedule.plan.transfers[number]
        if transfer.route[0] not in rank or transfer.route[-1] not in rank:
            raise InputError("a switch that sums and copies sends no messages between GPUs", field="network.nodes")
        stops = [rank[node] for node in transfer.route if node in rank]
        for place, ends in enumerate(pairwise(stops)):
            yield Leg(chunk, number, *ends, place == 0, place == len(stops) - 2)


def graph_program(schedule: GraphSchedule, most_units: int) -> MscclProgram:
    """The transfers of a schedule, and the copies at its end.

    Raises InputError if shares need more units than there may be in a buffer, or a switch adds or copies.
    """
    parts, block_units = _parts(schedule, most_units)
    program = _UnitFlow(schedule, parts, block_units).program()
    buffers = program.layout.buffers
    if buffers.scratch > most_units:  # it is in proportion to the other buffers
        most_units = block_units * schedule.plan.instance.network.num_npus * most_units // buffers.scratch
        program = _UnitFlow(schedule, *_parts(schedule, most_units)).program()
    return program


def _parts(schedule: GraphSchedule, most_units: int) -> tuple[dict[tuple[int, int], PiecePart], int]:
    """Every part by its piece and chunk, and units of a block: as few as make the shares right."""
    instance, pieces = schedule.plan.instance, schedule.plan.pieces
    ranks = {node: number for number, node in enumerate(instance.network.capacities.terminals)}
    groups: dict[tuple[int | None, int | None], list[tuple[int, int, int]]] = {}
    for number, piece in enumerate(pieces):
        ends = tuple(None if end is None else ranks[end] for end in (piece.source, piece.target))
        small, larger = divmod(piece.elements, schedule.chunks)
        sizes = [small + (chunk < larger) for chunk in range(schedule.chunks)]
        entries = groups.setdefault(ends, [])  # type: ignore[arg-type]  # ends are two
        entries += [(number, chunk, size) for chunk, size in enumerate(sizes) if size]
    blocks = len(ranks) if not instance.demand.divided else 1
    shares = [[size for *_, size in entries] for entries in groups.values()]
    block_units = units_of_block(shares, blocks, most_units // len(ranks))
    parts: dict[tuple[int, int], PiecePart] = {}
    for (source, target), entries in groups.items():
        begin = 0
        for (number, chunk, _), count in zip(
            entries, divide(blocks * block_units, [size for *_, size in entries]), strict=True
        ):
            parts[number, chunk] = PiecePart(source, target, begin, count)
            begin += count
    return parts, block_units


def units_of_block(shares: Sequence[Sequence[int]], blocks: int, most: int) -> int:
    """Units of a block with which no share of a group is off by more than is tolerated, else by the least possible."""
    distinct, best, least = [np.array(share) for share in {tuple(share) for share in shares}], 0, float("inf")
    for units in range(-(-max(map(len, shares)) // blocks), most + 1):
        error = max(_deviation(share, blocks * units) for share in distinct)
        if error < least:
            best, least = units, error
        if least <= SHARE_TOLERANCE:
            break
    if not best:
        parts, smallest = max(map(len, shares)), min(min(share) / sum(share) for share in shares)
        rule = f"have {parts} parts, the least {smallest:.2g} of a buffer of {most * blocks} units: use fewer trees"
        raise InputError(rule, field="pieces")
    return best


def _deviation(share: IntArray, units: int) -> float:
    """By how much of it a part of a group differs at most; without bound where it has no unit."""
    every = share.sum()
    counts = np.diff(np.rint(units * np.cumsum(share) / every), prepend=0)
    return float(np.abs(counts * every / (units * share) - 1).max()) if counts.min() >= 1 else float("inf")


class PartVersion(NamedTuple):
    """What a GPU has of a part: its own contribution, or what the arrivals of some transfers make of it."""

    rank: int
    key: tuple[int, int]
    arrivals: frozenset[int]


class _UnitFlow:
    """Where every GPU holds every part, as transfers happen.

    Where sums cross, a GPU sends what it had before something else arrived.  As long as it has such versions to send,
    what arrives lies in new places.
    """

    def __init__(self, schedule: GraphSchedule, parts: dict[tuple[int, int], PiecePart], block_units: int) -> None:
        self.schedule, self.parts, self.block_units = schedule, parts, block_units
        self.kind = schedule.plan.instance.kind
        self.names = schedule.plan.instance.network.npus
        self.numbers = {key: number for number, key in enumerate(parts)}
        self.latest: dict[tuple[int, tuple[int, int]], PartVersion] = {}
        self.places: dict[PartVersion, UnitPlace] = {}
        self.former = Counter[tuple[int, tuple[int, int]]]()
        self.passing: dict[tuple[int, int], UnitPlace] = {}
        self.relayed = [0] * len(self.names)

    def program(self) -> MscclProgram:
        """All transfers, and the copies at the end."""
        legs = self._legs()
        for leg in legs:
            self.former[leg.source, self._key(leg)] += self._is_former(leg)
            if leg.is_last:
                self._arrive(leg)
        self.latest.clear()
        transfers = [self._transfer(leg) for leg in legs]
        copies, instance = list(self._copies()), self.schedule.plan.instance
        collective = instance.collective
        exchange = Exchange(instance.kind.value, instance.kind, collective.size, 1, (0, 1), collective.element_bytes)
        count = len(self.names)
        layout = GraphLayout(
            exchange,
            (count, count),
            np.array([part.units for part in self.parts.values()]),
            np.zeros((1, 1), dtype=np.int64),
            ranks=count,
            block_units=self.block_units,
            relayed=max(self.relayed),
        )
        return MscclProgram(layout, transfers, copies)

    def _legs(self) -> list[Leg]:
        """All messages of parts that have elements, as they begin; a part whose sums need it goes round by round."""
        legs = [leg for leg in legs_of(self.schedule) if self._key(leg) in self.parts]
        known, places = set[PartVersion](), defaultdict[tuple[int, int], list[int]](list)
        late = set[tuple[int, int]]()
        for place, leg in enumerate(legs):
            places[self._key(leg)].append(place)
            if leg.is_first and (sent := self._sent(leg)).arrivals and sent not in known:
                late.add(self._key(leg))
            if leg.is_last:
                known.add(self._arrive(leg))
        self.latest.clear()
        rounds = list[int]()
        for transfer in self.schedule.plan.transfers:
            rounds.append(1 + max((rounds[number] for number in transfer.after), default=0))
        result = legs.copy()
        for key in late:
            in_rounds = sorted(places[key], key=lambda place: rounds[legs[place].transfer])
            for place, former in zip(places[key], in_rounds, strict=True):
                result[place] = legs[former]
        return result

    def _key(self, leg: Leg) -> tuple[int, int]:
        return self.schedule.plan.transfers[leg.transfer].piece, leg.chunk

    def _latest(self, rank: int, key: tuple[int, int]) -> PartVersion:
        return self.latest.get((rank, key), PartVersion(rank, key, frozenset()))

    def _sent(self, leg: Leg) -> PartVersion:
        return PartVersion(leg.source, self._key(leg), frozenset(self.schedule.plan.transfers[leg.transfer].after))

    def _is_former(self, leg: Leg) -> bool:
        """Whether its source has something else by now."""
        return leg.is_first and self._sent(leg) != self._latest(leg.source, self._key(leg))

    def _arrive(self, leg: Leg) -> PartVersion:
        """What its target has of the part from now on."""
        key, adds = self._key(leg), self.schedule.plan.transfers[leg.transfer].adds
        before = self._latest(leg.target, key).arrivals if adds else frozenset[int]()
        version = self.latest[leg.target, key] = PartVersion(leg.target, key, before | {leg.transfer})
        return version

    def _transfer(self, leg: Leg) -> Transfer:
        key, adds = self._key(leg), self.schedule.plan.transfers[leg.transfer].adds
        part, added, kept = self.parts[key], None, None
        if not leg.is_first:
            taken = self.passing[key]
        else:
            sent = self._sent(leg)
            if sent.arrivals and sent not in self.places:
                rule = "sends sums without what arrived before, which no buffer holds: export a schedule of trees"
                raise InputError(rule, field="schedule", value=self.schedule.plan.name)
            taken = self._place(sent)
            self.former[leg.source, key] -= self._is_former(leg)
        if leg.is_last:
            added = self._place(self._latest(leg.target, key)) if adds else None
            kept = None if self.former[leg.target, key] else self._home(leg.target, part)
        if kept is None:
            kept = self.passing[key] = self._relay(leg.target, part)
        if leg.is_last:
            self.places[self._arrive(leg)] = kept
        boxes = [box_name(self.names[rank]) for rank in (leg.source, leg.target)]
        outside = int(boxes[0] != boxes[1])
        return Transfer(leg.source, leg.target, outside, taken, added, kept, part.units, self.numbers[key])

    def _relay(self, rank: int, part: PiecePart) -> UnitPlace:
        base = self.block_units * len(self.names) * self.demand.is_backwards
        place = UnitPlace(SCRATCH, base + self.relayed[rank])
        self.relayed[rank] += part.units
        return place

    def _place(self, version: PartVersion) -> UnitPlace:
        """Where a GPU holds a version: at first in its input."""
        part = self.parts[version.key]
        block = part.target if self.demand.targets is Ends.EACH else None
        return self.places.get(version, UnitPlace(INPUT, (block or 0) * self.block_units + part.begin))

    def _home(self, rank: int, part: PiecePart) -> UnitPlace | None:
        """Where a GPU writes a part that it receives; None where the data are not for it."""
        demand = self.demand
        if demand.personal and rank != part.target:
            return None
        if demand.is_backwards and rank != part.target:
            return UnitPlace(SCRATCH, (part.target or 0) * self.block_units * demand.divided + part.begin)
        has_blocks = demand.divided and not demand.sums
        return UnitPlace(OUTPUT, (part.source or 0) * self.block_units * has_blocks + part.begin)

    @property
    def demand(self) -> Demand:
        """What must reach whom."""
        demand = self.kind.rule.demand
        assert demand is not None  # of every collective on a graph
        return demand

    def _copies(self) -> Iterator[Copy]:
        """Copies of parts that never moved to their places in the output."""
        for key, part in self.parts.items():
            for rank in range(len(self.names)):
                home = self._home(rank, part)
                has_it = part.source in (None, rank) or (rank, key) in self.latest
                wants_it = part.target in (None, rank)
                place = self._place(self._latest(rank, key))
                if home and has_it and wants_it and place != home:
                    yield Copy(rank, place, home, part.units, self.numbers[key])
        if self.demand.personal:
            for rank in range(len(self.names)):
                begin = rank * self.block_units
                yield Copy(rank, UnitPlace(INPUT, begin), UnitPlace(OUTPUT, begin), self.block_units, 0)

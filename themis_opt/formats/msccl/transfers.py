"""A schedule as transfers between the buffers of GPUs, whatever runtime carries them out.

A collective of N NPUs is cut in N U *units*, each chunk taking its share of U in every of the N blocks.  Where data lie
is tracked symbolically: every GPU knows for each block of each chunk which buffer holds it.  A block that is received
goes to its place in the output if no other GPU needs it from there in another shape, else to scratch; what GPUs began
with is never overwritten, unless input and output are the same memory.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, product
from typing import ClassVar, NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError
from themis_opt.formats.msccl.algorithm import EXPORT_LOG, MAX_XML_NAME
from themis_opt.problem.cost import stage_phases
from themis_opt.problem.exchanges import refuse_sends
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import CollectiveKind, Data, Demand, Ends, Phase
from themis_opt.problem.rails import refuse_rails
from themis_opt.schedules.messages import Messages, stage_messages
from themis_opt.schedules.schedule import Schedule

INPUT, OUTPUT, SCRATCH = "i", "o", "s"

MAX_BLOCKS = 2 * 10**6  # blocks of all chunks on all GPUs: half as many take 20 s, and make files of 28 MB
SHARE_TOLERANCE = 0.005
"""By how much of a chunk its share in whole units may differ from its share in bytes, where units allow it."""


class UnitPlace(NamedTuple):
    """Units of a buffer, from `offset` on."""

    buffer: str
    offset: int

    def moved(self, units: int) -> "UnitPlace":
        """The place so many units further."""
        return UnitPlace(self.buffer, self.offset + units)


class Transfer(NamedTuple):
    """Units on their way from one GPU to another."""

    source: int
    target: int
    dimension: int  # its position in the span of the collective
    taken: UnitPlace  # where the source reads them
    added: UnitPlace | None  # what the target adds to them
    kept: UnitPlace  # where the target writes them
    units: int
    chunk: int  # of the collective
    place: int = 0  # of its stage on the path of the chunk

    def at(self, chunk: int, moved: int) -> "Transfer":
        """The same of another chunk, whose data lie so many units further."""
        added = self.added and self.added.moved(moved)
        return self._replace(taken=self.taken.moved(moved), added=added, kept=self.kept.moved(moved), chunk=chunk)


class Copy(NamedTuple):
    """Units that a GPU copies, since they never moved and belong in the output."""

    gpu: int
    taken: UnitPlace
    kept: UnitPlace
    units: int
    chunk: int

    def at(self, chunk: int, moved: int) -> "Copy":
        """The same of another chunk, whose data lie so many units further."""
        return Copy(self.gpu, self.taken.moved(moved), self.kept.moved(moved), self.units, chunk)


@dataclass(frozen=True, eq=False)
class Layout:
    """The buffers of a collective.

    `sizes`, `coordinates`: GPUs along each dimension that transfers name, and the places of all GPUs along these.
    `units`, shape (chunks,): units of each chunk, or of other parts.
    `total`: units of one block.
    `relayed`: units of scratch for what GPUs pass on.
    """

    kind: CollectiveKind
    sizes: tuple[int, ...]
    coordinates: Sequence[tuple[int, ...]]
    units: IntArray
    total: int
    relayed: int

    @property
    def num_gpus(self) -> int:
        """GPUs of the collective."""
        return len(self.coordinates)

    @property
    def is_flat(self) -> bool:
        """Whether blocks may lie in any order, since every GPU has all of them before or after, or none."""
        return self.kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE)

    @cached_property
    def buffers(self) -> dict[str, int]:
        """Units of each buffer of a GPU: sums that one of them wants are made in scratch."""
        whole, demand = self.num_gpus * self.total, self.kind.rule.demand
        return {
            INPUT: self.total if demand == Demand(Ends.EACH, Ends.ALL) else whole,
            OUTPUT: self.total if demand == Demand(Ends.ALL, Ends.EACH) else whole,
            SCRATCH: self.relayed + (whole if demand and demand.is_backwards else 0),
        }

    def same_memory(self, gpu: int, place: UnitPlace) -> UnitPlace:
        """A place under the name that it shares with others where output and input are the same memory."""
        if self.kind is CollectiveKind.ALL_GATHER and place.buffer == INPUT:
            return UnitPlace(OUTPUT, gpu * self.total + place.offset)
        if self.kind is CollectiveKind.REDUCE_SCATTER and place.buffer == OUTPUT:
            return UnitPlace(INPUT, gpu * self.total + place.offset)
        return UnitPlace(OUTPUT, place.offset) if self.is_flat and place.buffer == INPUT else place


@dataclass(frozen=True, eq=False)
class ChunkedLayout(Layout):
    """Where the chunks of a collective lie in the buffers; every block has units of each of them."""

    paths: IntArray  # shape (chunks, stages): as in Chunks, but positions in the span

    @cached_property
    def starts(self) -> list[int]:
        """First unit of each chunk."""
        return [0, *np.cumsum(self.units)[:-1].tolist()]

    def address(self, chunk: int, block: int) -> int:
        """First unit of a block of a chunk in a buffer that holds all blocks.

        Where blocks may lie in any order, those that the scatter of the chunk keeps together lie together.
        """
        if chunk not in self._addresses:
            self._addresses[chunk] = [self._address(chunk, b) for b in range(self.num_gpus)]
        return self._addresses[chunk][block]

    @cached_property
    def _addresses(self) -> dict[int, list[int]]:
        return {}

    def _address(self, chunk: int, block: int) -> int:
        if not self.is_flat:
            return block * self.total + self.starts[chunk]
        place = 0
        for axis in self.paths[chunk, : len(self.sizes)].tolist():
            place = place * self.sizes[axis] + self.coordinates[block][axis]
        return self.num_gpus * self.starts[chunk] + place * int(self.units[chunk])

    def distance(self, chunk: int, other: int) -> int:
        """By how many units the places of one chunk lie before those of another one of the same size and path."""
        return (self.num_gpus if self.is_flat else 1) * (self.starts[other] - self.starts[chunk])

    @cached_property
    def strides(self) -> list[int]:
        """How far two GPUs are apart that are neighbours along each dimension."""
        return [math.prod(self.sizes[:axis]) for axis in range(len(self.sizes))]


def works_in_place(kind: CollectiveKind) -> bool:
    """Whether output and input of a collective may be the same memory."""
    return kind is not CollectiveKind.ALL_TO_ALL


@dataclass(frozen=True, eq=False)
class MscclProgram:
    """All transfers of a collective, in an order in which they could be carried out, and the copies at its end."""

    layout: Layout
    transfers: list[Transfer]
    copies: list[Copy]


class ProgramExporter:
    """What exporters share that write one collective of a schedule as a program of transfers.

    `collective`: the name of the collective; empty where there is one alone.
    """

    runtime: ClassVar[str]
    unit_bytes: ClassVar[int] = 0  # bytes of which a unit must be a multiple; 0 stands for those of an element
    collective: str

    def most_units(self, gpus: int) -> int:
        """Units of a block that a file may have."""
        raise NotImplementedError

    def launch(self, schedule: Schedule) -> int:
        """The number of the collective that is written.

        Raises InputError if there is no such collective, or several and none is named, or there is compute beside.
        """
        names = [exchange.name for exchange in schedule.launched]
        if schedule.has_period:
            rule = f"{self.runtime} runs collectives; export one of a training iteration alone"
            raise InputError(rule, field="iteration")
        refuse_sends(schedule.launched, self.runtime)
        refuse_rails(schedule.instance.fabric.dimensions, self.runtime)
        if self.collective and self.collective not in names:
            raise InputError(f"must be one of {', '.join(names)}", field="collective", value=self.collective)
        if not self.collective and len(names) > 1:
            several = f"{self.runtime} runs one collective at a time"
            rule = f"{several}; choose one of {', '.join(names)} by collective=NAME"
            raise InputError(rule, field="collectives", value=len(names))
        return names.index(self.collective) if self.collective else 0

    def name(self, schedule: Schedule) -> str:
        """The name of the files."""
        return plan_name(schedule.instance.name, schedule.launched[self.launch(schedule)].name)

    def units(self, schedule: Schedule) -> IntArray:
        """Units of each chunk in a block."""
        launch = self.launch(schedule)
        sizes, element_bytes = schedule.plan.chunks[launch].sizes, schedule.launched[launch].element_bytes
        return share_units(sizes, element_bytes, self.most_units(num_gpus(schedule, launch)))

    def multiple(self, schedule: Schedule) -> int:
        """Bytes that messages must be multiples of: a unit of every GPU is one element or more, or aligned."""
        launch = self.launch(schedule)
        unit_bytes = self.unit_bytes or schedule.launched[launch].element_bytes
        return num_gpus(schedule, launch) * int(self.units(schedule).sum()) * unit_bytes


def plan_name(instance: str, collective: str) -> str:
    """A name for files, from the instance and the collective."""
    text = f"{instance}.{collective}" if instance else collective
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:MAX_XML_NAME].strip("._") or "schedule"


def num_gpus(schedule: Schedule, launch: int) -> int:
    """GPUs that a collective spans."""
    return math.prod(schedule.instance.fabric.sizes[k] for k in schedule.launched[launch].span)


def share_units(sizes: IntArray, element_bytes: int, most: int) -> IntArray:
    """How many units each chunk gets: one if all are equal, else as few as make their shares right.

    `sizes`, shape (chunks,): bytes of the chunks.
    `most`: how many units there may be, at least as many as chunks.
    """
    count = len(sizes)
    if sizes.max() - sizes.min() <= element_bytes:
        return np.ones(count, dtype=np.int64)
    shares, best, least = sizes / sizes.sum(), np.ones(count, dtype=np.int64), math.inf
    for total in range(count, most + 1):
        units = np.maximum(np.rint(shares * total), 1).astype(np.int64)
        error = deviation(units, sizes) if units.sum() <= most else math.inf
        if error < least:
            best, least = units, error
        if least <= SHARE_TOLERANCE:
            break
    return best


def deviation(units: IntArray, sizes: IntArray) -> float:
    """By how much of a chunk its share in units differs from its share in bytes, at most."""
    return float(np.abs(units / units.sum() * sizes.sum() / sizes - 1).max())


def one_chunk_of_each_path(schedule: Schedule, launch: int) -> dict[int, int]:
    """A chunk for every path that chunks of a collective take, with how many chunks send as many messages."""
    _, first, counts = np.unique(schedule.plan.chunks[launch].paths, axis=0, return_index=True, return_counts=True)
    return dict(zip(first.tolist(), counts.tolist(), strict=True))


def transfers_of(schedule: Schedule, launch: int, units: IntArray, only: Collection[int] | None = None) -> MscclProgram:
    """The transfers of one collective of a schedule, stage after stage by their starts.

    Raises InputError if there are more than :data:`MAX_BLOCKS`.

    `only`: the chunks whose transfers are made; all by default.
    """
    exchange, chunks = schedule.launched[launch], schedule.plan.chunks[launch]
    gpus, count = num_gpus(schedule, launch), len(chunks.sizes)
    if gpus**2 * count > MAX_BLOCKS:
        most = MAX_BLOCKS // gpus**2
        remedy = f"use at most {most} chunk{'s' if most > 1 else ''}" if most else "use fewer GPUs"
        rule = f"{count} chunks of {gpus} blocks on {gpus} GPUs are {gpus**2 * count:,}"
        raise InputError(f"{rule}, at most {MAX_BLOCKS:,} are followed: {remedy}", field="chunks", value=count)
    position = np.full(len(schedule.instance.fabric.sizes), -1)
    position[list(exchange.span)] = range(len(exchange.span))
    dimensions = [schedule.instance.fabric.dimensions[k] for k in exchange.span]
    sizes, total, kind = tuple(d.size for d in dimensions), int(units.sum()), exchange.kind
    places = [tuple(reversed(place)) for place in product(*map(range, reversed(sizes)))]
    relayed = (len(sizes) - 1) * gpus * total if kind is CollectiveKind.ALL_TO_ALL else 0
    layout = ChunkedLayout(kind, sizes, places, units, total, relayed, position[chunks.paths])
    chunk_numbers = range(len(units)) if only is None else only
    first: dict[tuple[int, ...], int] = {}  # of as many units on the same path: data of others move alike, elsewhere
    alike = {c: first.setdefault((int(units[c]), *layout.paths[c].tolist()), c) for c in chunk_numbers}
    tracker = _UnitTracker(layout, dimensions, set(alike.values()))
    offset, width = schedule.plan.offsets[launch], chunks.paths.shape[1]
    followed = {(chunk, place): list(tracker.stage(chunk, place)) for chunk in tracker.chunks for place in range(width)}
    starts = schedule.start[offset : offset + chunks.paths.size]
    order = np.lexsort((np.arange(len(starts)), np.tile(np.arange(width), len(units)), starts))
    transfers: list[Transfer] = []
    for chunk, place in (divmod(stage, width) for stage in order.tolist()):
        if chunk in alike:
            moved = layout.distance(alike[chunk], chunk)
            transfers += [transfer.at(chunk, moved) for transfer in followed[alike[chunk], place]]
            EXPORT_LOG.info("%s messages between GPUs", f"{len(transfers):,}")
    copies = {key: list(each) for key, each in groupby(tracker.copies(), lambda copy: (copy.gpu, copy.chunk))}
    all_copies = [
        copy.at(chunk, layout.distance(alike[chunk], chunk))
        for gpu in range(layout.num_gpus)
        for chunk in chunk_numbers
        for copy in copies.get((gpu, alike[chunk]), ())
    ]
    return MscclProgram(layout, transfers, all_copies)


class _UnitMove(NamedTuple):
    """A block on its way, before neighbours are joined."""

    taken: UnitPlace
    added: UnitPlace | None
    kept: UnitPlace


_BlockMoves = list[tuple[tuple[int, int], list[int]]]  # blocks between NPUs, by source and target
_Arrived = dict[tuple[int, int], UnitPlace]  # where GPUs have written blocks in a step, by GPU and block


def _by_ends(messages: Messages) -> _BlockMoves:
    """Which blocks each NPU of a dimension sends to which."""
    joined: dict[tuple[int, int], list[int]] = {}
    for source, target, block, _ in zip(*(array.tolist() for array in messages), strict=True):
        joined.setdefault((source, target), []).append(block)
    return list(joined.items())


class _UnitTracker:
    """Where every GPU holds every block of every chunk."""

    def __init__(self, layout: ChunkedLayout, dimensions: Sequence[Dimension], chunks: Collection[int]) -> None:
        self.layout, self.chunks = layout, chunks
        self.phases = [Phase(p) for p in stage_phases(layout.kind, layout.paths.shape[1])]
        self.steps = {
            (phase, axis): stage_messages(phase, dimension)
            for phase in set(self.phases)
            for axis, dimension in enumerate(dimensions)
        }
        has_one, gpus = layout.kind is CollectiveKind.ALL_GATHER, range(layout.num_gpus)
        first = {c: [layout.starts[c] if has_one else layout.address(c, block) for block in gpus] for c in chunks}
        self.held = [{c: [UnitPlace(INPUT, at) for at in offsets] for c, offsets in first.items()} for _ in gpus]

    def stage(self, chunk: int, position: int) -> Iterator[Transfer]:
        axis, phase = int(self.layout.paths[chunk, position]), self.phases[position]
        width = len(self.layout.sizes)
        visited = self.layout.paths[chunk, position // width * width : position].tolist()
        rest = [other for other in range(width) if other not in (*visited, axis)]
        is_open = {Data.SHRINK: rest, Data.GROW: visited, Data.STAY: [*visited, *rest]}[phase.rule.data]
        rooted = (visited if phase.rule.data is Data.GROW else rest) if phase.rule.rooted else []
        groups = [gpu for gpu, at in enumerate(self.layout.coordinates) if not any(at[k] for k in (axis, *rooted))]
        arrived: _Arrived = {}
        for messages in self.steps[phase, axis]:
            for base in groups:
                moves = [(ends, self._blocks(base, axis, blocks, is_open)) for ends, blocks in _by_ends(messages)]
                yield from self._step(chunk, position, base, moves, arrived)
            if phase.rule.data is not Data.STAY:  # an all-to-all sends what was there before the stage
                self._keep(chunk, arrived)
        self._keep(chunk, arrived)

    def _blocks(self, base: int, axis: int, along: Sequence[int], is_open: Sequence[int]) -> list[int]:
        """Numbers of the blocks with coordinates `along` a dimension, any along open ones, else those of the group."""
        layout = self.layout
        first = base - sum(layout.coordinates[base][k] * layout.strides[k] for k in is_open)
        free = product(*([n * layout.strides[k] for n in range(layout.sizes[k])] for k in is_open))
        return [first + coordinate * layout.strides[axis] + sum(rest) for rest in free for coordinate in along]

    def _step(self, chunk: int, position: int, base: int, moves: _BlockMoves, arrived: _Arrived) -> Iterator[Transfer]:
        """The transfers of one step in a group; those to one block are added up one after the other."""
        axis, rule = int(self.layout.paths[chunk, position]), self.phases[position].rule
        stride = self.layout.strides[axis]
        for (near, far), blocks in moves:
            source, target = base + near * stride, base + far * stride
            shift = (near - far) * stride if rule.data is Data.STAY else 0  # kept as the block of the source
            block_moves = []
            for block in blocks:
                place = target, block + shift
                addend = arrived.get(place, self.held[target][chunk][block]) if rule.reduces else None
                kept = self._kept(target, chunk, block + shift, position)
                block_moves.append(_UnitMove(self.held[source][chunk][block], addend, kept))
                arrived[place] = kept
            for move, count in _joined(block_moves, int(self.layout.units[chunk])):
                yield Transfer(source, target, axis, *move, count, chunk, position)

    def _keep(self, chunk: int, arrived: _Arrived) -> None:
        for (target, block), kept in arrived.items():
            self.held[target][chunk][block] = kept
        arrived.clear()

    def _kept(self, gpu: int, chunk: int, block: int, position: int) -> UnitPlace:
        """Where a block is written that a GPU receives."""
        layout = self.layout
        address = layout.address(chunk, block)
        if layout.kind is CollectiveKind.REDUCE_SCATTER:
            return UnitPlace(OUTPUT, layout.starts[chunk]) if block == gpu else UnitPlace(SCRATCH, address)
        if layout.kind is CollectiveKind.REDUCE and gpu != 0:
            return UnitPlace(SCRATCH, address)
        if layout.kind is CollectiveKind.ALL_TO_ALL:
            left = layout.paths[chunk, position + 1 :].tolist()
            if any(layout.coordinates[block][k] != layout.coordinates[gpu][k] for k in left):
                return UnitPlace(SCRATCH, position * layout.num_gpus * layout.total + address)
        return UnitPlace(OUTPUT, address)

    def copies(self) -> Iterator[Copy]:
        """Copies of blocks to their places after everything moved."""
        for gpu, chunks in enumerate(self.held):
            for chunk, held in chunks.items():
                wanted = self._wanted(gpu, chunk)
                moves = [_UnitMove(held[b], None, kept) for b, kept in wanted if held[b] != kept]
                for move, count in _joined(moves, int(self.layout.units[chunk])):
                    yield Copy(gpu, move.taken, move.kept, count, chunk)

    def _wanted(self, gpu: int, chunk: int) -> Iterator[tuple[int, UnitPlace]]:
        """The blocks that a GPU must have in the end, and where."""
        layout = self.layout
        if layout.kind is CollectiveKind.REDUCE_SCATTER:
            yield gpu, UnitPlace(OUTPUT, layout.starts[chunk])
        elif layout.kind is not CollectiveKind.REDUCE or gpu == 0:
            for block in range(layout.num_gpus):
                yield block, UnitPlace(OUTPUT, layout.address(chunk, block))


def _joined(moves: Sequence[_UnitMove], units: int) -> Iterator[tuple[_UnitMove, int]]:
    """Neighbouring blocks as one, with how many units they have together."""
    moves = sorted(moves, key=lambda move: move.kept)
    first = 0
    for end in range(1, len(moves) + 1):
        following = (place and place.moved((end - first) * units) for place in moves[first])
        if end == len(moves) or moves[end] != tuple(following):
            yield moves[first], (end - first) * units
            first = end

"""The messages of a stage: packed from the buffer, paced, checked and reduced into it."""

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from themis_opt.base.arrays import read_only
from themis_opt.problem.network import Algorithm
from themis_opt.problem.phases import CollectiveKind, Data, Phase
from themis_opt.runtime.elements import REDUCTIONS, divide, element_type, exact_limit
from themis_opt.runtime.layout import Array, StageView, coordinates, group_of, stage_view
from themis_opt.runtime.links import Frame, Incoming, Link, Outgoing, RankFailure
from themis_opt.runtime.program import LARGEST_SEGMENT, Program
from themis_opt.schedules.messages import Messages, algorithm_messages

FILL_SLICE = 2**16  # elements looked at at once: a rank holds little more than its buffer
TAPE = 65537  # elements after which data repeat: a prime, so that blocks of a buffer are not alike
_STRIDE = 40503  # elements between the places at which neighbouring ranks begin to read; all ranks begin elsewhere
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
"""Odd constants of the generator SplitMix64 (G. Steele et al., 2014, https://doi.org/10.1145/2714064.2660195)."""

RowSource = tuple[int, int]  # a member of a group and the row of its buffer


@lru_cache(maxsize=64)
def sources(kind: CollectiveKind, num_members: int) -> tuple[tuple[tuple[RowSource, ...], ...], ...]:
    """The sources that are added up in each row of each member's buffer in the end: the definition of the kind.

    Every row that a member holds in the beginning is one bit of a whole number, so that sums show where they come from.

    Returns sources per member and row; none where a member must hold nothing.
    """
    grows = kind.rule.phases[0].rule.data is Data.GROW
    rows = [[member] if grows else range(num_members) for member in range(num_members)]
    initial = np.array([[1 << (g * num_members + j) for j in row] for g, row in enumerate(rows)], dtype=object)
    outcome = kind.rule.outcome(initial, (num_members,))
    table: list[list[tuple[RowSource, ...]]] = [[()] * num_members for _ in range(num_members)]
    for member, row in enumerate(outcome):
        places = [member] if len(row) < num_members else range(num_members)
        for place, bits in zip(places, row, strict=True):
            table[member][place] = tuple(divmod(k, num_members) for k in range(bits.bit_length()) if bits >> k & 1)
    return tuple(map(tuple, table))


@lru_cache(maxsize=8)
def _tape(seed: int, dtype: str, num_ranks: int) -> Array:
    """The data of all ranks, followed by their begin, so that a slice from any place is one view."""
    mixed = np.arange(TAPE, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = (mixed + np.uint64(seed) * _MIX[0]) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX[1]
    limited = (mixed >> np.uint64(40)) % np.uint64(exact_limit(dtype, num_ranks) + 1)
    return _read_only(limited.astype(element_type(dtype)))


def _read_only(tape: Array) -> Array:
    return read_only(np.concatenate([tape, tape[: FILL_SLICE - 1]]))


def _begin(rank: int) -> int:
    return (rank + 1) * _STRIDE % TAPE


def fill(buffer: Array, seed: int, rank: int, num_members: int, dtype: str) -> None:
    """Fill the buffer of a rank, shape (rows * columns,), with its data."""
    for first in range(0, len(buffer), FILL_SLICE):
        part = buffer[first : first + FILL_SLICE]
        place = (_begin(rank) + first) % TAPE
        part[:] = _tape(seed, dtype, num_members)[place : place + len(part)]


def first_difference(
    buffer: Array, kind: CollectiveKind, seed: int, member: int, group: tuple[int, ...], dtype: str, reduction: str
) -> tuple[int, int, str, str] | None:
    """The first wrong element: its row, its column, the value it has and the right one.

    `buffer`, shape (rows * columns,): what the rank holds in the end.
    `member`: its number in the group.
    `group`: the ranks of the group.
    """
    num_columns = len(buffer) // len(group)
    for row, origin in enumerate(sources(kind, len(group))[member]):
        if not origin:
            continue
        for first in range(0, num_columns, FILL_SLICE):
            count = min(FILL_SLICE, num_columns - first)
            held = buffer[row * num_columns + first :][:count]
            begins = tuple((_begin(group[s]) + r * num_columns) % TAPE for s, r in origin)
            expected = _reduced_tape(seed, begins, dtype, len(group), reduction)[first % TAPE :][:count]
            bits = f"u{held.itemsize}"
            differs = np.flatnonzero(held.view(bits) != expected.view(bits))
            if len(differs):
                place = int(differs[0])
                return row, first + place, str(held[place]), str(expected[place])
    return None


@lru_cache(maxsize=32)
def _reduced_tape(seed: int, begins: tuple[int, ...], dtype: str, num_ranks: int, reduction: str) -> Array:
    """The results of ranks whose data begin at these places: sums of periodic data have the same period."""
    rule, tape = REDUCTIONS[reduction], _tape(seed, dtype, num_ranks)[:TAPE]
    total = np.roll(tape, -begins[0])
    for begin in begins[1:]:
        rule.combine(total, np.roll(tape, -begin), out=total)
    if rule.divides:
        divide(total, len(begins))
    return _read_only(total)


class PeerBlocks(NamedTuple):
    """Blocks that go to, or come from, the NPU with a coordinate along the dimension."""

    peer: int
    blocks: tuple[int, ...]


class RankStep(NamedTuple):
    """Messages that an NPU sends and receives at once; nothing that it sends is received in the same step."""

    sends: tuple[PeerBlocks, ...]
    receives: tuple[PeerBlocks, ...]


@lru_cache(maxsize=1024)
def steps_of(phase: Phase, algorithm: Algorithm, size: int, place: int) -> tuple[RankStep, ...]:
    """The steps of the NPU with coordinate `place` in a stage on a dimension of `size` NPUs."""
    steps = []
    for messages in _messages(phase, algorithm, size):
        out, back = messages.source == place, messages.target == place
        kept = messages.source if phase.rule.data is Data.STAY else messages.block  # exchanged ones are their senders'
        sends = _by_peer(messages.target[out].tolist(), messages.block[out].tolist())
        steps.append(RankStep(sends, _by_peer(messages.source[back].tolist(), kept[back].tolist())))
    return tuple(steps)


@lru_cache(maxsize=64)
def _messages(phase: Phase, algorithm: Algorithm, size: int) -> tuple[Messages, ...]:
    return tuple(algorithm_messages(phase, algorithm, size))


def _by_peer(peers: Sequence[int], blocks: Sequence[int]) -> tuple[PeerBlocks, ...]:
    blocks_by_peer: dict[int, list[int]] = {}
    for peer, block in zip(peers, blocks, strict=True):
        blocks_by_peer.setdefault(peer, []).append(block)
    return tuple(PeerBlocks(peer, tuple(numbers)) for peer, numbers in blocks_by_peer.items())


MAGIC = b"TOPT"
HEADER = struct.Struct("<4sHBBIIIIII")
"""Magic, launch, phase, dimension, iteration, chunk, step and part, segment, bytes, and their CRC-32."""

SUM_AT = HEADER.size - 4  # where the CRC stands: the bytes before it identify the message
PACER_BURST = 0.001
"""Seconds that a link may make up for when a rank wakes late, as the burst of a token bucket (12 KB at 100 Mb/s)."""

PRIMES = 1009, 1013  # of the seeds of data
BULK = 0.75  # share of the rest of a step that the next message carries: its sums are done while the rest is on its way
Corrupt = Callable[[Frame], None]


class Pacer:
    """One link of the model: when the last byte of a message has left it."""

    def __init__(self) -> None:
        self._free, self._lock = 0.0, Lock()

    def hold(self, seconds: float) -> float:
        """Take the link for some time, as soon as it is free; returns the end on the monotonic clock."""
        with self._lock:
            self._free = max(self._free, monotonic() - PACER_BURST) + seconds
            return self._free


class PacedLink(NamedTuple):
    """A link of the runtime with what paces it, for one lane of a dimension."""

    link: Link
    pacer: Pacer


class _RankStage(NamedTuple):
    """A stage of one rank."""

    iteration: int
    launch: int
    chunk: int
    dimension: int
    view: StageView


class _StepExchange(NamedTuple):
    """The messages of a step, and the bytes of data in them that are sent and received.

    `sends`: the rank that each is for, how many seconds it keeps a paced link, and what makes its frame.
    """

    sends: tuple[tuple[int, float, Callable[[], Frame]], ...]
    receives: tuple[Incoming, ...]
    traffic: tuple[int, int]


class _StageMoves(NamedTuple):
    """The work of a stage: its dimension, its steps, and the block of sums that it divides in the end."""

    dimension: int
    exchanges: tuple[_StepExchange, ...]
    average: Array | None


class Mover:
    """Does the stages of one rank, message by message.

    `channels`: per dimension and lane.
    `corrupt`: called with every frame after its checksum is made, for tests of faults.
    `num_messages`: about how many have arrived, by which others see that something moves.
    """

    def __init__(
        self, program: Program, rank: int, channels: Mapping[tuple[int, int], PacedLink], corrupt: Corrupt | None = None
    ) -> None:
        self._program, self._rank, self._channels, self._corrupt = program, rank, channels, corrupt
        self._places = coordinates(rank, program.sizes)
        self._neighbours = [group_of(rank, program.sizes, (k,)) for k in range(len(program.sizes))]
        self._dtype = element_type(program.dtype)
        self._buffers = {
            (iteration, number): np.zeros(program.elements(launch), self._dtype)
            for iteration in range(program.iterations)
            for number, launch in enumerate(program.launches)
        }
        self._traffic = {key: [0, 0] for key in channels}
        self.num_messages = 0
        self._moves: dict[int, _StageMoves] = {}

    @property
    def moved(self) -> list[int]:
        """Bytes of data sent along each dimension, or received where that is more."""
        lanes, dimensions = range(self._program.in_flight), range(len(self._program.sizes))
        ends = ([sum(self._traffic[k, lane][end] for lane in lanes) for end in (0, 1)] for k in dimensions)
        return [max(end) for end in ends]

    def close(self) -> None:
        """Let go of the messages, which refer back to this: buffers then go with it, without the garbage collector."""
        self._moves.clear()

    def prepare(self, seed: int) -> None:
        """Fill the buffers with the data of a run, count traffic from zero, and make the messages of all stages, once.

        Many ranks begin stages at the same time, and each delays the others.  Exchanges, which send copies, are left to
        the run.
        """
        program = self._program
        for counts in self._traffic.values():
            counts[:] = [0, 0]
        for (iteration, number), buffer in self._buffers.items():
            members = len(group_of(self._rank, program.sizes, program.launches[number].span))
            fill(buffer, _data_seed(seed, iteration, number), self._rank, members, program.dtype)
        if self._moves:
            return
        for operation in sorted(operation for queue in program.queues for operation in queue):
            if operation % program.num_operations >= program.num_tasks:
                stage = self._stage(operation)
                if stage.view.phase.rule.data is not Data.STAY:
                    self._moves[operation] = self._move(stage)

    def wrong_element(self, seed: int) -> str | None:
        """The first wrong element of the buffers, in words; launches of which a stage never runs are not checked."""
        program, rank = self._program, self._rank
        incomplete = {
            (operation // program.num_operations, program.stage_places[place][0])
            for operation in set(range(len(program.num_predecessors))).difference(*program.queues)
            if (place := operation % program.num_operations - program.num_tasks) >= 0
        }
        for (iteration, number), buffer in self._buffers.items():
            if (iteration, number) in incomplete:
                continue
            launch = program.launches[number]
            kind, group = launch.kind, group_of(rank, program.sizes, launch.span)
            place, data = group.index(rank), _data_seed(seed, iteration, number)
            difference = first_difference(buffer, kind, data, place, group, program.dtype, program.reduction)
            if difference:
                row, column, held, right = difference
                return f"{launch.name}: element ({row}, {column}) of rank {rank} is {held}, must be {right}"
        return None

    def __call__(self, operation: int, lane: int) -> None:
        """Do a stage."""
        move = self._moves.get(operation) or self._move(self._stage(operation))
        channel, pace = self._channels[move.dimension, lane], self._program.pace
        if pace is not None and move.exchanges:
            channel.pacer.hold(pace.launch[move.dimension])
        for exchange in move.exchanges:
            outgoing = [
                Outgoing(
                    peer, 0.0 if pace is None else channel.pacer.hold(seconds) + pace.latency[move.dimension], pack
                )
                for peer, seconds, pack in exchange.sends
            ]
            channel.link.exchange(outgoing, exchange.receives)
            for end, count in enumerate(exchange.traffic):
                self._traffic[move.dimension, lane][end] += count
        if move.average is not None:
            span = self._program.launches[self._stage(operation).launch].span
            divide(move.average, math.prod(self._program.sizes[k] for k in span))

    def _stage(self, operation: int) -> _RankStage:
        program = self._program
        iteration, number = divmod(operation, program.num_operations)
        launch, chunk, position = program.stage_places[number - program.num_tasks]
        launched = program.launches[launch]
        path, columns = launched.paths[chunk], launched.columns[chunk : chunk + 2]
        view = stage_view(launched.kind, launched.span, self._places, path, position, *columns)
        return _RankStage(iteration, launch, chunk, path[position], view)

    def _move(self, stage: _RankStage) -> _StageMoves:
        if not stage.view.takes_part:
            return _StageMoves(stage.dimension, (), None)
        span = self._program.launches[stage.launch].span
        sizes = [self._program.sizes[k] for k in reversed(span)]  # the outermost first, then the columns
        view = stage.view.of(self._buffers[stage.iteration, stage.launch].reshape(*sizes, -1))
        source = view.copy() if stage.view.phase.rule.data is Data.STAY else view
        size, place = self._program.sizes[stage.dimension], self._places[stage.dimension]
        algorithm = Algorithm(self._program.algorithms[stage.dimension])
        steps = steps_of(stage.view.phase, algorithm, size, place)
        exchanges = (self._exchange(stage, number, step, source, view) for number, step in enumerate(steps))
        others = sum(place is not None for place in stage.view.fixed)
        divides = REDUCTIONS[self._program.reduction].divides and stage.view.phase.rule.reduces
        average = view[place : place + 1] if divides and others == len(span) - 1 else None  # the sum of all ranks
        return _StageMoves(stage.dimension, tuple(exchanges), average)

    def _exchange(self, stage: _RankStage, number: int, step: RankStep, source: Array, view: Array) -> _StepExchange:
        pace, reduction = self._program.pace, REDUCTIONS[self._program.reduction]
        per_byte = 0.0 if pace is None else pace.seconds_per_byte[stage.view.phase][stage.dimension]
        combine = reduction.combine if stage.view.phase.rule.reduces else None
        sends, receives = [], []
        for peer, index, columns, size, header in self._messages(stage, number, step.sends, source):
            sends.append((peer, size * per_byte, partial(self._packed, source[..., columns], index, header)))
        for peer, index, columns, size, header in self._messages(stage, number, step.receives, view):
            check = partial(self._check, peer, header)
            unpack = partial(self._unpack, peer, header, view[..., columns], index, combine)
            receives.append(Incoming(peer, HEADER.size + size, HEADER.size, check, unpack))
        sent, received = (sum(view[_index(part.blocks)].nbytes for part in parts) for parts in step)
        return _StepExchange(tuple(sends), tuple(receives), (sent, received))

    def _messages(
        self, stage: _RankStage, step: int, parts: Sequence[PeerBlocks], view: Array
    ) -> Iterator[tuple[int, Any, slice, int, bytes]]:
        """Peer, blocks, columns, bytes and header of each message of a step."""
        for part in parts:
            row = len(part.blocks) * math.prod(view.shape[1:-1]) * view.itemsize
            for segment, columns in enumerate(self._segments(stage.dimension, view.shape[-1], row)):
                size = row * (columns.stop - columns.start)
                place = (stage.launch, stage.view.phase, stage.dimension, stage.iteration, stage.chunk)
                header = HEADER.pack(MAGIC, *place, step, segment, size, 0)[:SUM_AT]  # all but the checksum
                yield self._neighbours[stage.dimension][part.peer], _index(part.blocks), columns, size, header

    def _segments(self, dimension: int, num_columns: int, row: int) -> Iterator[slice]:
        """Columns, of `row` bytes each, that go into one message; the last messages are small."""
        smallest, first = max(self._program.segment[dimension] // row, 1), 0
        while num_columns - first > smallest:
            count = max(min(int((num_columns - first) * BULK), LARGEST_SEGMENT // row), 1)
            yield slice(first, first + count)
            first += count
        yield slice(first, num_columns)

    def _packed(self, view: Array, index: Any, header: bytes) -> Frame:
        """The frame of a message, made when it leaves."""
        part = view[index]
        frame = np.empty(HEADER.size + part.nbytes, np.uint8)
        payload = frame[HEADER.size :]
        payload.view(part.dtype).reshape(part.shape)[...] = part
        frame[:SUM_AT] = np.frombuffer(header, np.uint8)
        frame[SUM_AT : HEADER.size] = np.frombuffer(struct.pack("<I", zlib.crc32(payload.data)), np.uint8)
        if self._corrupt is not None:
            self._corrupt(frame.data)
        return frame.data

    def _check(self, peer: int, header: bytes, head: Frame) -> None:
        if bytes(head[:SUM_AT]) != header:
            sent, due = (self._words(bytes(words)) for words in (head[: HEADER.size], header + bytes(4)))
            raise RankFailure(peer, f"sent {sent} where {due} was due")

    def _unpack(
        self, peer: int, header: bytes, view: Array, index: Any, combine: Callable[..., Any] | None, frame: Frame
    ) -> None:
        """Check the data of a message, and put them where they belong."""
        payload = np.frombuffer(frame, np.uint8)[HEADER.size :]
        if zlib.crc32(payload.data) != struct.unpack("<I", frame[SUM_AT : HEADER.size])[0]:
            raise RankFailure(peer, f"sent garbage: the checksum of {self._words(header + bytes(4))} is wrong")
        self.num_messages += 1
        target = view[index]
        received = payload.view(view.dtype).reshape(target.shape)
        if combine is None:
            view[index] = received
        elif isinstance(index, slice):
            combine(target, received, out=target)
        else:
            view[index] = combine(target, received)

    def _words(self, header: bytes) -> str:
        """A header in words."""
        magic, launch, phase, dimension, iteration, chunk, step, segment, _, _ = HEADER.unpack(header)
        known = magic == MAGIC and phase in list(Phase) and launch < len(self._program.launches)
        if not known or dimension >= len(self._program.names):
            return "bytes that are no message"
        name, where = self._program.launches[launch].name, self._program.names[dimension]
        later = f" iteration {iteration}" if iteration else ""
        label = Phase(phase).rule.label
        return f"{name}{later} chunk {chunk} {label} on {where} step {step} segment {segment}"


def _data_seed(seed: int, iteration: int, launch: int) -> int:
    return (seed * PRIMES[0] + iteration) * PRIMES[1] + launch


def _index(blocks: tuple[int, ...]) -> Any:
    """Blocks as a slice where they follow each other, so that no copy is made."""
    first, last = blocks[0], blocks[-1]
    return slice(first, last + 1) if blocks == tuple(range(first, last + 1)) else list(blocks)

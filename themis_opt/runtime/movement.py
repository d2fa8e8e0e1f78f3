"""The messages of a stage: packed from the buffer, paced, checked and reduced into it."""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from themis_opt.problem.phases import Data, Phase
from themis_opt.runtime.elements import REDUCTIONS, divide, element_type
from themis_opt.runtime.layout import Array, StageView, buffer_tensor, coordinates, neighbours, phase_at, stage_view
from themis_opt.runtime.links import Frame, Incoming, Link, Outgoing, RankFailure
from themis_opt.runtime.program import LaunchPart, Program, algorithm_of, kind_of
from themis_opt.runtime.steps import Part, Step, steps_of

MAGIC = b"TOPT"
HEADER = struct.Struct("<4sHBBIIIIII")
"""Magic, launch, phase, dimension, iteration, chunk, step and part, segment, bytes, and their CRC-32."""

SUM_AT = HEADER.size - 4
"""Where the CRC stands: what is before it says which message it is."""

BURST = 0.001
"""Seconds that a link may make up for when a rank wakes late, as the burst of a token bucket (12 KB at 100 Mb/s)."""

Corrupt = Callable[[Frame], None]


class Pacer:
    """One link of the model: when the last byte of a message has left it."""

    def __init__(self) -> None:
        self._free, self._lock = 0.0, Lock()

    def hold(self, seconds: float) -> float:
        """Take the link for some time, as soon as it is free; returns the end on the monotonic clock."""
        with self._lock:
            self._free = max(self._free, monotonic() - BURST) + seconds
            return self._free


class Channel(NamedTuple):
    """A link of the runtime with what paces it, for one lane of a dimension."""

    link: Link
    pacer: Pacer


class _Stage(NamedTuple):
    """A stage of one rank."""

    number: int
    iteration: int
    launch: int
    chunk: int
    phase: Phase
    dimension: int
    view: StageView


class Mover:
    """Does the stages of one rank, message by message.

    Parameters
    ----------
    program : Program
    rank : int
    channels : mapping
        Per dimension and lane.
    corrupt : callable, optional
        Called with every frame after its checksum is made, for tests of faults.
    """

    def __init__(
        self,
        program: Program,
        rank: int,
        channels: Mapping[tuple[int, int], Channel],
        corrupt: Corrupt | None = None,
    ) -> None:
        self._program, self._rank, self._channels, self._corrupt = program, rank, channels, corrupt
        self._places = coordinates(rank, program.sizes)
        self._neighbours = [neighbours(rank, program.sizes, k) for k in range(len(program.sizes))]
        self._dtype = element_type(program.dtype)
        self.buffers = self._make_buffers()
        self._traffic = {key: [0, 0] for key in channels}

    @property
    def moved(self) -> list[int]:
        """Bytes of data sent along each dimension, or received where that is more."""
        lanes = range(self._program.in_flight)
        ends = ([sum(self._traffic[k, lane][end] for lane in lanes) for end in (0, 1)] for k in self._dimensions)
        return [max(own) for own in ends]

    @property
    def _dimensions(self) -> range:
        return range(len(self._program.sizes))

    def clear(self) -> None:
        """Count traffic from zero."""
        for counts in self._traffic.values():
            counts[:] = [0, 0]

    def _make_buffers(self) -> dict[tuple[int, int], Array]:
        """One for every launch of every iteration."""
        return {
            (iteration, number): np.zeros(self._program.elements(launch), self._dtype)
            for iteration in range(self._program.iterations)
            for number, launch in enumerate(self._program.launches)
        }

    def __call__(self, operation: int, lane: int) -> None:
        """Do a stage."""
        stage = self._stage(operation)
        if not stage.view.takes_part:
            return
        launch = self._program.launches[stage.launch]
        sizes = [self._program.sizes[k] for k in launch.span]
        view = stage.view.of(buffer_tensor(self.buffers[stage.iteration, stage.launch], sizes))
        self._move(stage, view, lane)
        if stage.phase.rule.reduces and REDUCTIONS[self._program.reduction].divides:
            self._divide_if_last(launch, stage, view)

    def _stage(self, operation: int) -> _Stage:
        program = self._program
        iteration, number = divmod(operation, program.num_operations)
        launch, chunk, position = program.stage_places[number - program.num_tasks]
        own = program.launches[launch]
        path, kind = own.paths[chunk], kind_of(own)
        view = stage_view(kind, own.span, self._places, path, position, *own.columns[chunk : chunk + 2])
        return _Stage(operation, iteration, launch, chunk, phase_at(kind, len(path), position), path[position], view)

    def _divide_if_last(self, launch: LaunchPart, stage: _Stage, view: Array) -> None:
        """Averages: once the own block holds the sum of all ranks, it is divided by their number."""
        others = sum(place is not None for place in stage.view.fixed)
        if others == len(launch.span) - 1:
            own = self._places[stage.dimension]
            divide(view[own : own + 1], int(np.prod([self._program.sizes[k] for k in launch.span])))

    def _move(self, stage: _Stage, view: Array, lane: int) -> None:
        channel = self._channels[stage.dimension, lane]
        size, own = self._program.sizes[stage.dimension], self._places[stage.dimension]
        source = view.copy() if stage.phase.rule.data is Data.STAY else view
        pace = self._program.pace
        if pace is not None:
            channel.pacer.hold(pace.launch[stage.dimension])
        algorithm = algorithm_of(self._program, stage.dimension)
        for number, step in enumerate(steps_of(stage.phase, algorithm, size, own)):
            self._exchange(stage, number, step, source, view, channel)
            for end, parts in enumerate(step):
                self._traffic[stage.dimension, lane][end] += sum(view[_index(own.blocks)].nbytes for own in parts)

    def _exchange(self, stage: _Stage, number: int, step: Step, source: Array, view: Array, channel: Channel) -> None:
        outgoing = list(self._outgoing(stage, number, step.sends, source, channel.pacer))
        incoming = list(self._incoming(stage, number, step.receives, view))
        channel.link.exchange(outgoing, incoming)

    def _outgoing(
        self, stage: _Stage, step: int, parts: Sequence[Part], source: Array, pacer: Pacer
    ) -> Iterator[Outgoing]:
        pace = self._program.pace
        for part in parts:
            peer = self._neighbours[stage.dimension][part.peer]
            blocks = source[_index(part.blocks)]
            for segment, (first, last) in enumerate(self._segments(stage, blocks)):
                own = blocks[..., first:last]
                due = 0.0
                if pace is not None:
                    due = pacer.hold(own.nbytes * pace.seconds_per_byte[stage.phase][stage.dimension])
                    due += pace.latency[stage.dimension]
                yield Outgoing(peer, due, _Packer(own, self._header(stage, step, segment, own.nbytes), self._corrupt))

    def _incoming(self, stage: _Stage, step: int, parts: Sequence[Part], view: Array) -> Iterator[Incoming]:
        combine = REDUCTIONS[self._program.reduction].combine if stage.phase.rule.reduces else None
        for part in parts:
            peer = self._neighbours[stage.dimension][part.peer]
            shape = (len(part.blocks), *view.shape[1:])
            for segment, (first, last) in enumerate(self._segments(stage, np.broadcast_to(view[:1], shape))):
                size = len(part.blocks) * int(np.prod(view.shape[1:-1])) * (last - first) * view.itemsize
                header = self._header(stage, step, segment, size)
                unpacker = _Unpacker(self, peer, header, view[..., first:last], _index(part.blocks), combine)
                yield Incoming(peer, HEADER.size + size, HEADER.size, unpacker.check, unpacker.unpack)

    def _segments(self, stage: _Stage, blocks: Array) -> Iterator[tuple[int, int]]:
        """Ranges of columns that fit into one message each; one without columns where there are none."""
        columns = blocks.shape[-1]
        row = max(blocks.nbytes // columns, 1) if columns else 1
        step = max(self._program.segment[stage.dimension] // row, 1)
        firsts = range(0, columns, step) if columns else (0,)
        return ((first, min(first + step, columns)) for first in firsts)

    def _header(self, stage: _Stage, step: int, segment: int, size: int) -> bytes:
        """Everything but the checksum."""
        place = (stage.launch, stage.phase, stage.dimension, stage.iteration, stage.chunk)
        return HEADER.pack(MAGIC, *place, step, segment, size, 0)[:SUM_AT]

    def words(self, header: bytes) -> str:
        """A header in words."""
        magic, launch, phase, dimension, iteration, chunk, step, segment, _, _ = HEADER.unpack(header)
        known = magic == MAGIC and phase in list(Phase) and launch < len(self._program.launches)
        if not known or dimension >= len(self._program.names):
            return "bytes that are no message"
        name, where = self._program.launches[launch].name, self._program.names[dimension]
        later = f" iteration {iteration}" if iteration else ""
        label = Phase(phase).rule.label
        return f"{name}{later} chunk {chunk} {label} on {where} step {step} segment {segment}"


def _index(blocks: tuple[int, ...]) -> Any:
    """Blocks as a slice where they follow each other, so that no copy is made."""
    first, last = blocks[0], blocks[-1]
    return slice(first, last + 1) if blocks == tuple(range(first, last + 1)) else list(blocks)


@dataclass(frozen=True)
class _Packer:
    """Makes the frame of a message when it leaves."""

    part: Array
    header: bytes
    corrupt: Corrupt | None

    def __call__(self) -> Frame:
        frame = np.empty(HEADER.size + self.part.nbytes, np.uint8)
        payload = frame[HEADER.size :]
        payload.view(self.part.dtype).reshape(self.part.shape)[...] = self.part
        frame[:SUM_AT] = np.frombuffer(self.header, np.uint8)
        frame[SUM_AT : HEADER.size] = np.frombuffer(struct.pack("<I", zlib.crc32(payload.data)), np.uint8)
        if self.corrupt is not None:
            self.corrupt(frame.data)
        return frame.data


@dataclass(frozen=True)
class _Unpacker:
    """Checks a message and puts it where it belongs."""

    mover: Mover
    peer: int
    header: bytes
    view: Array
    index: Any
    combine: Callable[..., Any] | None

    def check(self, head: Frame) -> None:
        if bytes(head[:SUM_AT]) != self.header:
            found, due = (self.mover.words(bytes(own)) for own in (head[: HEADER.size], self.header + bytes(4)))
            raise RankFailure(self.peer, f"sent {found} where {due} was due")

    def unpack(self, frame: Frame) -> None:
        payload = np.frombuffer(frame, np.uint8)[HEADER.size :]
        if zlib.crc32(payload.data) != struct.unpack("<I", frame[SUM_AT : HEADER.size])[0]:
            words = self.mover.words(self.header + bytes(4))
            raise RankFailure(self.peer, f"sent garbage: the checksum of {words} is wrong")
        target = self.view[self.index]
        received = payload.view(self.view.dtype).reshape(target.shape)
        if self.combine is None:
            self.view[self.index] = received
        elif isinstance(self.index, slice):
            self.combine(target, received, out=target)
        else:
            self.view[self.index] = self.combine(target, received)

"""The exporter ``mscclpp``: one collective of a schedule as a plan for the executor of MSCCL++, and its check.

A plan is one-sided: a GPU puts units into memory of its peer and signals, the peer waits.  Every message has scratch at
the receiver, which copies it, or adds it to its data, to where it belongs; so nothing is overwritten that
somebody still reads.  Before its first message a GPU tells its peers that it has begun, since scratch is used again by
the next call.

Each chunk has a separate threadblock, in which everything happens one after the other: chunks need nothing of each
other.  What the plan does not hold is the order of chunks on a dimension; there the hardware decides.

The format is that of https://github.com/microsoft/mscclpp, ``src/core/executor/execution_plan.cc``.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.exports import Fact
from themis_opt.formats.msccl.algorithm import MSCCL_COLLECTIVES, collective_named, first_too_large, followed
from themis_opt.formats.msccl.clock import TimedStep, replayed
from themis_opt.formats.msccl.interpreter import Units, check_results, random_memories
from themis_opt.formats.msccl.transfers import (
    INPUT,
    OUTPUT,
    SCRATCH,
    Copy,
    Layout,
    MscclProgram,
    ProgramExporter,
    Transfer,
    UnitPlace,
    one_chunk_of_each_path,
    transfers_of,
    works_in_place,
)
from themis_opt.schedules.schedule import Schedule

MAX_PLUS_OPERATIONS = 64  # operations of a threadblock, by the runtime
MAX_CHANNELS = 16  # of a threadblock, the latter of each type
MAX_UNITS = 4096  # units of a block: more would make puts smaller than what links carry well
ALIGNMENT = 16  # bytes of which units are multiples, by the runtime

UnitCount = Annotated[int, Field(ge=0)]
ChannelWay = Literal["memory", "port"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Buffer(_Strict):
    """Units of a buffer of the GPU, by its type, or of a remote one, by its number in the threadblock."""

    type: Literal["i", "o", "s"] | None = None
    buffer_id: UnitCount | None = None
    index: UnitCount
    size: Annotated[int, Field(gt=0)]


class Operation(_Strict):
    """An operation of a threadblock."""

    name: Literal["nop", "put", "pwsf", "signal", "wait", "copy", "re"]
    channel_type: ChannelWay | None = None
    channel_ids: Annotated[list[UnitCount], Field(max_length=8)] | None = None
    src_buff: list[Buffer] | None = None
    dst_buff: list[Buffer] | None = None
    reduce_op: Literal["sum"] | None = None


class Channels(_Strict):
    """Channels that a threadblock uses, by their numbers on the GPU among those of a type."""

    channel_type: ChannelWay
    channel_ids: Annotated[list[UnitCount], Field(max_length=MAX_CHANNELS)]


class References(_Strict):
    """Remote buffers that a threadblock uses, by their numbers on the GPU."""

    access_channel_type: ChannelWay
    remote_buffer_ids: list[UnitCount]


class PlusBlock(_Strict):
    """A threadblock."""

    id: UnitCount
    ops: Annotated[list[Operation], Field(max_length=MAX_PLUS_OPERATIONS)]
    channels: list[Channels]
    remote_buffer_refs: list[References]


class Connections(_Strict):
    """The channels of a GPU of one type: the n-th to a peer is the other end of the peer's n-th to the GPU."""

    channel_type: ChannelWay
    connected_to: list[UnitCount]


class Remote(_Strict):
    """A buffer of a peer that channels reach."""

    rank: UnitCount
    type: Literal["i", "o", "s"]
    access_channel_types: list[ChannelWay]


class PlanGpu(_Strict):
    """The work of a GPU, and its channels and buffers."""

    id: UnitCount
    input_chunks: UnitCount
    output_chunks: UnitCount
    scratch_chunks: UnitCount
    channels: list[Connections]
    remote_buffers: list[Remote]
    semaphores: list[dict[str, int]]
    threadblocks: list[PlusBlock]


class PlusPlan(_Strict):
    """The file."""

    name: str
    collective: str
    protocol: Literal["Simple"]
    inplace: bool
    reuse_resources: bool
    use_double_scratch_buffer: bool
    buffer_alignment: int
    num_threads_per_block: int
    min_message_size: UnitCount
    max_message_size: UnitCount
    gpus: list[PlanGpu]


@dataclass(frozen=True)
class MscclPlus(ProgramExporter):
    """Execution plan for MSCCL++: puts, signals and waits of threadblocks."""

    endings: ClassVar[tuple[str, ...]] = ("json",)
    runtime: ClassVar[str] = "MSCCL++"
    unit_bytes: ClassVar[int] = ALIGNMENT

    collective: str = ""  # which one of the schedule; the only one by default
    node_dimensions: int = 1  # within which GPUs reach each other's memory; beyond they use ports
    in_place: bool = False  # whether output and input are the same memory
    min_bytes: int = 0  # the smallest message for which it is used; 0 stands for no limit
    max_bytes: int = 0  # the largest one

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """The plan. Raises InputError if a chunk has more operations or peers than a threadblock may have."""
        launch, units, name = self.launch(schedule), self.units(schedule), self.name(schedule)
        span = schedule.launched[launch].span
        few = transfers_of(schedule, launch, units, only=one_chunk_of_each_path(schedule, launch))
        self.of_program(few, name, span)  # refuses what no number of chunks makes shorter, in seconds
        plan = self.of_program(transfers_of(schedule, launch, units), name, span)
        yield f"{name}.json", plan.model_dump_json(exclude_none=True) + "\n"

    def most_units(self, gpus: int) -> int:
        """Units of a block, however many GPUs there are."""
        return MAX_UNITS

    def of_program(self, program: MscclProgram, name: str, span: tuple[int, ...]) -> PlusPlan:
        """The plan of a program; `span` numbers the dimensions of its transfers."""
        if self.in_place and not works_in_place(program.layout.kind):
            raise InputError("must be false: this collective needs a separate output", field="in_place", value=True)
        return PlusPlan(
            name=name,
            collective=MSCCL_COLLECTIVES[program.layout.kind],
            protocol="Simple",
            inplace=self.in_place,
            reuse_resources=False,
            use_double_scratch_buffer=False,
            buffer_alignment=ALIGNMENT,
            num_threads_per_block=1024,
            min_message_size=self.min_bytes,
            max_message_size=first_too_large(self.max_bytes),
            gpus=_gpus(program, span, self.node_dimensions),
        )

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        count = self.multiple(schedule) // ALIGNMENT
        yield f"buffers must divide by {count:,} x {ALIGNMENT} bytes; the order of chunks on a dimension is not kept"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Check the file against its schema and limits, run it on data, and time it.

        Raises InputError or InvalidSchedule if it breaks them, or does not compute its collective.
        """
        launch, path = self.launch(schedule), folder / f"{self.name(schedule)}.json"
        yield from self.check_file(path.name, folder)
        program = transfers_of(schedule, launch, self.units(schedule))
        steps = {
            (gpu.id, block.id): [_timed(gpu, block, operation) for operation in block.ops]
            for gpu in _read(path).gpus
            for block in gpu.threadblocks
        }
        yield replayed("MSCCL++", steps, program, schedule, launch, by_chunk=True)

    def check_file(self, name: str, folder: Path) -> Iterator[str]:
        """The same for a file by its name, without its time."""
        plan = _read(folder / name)
        with followed(str(folder / name)):
            interpret_plan(plan)
        longest = max(len(block.ops) for gpu in plan.gpus for block in gpu.threadblocks)
        yield f"{name}: {len(plan.gpus)} GPUs, at most {longest} operations in a threadblock; schema and limits hold"
        yield "every GPU ends with its result; nobody waits for ever"


def _read(path: Path) -> PlusPlan:
    document = read_json(path)
    try:
        return PlusPlan.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(first["msg"], field=place, source=str(path)) from None


_PlusStep = tuple[Transfer, ...] | tuple[Copy, ...]
"""Transfers of a GPU to or from a peer at once, or its copies in the end."""


def _gpus(program: MscclProgram, span: tuple[int, ...], node_dimensions: int) -> list[PlanGpu]:
    layout, buffers = program.layout, program.layout.buffers
    messages: dict[tuple[int, int], list[tuple[Transfer, ...]]] = defaultdict(list)
    for (chunk, *ends_of_message), message in groupby(program.transfers, lambda t: (t.chunk, t.source, t.target)):
        parts = tuple(message)
        for gpu in ends_of_message:
            messages[gpu, chunk].append(parts)
    steps: dict[int, dict[int, list[_PlusStep]]] = defaultdict(lambda: defaultdict(list))
    for (gpu, chunk), of_chunk in messages.items():
        steps[gpu][chunk] += _with_early_sends(gpu, of_chunk, layout)
    for (chunk, gpu), copies in groupby(program.copies, lambda copy: (copy.chunk, copy.gpu)):
        steps[gpu][chunk].append(tuple(copies))
    slots, used = _slots(program)
    gpus = []
    for gpu in range(layout.num_gpus):
        chunks = [
            _ChunkWork(gpu, chunk, steps[gpu][chunk], _peers(gpu, steps[gpu][chunk], span, node_dimensions), slots)
            for chunk in range(len(layout.units))
        ]
        remote = sorted({(peer, way) for work in chunks for peer, way in work.peers.items()})
        channels: dict[ChannelWay, list[int]] = {"memory": [], "port": []}
        blocks = []
        for work in chunks:
            firsts = {way: len(peers) for way, peers in channels.items()}
            blocks.append(work.threadblock(firsts, remote))
            for peer, way in work.peers.items():
                channels[way].append(peer)
        gpus.append(
            PlanGpu(
                id=gpu,
                input_chunks=buffers[INPUT],
                output_chunks=buffers[OUTPUT],
                scratch_chunks=buffers[SCRATCH] + used[gpu],
                channels=[
                    Connections(channel_type=way, connected_to=peers) for way, peers in channels.items() if peers
                ],
                remote_buffers=[Remote(rank=peer, type="s", access_channel_types=[way]) for peer, way in remote],
                semaphores=[],
                threadblocks=blocks,
            )
        )
    return gpus


def _with_early_sends(gpu: int, messages: list[tuple[Transfer, ...]], layout: Layout) -> list[tuple[Transfer, ...]]:
    """The messages of a GPU, each one that it sends before all that it receives and need not have for it.

    Everything in a threadblock happens one after the other, so that one that waits sends nothing.
    """
    ordered: list[tuple[Transfer, ...]] = []
    for message in messages:
        place = len(ordered)
        if message[0].source == gpu:
            while (
                place and (before := ordered[place - 1])[0].target == gpu and not _needs(gpu, message, before, layout)
            ):
                place -= 1
        ordered.insert(place, message)
    return ordered


def _needs(gpu: int, sent: tuple[Transfer, ...], received: tuple[Transfer, ...], layout: Layout) -> bool:
    """Whether a GPU sends something that it writes when another message is received."""
    for part, other in product(sent, received):
        read, written = (layout.same_memory(gpu, place) for place in (part.taken, other.kept))
        if read.buffer == written.buffer and -part.units < read.offset - written.offset < other.units:
            return True
    return False


def _peers(gpu: int, steps: list[_PlusStep], span: tuple[int, ...], inside: int) -> dict[int, ChannelWay]:
    """The peers of a chunk at a GPU, and how it reaches them; sorted, so that both ends number channels alike."""
    ways: dict[int, ChannelWay] = {}
    for transfer in (step[0] for step in steps):
        if isinstance(transfer, Transfer):
            peer = transfer.target if transfer.source == gpu else transfer.source
            ways[peer] = "memory" if span[transfer.dimension] < inside else "port"
    return dict(sorted(ways.items()))


def _slots(program: MscclProgram) -> tuple[dict[int, int], dict[int, int]]:
    """The scratch of every message, by its identity, and how much every GPU uses for all of them."""
    used: dict[int, int] = defaultdict(int)
    slots = {}
    for transfer in program.transfers:
        slots[id(transfer)] = program.layout.buffers[SCRATCH] + used[transfer.target]
        used[transfer.target] += transfer.units
    return slots, used


@dataclass(frozen=True)
class _ChunkWork:
    """What a GPU does for a chunk, in a separate threadblock; `slots`: scratch of messages by their identity."""

    gpu: int
    chunk: int
    steps: list[_PlusStep]
    peers: Mapping[int, ChannelWay]  # and how each is reached
    slots: Mapping[int, int]

    def threadblock(self, firsts: Mapping[ChannelWay, int], remote: list[tuple[int, ChannelWay]]) -> PlusBlock:
        """The threadblock, from the channels that come before its own, and the remote buffers of the GPU."""
        ops = [self._on_channel(name, peer) for name in ("signal", "wait") for peer in self.peers]
        for step in self.steps:
            ops += self._operations(step)
        reached = {way: peers for way in firsts if (peers := self._by(way))}
        if len(ops) > MAX_PLUS_OPERATIONS or max(map(len, reached.values()), default=0) > MAX_CHANNELS:
            rule = f"chunk {self.chunk} has {len(ops)} operations and {len(self.peers)} peers on GPU {self.gpu}"
            rule += f", a threadblock has at most {MAX_PLUS_OPERATIONS} and {MAX_CHANNELS}"
            raise InputError(f"{rule}; use smaller dimensions or msccl", field="mscclpp")
        return PlusBlock(
            id=self.chunk,
            ops=ops,
            channels=[
                Channels(channel_type=way, channel_ids=[firsts[way] + number for number in range(len(peers))])
                for way, peers in reached.items()
            ],
            remote_buffer_refs=[
                References(access_channel_type=way, remote_buffer_ids=[remote.index((peer, way)) for peer in peers])
                for way, peers in reached.items()
            ],
        )

    def _by(self, way: ChannelWay) -> list[int]:
        return [peer for peer, kind in self.peers.items() if kind == way]

    def _on_channel(self, name: Any, peer: int, **more: Any) -> Operation:
        way = self.peers[peer]
        return Operation(name=name, channel_type=way, channel_ids=[self._by(way).index(peer)], **more)

    def _operations(self, step: _PlusStep) -> Iterator[Operation]:
        """Operations for a message or for copies; ``nop`` makes the threads of a block wait for each other."""
        transfers = [part for part in step if isinstance(part, Transfer)]
        if transfers and transfers[0].source == self.gpu:
            yield Operation(name="nop")
            yield from self._sent(transfers)
        elif transfers:
            yield from (self._on_channel("wait", transfers[0].source), Operation(name="nop"))
            for sent in transfers:
                arrived = Buffer(type="s", index=self.slots[id(sent)], size=sent.units)
                added = [] if sent.added is None else [_local(sent.added, sent.units)]
                sums: Any = {"name": "re", "reduce_op": "sum"} if added else {"name": "copy"}
                yield Operation(src_buff=[*added, arrived], dst_buff=[_local(sent.kept, sent.units)], **sums)
        else:
            yield Operation(name="nop")
            for part in step:
                taken, kept = _local(part.taken, part.units), _local(part.kept, part.units)
                yield Operation(name="copy", src_buff=[taken], dst_buff=[kept])

    def _sent(self, parts: list[Transfer]) -> Iterator[Operation]:
        """Puts and one signal; a port does not return before it has read, so that what it sent may be overwritten."""
        peer = parts[0].target
        way = self.peers[peer]
        for part in parts:
            there = Buffer(buffer_id=self._by(way).index(peer), index=self.slots[id(part)], size=part.units)
            buffers = {"src_buff": [_local(part.taken, part.units)], "dst_buff": [there]}
            yield self._on_channel("pwsf" if way == "port" and part is parts[-1] else "put", peer, **buffers)
        if way == "memory":
            yield from (Operation(name="nop"), self._on_channel("signal", peer))


def _local(place: UnitPlace, units: int) -> Buffer:
    return Buffer(type=place.buffer, index=place.offset, size=units)  # type: ignore[arg-type]


def interpret_plan(plan: PlusPlan) -> None:
    """Run a plan on random data and check what every GPU ends with.

    Raises InvalidSchedule, with the rule ``data``, if threadblocks wait for ever, or a result is wrong.
    """
    units = [{INPUT: gpu.input_chunks, OUTPUT: gpu.output_chunks, SCRATCH: gpu.scratch_chunks} for gpu in plan.gpus]
    memories = random_memories(units, in_place=plan.inplace)
    inputs = np.stack([memory[INPUT] for memory in memories])
    signals: dict[tuple[int, int, ChannelWay, int], int] = defaultdict(int)
    left = [(gpu, block, deque(block.ops)) for gpu in plan.gpus for block in gpu.threadblocks if block.ops]
    while left:
        moved = False
        for gpu, block, operations in left:
            while operations and _run(memories, signals, gpu, block, operations[0]):
                operations.popleft()
                moved = True
        left = [entry for entry in left if entry[2]]
        if left and not moved:
            where = f"threadblock {left[0][1].id} of GPU {left[0][0].id}"
            raise InvalidSchedule("data", f"{len(left)} threadblocks wait for ever, such as {where}")
    check_results(collective_named(plan.collective, "collective"), inputs, memories)


def _run(
    memories: list[dict[str, Units]],
    signals: dict[tuple[int, int, ChannelWay, int], int],
    gpu: PlanGpu,
    block: PlusBlock,
    operation: Operation,
) -> bool:
    """Run an operation if it need not wait; returns whether it did."""
    if operation.channel_type is not None and operation.channel_ids is not None:
        peer, turn = _connection(gpu, block, operation.channel_type, operation.channel_ids[0])
    if operation.name == "wait":
        key = peer, gpu.id, operation.channel_type or "memory", turn
        arrived = signals[key] > 0
        signals[key] -= arrived
        return arrived
    if operation.src_buff and operation.dst_buff:
        data = sum(_units(memories[gpu.id], source).copy() for source in operation.src_buff)
        there = memories[gpu.id] if operation.name in ("copy", "re") else memories[peer]
        kind = operation.dst_buff[0].type or SCRATCH
        _units(there, operation.dst_buff[0].model_copy(update={"type": kind}))[:] = data
    if operation.name in ("signal", "pwsf"):
        signals[gpu.id, peer, operation.channel_type or "memory", turn] += 1
    return True


def _connection(gpu: PlanGpu, block: PlusBlock, way: ChannelWay, number: int) -> tuple[int, int]:
    """The peer of a channel of a threadblock, and how many channels to that peer come before it."""
    (ids,) = (channel.channel_ids for channel in block.channels if channel.channel_type == way)
    (peers,) = (channel.connected_to for channel in gpu.channels if channel.channel_type == way)
    peer = peers[ids[number]]
    return peer, peers[: ids[number]].count(peer)


def _timed(gpu: PlanGpu, block: PlusBlock, operation: Operation) -> TimedStep:
    if operation.channel_type is None or operation.channel_ids is None:
        return TimedStep()
    peer, turn = _connection(gpu, block, operation.channel_type, operation.channel_ids[0])
    if operation.name == "wait":
        return TimedStep(takes=(peer, gpu.id, operation.channel_type, turn))
    gives = (gpu.id, peer, operation.channel_type, turn) if operation.name in ("signal", "pwsf") else None
    units = sum(place.size for place in operation.src_buff or ())
    return TimedStep(units, (gpu.id, peer, block.id) if units else None, gives)


def _units(memory: Mapping[str, Units], place: Buffer) -> Units:
    buffer = memory[place.type or SCRATCH]
    if place.index + place.size > len(buffer):
        raise InvalidSchedule("data", f"units {place.index} to {place.index + place.size} leave buffer {place.type}")
    return buffer[place.index : place.index + place.size]

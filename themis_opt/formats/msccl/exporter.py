"""The exporter ``msccl``: one collective of a schedule as XML, and its check."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from themis_opt.base.documents import read_text
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent
from themis_opt.formats.exports import Fact
from themis_opt.formats.msccl.algorithm import (
    DIALECTS,
    EXPORT_LOG,
    RECEIVES,
    SENDS,
    Dialect,
    Gpu,
    MscclAlgorithm,
    MscclStep,
    ThreadBlock,
    check_limits,
    first_too_large,
    followed,
    from_xml,
    to_xml,
)
from themis_opt.formats.msccl.clock import TimedStep, replayed
from themis_opt.formats.msccl.interpreter import SLOTS, interpret
from themis_opt.formats.msccl.transfers import (
    INPUT,
    OUTPUT,
    SCRATCH,
    MscclProgram,
    ProgramExporter,
    UnitPlace,
    deviation,
    num_gpus,
    one_chunk_of_each_path,
    transfers_of,
    works_in_place,
)
from themis_opt.schedules.schedule import Schedule

SEND, RECEIVE, COPY = "send", "recv", "copy"
LOGGED_EVERY = 1000  # messages

BlockClock = dict["Key", int]  # the last step of other threadblocks that is known to have ended


class Lane(NamedTuple):
    """A future channel."""

    dimension: int
    share: int  # which part of the peers along the dimension, where they are too many for one channel
    continuation: int  # how many threadblocks of the same peer came before


class Key(NamedTuple):
    """A threadblock of a GPU."""

    lane: Lane
    way: str
    peer: int

    @property
    def before(self) -> "Key":
        """The threadblock that it continues."""
        return self._replace(lane=self.lane._replace(continuation=self.lane.continuation - 1))


def algorithm_of(program: MscclProgram, dialect: Dialect, head: MscclAlgorithm) -> MscclAlgorithm:
    """The algorithm that carries out a program, with the attributes of `head`.

    Raises InputError if a threadblock that sends one message is longer than the dialect allows.
    """
    messages = dialect.max_steps
    while messages:
        algorithm = _assembled(program, dialect, messages, head)
        if algorithm.longest <= dialect.max_steps:
            return algorithm
        messages = messages * dialect.max_steps // algorithm.longest  # which are fewer
    raise InputError(f"a message needs more than the {dialect.max_steps} steps of a threadblock", field="msccl")


def least_needs(program: MscclProgram, dialect: Dialect, copies: Mapping[int, int]) -> list[tuple[str, int, int]]:
    """What the program of more chunks needs at least: a limit's name, how much of it, and how much there may be.

    `program`: some of the chunks.
    `copies`: for each of them how many chunks there are that send as many messages.
    """
    steps: Counter[tuple[int, str, int]] = Counter()
    for transfer in program.transfers:
        count = copies[transfer.chunk] * -(-transfer.units // dialect.max_count)
        steps[transfer.source, SEND, transfer.target] += count
        steps[transfer.target, RECEIVE, transfer.source] += count
    elements: Counter[int] = Counter()
    threadblocks: Counter[int] = Counter()
    for (gpu, _, _), count in steps.items():
        threadblocks[gpu] += -(-count // dialect.max_steps)
        elements[gpu] += count
    channels = -(-max(steps.values()) // dialect.max_steps)
    return [
        ("XML elements for a GPU", max(elements.values()), dialect.max_nodes),
        ("threadblocks on a GPU", max(threadblocks.values()), dialect.max_threadblocks),
        ("channels", channels, dialect.max_channels),
    ]


def _assembled(program: MscclProgram, dialect: Dialect, messages: int, head: MscclAlgorithm) -> MscclAlgorithm:
    """The algorithm whose threadblocks send or receive at most so many messages each."""
    layout, buffers = program.layout, program.layout.buffers
    builders = [_Builder(gpu, program) for gpu in range(layout.num_gpus)]
    sent: dict[tuple[int, int], int] = defaultdict(int)
    for number, transfer in enumerate(program.transfers):
        if number % LOGGED_EVERY == 0:
            EXPORT_LOG.info("%s of %s messages in threadblocks", f"{number:,}", f"{len(program.transfers):,}")
        for taken, added, kept, count in _split(transfer.taken, transfer.added, transfer.kept, transfer.units, dialect):
            ends, axis = (transfer.source, transfer.target), transfer.dimension
            near, far = (layout.coordinates[end][axis] for end in ends)
            share = ((far - near) % layout.sizes[axis] - 1) // dialect.max_peers  # the same seen from both ends
            lane = Lane(axis, share, sent[ends] // messages)
            sent[ends] += 1
            builders[ends[0]].send(lane, ends[1], taken, count)
            builders[ends[1]].receive(lane, ends[0], added, kept, count)
    for copy in program.copies:
        for taken, _, kept, count in _split(copy.taken, None, copy.kept, copy.units, dialect):
            builders[copy.gpu].copy(taken, kept, count, dialect.max_steps)
    lanes = sorted({key.lane for builder in builders for key in builder.steps if key.way != COPY})
    channels = {lane: number for number, lane in enumerate(lanes)}
    gpus = [
        Gpu(number, buffers[INPUT], buffers[OUTPUT], buffers[SCRATCH], builder.threadblocks(channels))
        for number, builder in enumerate(builders)
    ]
    return replace(head, gpus=gpus, nchannels=len(lanes))


def _split(
    taken: UnitPlace, added: UnitPlace | None, kept: UnitPlace, count: int, dialect: Dialect
) -> Iterator[tuple[UnitPlace, UnitPlace | None, UnitPlace, int]]:
    """A run of units as runs of a length that one step may have."""
    for done in range(0, count, dialect.max_count):
        moved = (place and place._replace(offset=place.offset + done) for place in (taken, added, kept))
        yield *moved, min(count - done, dialect.max_count)  # type: ignore[misc]


class _Builder:
    """The threadblocks of one GPU as they grow."""

    def __init__(self, gpu: int, program: MscclProgram) -> None:
        self.gpu, self.layout = gpu, program.layout
        self.steps: dict[Key, list[MscclStep]] = defaultdict(list)
        self.clocks: dict[Key, list[BlockClock]] = defaultdict(list)
        self.writers: dict[UnitPlace, tuple[Key, int]] = {}
        self.readers: dict[UnitPlace, list[tuple[Key, int]]] = defaultdict(list)
        self.waits: list[tuple[MscclStep, Key]] = []

    def send(self, lane: Lane, peer: int, taken: UnitPlace, count: int) -> None:
        step = MscclStep("s", taken.buffer, taken.offset, taken.buffer, taken.offset, count)
        self._add(Key(lane, SEND, peer), step, self._units(taken, count), ())

    def receive(self, lane: Lane, peer: int, added: UnitPlace | None, kept: UnitPlace, count: int) -> None:
        """Receive units from a peer, and add those of this NPU or not."""
        source = added or kept
        step = MscclStep("rrc" if added else "r", *source, *kept, count)
        reads = self._units(added, count) if added else ()
        self._add(Key(lane, RECEIVE, peer), step, reads, self._units(kept, count))

    def copy(self, taken: UnitPlace, kept: UnitPlace, count: int, most: int) -> None:
        copies = sum(len(steps) for key, steps in self.steps.items() if key.way == COPY)
        key = Key(Lane(0, 0, copies // (most // 2)), COPY, -1)
        self._add(key, MscclStep("cpy", *taken, *kept, count), self._units(taken, count), self._units(kept, count))

    def _units(self, place: UnitPlace, count: int) -> list[UnitPlace]:
        """Units by the names that those have in common which may be the same memory."""
        shared = self.layout.same_memory(self.gpu, place)
        return [UnitPlace(shared.buffer, offset) for offset in range(shared.offset, shared.offset + count)]

    def _add(self, key: Key, step: MscclStep, reads: Iterable[UnitPlace], writes: Iterable[UnitPlace]) -> None:
        """Append a step, behind the steps that it waits for."""
        needed = self._needed(key, reads, writes)
        steps = self.steps[key]
        clock = dict(self.clocks[key][-1]) if steps else {}
        waits = self._shortest(needed, clock)
        for other, number in waits:
            for third, known in (*self.clocks[other][number].items(), (other, number)):
                clock[third] = max(clock.get(third, -1), known)
        for place, (other, number) in enumerate(waits):
            waiting = step if place == len(waits) - 1 else MscclStep("nop")
            waiting.deps = number
            self.waits.append((waiting, other))
            self.steps[other][number].hasdep = 1
            if waiting is not step:
                steps.append(waiting)
                self.clocks[key].append(clock)
        steps.append(step)
        self.clocks[key].append(clock)
        added = key, len(steps) - 1
        for unit in reads:
            self.readers[unit].append(added)
        for unit in writes:
            self.writers[unit] = added
            self.readers.pop(unit, None)

    def _needed(self, key: Key, reads: Iterable[UnitPlace], writes: Iterable[UnitPlace]) -> BlockClock:
        """Steps that have to end before a step, by threadblock."""
        needed: BlockClock = {}
        if key.lane.continuation and key not in self.steps:
            needed[key.before] = len(self.steps[key.before]) - 1
        last = None
        for ended in self._before(reads, writes):
            if ended is not last:  # units beside each other mostly have the same
                other, number = last = ended
                needed[other] = max(needed.get(other, -1), number)
        needed.pop(key, None)
        return needed

    def _before(self, reads: Iterable[UnitPlace], writes: Iterable[UnitPlace]) -> Iterator[tuple[Key, int]]:
        """Who wrote the units, and who read those that are written over."""
        for unit in reads:
            if unit in self.writers:
                yield self.writers[unit]
        for unit in writes:
            if unit in self.writers:
                yield self.writers[unit]
            yield from self.readers.get(unit, ())

    def _shortest(self, needed: BlockClock, clock: Mapping[Key, int]) -> list[tuple[Key, int]]:
        """The part of it that follows neither from the rest nor from known steps."""
        new = {other: number for other, number in needed.items() if clock.get(other, -1) < number}
        return [
            (other, number)
            for other, number in new.items()
            if not any(self.clocks[by][at].get(other, -1) >= number for by, at in new.items() if by != other)
        ]

    def threadblocks(self, channels: Mapping[Lane, int]) -> list[ThreadBlock]:
        keys = sorted(self.steps)
        ids = {key: number for number, key in enumerate(keys)}
        for step, other in self.waits:
            step.depid = ids[other]
        return [
            ThreadBlock(
                ids[key],
                key.peer if key.way == SEND else -1,
                key.peer if key.way == RECEIVE else -1,
                0 if key.way == COPY else channels[key.lane],
                self.steps[key],
            )
            for key in keys
        ]


@dataclass(frozen=True)
class Msccl(ProgramExporter):
    """MSCCL XML: programs of threadblocks that MSCCL and RCCL run."""

    endings: ClassVar[tuple[str, ...]] = ("xml",)
    runtime: ClassVar[str] = "MSCCL"

    dialect: Literal["msccl", "azure", "rccl"] = "msccl"  # who reads it
    collective: str = ""  # which one of the schedule; the only one by default
    protocol: Literal["Simple", "LL", "LL128"] = "Simple"  # how data are sent
    min_bytes: int = 0  # the smallest message for which it is used; 0 stands for no limit
    max_bytes: int = 0  # the largest one

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """Names and texts of the files: the reader ``msccl`` wants one each for in place and out of place.

        Raises InputError if the collective cannot be expressed within the limits of the dialect.
        """
        yield from self.texts(*self.algorithm(schedule))

    def texts(self, algorithm: MscclAlgorithm, in_place: bool) -> Iterator[tuple[str, str]]:
        """Names and texts of the files of an algorithm."""
        if DIALECTS[self.dialect].says_out_of_place:
            yield f"{algorithm.name}.xml", to_xml(replace(algorithm, inplace=int(in_place), outofplace=1))
            return
        yield f"{algorithm.name}.xml", to_xml(algorithm)
        if in_place:
            yield f"{algorithm.name}.inplace.xml", to_xml(replace(algorithm, inplace=1))

    def algorithm(self, schedule: Schedule) -> tuple[MscclAlgorithm, bool]:
        """The algorithm, and whether it works in place too."""
        limits = DIALECTS[self.dialect]
        launch = self.launch(schedule)
        gpus, count = num_gpus(schedule, launch), len(schedule.plan.chunks[launch].sizes)
        if gpus * count > limits.max_offset:
            rule = f"{count} chunks x {gpus} GPUs = {gpus * count:,} units; offsets end at {limits.max_offset:,}"
            raise InputError(f"{rule}: use at most {limits.max_offset // gpus} chunks", field="chunks", value=count)
        units = self.units(schedule)
        copies = one_chunk_of_each_path(schedule, launch)  # refused before all chunks are followed, which takes minutes
        few = transfers_of(schedule, launch, units, only=copies)
        for what, has, most in least_needs(few, limits, copies):
            if has > most:
                fitting = count * most // has
                remedy = f"use at most {fitting} chunks" if fitting else "use fewer GPUs"
                rule = f"{count} chunks need {has:,} {what} or more, dialect {self.dialect} allows {most:,}"
                raise InputError(f"{rule}: {remedy}", field="chunks", value=count)
        return self.of_program(transfers_of(schedule, launch, units), self.name(schedule))

    def of_program(self, program: MscclProgram, name: str) -> tuple[MscclAlgorithm, bool]:
        """The algorithm of a program, and whether it works in place too.

        Raises InputError if it is beyond the limits of the dialect.
        """
        limits, layout = DIALECTS[self.dialect], program.layout
        head = MscclAlgorithm(
            name=name,
            coll=limits.collective(layout.kind),
            proto=self.protocol,
            nchannels=0,
            nchunksperloop=layout.num_gpus * layout.total,
            ngpus=layout.num_gpus,
            inplace=0,
            outofplace=None,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes if limits.says_out_of_place else first_too_large(self.max_bytes),
            gpus=[],
        )
        algorithm = algorithm_of(program, limits, head)
        check_limits(algorithm, self.dialect)
        return algorithm, works_in_place(layout.kind)

    def most_units(self, gpus: int) -> int:
        """Units of a block of which offsets of the dialect reach all."""
        return DIALECTS[self.dialect].max_offset // gpus

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        launch, units = self.launch(schedule), self.units(schedule)
        exchange, sizes = schedule.launched[launch], schedule.plan.chunks[launch].sizes
        elements = self.multiple(schedule) // exchange.element_bytes
        yield f"used for messages that divide by {elements:,} elements; order is kept, times are not"
        error = deviation(units, sizes)
        if sizes.max() - sizes.min() > exchange.element_bytes:
            yield f"chunks take {int(units.sum())} equal units: sizes differ by at most {format_percent(error)}"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Read the files, check limits, run them on data, and time them.

        Raises InputError or InvalidSchedule if a file breaks a limit, or does not compute its collective.
        """
        launch, name = self.launch(schedule), self.name(schedule)
        in_place = not DIALECTS[self.dialect].says_out_of_place and works_in_place(schedule.launched[launch].kind)
        yield from self.check_files([f"{name}.xml", f"{name}.inplace.xml"][: 1 + in_place], folder)
        algorithm = from_xml(read_text(folder / f"{name}.xml", "XML"), name)
        program = transfers_of(schedule, launch, self.units(schedule))
        blocks = {(gpu.id, block.id): block for gpu in algorithm.gpus for block in gpu.threadblocks}
        steps = {(gpu, b): [_timed_step(gpu, block, s) for s in block.steps] for (gpu, b), block in blocks.items()}
        yield replayed("MSCCL", steps, program, schedule, launch)

    def check_files(self, names: Iterable[str], folder: Path) -> Iterator[str]:
        """The same for files by their names."""
        for name in names:
            path = folder / name
            algorithm = from_xml(read_text(path, "XML"), str(path))
            check_limits(algorithm, self.dialect)
            out_of_place = not algorithm.inplace if algorithm.outofplace is None else bool(algorithm.outofplace)
            ways = [False] * out_of_place + [True] * bool(algorithm.inplace)
            for in_place in ways:
                with followed(str(path)):
                    interpret(algorithm, in_place=in_place)
            blocks = max(len(gpu.threadblocks) for gpu in algorithm.gpus)
            size = f"{algorithm.ngpus} GPUs, {algorithm.nchannels} channels, at most {blocks} threadblocks"
            places = " and ".join("in place" if way else "out of place" for way in ways)
            yield f"{name}: {size} and {algorithm.longest} steps in one; {places}"
        yield f"every GPU ends with its result; no circle of waits with {SLOTS} message per connection, no race"


def _timed_step(gpu: int, block: ThreadBlock, step: MscclStep) -> TimedStep:
    sends = step.type in SENDS
    return TimedStep(
        step.cnt if sends else 0,
        (gpu, block.send) if sends else None,
        (gpu, block.send, block.chan) if sends else None,
        (block.recv, gpu, block.chan) if step.type in RECEIVES else None,
        ((gpu, step.depid), step.deps) if step.depid >= 0 else None,
    )

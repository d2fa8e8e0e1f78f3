"""Transfers as threadblocks: who carries them out, on which channel, and what waits for what.

Every peer of a GPU has a threadblock that sends and one that receives.  Transfers are handed out in the order of the
program, so that each dimension keeps the order of its chunks, dimensions work beside each other, and nobody waits in a
circle, even where nothing is buffered.  A threadblock that is full is continued by another one on another channel,
which first waits for it.

A step waits for the steps that made what it reads, and for those that read or wrote what it writes.  It can wait for
one other threadblock; for more there are ``nop`` steps before it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from themis_opt.base.errors import InputError
from themis_opt.formats.msccl.algorithm import EXPORT_LOG, Dialect, Gpu, MscclAlgorithm, MscclStep, ThreadBlock
from themis_opt.formats.msccl.transfers import MscclProgram, UnitPlace

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
            ends = transfer.source, transfer.target
            lane = Lane(transfer.dimension, _share(program, *ends, transfer.dimension, dialect), sent[ends] // messages)
            sent[ends] += 1
            builders[ends[0]].send(lane, ends[1], taken, count)
            builders[ends[1]].receive(lane, ends[0], added, kept, count)
    for copy in program.copies:
        for taken, _, kept, count in _split(copy.taken, None, copy.kept, copy.units, dialect):
            builders[copy.gpu].copy(taken, kept, count, dialect.max_steps)
    lanes = sorted({key.lane for builder in builders for key in builder.steps if key.way != COPY})
    channels = {lane: number for number, lane in enumerate(lanes)}
    gpus = [
        Gpu(number, buffers.input, buffers.output, buffers.scratch, builder.threadblocks(channels))
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


def _share(program: MscclProgram, source: int, target: int, axis: int, dialect: Dialect) -> int:
    """Which part of the peers along a dimension a pair belongs to: the same seen from both ends."""
    coordinates, size = program.layout.coordinates, program.layout.sizes[axis]
    distance = (coordinates[target][axis] - coordinates[source][axis]) % size
    return (distance - 1) // dialect.max_peers


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

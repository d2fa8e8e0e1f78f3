"""An MSCCL algorithm run on data, by the rules of the format alone.

The steps of a threadblock run one after the other.  A step first waits for another threadblock of its GPU, if it says
so.  What a threadblock sends arrives at the one of the peer that receives from it on the same channel, in the order it
was sent; a connection holds one message, less than any real one.

One run proves all: where two steps touch a unit and one of them writes it, one is known on the GPU to come after the
other, or the algorithm is refused.  So what a message holds depends on no timing, and whether threadblocks get stuck
does not either (they are a Kahn network: G. Kahn, *The semantics of a simple language for parallel programming*, 1974).
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from themis_opt.base.errors import InvalidSchedule
from themis_opt.formats.msccl.algorithm import (
    EXPORT_LOG,
    RECEIVES,
    SENDS,
    MscclAlgorithm,
    MscclStep,
    ThreadBlock,
    collective_named,
)
from themis_opt.problem.phases import CollectiveKind, Data

Units = NDArray[np.uint32]  # one number per unit; sums wrap around, so that they do not depend on their order
SLOTS = 1  # messages that a connection holds
Memory = dict[str, Units]
VectorClock = dict[int, int]
_UnitName = tuple[int, str, int]  # the GPU, a buffer, and the number of the unit there


def interpret(algorithm: MscclAlgorithm, *, in_place: bool) -> None:
    """Run an algorithm on random data and check what every GPU ends with.

    Raises InvalidSchedule, with the rule ``data``, if threadblocks wait in a circle, if the result depends on timing,
    or if it is wrong.

    `in_place`: whether output and input are the same memory.
    """
    memories = random_memories([gpu.units for gpu in algorithm.gpus], in_place=in_place)
    inputs = np.stack([memory["i"] for memory in memories])  # a copy, taken before anything runs
    _GpuMachine(algorithm, memories, in_place=in_place).run()
    check_results(collective_named(algorithm.coll, "coll"), inputs, memories)


def shared_part(gpu: int, units: Mapping[str, int]) -> tuple[str, str, int]:
    """In place: the buffer that is a part of the other, the other, and where it begins there."""
    small, large = sorted(("i", "o"), key=lambda name: units[name])
    return small, large, gpu * units[small] if units[small] < units[large] else 0


def random_memories(units_of_gpus: Sequence[Mapping[str, int]], *, in_place: bool) -> list[Memory]:
    """Buffers of every GPU, full of random numbers; in place, input and output share theirs."""
    generator = np.random.default_rng(0)
    memories = []
    for gpu, units in enumerate(units_of_gpus):
        memory = {name: generator.integers(2**32, size=count, dtype=np.uint32) for name, count in units.items()}
        if in_place:
            small, large, start = shared_part(gpu, units)
            memory[small] = memory[large][start : start + units[small]]
        memories.append(memory)
    return memories


def check_results(kind: CollectiveKind, inputs: Units, memories: Sequence[Memory]) -> None:
    """Refuse outputs that are not what the collective makes of the inputs.

    Raises InvalidSchedule, with the rule ``data``.
    """
    for gpu, expected in enumerate(expected_results(kind, inputs)):
        wrong = np.flatnonzero(memories[gpu]["o"][: len(expected)] != expected)
        if len(wrong):
            raise InvalidSchedule("data", f"GPU {gpu} ends with a wrong unit {wrong[0]} of its output")


def expected_results(kind: CollectiveKind, inputs: Units) -> Units:
    """Results of all GPUs, or of the root alone, by the definition of the collective, for each unit of its blocks."""
    phases, gpus = kind.rule.phases, len(inputs)
    num_blocks = inputs.shape[1] if len(phases) > 1 else 1 if phases[0].rule.data is Data.GROW else gpus
    blocks = inputs.reshape(gpus, num_blocks, -1)
    outcomes = [kind.rule.outcome(blocks[..., unit], (gpus,)) for unit in range(blocks.shape[2])]
    return np.stack(outcomes, axis=2).reshape(len(outcomes[0]), -1)


@dataclass
class _Running:
    """A threadblock and how far it is."""

    gpu: int
    block: ThreadBlock
    next: int = 0
    clocks: list[VectorClock] = field(default_factory=list)

    @property
    def step(self) -> MscclStep | None:
        return self.block.steps[self.next] if self.next < len(self.block.steps) else None

    def check_after(self, unit: _UnitName, other: tuple[int, int] | None) -> None:
        """Refuse to run before, after or beside another step that touches the same unit."""
        if other is None or other[0] == self.block.id or self.clocks[-1].get(other[0], -1) >= other[1]:
            return
        steps = f"step {self.next} of threadblock {self.block.id} and step {other[1]} of {other[0]}"
        raise InvalidSchedule("data", f"GPU {self.gpu}: {steps} touch unit {unit[2]} of {unit[1]} in no known order")


class _GpuMachine:
    """All threadblocks of all GPUs.

    `names`: for each buffer the memory it lies in, and where it begins there.
    `writers`, `readers`: steps that touched each unit last, to detect steps whose order is not known.
    """

    def __init__(self, algorithm: MscclAlgorithm, memories: list[Memory], *, in_place: bool) -> None:
        self.memories = memories
        self.running = [[_Running(gpu.id, block) for block in gpu.threadblocks] for gpu in algorithm.gpus]
        self.links = {ends: deque[Units]() for ends in _connections(algorithm)}
        self.names = {(gpu.id, buffer): (buffer, 0) for gpu in algorithm.gpus for buffer in "ios"}
        for gpu in algorithm.gpus if in_place else ():
            small, large, begin = shared_part(gpu.id, gpu.units)
            self.names[gpu.id, small] = large, begin
        self.writers: dict[_UnitName, tuple[int, int]] = {}
        self.readers: dict[_UnitName, VectorClock] = {}

    def run(self) -> None:
        waiting = [running for blocks in self.running for running in blocks if running.step]
        while waiting:
            moved = sum(self._advance(running) for running in waiting)
            waiting = [running for running in waiting if running.step]
            EXPORT_LOG.info("check: %d of %d threadblocks have not ended", len(waiting), sum(map(len, self.running)))
            if waiting and not moved:
                stuck = waiting[0]
                where = f"GPU {stuck.gpu} threadblock {stuck.block.id} step {stuck.next}"
                raise InvalidSchedule("data", f"{len(waiting)} threadblocks wait in a circle, such as {where}")
        if any(self.links.values()):
            raise InvalidSchedule("data", "messages were sent that nobody receives")

    def _advance(self, running: _Running) -> int:
        """Run the steps of a threadblock as far as they go; returns how many."""
        begin = running.next
        while running.step and self._may_run(running, running.step):
            self._execute(running, running.step)
            running.next += 1
        return running.next - begin

    def _may_run(self, running: _Running, step: MscclStep) -> bool:
        if step.depid >= 0 and self.running[running.gpu][step.depid].next <= step.deps:
            return False
        if step.type in RECEIVES and not self.links[running.block.recv, running.gpu, running.block.chan]:
            return False
        return step.type not in SENDS or len(self.links[running.gpu, running.block.send, running.block.chan]) < SLOTS

    def _execute(self, running: _Running, step: MscclStep) -> None:
        clock = dict(running.clocks[-1]) if running.clocks else {}
        if step.depid >= 0:
            for block, ended in (
                *self.running[running.gpu][step.depid].clocks[step.deps].items(),
                (step.depid, step.deps),
            ):
                clock[block] = max(clock.get(block, -1), ended)
        running.clocks.append(clock)
        if step.type == "nop":
            return
        data = self._received(running, step)
        if step.type in ("s", "cpy", "re") or step.type.startswith("rr"):
            data = data + self._read(running, step.srcbuf, step.srcoff, step.cnt)
        if step.type == "re":
            data = data + self._read(running, step.dstbuf, step.dstoff, step.cnt)
        if step.type in ("r", "rcs", "rrc", "rrcs", "cpy", "re"):
            self._write(running, step.dstbuf, step.dstoff, data)
        if step.type in SENDS:
            self.links[running.gpu, running.block.send, running.block.chan].append(data)

    def _received(self, running: _Running, step: MscclStep) -> Units:
        """Units that arrived; zeros, to add to, where a step receives nothing."""
        if step.type not in RECEIVES:
            return np.zeros(step.cnt, dtype=np.uint32)
        data = self.links[running.block.recv, running.gpu, running.block.chan].popleft()
        if len(data) != step.cnt:
            raise InvalidSchedule("data", f"GPU {running.gpu} receives {len(data)} units where it expects {step.cnt}")
        return data

    def _read(self, running: _Running, buffer: str, offset: int, count: int) -> Units:
        for unit in self._units(running, buffer, offset, count):
            running.check_after(unit, self.writers.get(unit))
            self.readers.setdefault(unit, {})[running.block.id] = running.next
        return self.memories[running.gpu][buffer][offset : offset + count].copy()

    def _write(self, running: _Running, buffer: str, offset: int, data: Units) -> None:
        for unit in self._units(running, buffer, offset, len(data)):
            running.check_after(unit, self.writers.get(unit))
            for reader in self.readers.pop(unit, {}).items():
                running.check_after(unit, reader)
            self.writers[unit] = running.block.id, running.next
        self.memories[running.gpu][buffer][offset : offset + len(data)] = data

    def _units(self, running: _Running, buffer: str, offset: int, count: int) -> Iterator[_UnitName]:
        most = len(self.memories[running.gpu][buffer])
        if offset < 0 or offset + count > most:
            where = f"GPU {running.gpu} threadblock {running.block.id} step {running.next}"
            raise InvalidSchedule("data", f"{where} leaves buffer {buffer} of {most} units")
        name, start = self.names[running.gpu, buffer]
        return ((running.gpu, name, start + offset + unit) for unit in range(count))


def _connections(algorithm: MscclAlgorithm) -> set[tuple[int, int, int]]:
    """All pairs of GPUs and channels that have one threadblock at each end."""
    ends: dict[str, list[tuple[int, int, int]]] = {"send": [], "recv": []}
    for gpu in algorithm.gpus:
        for block in gpu.threadblocks:
            ends["send"] += [(gpu.id, block.send, block.chan)] * (block.send >= 0)
            ends["recv"] += [(block.recv, gpu.id, block.chan)] * (block.recv >= 0)
    for side, other in (("send", "recv"), ("recv", "send")):
        alone = sorted(set(ends[side]) - set(ends[other]))
        if alone or len(set(ends[side])) < len(ends[side]):
            place = alone[0] if alone else next(end for end in ends[side] if ends[side].count(end) > 1)
            ways = f"from GPU {place[0]} to {place[1]} on channel {place[2]}"
            raise InvalidSchedule("data", f"{ways}: exactly one threadblock must send and one receive")
    return set(ends["send"])

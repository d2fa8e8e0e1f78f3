"""How long the threadblocks of a file take: their steps on the clock of the model.

A GPU sends one message at a time along a dimension, in the order in which they are ready.  A message takes its share of
the time for which its stage holds the dimension, and arrives later by its share of the latency of the stage.  All other
steps take no time.  What the file decides is who waits for whom.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from themis_opt.base.errors import InvalidSchedule
from themis_opt.formats.exports import Replay
from themis_opt.formats.msccl.transfers import MscclProgram
from themis_opt.problem.phases import Data, Phase
from themis_opt.problem.wiring import steps
from themis_opt.schedules.kernel import start_times, waiting_operations
from themis_opt.schedules.schedule import Schedule

BlockKey = tuple[int, int]  # a GPU and a threadblock


class TimedStep(NamedTuple):
    """A step of a threadblock.

    `units`, `flow`: how much it sends, and of which messages; 0 and None of all other steps.
    `gives`, `takes`: the connection on which it tells its peer of what was sent, and on which it waits to be told.
    `after`: a step of another threadblock, by its number, that must have ended.
    """

    units: int = 0
    flow: Hashable = None
    gives: Hashable = None
    takes: Hashable = None
    after: tuple[BlockKey, int] | None = None


class _Message(NamedTuple):
    resource: int
    duration: int
    lag: int


def replayed(
    reader: str,
    blocks: Mapping[BlockKey, Sequence[TimedStep]],
    program: MscclProgram,
    schedule: Schedule,
    launch: int,
    *,
    by_chunk: bool = False,
) -> Replay:
    """The time of threadblocks beside that of the collective in the schedule.

    Raises InvalidSchedule if the threadblocks send other messages than the program.

    `by_chunk`: whether each chunk is a flow; else all messages between two GPUs are one.
    """
    first = schedule.plan.offsets[launch]
    stages = slice(first, first + schedule.plan.chunks[launch].paths.size)
    planned = int(schedule.ready[stages].max() - schedule.start[stages].min())
    flows = [(t.source, t.target, t.chunk) if by_chunk else (t.source, t.target) for t in program.transfers]
    messages = _messages(blocks, program, flows, schedule, launch)
    return Replay(reader, _makespan(blocks, messages), planned)


def _messages(
    blocks: Mapping[BlockKey, Sequence[TimedStep]],
    program: MscclProgram,
    flows: Sequence[Hashable],
    schedule: Schedule,
    launch: int,
) -> dict[tuple[BlockKey, int], _Message]:
    """What each sending step costs, in the order of the program."""
    waiting: dict[Hashable, deque[tuple[BlockKey, int, int]]] = defaultdict(deque)
    for key in sorted(blocks):
        for number, step in enumerate(blocks[key]):
            if step.units:
                waiting[step.flow].append((key, number, step.units))
    costs, messages = _costs(program, schedule, launch), dict[tuple[BlockKey, int], _Message]()
    for transfer, flow in zip(program.transfers, flows, strict=True):
        resource, per_unit, lag = costs[transfer.chunk, transfer.place]
        left = transfer.units
        while left > 0 and waiting[flow]:
            key, number, units = waiting[flow].popleft()
            messages[key, number] = _Message(resource, round(units * per_unit), lag)
            left -= units
        if left:
            raise InvalidSchedule("data", f"GPU {transfer.source} sends other messages than the schedule")
    return messages


def _costs(program: MscclProgram, schedule: Schedule, launch: int) -> dict[tuple[int, int], tuple[int, float, int]]:
    """Of each stage, by chunk and place on its path: resource, picoseconds of a unit, and latency of a message."""
    instance, plan = schedule.instance, schedule.plan
    resources, phases = plan.stage_resources(instance).tolist(), plan.phases(instance).tolist()
    sent: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for transfer in program.transfers:
        sent[transfer.chunk, transfer.place][transfer.source] += transfer.units
    costs = {}
    for (chunk, place), units in sent.items():
        stage = plan.offsets[launch] + chunk * plan.chunks[launch].paths.shape[1] + place
        phase, dimension = Phase(phases[stage]), instance.fabric.dimensions[plan.stage_dimensions[stage]]
        rounds = 1 if phase.rule.data is Data.STAY else steps(dimension, phase)  # an all-to-all sends straight on
        held, lag = int(schedule.costs.occupancy[stage]), int(schedule.costs.lag[stage])
        costs[chunk, place] = resources[stage], held / max(units.values()), lag // rounds
    return costs


def _makespan(blocks: Mapping[BlockKey, Sequence[TimedStep]], messages: Mapping[tuple[BlockKey, int], _Message]) -> int:
    """When the last step has ended; those that send hold a port of their GPU, and their news travels beside them."""
    ports: dict[Hashable, int] = {None: 0}  # all steps that take no time
    operations, waits, ended = list[_Message](), list[tuple[int, int]](), dict[tuple[BlockKey, int], int]()

    def add(port: Hashable, duration: int = 0, lag: int = 0) -> int:
        operations.append(_Message(ports.setdefault(port, len(ports)), duration, lag))
        return len(operations) - 1

    for (key, number), message in messages.items():
        ended[key, number] = add((key[0], message.resource), message.duration)
    given, taken = defaultdict[Hashable, list[int]](list), defaultdict[Hashable, list[int]](list)
    for key in sorted(blocks):
        before, lag = None, 0
        for number, step in enumerate(blocks[key]):
            if (key, number) not in messages:
                ended[key, number] = add(None)
            else:
                lag = messages[key, number].lag
            here = ended[key, number]
            if before is not None:
                waits.append((before, here))
            before = here
            if step.gives is not None:
                given[step.gives].append(add(None, lag=lag))
                waits.append((here, given[step.gives][-1]))
                lag = 0
            if step.takes is not None:
                taken[step.takes].append(here)
    for key, members in blocks.items():
        waits += [(ended[s.after], ended[key, n]) for n, s in enumerate(members) if s.after is not None]
    for connection, news in given.items():
        waits += zip(news, taken[connection], strict=False)
    resource, duration, lags = np.ascontiguousarray(np.array(operations, dtype=np.int64).T)
    free = np.zeros(len(ports), dtype=np.bool_)
    start = start_times(waiting_operations(waits, resource, duration, lags, np.zeros(len(resource)), free))
    return int((start + duration + lags).max())

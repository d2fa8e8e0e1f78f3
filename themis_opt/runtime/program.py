"""A schedule as a program: everything a rank must know to do its part, as plain values.

What runs in which order is what the simulator sees (:func:`themis_opt.schedules.simulator.build_operations`): compute
tasks and stages, who waits for whom, and the order on every dimension.  A rank follows it with its clock.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter

from themis_opt.base.errors import InputError, check_choice
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_size
from themis_opt.problem.cost import variable_occupancy
from themis_opt.problem.exchanges import refuse_sends
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.problem.rails import refuse_rails
from themis_opt.problem.wiring import Kind
from themis_opt.runtime.elements import REDUCTIONS, element_type
from themis_opt.runtime.layout import cut_columns
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import build_operations, simulate

MAX_RANK_BYTES = 4 * 2**30  # bytes of buffers that a rank may need
SEGMENT_SECONDS = 0.0025
"""Messages that a paced dimension sends in this time are not cut: only the sums of the last one of a step remain."""

SMALLEST_SEGMENT, LARGEST_SEGMENT = 2**14, 2**20  # bytes of messages that are not cut, and of the largest ones


@dataclass(frozen=True)
class ProgramLaunch:
    """A collective operation of the program."""

    name: str
    kind: CollectiveKind
    span: tuple[int, ...]
    columns: tuple[int, ...]  # first column of each chunk, and the number of columns
    paths: tuple[tuple[int, ...], ...]  # dimension of each stage of each chunk


@dataclass(frozen=True)
class LinkPace:
    """Times of the links of the model, where the runtime has to wait in the place of a network."""

    seconds_per_byte: tuple[tuple[float, ...], ...]  # per phase and dimension
    launch: tuple[float, ...]  # seconds before a stage sends, per dimension
    latency: tuple[float, ...]  # seconds of each step, per dimension

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """The pace of a network, by the cost model."""
        dimensions, every = instance.fabric.dimensions, np.arange(len(instance.fabric.dimensions))
        held = [variable_occupancy(instance, p, every, np.ones(len(every)), whole_packets=False) for p in Phase]
        return cls(
            seconds_per_byte=tuple(tuple((times / PICOSECONDS_PER_SECOND).tolist()) for times in held),
            launch=tuple(d.launch_overhead / PICOSECONDS_PER_SECOND for d in dimensions),
            latency=tuple(d.latency / PICOSECONDS_PER_SECOND for d in dimensions),
        )


@dataclass(frozen=True)
class Program:
    """The work of all ranks; times in seconds, operations numbered as the simulator does, iteration by iteration."""

    names: tuple[str, ...]  # per dimension, as sizes and algorithms are
    sizes: tuple[int, ...]
    algorithms: tuple[str, ...]
    dtype: str
    reduction: str
    launches: tuple[ProgramLaunch, ...]
    num_tasks: int  # operations of an iteration are its tasks, then its stages
    num_stages: int
    iterations: int
    durations: tuple[float, ...]
    queues: tuple[tuple[int, ...], ...]  # operations of each resource in their order; the last entry is compute
    successor_start: tuple[int, ...]  # with those below: who waits for whom
    successor: tuple[int, ...]
    num_predecessors: tuple[int, ...]
    release: tuple[float, ...]  # earliest start of every operation
    in_flight: int  # stages that a resource may have under way at once
    segment: tuple[int, ...]  # bytes of a message that is not cut any further, per dimension
    pace: LinkPace | None = None  # how long links take, if not the network decides

    @property
    def num_ranks(self) -> int:
        """NPUs."""
        return math.prod(self.sizes)

    @property
    def num_operations(self) -> int:
        """Operations of one iteration."""
        return self.num_tasks + self.num_stages

    @cached_property
    def stage_places(self) -> tuple[tuple[int, int, int], ...]:
        """Launch, chunk and position of every stage of an iteration."""
        return tuple(
            (number, chunk, position)
            for number, launch in enumerate(self.launches)
            for chunk, path in enumerate(launch.paths)
            for position in range(len(path))
        )

    def elements(self, launch: ProgramLaunch) -> int:
        """Elements of the buffer of a launch on a rank, padding included."""
        return launch.columns[-1] * math.prod(self.sizes[k] for k in launch.span)


PROGRAM = TypeAdapter(Program)  # reads its fields as plain values, also after JSON has made lists of tuples


@dataclass(frozen=True)
class RunOptions:
    """How a schedule is run."""

    dtype: str = "float32"
    reduction: str = "sum"
    in_flight: int = 1  # stages of a dimension under way at once: with 1 it waits for each result, latency included
    paced: bool = True  # whether links take as long as the model says, because nothing else slows them
    iterations: int = 4  # in a row, where there is compute


def prediction(schedule: Schedule, options: RunOptions) -> Schedule:
    """The schedule as the model predicts its run: with its order enforced, and between ranks that reach each other.

    Ranks send straight to any other, so that nothing is passed on around a ring.
    """
    dimensions = tuple(
        d.replace(kind=Kind.FULLY_CONNECTED, algorithm=d.basic_algorithm) if d.kind.rule.is_ring else d
        for d in schedule.instance.network.dimensions
    )
    instance = schedule.instance.replace(network=schedule.instance.network.varied(dimensions=dimensions))
    if options.in_flight == 1 and instance.latency == "lag":
        instance = instance.replace(latency="occupy")
    plan = schedule.enforced_plan()
    return simulate(instance, plan, options.iterations if schedule.has_period else None)


def compile_program(schedule: Schedule, options: RunOptions | None = None) -> Program:
    """The program of a schedule.

    Raises InputError if a runtime cannot do what the schedule says (links that reduce or compress, or buffers beyond
    :data:`MAX_RANK_BYTES`), and CyclicPlan if stages wait for each other.
    """
    options = options or RunOptions()
    _check(schedule.instance, options)
    predicted = prediction(schedule, options)
    instance, plan = predicted.instance, predicted.plan
    iterations = predicted.num_iterations
    operations = build_operations(instance, plan, plan.costs(instance), iterations)
    starts = np.concatenate([predicted.task_start, predicted.start.reshape(iterations, -1)], axis=1).ravel()
    size = element_type(options.dtype).itemsize
    program = Program(
        names=instance.fabric.dimension_names,
        sizes=instance.fabric.sizes,
        algorithms=tuple(dimension.basic_algorithm.value for dimension in instance.fabric.dimensions),
        dtype=options.dtype,
        reduction=options.reduction,
        launches=tuple(_program_launches(predicted, size)),
        num_tasks=len(instance.tasks),
        num_stages=plan.num_stages,
        iterations=iterations,
        durations=tuple(task.duration / PICOSECONDS_PER_SECOND for task in instance.tasks),
        queues=_queues(operations.resource, operations.major, starts, instance.num_resources),
        successor_start=tuple(operations.successor_start.tolist()),
        successor=tuple(operations.successor.tolist()),
        num_predecessors=tuple(operations.num_predecessors.tolist()),
        release=tuple((operations.release / PICOSECONDS_PER_SECOND).tolist()),
        in_flight=options.in_flight,
        segment=tuple(
            int(min(max(d.bandwidth * SEGMENT_SECONDS, SMALLEST_SEGMENT), LARGEST_SEGMENT))
            if options.paced
            else LARGEST_SEGMENT
            for d in instance.fabric.dimensions
        ),
        pace=LinkPace.of(instance) if options.paced else None,
    )
    needed = iterations * size * sum(program.elements(launch) for launch in program.launches)
    if needed > MAX_RANK_BYTES:
        rule = f"needs {format_size(needed)} on every rank, at most {format_size(MAX_RANK_BYTES)} are allowed"
        raise InputError(rule, field="size")
    return program


def _check(instance: Instance, options: RunOptions) -> None:
    element_type(options.dtype)
    check_choice(options.reduction, REDUCTIONS, "reduction")
    refuse_sends(instance.exchanges, "the runtime")
    refuse_rails(instance.fabric.dimensions, "the runtime")
    for number, dimension in enumerate(instance.fabric.dimensions):
        for field in ("in_network", "compression"):
            value = getattr(dimension, field)
            if value != Dimension.model_fields[field].default:
                rule = "cannot be run: the ranks send and reduce all bytes themselves"
                raise InputError(rule, field=f"network.dimensions[{number}].{field}", value=value)
        if dimension.basic_algorithm.rule.links is not None:
            rule = "cannot be run: only rings, direct links and halving-doubling can"
            raise InputError(rule, field=f"network.dimensions[{number}].kind", value=dimension.kind.value)


def _program_launches(schedule: Schedule, element_bytes: int) -> list[ProgramLaunch]:
    parts = []
    for exchange, chunks in zip(schedule.launched, schedule.plan.chunks, strict=True):
        members = math.prod(schedule.instance.fabric.sizes[k] for k in exchange.span)
        columns = cut_columns(chunks.sizes.tolist(), -(-exchange.size // (element_bytes * members)))
        paths = tuple(map(tuple, chunks.paths.tolist()))
        parts.append(ProgramLaunch(exchange.name, exchange.kind, exchange.span, columns, paths))
    return parts


def _queues(resource: Any, major: Any, starts: Any, num_resources: int) -> tuple[tuple[int, ...], ...]:
    """Operations of each resource and of compute in the order they are served, without operations that never start."""
    queues = []
    for number in range(num_resources + 1):
        served = np.flatnonzero((resource == number) & (starts >= 0))
        queues.append(tuple(served[np.lexsort((served, major[served]))].tolist()))
    return tuple(queues)

"""Validation of training iterations, from the times and the rules alone; nothing here comes from the simulator."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from themis_opt.errors import InvalidSchedule
from themis_opt.instance import CollectiveKind
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.plan import Chunks
from themis_opt.schedule import Schedule
from themis_opt.validation import RULES as CHUNK_RULES

PARTS: Mapping[CollectiveKind, frozenset[tuple[str, ...]]] = MappingProxyType(
    {
        kind: frozenset({("whole",), ("gather", "scatter")} if kind is CollectiveKind.ALL_REDUCE else {("whole",)})
        for kind in CollectiveKind
    }
)
"""The parts in which the launches may carry a tensor of each kind."""

PART_NAMES = ("gather", "scatter", "whole")

RUN_AS: Mapping[str, CollectiveKind] = MappingProxyType(
    {"scatter": CollectiveKind.REDUCE_SCATTER, "gather": CollectiveKind.ALL_GATHER}
)

IN_ITERATION = ("shape", "stages", "ag_order", "sizes", "precedence")
"""Rules of collectives that hold for the stages of each iteration on their own."""

Rule = Callable[[IterationSchedule], str | None]


def validate_iterations(schedule: IterationSchedule) -> None:
    """Check every rule; iterations but the last must be complete.

    Raises
    ------
    InvalidSchedule
        For the first broken rule, in the order of :data:`RULES`.
    """
    for name, rule in RULES.items():
        broken = rule(schedule)
        if broken is not None:
            raise InvalidSchedule(name, broken)


def shape(schedule: IterationSchedule) -> str | None:
    """One collective and one group of chunks per launch, one time per task and stage, in two iterations or more."""
    instance, plan, starts = schedule.instance, schedule.plan, schedule.task_start
    counts = {len(plan.launches), len(plan.stream.collectives), len(plan.chunks.chunks)}
    if counts == {0} or len(counts) > 1:
        return "launches, collectives and groups of chunks must be equally many, and at least one"
    if starts.ndim != 2 or len(starts) < 2 or starts.shape[1] != len(instance.iteration.tasks):
        return f"starts of tasks have the shape {starts.shape}"
    if schedule.stage_start.shape != (len(starts), plan.chunks.num_stages):
        return f"starts of stages have the shape {schedule.stage_start.shape}"
    return None


def coverage(schedule: IterationSchedule) -> str | None:
    """The launches carry every tensor once, whole or in both halves, with tensors of its kind and span."""
    instance, carried = schedule.instance, Counter[tuple[int, str]]()
    for launch, collective in zip(schedule.plan.launches, schedule.plan.stream.collectives, strict=True):
        carried.update((tensor, launch.part) for tensor in launch.tensors)
        own = [instance.iteration.tensors[tensor] for tensor in launch.tensors]
        if len({(t.kind, instance.spans[n]) for t, n in zip(own, launch.tensors, strict=True)}) != 1:
            return f"{launch.name} fuses tensors of different kinds or dimensions"
        if launch.kind is not RUN_AS.get(launch.part, own[0].kind):
            return f"{launch.name} runs {launch.kind} as the {launch.part} of {own[0].kind}"
        if collective.kind is not launch.kind or collective.size != sum(t.size for t in own):
            return f"{launch.name} has {collective.size} bytes of {collective.kind}, not those of its tensors"
    for number, tensor in enumerate(instance.iteration.tensors):
        parts = tuple(part for part in PART_NAMES for _ in range(carried[number, part]))
        if parts not in PARTS[tensor.kind]:
            return f"tensor {tensor.name} is carried in the parts {', '.join(parts) or 'none'}"
    return None


def stream(schedule: IterationSchedule) -> str | None:
    """Launches run in the network of the instance, by its rules, in no more chunks, and cut no element of a tensor."""
    instance, own = schedule.instance, schedule.plan.stream
    if own.network.dimensions != instance.fabric.dimensions:
        return "the plan is for another network"
    if (own.latency, own.ag_order) != (instance.latency, instance.ag_order):
        return f"the plan is for latency {own.latency} and {own.ag_order} gather orders"
    for launch, collective in zip(schedule.plan.launches, own.collectives, strict=True):
        if collective.chunks > instance.chunks:
            return f"{launch.name} may have {collective.chunks} chunks, the instance allows {instance.chunks}"
        elements = {instance.iteration.tensors[tensor].element_bytes for tensor in launch.tensors}
        if elements != {collective.element_bytes}:
            return f"{launch.name} has elements of {collective.element_bytes} bytes, its tensors of {sorted(elements)}"
    return None


def spans(schedule: IterationSchedule) -> str | None:
    """Every launch runs on the dimensions of its tensors."""
    for launch, span in zip(schedule.plan.launches, schedule.plan.stream.spans, strict=True):
        if span != schedule.instance.spans[launch.tensors[0]]:
            return f"{launch.name} runs on dimensions {span}"
    return None


def chunks(schedule: IterationSchedule) -> str | None:
    """In each iteration the stages obey the rules of collectives."""
    for row in range(schedule.num_iterations - 1):
        times = (schedule.stage_start[row], schedule.stage_end[row], schedule.stage_ready[row])
        own = Schedule(schedule.plan.stream, schedule.plan.chunks, *times)
        for name in IN_ITERATION:
            broken = CHUNK_RULES[name](own)
            if broken is not None:
                return f"iteration {row}: {broken}"
    return None


def mirrored_halves(schedule: IterationSchedule) -> str | None:
    """Where the instance asks for it, a gather launched on its own has the chunks of its scatter, in reverse."""
    if schedule.instance.ag_order == "free":
        return None
    pairs = zip(schedule.plan.launches, schedule.plan.chunks.chunks, strict=True)
    halves = {(launch.tensors, launch.part): own for launch, own in pairs}
    for (tensors, part), own in halves.items():
        scatter = halves.get((tensors, "scatter"))
        mirror = scatter and Chunks(scatter.sizes, scatter.paths[:, ::-1])
        if part == "gather" and own != mirror:
            return f"the gather of tensors {tensors} does not reverse its scatter"
    return None


def serial_compute(schedule: IterationSchedule) -> str | None:
    """Tasks run one after the other, in the order of the instance."""
    start, end = schedule.task_start.ravel(), schedule.task_end.ravel()
    early = np.flatnonzero(start[1:] < end[:-1])
    if start[0] < 0 or len(early):
        row, task = divmod(int(early[0]) + 1 if len(early) else 0, len(schedule.instance.iteration.tasks))
        return f"iteration {row}: task {schedule.instance.iteration.tasks[task].name} starts too early"
    return None


def release(schedule: IterationSchedule) -> str | None:
    """No stage of a tensor starts before the task that makes the tensor ends, or a gather before its scatter."""
    ready = schedule.instance.ready_task
    scattered = {
        launch.tensors: number for number, launch in enumerate(schedule.plan.launches) if launch.part == "scatter"
    }
    for number, launch in enumerate(schedule.plan.launches):
        first, _ = schedule.plan.ends_of_chunks[number]
        starts = schedule.stage_start[:-1, first].min(axis=1)
        allowed = schedule.task_end[:-1, max(ready[tensor] for tensor in launch.tensors)]
        if launch.part == "gather":
            if launch.tensors not in scattered:
                return f"{launch.name} gathers what was not scattered"
            allowed = np.maximum(allowed, schedule.launch_ready[:-1, scattered[launch.tensors]])
        early = np.flatnonzero(starts < allowed)
        if len(early):
            row = early[0]
            return f"iteration {row}: {launch.name} starts at {starts[row]} ps, its data are ready at {allowed[row]}"
    return None


def needs(schedule: IterationSchedule) -> str | None:
    """No task starts before the tensors that it needs have arrived."""
    instance = schedule.instance
    for number, launch in enumerate(schedule.plan.launches):
        if launch.part == "scatter":
            continue
        for tensor in launch.tensors:
            later, task = instance.needed_later[tensor], instance.needed_task[tensor]
            used = schedule.task_start[later:, task]
            arrived = schedule.launch_ready[: len(used), number]
            complete = min(len(used), schedule.num_iterations - 1)
            early = np.flatnonzero(used[:complete] < arrived[:complete])
            if len(early):
                name = instance.iteration.tasks[task].name
                return f"iteration {early[0] + later}: task {name} starts before {launch.name} has arrived"
    return None


def no_overlap(schedule: IterationSchedule) -> str | None:
    """A dimension serves one stage at a time, across launches and iterations."""
    known = schedule.stage_start.ravel() >= 0
    stages = schedule.stage_start.shape[1]
    resources = np.array(schedule.instance.resources)[schedule.plan.chunks.stage_dimensions]
    every = np.tile(resources, schedule.num_iterations)
    start, end = schedule.stage_start.ravel(), schedule.stage_end.ravel()
    for resource in range(schedule.instance.num_resources):
        own = np.flatnonzero(known & (every == resource))
        own = own[np.lexsort((end[own], start[own]))]
        early = np.flatnonzero(start[own[1:]] < end[own[:-1]])
        if len(early):
            row, stage = divmod(int(own[early[0] + 1]), stages)
            label = schedule.plan.chunks.label(schedule.plan.stream, stage)
            return f"iteration {row}: {label} starts before the stage before it ends"
    return None


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "shape": shape,
        "coverage": coverage,
        "stream": stream,
        "spans": spans,
        "chunks": chunks,
        "mirrored_halves": mirrored_halves,
        "serial_compute": serial_compute,
        "release": release,
        "needs": needs,
        "no_overlap": no_overlap,
    }
)
"""The rules by name, in the order they are checked: later ones rely on earlier ones."""

"""The schedule file of training iterations: launches, chunks and times, with the instance and what is proven."""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from themis_opt.cost import IntArray, check_clock
from themis_opt.dispatch import DISPATCH
from themis_opt.errors import InputError
from themis_opt.formats.schedule_file import check_fingerprint, read_content
from themis_opt.instance import CollectiveKind
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan, Launch, Order, Part, TaskOf, stream_of
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.plan import Chunks, Plan
from themis_opt.version import __version__

FORMAT: Literal["themis-opt/iteration-schedule/1"] = "themis-opt/iteration-schedule/1"

Time = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
"""Picoseconds; a duration that the clock holds can be added."""

Size = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Number = Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class TaskPart(_Part):
    """A task by name, `later` iterations after the one that launches."""

    task: str
    later: Annotated[int, Field(strict=True, ge=0, le=1)]


class LaunchPart(_Part):
    """One collective operation of every iteration; its tensors, launches and dimensions are names."""

    name: str
    kind: CollectiveKind
    part: Part
    tensors: Annotated[list[str], Field(min_length=1)]
    after: TaskPart
    before: TaskPart
    after_launches: list[str] = []
    sizes: Annotated[list[Size], Field(min_length=1)]
    paths: Annotated[list[list[str]], Field(min_length=1)]


class IterationSummary(_Part):
    """What was found out about the schedule when it was written; not needed to read it back."""

    policy: str = ""
    iteration_ns: float
    exposed_ns: float
    overlap: float
    utilisation: float
    bounds_ns: dict[str, float] = {}
    gap: float | None = None
    exposed_gap: float | None = None
    status: str = ""
    written_by: str = f"themis_opt {__version__}"
    settings: dict[str, str | int | float] = {}


class IterationDocument(_Part):
    """Content of a schedule file of iterations.

    Stages are numbered launch by launch, chunk by chunk, along the path.  Times have one row per simulated iteration;
    a stage of the last one is null if its launch waits for one more.  `sequences` has, per resource of the network,
    pairs of a stage and the number of periods since its iteration began.
    """

    format: Literal["themis-opt/iteration-schedule/1"]
    instance: IterationInstance
    fingerprint: str
    summary: IterationSummary
    order: Order
    dispatch: Literal[tuple(DISPATCH)]  # type: ignore[valid-type]
    launches: Annotated[list[LaunchPart], Field(min_length=1)]
    keys: list[float] | None = None
    sequences: list[list[tuple[Number, Number]]] = []
    task_start_ps: list[list[Time]]
    stage_start_ps: list[list[Time | None]]


def iteration_document(schedule: IterationSchedule, summary: IterationSummary | None = None) -> dict[str, Any]:
    """The schedule as plain JSON values."""
    instance, plan = schedule.instance, schedule.plan
    document = IterationDocument(
        format=FORMAT,
        instance=instance,
        fingerprint=instance.fingerprint,
        summary=summary or _plain_summary(schedule),
        order=plan.order,
        dispatch=plan.chunks.dispatch,
        launches=[_launch_part(schedule, number) for number in range(len(plan.launches))],
        keys=None if plan.keys is None else plan.keys.tolist(),
        sequences=[[(stage, periods) for stage, periods in own.tolist()] for own in plan.sequences],
        task_start_ps=schedule.task_start.tolist(),
        stage_start_ps=[[None if time < 0 else time for time in row] for row in schedule.stage_start.tolist()],
    )
    return document.model_dump(mode="json")


def _plain_summary(schedule: IterationSchedule) -> IterationSummary:
    return IterationSummary(
        iteration_ns=schedule.iteration_time / 1000,
        exposed_ns=schedule.exposed / 1000,
        overlap=schedule.overlap,
        utilisation=schedule.utilisation,
    )


def _launch_part(schedule: IterationSchedule, number: int) -> LaunchPart:
    instance, plan = schedule.instance, schedule.plan
    launch, chunks, names = plan.launches[number], plan.chunks.chunks[number], instance.fabric.dimension_names
    tasks, tensors = instance.iteration.tasks, instance.iteration.tensors
    return LaunchPart(
        name=launch.name,
        kind=launch.kind,
        part=launch.part,
        tensors=[tensors[tensor].name for tensor in launch.tensors],
        after=TaskPart(task=tasks[launch.after.task].name, later=launch.after.later),
        before=TaskPart(task=tasks[launch.before.task].name, later=launch.before.later),
        after_launches=[plan.launches[other].name for other in launch.after_launches],
        sizes=chunks.sizes.tolist(),
        paths=[[names[k] for k in path] for path in chunks.paths.tolist()],
    )


def read_iteration_schedule(path: str | Path, instance: IterationInstance | None = None) -> IterationSchedule:
    """Read a schedule file of iterations; it is not validated yet.

    Parameters
    ----------
    path : path
        The file.
    instance : IterationInstance, optional
        The instance it must belong to; by default the one inside the file.

    Raises
    ------
    InputError
        If the file is no such file, or belongs to another instance.
    """
    return read_content(
        path, FORMAT, IterationDocument, lambda content: _schedule(content, instance or content.instance)
    )


def _schedule(content: IterationDocument, instance: IterationInstance) -> IterationSchedule:
    check_fingerprint(content.fingerprint, instance.fingerprint)
    if len(content.task_start_ps) < 2:
        raise InputError(f"must have at least 2 rows, has {len(content.task_start_ps)}", field="task_start_ps")
    plan = _plan(content, instance)
    tasks = _times("task_start_ps", content.task_start_ps, len(instance.iteration.tasks), len(content.task_start_ps))
    stages = _times("stage_start_ps", content.stage_start_ps, plan.chunks.num_stages, len(tasks))
    if (stages[:-1] < 0).any():
        row = int(np.flatnonzero((stages[:-1] < 0).any(axis=1))[0])
        raise InputError("may be null in the last iteration only", field=f"stage_start_ps[{row}]")
    schedule = IterationSchedule(instance, plan, tasks, stages)
    if schedule.iteration_time / 1000 != content.summary.iteration_ns:
        rule = f"must be the iteration time, {schedule.iteration_time / 1000}"
        raise InputError(rule, field="summary.iteration_ns", value=content.summary.iteration_ns)
    return schedule


def _times(field: str, rows: list[list[Any]], columns: int, count: int) -> IntArray:
    """Times with one row per iteration; those that are not known are -1."""
    if len(rows) != count:
        raise InputError(f"must have one row for each of {count} iterations", field=field)
    wrong = [number for number, row in enumerate(rows) if len(row) != columns]
    if wrong:
        raise InputError(f"must hold {columns} times, has {len(rows[wrong[0]])}", field=f"{field}[{wrong[0]}]")
    return np.array([[-1 if time is None else time for time in row] for row in rows], dtype=np.int64)


def _plan(content: IterationDocument, instance: IterationInstance) -> IterationPlan:
    launches = tuple(_launch(content, instance, number) for number in range(len(content.launches)))
    stream = stream_of(instance, launches)
    check_clock(stream)
    names = {name: k for k, name in enumerate(instance.fabric.dimension_names)}
    chunks = tuple(_chunks(names, number, part) for number, part in enumerate(content.launches))
    whole = Plan(chunks, content.dispatch)
    keys = None if content.keys is None else np.array(content.keys)
    if keys is not None and len(keys) != whole.num_stages:
        raise InputError(f"must hold {whole.num_stages} numbers, has {len(keys)}", field="keys")
    return IterationPlan(launches, stream, whole, content.order, keys, _sequences(content, instance, whole))


def _launch(content: IterationDocument, instance: IterationInstance, number: int) -> Launch:
    part, field = content.launches[number], f"launches[{number}]"
    tensors = {tensor.name: index for index, tensor in enumerate(instance.iteration.tensors)}
    launches = {launch.name: index for index, launch in enumerate(content.launches)}
    return Launch(
        name=part.name,
        kind=part.kind,
        part=part.part,
        tensors=tuple(_found(tensors, name, f"{field}.tensors") for name in part.tensors),
        after=TaskOf(_found(instance.task_index, part.after.task, f"{field}.after.task"), part.after.later),
        before=TaskOf(_found(instance.task_index, part.before.task, f"{field}.before.task"), part.before.later),
        after_launches=tuple(_found(launches, name, f"{field}.after_launches") for name in part.after_launches),
    )


def _found(index: dict[str, int], name: str, field: str) -> int:
    if name not in index:
        raise InputError(f"must be one of {', '.join(index)}", field=field, value=name)
    return index[name]


def _chunks(names: dict[str, int], number: int, part: LaunchPart) -> Chunks:
    field = f"launches[{number}].paths"
    if len({len(path) for path in part.paths}) != 1:
        raise InputError("paths must have one length", field=field)
    paths = [[_found(names, name, field) for name in path] for path in part.paths]
    return Chunks(np.array(part.sizes, dtype=np.int64), np.array(paths, dtype=np.int64))


def _sequences(content: IterationDocument, instance: IterationInstance, whole: Plan) -> tuple[IntArray, ...]:
    if not content.sequences:
        return ()
    if len(content.sequences) != instance.num_resources:
        raise InputError(f"must have one entry for each of {instance.num_resources} resources", field="sequences")
    resources = np.array(instance.resources)[whole.stage_dimensions]
    found = tuple(np.array(own, dtype=np.int64).reshape(-1, 2) for own in content.sequences)
    for number, own in enumerate(found):
        if not np.array_equal(np.sort(own[:, 0]), np.flatnonzero(resources == number)):
            raise InputError("must list each stage of the resource once", field=f"sequences[{number}]")
    return found

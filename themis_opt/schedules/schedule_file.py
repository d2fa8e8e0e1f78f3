"""The schedule file: a schedule with its instance and its bounds.

There are two formats, for schedules with compute and for those without; each is a document that knows how to write and
to read what only it holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, StrictBool, TypeAdapter

from themis_opt.base.arrays import IntArray
from themis_opt.base.documents import read_json, schema_text
from themis_opt.base.errors import InputError, InvalidSchedule, check_choice
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, nanoseconds
from themis_opt.problem.cost import check_clock
from themis_opt.problem.documents import errors_of
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules import envelope
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import Chunks, Launch, LaunchedPart, Order, Plan, TaskOf, check_sequences, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import VALIDATION_RULES

WholeNumber = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Number = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Time = Annotated[int, Field(strict=True, ge=0, lt=2**62)]  # picoseconds; a duration that the clock holds can be added
Numbers = Annotated[list[WholeNumber], Field(fail_fast=True)]
Names = Annotated[list[str], Field(fail_fast=True)]  # lists of millions say one error alone: each takes some KiB


class MakespanSummary(envelope.MeasuredSummary):
    """The summary of a schedule without compute, with what its times say."""

    makespan_ns: float
    utilisation: float


class PeriodSummary(MakespanSummary):
    """The summary of a schedule with compute, with what its times say."""

    exposed_ns: float
    overlap: float
    exposed_gap: float | None = None


class ChunksPart(envelope.SchedulePart):
    """The chunks of one collective operation: bytes, and the names of the dimensions along each path."""

    name: str
    sizes: Annotated[Numbers, Field(min_length=1)]
    paths: Annotated[list[Names], Field(min_length=1, fail_fast=True)]


class TaskPart(envelope.SchedulePart):
    """A task by name, `later` iterations after the one that launches."""

    task: str
    later: Annotated[int, Field(strict=True, ge=0, le=1)]


class LaunchPart(ChunksPart):
    """One collective operation of every iteration; its tensors, launches and dimensions are names.

    Whether it is `urgent` follows from its kind where the file does not say so.
    """

    kind: CollectiveKind
    part: LaunchedPart
    tensors: Annotated[Names, Field(min_length=1)]
    after: TaskPart | None
    before: TaskPart | None
    after_launches: Names = Field(default_factory=list)
    urgent: StrictBool | None = None


class _Document(envelope.Envelope):
    """Fields of both formats; stages are numbered launch by launch, chunk by chunk, along the path."""

    has_compute: ClassVar[bool]

    instance: Instance
    fingerprint: str
    dispatch: Literal[tuple(DISPATCH)]  # type: ignore[valid-type]


class ScheduleDocument(_Document):
    """A schedule without compute."""

    has_compute = False

    format: Literal["themis-opt/schedule/1"] = "themis-opt/schedule/1"
    summary: MakespanSummary
    collectives: Annotated[list[ChunksPart], Field(fail_fast=True)]
    sequences: dict[str, Numbers | None]
    start_ps: Numbers
    end_ps: Numbers
    ready_ps: Numbers

    @classmethod
    def of(cls, schedule: Schedule, **common: Any) -> Self:
        """The document of a schedule."""
        instance, plan = schedule.instance, schedule.plan
        if plan.launches or plan.order != "ready" or plan.keys is not None:
            raise InputError("a schedule without compute is written without launches, order and keys", field="plan")
        sequences = (None if sequence is None else sequence.tolist() for sequence in plan.sequences)
        return cls(
            **common,
            collectives=[
                ChunksPart(name=exchange.name, **_chunks_fields(instance, chunks))
                for exchange, chunks in zip(instance.exchanges, plan.chunks, strict=True)
            ],
            sequences=dict(zip(instance.resource_names, sequences, strict=False)),
            start_ps=schedule.start.tolist(),
            end_ps=schedule.end.tolist(),
            ready_ps=schedule.ready.tolist(),
        )

    def plan(self, instance: Instance) -> Plan:
        """The chunks of all collectives."""
        names, required = ([one.name for one in group] for group in (self.collectives, instance.exchanges))
        if names != required:
            raise InputError(f"names must be {', '.join(required)}", field="collectives", value=", ".join(names))
        return Plan(chunks_of(instance, "collectives", self.collectives), self.dispatch)

    def ordered(self, instance: Instance, plan: Plan) -> Plan:
        """The plan with its sequences."""
        names = instance.resource_names
        if self.sequences and self.sequences.keys() != set(names):
            raise InputError(f"must have one entry for each of {', '.join(names)}", field="sequences")
        listed = [self.sequences[name] for name in names if self.sequences]
        sequences = tuple(None if stages is None else np.array(stages, dtype=np.int64) for stages in listed)
        check_sequences(instance, plan, {f"sequences.{name}": s for name, s in zip(names, sequences, strict=False)})
        return replace(plan, sequences=sequences)

    def timed(self, instance: Instance, plan: Plan) -> Schedule:
        """The plan with its times."""
        times = (np.array(column, dtype=np.int64) for column in (self.start_ps, self.end_ps, self.ready_ps))
        return Schedule(instance, plan, *times)


class PeriodDocument(_Document):
    """A schedule of a training iteration.

    Times have one row per simulated iteration; a stage of the last one is null if its launch waits for one more.
    `sequences` has, per resource of the network, pairs of a stage and the number of periods since its iteration began.
    """

    has_compute = True

    format: Literal["themis-opt/iteration-schedule/1"] = "themis-opt/iteration-schedule/1"
    summary: PeriodSummary
    order: Order
    launches: Annotated[list[LaunchPart], Field(min_length=1, fail_fast=True)]
    keys: Annotated[list[float], Field(fail_fast=True)] | None = None
    sequences: Annotated[
        list[Annotated[list[tuple[Number, Number]], Field(fail_fast=True)] | None], Field(fail_fast=True)
    ] = Field(default_factory=list)
    task_start_ps: Annotated[list[Annotated[list[Time], Field(fail_fast=True)]], Field(fail_fast=True)]
    stage_start_ps: Annotated[list[Annotated[list[Time | None], Field(fail_fast=True)]], Field(fail_fast=True)]

    @classmethod
    def of(cls, schedule: Schedule, **common: Any) -> Self:
        """The document of a schedule."""
        instance, plan = schedule.instance, schedule.plan
        shifts = plan.shifts if len(plan.shifts) else np.zeros(plan.num_stages, dtype=np.int64)
        return cls(
            **common,
            order=plan.order,
            launches=launch_parts(instance, plan),
            keys=None if plan.keys is None else plan.keys.tolist(),
            sequences=[
                None if stages is None else list(zip(stages.tolist(), shifts[stages].tolist(), strict=True))
                for stages in plan.sequences
            ],
            task_start_ps=schedule.task_start.tolist(),
            stage_start_ps=[
                [None if time < 0 else time for time in row] for row in schedule.period.stage_start.tolist()
            ],
        )

    def plan(self, instance: Instance) -> Plan:
        """The launches and their chunks."""
        launches = launches_of(instance, self.launches)
        return Plan(chunks_of(instance, "launches", self.launches), self.dispatch, launches=launches, order=self.order)

    def ordered(self, instance: Instance, plan: Plan) -> Plan:
        """The plan with its keys, sequences and shifts."""
        keys = None if self.keys is None else np.array(self.keys)
        if keys is not None and len(keys) != plan.num_stages:
            raise InputError(f"must hold {plan.num_stages} numbers, has {len(keys)}", field="keys")
        if not self.sequences:
            return replace(plan, keys=keys)
        if len(self.sequences) != instance.num_resources:
            raise InputError(f"must have one entry for each of {instance.num_resources} resources", field="sequences")
        tables = [None if rows is None else np.array(rows, dtype=np.int64).reshape(-1, 2) for rows in self.sequences]
        sequences = tuple(None if table is None else table[:, 0] for table in tables)
        check_sequences(instance, plan, {f"sequences[{n}]": stages for n, stages in enumerate(sequences)})
        shifts = np.zeros(plan.num_stages, dtype=np.int64)
        for table in tables:
            if table is not None:
                shifts[table[:, 0]] = table[:, 1]
        return replace(plan, keys=keys, sequences=sequences, shifts=shifts)

    def timed(self, instance: Instance, plan: Plan) -> Schedule:
        """The plan with its times: ends and results follow from the costs of the stages."""
        if len(self.task_start_ps) < 2:
            raise InputError(f"must have at least 2 rows, has {len(self.task_start_ps)}", field="task_start_ps")
        tasks = _rows("task_start_ps", self.task_start_ps, len(instance.tasks), len(self.task_start_ps))
        start = _rows("stage_start_ps", self.stage_start_ps, plan.num_stages, len(tasks))
        unknown = np.flatnonzero((start[:-1] < 0).any(axis=1))
        if len(unknown):
            raise InputError("may be null in the last iteration only", field=f"stage_start_ps[{unknown[0]}]")
        costs = plan.costs(instance)
        end = start + costs.occupancy
        return Schedule(instance, plan, start.ravel(), end.ravel(), (end + costs.lag).ravel(), tasks)


def schedule_schema() -> str:
    """The JSON Schema of schedule files, of either format."""
    return schema_text(TypeAdapter(ScheduleDocument | PeriodDocument).json_schema())


def schedule_document(schedule: Schedule, summary: envelope.Summary | None = None) -> dict[str, Any]:
    """The schedule as plain JSON values.

    Raises InputError if it has no compute, but launches, an order or keys, for which the format has no place.

    `summary`: what is known of it beside what its times say.
    """
    model: type[ScheduleDocument | PeriodDocument] = PeriodDocument if schedule.has_period else ScheduleDocument
    instance, remarks = schedule.instance, (summary or envelope.Summary()).model_dump()
    remarks |= _measures(schedule, remarks["bounds_ns"])
    common = {"instance": instance, "fingerprint": instance.fingerprint, "summary": remarks}
    return model.of(schedule, dispatch=schedule.plan.dispatch, **common).model_dump(mode="json")


def _measures(schedule: Schedule, bounds_ns: Mapping[str, float]) -> dict[str, float | None]:
    """Figures of the times of a schedule, and its gaps to the best of some bounds, by the fields of its summary.

    Times are in nanoseconds, all others fractions; gaps are None without bounds.
    """
    common = envelope.measures(schedule.makespan, bounds_ns) | {"utilisation": schedule.utilisation}
    if not schedule.has_period:
        return common
    period, best = schedule.period, max(bounds_ns.values(), default=0.0)
    exposed_gap = period.exposed_gap(best * PICOSECONDS_PER_NANOSECOND) if best > 0 else None
    return common | {"exposed_ns": nanoseconds(period.exposed), "overlap": period.overlap, "exposed_gap": exposed_gap}


def read_schedule(path: str | Path, instance: Instance | None = None) -> Schedule:
    """Read a schedule file, with compute or without; not all rules of the model are checked yet.

    Raises InputError if the file is no schedule file, belongs to another instance, or its summary contradicts its
    times. Raises InvalidSchedule if its plan is so wrong that its stages have no costs.

    `instance`: the instance it must belong to; by default the one inside the file.
    """
    return read_solution(path, instance)[0]


def read_solution(path: str | Path, instance: Instance | None = None) -> tuple[Schedule, envelope.Summary]:
    """Read a schedule file as :func:`read_schedule` does, and what its summary says."""
    content = read_json(Path(path))
    kinds: tuple[type[ScheduleDocument | PeriodDocument], ...] = (ScheduleDocument, PeriodDocument)
    documents = {kind.model_fields["format"].default: kind for kind in kinds}
    with errors_of(Path(path)):
        if content.get("format") not in list(documents):
            rule = "must be " + " or ".join(f"'{name}'" for name in documents)
            raise InputError(rule, field="format", value=content.get("format"))
        document = documents[content["format"]].model_validate(content)
        return _schedule(document, instance or document.instance), document.summary


def _schedule(document: ScheduleDocument | PeriodDocument, instance: Instance) -> Schedule:
    envelope.check_fingerprint(document.fingerprint, instance)
    if document.has_compute != has_launches(instance):
        rule = f"is for instances {'with' if document.has_compute else 'without'} an iteration"
        raise InputError(rule, field="format", value=document.format)
    check_clock(instance)
    plan = document.plan(instance)
    check_plan(instance, plan)
    schedule = document.timed(instance, document.ordered(instance, plan))
    _check_summary(schedule, document.summary)
    return schedule


def check_plan(instance: Instance, plan: Plan) -> None:
    """Refuse a plan whose stages have no costs."""
    nothing = np.zeros(0, dtype=np.int64)
    untimed = Schedule(instance, plan, nothing, nothing, nothing)
    for name in ("coverage", "stages", "sizes"):
        broken = VALIDATION_RULES[name](untimed)
        if broken is not None:
            raise InvalidSchedule(name, broken)


def _check_summary(schedule: Schedule, summary: envelope.Summary) -> None:
    """Refuse a summary that does not fit the times."""
    if not len(schedule.ready):
        return  # no time of any stage: the rule `shape` says so
    measured = _measures(schedule, summary.bounds_ns)
    best = max(summary.bounds_ns.values(), default=0.0)
    if best <= nanoseconds(schedule.instance.compute + schedule.instance.bubble) * (1 + envelope.SUMMARY_ROUNDING):
        measured.pop("exposed_gap", None)  # nothing is left between the bound and compute but noise
    envelope.check_summary(summary, measured, schedule.makespan)


def _chunks_fields(instance: Instance, chunks: Chunks) -> dict[str, Any]:
    names = instance.fabric.dimension_names
    return {"sizes": chunks.sizes.tolist(), "paths": [[names[k] for k in path] for path in chunks.paths.tolist()]}


def chunks_of(instance: Instance, group: str, parts: Sequence[ChunksPart]) -> tuple[Chunks, ...]:
    """The chunks of the parts in the field `group`."""
    names = {name: k for k, name in enumerate(instance.fabric.dimension_names)}
    chunks = []
    for number, part in enumerate(parts):
        field = f"{group}[{number}]"
        if len({len(path) for path in part.paths}) != 1:
            raise InputError("paths must have one length", field=f"{field}.paths")
        if len(part.sizes) != len(part.paths):
            rule = f"must hold one size for each of {len(part.paths)} paths, has {len(part.sizes)}"
            raise InputError(rule, field=f"{field}.sizes")
        unknown = sorted({name for path in part.paths for name in path} - names.keys())
        if unknown:
            raise InputError(f"the network has {', '.join(names)}", field=f"{field}.paths", value=unknown[0])
        paths = np.array([[names[name] for name in path] for path in part.paths], dtype=np.int64)
        chunks.append(Chunks(np.array(part.sizes, dtype=np.int64), paths))
    return tuple(chunks)


def launch_parts(instance: Instance, plan: Plan) -> list[LaunchPart]:
    """The launches of a plan, with tensors, tasks and launches by their names."""

    def task(of: TaskOf | None) -> TaskPart | None:
        return None if of is None else TaskPart(task=instance.tasks[of.task].name, later=of.later)

    launches = plan.launches_of(instance)
    return [
        LaunchPart(
            name=launch.name,
            kind=launch.kind,
            part=launch.part,
            tensors=[instance.exchanges[tensor].name for tensor in launch.tensors],
            after=task(launch.after),
            before=task(launch.before),
            after_launches=[launches[other].name for other in launch.after_launches],
            urgent=launch.urgent,
            **_chunks_fields(instance, chunks),
        )
        for launch, chunks in zip(launches, plan.chunks, strict=True)
    ]


def launches_of(instance: Instance, parts: Sequence[LaunchPart]) -> tuple[Launch, ...]:
    """The launches of parts in the field ``launches``."""
    tensors = {exchange.name: index for index, exchange in enumerate(instance.exchanges)}
    numbers = {launch.name: index for index, launch in enumerate(parts)}

    def task(of: TaskPart | None, field: str) -> TaskOf | None:
        return None if of is None else TaskOf(_index(instance.task_index, of.task, f"{field}.task"), of.later)

    launches = []
    for number, part in enumerate(parts):
        field = f"launches[{number}]"
        if numbers[part.name] != number:
            raise InputError("names must differ", field=f"{field}.name", value=part.name)
        launch = Launch(
            name=part.name,
            kind=part.kind,
            tensors=tuple(_index(tensors, name, f"{field}.tensors") for name in part.tensors),
            after=task(part.after, f"{field}.after"),
            before=task(part.before, f"{field}.before"),
            after_launches=tuple(_index(numbers, name, f"{field}.after_launches") for name in part.after_launches),
            part=part.part,
            urgent=part.kind.rule.urgent if part.urgent is None else part.urgent,
        )
        launches.append(launch)
    return tuple(launches)


def _index(places: Mapping[str, int], name: str, field: str) -> int:
    check_choice(name, places, field)
    return places[name]


def _rows(field: str, rows: Sequence[Sequence[int | None]], columns: int, count: int) -> IntArray:
    """Times with one row per iteration; unknown times are -1."""
    if len(rows) != count:
        raise InputError(f"must have one row for each of {count} iterations", field=field)
    wrong = [number for number, row in enumerate(rows) if len(row) != columns]
    if wrong:
        raise InputError(f"must hold {columns} times, has {len(rows[wrong[0]])}", field=f"{field}[{wrong[0]}]")
    return np.array([[-1 if time is None else time for time in row] for row in rows], dtype=np.int64)

"""The order table: what a runtime needs to follow a schedule, without its times.

A runtime that issues the stages of each dimension in the order given, one in flight at a time, and starts
none before the stage of its chunk before it is finished, follows the schedule whatever its clock says.

With compute, the orders repeat with every iteration, and the runtime launches collectives beside the tasks: in its
period p a dimension issues the stages of iteration p - ``shift``, and leaves out those of iterations before the first.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.formats.tables import columns_csv, is_tabulated
from themis_opt.problem.catalog import is_graph, library_instances, read_instance, shipped
from themis_opt.problem.documents import errors_of
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.schedules.plan import Plan, check_sequences, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import (
    ChunksPart,
    LaunchPart,
    check_plan,
    chunks_of,
    launch_parts,
    launches_of,
)
from themis_opt.schedules.simulator import simulate

ORDER_FORMAT = "themis-opt/order-table/1"

LAUNCH_FIELDS = {"part", "tensors", "after", "before", "after_launches"}


def order_table(schedule: Schedule) -> dict[str, Any]:
    """The paths of all chunks and the issue order on every dimension, ready for JSON.

    What each field means is said in ``order.schema.json`` beside this module.
    """
    table: dict[str, Any] = json.loads(order_json(schedule))
    return table


def order_json(schedule: Schedule) -> str:
    """The order table as the text of a file.

    It is put together from texts, for a million issues as dicts would take seconds and a gigabyte.
    """
    instance = schedule.instance
    sizes = np.array(instance.fabric.sizes)
    members = [(instance.ports.resource == k).any(axis=0) for k in range(instance.num_resources)]
    parts = launch_parts(instance, schedule.plan) if schedule.has_period else [None] * len(schedule.launched)
    collectives = [_collective(schedule, number, part) for number, part in enumerate(parts)]
    dimensions = [
        _object(_texts({"name": name, "size": math.prod(sizes[members[k]].tolist())}) | {"issue_order": issues})
        for k, (name, issues) in enumerate(zip(instance.resource_names, _issue_orders(schedule), strict=True))
    ]
    head = {"format": ORDER_FORMAT, "name": instance.name, "fingerprint": instance.fingerprint}
    return _object(_texts(head) | {"collectives": _list(collectives), "dimensions": _list(dimensions)}) + "\n"


def order_columns(schedule: Schedule) -> dict[str, list[Any]]:
    """The issue orders: dimension, position, collective, chunk, phase and bytes of the chunk.

    With compute there is the shift, too, and positions count along the resource of the dimension.
    """
    plan = schedule.enforced_plan()
    orders = [order for order in plan.sequences if order is not None]
    stages, counts = np.concatenate(orders), list(map(len, orders))
    columns = schedule.stage_columns()
    sizes = np.concatenate([np.repeat(chunks.sizes, chunks.paths.shape[1]) for chunks in plan.chunks])
    served = {name: np.array(column, dtype=object)[stages].tolist() for name, column in columns.items()}
    resources = np.repeat(np.array(schedule.instance.resource_names, dtype=object), counts).tolist()
    return {
        "dimension": served["dimension"] if schedule.has_period else resources,
        "position": [position for count in counts for position in range(count)],
        **{name: served[name] for name in ("collective", "chunk", "phase")},
        **({"shift": plan.shifts[stages].tolist()} if schedule.has_period else {}),
        "bytes": sizes[stages].tolist(),
    }


def order_csv(schedule: Schedule) -> str | None:
    """The issue orders as the text of a file, unless there are more than spreadsheets hold."""
    return columns_csv(order_columns(schedule)) if is_tabulated(schedule) else None


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in values.items()}


def _object(fields: Mapping[str, str]) -> str:
    """The JSON object of fields, whose values are texts already."""
    return f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text in fields.items())}}}"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def _collective(schedule: Schedule, number: int, part: LaunchPart | None) -> str:
    """A collective with its chunks and, where there is compute, when it is launched and what waits for it."""
    collective = schedule.launched[number]
    fields = {"name": collective.name, "kind": collective.kind.value, "bytes": collective.size}
    launch = part.model_dump(mode="json", include=LAUNCH_FIELDS) if part else {}
    return _object(_texts(fields) | {"chunks": _list(_chunk_texts(schedule, number))} | _texts(launch))


def _chunk_texts(schedule: Schedule, number: int) -> list[str]:
    chunks, phases = schedule.plan.chunks[number], schedule.launched[number].kind.rule.phases
    keys = [f"{phase.rule.label.lower()}_order" for phase in phases]
    names = np.array(schedule.instance.fabric.dimension_names)
    orders = dict[tuple[int, ...], str]()
    texts = []
    for index, (size, path) in enumerate(zip(chunks.sizes.tolist(), map(tuple, chunks.paths.tolist()), strict=True)):
        if path not in orders:
            parts = zip(keys, np.split(names[list(path)], len(keys)), strict=True)
            orders[path] = ", ".join(f'"{key}": {json.dumps(part.tolist())}' for key, part in parts)
        texts.append(f'{{"index": {index}, "bytes": {size}, {orders[path]}}}')
    return texts


def _issue_orders(schedule: Schedule) -> list[str]:
    plan = schedule.enforced_plan()
    begins = [f'{{"collective": {json.dumps(exchange.name)}, "chunk": ' for exchange in schedule.launched]
    ends = {phase.value: f', "phase": {json.dumps(phase.name.lower())}' for phase in Phase}
    arrays = (plan.launch_of_stage, plan.chunk_of_stage, plan.phases(schedule.instance))
    columns = zip(*(array.tolist() for array in arrays), _extras(schedule, plan), strict=True)
    issues = [f"{begins[launch]}{chunk}{ends[phase]}{extra}}}" for launch, chunk, phase, extra in columns]
    return [_list([issues[stage] for stage in order.tolist()]) for order in plan.sequences if order is not None]


def _extras(schedule: Schedule, plan: Plan) -> list[str]:
    """Further fields of the issue of a stage: where there is compute, and what each rail carries."""
    instance, extras = schedule.instance, [""] * plan.num_stages
    if schedule.has_period:
        names = [json.dumps(name) for name in instance.fabric.dimension_names]
        pairs = zip(plan.stage_dimensions.tolist(), plan.shifts.tolist(), strict=True)
        extras = [f', "dimension": {names[dimension]}, "shift": {shift}' for dimension, shift in pairs]
    for k, carried in schedule.rail_bytes.items():
        rails = [rail.name for rail in instance.fabric.dimensions[k].rails]
        stages = np.flatnonzero(plan.stage_dimensions == k).tolist()
        for stage, sizes in zip(stages, carried.tolist(), strict=True):
            extras[stage] += f', "rails": {json.dumps(dict(zip(rails, sizes, strict=True)))}'
    return extras


class Issue(BaseModel):
    """A stage that a dimension serves; what rails carry follows from it."""

    collective: str
    chunk: int
    phase: str
    shift: Annotated[int, Field(ge=0, lt=2**31)] = 0


class OrderOfDimension(BaseModel):
    """The stages of a dimension in turn."""

    name: str
    issue_order: list[Issue]


class OrderOfCollective(BaseModel):
    """A collective with its chunks, and where there is compute the fields of a launch."""

    model_config = ConfigDict(extra="allow")

    name: str
    kind: CollectiveKind
    chunks: list[dict[str, Any]]

    @property
    def fields(self) -> dict[str, Any]:
        """As schedule files have them: the bytes of chunks, and the dimensions along paths, those of all phases."""
        keys = [f"{phase.rule.label.lower()}_order" for phase in self.kind.rule.phases]
        orders = [[chunk.get(key, ()) for key in keys] for chunk in self.chunks]
        if not all(isinstance(order, list | tuple) for of_chunk in orders for order in of_chunk):
            raise InputError("must have lists of dimensions", field=f"collectives.{self.name}.chunks")
        paths = [[name for order in of_chunk for name in order] for of_chunk in orders]
        return self.model_dump() | {"sizes": [chunk.get("bytes") for chunk in self.chunks], "paths": paths}


class OrderTable(BaseModel):
    """The document, as far as it is needed to follow it."""

    format: Literal["themis-opt/order-table/1"]
    name: str
    fingerprint: str
    collectives: list[OrderOfCollective]
    dimensions: list[OrderOfDimension]


def read_order_table(path: Path, instance: Instance | None = None) -> Schedule:
    """Follow an order table; not all rules of the model are checked yet.

    Raises InputError if the file is none, or is of another instance. Raises InvalidSchedule if it cannot be followed.

    `instance`: by default the shipped one of the name and fingerprint in the table.
    """
    with errors_of(path):
        table = OrderTable.model_validate(read_json(path))
        instance = instance or _shipped(table)
        if table.fingerprint != instance.fingerprint:
            rule = f"belongs to another instance, this one has '{instance.fingerprint}'"
            raise InputError(rule, field="fingerprint", value=table.fingerprint)
        return simulate(instance, _plan(table, instance))


def _shipped(table: OrderTable) -> Instance:
    """The shipped instance of a table."""
    for path in (shipped() | library_instances()).values():
        document = read_json(path)
        if document.get("name", "") == table.name and not is_graph(document):
            instance = read_instance(path)
            if instance.fingerprint == table.fingerprint:
                return instance
    rule = "is of no shipped instance: name another by 'validate --instance'"
    raise InputError(rule, field="fingerprint", value=table.fingerprint)


def _plan(table: OrderTable, instance: Instance) -> Plan:
    """The paths of the table, and its orders as sequences of stages."""
    written = [one.fields for one in table.collectives]
    if has_launches(instance):
        fields = LaunchPart.model_fields
        parts = [LaunchPart(**{name: v for name, v in one.items() if name in fields}) for one in written]
        plan = Plan(chunks_of(instance, "collectives", parts), launches=launches_of(instance, parts))
    else:
        named = {one["name"]: one for one in written}
        missing = [exchange.name for exchange in instance.exchanges if exchange.name not in named]
        if missing or len(named) > len(instance.exchanges):
            names = ", ".join(exchange.name for exchange in instance.exchanges)
            raise InputError(f"must be {names}", field="collectives", value=", ".join(named))
        ordered = [named[exchange.name] for exchange in instance.exchanges]
        chunks = [ChunksPart(name=one["name"], sizes=one["sizes"], paths=one["paths"]) for one in ordered]
        plan = Plan(chunks_of(instance, "collectives", chunks))
    check_plan(instance, plan)
    return _in_order(table, instance, plan)


def _in_order(table: OrderTable, instance: Instance, plan: Plan) -> Plan:
    """The plan whose resources serve their stages as the table says."""
    names, launched = instance.resource_names, plan.launches_of(instance) or instance.exchanges
    stages: dict[tuple[str, int, str, str], list[int]] = {}
    columns = (plan.launch_of_stage, plan.chunk_of_stage, plan.phases(instance), plan.stage_resources(instance))
    for stage, (launch, chunk, phase, resource) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        key = launched[launch].name, chunk, Phase(phase).name.lower(), names[resource]
        stages.setdefault(key, []).append(stage)
    orders, shifts = {one.name: list[int]() for one in table.dimensions}, np.zeros(plan.num_stages, dtype=np.int64)
    for one in table.dimensions:
        for issue in one.issue_order:
            rest = stages.get((issue.collective, issue.chunk, issue.phase, one.name), [])
            if not rest:
                rule = "is no stage of its dimension, or stands there twice"
                raise InputError(rule, field=f"dimensions.{one.name}", value=f"{issue.collective} {issue.chunk}")
            stage = rest.pop(0)  # where dimensions are one resource, the first on the path goes first
            orders[one.name].append(stage)
            shifts[stage] = issue.shift
    sequences = tuple(np.array(orders.get(name, []), dtype=np.int64) for name in names)
    check_sequences(instance, plan, {f"dimensions.{name}": s for name, s in zip(names, sequences, strict=True)})
    return replace(plan, sequences=sequences, shifts=shifts if has_launches(instance) else plan.shifts)

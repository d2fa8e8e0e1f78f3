"""The order table: what a runtime needs to follow a schedule, without its times.

A runtime that issues the stages of each dimension in the order given, one in flight at a time, and starts
none before the stage of its chunk before it is finished, follows the schedule whatever its clock says.

With compute, the orders repeat with every iteration, and the runtime launches collectives beside the tasks: in its
period p a dimension issues the stages of iteration p - ``shift``, and leaves out those of iterations before the first.
"""

import json
import math
from typing import Any, Literal

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.formats.tables import is_tabulated, phase_name, to_csv
from themis_opt.problem.phases import Phase
from themis_opt.schedules.plan import TaskOf
from themis_opt.schedules.schedule import Schedule

FORMAT: Literal["themis-opt/order-table/1"] = "themis-opt/order-table/1"

Issue = dict[str, Any]


def order_table(schedule: Schedule) -> dict[str, Any]:
    """The paths of all chunks and the issue order on every dimension, ready for JSON.

    Returns
    -------
    dict
        ``collectives`` lists name, kind, bytes and ``chunks``; a chunk has its ``index``, its ``bytes`` and, for
        each phase it goes through, the names of the dimensions in order, under the phase's label, such as
        ``rs_order`` and ``ag_order``.  ``dimensions`` lists name, size and ``issue_order``, which is empty where
        no collective passes; an issue names collective, chunk and phase, and where the dimension has ``rails`` the
        bytes that each carries of it, with headers.

        With compute, the collectives are those launched in every iteration.  Each also says which ``part`` (``whole``,
        ``scatter`` or ``gather``) of which ``tensors`` it is, after the end of which task it is launched (``after``)
        and which one waits for it (``before``): null, or a ``task`` of the iteration ``later`` than that of the launch;
        and it waits for the results of ``after_launches``.  An issue also has its ``dimension``, since those that are
        one resource share an entry, and its ``shift`` in periods.
    """
    instance, sizes = schedule.instance, np.array(schedule.instance.fabric.sizes)
    return {
        "format": FORMAT,
        "name": instance.name,
        "fingerprint": instance.fingerprint,
        "collectives": [
            _collective(schedule, number) | _launch(schedule, number) for number in range(len(schedule.launched))
        ],
        "dimensions": [
            {"name": name, "size": math.prod(sizes[np.array(instance.resources) == k].tolist()), "issue_order": issues}
            for k, (name, issues) in enumerate(zip(instance.resource_names, _with_rails(schedule), strict=True))
        ],
    }


def order_rows(schedule: Schedule) -> list[dict[str, Any]]:
    """The issue orders as flat rows: dimension, position, collective, chunk, phase and bytes of the chunk.

    With compute there is the shift, too, and positions count along the resource of the dimension.
    """
    pairs = zip(schedule.launched, schedule.plan.chunks, strict=True)
    sizes = {own.name: chunks.sizes.tolist() for own, chunks in pairs}
    return [
        {"dimension": name, "position": position, **issue, "bytes": sizes[issue["collective"]][issue["chunk"]]}
        for name, issues in zip(schedule.instance.resource_names, _issue_orders(schedule), strict=True)
        for position, issue in enumerate(issues)
    ]


def _collective(schedule: Schedule, number: int) -> dict[str, Any]:
    collective, chunks = schedule.launched[number], schedule.plan.chunks[number]
    phases = collective.kind.rule.phases
    keys = [f"{phase.rule.label.lower()}_order" for phase in phases]
    names = np.array(schedule.instance.fabric.dimension_names)
    legs: list[IntArray] = np.split(chunks.paths, len(phases), axis=1)
    orders = zip(*(names[leg].tolist() for leg in legs), strict=True)
    return {
        "name": collective.name,
        "kind": collective.kind.value,
        "bytes": collective.size,
        "chunks": [
            {"index": index, "bytes": size, **dict(zip(keys, order, strict=True))}
            for index, (size, order) in enumerate(zip(chunks.sizes.tolist(), orders, strict=True))
        ],
    }


def _launch(schedule: Schedule, number: int) -> dict[str, Any]:
    """When a collective is launched and what waits for it, where there is compute."""
    instance, launches = schedule.instance, schedule.plan.launches_of(schedule.instance)
    if not schedule.has_period:
        return {}

    def task(of: TaskOf | None) -> dict[str, Any] | None:
        return None if of is None else {"task": instance.tasks[of.task].name, "later": of.later}

    launch = launches[number]
    return {
        "part": launch.part,
        "tensors": [instance.exchanges[tensor].name for tensor in launch.tensors],
        "after": task(launch.after),
        "before": task(launch.before),
        "after_launches": [launches[other].name for other in launch.after_launches],
    }


def _issue_orders(schedule: Schedule) -> list[list[Issue]]:
    """Per resource of the network, what it issues in turn."""
    instance, plan = schedule.instance, schedule.enforced_plan()
    names, dimensions = [own.name for own in schedule.launched], instance.fabric.dimension_names
    places = (plan.launch_of_stage, plan.chunk_of_stage, plan.phases(instance))
    issues = [
        {"collective": names[launch], "chunk": chunk, "phase": phase_name(Phase(phase))}
        for launch, chunk, phase in zip(*(array.tolist() for array in places), strict=True)
    ]
    if schedule.has_period:
        for issue, dimension, shift in zip(issues, plan.stage_dimensions.tolist(), plan.shifts.tolist(), strict=True):
            issue |= {"dimension": dimensions[dimension], "shift": shift}
    return [[issues[stage] for stage in order.tolist()] for order in plan.sequences if order is not None]


def _with_rails(schedule: Schedule) -> list[list[Issue]]:
    """The issue orders with what each rail carries, where a dimension has some."""
    instance, plan, orders = schedule.instance, schedule.enforced_plan(), _issue_orders(schedule)
    for k, carried in schedule.rail_bytes.items():
        names = [rail.name for rail in instance.fabric.dimensions[k].rails]
        stages = np.flatnonzero(plan.stage_dimensions == k).tolist()
        parts = {stage: dict(zip(names, own, strict=True)) for stage, own in zip(stages, carried.tolist(), strict=True)}
        resource = instance.resources[k]
        served = [order for order in plan.sequences if order is not None][resource].tolist()
        for stage, issue in zip(served, orders[resource], strict=True):
            if stage in parts:
                issue["rails"] = parts[stage]
    return orders


def order_json(schedule: Schedule) -> str:
    """The order table as the text of a file."""
    return json.dumps(order_table(schedule)) + "\n"


def order_csv(schedule: Schedule) -> str | None:
    """The issue orders as the text of a file, unless there are more than spreadsheets hold."""
    return to_csv(order_rows(schedule)) if is_tabulated(schedule) else None

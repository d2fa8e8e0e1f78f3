"""The order table: what a runtime needs to follow a schedule, without its times.

A runtime that issues the stages of each dimension in the order given, one in flight at a time, and starts
none before the stage of its chunk before it is finished, follows the schedule whatever its clock says.
"""

from typing import Any, Literal

import numpy as np

from themis_opt.cost import PHASES, IntArray
from themis_opt.formats.labels import PHASE_ABBREVIATIONS, phase_name
from themis_opt.schedule import Schedule

FORMAT: Literal["themis-opt/order-table/1"] = "themis-opt/order-table/1"


def order_table(schedule: Schedule) -> dict[str, Any]:
    """The paths of all chunks and the issue order on every dimension, ready for JSON.

    Returns
    -------
    dict
        ``collectives`` lists name, kind, bytes and ``chunks``; a chunk has its ``index``, its ``bytes`` and, for
        each phase it goes through, the names of the dimensions in order: ``rs_order``, ``ag_order`` or
        ``a2a_order``.  ``dimensions`` lists name, size and ``issue_order``, which is empty where no
        collective passes.
    """
    instance = schedule.instance
    return {
        "format": FORMAT,
        "name": instance.name,
        "fingerprint": instance.fingerprint,
        "collectives": [_collective(schedule, number) for number in range(len(instance.collectives))],
        "dimensions": [
            {"name": name, "size": size, "issue_order": _issue_order(schedule, k)}
            for k, (name, size) in enumerate(zip(instance.network.dimension_names, instance.network.sizes, strict=True))
        ],
    }


def order_rows(schedule: Schedule) -> list[dict[str, Any]]:
    """The issue orders as flat rows: dimension, position, collective, chunk, phase and bytes of the chunk."""
    plan, labels = schedule.plan, schedule.instance.labels
    sizes = {label: chunks.sizes.tolist() for label, chunks in zip(labels, plan.chunks, strict=True)}
    return [
        {"dimension": name, "position": position, **issue, "bytes": sizes[issue["collective"]][issue["chunk"]]}
        for k, name in enumerate(schedule.instance.network.dimension_names)
        for position, issue in enumerate(_issue_order(schedule, k))
    ]


def _collective(schedule: Schedule, number: int) -> dict[str, Any]:
    collective, chunks = schedule.instance.collectives[number], schedule.plan.chunks[number]
    phases = PHASES[collective.kind]
    keys = [f"{PHASE_ABBREVIATIONS[phase].lower()}_order" for phase in phases]
    names = np.array(schedule.instance.network.dimension_names)
    legs: list[IntArray] = np.split(chunks.paths, len(phases), axis=1)
    orders = zip(*(names[leg].tolist() for leg in legs), strict=True)
    return {
        "name": schedule.instance.labels[number],
        "kind": collective.kind.value,
        "bytes": collective.size,
        "chunks": [
            {"index": index, "bytes": size, **dict(zip(keys, order, strict=True))}
            for index, (size, order) in enumerate(zip(chunks.sizes.tolist(), orders, strict=True))
        ],
    }


def _issue_order(schedule: Schedule, dimension: int) -> list[dict[str, Any]]:
    instance = schedule.instance
    stages = (schedule.plan.stage_of(instance, number) for number in schedule.sequence(dimension).tolist())
    return [
        {"collective": instance.labels[stage.collective], "chunk": stage.chunk, "phase": phase_name(stage.phase)}
        for stage in stages
    ]

"""Files of the plan cache: schedule files, one folder per key, and the key of the instances that a plan fits."""

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError

from themis_opt.base.digests import digest
from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError, ThemisError
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import Summary, read_solution, schedule_document
from themis_opt.schedules.validation import validate

CachedSizes = Literal["equal", "free"]
"""Whether chunks are equal, or of any sizes and at most as many as the instance says."""

SHARE_DIGITS = 6
"""Digits of the share that a task has of the compute, which rounding to picoseconds does not change."""

_NAME = re.compile(r"(?P<sizes>equal|free)\.(?P<chunks>[1-9][0-9]{0,9})\.[0-9a-f]{8}\.(?P<size_class>[0-9]{1,2})\.json")

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CachedPlan:
    """A plan in a file of the cache.

    `schedule`: on the instance that was searched.
    `sizes`: the kind of sizes that was searched.
    `seconds`: duration of the search.
    """

    schedule: Schedule
    sizes: CachedSizes
    seconds: float

    @classmethod
    def of(cls, schedule: Schedule, sizes: CachedSizes, seconds: float) -> Self:
        """A schedule with the plan that repeats it."""
        return cls(replace(schedule, plan=_repeatable(schedule)), sizes, seconds)


def plan_key(instance: Instance) -> str:
    """Hash of everything that decides which plans fit, but not of names, chunk counts, absolute sizes and durations.

    With compute it is also of who waits for whom, and of the share that each task has of the compute: a plan for some
    tensors and tasks is near the best where all of them are larger.
    """
    unit = math.gcd(*(exchange.size for exchange in instance.exchanges))
    collectives = [(e.kind, e.span, e.size // unit, e.element_bytes, e.release) for e in instance.exchanges]
    content: list[Any] = [instance.fabric.identity, collectives, instance.latency, instance.ag_order]
    if has_launches(instance):
        waits = [(e.ready_task, e.needed_task, e.needed_later, e.after) for e in instance.exchanges]
        shares = [round(task.duration / max(instance.compute, 1), SHARE_DIGITS) for task in instance.tasks]
        content += [instance.links, waits, shares]
        content += [instance.chains, instance.waits] if instance.num_stages > 1 else []
    return digest(content, 64)


def plan_path(root: Path, instance: Instance, sizes: CachedSizes) -> Path:
    """Where the plan of an instance belongs.

    The name is like ``equal.64.0f3c9a11.27.json``: kind of sizes, all chunks, hash of the chunk counts and of log2 of
    the compute, log2 of all bytes, both to the nearest whole number.
    """
    counts = [exchange.chunks for exchange in instance.exchanges]
    classes = [*counts, round(math.log2(max(instance.compute, 1)))] if has_launches(instance) else counts
    return root / plan_key(instance) / f"{sizes}.{sum(counts)}.{digest(classes, 8)}.{_size_class(instance)}.json"


def nearest_plans(root: Path, instance: Instance, most: int) -> Iterator[CachedPlan]:
    """At most so many plans of the key of an instance, nearest chunk count first, then nearest size.

    The names of files only order them and rule out those of more equal chunks than `instance` has.
    """
    key = plan_key(instance)
    try:
        names = [path.name for path in (root / key).iterdir()]
    except OSError as error:
        log.debug("no plans: %s", error)
        return
    near = sorted((distance, name) for name in names if (distance := _distance(name, instance)) is not None)
    for _, name in near[:most]:
        plan = read_plan(root / key / name, key)
        if plan is not None:
            yield plan


def read_plan(path: Path, key: str) -> CachedPlan | None:
    """The plan in a file, or None where there is none that is legal on its instance and belongs to `key`."""
    try:
        schedule, summary = read_solution(path)
        sizes, seconds = summary.settings.get("sizes"), summary.settings.get("seconds")
        if sizes not in ("equal", "free") or not isinstance(seconds, int | float):
            raise InputError("must say sizes and seconds", field="summary.settings")
        if plan_key(schedule.instance) != key:
            raise InputError("belongs to another network")
        validate(schedule)
    except ThemisError as error:
        log.debug("passed over %s: %s", path, error)
        return None
    return CachedPlan(schedule, "equal" if sizes == "equal" else "free", seconds)


def write_plan(path: Path, plan: CachedPlan) -> None:
    """Write a plan so that readers see the old or the new file; nothing happens where that cannot be done."""
    try:
        summary = Summary(settings={"sizes": plan.sizes, "seconds": plan.seconds})
        write_atomically(path, json.dumps(schedule_document(plan.schedule, summary)))
    except (InputError, ValidationError) as error:
        log.debug("not kept: %s", error)


def _repeatable(schedule: Schedule) -> Plan:
    """The plan itself where there is compute and it enforces all or nothing, else with all sequences enforced."""
    plan = schedule.plan
    if schedule.has_period:
        return plan if all(sequence is not None for sequence in plan.sequences) else schedule.enforced_plan()
    return replace(schedule.enforced_plan(), order="ready", keys=None)


def _size_class(instance: Instance) -> int:
    return round(math.log2(sum(exchange.size for exchange in instance.exchanges)))


def _distance(name: str, instance: Instance) -> tuple[float, int] | None:
    matched = _NAME.fullmatch(name)
    if not matched:
        return None
    asked, chunks = sum(exchange.chunks for exchange in instance.exchanges), int(matched["chunks"])
    if matched["sizes"] == "equal" and chunks > asked:
        return None
    return abs(math.log2(chunks / asked)), abs(int(matched["size_class"]) - _size_class(instance))

"""Entries of the plan cache: plans in files, one folder per key, and the key of the instances that a plan fits."""

import logging
import math
import re
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from themis_opt.base.digests import digest
from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.policies.launching.common import fused_name
from themis_opt.problem.fields import MAX_BYTES, MAX_CHUNKS, MAX_DIMENSIONS
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import NO_SHIFTS, Chunks, Launch, Order, Part, Plan, TaskOf, has_launches
from themis_opt.schedules.schedule import Schedule

FORMAT: Literal["themis-opt/cached-plan/1"] = "themis-opt/cached-plan/1"

Sizes = Literal["equal", "free"]
"""Whether chunks are equal, or of any sizes and at most as many as the instance says."""

MAX_FILE_BYTES = 2**22
"""Larger files are no entries, so that none fills the memory."""

SHARE_DIGITS = 6
"""Digits of the share that a task has of the compute, which rounding to picoseconds does not change."""

Whole = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(gt=0, le=MAX_BYTES)]
Index = Annotated[int, Field(ge=0, lt=MAX_DIMENSIONS)]
Measured = Annotated[float, Field(ge=0)]
Event = tuple[Whole, Annotated[int, Field(ge=0, le=1)]]
"""A task, and how many iterations later it is."""

_NAME = re.compile(r"(?P<sizes>equal|free)\.(?P<chunks>[1-9][0-9]{0,9})\.[0-9a-f]{8}\.(?P<size_class>[0-9]{1,2})\.json")

log = logging.getLogger(__name__)


def plan_key(instance: Instance) -> str:
    """Hash of everything that decides which plans fit, but not of names, chunk counts, absolute sizes and durations.

    With compute it is also of who waits for whom, and of the share that each task has of the compute: a plan found for
    some tensors and tasks is near the best where all of them are larger.
    """
    unit = math.gcd(*(c.size for c in instance.exchanges))
    collectives = [(own.kind, own.span, own.size // unit, own.element_bytes, own.release) for own in instance.exchanges]
    content: list[Any] = [FORMAT, instance.fabric.identity, collectives, instance.latency, instance.ag_order]
    if has_launches(instance):
        content += [instance.resources, _waits(instance), _shares(instance)]
        content += [instance.chains, instance.waits] if instance.num_stages > 1 else []
    return digest(content, 64)


def _waits(instance: Instance) -> list[tuple[Any, ...]]:
    """Who waits for whom: without the tensors before a tensor where there are none, as before there were any."""
    return [
        (own.ready_task, own.needed_task, own.needed_later, *([own.after] if own.after else []))
        for own in instance.exchanges
    ]


def _shares(instance: Instance) -> list[float]:
    return [round(task.duration / max(instance.compute, 1), SHARE_DIGITS) for task in instance.tasks]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, ignored_types=(cached_property,)
    )


class CachedChunks(_Strict):
    """The chunks of one launch.

    `size` is its size in bytes, `allowed` its chunk count, `sizes` the bytes of each chunk, and `paths` the indices of
    the dimensions that each visits.
    """

    size: Positive
    allowed: Annotated[int, Field(gt=0, le=MAX_CHUNKS)]
    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)]
    paths: tuple[tuple[Index, ...], ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(self.sizes) != self.size:
            raise ValueError("sizes must sum to the size of the collective")
        if len(self.sizes) > self.allowed:
            raise ValueError("sizes must be at most as many as allowed")
        if len(self.paths) != len(self.sizes) or len({len(path) for path in self.paths}) != 1:
            raise ValueError("paths must be of one length, one for each of the sizes")
        return self


class CachedLaunch(_Strict):
    """A launch: a :class:`themis_opt.schedules.plan.Launch` without its name."""

    kind: CollectiveKind
    tensors: Annotated[tuple[Whole, ...], Field(min_length=1)]
    after: Event
    before: Event
    after_launches: tuple[Whole, ...] = ()
    part: Part = "whole"
    urgent: bool = False


class Entry(_Strict):
    """A plan that was found once.

    `fingerprint` is that of the instance it was found for, `found_as` the kind of sizes searched, `gap` its makespan
    over the best bound of then minus 1, `seconds` what the search took, `collectives` the chunks of each launch,
    `sequences` the enforced stages per resource; the rest is as in :class:`themis_opt.schedules.plan.Plan`.  Without
    launches, where each exchange is launched on its own, every resource has a sequence.
    """

    format: Literal["themis-opt/cached-plan/1"]
    key: str
    fingerprint: str
    found_as: Sizes
    gap: Measured
    seconds: Measured
    collectives: Annotated[tuple[CachedChunks, ...], Field(min_length=1)]
    sequences: Annotated[tuple[tuple[Whole, ...], ...], Field(max_length=MAX_DIMENSIONS)]
    launches: tuple[CachedLaunch, ...] = ()
    dispatch: Literal[tuple(DISPATCH)] = "fifo"  # type: ignore[valid-type]
    order: Order = "ready"
    keys: tuple[float, ...] | None = None
    shifts: tuple[Whole, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.sequences and not self.launches:
            raise ValueError("must have sequences where nothing is launched")
        num_stages = sum(len(own.paths) * len(own.paths[0]) for own in self.collectives)
        if len(self.shifts) not in (0, num_stages) or (self.keys is not None and len(self.keys) != num_stages):
            raise ValueError("must have one shift and one key per stage, or none")
        return self

    def plan_for(self, instance: Instance) -> Plan:
        """The plan as it was found, with launches of an instance; whether it is legal there is for the caller to check.

        Raises
        ------
        InvalidSchedule
            If it speaks of tensors, tasks or launches that there are not.
        """
        if has_launches(instance) and not self.launches:
            raise InvalidSchedule("coverage", "nothing is launched")
        chunks = (Chunks(np.array(c.sizes), np.array(c.paths, dtype=np.int64)) for c in self.collectives)
        return Plan(
            tuple(chunks),
            self.dispatch,
            tuple(np.array(s, dtype=np.int64) for s in self.sequences),
            tuple(self._launch(instance, own) for own in self.launches),
            self.order,
            None if self.keys is None else np.array(self.keys),
            np.array(self.shifts, dtype=np.int64) if self.shifts else NO_SHIFTS,
        )

    def _launch(self, instance: Instance, own: CachedLaunch) -> Launch:
        after, before = TaskOf(*own.after), TaskOf(*own.before)
        for what, numbers, count in (
            ("tensor", own.tensors, len(instance.exchanges)),
            ("task", (after.task, before.task), len(instance.tasks)),
            ("launch", own.after_launches, len(self.launches)),
        ):
            if max(numbers, default=0) >= count:
                raise InvalidSchedule("coverage", f"there is no {what} {max(numbers)}")
        name = fused_name(instance, own.tensors, own.part)
        return Launch(name, own.kind, own.tensors, after, before, own.after_launches, own.part, own.urgent)


def entry_of(schedule: Schedule, sizes: Sizes, gap: float, seconds: float) -> Entry:
    """The entry for a schedule; a gap below 0 is rounding.

    Raises
    ------
    pydantic.ValidationError
        If gap or seconds are no finite numbers from 0 on, or the schedule is none of its instance.
    """
    instance, plan = schedule.instance, _repeatable(schedule)
    collectives = tuple(
        CachedChunks(
            size=c.size, allowed=c.chunks, sizes=tuple(own.sizes.tolist()), paths=tuple(map(tuple, own.paths.tolist()))
        )
        for c, own in zip(schedule.launched, plan.chunks, strict=True)
    )
    return Entry(
        format=FORMAT,
        key=plan_key(instance),
        fingerprint=instance.fingerprint,
        found_as=sizes,
        gap=max(gap, 0.0),
        seconds=seconds,
        collectives=collectives,
        sequences=tuple(tuple(s.tolist()) for s in plan.sequences if s is not None),
        launches=tuple(map(_cached_launch, plan.launches_of(instance) if has_launches(instance) else ())),
        **_rules(plan),
    )


def _repeatable(schedule: Schedule) -> Plan:
    """The plan itself where there is compute and it enforces all or nothing, else with all sequences enforced."""
    plan = schedule.plan
    return plan if schedule.has_period and all(s is not None for s in plan.sequences) else schedule.enforced_plan()


def _rules(plan: Plan) -> dict[str, Any]:
    """What decides who goes first: shifts with sequences, else a rule and priorities."""
    if plan.sequences:
        return {"shifts": tuple(plan.shifts.tolist()), "order": plan.order}
    return {
        "dispatch": plan.dispatch,
        "order": plan.order,
        "keys": None if plan.keys is None else tuple(plan.keys.tolist()),
    }


def _cached_launch(launch: Launch) -> CachedLaunch:
    fields = {name: getattr(launch, name) for name in CachedLaunch.model_fields}
    return CachedLaunch(**fields | {name: fields[name] and tuple(fields[name]) for name in ("after", "before")})


def entry_path(root: Path, instance: Instance, sizes: Sizes) -> Path:
    """Where the entry of an instance belongs.

    The name is like ``equal.64.0f3c9a11.27.json``: kind of sizes, all chunks, hash of the chunk counts and of log2 of
    the compute, log2 of all bytes, both to the nearest whole number.
    """
    counts = [c.chunks for c in instance.exchanges]
    classes = [*counts, round(math.log2(max(instance.compute, 1)))] if has_launches(instance) else counts
    return root / plan_key(instance) / f"{sizes}.{sum(counts)}.{digest(classes, 8)}.{_size_class(instance)}.json"


def nearest_entries(root: Path, instance: Instance, most: int) -> Iterator[Entry]:
    """At most so many entries of the key of an instance, nearest chunk count first, then nearest size.

    The names of files only order them and rule out those of more equal chunks than `instance` has.
    """
    key = plan_key(instance)
    try:
        names = [path.name for path in (root / key).iterdir()]
    except OSError as error:
        log.debug("no entries: %s", error)
        return
    near = sorted((distance, name) for name in names if (distance := _distance(name, instance)) is not None)
    for _, name in near[:most]:
        entry = read_entry(root / key / name, key)
        if entry is not None:
            yield entry


def read_entry(path: Path, key: str) -> Entry | None:
    """The entry in a file, or None where there is none that belongs to `key`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:  # a pipe would block for ever
            raise ValueError("no regular file, or too large")
        entry = Entry.model_validate_json(path.read_bytes())
        if entry.key != key:
            raise ValueError("belongs to another network")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.debug("passed over %s: %s", path, error)
        return None
    return entry


def write_entry(path: Path, entry: Entry) -> None:
    """Write an entry so that readers see the old or the new file; nothing happens where that cannot be done."""
    try:
        write_atomically(path, entry.model_dump_json(exclude_defaults=True))
    except InputError as error:
        log.debug("not kept: %s", error)


def _size_class(instance: Instance) -> int:
    return round(math.log2(sum(c.size for c in instance.exchanges)))


def _distance(name: str, instance: Instance) -> tuple[float, int] | None:
    matched = _NAME.fullmatch(name)
    if not matched:
        return None
    own, chunks = sum(c.chunks for c in instance.exchanges), int(matched["chunks"])
    if matched["sizes"] == "equal" and chunks > own:
        return None
    return abs(math.log2(chunks / own)), abs(int(matched["size_class"]) - _size_class(instance))

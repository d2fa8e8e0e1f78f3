"""One entry of the plan cache: what its file holds, and the key of the instances that its plan fits."""

import hashlib
import json
import math
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from themis_opt.instance import MAX_BYTES, MAX_CHUNKS, MAX_DIMENSIONS, Instance
from themis_opt.plan import Chunks, Plan
from themis_opt.schedule import Schedule

FORMAT: Literal["themis-opt/cached-plan/1"] = "themis-opt/cached-plan/1"

Sizes = Literal["equal", "free"]
"""Whether chunks are equal, or of any sizes and at most as many as the instance says."""

Whole = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(gt=0, le=MAX_BYTES)]
Index = Annotated[int, Field(ge=0, lt=MAX_DIMENSIONS)]
Measured = Annotated[float, Field(ge=0)]


def plan_key(instance: Instance) -> str:
    """Hash of everything that decides which plans fit, but not of names, chunk counts and absolute sizes."""
    unit = math.gcd(*(c.size for c in instance.collectives))
    network = [
        d.model_dump(exclude={"name", "source"}) | {"algorithm": d.basic_algorithm} for d in instance.network.dimensions
    ]
    collectives = [
        (c.kind, span, c.size // unit, c.element_bytes, c.release)
        for c, span in zip(instance.collectives, instance.spans, strict=True)
    ]
    content = [FORMAT, network, collectives, instance.latency, instance.ag_order]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, ignored_types=(cached_property,)
    )


class CachedChunks(_Strict):
    """The chunks of one collective.

    `size` is the size of the collective in bytes, `allowed` its chunk count, `sizes` the bytes of each chunk, and
    `paths` the indices of the dimensions that each visits.
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


class Entry(_Strict):
    """A plan that was found once.

    `fingerprint` is that of the instance it was found for, `found_as` the kind of sizes searched, `gap` its makespan
    over the best bound of then minus 1, `seconds` what the search took, `sequences` the enforced stages per dimension.
    """

    format: Literal["themis-opt/cached-plan/1"]
    key: str
    fingerprint: str
    found_as: Sizes
    gap: Measured
    seconds: Measured
    collectives: Annotated[tuple[CachedChunks, ...], Field(min_length=1)]
    sequences: Annotated[tuple[tuple[Whole, ...], ...], Field(min_length=1, max_length=MAX_DIMENSIONS)]

    @cached_property
    def plan(self) -> Plan:
        """The plan as it was found; whether it fits an instance is for the caller to check."""
        chunks = (Chunks(np.array(c.sizes), np.array(c.paths, dtype=np.int64)) for c in self.collectives)
        return Plan(tuple(chunks), sequences=tuple(np.array(s, dtype=np.int64) for s in self.sequences))


def entry_of(schedule: Schedule, sizes: Sizes, gap: float, seconds: float) -> Entry:
    """The entry for a schedule; a gap below 0 is rounding.

    Raises
    ------
    pydantic.ValidationError
        If gap or seconds are no finite numbers from 0 on, or the schedule is none of its instance.
    """
    instance, plan = schedule.instance, schedule.enforced_plan()
    collectives = tuple(
        CachedChunks(
            size=c.size, allowed=c.chunks, sizes=tuple(own.sizes.tolist()), paths=tuple(map(tuple, own.paths.tolist()))
        )
        for c, own in zip(instance.collectives, plan.chunks, strict=True)
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
    )

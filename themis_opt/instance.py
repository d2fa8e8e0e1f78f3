"""A scheduling problem: a multi-dimensional network and the collectives to run on it.

The classes are frozen pydantic models: they check every field once, at the border, and are trusted inside.
They read and write the JSON documents described in ``instances/README.md``.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, model_validator

from themis_opt.errors import InputError
from themis_opt.units import Bytes, BytesPerSecond, Picoseconds

FORMAT: Literal["themis-opt/instance/1"] = "themis-opt/instance/1"
MAX_DIMENSIONS = 12
MAX_CHUNKS = 10**6
MAX_NPUS = 2**40
MAX_BYTES = 2**50
MAX_BANDWIDTH = 1e18


class Kind(StrEnum):
    """How the NPUs of one dimension are wired."""

    RING = "ring"
    FULLY_CONNECTED = "fully_connected"
    SWITCH = "switch"


class Algorithm(StrEnum):
    """Basic collective algorithm inside one dimension."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halving_doubling"


class CollectiveKind(StrEnum):
    """The collective operations."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"


DEFAULT_ALGORITHM: Mapping[Kind, Algorithm] = MappingProxyType(
    {
        Kind.RING: Algorithm.RING,
        Kind.FULLY_CONNECTED: Algorithm.DIRECT,
        Kind.SWITCH: Algorithm.HALVING_DOUBLING,
    }
)
"""Themis (ISCA 2022), table 1."""


def _whole_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


Count = Annotated[int, BeforeValidator(_whole_number)]


class Model(BaseModel):
    """Frozen, and strict about unknown fields; a broken rule raises :class:`pydantic.ValidationError`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ignored_types=(cached_property,))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new object."""
        return type(self)(**(self.model_dump(mode="json", exclude_unset=True) | changes))


class Packet(Model):
    """Framing of the wire: every started payload costs one header."""

    payload: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    header: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)]


class Dimension(Model):
    """One dimension of the network, as each of its NPUs sees it.

    `bandwidth` is the aggregate uni-directional bandwidth of one NPU in this dimension, `latency` the time
    of one step of the algorithm, `launch_overhead` the time the dimension is held before each stage sends,
    `compression` the factor by which data shrinks on the wire.
    """

    kind: Kind
    size: Annotated[Count, Field(ge=2, le=MAX_NPUS)]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)]
    latency: Annotated[Picoseconds, Field(ge=0)] = 0
    name: str = ""
    algorithm: Algorithm | None = None
    in_network: StrictBool = False
    packet: Packet | None = None
    launch_overhead: Annotated[Picoseconds, Field(ge=0)] = 0
    compression: Annotated[float, Field(ge=1, strict=True)] = 1.0
    source: str = ""

    @property
    def basic_algorithm(self) -> Algorithm:
        """The algorithm given, or the one usual for the kind."""
        return self.algorithm or DEFAULT_ALGORITHM[self.kind]


class Network(Model):
    """Dimensions from the innermost (dim1) outwards."""

    name: str = ""
    dimensions: Annotated[tuple[Dimension, ...], Field(min_length=1, max_length=MAX_DIMENSIONS)]
    source: str = ""

    @cached_property
    def dimension_names(self) -> tuple[str, ...]:
        """The given names; ``dim1``, ``dim2``... where there is none."""
        return tuple(d.name or f"dim{number}" for number, d in enumerate(self.dimensions, start=1))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """NPUs along each dimension."""
        return tuple(d.size for d in self.dimensions)

    @cached_property
    def bandwidths(self) -> tuple[float, ...]:
        """Bandwidth per NPU of each dimension, in bytes per second."""
        return tuple(d.bandwidth for d in self.dimensions)

    @cached_property
    def identity(self) -> tuple[Mapping[str, Any], ...]:
        """Plain values of each dimension, without names and sources: what decides how long collectives take."""
        return tuple(
            d.model_dump(exclude={"name", "source"}) | {"algorithm": d.basic_algorithm} for d in self.dimensions
        )

    @property
    def num_npus(self) -> int:
        """NPUs of the whole network."""
        return math.prod(self.sizes)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = self.dimension_names
        if len(set(names)) < len(names):
            raise ValueError(f"dimension names must differ, got {', '.join(names)}")
        if self.num_npus > MAX_NPUS:
            raise ValueError(f"must have at most {MAX_NPUS} NPUs, has {self.num_npus}")
        return self


class Collective(Model):
    """One collective operation.

    `size` is the larger buffer of one NPU: the input of all-reduce, reduce-scatter and all-to-all, the output
    of all-gather.  `dimensions` names the dimensions it spans (all by default).
    """

    kind: CollectiveKind
    size: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    chunks: Annotated[Count, Field(gt=0, le=MAX_CHUNKS)] = 64
    name: str = ""
    dimensions: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    release: Annotated[Picoseconds, Field(ge=0)] = 0
    element_bytes: Annotated[Count, Field(gt=0, le=MAX_BYTES)] = 2

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size % self.element_bytes:
            raise ValueError(f"size must be a multiple of element_bytes = {self.element_bytes}, is {self.size} bytes")
        if self.chunks > self.size // self.element_bytes:
            raise ValueError(
                f"chunks must be at most the number of elements, {self.size // self.element_bytes}, is {self.chunks}"
            )
        return self


class Instance(Model):
    """A network with collectives, and the two rules that every schedule of it obeys.

    `latency` says whether the step latency occupies the dimension or only delays the chunk; `ag_order`
    whether an all-reduce chunk may gather in any order or only in the reverse of its scatter order.
    """

    format: Literal["themis-opt/instance/1"] = FORMAT
    name: str = ""
    description: str = ""
    network: Network
    collectives: Annotated[tuple[Collective, ...], Field(min_length=1)]
    latency: Literal["lag", "occupy"] = "lag"
    ag_order: Literal["free", "reverse"] = "free"

    @cached_property
    def spans(self) -> tuple[tuple[int, ...], ...]:
        """Per collective, the indices of the dimensions it spans, innermost first."""
        index = {name: k for k, name in enumerate(self.network.dimension_names)}
        everything = tuple(range(len(index)))
        return tuple(
            everything if c.dimensions is None else tuple(sorted(index[name] for name in c.dimensions))
            for c in self.collectives
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each collective: its own, or its kind and number."""
        return tuple(c.name or f"{c.kind}{i}" for i, c in enumerate(self.collectives, start=1))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides which schedules are legal and how long they take."""
        collectives = [
            c.model_dump(exclude={"name"}) | {"dimensions": span}
            for c, span in zip(self.collectives, self.spans, strict=True)
        ]
        content = [FORMAT, self.network.identity, collectives, self.latency, self.ag_order]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def overridden(
        self,
        *,
        size: str | int | None = None,
        chunks: int | None = None,
        latency: str | None = None,
        ag_order: str | None = None,
    ) -> Self:
        """The instance with `size` and `chunks` of every collective, and its rules, replaced where given."""
        per_collective = {k: v for k, v in (("size", size), ("chunks", chunks)) if v is not None}
        rules = {k: v for k, v in (("latency", latency), ("ag_order", ag_order)) if v is not None}
        if per_collective:
            rules |= {"collectives": tuple(c.replace(**per_collective) for c in self.collectives)}  # type: ignore[dict-item]
        return self.replace(**rules) if rules else self

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = self.network.dimension_names
        for number, collective in enumerate(self.collectives):
            chosen = collective.dimensions or ()
            unknown = [name for name in chosen if name not in names]
            if unknown:
                raise ValueError(
                    f"collectives[{number}].dimensions names '{unknown[0]}', the network has {', '.join(names)}"
                )
            if len(set(chosen)) < len(chosen):
                raise ValueError(f"collectives[{number}].dimensions repeats a dimension")
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"collective names must differ, got {', '.join(self.labels)}")
        return self


def located(error: ValidationError) -> InputError:
    """The first failed check of a pydantic model, as one line with field, value and rule."""
    found = error.errors(include_url=False)
    details = [d for d in found if d["type"] != "too_short" or not d["input"]]  # else it lost its wrong items
    first = (details or found)[0]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    rule = first["msg"].removeprefix("Value error, ")
    rule = {"extra_forbidden": "unknown field", "missing": "required field is missing"}.get(first["type"], rule)
    value = None if isinstance(first["input"], dict | list | BaseModel) else first["input"]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return InputError(rule[0].lower() + rule[1:] + more, field=field, value=value)

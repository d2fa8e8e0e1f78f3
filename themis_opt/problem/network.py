"""The network: dimensions from the innermost outwards, as each NPU sees them."""

import math
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StrictBool, ValidationInfo, field_validator, model_validator

from themis_opt.base.units import Bytes, BytesPerSecond, Picoseconds, format_size
from themis_opt.problem.cost_terms import COST_TERMS, NONE
from themis_opt.problem.fields import MAX_BANDWIDTH, MAX_BYTES, MAX_DIMENSIONS, MAX_NPUS, Count, FieldError, Model


class Kind(StrEnum):
    """How the NPUs of one dimension are wired."""

    RING = "ring"
    FULLY_CONNECTED = "fully_connected"
    SWITCH = "switch"
    LINE = "line"


class Algorithm(StrEnum):
    """Basic collective algorithm inside one dimension."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halving_doubling"
    ADASUM = "adasum"
    LINE = "line"


DEFAULT_ALGORITHM: Mapping[Kind, Algorithm] = MappingProxyType(
    {
        Kind.RING: Algorithm.RING,
        Kind.FULLY_CONNECTED: Algorithm.DIRECT,
        Kind.SWITCH: Algorithm.HALVING_DOUBLING,
        Kind.LINE: Algorithm.LINE,
    }
)
"""Themis (ISCA 2022), table 1; a line, which the table does not have, is a ring without its wrap-around."""


class Packet(Model):
    """Framing of the wire: every started payload costs one header."""

    payload: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    header: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)]

    def __str__(self) -> str:
        return f"{format_size(self.payload)}/{format_size(self.header)}"


class Dimension(Model):
    """One dimension of the network, as each of its NPUs sees it.

    `bandwidth` is the aggregate uni-directional bandwidth of one NPU in this dimension, on a line that of one link,
    since an NPU at its end has no other; `latency` the time of one step of the algorithm, `launch_overhead` the time
    the dimension is held before each stage sends, `compression` the factor by which data shrinks on the wire,
    `reduction` the bytes per second at which an NPU adds what it receives to what it has; None if that takes no time.
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
    reduction: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
    source: str = ""

    @property
    def basic_algorithm(self) -> Algorithm:
        """The algorithm given, or the one usual for the kind."""
        return self.algorithm or DEFAULT_ALGORITHM[self.kind]

    @model_validator(mode="after")
    def _check_line(self) -> Self:
        is_line = self.kind is Kind.LINE
        if is_line != (self.basic_algorithm is Algorithm.LINE):
            raise FieldError(
                f"a {self.kind} cannot run '{self.basic_algorithm}': lines, and only they, run 'line'", "algorithm"
            )
        if self.algorithm is Algorithm.ADASUM and self.size & (self.size - 1):
            raise FieldError(f"'adasum' combines pairs of NPUs: {self.size} is no power of two", "size")
        if self.algorithm is Algorithm.ADASUM and self.in_network:
            raise FieldError("a switch sums, it does not compute 'adasum'", "in_network")
        if is_line and self.in_network:
            raise FieldError("a line has no switch that reduces", "in_network")
        return self


def cost_type(term: str) -> Any:
    """The type of a cost term where it is set for a whole network: also takes texts, and ``none`` to take it away."""
    field = Dimension.model_fields[term]

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        return None if value == NONE else COST_TERMS[term].read(value)

    return Annotated[field.annotation, *field.metadata, BeforeValidator(read)]


class Network(Model):
    """Dimensions from the innermost (dim1) outwards; `reduction` is that of the dimensions that do not say it."""

    name: str = ""
    reduction: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
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
        """Plain values of each dimension, without names and sources: what decides how long collectives take.

        Without `reduction` where there is none, so that fingerprints stay what they were before there was such a field.
        """
        return tuple(
            d.model_dump(exclude={"name", "source"} | ({"reduction"} if d.reduction is None else set()))
            | {"algorithm": d.basic_algorithm}
            for d in self.dimensions
        )

    @property
    def num_npus(self) -> int:
        """NPUs of the whole network."""
        return math.prod(self.sizes)

    def with_costs(self, costs: Mapping[str, Any]) -> "Network":
        """The network with checked values of some cost terms on every dimension."""
        dimensions = tuple(dimension.model_copy(update=costs) for dimension in self.dimensions)
        return Network(name=self.name, dimensions=dimensions, source=self.source)

    @field_validator("dimensions")
    @classmethod
    def _share_reduction(cls, dimensions: tuple[Dimension, ...], info: ValidationInfo) -> tuple[Dimension, ...]:
        """Dimensions that do not say their own get the reduction of the network."""
        shared = {"reduction": info.data.get("reduction")}
        if shared["reduction"] is None:
            return dimensions
        return tuple(d if "reduction" in d.model_fields_set else d.model_copy(update=shared) for d in dimensions)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = self.dimension_names
        if len(set(names)) < len(names):
            raise ValueError(f"dimension names must differ, got {', '.join(names)}")
        self._check_size()
        return self

    def _check_size(self) -> None:
        if self.num_npus > MAX_NPUS:
            raise ValueError(f"must have at most {MAX_NPUS} NPUs, has {self.num_npus}")


class Fabric(Network):
    """The dimensions of an iteration: those of the network, split, with links beside it, once per stage of a pipeline.

    They are no product: the sizes of all of them say nothing about how many NPUs there are.
    """

    dimensions: Annotated[tuple[Dimension, ...], Field(min_length=1)]

    def _check_size(self) -> None:
        """There is no limit on all of them together."""

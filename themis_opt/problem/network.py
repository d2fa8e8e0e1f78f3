"""The network: dimensions from the innermost outwards, as each NPU sees them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from themis_opt.base.units import (
    Bytes,
    BytesPerSecond,
    Picoseconds,
    format_bandwidth,
    format_link,
    format_seconds,
    format_size,
)
from themis_opt.problem.cost_terms import COST_TERMS, NONE
from themis_opt.problem.fields import (
    MAX_BANDWIDTH,
    MAX_BYTES,
    MAX_DIMENSIONS,
    MAX_NPUS,
    MAX_RAILS,
    Count,
    FieldError,
    Model,
)
from themis_opt.problem.wiring import Algorithm as Algorithm
from themis_opt.problem.wiring import Kind as Kind

FASTEST = 10**12
"""Bytes per second above any link between NPUs: all links of an NPU to NVLink of the fifth generation carry 900 GB/s.

https://www.nvidia.com/en-us/data-center/nvlink/
"""

SLOWEST_LINK = 10**6  # bytes per second below any network that is worth a schedule; most are numbers without their unit


class Packet(Model):
    """Framing of the wire: every started payload costs one header.

    Examples
    --------
    >>> print(Packet(payload="4 KiB", header="66 B"))
    4 KiB/66 B
    """

    payload: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)]
    header: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)]

    def __str__(self) -> str:
        return f"{format_size(self.payload)}/{format_size(self.header)}"


class Rail(Model):
    """One of several links side by side, which carry parts of a stage at once, such as NVLink, PCIe and a NIC.

    `bandwidth` is that of one NPU.  `extra_latency` is what a step takes longer on this rail than the `latency` of its
    dimension says, and `extra_launch_overhead` what its part of a stage starts later than `launch_overhead` says.

    Examples
    --------
    >>> Rail(name="nic", bandwidth="400 Gb/s").bandwidth
    50000000000.0
    """

    name: Annotated[str, Field(min_length=1)]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)]
    extra_latency: Annotated[Picoseconds, Field(ge=0)] = 0
    extra_launch_overhead: Annotated[Picoseconds, Field(ge=0)] = 0


def _require_bandwidth_or_rails(schema: dict[str, Any]) -> None:
    """The rule of a field that may be left out where another one is given, for the JSON Schema."""
    del schema["properties"]["bandwidth"]["default"]
    schema["anyOf"] = [{"required": ["bandwidth"]}, {"required": ["rails"]}]


class Dimension(Model):
    """One dimension of the network, as each of its NPUs sees it.

    `bandwidth` is the aggregate uni-directional bandwidth of one NPU in this dimension; where not all have as many
    links that of the NPUs with the fewest: on a line one link, on a `mesh2d` the two of a corner.  `latency` is the
    time of one step of the algorithm, `launch_overhead` the time the dimension is held before each stage sends,
    `compression` the factor by which data shrinks on the wire, `reduction` the bytes per second at which an NPU adds
    what it receives to what it has; None if that takes no time.
    `rails` are links side by side that carry parts of every stage; their bandwidths sum to `bandwidth`.
    `shares` names another dimension behind the same link of an NPU, as leaf and spine are behind one NIC.

    Examples
    --------
    >>> Dimension(kind="switch", size=8, bandwidth="450 GB/s", latency="2 us").basic_algorithm.value
    'halving_doubling'
    """

    model_config = ConfigDict(json_schema_extra=_require_bandwidth_or_rails)

    kind: Kind
    size: Annotated[Count, Field(ge=2, le=MAX_NPUS)]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] = 0.0
    rails: Annotated[tuple[Rail, ...], Field(max_length=MAX_RAILS)] = ()
    latency: Annotated[Picoseconds, Field(ge=0)] = 0
    name: str = ""
    algorithm: Algorithm | None = None
    in_network: StrictBool = False
    packet: Packet | None = None
    launch_overhead: Annotated[Picoseconds, Field(ge=0)] = 0
    compression: Annotated[float, Field(ge=1, strict=True)] = 1.0
    reduction: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
    shares: Annotated[str, Field(min_length=1)] | None = None
    source: str = ""

    @property
    def basic_algorithm(self) -> Algorithm:
        """The algorithm given, or the one usual for the kind."""
        return self.algorithm or self.kind.rule.algorithms[0]

    def faster(self, factor: float) -> Self:
        """The dimension with every bandwidth multiplied; trusted, and much faster than :meth:`replace`."""
        rails = tuple(rail.model_copy(update={"bandwidth": rail.bandwidth * factor}) for rail in self.rails)
        bandwidth = _sum_of_bandwidths(rails) if rails else self.bandwidth * factor
        return self.model_copy(update={"bandwidth": bandwidth} | ({"rails": rails} if rails else {}))

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Plain values, without rails where there are none, and without `shares` where the link is its alone."""
        return {name: value for name, value in handler(self).items() if value or name not in ("rails", "shares")}

    @model_validator(mode="after")
    def _check_rails(self) -> Self:
        if not self.rails:
            if not self.bandwidth:
                raise FieldError("required field is missing", "bandwidth")
            return self
        names = [rail.name for rail in self.rails]
        if len(set(names)) < len(names):
            raise FieldError(f"names must differ, got {', '.join(names)}", "rails")
        total = _sum_of_bandwidths(self.rails)
        if "bandwidth" in self.model_fields_set and self.bandwidth != total:
            raise FieldError(f"must be the {format_bandwidth(total)} of its rails together, or left out", "bandwidth")
        self.__dict__["bandwidth"] = total  # the model is frozen, and what was given shall stay known
        return self

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        rule = self.kind.rule
        if self.basic_algorithm not in rule.algorithms:
            raise FieldError(
                f"a {self.kind} cannot run '{self.basic_algorithm}', only {', '.join(rule.algorithms)}", "algorithm"
            )
        if self.algorithm is Algorithm.ADASUM and self.size & (self.size - 1):
            raise FieldError(f"'adasum' combines pairs of NPUs: {self.size} is no power of two", "size")
        if self.algorithm is Algorithm.ADASUM and self.in_network:
            raise FieldError("a switch sums, it does not compute 'adasum'", "in_network")
        if self.in_network and not rule.can_reduce:
            raise FieldError(f"a {self.kind} has no switch that reduces", "in_network")
        flaw = rule.flaw(self.size)
        if flaw:
            raise FieldError(flaw, "size")
        return self


def links_of(names: Sequence[str], dimensions: Sequence[Dimension]) -> tuple[int, ...]:
    """For each dimension the first one behind its link.

    Raises ValueError if a dimension shares the link of one that there is not.
    """
    links = list(range(len(names)))
    for number, dimension in enumerate(dimensions):
        if dimension.shares is None:
            continue
        if dimension.shares not in names or dimension.shares == names[number]:
            others = ", ".join(name for name in names if name != names[number]) or "no other"
            raise ValueError(f"dimensions[{number}].shares names '{dimension.shares}', the others are {others}")
        both = {links[number], links[names.index(dimension.shares)]}
        links = [min(both) if link in both else link for link in links]
    return tuple(links)


def _sum_of_bandwidths(rails: Iterable[Rail]) -> float:
    return math.fsum(rail.bandwidth for rail in rails)


def cost_type(term: str) -> Any:
    """The type of a cost term where it is set for a whole network: also takes texts, and ``none`` to take it away."""
    field = Dimension.model_fields[term]

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        return None if value == NONE else COST_TERMS[term].read(value)

    return Annotated[field.annotation, *field.metadata, BeforeValidator(read)]


class Network(Model):
    """Dimensions from the innermost (dim1) outwards; `reduction` is that of the dimensions that do not say it.

    Examples
    --------
    >>> Network(name="box", dimensions=[Dimension(kind="switch", size=8, bandwidth="450 GB/s", name="nvlink")])
    <Network box: nvlink switch of 8 at 450 GB/s>
    """

    name: str = ""
    reduction: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
    dimensions: Annotated[tuple[Dimension, ...], Field(min_length=1, max_length=MAX_DIMENSIONS)]
    source: str = ""

    def __repr__(self) -> str:
        dimensions = (
            f"{name} {dimension.kind} of {dimension.size} at {format_link(dimension.bandwidth)}"
            for name, dimension in zip(self.dimension_names, self.dimensions, strict=True)
        )
        return f"<Network {self.name or 'without a name'}: {', '.join(dimensions)}>"

    __str__ = __repr__

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
    def links(self) -> tuple[int, ...]:
        """For each dimension the first one behind its link: its own number where it shares none."""
        return links_of(self.dimension_names, self.dimensions)

    @cached_property
    def identity(self) -> tuple[Mapping[str, Any], ...]:
        """Plain values of each dimension, without names and sources: what decides how long collectives take.

        Without `reduction` and `rails` where there are none, and without a link that is not shared, so that
        fingerprints stay what they were before there were such fields.
        """
        apart = {"name", "source", "rails", "shares"}
        return tuple(
            d.model_dump(exclude=apart | ({"reduction"} if d.reduction is None else set()))
            | {"algorithm": d.basic_algorithm}
            | ({"rails": [rail.model_dump(exclude={"name"}) for rail in d.rails]} if d.rails else {})
            | ({"link": link} if link != k else {})
            for k, (d, link) in enumerate(zip(self.dimensions, self.links, strict=True))
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
        shared = {"reduction": info.data.get("reduction")}
        if shared["reduction"] is None:
            return dimensions
        return tuple(d if "reduction" in d.model_fields_set else d.model_copy(update=shared) for d in dimensions)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = self.dimension_names
        if len(set(names)) < len(names):
            raise ValueError(f"dimension names must differ, got {', '.join(names)}")
        links_of(names, self.dimensions)
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


def doubts(network: Network) -> Iterator[str]:
    """What seems wrong with a network, in sentences."""
    named = list(zip(network.dimension_names, network.bandwidths, strict=True))
    for name, bandwidth in named:
        if bandwidth > FASTEST:
            yield f"{name}: {format_link(bandwidth)} is more than any link has; bandwidths are those of one direction"
        elif bandwidth < SLOWEST_LINK:
            yield f"{name}: {format_bandwidth(bandwidth)} is no network; is a unit missing ('{bandwidth:g} GB/s')?"
    for name, dimension in zip(network.dimension_names, network.dimensions, strict=True):
        if dimension.launch_overhead > 10**11:  # 0.1 s, where microseconds are usual
            seconds = format_seconds(dimension.launch_overhead)
            yield f"{name}: no launch takes {seconds}; is a unit missing ('{seconds.removesuffix(' s')} us')?"
        if dimension.reduction is not None and dimension.reduction < SLOWEST_LINK:
            summed = dimension.reduction
            yield f"{name}: no NPU sums {summed:g} B/s; is a unit missing ('{summed:g} GB/s')?"
    for (inner, slow), (outer, fast) in pairwise(named):
        if fast > 2 * slow:
            yield (
                f"{outer} is {fast / slow:.3g} times as fast as {inner} inside it; dimensions stand from the innermost "
                "outwards"
            )

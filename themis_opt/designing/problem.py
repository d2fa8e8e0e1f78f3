"""Design problems: a network whose bandwidths are sought, what it is for, and what may be spent.

The documents are described in ``docs/design.md``; like instances they are checked once, at the border.
"""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.units import BytesPerSecond, parse_bandwidth
from themis_opt.formats.readers.registry import load
from themis_opt.problem.catalog import DESIGN_SUFFIX, INSTANCES, locate
from themis_opt.problem.cost import check_clock
from themis_opt.problem.documents import errors_of, read_model
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import MAX_BANDWIDTH, MAX_DIMENSIONS, Count, FieldError, Model, ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import Split, check_splits
from themis_opt.problem.network import Dimension, Kind, Network

if TYPE_CHECKING:
    from formulations.allocation import LinearRow, Sense

FORMAT: Literal["themis-opt/design/1"] = "themis-opt/design/1"
DOLLARS_PER = 10**9  # bytes per second of the bandwidth that prices are for: they are in dollars per GB/s
_SIGNS = re.compile(r"(<=|>=|==)")
_OPERATOR = re.compile(r"\s+([-+])\s+")
_FACTOR = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)?\s*\*?\s*(.*)")

BANDWIDTH_BUDGET, MONEY_BUDGET = "budget: bandwidth", "budget: money"

SENSES: "dict[str, Sense]" = {"<=": "<=", ">=": ">=", "==": "=="}


Money = Annotated[float, Field(ge=0, le=1e18, strict=False)]


class SoughtRate(NamedTuple):
    """The bandwidth of a dimension that is sought, in bytes per second.

    `unit`: what it is a multiple of, 0 if it has any value.
    `dollars`: what one of it costs.
    """

    name: str
    least: float
    most: float
    dollars: float
    unit: float = 0.0


class Price(Model):
    """Dollars per GB/s of one NPU's bandwidth in a dimension; `switch` and `nic` count where the kind is a switch."""

    link: Money = 0.0
    switch: Money = 0.0
    nic: Money = 0.0

    def per_bandwidth(self, kind: Kind, size: int) -> float:
        """Dollars per NPU for each GB/s of the dimension's `bandwidth`.

        W. Won et al., *LIBRA* (ISPASS 2024), section 4: an NPU on a ring has two links of half the bandwidth, fully
        connected P - 1 links, at a switch a link, a port of the switch and an adapter.  A line of P NPUs has P - 1
        links of the whole bandwidth, counted from both ends as the others are, and a grid has links of half of it.
        """
        switched = self.switch + self.nic if kind.rule.is_switched else 0.0
        return self.link * float(kind.rule.capacity(size)) + switched


class Links(Model):
    """Bandwidth that comes in whole links of one rate."""

    rate: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)]
    least: Annotated[Count, Field(ge=1, le=10**6)] = 1
    most: Annotated[Count, Field(ge=1, le=10**6)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.least > self.most:
            raise FieldError(f"must be at most most = {self.most}", "least")
        return self


class DesignDimension(Dimension):
    """A dimension whose `bandwidth` is fixed if it is given, and else sought.

    `least` and `most` limit the bandwidth, `links` makes it a whole number of links; `price` is what it costs.
    """

    model_config = ConfigDict(json_schema_extra=None)

    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] = MAX_BANDWIDTH
    least: Annotated[BytesPerSecond, Field(ge=0, le=MAX_BANDWIDTH)] = 0.0
    most: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
    links: Links | None = None
    price: Price = Price()

    @property
    def is_fixed(self) -> bool:
        """Whether the bandwidth is given."""
        return "bandwidth" in self.model_fields_set

    def rate(self, name: str, npus: int) -> SoughtRate:
        """Its limits, and what it costs in a network of so many NPUs."""
        dollars = self.price.per_bandwidth(self.kind, self.size) * npus / DOLLARS_PER
        if self.is_fixed:
            return SoughtRate(name, self.bandwidth, self.bandwidth, dollars)
        if self.links:
            unit = self.links.rate
            return SoughtRate(name, self.links.least * unit, self.links.most * unit, dollars, unit)
        return SoughtRate(name, self.least, self.most or math.inf, dollars)

    def at(self, bandwidth: float) -> Dimension:
        """The dimension with the bandwidth designed for it."""
        given = self.model_dump(mode="json", exclude_unset=True, include=set(Dimension.model_fields))
        return Dimension(**(given | {"bandwidth": bandwidth}))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rails:
            raise FieldError("cannot be designed: give the dimension of all rails, without them", "rails")
        if self.shares is not None:
            raise FieldError("cannot be designed: give one dimension for all that is behind the link", "shares")
        other = [name for name in ("least", "most", "links") if name in self.model_fields_set]
        if self.is_fixed and other:
            raise FieldError("a fixed bandwidth has no limits", other[0])
        if self.links is not None and len(other) > 1:
            raise FieldError("links have separate limits", next(name for name in other if name != "links"))
        if self.most is not None and self.least > self.most:
            raise FieldError(f"must be at most most = {self.most:g} B/s", "least")
        return self


class DesignNetwork(Model):
    """Dimensions from the innermost outwards; `splits` divide some of them between groups of NPUs."""

    name: str = ""
    dimensions: Annotated[tuple[DesignDimension, ...], Field(min_length=1, max_length=MAX_DIMENSIONS)]
    splits: tuple[Split, ...] = ()

    @cached_property
    def dimension_names(self) -> tuple[str, ...]:
        """The given names; ``dim1``, ``dim2``... where there is none."""
        return tuple(d.name or f"dim{number}" for number, d in enumerate(self.dimensions, start=1))

    def at(self, bandwidths: Iterable[float]) -> Network:
        """The network with bandwidths in bytes per second, without splits."""
        pairs = zip(self.dimensions, bandwidths, strict=True)
        return Network(name=self.name, dimensions=tuple(dimension.at(bandwidth) for dimension, bandwidth in pairs))

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.at(1.0 for _ in self.dimensions)
        except ModelError as error:
            raise FieldError(error.rule, error.field) from None
        sizes = [dimension.size for dimension in self.dimensions]
        check_splits(self.splits, dict(zip(self.dimension_names, sizes, strict=True)), "splits")
        divided = {split.dimension for split in self.splits}
        whole = [name for name in self.dimension_names if name not in divided]
        names = [*whole, *(name for split in self.splits for name in split.names)]
        if len(set(names)) < len(names) or len(names) > MAX_DIMENSIONS:
            raise FieldError(f"must leave at most {MAX_DIMENSIONS} dimensions with different names", "splits")
        return self


class RepeatedCollective(Collective):
    """A collective that runs `count` times, one after the other; its name and release have no meaning."""

    count: Annotated[Count, Field(gt=0, le=10**9)] = 1


class DesignWorkload(Model):
    """What the network is for: collectives one after the other, or an instance as it stands.

    `instance` names a file or a shipped instance; its exchanges may overlap, with each other and with its compute, and
    its network must have the sizes of the network to be designed.
    """

    name: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, le=1e18)] = 1.0
    collectives: Annotated[tuple[RepeatedCollective, ...], Field(min_length=1)] | None = None
    instance: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.collectives is None) == (self.instance is None):
            raise ValueError(f"workload '{self.name}' must have either collectives or an instance")
        return self


class Budget(Model):
    """What may be spent: `bandwidth` summed over the dimensions, dollars for the whole network, or both."""

    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
    money: Annotated[float, Field(gt=0, le=1e24)] | None = None


class Constraint(NamedTuple):
    """A linear constraint on the bandwidths of dimensions."""

    coefficients: tuple[float, ...]  # one for each dimension
    sense: "Sense"
    limit: float  # bytes per second
    text: str  # as it was written; parts of a chain of signs have only theirs


def read_constraint(text: str, names: Sequence[str]) -> list[Constraint]:
    """Read a constraint such as ``"node >= 2 pod"`` or ``"chip >= node >= pod"``; one for each sign.

    Raises ValueError if it is none, or names a dimension that there is not.
    """
    parts = _SIGNS.split(text)
    if len(parts) < 3:
        raise ValueError(f"'{text}' must have a sign <=, >= or ==, such as 'node >= 2 pod' or 'node + pod <= 200 GB/s'")
    sides = [_read_side(side, names) for side in parts[::2]]
    texts = [side.strip() for side in parts[::2]]
    constraints = []
    for sign, (left, right), (one, other) in zip(parts[1::2], pairwise(sides), pairwise(texts), strict=True):
        coefficients = tuple(a - b for a, b in zip(left[0], right[0], strict=True))
        if not any(coefficients):
            raise ValueError(f"'{one} {sign} {other}' names nothing whose bandwidth it limits")
        constraints.append(Constraint(coefficients, SENSES[sign], right[1] - left[1], f"{one} {sign} {other}"))
    return constraints


def _read_side(text: str, names: Sequence[str]) -> tuple[list[float], float]:
    """Coefficients of the dimensions, and the bandwidth added to them."""
    coefficients, constant = [0.0] * len(names), 0.0
    terms = _OPERATOR.split(text.strip())
    for sign, term in zip(["+", *terms[1::2]], terms[::2], strict=True):
        factor, name = _read_term(term, names)
        factor = -factor if sign == "-" else factor
        if name is None:
            constant += factor
        else:
            coefficients[names.index(name)] += factor
    return coefficients, constant


def _read_term(text: str, names: Sequence[str]) -> tuple[float, str | None]:
    """Factor and name, or a bandwidth and None."""
    if text in names:
        return 1.0, text
    match = _FACTOR.fullmatch(text)
    try:
        if match is not None and match[2] in names:
            return float(match[1] or 1), match[2]
        return parse_bandwidth(text), None
    except ValueError:
        hint = suggestion(match[2] if match else text, names) or f"; there are {', '.join(names)}"
        raise ValueError(f"'{text}' is neither a name, with a factor or not, nor a bandwidth{hint}") from None


class DesignProblem(Model):
    """A network of dimensions to be designed.

    `constraints` are linear, as texts of names of dimensions, numbers and bandwidths, such as ``"node >= pod"`` or
    ``"node + 2 pod == 200 GB/s"``.

    Examples
    --------
    >>> from themis_opt.designing.problem import load_problem
    >>> load_problem("libra.gpt-3_4d.sum500").network.dimensions[0].size
    4
    """

    format: Literal["themis-opt/design/1"] = FORMAT
    name: str = ""
    description: str = ""
    source: str = ""
    network: DesignNetwork
    workloads: Annotated[tuple[DesignWorkload, ...], Field(min_length=1)]
    budget: Budget = Budget()
    constraints: tuple[str, ...] = ()

    @cached_property
    def rates(self) -> tuple[SoughtRate, ...]:
        """The bandwidth of each dimension; dollars are those of all NPUs."""
        npus = math.prod(dimension.size for dimension in self.network.dimensions)
        return tuple(
            d.rate(name, npus) for name, d in zip(self.network.dimension_names, self.network.dimensions, strict=True)
        )

    @cached_property
    def rows(self) -> dict[str, "LinearRow"]:
        """The linear constraints by their texts, those with two signs as two, and budgets last."""
        from formulations.allocation import LinearRow

        constraints = [row for text in self.constraints for row in read_constraint(text, self.network.dimension_names)]
        rows = {row.text: LinearRow(row.coefficients, row.sense, row.limit) for row in constraints}
        if self.budget.bandwidth is not None:
            rows[BANDWIDTH_BUDGET] = LinearRow((1.0,) * len(self.rates), "<=", self.budget.bandwidth)
        if self.budget.money is not None:
            rows[MONEY_BUDGET] = LinearRow(tuple(r.dollars for r in self.rates), "<=", self.budget.money)
        return rows

    @model_validator(mode="after")
    def _check(self) -> Self:
        for number, text in enumerate(self.constraints):
            try:
                read_constraint(text, self.network.dimension_names)
            except ValueError as error:
                raise FieldError(str(error), f"constraints[{number}]") from None
        names = [workload.name for workload in self.workloads]
        if len(set(names)) < len(names):
            raise FieldError("workload names must differ", "workloads")
        return self


def load_problem(source: str | Path) -> DesignProblem:
    """Read a design problem from a file, or a shipped one by its name.

    Raises InputError if there is none, or it breaks a rule; the message names file, field, value and rule.
    """
    return read_model(locate(source, shipped_problems, "design"), DesignProblem, FORMAT)


def shipped_problems() -> dict[str, Path]:
    """Files of the shipped design problems by name."""
    return {path.name.removesuffix(DESIGN_SUFFIX): path for path in sorted(INSTANCES.rglob(f"*{DESIGN_SUFFIX}"))}


def instance_of(problem: DesignProblem, number: int, workload: DesignWorkload) -> Instance:
    """The instance that a workload names, with the dimensions of the network to be designed.

    Raises InputError if there is none, or its network has other sizes.
    """
    field = f"workloads[{number}].instance"
    try:
        instance = load(str(workload.instance))
    except InputError as error:
        raise InputError(str(error), field=field) from None
    sizes = tuple(d.size for d in problem.network.dimensions)
    if instance.network.sizes != sizes:
        rule = f"its network has sizes {instance.network.sizes}, the network to be designed {sizes}"
        raise InputError(rule, field=field, value=workload.instance)
    if problem.network.splits:
        raise InputError("splits are those of the instance", field="network.splits")
    return instance


def checked(instance: Instance, where: str) -> Instance:
    """An instance whose schedules do not outlast the clock."""
    with errors_of(where):
        check_clock(instance)
    return instance

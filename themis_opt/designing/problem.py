"""Design problems: a network whose bandwidths are sought, what it is for, and what may be spent.

The network has dimensions, or it is a graph with groups of links.  The documents are described in ``docs/design.md``;
like instances they are checked once, at the border.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.units import BytesPerSecond, parse_bandwidth
from themis_opt.formats.readers.registry import load
from themis_opt.graphs.links import MAX_GRAPH_LINKS, MAX_GRAPH_NODES, GraphLink, GraphNode, Name
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.problem.catalog import DESIGN_SUFFIX, INSTANCES, is_graph, locate
from themis_opt.problem.cost import check_clock
from themis_opt.problem.documents import read_model
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import MAX_BANDWIDTH, MAX_DIMENSIONS, Count, FieldError, Model, located
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import Split
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
    """One bandwidth of a design, in bytes per second: of a dimension, of each link of a group, or of all fixed links.

    `unit`: what it is a multiple of, 0 if it has any value.
    `width`: bytes per second of the budget of bandwidth that one of it takes.
    `dollars`: what one of it costs.
    """

    name: str
    least: float
    most: float
    width: float
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
            return SoughtRate(name, self.bandwidth, self.bandwidth, 1.0, dollars)
        if self.links:
            unit = self.links.rate
            return SoughtRate(name, self.links.least * unit, self.links.most * unit, 1.0, dollars, unit)
        return SoughtRate(name, self.least, self.most or math.inf, 1.0, dollars)

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
        except ValidationError as error:
            broken = located(error)
            raise FieldError(broken.rule, broken.field) from None
        for number, split in enumerate(self.splits):
            if split.dimension not in self.dimension_names:
                raise FieldError(f"the network has {', '.join(self.dimension_names)}", f"splits[{number}].dimension")
            size = self.dimensions[self.dimension_names.index(split.dimension)].size
            if math.prod(split.sizes) != size or len(split.names) != len(split.sizes):
                raise FieldError(f"must multiply to {size}, with a name each", f"splits[{number}].sizes")
        divided = [split.dimension for split in self.splits]
        if len(set(divided)) < len(divided):
            raise FieldError("splits a dimension twice", "splits")
        whole = [name for name in self.dimension_names if name not in divided]
        names = [*whole, *(name for split in self.splits for name in split.names)]
        if len(set(names)) < len(names) or len(names) > MAX_DIMENSIONS:
            raise FieldError(f"must leave at most {MAX_DIMENSIONS} dimensions with different names", "splits")
        return self


class SoughtLink(GraphLink):
    """A link whose `bandwidth` is fixed if it is given, and else sought: that of its `group`, or for it alone."""

    model_config = ConfigDict(json_schema_extra=None)

    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] = MAX_BANDWIDTH
    group: Name | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether the bandwidth is given."""
        return "bandwidth" in self.model_fields_set

    @property
    def group_name(self) -> str:
        """The group, or the link itself."""
        return self.group or self.label

    def at(self, bandwidth: float) -> GraphLink:
        """The link with the bandwidth designed for it."""
        latency = f"{self.latency} ps"
        return GraphLink(ends=self.ends, bandwidth=bandwidth, back=self.back, latency=latency, name=self.name)

    @model_validator(mode="after")
    def _check_sought(self) -> Self:
        if self.is_fixed and self.group is not None:
            raise FieldError("a fixed bandwidth is that of no group", "group")
        if not self.is_fixed and self.back:
            raise FieldError("must be that of the other direction, or 0 for one direction, where none is given", "back")
        return self


class LinkGroup(Model):
    """What each link of a group, or a single link, may have, and dollars per GB/s of it."""

    name: Name
    least: Annotated[BytesPerSecond, Field(ge=0, le=MAX_BANDWIDTH)] = 0.0
    most: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)] | None = None
    price: Money = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.most is not None and self.least > self.most:
            raise FieldError(f"must be at most most = {self.most:g} B/s", "least")
        return self


class SoughtNetwork(Model):
    """A graph of which some links have no bandwidth yet."""

    name: str = ""
    nodes: Annotated[tuple[GraphNode, ...], Field(max_length=MAX_GRAPH_NODES)]
    links: Annotated[tuple[SoughtLink, ...], Field(max_length=MAX_GRAPH_LINKS)]
    groups: tuple[LinkGroup, ...] = ()

    @cached_property
    def members(self) -> dict[str, tuple[SoughtLink, ...]]:
        """The links of each group, in the order in which groups first stand."""
        members: dict[str, tuple[SoughtLink, ...]] = {}
        for link in self.links:
            if not link.is_fixed:
                members[link.group_name] = (*members.get(link.group_name, ()), link)
        return members

    def limits(self, name: str) -> LinkGroup:
        """What the links of a group may have."""
        return next((group for group in self.groups if group.name == name), LinkGroup(name=name))

    @cached_property
    def fixed(self) -> float:
        """Bytes per second of the fastest fixed link, either way; 0 if there is none."""
        links = (link for link in self.links if link.is_fixed)
        return max((rate for link in links for rate in link.bandwidths.values()), default=0.0)

    def at(self, bandwidths: Mapping[str, float]) -> GraphNetwork:
        """The network with bytes per second for every group; links that get none are not built."""
        rates = [(link, link.bandwidth if link.is_fixed else bandwidths[link.group_name]) for link in self.links]
        links = tuple(link.at(rate) for link, rate in rates if rate)
        return GraphNetwork(name=self.name, nodes=self.nodes, links=links)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.members:
            raise FieldError("all have a bandwidth: leave it out where it is sought", "links")
        try:
            self.at(dict.fromkeys(self.members, 1.0))
        except ValidationError as error:
            broken = located(error)
            raise FieldError(broken.rule, broken.field or "links") from None
        names = [group.name for group in self.groups]
        for number, name in enumerate(names):
            if name not in self.members:
                rule = f"'{name}' has no links whose bandwidth is sought{suggestion(name, self.members)}"
                raise FieldError(rule, f"groups[{number}].name")
        if len(set(names)) < len(names):
            raise FieldError("names must differ", "groups")
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


class GraphWorkload(Model):
    """Collectives that run one after the other."""

    name: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, le=1e18)] = 1.0
    collectives: Annotated[tuple[RepeatedCollective, ...], Field(min_length=1)]


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


class AnyDesignProblem(Model):
    """What problems on dimensions and on graphs have in common.

    `constraints` are linear, as texts of the names of rates, numbers and bandwidths, such as ``"node >= pod"`` or
    ``"node + 2 pod == 200 GB/s"``.
    """

    remedy: ClassVar[str]  # what limits a bandwidth

    format: Literal["themis-opt/design/1"] = FORMAT
    name: str = ""
    description: str = ""
    source: str = ""
    budget: Budget = Budget()
    constraints: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What constraints may name."""
        raise NotImplementedError

    @property
    def rates(self) -> tuple[SoughtRate, ...]:
        """All bandwidths, in the order of their names; one of all fixed links may follow."""
        raise NotImplementedError

    @cached_property
    def rows(self) -> dict[str, "LinearRow"]:
        """The linear constraints by their texts, those with two signs as two, and budgets last."""
        from formulations.allocation import LinearRow

        constraints = [row for text in self.constraints for row in read_constraint(text, self.names)]
        fixed = (0.0,) * (len(self.rates) - len(self.names))
        rows = {row.text: LinearRow((*row.coefficients, *fixed), row.sense, row.limit) for row in constraints}
        if self.budget.bandwidth is not None:
            rows[BANDWIDTH_BUDGET] = LinearRow(tuple(r.width for r in self.rates), "<=", self.budget.bandwidth)
        if self.budget.money is not None:
            rows[MONEY_BUDGET] = LinearRow(tuple(r.dollars for r in self.rates), "<=", self.budget.money)
        return rows

    def check_texts(self, workloads: Sequence[str]) -> None:
        """Check constraints, and the names of workloads."""
        for number, text in enumerate(self.constraints):
            try:
                read_constraint(text, self.names)
            except ValueError as error:
                raise FieldError(str(error), f"constraints[{number}]") from None
        if len(set(workloads)) < len(workloads):
            raise FieldError("workload names must differ", "workloads")


class DesignProblem(AnyDesignProblem):
    """A network of dimensions to be designed."""

    remedy: ClassVar[str] = "give it 'most' or 'links'"

    network: DesignNetwork
    workloads: Annotated[tuple[DesignWorkload, ...], Field(min_length=1)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of dimensions."""
        return self.network.dimension_names

    @cached_property
    def rates(self) -> tuple[SoughtRate, ...]:
        """The bandwidth of each dimension; dollars are those of all NPUs."""
        npus = math.prod(dimension.size for dimension in self.network.dimensions)
        return tuple(d.rate(name, npus) for name, d in zip(self.names, self.network.dimensions, strict=True))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_texts([workload.name for workload in self.workloads])
        return self


class GraphDesignProblem(AnyDesignProblem):
    """A graph to be designed: the bandwidth, one way, of every link that is sought.

    `minimise`: the weighted sum of all times, or the largest of the weighted times.
    """

    remedy: ClassVar[str] = "give its group 'most'"

    network: SoughtNetwork
    workloads: Annotated[tuple[GraphWorkload, ...], Field(min_length=1)]
    minimise: Literal["sum", "worst"] = "sum"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The groups of links whose bandwidths are sought."""
        return tuple(self.network.members)

    @cached_property
    def rates(self) -> tuple[SoughtRate, ...]:
        """The bandwidth of a link of each group, and that of the fastest fixed link if there is one."""
        rates = []
        for name, links in self.network.members.items():
            limits, count = self.network.limits(name), len(links)
            most = limits.most or math.inf
            rates.append(SoughtRate(name, limits.least, most, float(count), limits.price * count / DOLLARS_PER))
        fixed = self.network.fixed
        return (*rates, *[SoughtRate("", fixed, fixed, 0.0, 0.0)] * (fixed > 0))

    @cached_property
    def whole(self) -> GraphNetwork:
        """The network with all links, at some bandwidths."""
        return self.network.at(dict.fromkeys(self.names, 1.0))

    def instance(self, collective: Collective) -> GraphInstance:
        """A collective on the whole network."""
        given = collective.model_dump(mode="json", exclude_unset=True, exclude={"count"})
        return GraphInstance(name=self.name, network=self.whole, collectives=(Collective(**given),))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_texts([workload.name for workload in self.workloads])
        for number, workload in enumerate(self.workloads):
            if self.minimise == "worst" and len(workload.collectives) > 1:
                raise FieldError("must be one for the worst of all times", f"workloads[{number}].collectives")
            for place, each in enumerate(workload.collectives):
                try:
                    self.instance(each)
                except ValidationError as error:
                    broken = located(error)
                    field = broken.field.replace("collectives[0]", f"workloads[{number}].collectives[{place}]")
                    raise FieldError(broken.rule, field) from None
        return self


def load_problem(source: str | Path) -> DesignProblem | GraphDesignProblem:
    """Read a design problem from a file, or a shipped one by its name.

    Raises InputError if there is none, or it breaks a rule; the message names file, field, value and rule.
    """
    path = find_problem(source)
    if is_graph(read_json(path)):
        return read_model(path, GraphDesignProblem, FORMAT)
    return read_model(path, DesignProblem, FORMAT)


def find_problem(source: str | Path) -> Path:
    """The file of a problem, or of a shipped one by its name. Raises InputError if there is none."""
    return locate(source, shipped_problems, "design")


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
    try:
        check_clock(instance)
    except InputError as error:
        raise error.within(where) from None
    return instance

"""Design problems on graphs: links whose bandwidths are sought, alone or in groups of equal ones."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from themis_opt.base.documents import schema_text
from themis_opt.base.errors import suggestion
from themis_opt.base.units import BytesPerSecond
from themis_opt.designing.problem import FORMAT, Budget, Constraint, Money, RepeatedCollective, read_constraint
from themis_opt.graphs.problem import (
    MAX_GRAPH_LINKS,
    MAX_GRAPH_NODES,
    GraphInstance,
    GraphLink,
    GraphNetwork,
    GraphNode,
    Name,
)
from themis_opt.problem.documents import read_model
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import MAX_BANDWIDTH, FieldError, Model, located


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


class GraphWorkload(Model):
    """Collectives that run one after the other."""

    name: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, le=1e18)] = 1.0
    collectives: Annotated[tuple[RepeatedCollective, ...], Field(min_length=1)]


class GraphDesignProblem(Model):
    """A graph to be designed.

    `budget` counts the bandwidth, one way, and the price of every link that is sought.
    `constraints` are linear, as texts of names of groups, numbers and bandwidths.
    `minimise`: the weighted sum of all times, or the largest of the weighted times.
    """

    format: Literal["themis-opt/design/1"] = FORMAT
    name: str = ""
    description: str = ""
    source: str = ""
    network: SoughtNetwork
    workloads: Annotated[tuple[GraphWorkload, ...], Field(min_length=1)]
    budget: Budget = Budget()
    constraints: tuple[str, ...] = ()
    minimise: Literal["sum", "worst"] = "sum"

    @property
    def group_names(self) -> tuple[str, ...]:
        """The groups of links whose bandwidths are sought."""
        return tuple(self.network.members)

    @cached_property
    def rows(self) -> tuple[Constraint, ...]:
        """The linear constraints, those with two signs as two."""
        return tuple(row for text in self.constraints for row in read_constraint(text, self.group_names))

    def instance(self, network: GraphNetwork, collectives: Sequence[Collective]) -> GraphInstance:
        """Collectives on a network of the problem."""
        given = [each.model_dump(mode="json", exclude_unset=True, exclude={"count"}) for each in collectives]
        return GraphInstance(name=self.name, network=network, collectives=tuple(Collective(**one) for one in given))

    @model_validator(mode="after")
    def _check(self) -> Self:
        for number, text in enumerate(self.constraints):
            try:
                read_constraint(text, self.group_names)
            except ValueError as error:
                raise FieldError(str(error), f"constraints[{number}]") from None
        names = [workload.name for workload in self.workloads]
        if len(set(names)) < len(names):
            raise FieldError("workload names must differ", "workloads")
        network = self.network.at(dict.fromkeys(self.group_names, 1.0))
        for number, workload in enumerate(self.workloads):
            if self.minimise == "worst" and len(workload.collectives) > 1:
                raise FieldError("must be one for the worst of all times", f"workloads[{number}].collectives")
            for place, each in enumerate(workload.collectives):
                try:
                    self.instance(network, [each])
                except ValidationError as error:
                    broken = located(error)
                    field = broken.field.replace("collectives[0]", f"workloads[{number}].collectives[{place}]")
                    raise FieldError(broken.rule, field) from None
        return self


def load_graph_problem(path: Path) -> GraphDesignProblem:
    """Read a design problem on a graph. Raises InputError if it breaks a rule, with file, field, value and rule."""
    return read_model(path, GraphDesignProblem, FORMAT)


def graph_problem_schema() -> str:
    """The JSON Schema of design problems on graphs."""
    schema = GraphDesignProblem.model_json_schema()
    return schema_text(schema | {"required": sorted({*schema["required"], "format"})})

"""Networks as graphs of NPUs, switches and links, and the collective that is run on one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from formulations.flow_network import CapacityGraph
from themis_opt.base.documents import digest, laid_out, schema_text
from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_bandwidth, format_size
from themis_opt.graphs.groups import GroupedNetwork
from themis_opt.graphs.links import MAX_GRAPH_LINKS, MAX_GRAPH_NODES, GraphLink, GraphNode
from themis_opt.problem.documents import INSTANCE_FORMAT, errors_of, read_model
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import FieldError, Model, ModelError
from themis_opt.problem.network import SLOWEST_LINK
from themis_opt.problem.phases import COLLECTIVE_RULES, CollectiveKind, Demand, Ends

if TYPE_CHECKING:
    import networkx as nx

MAX_AT_ONCE = 16  # most collectives of a graph at once

FINEST = 1000
"""Largest denominator of a bandwidth in bytes per second, so that thirds and sevenths are read as what they are."""


class GraphNetwork(Model):
    """NPUs and switches, and links between them; every NPU reaches every other one."""

    name: str = ""
    nodes: Annotated[tuple[GraphNode, ...], Field(max_length=MAX_GRAPH_NODES)]
    links: Annotated[tuple[GraphLink, ...], Field(max_length=MAX_GRAPH_LINKS)]
    source: str = ""

    def __hash__(self) -> int:  # of all nodes and links it takes as long as a bound of them
        return hash((self.name, len(self.nodes), len(self.links)))

    @cached_property
    def npus(self) -> tuple[str, ...]:
        """Names of the NPUs, in order."""
        return tuple(node.name for node in self.nodes if node.kind == "npu")

    @property
    def num_npus(self) -> int:
        """How many NPUs there are."""
        return len(self.npus)

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each node."""
        return {node.name: number for number, node in enumerate(self.nodes)}

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The network for other algorithms: what nodes are, `bandwidth`, `latency` (seconds) and `link` of edges."""
        import networkx as nx  # slow to import, and problems on dimensions have no graph

        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        for node in self.nodes:
            graph.add_node(node.name, kind=node.kind, sums=node.sums, multicasts=node.multicasts)
        for link in self.links:
            for (tail, head), bandwidth in link.bandwidths.items():
                graph.add_edge(
                    tail, head, bandwidth=bandwidth, latency=link.latency / PICOSECONDS_PER_SECOND, link=link.label
                )
        return graph

    @cached_property
    def arcs(self) -> dict[tuple[int, int], Fraction]:
        """Exact bytes per second from node to node, by their numbers."""
        index = self.index
        arcs = {
            (index[tail], index[head]): bandwidth
            for link in self.links
            for (tail, head), bandwidth in link.bandwidths.items()
        }
        exact = {bandwidth: Fraction(bandwidth).limit_denominator(FINEST) for bandwidth in set(arcs.values())}
        return {arc: exact[bandwidth] for arc, bandwidth in arcs.items()}

    @cached_property
    def latencies(self) -> dict[tuple[int, int], int]:
        """Picoseconds from node to node, by their numbers."""
        index = self.index
        return {(index[tail], index[head]): link.latency for link in self.links for tail, head in link.bandwidths}

    @cached_property
    def unit(self) -> Fraction:
        """The largest bandwidth of which all are multiples, in bytes per second."""
        values = {id(value): value for value in self.arcs.values()}.values()  # equal ones are one object
        denominator = lcm(*(value.denominator for value in values))
        return Fraction(gcd(*(int(value * denominator) for value in values)), denominator)

    @cached_property
    def capacities(self) -> CapacityGraph:
        """The graph in whole units of bandwidth."""
        terminals = tuple(self.index[name] for name in self.npus)
        distinct = {id(bandwidth): bandwidth for bandwidth in self.arcs.values()}
        units = {number: int(bandwidth / self.unit) for number, bandwidth in distinct.items()}
        arcs = {arc: units[id(bandwidth)] for arc, bandwidth in self.arcs.items()}
        return CapacityGraph(len(self.nodes), terminals, arcs)

    def switches_that(self, flag: Literal["sums", "multicasts"]) -> tuple[int, ...]:
        """Numbers of the switches with a flag."""
        return tuple(number for number, node in enumerate(self.nodes) if getattr(node, flag))

    def __repr__(self) -> str:
        what = f"{len(self.npus)} NPUs, {len(self.nodes) - len(self.npus)} switches, {len(self.links)} links"
        return f"<GraphNetwork {self.name or 'without a name'}: {what}>"

    __str__ = __repr__

    @cached_property
    def boxes(self) -> dict[str, tuple[str, ...]]:
        """Nodes of each box, pod and rack: all whose names begin with the same parts before a full stop."""
        boxes = defaultdict[str, list[str]](list)
        for name in self.index:
            parts = name.split(".")
            for count in range(1, len(parts)):
                boxes[".".join(parts[:count])].append(name)
        return {box: tuple(nodes) for box, nodes in boxes.items() if box not in self.index}

    def without(self, names: Iterable[str]) -> "GraphNetwork":
        """The network without some nodes and links.

        Raises InputError if there is none of a name, or NPUs that are left do not reach each other.
        """
        lost = set(names)
        for name in lost:
            self._check_name(name, "--lost")
        nodes = tuple(node for node in self.nodes if node.name not in lost)
        links = tuple(link for link in self.links if not lost & {*link.ends, *link.names})
        return self._changed(nodes, links, f"without {', '.join(sorted(lost))}")

    def slowed(self, factors: Mapping[str, float]) -> "GraphNetwork":
        """The network with some links at a part of their bandwidth.

        Raises InputError if there is no link of a name, or a factor is not between 0 and 1.
        """
        for name, factor in factors.items():
            self._check_name(name, "--slow", links_only=True)
            if not 0 < factor <= 1:
                raise InputError("must be more than 0, and 1 at most", field="--slow", value=f"{name}={factor}")
        links = tuple(
            link.slower(next((factors[name] for name in link.names if name in factors), 1.0)) for link in self.links
        )
        return self._changed(self.nodes, links, "slowed")

    def with_bandwidth(self, name: str, bandwidth: float) -> "GraphNetwork":
        """The network with so many bytes per second each way on a link. Raises InputError if there is no such link."""
        self._check_name(name, "--over", links_only=True)
        rate = {"bandwidth": bandwidth, "back": None}
        links = tuple(link.model_copy(update=rate) if name in link.names else link for link in self.links)
        return self._changed(self.nodes, links, f"with another {name}")

    def _check_name(self, name: str, field: str, *, links_only: bool = False) -> None:
        known = {label for link in self.links for label in link.names} | (set() if links_only else {*self.index})
        if name not in known:
            what = "a link" if links_only else "a node or link"
            near = suggestion(name, known) or f", such as '{self.links[0].label}'"
            raise InputError(f"must name {what} of the network{near}", field=field, value=name)

    def _changed(self, nodes: tuple[GraphNode, ...], links: tuple[GraphLink, ...], what: str) -> "GraphNetwork":
        try:
            return GraphNetwork(name=self.name, nodes=nodes, links=links, source=self.source)
        except ModelError as error:
            raise InputError(f"the network {what} {error.rule}") from None

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, document: Any) -> Any:
        """Groups of equal nodes stand for all of them."""
        if not isinstance(document, dict) or "groups" not in document:
            return document
        try:
            return GroupedNetwork.model_validate(document).expanded()
        except ModelError as error:
            rule = error.rule if error.value is None else f"{error.rule}, not {error.value!r}"
            raise FieldError(rule, error.field) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            raise FieldError(f"names must differ, '{_repeated(names)}' stands twice", "nodes")
        if not self.npus:
            raise FieldError("must have at least one node of kind 'npu'", "nodes")
        self._check_links()
        self._check_connected()
        return self

    def _check_links(self) -> None:
        pairs = set[frozenset[str]]()
        labels = [link.label for link in self.links]
        if len({*labels, *self.index}) < len(labels) + len(self.index):
            raise FieldError(f"names must differ, '{_repeated([*labels, *self.index])}' stands twice", "links")
        for number, link in enumerate(self.links):
            for end in link.ends:
                if end not in self.index:
                    raise FieldError(f"'{end}' is no node{suggestion(end, self.index)}", f"links[{number}].ends")
            if len(pair := frozenset(link.ends)) == 1:
                raise FieldError("must be two nodes", f"links[{number}].ends")
            if pair in pairs:
                raise FieldError("are joined already: add the bandwidths up", f"links[{number}].ends")
            pairs.add(pair)

    def _check_connected(self) -> None:
        """Every NPU reaches every other one: the first of them is reached by all, and reaches all."""
        first, *others = self.capacities.terminals
        reached = _reached(self.arcs, first)
        if not self.capacities.is_symmetric:
            reached &= _reached(self.capacities.reversed.arcs, first)
        lonely = next((npu for npu in others if npu not in reached), None)
        if lonely is not None:
            ends = [f"'{self.nodes[node].name}'" for node in (lonely, first)]
            raise FieldError(f"must be connected: {' and '.join(ends)} do not reach each other", "links")


def _reached(arcs: Iterable[tuple[int, int]], start: int) -> set[int]:
    """Nodes to which arcs lead from a node."""
    near = defaultdict[int, list[int]](list)
    for tail, head in arcs:
        near[tail].append(head)
    reached, waiting = {start}, [start]
    while waiting:
        further = [head for head in near[waiting.pop()] if head not in reached]
        reached.update(further)
        waiting += further
    return reached


def _repeated(names: list[str]) -> str:
    return next(name for name, count in Counter(names).items() if count > 1)


class GraphInstance(Model):
    """A graph and collectives of all its NPUs at once; broadcast and reduce have the first NPU for their root.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.load("boxes_5_3.all_reduce.1GB").network.num_npus
    8
    """

    format: Literal["themis-opt/instance/1"] = INSTANCE_FORMAT
    name: str = ""
    description: str = ""
    network: GraphNetwork
    collectives: Annotated[tuple[Collective, ...], Field(min_length=1, max_length=MAX_AT_ONCE)]

    def __repr__(self) -> str:
        name = self.name or "without a name"
        return f"<GraphInstance {name}: {self.kinds} of {format_size(self.size)} on {self.network}>"

    @property
    def family(self) -> str:
        """The kind of problem: a graph."""
        return "graph"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the network and the collectives."""
        return digest([INSTANCE_FORMAT, "graph", self.model_dump(mode="json", exclude={"name", "description"})])

    @property
    def collective(self) -> Collective:
        """The collective. Raises InputError if there are several."""
        if len(self.collectives) > 1:
            raise InputError("must be one here", field="collectives", value=len(self.collectives))
        return self.collectives[0]

    @property
    def singles(self) -> tuple["GraphInstance", ...]:
        """An instance for each of the collectives."""
        return tuple(self.model_copy(update={"collectives": (collective,)}) for collective in self.collectives)

    @property
    def size(self) -> int:
        """Bytes of all buffers."""
        return sum(collective.size for collective in self.collectives)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element, the same in all collectives."""
        return self.collectives[0].element_bytes

    @property
    def kinds(self) -> str:
        """The kinds in words."""
        return " and ".join(collective.kind.value for collective in self.collectives)

    @property
    def demand(self) -> Demand:
        """What must reach whom.

        Raises InputError if graphs do not know the kind: no default stands for it.
        """
        rule = COLLECTIVE_RULES.get(self.kind)
        demand = rule.demand if rule else None
        if demand is None or (demand.rooted and Ends.ALL not in (demand.sources, demand.targets)):
            raise InputError("is not for graphs", field="collectives.kind", value=str(self.kind))
        return demand

    @property
    def kind(self) -> CollectiveKind:
        """Its kind."""
        return self.collective.kind

    @property
    def root(self) -> int:
        """The number of the first NPU."""
        return self.network.capacities.terminals[0]

    def on(self, network: GraphNetwork) -> "GraphInstance":
        """The same collective on another network."""
        return self.model_copy(update={"network": network})

    def resized(self, size: str) -> "GraphInstance":
        """The same with another size. Raises InputError if it is none."""
        with errors_of("command line"):
            return self.model_copy(update={"collectives": (self.collective.replace(size=size),)})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.network.num_npus < 2:
            raise FieldError("must have two NPUs at least", "network.nodes")
        for number, collective in enumerate(self.collectives):
            where = f"collectives[{number}]"
            if collective.kind.rule.demand is None:
                raise FieldError("a graph has no dimensions to send along", f"{where}.kind")
            if collective.dimensions is not None:
                raise FieldError("a graph has no dimensions", f"{where}.dimensions")
            if collective.element_bytes != self.element_bytes:
                raise FieldError("must be that of the first collective", f"{where}.element_bytes")
        return self


def graph_text(instance: GraphInstance) -> str:
    """The document of an instance, with the fields that are not as usual."""
    return laid_out({"format": instance.format} | instance.model_dump(mode="json", exclude_defaults=True)) + "\n"


def graph_schema() -> str:
    """The JSON Schema of instances whose networks are graphs, of nodes or of groups."""
    schema = GraphInstance.model_json_schema()
    grouped = GroupedNetwork.model_json_schema(ref_template="#/$defs/{model}")
    schema["$defs"] |= grouped.pop("$defs") | {"GroupedNetwork": grouped}
    schema["properties"]["network"] = {
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in ("GraphNetwork", "GroupedNetwork")]
    }
    return schema_text(schema | {"required": sorted({*schema["required"], "format"})})


def graph_doubts(network: GraphNetwork) -> Iterator[str]:
    """What seems wrong with a network, in a sentence: of many links the first alone."""
    for link in network.links:
        slowest = min(link.bandwidths.values())
        if slowest < SLOWEST_LINK:
            name = link.label
            yield f"{name}: {format_bandwidth(slowest)} is no network; is a unit missing ('{slowest:g} GB/s')?"
            return


def load_graph(path: Path) -> GraphInstance:
    """Read a graph from a document.

    Raises InputError if it breaks a rule; the message names file, field, value and rule.
    """
    return read_model(path, GraphInstance, INSTANCE_FORMAT)

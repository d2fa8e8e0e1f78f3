"""Networks as graphs of NPUs, switches and links, and the collective that is run on one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from pathlib import Path
from typing import Annotated, Literal, Self

import networkx as nx
from pydantic import Field, StrictBool, ValidationError, model_validator

from formulations.flow_network import CapacityGraph
from themis_opt.base.documents import digest, laid_out, schema_text
from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.units import PICOSECONDS_PER_SECOND, BytesPerSecond, Picoseconds, format_bandwidth
from themis_opt.problem.documents import INSTANCE_FORMAT, read_model
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import MAX_BANDWIDTH, FieldError, Model, located
from themis_opt.problem.network import SLOWEST_LINK
from themis_opt.problem.phases import COLLECTIVE_RULES, CollectiveKind, Demand, Ends

Name = Annotated[str, Field(min_length=1, pattern=r"^[^,=\s]+$")]
"""What ``--lost`` and ``--slow`` name: without commas, equals signs and blanks."""

MAX_GRAPH_NODES, MAX_GRAPH_LINKS = 2**15, 2**18
"""Most nodes and links of a graph: flows between all pairs of more would take hours."""

MAX_AT_ONCE = 16
"""Most collectives of a graph at once."""

FINEST = 1000
"""Largest denominator of a bandwidth in bytes per second, so that thirds and sevenths are read as what they are."""


class GraphNode(Model):
    """An NPU or a switch.

    A switch that `sums` may add up what it receives; one that `multicasts` may send on several copies.
    """

    name: Name
    kind: Literal["npu", "switch"] = "npu"
    sums: StrictBool = False
    multicasts: StrictBool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        for flag in ("sums", "multicasts"):
            if self.kind == "npu" and getattr(self, flag):
                raise FieldError("only switches say so, since NPUs do both", flag)
        return self


class GraphLink(Model):
    """A cable between two nodes.

    `bandwidth` is that from the first end to the second, `back` the other way: the same where it is not given, 0 where
    the link has one direction.  `latency` is from the last byte sent to its arrival, each way.
    """

    ends: tuple[Name, Name]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0, le=MAX_BANDWIDTH)]
    back: Annotated[BytesPerSecond, Field(ge=0, le=MAX_BANDWIDTH)] | None = None
    latency: Annotated[Picoseconds, Field(ge=0)] = 0
    name: Annotated[str, Field(pattern=r"^[^,=\s]*$")] = ""

    @property
    def label(self) -> str:
        """The name, or both ends."""
        return self.name or "-".join(self.ends)

    @property
    def bandwidths(self) -> dict[tuple[str, str], float]:
        """Bytes per second of each direction that there is."""
        first, second = self.ends
        back = self.bandwidth if self.back is None else self.back
        return {(first, second): self.bandwidth} | ({(second, first): back} if back else {})

    def slower(self, factor: float) -> Self:
        """The link with a part of its bandwidth."""
        back = None if self.back is None else self.back * factor
        return self.model_copy(update={"bandwidth": self.bandwidth * factor, "back": back})


class GraphNetwork(Model):
    """NPUs and switches, and links between them; every NPU reaches every other one."""

    name: str = ""
    nodes: Annotated[tuple[GraphNode, ...], Field(max_length=MAX_GRAPH_NODES)]
    links: Annotated[tuple[GraphLink, ...], Field(max_length=MAX_GRAPH_LINKS)]
    source: str = ""

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
        values = set(self.arcs.values())
        denominator = lcm(*(value.denominator for value in values))
        return Fraction(gcd(*(int(value * denominator) for value in values)), denominator)

    @cached_property
    def capacities(self) -> CapacityGraph:
        """The graph in whole units of bandwidth."""
        terminals = tuple(self.index[name] for name in self.npus)
        units = {bandwidth: int(bandwidth / self.unit) for bandwidth in set(self.arcs.values())}
        arcs = {arc: units[bandwidth] for arc, bandwidth in self.arcs.items()}
        return CapacityGraph(len(self.nodes), terminals, arcs)

    def switches_that(self, flag: Literal["sums", "multicasts"]) -> tuple[int, ...]:
        """Numbers of the switches with a flag."""
        return tuple(number for number, node in enumerate(self.nodes) if getattr(node, flag))

    def without(self, names: Iterable[str]) -> "GraphNetwork":
        """The network without some nodes and links.

        Raises
        ------
        InputError
            If there is none of a name, or NPUs that are left do not reach each other.
        """
        lost = set(names)
        for name in lost:
            self._check_name(name, "--lost")
        nodes = tuple(node for node in self.nodes if node.name not in lost)
        links = tuple(link for link in self.links if not lost & {*link.ends, *_names_of(link)})
        return self._changed(nodes, links, f"without {', '.join(sorted(lost))}")

    def slowed(self, factors: Mapping[str, float]) -> "GraphNetwork":
        """The network with some links at a part of their bandwidth.

        Raises
        ------
        InputError
            If there is no link of a name, or a factor is not between 0 and 1.
        """
        for name, factor in factors.items():
            self._check_name(name, "--slow", links_only=True)
            if not 0 < factor <= 1:
                raise InputError("must be more than 0, and 1 at most", field="--slow", value=f"{name}={factor}")
        links = tuple(
            link.slower(next((factors[name] for name in _names_of(link) if name in factors), 1.0))
            for link in self.links
        )
        return self._changed(self.nodes, links, "slowed")

    def with_bandwidth(self, name: str, bandwidth: float) -> "GraphNetwork":
        """The network with so many bytes per second each way on a link. Raises InputError if there is no such link."""
        self._check_name(name, "--over", links_only=True)
        rate = {"bandwidth": bandwidth, "back": None}
        links = (link.model_copy(update=rate) if name in _names_of(link) else link for link in self.links)
        return self.model_copy(update={"links": tuple(links)})

    def scaled(self, fastest: float) -> "GraphNetwork":
        """The network with so many bytes per second on its fastest link, and all others in proportion."""
        factor = fastest / max(rate for link in self.links for rate in link.bandwidths.values())
        return self.model_copy(update={"links": tuple(link.slower(factor) for link in self.links)})

    def _check_name(self, name: str, field: str, *, links_only: bool = False) -> None:
        known = {label for link in self.links for label in _names_of(link)} | (set() if links_only else {*self.index})
        if name not in known:
            what = "a link" if links_only else "a node or link"
            near = suggestion(name, known) or f", such as '{self.links[0].label}'"
            raise InputError(f"must name {what} of the network{near}", field=field, value=name)

    def _changed(self, nodes: tuple[GraphNode, ...], links: tuple[GraphLink, ...], what: str) -> "GraphNetwork":
        try:
            return GraphNetwork(name=self.name, nodes=nodes, links=links, source=self.source)
        except ValidationError as error:
            raise InputError(f"the network {what} {located(error).rule}") from None

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
        first, *others = self.npus
        graph: nx.Graph[object] = self.graph  # type: ignore[assignment]
        reached = nx.descendants(graph, first) & nx.ancestors(graph, first)
        lonely = next((name for name in others if name not in reached), None)
        if lonely is not None:
            raise FieldError(f"must be connected: '{lonely}' and '{first}' do not reach each other", "links")


def _names_of(link: GraphLink) -> set[str]:
    """What a link may be called: its name, or its ends in either order."""
    return {link.label, "-".join(link.ends), "-".join(reversed(link.ends))}


def _repeated(names: list[str]) -> str:
    return next(name for name, count in Counter(names).items() if count > 1)


class GraphInstance(Model):
    """A graph and collectives of all its NPUs at once; broadcast and reduce have the first NPU for their root."""

    format: Literal["themis-opt/instance/1"] = INSTANCE_FORMAT
    name: str = ""
    description: str = ""
    network: GraphNetwork
    collectives: Annotated[tuple[Collective, ...], Field(min_length=1, max_length=MAX_AT_ONCE)]

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
        try:
            return self.model_copy(update={"collectives": (self.collective.replace(size=size),)})
        except ValidationError as error:
            raise located(error).within("command line") from None

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
    """The JSON Schema of instances whose networks are graphs."""
    schema = GraphInstance.model_json_schema()
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

    Raises
    ------
    InputError
        If it breaks a rule; the message names file, field, value and rule.
    """
    return read_model(path, GraphInstance, INSTANCE_FORMAT)

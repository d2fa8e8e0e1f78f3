"""Graphs of networkx and other libraries: GraphML, and JSON of nodes and links.

A node is an NPU unless its attribute `kind` (or `type`) says ``switch`` or something else that is neither ``npu``,
``gpu`` nor ``xpu``; `sums` and `multicasts` are flags of switches.  An edge has a `bandwidth` and perhaps a `latency`:
texts with units, or numbers of bytes per second and of seconds.  In a directed graph each edge is one direction; edges
between the same nodes are added up, unless the JSON says that the graph is no multigraph.
Source: http://graphml.graphdrawing.org (GraphML 1.0); networkx, ``readwrite.graphml`` and ``node_link_data``.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from xml.etree.ElementTree import Element

from themis_opt.base.errors import reading
from themis_opt.base.sources import Source
from themis_opt.base.units import parse_bandwidth, parse_time
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, refuse_cables
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.graphs.links import MAX_GRAPH_LINKS, GraphNode
from themis_opt.graphs.problem import GraphNetwork

NPU_KINDS = ("npu", "gpu", "xpu")
TRUTHS = {"true": True, "1": True, "false": False, "0": False}
BIT_RATES = {"Gbps": "Gb/s", "Mbps": "Mb/s", "GBps": "GB/s"}
EXACT_NODES = "Nodes, links and their rates are exact"
EXACT_GRAPH = f"{EXACT_NODES}; links between the same two nodes are added up."
"""Spellings of units that other tools use."""

Fields = Mapping[str, Any]


def _read_graphml(sources: Sequence[Source]) -> Part:
    source = only(sources, "network")
    root = source.xml()
    graphs = [element for element in root if _tag(element) == "graph"]
    if len(graphs) != 1:
        raise source.error("must hold one graph", "graph", len(graphs))
    (graph,) = graphs
    names = {key.get("id"): key.get("attr.name", key.get("id", "")) for key in root if _tag(key) == "key"}
    usual: dict[tuple[str | None, str], Any] = {}
    for key in root:
        for default in key if _tag(key) == "key" else ():
            usual[key.get("for"), key.get("attr.name", "")] = default.text
    nodes: list[tuple[str, Fields]] = []
    edges: list[tuple[str, str, bool, Fields]] = []
    for element in graph:
        tag = _tag(element)
        values = {name: text for (what, name), text in usual.items() if what in (tag, "all")}
        values |= {names.get(d.get("key"), ""): d.text for d in element if _tag(d) == "data"}
        if tag == "node":
            nodes.append((str(element.get("id")), values))
        elif tag == "edge":
            directed = element.get("directed", str(graph.get("edgedefault") == "directed").lower())
            edges.append((str(element.get("source")), str(element.get("target")), directed == "true", values))
    return _part(source, source.path.stem, nodes, edges)


def _tag(element: Element) -> str:
    """The tag without its namespace."""
    return element.tag.rpartition("}")[2]


def _is_node_link(source: Source) -> bool:
    keys = source.keys()
    return "nodes" in keys and not keys.isdisjoint({"links", "edges"}) and "format" not in keys


def _read_node_link(sources: Sequence[Source]) -> Part:
    source = only(sources, "network")
    document = source.json_object()
    field = "links" if "links" in document else "edges"
    for name in ("nodes", field):
        source.objects(document.get(name), name)
    directed = document.get("directed") is True
    nodes = [(str(node.get("id", node.get("name"))), node) for node in document["nodes"]]
    edges = [(str(edge.get("source")), str(edge.get("target")), directed, edge) for edge in document[field]]
    notes, count = [EXACT_GRAPH], len(edges)
    if document.get("multigraph") is False:  # as networkx reads it, the last edge between two nodes counts
        ends = [(tail, head) if directed or tail < head else (head, tail) for tail, head, *_ in edges]
        edges = list(dict(zip(ends, edges, strict=True)).values())
    if len(edges) < count:
        notes = [f"{EXACT_NODES}; links left out, as a later one joins the same two nodes: {count - len(edges)}."]
    about = document.get("graph")
    title = about.get("name") if isinstance(about, dict) else None
    return _part(source, str(title or source.path.stem), nodes, edges, notes)


def _part(
    source: Source,
    name: str,
    nodes: list[tuple[str, Fields]],
    edges: list[tuple[str, str, bool, Fields]],
    notes: Sequence[str] = (EXACT_GRAPH,),
) -> Part:
    refuse_cables(len(edges), MAX_GRAPH_LINKS, str(source))
    made = [_node(source, node, values, f"nodes[{number}]") for number, (node, values) in enumerate(nodes)]
    cables = [_cable(source, *edge, f"edges[{number}]") for number, edge in enumerate(edges)]
    network: GraphNetwork = cabled(plain_name(name), made, cables)
    return Part(graph=lambda _: network, notes=tuple(notes))


def _node(source: Source, name: str, values: Fields, field: str) -> GraphNode:
    kind = str(values.get("kind", values.get("type", "npu"))).lower()
    flags = {
        flag: source.choice(str(values[flag]).lower(), TRUTHS, f"{field}.{flag}")
        for flag in ("sums", "multicasts")
        if values.get(flag) is not None
    }
    return GraphNode(name=plain_name(name), kind="npu" if kind in NPU_KINDS else "switch", **flags)


def _cable(source: Source, tail: str, head: str, directed: bool, values: Fields, field: str) -> ReadCable:
    if values.get("bandwidth") is None:
        raise source.error("required field is missing", f"{field}.bandwidth")
    rate = _quantity(source, values, "bandwidth", f"{field}.bandwidth")
    back = 0.0 if directed else _quantity(source, values, "back", f"{field}.back") if "back" in values else rate
    latency = _quantity(source, values, "latency", f"{field}.latency") if values.get("latency") is not None else 0
    return ReadCable(plain_name(tail), plain_name(head), rate, back, int(latency))


def _quantity(source: Source, values: Fields, name: str, field: str) -> float:
    """Bytes per second, or picoseconds."""
    value = values[name]
    if isinstance(value, str):
        for spelling, unit in BIT_RATES.items():
            value = value.replace(spelling, unit)
        with suppress(ValueError):  # a number alone, which GraphML does not tell apart
            value = float(value)
    with reading(field, values[name], source=source):
        amount = parse_time(value) if name == "latency" else parse_bandwidth(value)
    return source.number(amount, field, least=0.0 if name != "bandwidth" else 1e-9)


GRAPHML = Reader("network in GraphML", ("graphml", "xml"), lambda source: "<graphml" in source.head, _read_graphml)
NODE_LINK = Reader("network as JSON of nodes and links (networkx)", ("json",), _is_node_link, _read_node_link)

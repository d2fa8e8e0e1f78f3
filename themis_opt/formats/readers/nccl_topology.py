"""Topology (``NCCL_TOPO_DUMP_FILE``) and graph (``NCCL_GRAPH_DUMP_FILE``) files of NCCL, in XML.

A topology describes the hosts of one NVLink domain: GPUs with their links, and network adapters (:mod:`~.nccl_box`).
A graph file says the bandwidth that NCCL listed on channels within a node and between nodes.  Neither says how many
nodes there are: two if there are adapters, unless a file is named after their number, as in ``topology.16nodes.xml``.
The files of several nodes are a node each.
Source: https://github.com/NVIDIA/nccl, ``src/graph/topo.cc``, ``xml.cc`` and ``tuning.cc`` (2.30).
"""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from themis_opt.base.sources import Source
from themis_opt.formats.readers import nccl_box
from themis_opt.formats.readers.parts import Part, Reader
from themis_opt.problem.network import Dimension, Kind, Network

USUAL_NODES = 2  # nodes, unless something else is said
UNITS_IN_WORDS = "GB/s are 10^9 bytes per second, rates and latencies those of NCCL's model"
GRAPH_PATTERNS = ("balanced tree", "split tree", "tree", "ring", "NVLS", "CollNet direct")
CHANNEL_PATTERNS = {str(number): pattern for number, pattern in enumerate(GRAPH_PATTERNS, start=1)}


def _read(sources: Sequence[Source]) -> Part:
    roots = [(source, source.xml()) for source in sources]
    for source, root in roots:
        tags = ("system",) if len(roots) > 1 else ("system", "graphs")
        source.choice(root.tag, dict.fromkeys(tags), "root element")
        if root.get("version") not in ("1", "2"):
            raise source.error("must be 1 or 2", f"{root.tag}.version", root.get("version"))
    source, root = roots[0]
    if len(roots) > 1:
        return _topology("boxes", roots, f"NCCL: {len(roots)} nodes, one for each file; {UNITS_IN_WORDS}.")
    if root.tag == "graphs":
        return _channels(source, root)
    hosts = len({cpu.get("host_hash") for cpu in root.iter("cpu")}) or 1
    nodes, note = _nodes_of(source, hosts if hosts > 1 or root.find(".//net") is None else USUAL_NODES)
    if nodes % hosts:
        raise source.error(f"must be a multiple of the {hosts} hosts in the file", "nodes in the name", nodes)
    return _topology(source.path.stem, roots, note, nodes // hosts)


def _topology(name: str, systems: Sequence[tuple[Source, Element]], note: str, copies: int = 1) -> Part:
    pcis, known = (pci for _, root in systems for pci in root.iter("pci")), nccl_box.PCI_BANDWIDTH_PER_LANE
    if speeds := {pci.get("link_speed") or "none" for pci in pcis if nccl_box.pci_speed(pci) not in known}:
        unknown = ", ".join(sorted(speeds)[:3])
        note = f"{note[:-1]}; PCI of a speed that NCCL does not know, {unknown}, is taken for 3.0."
    try:
        return _product(systems[0][0], name, nccl_box.dimensions(systems, copies), note)
    except nccl_box.NoProduct as error:
        network = nccl_box.graph(name, list(systems) * copies)
        return Part(graph=lambda _: network, notes=(f"{note[:-1]}; a graph, since {error}.",))


def _product(source: Source, name: str, parts: Sequence[Dimension], note: str) -> Part:
    if not parts:
        raise source.error("has one GPU and one node: nothing is exchanged")
    return Part(network=Network(name=name, dimensions=tuple(parts)), notes=(note,))


def _nodes_of(source: Source, usual: int) -> tuple[int, str]:
    """The number of nodes that the name of the file says, or the usual one, and a note about it."""
    match = re.search(r"(\d{1,6})nodes", source.path.name)
    nodes = int(match[1]) if match else usual
    if nodes < 1:
        raise source.error("must be 1 or more", "nodes in the name", nodes)
    said = "" if match else ", since its name says no number such as 16nodes"
    return nodes, f"NCCL: {nodes} node{'s' * (nodes > 1)}{said}; {UNITS_IN_WORDS}."


def _channels(source: Source, root: Element) -> Part:
    """The dimensions of the ring in a graph file: channels times their speed."""
    graphs = {graph.get("pattern", ""): graph for graph in root.iter("graph")}
    ring = graphs.get("4")
    if ring is None:
        seen = ", ".join(CHANNEL_PATTERNS.get(pattern, pattern) for pattern in graphs) or "none"
        raise source.error("must hold a ring, pattern 4", "graph", seen)
    has_adapters = ring.find(".//net") is not None
    nodes, note = _nodes_of(source, USUAL_NODES if has_adapters else 1)
    if nodes > 1 and not has_adapters:
        raise source.error("must list network adapters in channels, since there are several nodes", "net")
    channels = list(ring.iter("channel"))
    gpus = {gpu.get("rank", gpu.get("dev", "")) for gpu in ring.iter("gpu")}
    if not channels or not gpus:
        raise source.error("must list channels with their GPUs", "graph", ring.get("id"))
    inside, outside = (_decimal(source, ring, name) * len(channels) for name in ("speedintra", "speedinter"))
    latency = nccl_box.PCI_LATENCY if ring.get("typeintra") in ("PIX", "PXB", "PHB", "SYS") else nccl_box.NVLINK_LATENCY
    words = f"ring of {len(channels)} channels"
    rate, all_gpus = outside / len(gpus), f"{words}, {outside:g} GB/s for {len(gpus)} GPUs"
    parts = (
        nccl_box.within(Kind.RING, len(gpus), inside, latency, f"{words}, {inside:g} GB/s"),
        nccl_box.within(Kind.SWITCH, nodes, rate, nccl_box.NET_LATENCY, all_gpus, "net"),
    )
    return _product(source, source.path.stem, [part for part in parts if part], note)


def _decimal(source: Source, element: Element, name: str) -> float:
    text = element.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) < 1e-3:
        raise source.error("must be a positive number", f"{element.tag}.{name}", text)
    return float(text)


READER = Reader(
    "topology or graph of one node, dumped by NCCL",
    ("xml",),
    lambda source: bool(re.search(r"<(system|graphs)\b", source.head)),
    _read,
)

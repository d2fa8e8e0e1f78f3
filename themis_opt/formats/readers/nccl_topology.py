"""Topology (``NCCL_TOPO_DUMP_FILE``) and graph (``NCCL_GRAPH_DUMP_FILE``) files of NCCL, in XML: two dimensions.

GPUs that are not wired alike, and the files of several nodes, are a graph (:mod:`~.nccl_box`).

A topology describes one node: GPUs with their NVLinks, and network adapters.  A graph file says the bandwidth that NCCL
listed on channels within a node and between nodes.  Neither says how many nodes there are: two, unless a file is named
after their number, as in ``topology.16nodes.xml``.

GB/s are 10^9 bytes per second: of an NVLink 20.0 (compute capability 7 and 8), 20.6 (9) or 40.1 (10) in each direction,
of an XGMI link those of RCCL, 24, 36 (gfx90a) or 48 (gfx94x), of an adapter its speed (Mbit/s) over 8000, 10 if it has
none.  Latencies of a step are those of NCCL's model, ring, Simple: 3.4 us over NVLink, 5.7 us over PCI, 14 us between
nodes.
Source: https://github.com/NVIDIA/nccl, ``src/graph/topo.cc``, ``xml.cc`` and ``tuning.cc`` (2.30);
https://github.com/ROCm/rccl, ``src/graph/topo.h``.
"""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.formats.readers.parts import Part, Reader
from themis_opt.problem.network import Dimension, Kind, Network

NVLINK_BANDWIDTH = {7: 20.0, 8: 20.0, 9: 20.6, 10: 40.1}
"""GB/s of one NVLink in one direction, by the first digits of the compute capability."""

XGMI_BANDWIDTH = {"90a": 36.0, "910": 36.0, "94": 48.0}
"""GB/s of one XGMI link in one direction, by how the name of the architecture begins; files write gfx90a as 910."""

OLD_XGMI_BANDWIDTH = 24.0
FASTEST_ADAPTER = 10_000_000  # Mbit/s; faster ones are mistakes
MEGABITS_PER_GIGABYTE = 8000
NO_SPEED = 10_000 / MEGABITS_PER_GIGABYTE
PCI_BANDWIDTH_PER_LANE = {"2.5": 0.25, "5": 0.5, "8": 1.0, "16": 2.0, "32": 4.0}
"""GB/s of a lane by its rate in GT/s, before the encoding of packets."""

STEP_LATENCIES = {"nvlink": "3.4 us", "pci": "5.7 us", "net": "14 us"}
USUAL_NODES = 2
UNITS_IN_WORDS = "GB/s are 10^9 bytes per second; latencies are those of NCCL's model"
CHANNEL_PATTERNS = {
    "4": "ring",
    "1": "balanced tree",
    "2": "split tree",
    "3": "tree",
    "5": "NVLS",
    "6": "CollNet direct",
}


def _recognizes(source: Source) -> bool:
    return bool(re.search(r"<(system|graphs)\b", source.head))


class NoProduct(InputError):
    """A network that is no product of dimensions."""


def _read(sources: Sequence[Source]) -> Part:
    roots = [(source, source.xml()) for source in sources]
    for source, root in roots if len(roots) > 1 else ():
        source.choice(root.tag, {"system": None}, "root element")
        _check_version(source, root)
    if len(roots) > 1:
        return _graph_of_boxes("boxes", roots, f"NCCL: {len(roots)} nodes, one for each file; {UNITS_IN_WORDS}.")
    return _read_one(*roots[0])


def _check_version(source: Source, root: Element) -> None:
    if root.get("version") not in ("1", "2"):
        raise source.error("must be 1 or 2", f"{root.tag}.version", root.get("version"))


def _graph_of_boxes(name: str, roots: Sequence[tuple[Source, Element]], note: str) -> Part:
    from themis_opt.formats.readers.nccl_box import boxes  # it needs what is here

    network = boxes(name, roots)
    return Part(graph=lambda _: network, notes=(note,))


def _read_one(source: Source, root: Element) -> Part:
    readers = {"system": _topology, "graphs": _graph}
    read = source.choice(root.tag, readers, "root element")
    _check_version(source, root)
    nodes, note = nodes_of(source)
    try:
        dimensions = [dimension for dimension in read(source, root, nodes) if dimension]
    except NoProduct as error:
        return _graph_of_boxes(source.path.stem, [(source, root)] * nodes, f"{note[:-1]}; a graph, since {error}.")
    if not dimensions:
        raise source.error("has one GPU and one node: nothing is exchanged")
    return Part(network=Network(name=source.path.stem, dimensions=tuple(dimensions)), notes=(note,))


def nodes_of(source: Source) -> tuple[int, str]:
    """The number of nodes that the name of the file says, or the usual one, and a note about it."""
    match = re.search(r"(\d{1,6})nodes", source.path.name)
    nodes = int(match[1]) if match else USUAL_NODES
    if nodes < 1:
        raise source.error("must be 1 or more", "nodes in the name", nodes)
    said = "" if match else ", since its name says no number such as 16nodes"
    return nodes, f"NCCL: {nodes} nodes{said}; {UNITS_IN_WORDS}."


def _topology(source: Source, root: Element, nodes: int) -> tuple[Dimension | None, Dimension | None]:
    """The dimensions within a node and between nodes, of which there may be one."""
    gpus = list(root.iter("gpu"))
    if not gpus:
        raise source.error("must describe a GPU", "gpu")
    adapters = [adapter_speed(source, net) for net in root.iter("net")]
    if nodes > 1 and not adapters:
        raise source.error("must describe a network adapter, since there are several nodes", "net")
    share = sum(adapters) / len(gpus)
    description = f"{len(adapters)} adapters of {sum(adapters):g} GB/s for {len(gpus)} GPUs"
    return _inside(source, root, gpus), between(nodes, share, description)


def within(kind: Kind, gpus: int, gigabytes: float, medium: str, description: str) -> Dimension | None:
    """The dimension within a node, of some GB/s per GPU over ``nvlink`` or ``pci``; none if it has one GPU."""
    if gpus == 1:
        return None
    bandwidth, latency = f"{gigabytes:.12g} GB/s", STEP_LATENCIES[medium]
    return Dimension(kind=kind, size=gpus, name="node", bandwidth=bandwidth, latency=latency, source=description)


def between(nodes: int, gigabytes: float, description: str) -> Dimension | None:
    """The dimension between nodes, of some GB/s per GPU; none if there is one node."""
    if nodes == 1:
        return None
    bandwidth, latency = f"{gigabytes:.12g} GB/s", STEP_LATENCIES["net"]
    return Dimension(kind=Kind.SWITCH, size=nodes, name="net", bandwidth=bandwidth, latency=latency, source=description)


def _inside(source: Source, root: Element, gpus: Sequence[Element]) -> Dimension | None:
    if len(gpus) == 1:
        return None
    links = [gpu_links(source, gpu) for gpu in gpus]
    bandwidths = [sum(rate for _, rate in links_of_gpu) for links_of_gpu in links]
    if len(set(bandwidths)) > 1:
        raise NoProduct(f"GPUs have {min(bandwidths):g} to {max(bandwidths):g} GB/s of links")
    if bandwidths[0]:
        targets = {link.get("tclass") for links_of_gpu in links for link, _ in links_of_gpu}
        switched = targets == {"0x068000"}
        if not switched:
            _check_pairs(source, gpus)
        kind, bandwidth = Kind.SWITCH if switched else Kind.FULLY_CONNECTED, bandwidths[0]
        return within(kind, len(gpus), bandwidth, "nvlink", f"links of {bandwidth:g} GB/s per GPU")
    bandwidth = min(_pci(source, root, gpu) for gpu in gpus)
    return within(Kind.SWITCH, len(gpus), bandwidth, "pci", f"PCI links of the GPUs, {bandwidth:g} GB/s per GPU")


def gpu_links(source: Source, gpu: Element) -> list[tuple[Element, float]]:
    """The NVLinks and XGMI links of a GPU, with their GB/s in one direction."""
    links = [(link, _nvlink(source, gpu)) for link in gpu.iter("nvlink")]
    links += [(link, _xgmi(gpu)) for link in gpu.iter("xgmi")]
    return [(link, rate * whole_attribute(source, link, "count")) for link, rate in links]


def _nvlink(source: Source, gpu: Element) -> float:
    capability = whole_attribute(source, gpu, "sm") // 10
    if capability not in NVLINK_BANDWIDTH:
        known = ", ".join(f"{generation}x" for generation in NVLINK_BANDWIDTH)
        raise source.error(
            f"must be one of {known}: the bandwidth of other NVLinks is not known", "gpu.sm", gpu.get("sm")
        )
    return NVLINK_BANDWIDTH[capability]


def _xgmi(gpu: Element) -> float:
    name = gpu.get("gcn", "").removeprefix("gfx")
    return next((rate for start, rate in XGMI_BANDWIDTH.items() if name.startswith(start)), OLD_XGMI_BANDWIDTH)


def _check_pairs(source: Source, gpus: Sequence[Element]) -> None:
    """Without a switch, every GPU must have as many links to each of the others."""
    for gpu in gpus:
        counts: dict[str, float] = {}
        for link, rate in gpu_links(source, gpu):
            target = link.get("target", "")
            counts[target] = counts.get(target, 0) + rate
        if len(counts) != len(gpus) - 1 or len(set(counts.values())) > 1:
            raise NoProduct("pairs of GPUs have different numbers of links")


def _pci(source: Source, root: Element, gpu: Element) -> float:
    for pci in root.iter("pci"):
        if gpu in list(pci):
            speed = (pci.get("link_speed") or "").split(" ")[0].removesuffix(".0")
            lanes = whole_attribute(source, pci, "link_width")
            return float(source.choice(speed, PCI_BANDWIDTH_PER_LANE, "pci.link_speed")) * max(lanes, 1)
    raise source.error("stands in no pci element, so that its bandwidth is not known", "gpu", gpu.get("dev"))


def adapter_speed(source: Source, net: Element) -> float:
    """GB/s of an adapter. Raises InputError if none can be so fast."""
    speed = whole_attribute(source, net, "speed", usual="0")
    if speed > FASTEST_ADAPTER:
        raise source.error(f"must be at most {FASTEST_ADAPTER} Mbit/s", "net.speed", speed)
    return speed / MEGABITS_PER_GIGABYTE if speed > 0 else NO_SPEED


def whole_attribute(source: Source, element: Element, name: str, usual: str | None = None) -> int:
    """A whole number. Raises InputError if it is none."""
    text = element.get(name, usual)
    if text is None or not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise source.error("must be a whole number", f"{element.tag}.{name}", text)
    return source.whole(int(text), f"{element.tag}.{name}", least=-1, most=10**9)


def _graph(source: Source, root: Element, nodes: int) -> tuple[Dimension | None, Dimension | None]:
    """The dimensions of the ring in the file: channels times their speed."""
    graphs = {graph.get("pattern", ""): graph for graph in root.iter("graph")}
    ring = graphs.get("4")
    if ring is None:
        seen = ", ".join(CHANNEL_PATTERNS.get(pattern, pattern) for pattern in graphs) or "none"
        raise source.error("must hold a ring, pattern 4", "graph", seen)
    channels = list(ring.iter("channel"))
    gpus = {gpu.get("rank", gpu.get("dev", "")) for gpu in ring.iter("gpu")}
    if not channels or not gpus:
        raise source.error("must list channels with their GPUs", "graph", ring.get("id"))
    speeds = [_decimal(source, ring, name) * len(channels) for name in ("speedintra", "speedinter")]
    medium = "pci" if ring.get("typeintra") in ("PIX", "PXB", "PHB", "SYS") else "nvlink"
    descriptions = [f"ring of {len(channels)} channels, {speed:g} GB/s" for speed in speeds]
    return (
        within(Kind.RING, len(gpus), speeds[0], medium, descriptions[0]),
        between(nodes, speeds[1] / len(gpus), f"{descriptions[1]} for {len(gpus)} GPUs"),
    )


def _decimal(source: Source, element: Element, name: str) -> float:
    text = element.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) < 1e-3:
        raise source.error("must be a positive number", f"{element.tag}.{name}", text)
    return float(text)


READER = Reader("topology or graph of one node, dumped by NCCL", ("xml",), _recognizes, _read)

"""Output of ``nvidia-smi topo -m``: which link lies between every two GPUs of a node.

GPUs with different numbers of NVLinks are a graph: of these alone where they join all GPUs, else with the PCI switches
that the ways through them tell apart.

The matrix says ``NVn`` for n NVLinks, else the way through PCI and CPUs.  It says neither the generation of links nor
the speed of adapters: bandwidths are of NVLinks of 25 GB/s, and of PCI 4.0 with 16 lanes; of the network between nodes
nothing is read.
Source: https://docs.nvidia.com/deploy/nvidia-smi, ``topo``; legend of the output itself.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

import networkx as nx

from themis_opt.base.sources import Source
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, reached, simplified
from themis_opt.formats.readers.nccl_box import GIGA, NVLINK_LATENCY, PCI_LATENCY
from themis_opt.formats.readers.nccl_topology import within
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.graphs.problem import GraphNetwork
from themis_opt.problem.network import Kind, Network

NVLINK = 25.0  # GB/s of one NVLink in one direction, by its data sheets since Volta
PCI = 32.0  # GB/s of PCI 4.0 with 16 lanes in one direction
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
LINK = re.compile(r"NV([1-9][0-9]?)")
TERMINAL_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def _recognizes(source: Source) -> bool:
    return bool(re.search(r"^(\x1b\[[0-9;]*m|\s)*GPU0\b", source.head, re.MULTILINE))


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "topology")
    matrix = _matrix(source)
    size = len(matrix)
    pairs = {matrix[i][j] for i in range(size) for j in range(size) if i != j}
    if len(pairs) > 1:
        for i, j in combinations(range(size), 2):
            if matrix[i][j] != matrix[j][i]:
                raise source.error(
                    "must be the same both ways", f"GPU{i} and GPU{j}", f"{matrix[i][j]}, {matrix[j][i]}"
                )
        network = _graph(source.path.stem, matrix)
        note = "nvidia-smi: a graph, since links differ; 25 GB/s per NVLink and direction, 32 GB/s of PCI are assumed."
        return Part(graph=lambda _: network, notes=(note,))
    (link,) = pairs
    match = LINK.fullmatch(link)
    bandwidth = int(match[1]) * NVLINK if match else PCI
    dimension = within(Kind.SWITCH, size, bandwidth, "nvlink" if match else "pci", f"{link} between all GPUs")
    each = "25 GB/s per NVLink and direction" if match else "32 GB/s, PCI 4.0 with 16 lanes"
    note = f"nvidia-smi: {link} between all GPUs; bandwidth {each} is an assumption, latency that of NCCL's model."
    return Part(network=Network(name=source.path.stem, dimensions=(dimension,)), notes=(note,))


def _graph(name: str, matrix: Sequence[Sequence[str]]) -> GraphNetwork:
    """GPUs with their NVLinks, and PCI switches where those do not join all."""
    npus = [f"gpu{number}" for number in range(len(matrix))]
    cables = [
        ReadCable.both_ways(npus[i], npus[j], int(match[1]) * NVLINK * GIGA, NVLINK_LATENCY)
        for i, j in combinations(range(len(matrix)), 2)
        if (match := LINK.fullmatch(matrix[i][j]))
    ]
    joined = nx.Graph([(cable.tail, cable.head) for cable in cables])
    if len(joined) < len(npus) or not nx.is_connected(joined):
        cables += simplified(npus, _pci_tree(npus, matrix))
    return cabled(plain_name(name), reached(npus, cables), cables)


def _pci_tree(npus: Sequence[str], matrix: Sequence[Sequence[str]]) -> Iterator[ReadCable]:
    """A switch for every group of GPUs whose ways are so short, below the switch of the larger group around it."""
    tops = {name: name for name in npus}
    for level, path in enumerate(PATHS):
        near: nx.Graph[str] = nx.Graph()
        near.add_nodes_from(tops[name] for name in npus)
        for i, j in combinations(range(len(npus)), 2):
            if matrix[i][j] in PATHS[: level + 1]:
                near.add_edge(tops[npus[i]], tops[npus[j]])
        for number, group in enumerate(sorted(map(sorted, nx.connected_components(near)))):
            if len(group) > 1:
                switch = f"{path.lower()}{number}"
                for top in group:
                    yield ReadCable.both_ways(top, switch, PCI * GIGA, PCI_LATENCY // 2 if top in npus else 0)
                tops |= {name: switch for name, top in tops.items() if top in group}


def _matrix(source: Source) -> list[list[str]]:
    rows = ((number, TERMINAL_ESCAPES.sub("", line).split()) for number, line in source.lines)
    gpus: list[str] = []
    matrix: list[list[str]] = []
    for number, words in rows:
        if not gpus and words and words[0] == "GPU0" and "X" not in words:
            gpus = [word for word in words if re.fullmatch(r"GPU[0-9]{1,3}", word)]
        elif gpus and words and words[0] == f"GPU{len(matrix)}" and len(matrix) < len(gpus):
            matrix.append(_row(source, number, words[1 : len(gpus) + 1], len(matrix), len(gpus)))
    if len(gpus) < 2 or len(matrix) != len(gpus):
        raise source.error("must be a matrix of two GPUs or more, with a row for each", "GPUs", len(matrix))
    return matrix


def _row(source: Source, number: int, words: Sequence[str], place: int, size: int) -> list[str]:
    if len(words) != size or words[place] != "X":
        raise source.error(f"must have {size} links, with X where it meets itself", f"line {number}")
    for word in words:
        if word != "X" and word not in PATHS and not LINK.fullmatch(word):
            raise source.error(f"must be NV and a number, or one of {', '.join(PATHS)}", f"line {number}", word)
    return list(words)


READER = Reader("matrix of `nvidia-smi topo -m`", ("txt", "log"), _recognizes, _read)

"""Output of ``nvidia-smi topo -m``: which link lies between every two GPUs of a node.

The matrix says ``NVn`` for n NVLinks, else the way through PCI and CPUs.  Where the links of a GPU to all others add up
to more than a GPU has, the others are behind a switch, and each GPU has the most links of its row; else every pair has
cables of its own.  GPUs or pairs that differ are a graph, with PCI switches where NVLinks do not join all.  The matrix
says neither the generation of links nor the speed of adapters; of the network between nodes nothing is read.
Source: https://docs.nvidia.com/deploy/nvidia-smi, ``topo``; legend of the output itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import networkx as nx

from themis_opt.base.sources import Source
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, reached, simplified
from themis_opt.formats.readers.nccl_box import GIGA, NVLINK_LATENCY, PCI_LATENCY, within
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.graphs.problem import GraphNetwork
from themis_opt.problem.network import Kind, Network

NVLINK = 25.0  # GB/s of one NVLink in one direction, by the data sheets from Volta to Hopper
BLACKWELL_NVLINK = 50.0  # GB/s of one NVLink in one direction, by the data sheet of Blackwell
BLACKWELL = re.compile(r"NVIDIA (G?B[123]00)\b")  # GPUs of that generation, as ``nvidia-smi -L`` names them
MOST_NVLINKS = 18  # NVLinks of a GPU at most: Hopper and Blackwell
PCI = 32.0  # GB/s of PCI 4.0 with 16 lanes in one direction
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
LINK = re.compile(r"NV([1-9][0-9]?)")
TERMINAL_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def _recognizes(source: Source) -> bool:
    return bool(re.search(r"^(\x1b\[[0-9;]*m|\s)*GPU0\b", source.head, re.MULTILINE))


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "topology")
    names, matrix = _matrix(source)
    nvlink = BLACKWELL_NVLINK if BLACKWELL.search(source.text) else NVLINK
    usual = {"nvlink": nvlink * GIGA, "pci": PCI * GIGA}
    for i, j in combinations(range(len(names)), 2):
        if matrix[i][j] != matrix[j][i]:
            raise source.error(
                "must be the same both ways", f"{names[i]} and {names[j]}", f"{matrix[i][j]}, {matrix[j][i]}"
            )
    assumed = f"{nvlink:g} GB/s per NVLink and direction and {PCI:g} GB/s of PCI are assumed"
    known = f"{assumed}; --bandwidths nvlink=..,pci=.. states others"
    pairs = {matrix[i][j] for i, j in combinations(range(len(names)), 2)}
    if len(pairs) == 1:
        (link,) = pairs
        note = f"nvidia-smi: {link} between all GPUs, {_words(matrix)}; {known}; latency is that of NCCL's model."
        return Part(
            open_network=lambda rates: _product(source.path.stem, link, len(names), {**usual, **rates}), notes=(note,)
        )
    note = f"nvidia-smi: a graph, since links differ, {_words(matrix)}; {known}."
    return Part(graph=lambda rates: _graph(source.path.stem, names, matrix, {**usual, **rates}), notes=(note,))


def _count(word: str) -> int:
    """NVLinks between two GPUs; 0 where the way is another."""
    match = LINK.fullmatch(word)
    return int(match[1]) if match else 0


def _is_switched(matrix: Sequence[Sequence[str]], group: Sequence[int]) -> bool:
    """Whether GPUs share a switch: the links to all others add up to more than a GPU has."""
    return any(sum(_count(matrix[i][j]) for j in group) > MOST_NVLINKS for i in group)


def _groups(matrix: Sequence[Sequence[str]]) -> list[list[int]]:
    """GPUs that NVLinks join, directly or not."""
    joined: nx.Graph[int] = nx.Graph()
    joined.add_nodes_from(range(len(matrix)))
    joined.add_edges_from((i, j) for i, j in combinations(range(len(matrix)), 2) if _count(matrix[i][j]))
    return sorted(map(sorted, nx.connected_components(joined)))


def _words(matrix: Sequence[Sequence[str]]) -> str:
    """How NVLinks were read."""
    groups = [group for group in _groups(matrix) if len(group) > 1]
    if not groups:
        return "no NVLinks"
    if any(_is_switched(matrix, group) for group in groups):
        return f"behind a switch, as links to all add up to more than the {MOST_NVLINKS} of a GPU"
    return f"cable by cable, as links to all add up to no more than the {MOST_NVLINKS} of a GPU"


def _product(name: str, link: str, size: int, rates: Mapping[str, float]) -> Network:
    """GPUs that are all alike: behind one switch, or each joined to each."""
    count = _count(link)
    is_switched = not count or count * (size - 1) > MOST_NVLINKS
    medium, latency = ("nvlink", NVLINK_LATENCY) if count else ("pci", PCI_LATENCY)
    rate = rates[medium] / GIGA * (count or 1) * (1 if is_switched else size - 1)
    kind = Kind.SWITCH if is_switched else Kind.FULLY_CONNECTED
    dimension = within(kind, size, rate, latency, f"{link} between all GPUs")
    return Network(name=name, dimensions=(dimension,) if dimension else ())


def _graph(
    name: str, names: Sequence[str], matrix: Sequence[Sequence[str]], rates: Mapping[str, float]
) -> GraphNetwork:
    """GPUs with their NVLinks, cables or those to a switch, and PCI switches where NVLinks do not join all."""
    npus = [gpu.lower() for gpu in names]
    cables: list[ReadCable] = []
    groups = _groups(matrix)
    for number, group in enumerate(groups):
        if _is_switched(matrix, group):
            switch = f"nvswitch{number}"
            for i in group:
                most = max(_count(matrix[i][j]) for j in group)
                cables.append(ReadCable.both_ways(npus[i], switch, most * rates["nvlink"], NVLINK_LATENCY // 2))
            continue
        cables += [
            ReadCable.both_ways(npus[i], npus[j], _count(matrix[i][j]) * rates["nvlink"], NVLINK_LATENCY)
            for i, j in combinations(group, 2)
            if _count(matrix[i][j])
        ]
    if len(groups) > 1:
        cables += simplified(npus, _pci_tree(npus, matrix, rates["pci"]))
    return cabled(plain_name(name), reached(npus, cables), cables)


def _pci_tree(npus: Sequence[str], matrix: Sequence[Sequence[str]], rate: float) -> Iterator[ReadCable]:
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
                    yield ReadCable.both_ways(top, switch, rate, PCI_LATENCY // 2 if top in npus else 0)
                tops |= {name: switch for name, top in tops.items() if top in group}


def _matrix(source: Source) -> tuple[list[str], list[list[str]]]:
    """The names of GPUs, and the word between every two of them."""
    rows = ((number, TERMINAL_ESCAPES.sub("", line).split()) for number, line in source.lines)
    gpus: list[str] = []
    matrix: list[list[str]] = []
    for number, words in rows:
        if words and words[0] in ("GPU0", *gpus[:1]) and "X" not in words:
            if gpus:
                raise source.error("must hold one matrix: import the one of each host alone", f"line {number}")
            gpus = [word for word in words if re.fullmatch(r"GPU[0-9]{1,3}", word)]
        elif gpus and words and len(matrix) < len(gpus) and words[0] == gpus[len(matrix)]:
            matrix.append(_row(source, number, words[1 : len(gpus) + 1], len(matrix), len(gpus)))
    if len(gpus) < 2 or len(matrix) != len(gpus):
        raise source.error("must be a matrix of two GPUs or more, with a row for each", "GPUs", len(matrix))
    return gpus, matrix


def _row(source: Source, number: int, words: Sequence[str], place: int, size: int) -> list[str]:
    if len(words) != size or words[place] != "X":
        raise source.error(f"must have {size} links, with X where it meets itself", f"line {number}")
    for column, word in enumerate(words):
        if column != place and word not in PATHS and not LINK.fullmatch(word):
            raise source.error(f"must be NV and a number, or one of {', '.join(PATHS)}", f"line {number}", word)
    return list(words)


READER = Reader("matrix of `nvidia-smi topo -m`", ("txt", "log"), _recognizes, _read)

"""Tables of what lies between every two GPUs of a node, as the tools of NVIDIA and AMD print them.

``nvidia-smi topo -m`` says ``NVn`` for n NVLinks, else the way through PCI and CPUs, and neither the generation of
links nor the speed of adapters.  ``rocm-smi --showtopo`` and ``amd-smi topology`` have a table of link types, XGMI or
PCIE, in which pairs that XGMI joins over several hops have no cable, and perhaps one of the MB/s of one link and of all
links of a pair; without it one link of 48 GB/s is assumed, as in RCCL.  The network between nodes is not read.
Source: https://docs.nvidia.com/deploy/nvidia-smi, ``topo``, with the legend of the output itself;
https://github.com/ROCm/amdsmi, ``amdsmi_cli``, CHANGELOG.md; https://github.com/ROCm/rocm_smi_lib.

Where the links of a GPU to all others add up to more than a GPU has, the others are behind a switch, and each GPU has
the most links of its row; else every pair has separate cables.  GPUs or pairs that differ are a graph, with PCI
switches where links do not join all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import networkx as nx

from themis_opt.base.sources import Source
from themis_opt.formats.readers.cables import ReadCable, cabled, plain_name, reached, simplified
from themis_opt.formats.readers.nccl_box import GIGA, NVLINK_LATENCY, PCI_LATENCY, within
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.graphs.problem import GraphNetwork
from themis_opt.problem.network import Kind, Network

PCI = 32.0  # GB/s of PCI 4.0 with 16 lanes in one direction
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
GPU = re.compile(r"GPU[0-9]{1,3}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
TERMINAL_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class GpuTable(NamedTuple):
    """Words for every two GPUs, below a title; a row may be missing or too short."""

    title: str
    gpus: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int]

    def words(self, source: Source, diagonal: Sequence[str], known: str = ".*", rule: str = "") -> list[Sequence[str]]:
        """The words of all GPUs. Raises InputError if a row has not one for each GPU, or one is not as `known`."""
        for place, (line, words) in enumerate(zip(self.lines, self.rows, strict=True)):
            if len(words) != len(self.gpus) or words[place] not in diagonal:
                shape = f"must have {len(self.gpus)} links, with {diagonal[0]} where it meets itself"
                raise source.error(shape, f"line {line}")
            for word in (*words[:place], *words[place + 1 :]):
                if not re.fullmatch(known, word):
                    raise source.error(rule, f"line {line}", word)
        return list(self.rows)


class GpuLinks(NamedTuple):
    """Links between GPUs: the name that `--bandwidths` uses, the word for them, GB/s of one in one direction.

    `most`: links of a GPU, where GPUs may be behind a switch.
    """

    key: str
    word: str
    gigabytes: float
    most: int | None = None


class Matrix(NamedTuple):
    """Words for every two GPUs, and links between them; where there are none, the word names a way through PCI."""

    gpus: Sequence[str]
    words: Sequence[Sequence[str]]
    counts: Sequence[Sequence[float]]

    def part(self, source: Source, tool: str, links: GpuLinks, rate_note: str = "assumed") -> Part:
        """The node: a product where all GPUs are alike, else a graph."""
        usual = {links.key: links.gigabytes * GIGA, "pci": PCI * GIGA}
        ways = [[*zip(*rows, strict=True)] for rows in zip(self.words, self.counts, strict=True)]
        for i, j in self.pairs():
            if ways[i][j] != ways[j][i]:
                both = f"{self.words[i][j]}, {self.words[j][i]}"
                raise source.error("must be the same both ways", f"{self.gpus[i]} and {self.gpus[j]}", both)
        rates = f"{links.gigabytes:g} GB/s per {links.word} and direction and {PCI:g} GB/s of PCI are {rate_note}"
        known = f"{self._words(links)}; {rates}; --bandwidths {links.key}=..,pci=.. states others"
        stem, missing = source.path.stem, self.missing()
        hosts = {"hosts": [{"file": source.path.name, "hosts": "1", "GPUs per host": str(len(self.gpus))}]}
        if len({ways[i][j] for i, j in self.pairs()}) == 1:
            word = self.words[0][1]
            note = f"{tool}: {word} between all GPUs, {known}; latency is that of NCCL's model."
            network = partial(self._product, stem, word, links)
            return Part(open_network=lambda stated: network({**usual, **stated}), notes=(note, *missing), tables=hosts)
        note = f"{tool}: a graph, since links differ, {known}."
        graph = partial(self._graph, stem, links)
        return Part(graph=lambda stated: graph({**usual, **stated}), notes=(note, *missing), tables=hosts)

    def missing(self) -> list[str]:
        """A note on GPUs that seem to be off: a number is skipped, or they are no power of two."""
        numbers = {int(digits) for digits in re.findall(r"\d+", " ".join(self.gpus))}
        skipped = sorted(set(range(max(numbers, default=0))) - numbers)
        names = ", ".join(f"GPU{number}" for number in skipped)
        if skipped:
            return [f"{len(self.gpus)} GPUs, without {names}: the network is that of the GPUs listed."]
        count = len(self.gpus)
        words = f"{count} GPUs, no power of two: some may be off, and the network is without them."
        return [words] if count & (count - 1) else []

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Places of every two GPUs."""
        return combinations(range(len(self.gpus)), 2)

    def _is_switched(self, group: Sequence[int], links: GpuLinks) -> bool:
        """Whether GPUs share a switch: the links to all others add up to more than a GPU has."""
        return links.most is not None and any(sum(self.counts[i][j] for j in group) > links.most for i in group)

    def _groups(self) -> list[list[int]]:
        """GPUs that links join, directly or not."""
        joined: nx.Graph[int] = nx.Graph()
        joined.add_nodes_from(range(len(self.gpus)))
        joined.add_edges_from((i, j) for i, j in self.pairs() if self.counts[i][j])
        return sorted(map(sorted, nx.connected_components(joined)))

    def _words(self, links: GpuLinks) -> str:
        """How links were read."""
        groups = [group for group in self._groups() if len(group) > 1]
        if not groups or links.most is None:
            return "cable by cable" if groups else f"no {links.word}s"
        is_switched = any(self._is_switched(group, links) for group in groups)
        how, more = ("behind a switch", "more") if is_switched else ("cable by cable", "no more")
        return f"{how}, as links to all add up to {more} than the {links.most} of a GPU"

    def _product(self, name: str, word: str, links: GpuLinks, rates: Mapping[str, float]) -> Network:
        """GPUs that are all alike: behind one switch, or each joined to each."""
        size, count = len(self.gpus), self.counts[0][1]
        is_switched = not count or self._is_switched(range(size), links)
        key, latency = (links.key, NVLINK_LATENCY) if count else ("pci", PCI_LATENCY)
        rate = rates[key] / GIGA * (count or 1) * (1 if is_switched else size - 1)
        kind = Kind.SWITCH if is_switched else Kind.FULLY_CONNECTED
        dimension = within(kind, size, rate, latency, f"{word} between all GPUs")
        return Network(name=name, dimensions=(dimension,) if dimension else ())

    def _graph(self, name: str, links: GpuLinks, rates: Mapping[str, float]) -> GraphNetwork:
        """GPUs with their links, cables or those to a switch, and PCI switches where links do not join all."""
        npus = [plain_name(gpu.lower()) for gpu in self.gpus]
        cables: list[ReadCable] = []
        groups = self._groups()
        for number, group in enumerate(groups):
            if self._is_switched(group, links):
                for i in group:
                    rate = max(self.counts[i][j] for j in group) * rates[links.key]
                    cables.append(ReadCable.both_ways(npus[i], f"nvswitch{number}", rate, NVLINK_LATENCY // 2))
                continue
            cables += [
                ReadCable.both_ways(npus[i], npus[j], self.counts[i][j] * rates[links.key], NVLINK_LATENCY)
                for i, j in combinations(group, 2)
                if self.counts[i][j]
            ]
        if len(groups) > 1:
            cables += simplified(npus, self._pci_tree(npus, rates["pci"]))
        return cabled(plain_name(name), reached(npus, cables), cables)

    def _pci_tree(self, npus: Sequence[str], rate: float) -> Iterator[ReadCable]:
        """A switch for every group of GPUs whose ways are so short, below the switch of the larger group around it.

        Ways of other names are the longest.
        """
        tops = {name: name for name in npus}
        for level, path in enumerate(PATHS):
            near: nx.Graph[str] = nx.Graph()
            near.add_nodes_from(tops[name] for name in npus)
            for i, j in self.pairs():
                word = self.words[i][j]
                if not self.counts[i][j] and (word in PATHS[: level + 1] or path == PATHS[-1]):
                    near.add_edge(tops[npus[i]], tops[npus[j]])
            for number, group in enumerate(sorted(map(sorted, nx.connected_components(near)))):
                if len(group) > 1:
                    switch = f"{path.lower()}{number}"
                    for top in group:
                        yield ReadCable.both_ways(top, switch, rate, PCI_LATENCY // 2 if top in npus else 0)
                    tops |= {name: switch for name, top in tops.items() if top in group}


def without_escapes(text: str) -> str:
    """A text without the colours of terminals."""
    return TERMINAL_ESCAPES.sub("", text)


def read_tables(source: Source) -> list[GpuTable]:
    """The tables of two GPUs or more, each with a heading of the names of GPUs.

    Raises InputError if a table lacks rows, or there is none.
    """
    tables: list[GpuTable] = []
    title = ""
    for number, line in source.lines:
        words = without_escapes(line).split()
        if len(words) > 1 and GPU.fullmatch(words[0]) and GPU.fullmatch(words[1]):
            tables.append(GpuTable(title, [word for word in words if GPU.fullmatch(word)], [], []))
        elif tables and words[:1] == list(tables[-1].gpus[len(tables[-1].rows) :][:1]):
            table = tables.pop()
            rows = [*table.rows, words[1 : len(table.gpus) + 1]]
            tables.append(table._replace(rows=rows, lines=[*table.lines, number]))
        elif tables and words[:1] and words[0] in tables[-1].gpus and len(words) > len(tables[-1].gpus):
            rule = "rows must be those of the heading, each once and in its order"
            raise source.error(rule, f"line {number}", words[0])
        else:
            title = line.strip("= \t")
    for table in tables or [GpuTable("", (), (), ())]:
        if len(table.gpus) < 2 or len(table.rows) != len(table.gpus):
            rule = "must be a matrix of two GPUs or more, with a row for each"
            raise source.error(rule, "GPUs", len(table.rows))
    return tables


NVLINK = GpuLinks("nvlink", "NVLink", 25.0, most=18)  # data sheets from Volta to Hopper; at most those of Hopper
BLACKWELL_NVLINK = NVLINK._replace(gigabytes=50.0)  # data sheet of Blackwell
BLACKWELL = re.compile(r"NVIDIA (G?B[123]00)\b")  # GPUs of that generation, as ``nvidia-smi -L`` names them
LINK = re.compile(r"NV([1-9][0-9]?)")
XGMI = GpuLinks("xgmi", "XGMI link", 48.0)
MEGABYTES_PER_GIGABYTE = 1000
AMD_TITLES = {"links": r"link type", "hops": r"hops", "rates": r"numa bw|min-max bandwidth"}
FIELDS = {"link_type": "links", "num_hops": "hops", "bandwidth": "rates"}
DIAGONAL = ("SELF", "0", "X", "N/A")
RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


def _is_of_nvidia(source: Source) -> bool:
    head = without_escapes(source.head)
    return bool(re.search(r"^\s*GPU0\b", head, re.MULTILINE)) and "between two GPUs" not in head


def _read_nvidia(sources: Sequence[Source]) -> Part:
    source = only(sources, "topology")
    table, *others = read_tables(source)
    if others:
        raise source.error("must hold one matrix: import the one of each host alone", f"line {others[0].lines[0]}")
    rule = f"must be NV and a number, or one of {', '.join(PATHS)}"
    rows = table.words(source, ("X",), "|".join((LINK.pattern, *PATHS)), rule)
    counts = [[int(match[1]) if (match := LINK.fullmatch(word)) else 0 for word in words] for words in rows]
    links = BLACKWELL_NVLINK if BLACKWELL.search(source.text) else NVLINK
    return Matrix(table.gpus, rows, counts).part(source, "nvidia-smi", links)


NVIDIA = Reader("matrix of `nvidia-smi topo -m`", ("txt", "log"), _is_of_nvidia, _read_nvidia)


def _is_of_amd(source: Source) -> bool:
    head = without_escapes(source.head)
    return "between two GPUs" in head or "LINK TYPE TABLE" in head or bool(re.search(r'"link_type": *"SELF"', head))


def _read_amd(sources: Sequence[Source]) -> Part:
    source = only(sources, "topology")
    tables = _tables_of_json(source) if source.head.lstrip().startswith("[") else _tables(source)
    if (types := tables.get("links")) is None:
        raise source.error("must hold the table of link types", "link type")
    if any(table.gpus != types.gpus for table in tables.values()):
        raise source.error("must name the same GPUs in each table", "GPUs")
    words = {kind: table.words(source, DIAGONAL) for kind, table in tables.items()}
    types.words(source, DIAGONAL, "XGMI|PCIE", "must be XGMI or PCIE")
    unknown = [[""] * len(types.gpus)] * len(types.gpus)
    rows = zip(words["links"], words.get("hops", unknown), words.get("rates", unknown), strict=True)
    counts = [[_links(*pair) for pair in zip(*row, strict=True)] for row in rows]
    matches = (RANGE.fullmatch(word) for row in words.get("rates", unknown) for word in row)
    megabytes = [int(match[1]) for match in matches if match]
    links = XGMI._replace(gigabytes=min(megabytes) / MEGABYTES_PER_GIGABYTE) if megabytes else XGMI
    note = "read and assumed" if megabytes else "assumed"
    return Matrix(types.gpus, words["links"], counts).part(source, "rocm-smi", links, note)


def _links(kind: str, hops: str, rate: str) -> float:
    """XGMI links of a pair: none over several hops, more where the bandwidth of all is that of several."""
    if kind != "XGMI" or (hops.isdecimal() and int(hops) > 1):
        return 0
    match = RANGE.fullmatch(rate)
    return int(match[2]) / int(match[1]) if match else 1


def _tables(source: Source) -> Mapping[str, GpuTable]:
    tables: dict[str, GpuTable] = {}
    for table in read_tables(source):
        for kind, title in AMD_TITLES.items():
            if re.match(title, table.title, re.IGNORECASE):
                if kind in tables:
                    rule = "must hold one matrix: import the one of each host alone"
                    raise source.error(rule, f"line {table.lines[0]}")
                tables[kind] = table
    return tables


def _tables_of_json(source: Source) -> Mapping[str, GpuTable]:
    """The tables of ``amd-smi topology --json``."""
    document = source.document
    rows = document if isinstance(document, list) else []
    links: list[list[Mapping[str, Any]]] = [row.get("links") if isinstance(row, dict) else None for row in rows]  # type: ignore[misc]
    if not links or not all(isinstance(row, list) and all(isinstance(link, dict) for link in row) for row in links):
        raise source.error("must be a list of GPUs with their links", "links")
    gpus = [f"GPU{row.get('gpu', place)}" for place, row in enumerate(rows)]
    places = range(1, len(gpus) + 1)
    return {
        kind: GpuTable(field, gpus, [[str(link.get(field, "")) for link in row] for row in links], places)
        for field, kind in FIELDS.items()
        if field in links[0][-1]
    }


AMD = Reader("output of `rocm-smi --showtopo` or `amd-smi topology`", ("txt", "log", "json"), _is_of_amd, _read_amd)

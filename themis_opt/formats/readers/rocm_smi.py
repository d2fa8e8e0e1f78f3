"""Output of ``rocm-smi --showtopo`` and ``amd-smi topology``: which link lies between every two GPUs of a node.

The table of link types says XGMI or PCIE; pairs that XGMI joins over several hops have no cable.  The table of
bandwidths says the MB/s of one link and of all links of a pair; without it one link of 48 GB/s is assumed, as in RCCL.
Ways through PCI are alike, since hops of PCI are not told apart.
Source: https://github.com/ROCm/amdsmi, ``amdsmi_cli``, CHANGELOG.md; https://github.com/ROCm/rocm_smi_lib.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.formats.readers.gpu_matrix import GpuLinks, GpuTable, Matrix, read_tables, without_escapes
from themis_opt.formats.readers.parts import Part, Reader, only

XGMI = GpuLinks("xgmi", "XGMI link", 48.0)
MEGABYTES_PER_GIGABYTE = 1000
AMD_TITLES = {"links": r"link type", "hops": r"hops", "rates": r"numa bw|min-max bandwidth"}
FIELDS = {"link_type": "links", "num_hops": "hops", "bandwidth": "rates"}
DIAGONAL = ("SELF", "0", "X", "N/A")
LINKS = ("XGMI", "PCIE")
RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


def _recognizes(source: Source) -> bool:
    head = without_escapes(source.head)
    return "between two GPUs" in head or "LINK TYPE TABLE" in head or bool(re.search(r'"link_type": *"SELF"', head))


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "topology")
    tables = _tables_of_json(source) if source.head.lstrip().startswith("[") else _tables(source)
    if "links" not in tables:
        raise source.error("must hold the table of link types", "link type")
    types = tables["links"]
    if any(table.gpus != types.gpus for table in tables.values()):
        raise source.error("must name the same GPUs in each table", "GPUs")
    size = len(types.gpus)
    words = {kind: [table.row(source, place, DIAGONAL) for place in range(size)] for kind, table in tables.items()}
    for place, row in enumerate(words["links"]):
        for column, word in enumerate(row):
            if column != place and word not in LINKS:
                raise source.error("must be XGMI or PCIE", f"line {types.lines[place]}", word)
    unknown = [[""] * size] * size
    rows = zip(words["links"], words.get("hops", unknown), words.get("rates", unknown), strict=True)
    counts = [[_links(*pair) for pair in zip(*row, strict=True)] for row in rows]
    matches = (RANGE.fullmatch(word) for row in words.get("rates", unknown) for word in row)
    megabytes = [int(match[1]) for match in matches if match]
    links = XGMI._replace(gigabytes=min(megabytes) / MEGABYTES_PER_GIGABYTE) if megabytes else XGMI
    note = "read and assumed" if megabytes else "assumed"
    return Matrix(types.gpus, words["links"], counts).part(source, "rocm-smi", links, note)


def _links(kind: str, hops: str, rate: str) -> float:
    """XGMI links of a pair: none over several hops, more where the bandwidth of all is that of several."""
    if kind != "XGMI" or (hops.isdigit() and int(hops) > 1):
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
        kind: GpuTable(field, gpus, [[_text(link.get(field, "")) for link in row] for row in links], places)
        for field, kind in FIELDS.items()
        if field in links[0][-1]
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


READER = Reader("output of `rocm-smi --showtopo` or `amd-smi topology`", ("txt", "log", "json"), _recognizes, _read)

"""Output of ``nvidia-smi topo -m``: which link lies between every two GPUs of a node (:mod:`~.gpu_matrix`).

The matrix says ``NVn`` for n NVLinks, else the way through PCI and CPUs.  The matrix says neither the generation of
links nor the speed of adapters; of the network between nodes nothing is read.
Source: https://docs.nvidia.com/deploy/nvidia-smi, ``topo``; legend of the output itself.
"""

import re
from collections.abc import Sequence

from themis_opt.base.sources import Source
from themis_opt.formats.readers.gpu_matrix import PATHS, GpuLinks, Matrix, read_tables, without_escapes
from themis_opt.formats.readers.parts import Part, Reader, only

NVLINK = GpuLinks("nvlink", "NVLink", 25.0, most=18)  # data sheets from Volta to Hopper; at most those of Hopper
BLACKWELL_NVLINK = NVLINK._replace(gigabytes=50.0)  # data sheet of Blackwell
BLACKWELL = re.compile(r"NVIDIA (G?B[123]00)\b")  # GPUs of that generation, as ``nvidia-smi -L`` names them
LINK = re.compile(r"NV([1-9][0-9]?)")


def _recognizes(source: Source) -> bool:
    head = without_escapes(source.head)
    return bool(re.search(r"^\s*GPU0\b", head, re.MULTILINE)) and "between two GPUs" not in head


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "topology")
    links = BLACKWELL_NVLINK if BLACKWELL.search(source.text) else NVLINK
    return _matrix(source).part(source, "nvidia-smi", links)


def _matrix(source: Source) -> Matrix:
    table, *others = read_tables(source)
    if others:
        raise source.error("must hold one matrix: import the one of each host alone", f"line {others[0].lines[0]}")
    size = len(table.gpus)
    rows = [table.row(source, place, ("X",)) for place in range(size)]
    for place, words in enumerate(rows):
        for column, word in enumerate(words):
            if column != place and word not in PATHS and not LINK.fullmatch(word):
                rule = f"must be NV and a number, or one of {', '.join(PATHS)}"
                raise source.error(rule, f"line {table.lines[place]}", word)
    counts = [[int(match[1]) if (match := LINK.fullmatch(word)) else 0 for word in words] for words in rows]
    return Matrix(table.gpus, rows, counts)


READER = Reader("matrix of `nvidia-smi topo -m`", ("txt", "log"), _recognizes, _read)

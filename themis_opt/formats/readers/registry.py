"""Every format that is read as an instance, by name; what files of several tools say becomes one instance."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.registries import Registry
from themis_opt.base.sources import HEAD_BYTES, Source
from themis_opt.formats.readers.parts import Part, Reader, Request, assemble, assemble_graph
from themis_opt.graphs.problem import GraphInstance
from themis_opt.problem import catalog
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance

OWN_FORMAT = "json"
FOREIGN = (
    (rb"avg_forward_compute_time", "is a log of DistributedDataParallel: import a trace of the PyTorch profiler"),
    (rb'(?s)"schema".*"nodes"', "is an execution trace of PyTorch: import the profiler's trace of the same run"),
    (rb'"pg_config"', "is a flight recorder of PyTorch: 'compare NETWORK --measured FILE' reads it"),
    (rb"\A\x80", "is a pickle: write a flight recorder as JSON, which 'compare NETWORK --measured FILE' reads"),
    (
        rb'"workload_graph"|"(COMP|COMM_COLL|COMM_SEND|COMM_RECV)_NODE"|"ctrl_?[dD]eps"',
        "is a Chakra trace as JSON: import the .et files of the same run",
    ),
    (
        rb'\ASQLite format 3|"(Cuda|Nvtx|TraceProcess)Event"',
        "is an export of Nsight Systems, without the sizes of collectives: import a trace of the PyTorch profiler",
    ),
)
"""Files of other tools that are no problem, by what stands in their heads, and what to do with them."""

READERS = Registry(
    "themis_opt.readers",
    {
        OWN_FORMAT: "themis_opt.problem.catalog:read_instance",
        "infragraph": "themis_opt.formats.readers.infragraph:READER",
        "astra-sim-network": "themis_opt.formats.readers.astra_sim_network:READER",
        "astra-sim-system": "themis_opt.formats.readers.astra_sim_system:READER",
        "astra-sim-groups": "themis_opt.formats.readers.chakra_trace:GROUPS",
        "nccl-tests": "themis_opt.formats.readers.nccl_tests:READER",
        "nccl-inspector": "themis_opt.formats.readers.nccl_inspector:READER",
        "nccl-topology": "themis_opt.formats.readers.nccl_topology:READER",
        "graphml": "themis_opt.formats.readers.graph_files:GRAPHML",
        "node-link": "themis_opt.formats.readers.graph_files:NODE_LINK",
        "rocm-smi": "themis_opt.formats.readers.gpu_matrix:AMD",
        "nvidia-smi": "themis_opt.formats.readers.gpu_matrix:NVIDIA",
        "pytorch-shapes": "themis_opt.formats.readers.models:LISTING",
        "hugging-face": "themis_opt.formats.readers.models:HUGGING_FACE",
        "pytorch-trace": "themis_opt.formats.readers.traced_step:READER",
        "chakra": "themis_opt.formats.readers.chakra_trace:READER",
        "aicb": "themis_opt.formats.readers.aicb:READER",
        "fjsp": "themis_opt.formats.job_shop:READER",
    },
)
"""Formats by name: a :class:`~themis_opt.formats.readers.parts.Reader`, or a function from a path to an instance, for
files whose names end like that of the format.  A file that no reader recognizes is read as a document."""


def load(source: str | Path) -> Instance:
    """Read an instance from a file, or a shipped one by its name, or make the random one of ``random:SEED``.

    Raises InputError if there is no such instance, or it breaks a rule; the message names file, field, value and rule.
    """
    if catalog.is_random(source):
        return catalog.load(source)
    _, reader, path = _recognized(source)
    if not isinstance(reader, Reader):
        return reader(path)
    part = _part(reader, [Source(path)])
    if part.graph:
        raise InputError("is a graph: 'themis-opt import' makes a document of it", source=str(path))
    return assemble([part])[0]


_Tables = Mapping[str, Sequence[Mapping[str, str]]]


@dataclass(frozen=True)
class Import:
    """An instance put together from files.

    `files`: what was read: each file with its format.
    `sentences`: what the files say of the problem that they make.
    `notes`: how units were read, and what was assumed or left out.
    `tables`: what the files hold beside the problem, as rows by the title of their table.
    """

    instance: Instance | GraphInstance
    files: list[dict[str, str]]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    tables: _Tables

    def summary(self) -> dict[str, Any]:
        """Everything, as values for JSON."""
        document = self.instance.model_dump(mode="json", exclude_unset=True)
        tables = {title: [dict(row) for row in rows] for title, rows in self.tables.items()}
        return {"formats": self.files, "notes": list(self.notes), "tables": tables, "instance": document}


def import_files(files: Sequence[str | Path], *, request: Request | None = None) -> Import:
    """Put an instance together from files: a network, what else they say of the machine, and what runs on it.

    Raises InputError if a file breaks a rule of its format, or the files are no whole problem together.

    `files`: files of other tools, or documents, of which only the network counts beside others; ``FORMAT:FILE`` where
      the format is not to be recognized.
    `request`: what is exchanged, where no file says it; an all-reduce of 100 MB if not given.
    """
    readers: dict[str, tuple[_Entry, list[Path]]] = {}
    file_formats: list[dict[str, str]] = []
    for file in files:
        name, reader, path = _recognized(file)
        readers.setdefault(name, (reader, []))[1].append(path)
        file_formats.append({"file": str(file), "format": name})
    parts = [part for reader, paths in readers.values() for part in _parts(reader, paths, alone=len(readers) == 1)]
    rates = request.bandwidths if request else {}
    if rates and not any(part.graph or part.open_network for part in parts):
        rule = "is for graphs, and networks whose files leave bandwidths open"
        raise InputError(rule, field="--bandwidths", value=", ".join(rates))
    parts = [replace(part, network=part.open_network(rates)) if part.open_network else part for part in parts]
    needs_request = not any(part.workload for part in parts)
    stated = None if rates and request == Request(bandwidths=rates) else request
    instance: Instance | GraphInstance
    if any(part.graph for part in parts):
        instance, notes, judged = (*assemble_graph(parts, request or Request()), [])
    else:
        instance, notes = assemble(parts, stated or (Request() if needs_request else None))
        judged = [part.judge(instance) for part in parts if part.judge]
    tables = [*(part.tables for part in parts), *(more for _, more in judged)]
    return Import(
        instance=instance,
        files=file_formats,
        sentences=tuple(sentence for sentences, _ in judged for sentence in sentences),
        notes=notes,
        tables={title: rows for by_title in tables for title, rows in by_title.items()},
    )


_Entry = Reader | Callable[[Path], Instance]


def _recognized(file: str | Path) -> tuple[str, _Entry, Path]:
    """The format of a file, its reader, which is that of documents where no other recognizes it, and where it is."""
    form, colon, rest = str(file).partition(":")
    if colon and form in READERS:
        return form, READERS.load(form), Path(rest)
    path = catalog.locate(file)
    source = Source(path)
    if _is_own(source):
        return OWN_FORMAT, catalog.read_instance, path
    for name in READERS:
        if name != OWN_FORMAT:
            reader, ending = READERS.load(name), source.ending
            if not isinstance(reader, Reader):
                is_recognized = ending == name
            else:
                is_recognized = ending in (reader.endings or (ending,)) and reader.recognizes(source)
            if is_recognized:
                return name, reader, path
    for mark, rule in FOREIGN:
        if re.search(mark, source.data[:HEAD_BYTES]):
            raise source.error(rule)
    if not source.head.lstrip().startswith("{"):
        rule = "is of no format that is known: 'themis-opt list formats' names them, FORMAT:FILE chooses one"
        raise source.error(rule)
    return OWN_FORMAT, catalog.read_instance, path


def _is_own(source: Source) -> bool:
    try:
        return '"themis-opt/' in source.head
    except InputError:  # what cannot be read is refused by the reader of documents
        return True


def _part(reader: Reader, sources: Sequence[Source]) -> Part:
    names = ", ".join(str(source) for source in sources)
    try:
        return replace(reader.read(sources), source=names)
    except ModelError as error:  # a number of the file that the reader takes and the model does not
        raise error.within(names) from None


def _parts(reader: _Entry, paths: Sequence[Path], *, alone: bool) -> list[Part]:
    """The parts in files of one format: of documents all of it if there is one, else the network."""
    if isinstance(reader, Reader):
        return [_part(reader, [Source(path) for path in paths])]
    instances = [(reader(path), str(path)) for path in paths]
    if alone and len(instances) == 1:
        return [Part(workload=lambda _: instances[0][0], source=instances[0][1])]
    return [
        Part(network=one.network, change=partial(replace, latency=one.latency), source=source)
        for one, source in instances
    ]


def is_trace(file: str | Path) -> bool:
    """Whether a file is a trace of the PyTorch profiler."""
    return _recognized(file)[0] == "pytorch-trace"

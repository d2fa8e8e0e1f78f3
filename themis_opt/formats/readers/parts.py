"""Problems put together from files of other tools: each file says a part, such as the network or what runs on it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.problem.cost import check_clock
from themis_opt.problem.documents import INSTANCE_FORMAT, errors_of
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network

EACH_WHEN_READY = "wait_free/baseline"
NEWEST_FIRST = "wait_free:order=newest/baseline"


@dataclass(frozen=True)
class Machine:
    """Where a workload runs: the network, and what else files say of it."""

    network: Network
    chunks: int = 64
    latency: Literal["lag", "occupy"] = "lag"  # the rule of the instance
    flops: float | None = None  # operations per second and NPU
    memory_bandwidth: float | None = None  # bytes per second and NPU
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # NPUs of the communicators that have names
    launching: str = EACH_WHEN_READY  # the policy that stands for the tool

    def problem(self, name: str, **content: Any) -> Instance:
        """What runs here, as fields of an instance."""
        return Instance(format=INSTANCE_FORMAT, name=name, network=self.network, latency=self.latency, **content)


@dataclass(frozen=True)
class Part:
    """The part of a problem that the files of one format describe.

    `graph`: the network where it is no product of dimensions, from bandwidths of links that files leave out.
    `open_network`: the network from bandwidths of dimensions, where files leave them out.
    `change`: adds to a machine what the files say of it.
    `workload`: makes the problem on a machine; on None, where no file describes one, it must bring one or refuse.
    `notes`: how units were read, and what was assumed or left out: one sentence each.
    `tables`: what the files hold beside the problem: rows by the title of their table.
    `finish`: the problem that all files together make, as this one changes it, and notes that depend on it.
    `judge`: sentences and more tables, from the problem that all files together make.
    `source`: the files, for errors.
    """

    network: Network | None = None
    graph: Callable[[Mapping[str, float]], GraphNetwork] | None = None
    open_network: Callable[[Mapping[str, float]], Network] | None = None
    change: Callable[[Machine], Machine] | None = None
    workload: Callable[[Machine | None], Instance] | None = None
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    finish: Callable[[Instance], tuple[Instance, tuple[str, ...]]] | None = None
    judge: Callable[[Instance], tuple[tuple[str, ...], Mapping[str, Sequence[Mapping[str, str]]]]] | None = None
    source: str = ""


class Reader(NamedTuple):
    """A format that is read.

    `meaning`: what the files are, in some words.
    `endings`: endings of their names, without that of gzip; any name where there is none.
    `recognizes`: whether a file with such an ending is of this format; looks at what distinguishes it, not at every
      rule.
    `read`: what files of this format say, all of them together.
    """

    meaning: str
    endings: tuple[str, ...]
    recognizes: Callable[[Source], bool]
    read: Callable[[Sequence[Source]], Part]


@dataclass(frozen=True)
class Request:
    """The collective where files describe a network alone; as many chunks as files say, if not given.

    `bandwidths`: bytes per second of links by name, where a graph leaves them out.
    """

    kind: str = "all_reduce"
    size: str | int = "100 MB"
    chunks: int | None = None
    bandwidths: Mapping[str, float] = field(default_factory=dict)


def only(sources: Sequence[Source], what: str) -> Source:
    """The one file of a format of which a problem has one. Raises InputError if there are more."""
    if len(sources) > 1:
        raise sources[1].error(f"a problem has one {what}, and {sources[0]} is one already")
    return sources[0]


def assemble(parts: Sequence[Part], request: Request | None = None) -> tuple[Instance, tuple[str, ...]]:
    """The problem that parts describe together, and their notes.

    Raises InputError if a part is missing or stands twice, or the parts do not fit together.

    `request`: what is exchanged where no part says it.
    """
    workloads = [(part.workload, part.source) for part in parts if part.workload]
    if len(workloads) > 1:
        raise InputError(f"says what is exchanged, and {workloads[0][1]} does so already", source=workloads[1][1])
    notes = [note for part in parts for note in part.notes]
    try:
        machine = _machine(parts)
        if not workloads:
            instance = _requested(machine, request, parts)
        else:
            make, source = workloads[0]
            if request is not None:
                raise InputError("says what is exchanged: leave out --collective and --size", source=source)
            instance = make(machine)
        for part in parts:
            if part.finish:
                instance, more = part.finish(instance)
                notes.extend(more)
        check_clock(instance)
    except ModelError as error:
        raise error.within(_names(parts)) from None
    if notes:
        instance = instance.replace(description=" ".join([instance.description, *notes]).strip())
    return instance, tuple(notes)


def assemble_graph(parts: Sequence[Part], request: Request) -> tuple[GraphInstance, tuple[str, ...]]:
    """The problem on a graph that a part describes, and its notes.

    Raises InputError if it stands beside other files, or the graph breaks a rule.
    """
    make, part = next((part.graph, part) for part in parts if part.graph)
    if len(parts) > 1:
        raise InputError("is a graph, which stands alone", source=part.source)
    if request.chunks is not None:
        raise InputError("is not for graphs, whose chunks are chosen", field="--chunks", value=request.chunks)
    with errors_of(part.source):
        network = make(request.bandwidths)
        about = {"name": f"{network.name or 'graph'} {request.kind}", "description": " ".join(part.notes)}
        what = {"network": network, "collectives": [{"kind": request.kind, "size": request.size}]}
        return GraphInstance.model_validate(about | what), part.notes


def _names(parts: Sequence[Part]) -> str:
    return " + ".join(part.source for part in parts)


def _machine(parts: Sequence[Part]) -> Machine | None:
    """The machine that networks and changes describe; None where no part does."""
    networks = [(part.network, part.source) for part in parts if part.network]
    changes = [(part.change, part.source) for part in parts if part.change]
    if len(networks) > 1:
        raise InputError(f"is a network, and {networks[0][1]} is one already", source=networks[1][1])
    if not networks and changes:
        raise InputError("describes no network: name its file too", source=changes[0][1])
    if not networks:
        return None
    machine = Machine(networks[0][0])
    for change, _ in changes:
        machine = change(machine)
    return machine


def _requested(machine: Machine | None, request: Request | None, parts: Sequence[Part]) -> Instance:
    if machine is None or request is None:
        rule = "is no whole problem: 'themis-opt import' puts one together from a network and what is exchanged on it"
        raise InputError(rule, source=_names(parts))
    collective = Collective(kind=request.kind, size=request.size, chunks=request.chunks or machine.chunks)
    return machine.problem(f"{machine.network.name or 'network'} {collective.kind}", collectives=(collective,))


def extents(network: Network, ranks: Sequence[int]) -> dict[str, int]:
    """NPUs of a group along each dimension in which some differ; none where it lacks NPUs with coordinates of others.

    NPU a0 + a1 P0 + a2 P0 P1 has coordinate a0 in the innermost dimension, and so on.
    """
    members = sorted(set(ranks))
    if not members or members[-1] >= network.num_npus or members[0] < 0:
        return {}
    sizes = network.sizes
    counts = [len({rank // math.prod(sizes[:k]) % size for rank in members}) for k, size in enumerate(sizes)]
    along = {name: count for name, count in zip(network.dimension_names, counts, strict=True) if count > 1}
    return along if math.prod(counts) == len(members) else {}


def dimensions_of(network: Network, ranks: Sequence[int]) -> tuple[str, ...] | None:
    """Names of the dimensions that a group of NPUs fills; None where it fills none, or one in part."""
    along, sizes = extents(network, ranks), dict(zip(network.dimension_names, network.sizes, strict=True))
    return tuple(along) if along and all(count == sizes[name] for name, count in along.items()) else None


def dimensions_by_size(npus: int, network: Network) -> tuple[str, ...] | None:
    """The only dimensions, next to each other, that have so many NPUs."""
    sizes, names = network.sizes, network.dimension_names
    candidates = [
        names[start:end]
        for start in range(len(sizes))
        for end in range(start + 1, len(sizes) + 1)
        if math.prod(sizes[start:end]) == npus
    ]
    return candidates[0] if len(candidates) == 1 else None

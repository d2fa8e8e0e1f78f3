"""Chakra execution traces as a training iteration; traces of equal NPUs are folded into one.

Attributes as ASTRA-sim 2 reads them: ``comm_type``, ``comm_size`` (bytes that an NPU puts in: an all-gather makes P
times as many), ``pg_name`` (the communicator: empty or 0 for all NPUs) or ``involved_dim`` (one flag per dimension),
``num_ops`` and ``tensor_size`` of compute that has no duration.
Source: https://github.com/astra-sim/astra-sim, ``astra-sim/workload/Workload.cc``.

Compute runs in an order that obeys the dependencies, smaller ids first.  A collective is ready after the last compute
that it waits for, and needed before the first that waits for it; it comes after those whose data it needs.  That
collectives merely follow each other, as in a stream, is left to the policy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND, PICOSECONDS_PER_SECOND
from themis_opt.formats.chakra import CommType, Node, NodeType, read_trace
from themis_opt.formats.readers.draft import LAUNCHED_SO, NOTHING, Draft, needs_network
from themis_opt.formats.readers.parts import Machine, Part, Reader, dimensions_of, only
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind

CHAKRA_KINDS: Mapping[CommType, CollectiveKind] = {
    **{CommType[kind.name]: kind for kind in CollectiveKind if kind is not CollectiveKind.SEND},
    CommType.REDUCE_SCATTER_BLOCK: CollectiveKind.REDUCE_SCATTER,
}
COMPUTE_NODES = (NodeType.COMP, NodeType.MEM_LOAD, NodeType.MEM_STORE)
COMPARED = ("type", "data_deps", "ctrl_deps", "duration_micros")
ATTRIBUTES = ("comm_type", "comm_size", "involved_dim", "num_ops", "tensor_size")
"""Fields that must be equal for NPUs to be equal; communicators may have different names."""


def _read(sources: Sequence[Source]) -> Part:
    ranks = sorted(((_rank(source), source) for source in sources), key=lambda pair: pair[0])
    first, *others = [(rank, source, _checked(source)) for rank, source in ranks]
    for rank, source, nodes in others:
        _compare(first, (rank, source, nodes))
    groups = [
        (rank, source, [str(node.attributes.get("pg_name", "")) for node in nodes.values()])
        for rank, source, nodes in (first, *others)
    ]

    def build(machine: Machine | None) -> Instance:
        source, nodes = first[1], first[2]
        checked = needs_network(source, machine)
        spans = [_spans(source, nodes, checked, rank, names) for rank, source, names in groups]
        for (_, source, _), span in zip(groups, spans, strict=True):
            for number in nodes:
                if span[number] != spans[0][number]:
                    rule = f"spans other dimensions than on rank {groups[0][0]}"
                    raise source.error(rule, f"nodes[{number}]", span[number])
        return _built(source, nodes, spans[0], checked)

    folded = f"{len(sources)} equal NPUs are folded into one; " if others else ""
    note = f"Chakra: {folded}an all-gather gathers its size from each NPU; collectives of one stream may be reordered."
    computes = any(node.type in COMPUTE_NODES for node in first[2].values())
    return Part(workload=build, notes=(note, *([LAUNCHED_SO] if computes else [])))


def _rank(source: Source) -> int:
    """The NPU of a file named ``prefix.RANK.et``; 0 where it does not say."""
    parts = source.path.name.removesuffix(".gz").split(".")
    number = parts[-2] if len(parts) > 2 else "0"
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def _checked(source: Source) -> dict[int, Node]:
    """The nodes by their place in the file, which also stands for their ids: these differ between NPUs.

    All of them are ones that a problem can have, and wait for nodes that there are.
    """
    trace = read_trace(source.path)
    if not trace:
        raise source.error("has no nodes")
    places = {node.id: place for place, node in enumerate(trace)}
    nodes: dict[int, Node] = {}
    for place, node in enumerate(trace):
        if places[node.id] != place:
            raise source.error("stands twice", "id", node.id)
        for dep in (*node.data_deps, *node.ctrl_deps):
            if dep not in places:
                raise source.error("waits for a node that there is not", f"nodes[{place}]", dep)
        deps = [tuple(sorted(places[dep] for dep in given)) for given in (node.data_deps, node.ctrl_deps)]
        nodes[place] = replace(node, id=place, data_deps=deps[0], ctrl_deps=deps[1])
        _check_type(source, nodes[place])
    return nodes


def _check_type(source: Source, node: Node) -> None:
    field = f"nodes[{node.id}]"
    if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
        raise source.error("sends between two NPUs, as pipelines do, are not collectives", field, node.name)
    if node.type not in (*COMPUTE_NODES, NodeType.METADATA, NodeType.COMM_COLL):
        raise source.error(f"nodes of type {node.type.name} are not part of a problem", field, node.name)
    if node.type is NodeType.COMM_COLL:
        _kind(source, node)
        source.whole(node.attributes.get("comm_size"), f"{field}.comm_size")


def _kind(source: Source, node: Node) -> CollectiveKind:
    number = node.attributes.get("comm_type")
    field = f"nodes[{node.id}].comm_type"
    if not isinstance(number, int) or isinstance(number, bool) or number not in list(CommType):
        raise source.error("must be the number of a collective, 0 to 9", field, number)
    kind = CommType(number)
    if kind not in CHAKRA_KINDS:
        raise source.error(f"{kind.name.lower()} is not among the collectives here", field, number)
    return CHAKRA_KINDS[kind]


def _compare(first: tuple[int, Source, Mapping[int, Node]], other: tuple[int, Source, Mapping[int, Node]]) -> None:
    """Refuse an NPU that differs from the first one, with the difference."""
    (rank, _, expected), (own_rank, source, nodes) = first, other
    if own_rank == rank:
        raise source.error(f"is rank {rank} once more; files are named prefix.RANK.et")
    if len(nodes) != len(expected):
        raise source.error(f"rank {own_rank} differs from rank {rank}, which has {len(expected)}", "nodes", len(nodes))
    for number, node in nodes.items():
        for name in (*COMPARED, *ATTRIBUTES):
            values = [
                getattr(n, name) if name in COMPARED else n.attributes.get(name) for n in (node, expected[number])
            ]
            if values[0] != values[1]:
                rule = f"rank {own_rank} differs from rank {rank}, where it is {values[1]!r}"
                raise source.error(rule, f"nodes[{number}].{name}", values[0])


def _spans(
    source: Source, nodes: Mapping[int, Node], machine: Machine, rank: int, names: Sequence[str]
) -> dict[int, tuple[str, ...] | None]:
    cache: dict[str, tuple[str, ...] | None] = {}
    spans: dict[int, tuple[str, ...] | None] = {}
    for node, name in zip(nodes.values(), names, strict=True):
        spans[node.id] = None
        if node.type is not NodeType.COMM_COLL:
            continue
        flags = node.attributes.get("involved_dim")
        if name not in ("", "0"):
            if name not in cache:
                cache[name] = _group(source, node, machine, rank, name)
            spans[node.id] = cache[name]
        elif isinstance(flags, tuple):
            chosen = zip(machine.network.dimension_names, flags, strict=False)
            spans[node.id] = tuple(dimension for dimension, flag in chosen if flag)
    return spans


def _group(source: Source, node: Node, machine: Machine, rank: int, name: str) -> tuple[str, ...]:
    field = f"nodes[{node.id}].pg_name"
    if name not in machine.groups:
        raise source.error("names no known communicator: name the file of the groups too", field, name)
    members = machine.groups[name]
    if rank not in members:
        raise source.error(f"the communicator does not hold rank {rank}", field, name)
    if len(members) == 1:
        return ()
    dimensions = dimensions_of(machine.network, members)
    if dimensions is None:
        shape = " x ".join(map(str, machine.network.sizes))
        raise source.error(f"its {len(members)} NPUs fill no dimensions of the network of {shape}", field, name)
    return dimensions


def _order(source: Source, nodes: Mapping[int, Node]) -> list[Node]:
    """All nodes in an order that obeys dependencies, smaller ids first."""
    waits: nx.DiGraph[int] = nx.DiGraph()
    waits.add_nodes_from(nodes)
    waits.add_edges_from((dep, number) for number, node in nodes.items() for dep in {*node.data_deps, *node.ctrl_deps})
    order: list[Node] = []
    try:
        order.extend(nodes[number] for number in nx.lexicographical_topological_sort(waits))
    except nx.NetworkXUnfeasible:
        circle = min(waits.subgraph(nodes.keys() - {node.id for node in order}))
        raise source.error("waits for itself in a circle", f"nodes[{circle}]") from None
    return order


def _built(
    source: Source, nodes: Mapping[int, Node], spans: Mapping[int, tuple[str, ...] | None], machine: Machine
) -> Instance:
    name = f"{machine.network.name or 'network'} {source.path.name.partition('.')[0]}"
    order = _order(source, nodes)
    build = _TraceBuild(source, nodes, spans, machine)
    if not any(node.type in COMPUTE_NODES for node in order):
        return build.alone(order, name)
    return build.run(order).instance(name, machine, launching=machine.launching)


def _size(node: Node, machine: Machine, span: tuple[str, ...] | None) -> int:
    size = int(str(node.attributes["comm_size"]))
    if node.attributes["comm_type"] == CommType.ALL_GATHER:
        sizes = dict(zip(machine.network.dimension_names, machine.network.sizes, strict=True))
        for dimension in sizes if span is None else span:
            size *= sizes[dimension]
    return size


class _TraceBuild:
    """The problem of a trace.

    For each node, `_ready` is the number of the last task before its result, and `_open` the collectives that whoever
    waits for the node waits for.  For each collective, `_after` are those that it comes after, and `_needed` is the
    first task that needs it, if there is one.
    """

    def __init__(
        self, source: Source, nodes: Mapping[int, Node], spans: Mapping[int, tuple[str, ...] | None], machine: Machine
    ) -> None:
        self.draft = Draft(source)
        self._source, self._nodes, self._spans, self._machine = source, nodes, spans, machine
        self._ready: dict[int, int] = {}
        self._open: dict[int, frozenset[int]] = {}
        self._after: dict[int, tuple[int, ...]] = {}
        self._needed: dict[int, int] = {}

    def alone(self, order: Sequence[Node], name: str) -> Instance:
        """The collectives of a trace without compute."""
        machine, collectives = self._machine, []
        for node in order:
            span = self._spans[node.id]
            if node.type is not NodeType.COMM_COLL or span == () or not node.attributes["comm_size"]:
                continue
            if any(self._nodes[dep].type is NodeType.COMM_COLL for dep in node.data_deps):
                rule = "collectives that need the data of others, without compute between, are no problem here"
                raise self._source.error(rule, f"nodes[{node.id}]", node.name)
            what: dict[str, Any] = {"kind": _kind(self._source, node), "size": _size(node, machine, span)}
            what |= {"name": self.draft.unique(node.name), "chunks": machine.chunks, "element_bytes": 1}
            collectives.append(Collective(**what, **({"dimensions": span} if span else {})))
        if not collectives:
            raise self._source.error(NOTHING)
        return machine.problem(name, collectives=tuple(collectives))

    def run(self, order: Sequence[Node]) -> Draft:
        if order[0].type not in COMPUTE_NODES:
            self.draft.task("start", 0)
        for node in order:
            self._add(node)
        names: dict[int, str] = {}
        for number, after in self._after.items():
            names[number] = self._exchange(self._nodes[number], tuple(names[dep] for dep in after if names[dep]))
        return self.draft

    def _add(self, node: Node) -> None:
        """Follow one node: it waits for tasks, and collectives that are under way."""
        deps = {*node.data_deps, *node.ctrl_deps}
        ready = max((self._ready[dep] for dep in deps), default=0)
        if node.type in COMPUTE_NODES:
            self._ready[node.id], self._open[node.id] = self._task(node, self._awaited(deps)), frozenset()
        elif node.type is NodeType.METADATA:
            self._ready[node.id], self._open[node.id] = ready, self._awaited(deps)
        else:
            self._after[node.id] = tuple(sorted(self._awaited(node.data_deps)))
            self._ready[node.id], self._open[node.id] = ready, frozenset((node.id,))

    def _awaited(self, deps: Iterable[int]) -> frozenset[int]:
        return frozenset().union(*(self._open[dep] for dep in deps))

    def _task(self, node: Node, awaited: frozenset[int]) -> int:
        """Add a task that needs the results of some collectives; returns its number."""
        self.draft.task(node.name or f"node {node.id}", self._time(node))
        number = len(self.draft.tasks) - 1
        for collective in awaited:
            self._needed.setdefault(collective, number)
        return number

    def _exchange(self, node: Node, after: tuple[str, ...]) -> str:
        """Add the tensor of a collective; one that the very next task waits for is taken for model parallelism."""
        span, ready, needed = self._spans[node.id], self._ready[node.id], self._needed.get(node.id, 0)
        return self.draft.tensor(
            node.name or f"node {node.id}",
            _kind(self._source, node),
            _size(node, self._machine, span),
            (self.draft.tasks[ready].name, self.draft.tasks[needed].name),
            span,
            later=node.id not in self._needed,
            after=after,
            parallelism="model" if needed == ready + 1 else "data",
        )

    def _time(self, node: Node) -> int:
        """Picoseconds: the duration, or what operations take at the rates of the machine."""
        operations = node.attributes.get("num_ops", 0)
        if node.duration_micros or not operations:
            return node.duration_micros * PICOSECONDS_PER_MICROSECOND
        field = f"nodes[{node.id}].num_ops"
        count = self._source.number(operations, field, most=1e30)
        if self._machine.flops is None:
            raise self._source.error("has no duration: name a system file with peak-perf too", field, operations)
        seconds = count / self._machine.flops
        moved = self._source.number(node.attributes.get("tensor_size", 0), f"nodes[{node.id}].tensor_size", most=1e30)
        if self._machine.memory_bandwidth:
            seconds = max(seconds, moved / self._machine.memory_bandwidth)
        return round(seconds * PICOSECONDS_PER_SECOND)


def _read_groups(sources: Sequence[Source]) -> Part:
    """NPUs of communicators, by the number of the group."""
    source = only(sources, "file of groups")
    groups: dict[str, tuple[int, ...]] = {}
    for name, members in source.json_object().items():
        if not isinstance(members, list) or not members:
            raise source.error("must be a list of NPUs", name, members)
        groups[name] = tuple(source.whole(npu, f"{name}[{k}]") for k, npu in enumerate(members))
        if len(set(groups[name])) < len(members):
            raise source.error("names an NPU twice", name)
    return Part(change=lambda machine: replace(machine, groups=groups))


READER = Reader("execution traces of Chakra, one per NPU", ("et",), lambda source: True, _read)
GROUPS = Reader(
    "communicator groups of ASTRA-sim 2",
    ("json",),
    lambda source: bool(source.keys()) and all(map(str.isdigit, source.keys())),
    _read_groups,
)

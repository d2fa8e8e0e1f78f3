"""Text workloads of ASTRA-sim 1, and the dialect of SimAI: one layer a line, with three passes and their collectives.

The first line is a keyword, which says what NPUs share, perhaps with arguments; the second the number of layers; then
twelve words per layer: name, -1, and time (nanoseconds), collective and bytes of the forward pass, of the input
gradient and of the weight gradient, and the time of the weight update.

A forward pass waits for the weight gradient of its layer, of the iteration before; its collective blocks.  Where
weights are copied, the backward pass of a layer is weight gradient, then input gradient; else it is input gradient,
whose collective blocks before the weight gradient in transformers, and after it elsewhere.  Recomputation repeats
forward passes from the checkpoint before a layer.
Sources: https://github.com/astra-sim/astra-sim, branch ASTRA-sim-1.0, ``astra-sim/workload/Workload.cc``;
https://github.com/aliyun/SimAI, ``example/``.

Sizes are what an NPU puts in: an all-gather of ASTRA-sim makes P times as many bytes, one of SimAI as many.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from themis_opt.base.sources import Source
from themis_opt.formats.readers.draft import LAUNCHED_SO, Draft, needs_network
from themis_opt.formats.readers.parts import EACH_WHEN_READY, Machine, Part, Reader, only
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import MAX_TASKS, Split
from themis_opt.problem.network import Network
from themis_opt.problem.phases import CollectiveKind

PASS_KINDS: Mapping[str, CollectiveKind | None] = {
    "NONE": None,
    "ALLREDUCE": CollectiveKind.ALL_REDUCE,
    "ALLGATHER": CollectiveKind.ALL_GATHER,
    "REDUCESCATTER": CollectiveKind.REDUCE_SCATTER,
    "ALLTOALL": CollectiveKind.ALL_TO_ALL,
    "BROADCAST": CollectiveKind.BROADCAST,
}
Scope = Literal["none", "all", "first", "rest", "inside", "across", "experts", "copies of experts"]
"""Dimensions of a collective: the innermost one or the others, a model-parallel group or those across its copies."""


class Keyword(NamedTuple):
    """A first word: dimensions of forward pass and input gradient, of the weight gradient, and the loop."""

    activations: Scope
    weights: Scope
    loop: Literal["copied", "shared", "inference", "alone"] = "shared"


KEYWORDS: Mapping[str, Keyword] = {
    "DATA": Keyword("none", "all", "copied"),
    "MICRO": Keyword("none", "all", "alone"),
    "MODEL": Keyword("all", "none"),
    "DISTRIBUTED_INFERENCE": Keyword("all", "none", "inference"),
    "HYBRID_DLRM": Keyword("none", "all", "copied"),
    "HYBRID_DLRM_ENHANCED": Keyword("none", "all", "copied"),
    "HYBRID_DATA_MODEL": Keyword("first", "rest"),
    "HYBRID_MODEL_DATA": Keyword("rest", "first"),
    "HYBRID_TRANSFORMER": Keyword("inside", "across"),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": Keyword("inside", "across"),
    "HYBRID_CUSTOMIZED": Keyword("none", "none"),
}
PASS_TABLES = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
GROUPED = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")
SCOPE_SUFFIXES: Mapping[str, Scope] = {"_DP_EP": "copies of experts", "_EP": "experts"}
"""Groups of SimAI, by the end of the name of a collective."""

GROUP = "model_parallel_NPU_group"
LISTS = ("checkpoints", "checkpoint_initiates")
SIMAI = ("ep", "pp", "vpp", "ga", "all_gpus", "pp_comm")
SIMAI_LAYERS = ("grad_gather", "grad_norm")  # at the head of files whose first line does not tell


class Pass(NamedTuple):
    """Time in the unit of the file, and the collective after it."""

    time: int
    kind: CollectiveKind | None
    size: int
    scope: Scope


@dataclass(frozen=True)
class WorkloadLayer:
    """One line."""

    name: str
    forward: Pass
    inputs: Pass
    weights: Pass
    update: int


@dataclass(frozen=True)
class TextWorkload:
    """A file: keyword, its arguments, layers."""

    keyword: str
    layers: tuple[WorkloadLayer, ...]
    last_bottom: int = 0
    group: int = 1
    experts: int = 1
    lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    simai: bool = False


def _recognizes(source: Source) -> bool:
    lines = source.head.split("\n", 2)
    first = lines[0].split()
    return bool(first) and first[0] in KEYWORDS and len(lines) > 1 and lines[1].strip().isdigit()


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "workload")
    workload, notes = _parsed(source)
    return Part(workload=lambda machine: _built(source, workload, needs_network(source, machine)), notes=tuple(notes))


def _parsed(source: Source) -> tuple[TextWorkload, list[str]]:
    lines = source.lines
    if len(lines) < 3:
        raise source.error("must have a line with a keyword, one with the number of layers, and one for each layer")
    keyword, *words = lines[0][1].split()
    source.choice(keyword, KEYWORDS, "line 1")
    arguments = _arguments(source, keyword, words)
    count = _whole(source, lines[1][1].strip(), "line 2", most=MAX_TASKS)
    if len(lines) - 2 != count:
        raise source.error(f"must be the number of layers that follow, {len(lines) - 2}", f"line {lines[1][0]}", count)
    layers = tuple(layer_of(source, keyword, number, line.split()) for number, line in lines[2:])
    simai = any(name in arguments for name in SIMAI) or any(layer.name in SIMAI_LAYERS for layer in layers)
    workload = TextWorkload(
        keyword=keyword,
        layers=layers,
        last_bottom=arguments.get("last bottom layer", (0,))[0],
        group=arguments.get(GROUP, (1,))[0],
        experts=arguments.get("ep", (1,))[0],
        lists={name: arguments.get(name, ()) for name in LISTS},
        simai=simai,
    )
    return workload, _notes(workload, arguments)


def _notes(workload: TextWorkload, arguments: Mapping[str, tuple[int, ...]]) -> list[str]:
    gathered = "as many bytes as its size says" if workload.simai else "as many bytes as its size says, from each NPU"
    notes = [
        f"{'SimAI' if workload.simai else 'ASTRA-sim 1'}: times are nanoseconds unless --time-unit says otherwise (the "
        "simulator counts nanoseconds, Chakra's converter of the same files microseconds, 1000 times as long); an "
        f"all-gather gathers {gathered}; what the simulator waits after a collective, for the update of weights, is "
        "compute where passes wait for it, and hidden elsewhere but before the first layer."
    ]
    if KEYWORDS[workload.keyword].loop != "alone":
        notes.append(LAUNCHED_SO)
    if arguments.get("pp", (1,))[0] > 1:
        notes.append("One stage of the pipeline: what stages send each other is left out.")
    return notes


def _arguments(source: Source, keyword: str, words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if keyword in PASS_TABLES:
        if len(words) != 1:
            raise source.error("must name the last bottom layer, and nothing else", "line 1", " ".join(words))
        return {"last bottom layer": (_whole(source, words[0], "line 1"),)}
    known = (GROUP, *LISTS, *SIMAI) if keyword in GROUPED else ()
    arguments: dict[str, tuple[int, ...]] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0).removesuffix(":")
        if name not in known or name in arguments:
            source.choice(name, dict.fromkeys(known) or {"nothing": None}, "line 1")
            raise source.error("stands twice", "line 1", name)
        count = 1
        if name in LISTS:
            count = _whole(source, rest.pop(0) if rest else "", name, most=MAX_TASKS)
        arguments[name] = tuple(_whole(source, rest.pop(0) if rest else "", name) for _ in range(count))
    if keyword in GROUPED and not arguments.get(GROUP, (0,))[0]:
        raise source.error("required argument is missing, or is 0", GROUP)
    return arguments


def _whole(source: Source, text: str, field: str, most: int = MAX_BYTES) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise source.error("must be a whole number", field, text)
    return source.whole(int(text), field, most=most)


def layer_of(source: Source, keyword: str, number: int, words: Sequence[str]) -> WorkloadLayer:
    """The layer of a line. Raises InputError if it breaks a rule."""
    place = f"line {number}"
    expected = 13 if keyword == "HYBRID_CUSTOMIZED" else 12
    if len(words) != expected:
        raise source.error(f"must have {expected} words", place, f"{len(words)} words")
    entry: Keyword = source.choice(words[12], KEYWORDS, place) if expected == 13 else KEYWORDS[keyword]
    scopes: tuple[Scope, Scope, Scope] = (entry.activations, entry.activations, entry.weights)
    if keyword in PASS_TABLES and number == source.lines[2][0]:
        scopes = ("all", "all", "all")
    passes = [_pass(source, place, words[2 + 3 * k : 5 + 3 * k], scopes[k]) for k in range(3)]
    return WorkloadLayer(words[0], passes[0], passes[1], passes[2], _whole(source, words[11], place))


def _pass(source: Source, place: str, words: Sequence[str], scope: Scope) -> Pass:
    """A pass, in a scope that SimAI may name at the end of the collective."""
    name = words[1]
    for suffix, group in SCOPE_SUFFIXES.items():
        if name.endswith(suffix):
            name, scope = name.removesuffix(suffix), group
            break
    kind = source.choice(name, PASS_KINDS, place)
    return Pass(_whole(source, words[0], place, most=10**15), kind, _whole(source, words[2], place), scope)


class _Scopes:
    """Dimensions of each scope on a network, and how dimensions are split for them."""

    def __init__(self, source: Source, network: Network, workload: TextWorkload) -> None:
        edges = sorted({workload.group, workload.group * workload.experts} - {1, network.num_npus})
        self.splits, self.parts, sizes = split_at(source, network, edges)
        names = list(self.parts)
        reached = [math.prod(sizes[:k]) for k in range(len(sizes))]
        group, experts = workload.group, workload.group * workload.experts
        self._names: dict[Scope, tuple[str, ...] | None] = {
            "none": (),
            "all": None,
            "first": tuple(names[:1]),
            "rest": tuple(names[1:]),
            "inside": tuple(n for n, r in zip(names, reached, strict=True) if r < group),
            "across": tuple(n for n, r in zip(names, reached, strict=True) if r >= group),
            "experts": tuple(n for n, r in zip(names, reached, strict=True) if group <= r < experts),
            "copies of experts": tuple(n for n, r in zip(names, reached, strict=True) if r >= experts),
        }
        self._sizes = dict(zip(names, sizes, strict=True))
        self._total = math.prod(sizes)

    def dimensions(self, scope: Scope) -> tuple[str, ...] | None:
        return self._names[scope]

    def npus(self, scope: Scope) -> int:
        names = self._names[scope]
        return self._total if names is None else math.prod(self._sizes[name] for name in names)


def split_at(source: Source, network: Network, edges: Sequence[int]) -> tuple[list[Split], list[str], list[int]]:
    """Dimensions of which some are split, so that groups of as many NPUs as the `edges` say end between dimensions.

    Raises InputError if groups do not fill dimensions from the innermost one, but for a divisor of the last, or two end
    inside one.

    Returns the splits, and names and sizes of all dimensions after them.
    """
    splits: list[Split] = []
    names: list[str] = []
    sizes: list[int] = []
    reached = 1
    for name, size in zip(network.dimension_names, network.sizes, strict=True):
        within = [edge for edge in edges if reached < edge < reached * size]
        for edge in within:
            if len(within) > 1 or edge % reached or size % (edge // reached):
                shape = " x ".join(map(str, network.sizes))
                rule = f"must fill dimensions of {shape} from the innermost one, and divide the size of the last"
                raise source.error(rule, "group", edge)
            halves = (edge // reached, size * reached // edge)
            splits.append(Split(dimension=name, sizes=halves, names=(f"{name}_in", f"{name}_out"), shared=True))
        names += list(splits[-1].names) if within else [name]
        sizes += list(splits[-1].sizes) if within else [size]
        reached *= size
    if edges and edges[-1] > reached:
        raise source.error(f"must be at most the {reached} NPUs of the network", "group", edges[-1])
    return splits, names, sizes


def _built(source: Source, workload: TextWorkload, machine: Machine) -> Instance:
    scopes = _Scopes(source, machine.network, workload)
    name = f"{machine.network.name or 'network'} {source.path.name.removesuffix('.txt')}"
    loop = KEYWORDS[workload.keyword].loop
    if loop == "alone":
        return _alone(source, workload, machine, name)
    build = _WorkloadBuild(source, workload, scopes, machine.time_unit)
    build.forward()
    if loop == "copied":
        build.backward_of_copies()
    elif loop == "shared":
        build.backward()
    launching = machine.launching if loop == "copied" else EACH_WHEN_READY  # the others ask for FIFO
    return build.draft.instance(name, machine, scopes.splits, launching)


def _alone(source: Source, workload: TextWorkload, machine: Machine, name: str) -> Instance:
    draft, npus = Draft(source), machine.network.num_npus
    for layer in workload.layers:
        if layer.weights.kind and layer.weights.size:
            draft.collective(layer.name, layer.weights.kind, _size(layer.weights, npus, workload), machine.chunks)
    return draft.alone(name, machine)


def _size(layer_pass: Pass, npus: int, workload: TextWorkload) -> int:
    """Bytes as we count them: an all-gather by its result."""
    gathers = layer_pass.kind is CollectiveKind.ALL_GATHER and not workload.simai
    return layer_pass.size * npus if gathers else layer_pass.size


def delays(layer: WorkloadLayer, layer_pass: Pass) -> bool:
    """Whether the result of a pass is used later than it arrives: the time of the update stands after collectives."""
    return bool(layer.update and layer_pass.kind and layer_pass.size)


class _WorkloadBuild:
    """The iteration of a workload: tasks in the order in which the simulator runs them."""

    def __init__(self, source: Source, workload: TextWorkload, scopes: _Scopes, time_unit: int) -> None:
        self.draft, self._workload, self._scopes = Draft(source), workload, scopes
        self._time_unit = time_unit
        self._first: dict[int, str] = {}
        self._waiting: list[tuple[str, Pass, str]] = []

    def _compute(self, name: str, time: int) -> str:
        """Add a task; what blocks is over before it."""
        task = self.draft.compute(name, time * self._time_unit)
        waiting, self._waiting = self._waiting, []
        for tensor, layer_pass, ready in waiting:
            self._exchange(tensor, layer_pass, ready, task)
        return task

    def _exchange(self, name: str, layer_pass: Pass, ready: str, needed: str, *, model: bool = True) -> None:
        if layer_pass.kind is not None:
            size = _size(layer_pass, self._scopes.npus(layer_pass.scope), self._workload)
            self.draft.exchange(
                name,
                layer_pass.kind,
                size,
                (ready, needed),
                self._scopes.dimensions(layer_pass.scope),
                parallelism="model" if model else "data",
            )

    def forward(self) -> None:
        """The forward passes, the first after the update of its layer."""
        for k, layer in enumerate(self._workload.layers):
            is_exposed = k == 0 and delays(layer, layer.weights)  # later layers have theirs during forward passes
            update = [self._compute(f"{layer.name}.update", layer.update)] if is_exposed else []
            self._first[k] = [*update, self._forward(layer)][0]
        if self._workload.keyword in PASS_TABLES:
            table, top = self._workload.layers[0], self._workload.last_bottom + 1
            if top < len(self._workload.layers):
                self._exchange(f"{table.name}.rows", table.forward, f"{table.name}.forward", self._first[top])

    def _forward(self, layer: WorkloadLayer, what: str = "forward") -> str:
        task = self._compute(f"{layer.name}.{what}", layer.forward.time)
        if self._workload.keyword not in PASS_TABLES:
            self._block(layer, (f"{layer.name}.{what}_output", layer.forward, task))
        return task

    def _block(self, layer: WorkloadLayer, tensor: tuple[str, Pass, str]) -> None:
        """Let the next task wait for a collective, and for the delay after it."""
        self._waiting.append(tensor)
        if delays(layer, tensor[1]):
            self._compute(f"{tensor[0]}.delay", layer.update)

    def _weights(self, k: int, layer: WorkloadLayer) -> None:
        task = self._compute(f"{layer.name}.weight_gradient", layer.weights.time)
        self._exchange(f"{layer.name}.gradients", layer.weights, task, self._first[k], model=False)

    def backward_of_copies(self) -> None:
        """Weight gradient, then input gradient of each layer; a table gets the gradients of its rows from the top."""
        tables = self._workload.keyword in PASS_TABLES
        layers = self._workload.layers
        for k in reversed(range(len(layers))):
            self._weights(k, layers[k])
            if k:
                task = self._compute(f"{layers[k].name}.input_gradient", layers[k].inputs.time)
                if tables and k == self._workload.last_bottom + 1:
                    self._exchange(f"{layers[0].name}.row_gradients", layers[0].inputs, task, self._first[0])

    def backward(self) -> None:
        """Input gradient, its collective, and weight gradient of each layer, after what is recomputed for it.

        The weight gradient waits for that collective in loops of transformers, and overlaps it in all others.
        """
        blocks = self._workload.keyword in GROUPED
        starts = sorted(self._workload.lists.get("checkpoints", ()))
        layers = self._workload.layers
        for k in reversed(range(len(layers))):
            layer = layers[k]
            if k in self._workload.lists.get("checkpoint_initiates", ()):
                for again in range(max((start for start in starts if start <= k), default=k), k):
                    self._forward(layers[again], "recompute")
            task = self._compute(f"{layer.name}.input_gradient", layer.inputs.time)
            error = (f"{layer.name}.error", layer.inputs, task)
            if blocks:
                self._block(layer, error)
            self._weights(k, layer)
            if not blocks and k:  # nobody waits for that of the first layer
                self._waiting.append(error)
        waiting, self._waiting = self._waiting, []
        for tensor, layer_pass, ready in waiting:
            self._exchange(tensor, layer_pass, ready, self.draft.tasks[0].name)


READER = Reader("workload of ASTRA-sim 1 or SimAI (text)", ("txt",), _recognizes, _read)

"""Traces of the PyTorch profiler (Kineto, Chrome JSON): collectives, compute and marks of steps on the GPU.

The kernels of NCCL are collectives.  Those of other libraries (:data:`LIBRARIES`) are communication that says no sizes.
All others are compute; those with names like that of a collective are noted.
Source: https://docs.pytorch.org/docs/stable/profiler.html; arguments of NCCL events as PyTorch 2.13 writes them.

Kernels say their sizes since PyTorch 2.3.  Before that, a kernel and the call that launches it have a number in common,
the call lies within an annotation ``nccl:all_reduce`` of its thread, and with ``record_shapes`` that has the shapes of
the inputs.  It names no group, so all NPUs of the training take part.
"""

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from themis_opt.base.documents import MAX_VALUES, check_values
from themis_opt.base.sources import TOLD_EVERY, Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.phases import CollectiveKind

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
STEP = re.compile(r"ProfilerStep#(\d{1,18})")
STEP_MARKS = ("gpu_user_annotation", "user_annotation")
MAX_TRACE_EVENTS = 5_000_000  # events of a trace
MAX_TRACE_VALUES = 10 * MAX_VALUES  # events are parsed one by one
MAX_EVENT_LENGTH = 8 * 2**20  # characters of an event: its values take up to twenty times as much memory
MAX_KEPT = 1_000_000  # kernels that are kept
NAME_LETTERS = 200  # of a kernel that are looked at

NCCL_KINDS: Mapping[str, CollectiveKind] = {
    name: kind
    for kind, names in (
        (CollectiveKind.ALL_REDUCE, ("allreduce", "allreduce_coalesced", "all_reduce")),
        (CollectiveKind.ALL_GATHER, ("allgather", "all_gather", "_allgather_base", "_all_gather_base")),
        (CollectiveKind.ALL_GATHER, ("all_gather_into_tensor", "allgather_into_tensor_coalesced")),
        (CollectiveKind.REDUCE_SCATTER, ("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor")),
        (CollectiveKind.REDUCE_SCATTER, ("reduce_scatter_tensor_coalesced",)),
        (CollectiveKind.ALL_TO_ALL, ("all_to_all", "all_to_allv", "all_to_all_single")),
        (CollectiveKind.BROADCAST, ("broadcast", "broadcast_oop", "_broadcast_oop")),
        (CollectiveKind.REDUCE, ("reduce", "_reduce_oop")),
        (CollectiveKind.SEND, ("send",)),
    )
    for name in names
}
GRADIENTS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
DTYPE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("ComplexDouble",), 16),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "UInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Float8_e4m3fnuz", "Float8_e5m2fnuz", "Float4_e2m1fn_x2"), 1),
}


SHAPED_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("signed char", "unsigned char", "bool", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
"""Bytes of an element by its type in C++, as annotations name it."""

NCCL = re.compile("nccl|rccl", re.IGNORECASE)
LIBRARIES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in (
        ("DeepEP", r"\bdeep_ep(_v\d)?::"),
        ("NVSHMEM", r"nvshmem|rocshmem|\bpplx::"),
        ("symmetric memory", r"multimem_|(one|two)_?shot_?all_?reduce|hybrid_?cube_?mesh|symm_?mem"),
        ("custom all-reduce", r"cross_device_reduce|quickreduce::|allreduce_fusion_kernel|lamport"),
        ("user buffers", r"userbuffers_"),
        ("HCCL", r"hccl|hcom_"),
        ("oneCCL", r"oneccl|oneapi::ccl|\bccl::"),
        ("MSCCL", r"mscclpp|mscclKernel"),
        ("MORI", r"\bmori::"),
        ("copies between GPUs", r"Memcpy (PtoP|P2P|Peer)"),
    )
}
"""Libraries whose kernels communicate and say no sizes, by the names of kernels."""

RECEIVING = "receiving from other stages"  # which waits for them
WITHOUT_BYTES = "NCCL without bytes"  # barriers, and what moves nothing or is on one NPU
NOT_IN_A_PROBLEM = ("barrier", "init", "wait", "gather", "scatter")
LIKE_A_COLLECTIVE = re.compile(
    r"(?<![a-z])all_?(reduce|gather|to_?all)|(?<![a-z])reduce_?scatter|All(Reduce|Gather|To?All)|ReduceScatter"
    r"|(?<![a-z])(inter|intra)_?node|(?<![a-z])send_?recv|SendRecv|(?<![a-z])peer_"
)
ANNOTATION = "nccl:"
LAUNCHING_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime")

Span = tuple[int, int]


@dataclass(frozen=True)
class CollectiveEvent:
    """A collective on the GPU: picoseconds from the start of the trace, bytes, and who takes part."""

    start: int
    end: int
    kind: CollectiveKind
    size: int
    group: str
    ranks: tuple[int, ...]
    npus: int


@dataclass
class GpuTrace:
    """What the GPU did, in picoseconds from the start of the trace.

    `rank`: the NPU, -1 where the trace does not say.
    `compute`, `copies`: kernels, and what the GPU copies or sets.
    `others`: kernels that communicate without sizes, by library.
    `doubtful`: kernels that count as compute and have names like collectives, by name.
    `without_size`: kernels of NCCL whose sizes nothing tells.
    `marks`: the steps that the profiler marked on the GPU, over all streams, and on the CPU, by number.
    `npus`: those of the training, 0 where the trace does not say.
    """

    source: Source
    collectives: list[CollectiveEvent] = field(default_factory=list)
    compute: list[Span] = field(default_factory=list)
    copies: list[Span] = field(default_factory=list)
    others: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    doubtful: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    without_size: list[Span] = field(default_factory=list)
    marks: dict[str, dict[int, Span]] = field(default_factory=lambda: {category: {} for category in STEP_MARKS})
    is_annotated: bool = False
    npus: int = 0
    rank: int = -1

    @property
    def all(self) -> list[Span]:
        """Everything that ran on the GPU."""
        others = [span for spans in self.others.values() for span in spans]
        events = [(event.start, event.end) for event in self.collectives]
        return [*events, *self.compute, *self.copies, *others, *self.without_size]


def read_trace(source: Source) -> GpuTrace:
    """The kernels and marks of a trace.

    Raises InputError if it is none, breaks a rule, or holds no kernel of NCCL.
    """
    trace = GpuTrace(source)
    trace.npus, trace.rank = _distributed(source, "world_size", 0), _distributed(source, "rank", -1)
    without_size: dict[object, Span] = {}
    num_kernels = 0
    for event in events(source):
        category = event.get("cat")
        if event.get("ph") != "X" or not isinstance(category, str):
            continue
        if category in trace.marks and (mark := STEP.fullmatch(str(event.get("name")))):
            start, end = _span(source, event)
            before = trace.marks[category].get(int(mark[1]), (start, end))
            trace.marks[category][int(mark[1])] = min(start, before[0]), max(end, before[1])
        elif category in GPU_CATEGORIES:
            _add_kernel(trace, event, without_size)
            num_kernels += 1
        if num_kernels > MAX_KEPT:
            raise source.error(f"must have at most {MAX_KEPT} kernels: profile fewer steps")
    annotated = _annotated(trace, without_size) if without_size else {}
    trace.is_annotated = bool(annotated)
    trace.collectives += [collective for collective in annotated.values() if collective]
    trace.collectives.sort(key=lambda event: event.start)
    trace.without_size = [span for number, span in without_size.items() if number not in annotated]
    if not trace.collectives and not trace.without_size:
        libraries = "".join(f", and kernels of {name} without sizes" for name in trace.others)
        raise source.error(f"holds no kernel of NCCL{libraries}: profile with GPU activities, rank by rank")
    return trace


def _distributed(source: Source, name: str, otherwise: int) -> int:
    """A number of what the trace says of the whole training."""
    number = re.search(rf'"distributedInfo"\s*:\s*\{{[^}}]{{0,2000}}?"{name}"\s*:\s*([0-9]{{1,7}})', source.head)
    return int(number[1]) if number else otherwise


def _add_kernel(trace: GpuTrace, event: Mapping[str, Any], without_size: dict[object, Span]) -> None:
    name, span = str(event.get("name"))[:NAME_LETTERS], _span(trace.source, event)
    if NCCL.search(name) and not LIBRARIES["MSCCL"].search(name):
        arguments = event.get("args")
        if not isinstance(arguments, dict) or "Collective name" not in arguments:
            without_size[_number(event, len(without_size))] = span
        elif arguments["Collective name"] == "recv":
            trace.others[RECEIVING].append(span)
        elif collective := _collective(trace.source, arguments, span):
            trace.collectives.append(collective)
        else:
            trace.others[WITHOUT_BYTES].append(span)
        return
    library = next((library for library, pattern in LIBRARIES.items() if pattern.search(name)), None)
    computes = trace.compute if event["cat"] == "kernel" else trace.copies
    (computes if library is None else trace.others[library]).append(span)
    if library is None and LIKE_A_COLLECTIVE.search(name):
        trace.doubtful[name[:60]].append(span)


def events(source: Source) -> Iterator[Mapping[str, Any]]:
    """The events of a trace one by one, so that a long one need not fit in memory.

    Raises InputError if the file is no such trace.
    """
    text = source.text
    check_values(text, str(source), MAX_TRACE_VALUES)
    opening = re.compile(r'"traceEvents"\s*:\s*\[\s*').search(text)
    if opening is None:
        raise source.error("must hold a list 'traceEvents'")
    parts, place, separator = _Parts(source, text), opening.end(), re.compile(r"\s*(,|\])\s*")
    told = 0
    for _ in range(MAX_TRACE_EVENTS):
        if place - told > TOLD_EVERY:
            source.tell(told := place)
        if text.startswith("]", place):
            return
        event, place = parts.value(place)
        if isinstance(event, dict):
            yield event
        match = separator.match(text, place)
        if match is None:
            raise source.error(f"not JSON at character {place} of its events")
        if match[1] == "]":
            return
        place = match.end()
    raise source.error(f"must have at most {MAX_TRACE_EVENTS} events")


class _Parts:
    """A long JSON text that is parsed in parts, so that no value in it can fill the memory."""

    def __init__(self, source: Source, text: str) -> None:
        self._source, self._text, self._decode = source, text, json.JSONDecoder().raw_decode
        self._part, self._begin = "", 0

    def value(self, place: int) -> tuple[Any, int]:
        """The value at a place, and where it ends. Raises InputError if it is none, or too long."""
        for is_fresh in (False, True):
            if is_fresh:
                self._part, self._begin = self._text[place : place + MAX_EVENT_LENGTH], place
            with suppress(ValueError, RecursionError):
                value, end = self._decode(self._part, place - self._begin)
                if end < len(self._part) or self._begin + end == len(self._text):
                    return value, self._begin + end
        rule = f"not JSON at character {place} of its events, or an event of more than {MAX_EVENT_LENGTH} characters"
        raise self._source.error(rule)


def _span(source: Source, event: Mapping[str, Any]) -> Span:
    ends = []
    for name in ("ts", "dur"):
        value = event.get(name, 0)
        number = float(value) if isinstance(value, str) and re.fullmatch(r"[0-9.]{1,30}", value) else value
        ends.append(round(source.number(number, f"traceEvents: {name}", most=1e16) * PICOSECONDS_PER_MICROSECOND))
    return ends[0], ends[0] + ends[1]


def _collective(source: Source, arguments: Mapping[str, Any], span: Span) -> CollectiveEvent | None:
    """The collective of a kernel of NCCL; none where it moves nothing, or is not part of a problem."""
    name = arguments["Collective name"]
    if name in NOT_IN_A_PROBLEM:
        return None
    kind: CollectiveKind = source.choice(name, NCCL_KINDS, "Collective name")
    element_bytes: int = source.choice(arguments.get("dtype"), DTYPE_BYTES, "dtype")
    field = "Out msg nelems" if kind is CollectiveKind.ALL_GATHER else "In msg nelems"
    size = source.whole(arguments.get(field), field, most=MAX_BYTES // 8) * element_bytes
    npus = source.whole(arguments.get("Group size"), "Group size", least=1, most=10**7)
    if not size or npus == 1 or span[1] <= span[0]:
        return None
    ranks = _ranks(arguments.get("Process Group Ranks"), npus)
    group = f"{arguments.get('Process Group Name', '')} {arguments.get('Process Group Description', '')}".strip()
    return CollectiveEvent(*span, kind, size, group or "default", ranks, npus)


def _number(event: Mapping[str, Any], default: object = None) -> object:
    """The number that a kernel and the call that launches it have in common."""
    arguments = event.get("args")
    number = arguments.get("correlation") if isinstance(arguments, dict) else None
    return default if number is None else str(number)[:40]


def _annotated(trace: GpuTrace, kernels: Mapping[object, Span]) -> dict[object, CollectiveEvent | None]:
    """The collectives of kernels that do not say their sizes, by the annotations around the calls that launch them.

    Kernels without such an annotation are left out; None stands for one that moves nothing.
    """
    source = trace.source
    calls: dict[object, tuple[str, int]] = {}
    around: dict[str, list[tuple[int, int, Mapping[str, Any]]]] = {}
    for event in events(source):
        thread = str((event.get("pid"), event.get("tid")))[:80]
        if str(event.get("cat")) in LAUNCHING_CALLS and _number(event) in kernels:
            calls[_number(event)] = thread, _span(source, event)[0]
        elif event.get("cat") == "user_annotation" and str(event.get("name")).startswith(ANNOTATION):
            around.setdefault(thread, []).append((*_span(source, event), event))
    for spans in around.values():
        spans.sort(key=lambda span: span[:2])
    annotated: dict[object, CollectiveEvent | None] = {}
    for number, (thread, called) in calls.items():
        spans = around.get(thread, [])
        place = bisect_right(spans, called, key=lambda span: span[0]) - 1
        arguments = spans[place][2].get("args") if place >= 0 and called <= spans[place][1] else None
        if isinstance(arguments, dict) and "Input Dims" in arguments:
            if not trace.npus:
                raise source.error("must say of how many NPUs it is one", "distributedInfo: world_size")
            name = str(spans[place][2]["name"]).removeprefix(ANNOTATION)
            annotated[number] = _shaped(source, name, arguments, kernels[number], trace.npus)
    return annotated


def _shaped(source: Source, name: str, arguments: Mapping[str, Any], span: Span, npus: int) -> CollectiveEvent | None:
    """The collective of an annotation, whose shapes are those of its inputs; None where nothing moves."""
    kind: CollectiveKind = source.choice(name, NCCL_KINDS, "name")
    shapes, types = arguments["Input Dims"], arguments.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or len(types) < len(shapes):
        raise source.error("must be lists of shapes and of types", "Input Dims")
    size = 0
    for shape, of_type in zip(shapes, types, strict=False):
        sides = [source.whole(side, "Input Dims") for side in (shape[:9] if isinstance(shape, list) else ())]
        size += math.prod(sides) * source.choice(of_type, SHAPED_BYTES, "Input type") if sides else 0
    size = source.whole(size * (npus if kind is CollectiveKind.ALL_GATHER else 1), "Input Dims", most=MAX_BYTES)
    return CollectiveEvent(*span, kind, size, "default", (), npus) if size and npus > 1 and span[1] > span[0] else None


def _ranks(text: object, npus: int) -> tuple[int, ...]:
    """Ranks of a list such as "[0, 1, 2]"; none where they are not all known.

    PyTorch writes the first 30 of a long list: they tell the others where they are equally far apart.
    """
    match = re.fullmatch(r"\[([0-9, ]{0,100000})(\.\.\.)?\]", text) if isinstance(text, str) else None
    ranks = [int(word[:12]) for word in re.findall(r"[0-9]+", match[1])] if match else []
    if match and match[2] and len(ranks) > 1:
        steps = range(ranks[0], ranks[0] + npus * (ranks[1] - ranks[0]), ranks[1] - ranks[0] or 1)
        ranks = list(steps) if ranks == list(steps[: len(ranks)]) else []
    return tuple(ranks) if len(ranks) == npus else ()

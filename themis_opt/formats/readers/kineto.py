"""Traces of the PyTorch profiler (Kineto, Chrome JSON) as a training iteration, and whether communication limits it.

Of one step, the kernels of NCCL are collectives, all others compute.  Time in which a collective runs and compute does
not is exposed; everything else is the time of tasks, also gaps in which the GPU waits for the host.  Tasks end where a
collective starts, and where one is needed: gradients (all-reduce, reduce-scatter) after the next gap of compute that a
collective fills, anything else by the first kernel after it ends.
Source: https://docs.pytorch.org/docs/stable/profiler.html; arguments of NCCL events as PyTorch 2.13 writes them.

Kernels say their sizes since PyTorch 2.3.  Before that, a kernel and the call that launches it have a number in common,
the call lies within an annotation ``nccl:all_reduce`` of its thread, and with ``record_shapes`` that has the shapes of
the inputs.  It names no group, so all NPUs of the training take part.

Without a file of the network, the groups of the trace are its dimensions, with bandwidths and latencies that fit the
times of their collectives.
"""

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from themis_opt.base.documents import MAX_VALUES, check_values
from themis_opt.base.errors import InputError
from themis_opt.base.sources import TOLD_EVERY, Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND, format_percent, format_short_time
from themis_opt.formats.calibration import Measurement, calibrate
from themis_opt.formats.readers.draft import Draft
from themis_opt.formats.readers.parts import Machine, Part, Reader, dimensions_by_size, dimensions_of, only
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
STEP = re.compile(r"ProfilerStep#(\d+)")
STEP_MARKS = ("gpu_user_annotation", "user_annotation")
MAX_TRACE_EVENTS = 5_000_000
MAX_TRACE_VALUES = 10 * MAX_VALUES  # events are parsed one by one
MAX_EVENT_LENGTH = 8 * 2**20  # characters of an event: its values take up to twenty times as much memory
MAX_KEPT = 1_000_000

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
    )
    for name in names
}
IGNORED_OPERATIONS = ("barrier", "init", "wait")
GRADIENTS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
DTYPE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
}


SHAPED_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("signed char", "unsigned char", "bool"), 1),
}
"""Bytes of an element by its type in C++, as annotations name it."""

ANNOTATION = "nccl:"
LAUNCHING_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime")


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


Span = tuple[int, int]


def _recognizes(source: Source) -> bool:
    return '"traceEvents"' in source.head or ('"schemaVersion"' in source.head and '"deviceProperties"' in source.head)


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "trace")
    step = TrainingStep(source)
    derived = "without a separate network, that of the trace is fitted to the times of its collectives"
    by_shapes = "sizes are those of annotations, and all NPUs take part; " if step.is_annotated else ""
    note = f"PyTorch: {step.name}; {by_shapes}a collective is ready when its kernel starts; {derived}."
    return Part(
        workload=lambda machine: _built(source, step, machine or _machine(source, step.collectives)),
        notes=(note,),
        tables={"trace": step.rows()},
        judge=step.judged,
    )


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


class TrainingStep:
    """One step of a trace: collectives and compute on the GPU, and exposed communication."""

    def __init__(self, source: Source) -> None:
        compute: list[Span] = []
        collectives: list[CollectiveEvent] = []
        without_size: dict[object, Span] = {}
        steps: dict[str, dict[str, Span]] = {category: {} for category in STEP_MARKS}
        for event in events(source):
            category = event.get("cat")
            if event.get("ph") != "X" or not isinstance(category, str):
                continue
            if category in steps and STEP.fullmatch(str(event.get("name"))):
                steps[category][str(event["name"])] = _span(source, event)
            elif category in GPU:
                collective = _collective(source, event)
                if collective is not None:
                    collectives.append(collective)
                elif _is_nccl(event):
                    if not _says_size(event):
                        without_size[_number(event, len(without_size))] = _span(source, event)
                else:
                    compute.append(_span(source, event))
            if len(compute) + len(collectives) + len(without_size) > MAX_KEPT:
                raise source.error(f"must have at most {MAX_KEPT} kernels: profile fewer steps")
        annotated = _annotated(source, without_size) if without_size else {}
        self.is_annotated = bool(annotated)
        collectives += [collective for collective in annotated.values() if collective]
        unknown = [span for number, span in without_size.items() if number not in annotated]
        if not collectives and not unknown:
            raise source.error("holds no kernel of NCCL: profile with GPU activities, rank by rank")
        marks = next((step for step in steps.values() if step), {})
        whole = [step for step in marks.values() if not any(step[0] <= start < step[1] for start, _ in unknown)]
        if unknown and (not collectives or not whole):
            rule = f"holds {len(unknown)} kernels of NCCL without their sizes"
            advice = "profile with PyTorch 2.3 or later, or record_shapes"
            raise source.error(f"{rule}: {advice}", "traceEvents: args", "no 'Collective name' and 'In msg nelems'")
        self._choose(source, collectives, compute, {name: step for name, step in marks.items() if step in whole})

    def _choose(
        self, source: Source, collectives: Sequence[CollectiveEvent], compute: Sequence[Span], steps: Mapping[str, Span]
    ) -> None:
        """Keep the step of median length of those that hold collectives, or all of the trace."""
        everything = [(collective.start, collective.end) for collective in collectives] + list(compute)
        whole = (min(start for start, _ in everything), max(end for _, end in everything))
        held = sorted(
            (span[1] - span[0], name)
            for name, span in steps.items()
            if any(_within(collective, span) for collective in collectives)
        )
        self.name = held[len(held) // 2][1] if held else "the whole trace is one step"
        span = steps[self.name] if held else whole
        self.collectives = sorted(
            (collective for collective in collectives if _within(collective, span)), key=lambda event: event.start
        )
        self.compute = _union([interval for interval in compute if span[0] <= interval[0] < span[1]])
        self.start = min([span[0], *(collective.start for collective in self.collectives[:1])])
        self.end = max(
            [span[1], *(collective.end for collective in self.collectives), *(end for _, end in self.compute[-1:])]
        )
        if self.end <= self.start:
            raise source.error("must have a step that lasts", "traceEvents", self.name)
        self.communication = _union([(collective.start, collective.end) for collective in self.collectives])
        self.exposed = _without(self.communication, self.compute)
        self.exposed_ends = [end for _, end in self.exposed]
        self.kernels = sorted(kernel[0] for kernel in compute if span[0] <= kernel[0] < span[1])

    @property
    def length(self) -> int:
        """Picoseconds of the step."""
        return self.end - self.start

    def rows(self) -> list[dict[str, str]]:
        """What the step spends its time on, in words."""
        busy = {"communication": _total(self.communication), "compute": _total(self.compute)}
        share = _total(self.exposed) / self.length
        rows = [{"quantity": "step", "time": format_short_time(self.length), "share": format_percent(1)}]
        rows += [_row(name, time, self.length) for name, time in busy.items()]
        rows.append(_row("communication exposed", _total(self.exposed), self.length))
        limit = "yes" if share > 0.5 else "partly" if share >= 0.05 else "no"
        return [*rows, {"quantity": "communication is the bottleneck", "time": limit, "share": format_percent(share)}]

    def judged(self, instance: Instance) -> dict[str, list[dict[str, str]]]:
        """The gain of the best launching policy, in the model, against the launches of the trace."""
        from themis_opt.policies.registry import make_policy, usual_policies
        from themis_opt.schedules.simulator import simulate
        from themis_opt.solving.bounds import bounds, bounds_of
        from themis_opt.solving.narrowest import too_slow

        as_traced, *_ = usual_policies(instance)
        periods = {}
        for name in usual_policies(instance):
            periods[name] = simulate(instance, make_policy(name)(instance)).makespan
        best = min(periods, key=lambda name: periods[name])
        bound = max(bounds(instance).values())
        now = periods[as_traced]
        rows = [
            _gain("measured", self.length, now),
            _gain(f"as traced, in the model ({as_traced})", now, now),
            _gain(f"best policy ({best})", periods[best], now),
            _gain("no policy beats", bound, now),
        ]
        if slow := too_slow(instance, bounds_of(instance)["cut"].compute, self.length):
            rows.append({"iteration": slow, "time": "", "gain": ""})
        return {"what the best launch would gain": rows}


def _row(name: str, time: int, whole: int) -> dict[str, str]:
    return {"quantity": name, "time": format_short_time(time), "share": format_percent(time / whole)}


def _gain(name: str, time: float, now: float) -> dict[str, str]:
    return {"iteration": name, "time": format_short_time(time), "gain": format_percent(1 - time / now)}


def _within(event: CollectiveEvent, span: Span) -> bool:
    return span[0] <= event.start < span[1]


def _union(spans: Sequence[Span]) -> list[Span]:
    """The spans joined where they overlap, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of spans that no other covers; both are joined and in order."""
    left: list[Span] = []
    ends = [end for _, end in others]
    for start, end in spans:
        place = start
        for number in range(bisect_right(ends, start), len(others)):
            if others[number][0] >= end:
                break
            if others[number][0] > place:
                left.append((place, others[number][0]))
            place = max(place, others[number][1])
        if place < end:
            left.append((place, end))
    return left


def _total(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in spans)


def _is_nccl(event: Mapping[str, Any]) -> bool:
    return "nccl" in str(event.get("name"))[:200].lower()


def _collective(source: Source, event: Mapping[str, Any]) -> CollectiveEvent | None:
    """The collective of a kernel of NCCL; none where it is compute, or moves nothing."""
    arguments = event.get("args")
    if not _is_nccl(event) or not isinstance(arguments, dict) or "Collective name" not in arguments:
        return None
    name = arguments["Collective name"]
    if name in IGNORED_OPERATIONS:
        return None
    if name in ("send", "recv"):
        raise source.error("sends between two NPUs, as pipelines do, are not collectives", "Collective name", name)
    kind: CollectiveKind = source.choice(name, NCCL_KINDS, "Collective name")
    element_bytes: int = source.choice(arguments.get("dtype"), DTYPE_BYTES, "dtype")
    field = "Out msg nelems" if kind is CollectiveKind.ALL_GATHER else "In msg nelems"
    size = source.whole(arguments.get(field), field, most=MAX_BYTES // 8) * element_bytes
    npus = source.whole(arguments.get("Group size"), "Group size", least=1, most=10**7)
    start, end = _span(source, event)
    if not size or npus == 1 or end <= start:
        return None
    ranks = _ranks(arguments.get("Process Group Ranks"))
    group = f"{arguments.get('Process Group Name', '')} {arguments.get('Process Group Description', '')}".strip()
    return CollectiveEvent(start, end, kind, size, group or "default", ranks if len(ranks) == npus else (), npus)


def _says_size(event: Mapping[str, Any]) -> bool:
    """Whether a kernel of NCCL names its collective, be it one that moves nothing."""
    return isinstance(event.get("args"), dict) and "Collective name" in event["args"]


def _number(event: Mapping[str, Any], default: object = None) -> object:
    """The number that a kernel and the call that launches it have in common."""
    arguments = event.get("args")
    number = arguments.get("correlation") if isinstance(arguments, dict) else None
    return default if number is None else str(number)[:40]


def _annotated(source: Source, kernels: Mapping[object, Span]) -> dict[object, CollectiveEvent | None]:
    """The collectives of kernels that do not say their sizes, by the annotations around the calls that launch them.

    Kernels without such an annotation are left out; None stands for one that moves nothing.
    Raises InputError if the trace does not say how many NPUs there are.
    """
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
    world = re.search(r'"distributedInfo"\s*:\s*\{[^}]{0,2000}?"world_size"\s*:\s*([0-9]{1,7})', source.head)
    annotated: dict[object, CollectiveEvent | None] = {}
    for number, (thread, called) in calls.items():
        spans = around.get(thread, [])
        place = bisect_right(spans, called, key=lambda span: span[0]) - 1
        arguments = spans[place][2].get("args") if place >= 0 and called <= spans[place][1] else None
        if isinstance(arguments, dict) and "Input Dims" in arguments:
            if world is None:
                raise source.error("must say of how many NPUs it is one", "distributedInfo: world_size")
            name = str(spans[place][2]["name"]).removeprefix(ANNOTATION)
            annotated[number] = _shaped(source, name, arguments, kernels[number], int(world[1]))
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


def _ranks(text: object) -> tuple[int, ...]:
    """Ranks of a list such as "[0, 1, 2]"; none where they are not all written."""
    if isinstance(text, str) and re.fullmatch(r"\[[0-9, ]{0,100000}\]", text):
        return tuple(int(word[:12]) for word in re.findall(r"[0-9]+", text))
    return ()


def _machine(source: Source, collectives: Sequence[CollectiveEvent]) -> Machine:
    """The network of the trace, on which a collective costs what its kernel did: start-ups occupy, one chunk each.

    Where collectives span several dimensions there are a few chunks, which overlap.
    """
    network = _network(source, collectives)
    spans = any(event.npus == network.num_npus for event in collectives) and len(network.dimensions) > 1
    return Machine(network, chunks=4 if spans else 1, latency="occupy")


def _network(source: Source, collectives: Sequence[CollectiveEvent]) -> Network:
    """Dimensions of the groups of a trace, innermost first."""
    groups = {
        (collective.ranks[1] - collective.ranks[0] if len(collective.ranks) > 1 else 1, collective.npus)
        for collective in collectives
    }
    reached = 1
    dimensions: list[Dimension] = []
    spanning: list[int] = []
    for stride, npus in sorted(groups):
        if stride == reached:
            events = [event for event in collectives if event.npus == npus]
            dimensions.append(_dimension(events, npus, f"dim{len(dimensions) + 1}"))
            reached *= npus
        else:
            spanning.append(npus if stride == 1 else 0)
    if any(npus != reached for npus in spanning) or not dimensions:
        rule = "groups must be dimensions, each the next one, or all of them: name a file of the network too"
        shown = ", ".join(f"{npus} at steps of {stride}" for stride, npus in sorted(groups))
        raise source.error(rule, "Process Group Ranks", shown)
    return Network(name="trace", dimensions=tuple(dimensions))


def _dimension(collectives: Sequence[CollectiveEvent], npus: int, name: str) -> Dimension:
    """A ring whose costs fit the times, or whose bandwidth alone does where they tell no more."""
    measurements = [
        Measurement(collective.kind, collective.size, npus, float(collective.end - collective.start))
        for collective in collectives
    ]
    try:
        fit = calibrate(measurements)
        return fit.dimension(npus, name=name, source="fitted to the trace")
    except InputError:
        sent = sum(len(collective.kind.rule.phases) * collective.size * (npus - 1) / npus for collective in collectives)
        seconds = sum(collective.end - collective.start for collective in collectives) / 1e12
        bandwidth = sent / seconds
        return Dimension(
            kind=Kind.RING, size=npus, name=name, bandwidth=bandwidth, source="bytes over time of the trace"
        )


def _built(source: Source, step: TrainingStep, machine: Machine) -> Instance:
    """Tasks between the starts of collectives and the places where they are needed."""
    needs = [_needed(step, collective) for collective in step.collectives]
    starts = [collective.start for collective in step.collectives]
    cuts = sorted({step.start, *starts, *(need for need in needs if need is not None), step.end})
    exposed = [0, *_running(step.exposed, cuts)]
    draft = Draft(source)
    names = {step.start: draft.compute("start", 0)}
    after: dict[int, str] = {}
    for number, (start, end) in enumerate(pairwise(cuts), start=1):
        time = end - start - (exposed[number + 1] - exposed[number])
        names[end] = after[start] = draft.compute(f"compute {number}", time)
    first = draft.tasks[0].name
    for collective, need in zip(step.collectives, needs, strict=True):
        draft.exchange(
            f"{collective.kind.value} {collective.group}"[:80],
            collective.kind,
            collective.size,
            (names[collective.start], first if need is None else after[need]),
            _dimensions(source, collective, machine.network),
            parallelism="data" if collective.kind in GRADIENTS else "model",
            later=need is None,
        )
    return draft.instance(source.path.name.partition(".")[0], machine)


def _running(spans: Sequence[Span], cuts: Sequence[int]) -> list[int]:
    sums, total, number = [], 0, 0
    for cut in cuts:
        while number < len(spans) and spans[number][1] <= cut:
            total += spans[number][1] - spans[number][0]
            number += 1
        partly = cut - spans[number][0] if number < len(spans) and spans[number][0] < cut else 0
        sums.append(total + partly)
    return sums


def _needed(step: TrainingStep, event: CollectiveEvent) -> int | None:
    """When compute needs a collective: see the top of the module; none if that is in the next step."""
    place = event.end
    if event.kind in GRADIENTS:
        gap = bisect_left(step.exposed_ends, event.end)
        if gap == len(step.exposed_ends):
            return None
        place = step.exposed_ends[gap]
    kernel = bisect_left(step.kernels, place)
    return step.kernels[kernel] if kernel < len(step.kernels) else None


def _dimensions(source: Source, event: CollectiveEvent, network: Network) -> tuple[str, ...] | None:
    """The dimensions that a group fills, by its ranks, or by its size where they are not known."""
    if event.npus == network.num_npus:
        return None
    dimensions = dimensions_of(network, event.ranks) if event.ranks else dimensions_by_size(event.npus, network)
    if dimensions is None:
        shape = " x ".join(map(str, network.sizes))
        raise source.error(
            f"fills no dimensions of the network of {shape}", "Process Group Ranks", event.ranks or event.npus
        )
    return dimensions


READER = Reader("trace of the PyTorch profiler", ("json",), _recognizes, _read)

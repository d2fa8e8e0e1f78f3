"""A training step of a trace of the PyTorch profiler as an iteration, and whether communication limits it.

A step lasts from its mark to the next one.  Time in which a collective runs and compute does not is exposed; everything
else is the time of tasks, also gaps in which the GPU waits for the host, and kernels that communicate without saying
sizes.  Tasks end where a collective starts, and where one is needed: gradients (all-reduce, reduce-scatter) after the
next gap of compute that a collective fills, anything else by the first kernel after it ends.

Of several traces, each of one rank, the rank whose collectives wait least makes the problem.  Sends between stages of a
pipeline are exchanges; a kernel that receives waits for another stage, and stays as it is.

Without a file of the network, the groups of the trace are its dimensions, with the largest latencies and least
bandwidths of which no collective takes longer than it was measured.  What one took beyond that, it waited, for other
NPUs or for launches: it leaves when it would have had to, and its wait is the time of tasks.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent, format_short_size, format_short_time
from themis_opt.formats.readers.draft import Draft
from themis_opt.formats.readers.kineto import GRADIENTS, CollectiveEvent, GpuTrace, Span, read_trace
from themis_opt.formats.readers.parts import Machine, Part, Reader, dimensions_by_size, dimensions_of
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import MAX_BANDWIDTH
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.problem.wiring import blocks_sent, steps

SPANNING_CHUNKS = 4  # where collectives span several dimensions, which chunks overlap
ROUNDS_OF_SECTION = 100  # each leaves two thirds of an interval
NEAR = 0.005  # of a measured time, by which the model may differ without a word


def _read(sources: Sequence[Source]) -> Part:
    steps = sorted(_steps(sources), key=lambda step: step.trace.rank)
    waits = waits_for_others(steps)
    step = steps[waits.index(min(waits))]
    by_shapes = "sizes are those of annotations, and all NPUs take part; " if step.trace.is_annotated else ""
    derived = "without a separate network, no collective takes longer on that of the trace than it was measured"
    note = f"PyTorch: {step.name}; {by_shapes}a collective is ready when its kernel starts; {derived}."
    return Part(
        workload=lambda machine: _built(step, machine or _machine(step), is_fitted=machine is None),
        notes=(note, *late_rank(steps, waits), *step.doubts()),
        tables={
            "trace": step.rows(),
            "shares": [row for one in zip(steps, waits, strict=True) for row in _share_rows(*one)],
        },
        judge=step.judged,
    )


def _steps(sources: Sequence[Source]) -> Iterator["TrainingStep"]:
    """The same step of the traces of several ranks. Raises InputError if a rank comes twice or lacks the step."""
    number, ranks = None, set[int]()
    for source in sources:
        step = TrainingStep(source, number)
        if step.trace.rank in ranks:
            rule = "must be of another rank than the other traces"
            raise source.error(rule, "distributedInfo: rank", step.trace.rank)
        ranks.add(step.trace.rank)
        number = step.number
        yield step


class TrainingStep:
    """One step of a trace: its collectives and compute, and exposed communication.

    `number`: of the step to read, None for one of median length, -1 for a trace without marks.
    `name`: which step it is of how many.
    `length`: picoseconds of the step.
    `collectives`: those that start in the step; all spans end with it.
    `size`: bytes of all collectives.
    """

    def __init__(self, source: Source, number: int | None = None) -> None:
        self.trace = trace = read_trace(source)
        self.number, self.name, (self.start, self.end) = _chosen(trace, number)
        if self.end <= self.start:
            raise source.error("must have a step that lasts", "traceEvents", self.name)
        self.length = self.end - self.start
        self.collectives = [event for event in trace.collectives if self.start <= event.start < self.end]
        self.size = sum(event.size for event in self.collectives)
        kernels = [*trace.compute, *trace.copies]
        self.kernels = sorted(start for start, _ in kernels if self.start <= start < self.end)
        self.compute = self._within(kernels)
        self.others = {name: spans for name in trace.others if (spans := self._within(trace.others[name]))}
        others = [span for spans in self.others.values() for span in spans]
        self.busy = _union([*self.compute, *others])
        self.communication = _union([*self._within(_spans(trace.collectives)), *others])
        self.exposed = _without(self.communication, self.compute)
        self.exposed_ends = [end for _, end in self.exposed]

    def _within(self, spans: Sequence[Span]) -> list[Span]:
        return _within(spans, self.start, self.end)

    def rows(self) -> list[dict[str, str]]:
        """What was read, what the step spends its time on, and what is left out."""
        trace, ends = self.trace, self.trace.all
        whole = max(end for _, end in ends) - min(start for start, _ in ends)
        npus = trace.npus or max((event.npus for event in trace.collectives), default=0)
        groups: dict[str, list[CollectiveEvent]] = {}
        for event in self.collectives:
            groups.setdefault(f"of it {event.npus} NPUs of {event.group}"[:60], []).append(event)
        more = {name: events for name, events in groups.items() if len(groups) > 1}
        other_steps = len(trace.collectives) - len(self.collectives)
        lines = [
            ("trace", f"1 of {npus} NPUs; hosts are not known", whole),
            ("step", self.name, self.length),
            ("communication", _what(self.collectives), _total(self.communication)),
            *((name, _what(events), _total(self._within(_spans(events)))) for name, events in more.items()),
            *((f"of it {name}", "no sizes, stays as it is", _total(spans)) for name, spans in self.others.items()),
            ("compute", f"{len(self.kernels)} kernels", _total(self.compute)),
            ("communication exposed", "", _total(self.exposed)),
            ("left out: other steps", f"{other_steps} collectives", whole - self.length if other_steps else 0),
            ("left out: NCCL without sizes", f"{len(trace.without_size)} kernels", _total(trace.without_size)),
        ]
        exposed = _total(self.exposed) / self.length
        limit = "yes" if exposed > 0.5 else "partly" if exposed >= 0.05 else "no"
        rows = [
            (name, what, format_short_time(time), format_percent(time / self.length))
            for name, what, time in lines
            if time or not name.startswith("left out")
        ]
        rows.append(("communication is the bottleneck", "", limit, format_percent(exposed)))
        return [dict(zip(("quantity", "number", "time", "share"), row, strict=True)) for row in rows]

    def doubts(self) -> list[str]:
        """Kernels that may be communication, or are, and of which the model knows no bytes."""
        doubts = [
            f"{name} communicates for {format_short_time(_total(spans))} of the step without sizes, and stays as it is."
            for name, spans in self.others.items()
        ]
        names = {name: time for name, spans in self.trace.doubtful.items() if (time := _total(self._within(spans)))}
        doubts += [
            f"{name} looks like communication and counts as compute, for {format_short_time(time)} of the step."
            for name, time in sorted(names.items(), key=lambda item: -item[1])
        ]
        return doubts

    def judged(self, instance: Instance) -> tuple[tuple[str, ...], dict[str, list[dict[str, str]]]]:
        """What was measured beside the model, and the gain of the best launching policy there."""
        from themis_opt.policies.registry import make_policy, usual_policies
        from themis_opt.schedules.simulator import simulate
        from themis_opt.solving.bounds import bounds, bounds_of
        from themis_opt.solving.cut import too_slow

        as_traced, *others = usual_policies(instance)
        traced = simulate(instance, make_policy(as_traced)(instance))
        periods = {name: simulate(instance, make_policy(name)(instance)).makespan for name in others}
        periods[as_traced] = now = traced.makespan
        best = min(periods, key=lambda name: periods[name])
        bound = max(bounds(instance).values())
        rows = [
            _gain("measured", self.length, now),
            _gain(f"as traced, in the model ({as_traced})", now, now),
            _gain(f"best policy ({best})", periods[best], now),
            _gain("no policy beats", bound, now),
        ]
        exposed = _total(self.exposed)
        sentence = (
            f"Your step was measured at {format_short_time(self.length)}: communication is exposed for "
            f"{format_percent(exposed / self.length)} of it, {format_short_time(exposed)}; as traced the model takes "
            f"{format_short_time(now)}, {format_short_time(traced.period.exposed)} of it exposed."
        )
        if exposed - traced.period.exposed > NEAR * self.length:
            rest = format_short_time(exposed - traced.period.exposed)
            sentence += f" The other {rest} are waiting, or kernels without sizes, and stay as they are."
        slow = too_slow(instance, bounds_of(instance)["cut"].compute, self.length)
        if slow:
            rows.append({"iteration": slow, "time": "", "gain": ""})
        if bound > self.length * (1 + NEAR):
            why = slow or "collectives that ran side by side take turns there"
            sentence = f"The model needs {format_short_time(bound)}, more than was measured: {why}. {sentence}"
        return (sentence,), {"what the best launch would gain": rows}


def _chosen(trace: GpuTrace, number: int | None) -> tuple[int, str, Span]:
    """The step of a number, or of median length of those that hold collectives, all with their sizes.

    Steps end with the next mark; one without a next mark counts only if no other does.  Marks are those of the GPU, or
    of the CPU where those hold no collective.  Without marks that hold any, all of the trace is one step.

    Raises InputError if every step holds kernels of NCCL without sizes.
    """
    sized = [event.start for event in trace.collectives]
    starts = sorted([*sized, *(start for start, _ in trace.without_size)])
    marks = next((of for of in trace.marks.values() if any(_holds(span, starts) for span in of.values())), {})
    spans = _from_mark_to_mark(marks, trace.marks["user_annotation"])
    if not marks:
        spans = {-1: (min(start for start, _ in trace.all), max(end for _, end in trace.all))}
    held = [
        number
        for number, span in spans.items()
        if _holds(span, sized) and not any(start < span[1] and end > span[0] for start, end in trace.without_size)
    ]
    if not held:
        rule = f"holds {len(trace.without_size)} kernels of NCCL without their sizes"
        advice = "profile with PyTorch 2.3 or later, or record_shapes"
        raise trace.source.error(f"{rule}: {advice}", "traceEvents: args", "no 'Collective name' and 'In msg nelems'")
    held = [number for number in held if number + 1 in marks] or held
    lengths = sorted((spans[number][1] - spans[number][0], number) for number in held)
    if number is not None and number not in spans:
        raise trace.source.error("must hold the step of the other traces", "ProfilerStep", number)
    number = lengths[len(lengths) // 2][1] if number is None else number
    if not marks:
        return number, "the whole trace is one step", spans[number]
    least, most = (format_short_time(length) for length, _ in (lengths[0], lengths[-1]))
    of = f", the median of {len(held)} steps of {least} to {most}"
    return number, f"ProfilerStep#{number}{of if len(held) > 1 else ''}", spans[number]


def _from_mark_to_mark(marks: Mapping[int, Span], host: Mapping[int, Span]) -> dict[int, Span]:
    """Steps that end where the next one begins; without a next one, no sooner than that of the host."""
    spans = {}
    for number, (start, end) in marks.items():
        begin, stop = host.get(number, (0, 0))
        following, _ = marks.get(number + 1, (0, 0))
        spans[number] = start, following if following > start else max(end, start + stop - begin)
    return spans


def _what(collectives: Sequence[CollectiveEvent]) -> str:
    return f"{len(collectives)} collectives, {format_short_size(sum(event.size for event in collectives))}"


def _spans(collectives: Sequence[CollectiveEvent]) -> list[Span]:
    return [(event.start, event.end) for event in collectives]


def _holds(span: Span, starts: Sequence[int]) -> bool:
    """Whether any of some moments, which are in order, lies in a span."""
    return bisect_left(starts, span[0]) < bisect_left(starts, span[1])


def _gain(name: str, time: float, now: float) -> dict[str, str]:
    return {"iteration": name, "time": format_short_time(time), "gain": format_percent(1 - time / now)}


def _union(spans: Sequence[Span]) -> list[Span]:
    """The spans joined where they overlap, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _within(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The parts of spans in another one, joined where they overlap."""
    return _union([(max(a, start), min(b, end)) for a, b in spans if a < end and b > start])


def _without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of spans that no other covers; both are joined and in order."""
    starts, ends = [start for start, _ in others], [end for _, end in others]
    gaps = list(zip([0, *ends], [*starts, max(ends + [end for _, end in spans], default=0)], strict=True))
    return [
        (max(start, begin), min(end, stop))
        for start, end in spans
        for begin, stop in gaps[bisect_right(starts, start) : bisect_left(ends, end) + 1]
        if start < end
    ]


def _total(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in spans)


def gpu_shares(trace: GpuTrace, span: Span | None = None) -> dict[str, float]:
    """Shares of a span, or of the time from the first kernel to the last, as Holistic Trace Analysis defines them.

    ``idle``: nothing runs.  ``compute``: kernels that compute run.  ``other``: only communication or copies do.
    ``overlap`` is a share of communication: that during which kernels compute.
    Source: https://github.com/facebookresearch/HolisticTraceAnalysis, breakdown_analysis.py, communication_analysis.py.
    """
    begin, end = span or (min(start for start, _ in trace.all), max(end for _, end in trace.all))
    others = [span for spans in trace.others.values() for span in spans]
    sent_spans = [*_spans(trace.collectives), *others, *trace.without_size]
    busy, compute, communication = (_within(spans, begin, end) for spans in (trace.all, trace.compute, sent_spans))
    alone, sent = _total(_without(communication, compute)), _total(communication)
    shares = {"idle": end - begin - _total(busy), "compute": _total(compute)}
    shares["other"] = end - begin - sum(shares.values())
    return {name: time / (end - begin) for name, time in shares.items()} | {
        "overlap": 1 - alone / sent if sent else 0.0
    }


def _share_rows(step: TrainingStep, waits: int) -> Iterator[dict[str, str]]:
    """Shares of the step and of all of its trace, and how long its collectives wait for other ranks."""
    rank = "" if step.trace.rank < 0 else str(step.trace.rank)
    for part, span in (("step", (step.start, step.end)), ("all of the trace", None)):
        shares = {name: format_percent(share) for name, share in gpu_shares(step.trace, span).items()}
        yield {"rank": rank, "part": part, **shares, "waits": format_short_time(waits) if span else ""}


def waits_for_others(steps: Sequence[TrainingStep]) -> list[int]:
    """How long the collectives of each rank take beyond the rank where the same one is shortest, which comes last.

    Clocks of ranks need not agree.  Collectives are the same if group, kind, bytes and number of such in the step are.
    """
    times = defaultdict[object, dict[int, int]](dict)
    for place, step in enumerate(steps):
        count = Counter[object]()
        for event in step.collectives:
            if event.kind is not CollectiveKind.SEND:
                name = event.group, event.ranks, event.kind, event.size
                times[name, count[name]][place] = event.end - event.start
                count[name] += 1
    waits = [0] * len(steps)
    for by_place in times.values():
        for place, time in by_place.items():
            waits[place] += time - min(by_place.values())
    return waits


def late_rank(steps: Sequence[TrainingStep], waits: Sequence[int]) -> Iterator[str]:
    """Which of several ranks the others wait for, and how long."""
    if len(steps) < 2:
        return
    late, most = (waits.index(worst) for worst in (min(waits), max(waits)))
    ranks, step = [one.trace.rank for one in steps], steps[most]
    share = format_percent(waits[most] / step.length)
    if waits[most] < NEAR * step.length:
        yield f"No rank is late: collectives of rank {ranks[most]} wait the longest, {share} of the step."
        return
    longest = f"those of rank {ranks[most]} wait the longest, {format_short_time(waits[most])}, {share} of the step"
    yield f"Rank {ranks[late]} is late: collectives of other ranks wait for it; {longest}."


def _stride(event: CollectiveEvent) -> int:
    """How far the NPUs of a group are apart; 1 where it is not known."""
    return event.ranks[1] - event.ranks[0] if len(event.ranks) > 1 else 1


def _machine(step: TrainingStep) -> Machine:
    """The network of the trace, on which start-ups occupy, and no collective takes longer than it was measured."""
    collectives, source = step.collectives, step.trace.source
    reached = 1
    grouped: list[list[CollectiveEvent]] = []
    spanning: list[CollectiveEvent] = []
    groups = sorted({(_stride(event), event.npus) for event in collectives})
    for stride, npus in groups:
        events = [event for event in collectives if (_stride(event), event.npus) == (stride, npus)]
        if stride == reached:
            grouped.append(events)
            reached *= npus
        else:
            spanning += events
    if any((_stride(event), event.npus) != (1, reached) for event in spanning) or not grouped:
        rule = "groups must be dimensions, each the next one, or all of them: name a file of the network too"
        shown = ", ".join(f"{npus} at steps of {stride}" for stride, npus in groups)
        raise source.error(rule, "Process Group Ranks", shown)
    chunks = SPANNING_CHUNKS if spanning else 1
    dimensions = tuple(_dimension(events, f"dim{k}", chunks) for k, events in enumerate(grouped, start=1))
    machine = Machine(Network(name="trace", dimensions=dimensions), chunks=chunks, latency="occupy")
    quickest = {(event.kind, event.size): event for event in sorted(spanning, key=lambda e: e.start - e.end)}
    slowest = max((_alone(machine, event) / (event.end - event.start) for event in quickest.values()), default=1.0)
    if slowest <= 1:
        return machine
    faster = (
        one.replace(bandwidth=min(one.bandwidth * slowest, MAX_BANDWIDTH), latency=f"{int(one.latency / slowest)} ps")
        for one in dimensions
    )
    return replace(machine, network=Network(name="trace", dimensions=tuple(faster)))


def _alone(machine: Machine, event: CollectiveEvent) -> int:
    """Picoseconds of a collective of all NPUs on an idle network."""
    from themis_opt.policies.registry import make_policy
    from themis_opt.schedules.simulator import simulate

    collective = Collective(kind=event.kind, size=event.size, chunks=machine.chunks)
    instance = Instance(network=machine.network, collectives=(collective,), latency=machine.latency)
    return simulate(instance, make_policy("baseline")(instance)).makespan


def _dimension(collectives: Sequence[CollectiveEvent], name: str, chunks: int) -> Dimension:
    """A ring on which none of some collectives takes longer than it was measured, and all together as long as can be.

    With steps k, bytes n and times t, the latency a and the time of a byte b maximise the sum of k a + n b, each of
    which is at most t.  In units of the sums of k and n, a and b are r and 1 - r over the largest
    (k r + n (1 - r)) / t, which is convex in r.
    """
    npus = collectives[0].npus
    ring = Dimension(kind=Kind.RING, size=npus, name=name, bandwidth=1.0)
    rows = np.array([_costs(ring, event, chunks) for event in collectives])
    whole = rows.sum(axis=0)
    scaled = rows / whole / _shared(_spans(collectives))[:, None]

    def slowest(share: float) -> float:
        return float((scaled @ np.array([share, 1 - share])).max())

    low, high = 0.0, 1.0
    for _ in range(ROUNDS_OF_SECTION):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if slowest(left) <= slowest(right) else (left, high)
    share = 0.0 if slowest(0.0) <= slowest(low) * (1 + 1e-12) else low
    latency, byte = np.array([share, 1 - share]) / slowest(share) / whole
    return ring.replace(
        bandwidth=min(PICOSECONDS_PER_SECOND / max(byte, 1e-12), MAX_BANDWIDTH),
        latency=f"{int(latency)} ps",
        source="no collective of the trace takes longer than it was measured",
    )


def _costs(dimension: Dimension, event: CollectiveEvent, chunks: int) -> tuple[float, float]:
    """Steps of all chunks, and bytes that an NPU sends."""
    phases = event.kind.rule.phases
    blocks = sum(blocks_sent(dimension, phase) for phase in phases)
    return chunks * sum(steps(dimension, phase) for phase in phases), event.size * blocks / event.npus


def _shared(spans: Sequence[Span]) -> FloatArray:
    """How long each of some collectives would take alone, if those that overlap have the dimension in equal shares."""
    moments, places = np.unique(np.ravel(spans), return_inverse=True)
    starts, ends = places[::2], places[1::2]
    active = np.cumsum(np.bincount(starts, minlength=len(moments)) - np.bincount(ends, minlength=len(moments)))
    alone = np.append(0.0, np.cumsum(np.diff(moments) / np.maximum(active[:-1], 1)))
    shares: FloatArray = alone[ends] - alone[starts]
    return shares


class _Placed(NamedTuple):
    """A collective in the model: when it leaves, when it is needed, and whether that is in the next step."""

    event: CollectiveEvent
    dimensions: tuple[str, ...] | None
    leaves: int
    needed: int
    later: bool


def _placed(step: TrainingStep, machine: Machine, *, is_fitted: bool) -> list[_Placed]:
    """Where the collectives of a step lie: on a network that fits, they leave in time to end as they did."""
    alone: dict[object, int] = {}
    named = dict(zip(machine.network.dimension_names, machine.network.dimensions, strict=True))
    free = dict.fromkeys(named, step.end)
    placed = []
    for event in sorted(step.collectives, key=lambda event: -event.end):
        dimensions, leaves = _dimensions(step.trace.source, event, machine.network), event.start
        if is_fitted:
            names = dimensions or tuple(named)
            key = (event.kind, event.size, names)
            if key not in alone and len(names) > 1:
                alone[key] = _alone(machine, event)
            elif key not in alone:
                num_steps, sent = _costs(ring := named[names[0]], event, machine.chunks)
                alone[key] = math.ceil(num_steps * ring.latency + sent * PICOSECONDS_PER_SECOND / ring.bandwidth)
            leaves = max(event.start, min(event.end, *(free[name] for name in names)) - alone[key])
            free |= dict.fromkeys(names, leaves)
        placed.append(_Placed(event, dimensions, leaves, *_needed(step, event)))
    return sorted(placed, key=lambda one: (one.event.start, one.leaves))


def _built(step: TrainingStep, machine: Machine, *, is_fitted: bool) -> Instance:
    """Tasks between the starts of collectives and the places where they are needed."""
    placed = _placed(step, machine, is_fitted=is_fitted)
    cuts = sorted({step.start, *(one.leaves for one in placed), *(one.needed for one in placed), step.end})
    waits = np.diff(_running([*_waited(step, placed), (step.end, step.end)], cuts)).tolist()
    draft = Draft(step.trace.source)
    names = {step.start: draft.task("start", 0)}
    after: dict[int, str] = {}
    for number, (start, end) in enumerate(pairwise(cuts), start=1):
        names[end] = after[start] = draft.task(f"compute {number}", end - start - waits[number - 1])
    for event, dimensions, leaves, needed, later in placed:
        draft.tensor(
            f"{event.kind.value} {event.group}"[:80],
            event.kind,
            event.size,
            (names[leaves], after[needed]),
            dimensions,
            parallelism="data" if event.kind in GRADIENTS else "model",
            later=later,
        )
    return draft.instance(step.trace.source.path.name.partition(".")[0], machine)


def _waited(step: TrainingStep, placed: Sequence[_Placed]) -> list[Span]:
    """When compute waits for collectives: they run, nothing else does, and one is needed before the next kernel."""
    begins = [start for start, _ in step.busy] or [step.end]
    needs = sorted(
        {one.needed for one in placed} | {step.end for one in placed if one.later and one.needed <= begins[0]}
    )
    running = [(one.leaves, min(one.event.end, step.end)) for one in placed]
    running += [(step.start, one.event.end - step.length) for one in placed if one.event.end > step.end]
    waited = []
    for start, end in _without(_union(running), step.busy):
        kernel = bisect_left(begins, end)
        gap = begins[kernel] if kernel < len(begins) else step.end
        count = bisect_right(needs, gap)
        if count and needs[count - 1] > start:
            waited.append((start, min(end, needs[count - 1])))
    return waited


def _running(spans: Sequence[Span], cuts: Sequence[int]) -> IntArray:
    """How much of spans lies before each cut; they are in order, apart, and the last one ends behind all cuts."""
    edges: IntArray = np.array(spans)
    over = np.searchsorted(edges[:-1, 1], cuts, "right")
    sums: IntArray = np.cumsum([0, *np.diff(edges).ravel()])[over] + np.maximum(cuts - edges[over, 0], 0)
    return sums


def _needed(step: TrainingStep, event: CollectiveEvent) -> tuple[int, bool]:
    """When compute needs a collective, as the top of the module says, and whether that is in the next step."""
    place = event.end
    if event.kind in GRADIENTS:
        gap = bisect_left(step.exposed_ends, event.end)
        place = step.exposed_ends[gap] if gap < len(step.exposed_ends) else step.end
    later = place >= step.end
    if later:
        place = max(event.end - step.length, step.start)
        place = place if place < step.end else step.start
    number = bisect_right(step.compute, (place, step.end)) - 1
    if number < 0 or step.compute[number][1] <= place:
        return place, later  # the GPU waits for the host, which no order of collectives shortens
    kernel = bisect_left(step.kernels, place)
    return (step.kernels[kernel], later) if kernel < len(step.kernels) else (step.start, True)


def _dimensions(source: Source, event: CollectiveEvent, network: Network) -> tuple[str, ...] | None:
    """The dimensions that a group fills, by its ranks, or by its size where they are not known."""
    if event.npus == network.num_npus:
        return None
    dimensions = dimensions_of(network, event.ranks) if event.ranks else dimensions_by_size(event.npus, network)
    if dimensions is None:
        shape = " x ".join(map(str, network.sizes))
        rule = f"fills no dimensions of the network of {shape}"
        raise source.error(rule, "Process Group Ranks", event.ranks or event.npus)
    return dimensions


READER = Reader(
    "trace of the PyTorch profiler",
    ("json",),
    lambda source: (
        '"traceEvents"' in source.head or ('"schemaVersion"' in source.head and '"deviceProperties"' in source.head)
    ),
    _read,
)

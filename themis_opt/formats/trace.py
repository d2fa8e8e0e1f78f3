"""Schedules as traces in the Chrome JSON format, for ui.perfetto.dev and chrome://tracing.

The format: Duerig et al., *Trace Event Format*,
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.base.units import NANOSECONDS_PER_MICROSECOND, PICOSECONDS_PER_MICROSECOND, PICOSECONDS_PER_NANOSECOND
from themis_opt.formats.timeline import MAX_PICTURED_BARS, Timeline, is_pictured, last_iterations
from themis_opt.problem.phases import Phase
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.timed import TimedOperations

NETWORK, IN_FLIGHT, NPU = 1, 2, 3  # process numbers: stages that hold a dimension, results on their way, and compute
COMPUTE = 1  # the only track of the NPU
MAX_TRACED_STAGES = 200_000  # stages that viewers load
EVENTS_PER_STAGE = 5
"""A slice, a flow step, a slice in flight and two counter values: viewers load about a million events."""

MAX_ITERATIONS = 7

TraceEvent = dict[str, Any]


def chrome_trace(schedule: Schedule) -> dict[str, Any]:
    """The schedule as a trace, ready for JSON.

    Process *network* has one track per dimension, and arrows link the stages of each chunk.  Process *in flight* shows
    the step latencies that delay chunks without holding a dimension, on as few tracks as there are at once.  Process
    *NPU* has compute, with arrows from the tasks that release launches and to those that wait for results.  The
    last complete iterations are shown, as many as can be read.  Times are microseconds with all their picoseconds.

    Raises InputError if the plan has more than :data:`MAX_TRACED_STAGES` stages.
    """
    if (stages := schedule.plan.num_stages) > MAX_TRACED_STAGES:
        most = EVENTS_PER_STAGE * MAX_TRACED_STAGES
        rule = f"a trace of {stages} stages holds about {EVENTS_PER_STAGE * stages} events and viewers load {most}"
        raise InputError(f"{rule}; use at most {MAX_TRACED_STAGES} stages, with fewer chunks", field="chunks")
    count = min(max(MAX_PICTURED_BARS // stages, 1), MAX_ITERATIONS)
    timeline = last_iterations(schedule, count)
    at_tasks, at_stages = _launch_arrows(timeline)
    return {
        "traceEvents": [*_compute_events(timeline, at_tasks), *_network_events(timeline, at_stages)],
        "displayTimeUnit": "ns",
        "otherData": {"instance": schedule.instance.name, "fingerprint": schedule.instance.fingerprint},
    }


def _process(pid: int, name: str, tracks: Iterable[tuple[int, str]], place: int) -> Iterator[TraceEvent]:
    """A process and its tracks by number; `place` is where it stands among processes."""
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": place}}
    for tid, track in tracks:
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": track}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


class _TracedStage(NamedTuple):
    """A shown stage as its events need it; `label` and `track` are those of its chunk, times are in picoseconds."""

    label: str
    chunk: int
    track: int
    phase: str
    tid: int
    dimension: str
    is_first: bool
    is_last: bool
    bytes_sent: float
    bytes_held: float
    start: int
    end: int
    ready: int


def _stages(timeline: Timeline) -> list[_TracedStage]:
    schedule, plan, numbers = timeline.schedule, timeline.schedule.plan, timeline.stage_in_plan
    names = [schedule.launched[launch].name for launch in plan.launch_of_stage[numbers].tolist()]
    if len(timeline.iterations) > 1:
        iterations = timeline.stage_iterations.tolist()
        names = [f"{name} i{iteration}" for name, iteration in zip(names, iterations, strict=True)]
    phases = [Phase(phase).rule.label for phase in plan.phases(schedule.instance).tolist()]
    is_first = plan.positions[numbers] == 0
    columns: tuple[list[Any], ...] = (
        names,
        plan.chunk_of_stage[numbers].tolist(),
        is_first.cumsum().tolist(),
        [phases[number] for number in numbers.tolist()],
        (timeline.stage_lanes + 1).tolist(),
        [timeline.lane_names[lane] for lane in timeline.stage_lanes.tolist()],
        is_first.tolist(),
        np.append(is_first[1:], True).tolist(),
        schedule.costs.sent[numbers].tolist(),
        schedule.costs.held_before[numbers].tolist(),
        *(times.tolist() for times in (timeline.start, timeline.end, timeline.ready)),
    )
    return [_TracedStage(*row) for row in zip(*columns, strict=True)]


def _network_events(timeline: Timeline, marks: Mapping[int, list[TraceEvent]]) -> Iterator[TraceEvent]:
    """Events of dimensions and chunks; `marks` are more, by the place of the stage behind whose slice they belong.

    Each slice is followed by its flow step: viewers tie a step to the latest slice of its track.
    """
    stages, names = _stages(timeline), timeline.lane_names
    yield from _process(NETWORK, "network", enumerate(names, start=1), NETWORK)
    yield from _latencies(stages)
    for place, stage in enumerate(stages):
        yield _slice(stage)
        yield from _flow(stage)
        yield from marks.get(place, ())
    for k, name in enumerate(names):
        yield from _busy(f"busy {name}", timeline.busy_intervals(k).tolist(), NETWORK)
    times, shares = timeline.busy_bandwidth
    yield from _counter("utilisation", "share", dict(zip(times.tolist(), shares.tolist(), strict=True)), NETWORK)


def _slice(stage: _TracedStage) -> TraceEvent:
    return {
        "ph": "X",
        "pid": NETWORK,
        "tid": stage.tid,
        "name": f"{stage.label} c{stage.chunk} {stage.phase}",
        "cat": stage.phase,
        **_span(stage.start, stage.end),
        "args": {
            "collective": stage.label,
            "chunk": stage.chunk,
            "phase": stage.phase,
            "bytes_sent": stage.bytes_sent,
            "bytes_held": stage.bytes_held,
            "ready_us": microseconds(stage.ready),
        },
    }


def _flow(stage: _TracedStage) -> Iterator[TraceEvent]:
    if stage.is_first and stage.is_last:
        return
    step: TraceEvent = {"ph": "f", "bp": "e"} if stage.is_last else {"ph": "s" if stage.is_first else "t"}
    place = {"pid": NETWORK, "tid": stage.tid, "ts": microseconds(stage.start)}
    yield {**step, **place, "name": "chunk", "cat": "chunk", "id": stage.track}


def _latencies(stages: Sequence[_TracedStage]) -> Iterator[TraceEvent]:
    """Results on their way, each on the track that is free first, or a new one."""
    free: list[tuple[int, int]] = []
    events: list[TraceEvent] = []
    for stage in sorted((stage for stage in stages if stage.ready > stage.end), key=lambda stage: stage.end):
        lane = heapq.heappop(free)[1] if free and free[0][0] <= stage.end else len(free) + 1
        heapq.heappush(free, (stage.ready, lane))
        place = {"ph": "X", "pid": IN_FLIGHT, "tid": lane, "name": f"{stage.dimension} {stage.phase}", "cat": "latency"}
        events.append({**place, **_span(stage.end, stage.ready), "args": {"chunk": stage.track}})
    if events:
        yield from _process(IN_FLIGHT, "in flight", ((n + 1, f"lane {n + 1}") for n in range(len(free))), IN_FLIGHT)
        yield from events


class _TracedTask(NamedTuple):
    """A compute task of an iteration."""

    iteration: int
    number: int


def _compute_events(timeline: Timeline, marks: Mapping[_TracedTask, list[TraceEvent]]) -> Iterator[TraceEvent]:
    """Events of compute up to the task with which the iteration after the window begins; `marks` stand behind tasks."""
    schedule, begin = timeline.schedule, timeline.begin
    if not schedule.has_period:
        return
    chains = schedule.instance.chains
    names = [f"compute of stage {stage}" if len(chains) > 1 else "compute" for stage in range(1, len(chains) + 1)]
    yield from _process(NPU, "NPU", list(enumerate(names, start=COMPUTE)), 0)
    busy: list[list[tuple[int, int]]] = [[] for _ in chains]
    for task in _tasks(timeline):
        start, end = (int(times[task]) - begin for times in (schedule.task_start, schedule.period.task_end))
        compute = schedule.instance.tasks[task.number]
        place = {"ph": "X", "pid": NPU, "tid": COMPUTE + compute.stage, "name": compute.name, "cat": "compute"}
        yield {**place, **_span(start, end), "args": {"iteration": task.iteration}}
        yield from marks.get(task, ())
        if end > start:
            busy[compute.stage].append((start, end))
    for name, intervals in zip(names, busy, strict=True):
        yield from _busy(f"busy {name}", intervals, NPU)


def _tasks(timeline: Timeline) -> list[_TracedTask]:
    tasks = range(len(timeline.schedule.instance.tasks))
    return [
        *(_TracedTask(row, task) for row in timeline.iterations for task in tasks),
        _TracedTask(timeline.iterations.stop, 0),
    ]


def _launch_arrows(timeline: Timeline) -> tuple[dict[_TracedTask, list[TraceEvent]], dict[int, list[TraceEvent]]]:
    """The ends of all arrows between tasks and stages, by the task and by the place of the shown stage they touch."""
    at_tasks: dict[_TracedTask, list[TraceEvent]] = defaultdict(list)
    at_stages: dict[int, list[TraceEvent]] = defaultdict(list)
    schedule, shown, first = timeline.schedule, set(_tasks(timeline)), int(timeline.stages[0])
    arrows = [arrow for row in timeline.iterations for arrow in _arrows(schedule, row) if arrow[1] in shown]
    for number, (name, task, stage) in enumerate(arrows, start=1):
        tail, head = (
            {**end, "name": name, "cat": "launch", "id": number} for end in ({"ph": "s"}, {"ph": "f", "bp": "e"})
        )
        of_task, of_stage = (tail, head) if name == "launch" else (head, tail)
        start = int(schedule.task_start[task]) - timeline.begin
        tid = COMPUTE + schedule.instance.tasks[task.number].stage
        at_tasks[task].append(of_task | {"pid": NPU, "tid": tid, "ts": microseconds(start)})
        place = stage - first
        where = {"pid": NETWORK, "tid": int(timeline.stage_lanes[place]) + 1, "ts": microseconds(timeline.start[place])}
        at_stages[place].append(of_stage | where)
    return at_tasks, at_stages


def _arrows(schedule: Schedule, row: int) -> Iterator[tuple[str, _TracedTask, int]]:
    """To and from every launch of an iteration: ``launch`` or ``result``, the task, and the number of the stage."""
    offset, plan = row * schedule.plan.num_stages, schedule.plan
    for launch, (firsts, lasts) in zip(plan.launches_of(schedule.instance), plan.ends_of_chunks, strict=True):
        for name, of, stages, times, extreme in (
            ("launch", launch.after, firsts + offset, schedule.start, np.argmin),
            ("result", launch.before, lasts + offset, schedule.ready, np.argmax),
        ):
            if of is not None:
                yield name, _TracedTask(row + of.later, of.task), int(stages[extreme(times[stages])])


def _busy(name: str, intervals: Iterable[Sequence[int]], pid: int) -> Iterator[TraceEvent]:
    values: dict[int, float] = {0: 0}
    for start, end in intervals:
        values |= {start: 1, end: 0}
    return _counter(name, "busy", values, pid)


def _counter(name: str, series: str, values: Mapping[int, float], pid: int) -> Iterator[TraceEvent]:
    for time, value in values.items():
        yield {"ph": "C", "pid": pid, "name": name, "ts": microseconds(time), "args": {series: value}}


def _span(start: int, end: int) -> TraceEvent:
    return {"ts": microseconds(start), "dur": microseconds(end - start)}


def microseconds(picoseconds: int) -> float:
    """Picoseconds in microseconds; no less where Perfetto multiplies by 1000 and cuts all but whole nanoseconds off.

    Cut begins and durations add up to no more than the cut end, so that neighbours never overlap there.
    """
    value = int(picoseconds) / PICOSECONDS_PER_MICROSECOND
    cut = int(picoseconds) // PICOSECONDS_PER_NANOSECOND
    return value if int(value * NANOSECONDS_PER_MICROSECOND) == cut else math.nextafter(value, math.inf)


def trace_json(schedule: Schedule) -> str | None:
    """The trace as the text of a file, unless it would be too long to be read."""
    return json.dumps(chrome_trace(schedule)) + "\n" if is_pictured(schedule) else None


def operations_trace(timed: TimedOperations, name: str) -> str:
    """The operations as a trace in the Chrome JSON format, one track for each resource; times in microseconds.

    Events are written as text at once: as objects, each would take twice as long as its place in the schedule.
    """
    tracks = [
        f'{{"ph": "M", "pid": 1, "tid": {number}, "name": "thread_name", "args": {{"name": {json.dumps(resource)}}}}}'
        for number, resource in enumerate(timed.resources)
    ]
    labels = map(encode_basestring_ascii, map(timed.label, range(len(timed.start))))
    numbers = (timed.operations.resource, timed.start, timed.operations.duration)
    slices = [
        f'{{"ph": "X", "pid": 1, "tid": {resource}, "name": {label}, '
        f'"ts": {start / PICOSECONDS_PER_MICROSECOND}, "dur": {duration / PICOSECONDS_PER_MICROSECOND}}}'
        for label, resource, start, duration in zip(labels, *(column.tolist() for column in numbers), strict=True)
    ]
    events, about = ",\n".join([*tracks, *slices]), json.dumps({"problem": name})
    return f'{{"traceEvents": [\n{events}\n], "displayTimeUnit": "ns", "otherData": {about}}}\n'

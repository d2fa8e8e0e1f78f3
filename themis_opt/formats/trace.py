"""Schedules as traces in the Chrome JSON format, for ui.perfetto.dev and chrome://tracing.

The format: Duerig et al., *Trace Event Format*,
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from themis_opt.errors import InputError
from themis_opt.formats.activity import busy_bandwidth, busy_intervals
from themis_opt.formats.labels import PHASE_ABBREVIATIONS
from themis_opt.plan import Stage
from themis_opt.schedule import Schedule

NETWORK, IN_FLIGHT = 1, 2
"""Process numbers: stages that hold a dimension, and results on their way."""

MAX_STAGES = 200_000
EVENTS_PER_STAGE = 5
"""A slice, a flow step, a slice in flight and two counter values: viewers load about a million events."""

Event = dict[str, Any]

NO_MARKS: Mapping[int, Sequence[Event]] = MappingProxyType({})


def chrome_trace(schedule: Schedule) -> dict[str, Any]:
    """The schedule as a trace, ready for JSON.

    Process *network* has one track per dimension; a stage is a slice such as ``gradients c3 RS``, and arrows
    link the stages of each chunk.  Process *in flight* has one track per chunk and shows the step latencies
    that delay the chunk without holding a dimension.  Counters show which dimensions are busy, and the
    share of the bandwidth that is.  Times are cut to the whole nanoseconds viewers keep.

    Raises
    ------
    InputError
        If the plan has more than :data:`MAX_STAGES` stages.
    """
    return {
        "traceEvents": network_events(schedule),
        "displayTimeUnit": "ns",
        "otherData": {"instance": schedule.instance.name, "fingerprint": schedule.instance.fingerprint},
    }


def network_events(schedule: Schedule, marks: Mapping[int, Sequence[Event]] = NO_MARKS) -> list[Event]:
    """All events of a schedule; `marks` are more of them that belong behind the slices of some stages.

    Raises
    ------
    InputError
        If the plan has more than :data:`MAX_STAGES` stages.
    """
    _check_size(schedule)
    return [*_metadata(schedule), *_stage_events(schedule, marks), *_counters(schedule)]


def _check_size(schedule: Schedule) -> None:
    count = schedule.plan.num_stages
    if count > MAX_STAGES:
        raise InputError(
            f"a trace of {count} stages holds about {EVENTS_PER_STAGE * count} events and viewers load "
            f"{EVENTS_PER_STAGE * MAX_STAGES}; use at most {MAX_STAGES} stages, with fewer chunks",
            field="chunks",
        )


def _metadata(schedule: Schedule) -> Iterator[Event]:
    dimensions = enumerate(schedule.instance.network.dimension_names, start=1)
    yield from process(NETWORK, "network", dimensions)
    if (schedule.ready > schedule.end).any():
        yield from process(IN_FLIGHT, "in flight", _chunk_tracks(schedule))


def process(pid: int, name: str, tracks: Iterable[tuple[int, str]], place: int | None = None) -> Iterator[Event]:
    """A process and its tracks by number; `place` is where it stands among processes, by default at its number."""
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid if place is None else place}}
    for tid, track in tracks:
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": track}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _chunk_tracks(schedule: Schedule) -> Iterator[tuple[int, str]]:
    chunks = (
        f"{label} c{chunk}"
        for label, part in zip(schedule.instance.labels, schedule.plan.chunks, strict=True)
        for chunk in range(len(part.sizes))
    )
    return enumerate(chunks, start=1)


def _stage_events(schedule: Schedule, marks: Mapping[int, Sequence[Event]]) -> Iterator[Event]:
    """Slices, each followed by its flow step: viewers tie a step to the latest slice of its track."""
    track = 0
    for number, stage in enumerate(schedule.plan.stages(schedule.instance)):
        track += stage.position == 0
        yield _slice(schedule, number, stage)
        yield from _flow(schedule, number, stage, track)
        yield from marks.get(number, ())
        if schedule.ready[number] > schedule.end[number]:
            yield _in_flight(schedule, number, stage, track)


def _slice(schedule: Schedule, number: int, stage: Stage) -> Event:
    label, phase = schedule.instance.labels[stage.collective], PHASE_ABBREVIATIONS[stage.phase]
    return {
        "ph": "X",
        "pid": NETWORK,
        "tid": stage.dimension + 1,
        "name": f"{label} c{stage.chunk} {phase}",
        "cat": phase,
        **span(schedule.start[number], schedule.end[number]),
        "args": {
            "collective": label,
            "chunk": stage.chunk,
            "phase": phase,
            "bytes_sent": float(schedule.costs.sent[number]),
            "bytes_held": float(schedule.costs.held_before[number]),
            "ready_us": microseconds(schedule.ready[number]),
        },
    }


def _flow(schedule: Schedule, number: int, stage: Stage, flow: int) -> Iterator[Event]:
    last = schedule.plan.chunks[stage.collective].paths.shape[1] - 1
    if last == 0:
        return
    step: Event = {"ph": "s"} if stage.position == 0 else {"ph": "t"}
    if stage.position == last:
        step = {"ph": "f", "bp": "e"}
    place = {"pid": NETWORK, "tid": stage.dimension + 1, "ts": microseconds(schedule.start[number])}
    yield {**step, **place, "name": "chunk", "cat": "chunk", "id": flow}


def _in_flight(schedule: Schedule, number: int, stage: Stage, track: int) -> Event:
    dimension = schedule.instance.network.dimension_names[stage.dimension]
    return {
        "ph": "X",
        "pid": IN_FLIGHT,
        "tid": track,
        "name": f"{dimension} {PHASE_ABBREVIATIONS[stage.phase]}",
        "cat": "latency",
        **span(schedule.end[number], schedule.ready[number]),
    }


def _counters(schedule: Schedule) -> Iterator[Event]:
    for k, name in enumerate(schedule.instance.network.dimension_names):
        values: dict[int, float] = {0: 0}
        for start, end in busy_intervals(schedule, k).tolist():
            values |= {start: 1, end: 0}
        yield from counter(f"busy {name}", "busy", values)
    times, shares = busy_bandwidth(schedule)
    yield from counter("utilisation", "share", dict(zip(times.tolist(), shares.tolist(), strict=True)))


def counter(name: str, series: str, values: Mapping[int, float], pid: int = NETWORK) -> Iterator[Event]:
    """Values of a counter by their picosecond."""
    for time, value in values.items():
        yield {"ph": "C", "pid": pid, "name": name, "ts": microseconds(time), "args": {series: value}}


def span(start: int, end: int) -> Event:
    """Begin and duration; both ends are cut to nanoseconds first, so that neighbours still touch."""
    return {"ts": microseconds(start), "dur": microseconds((int(end) // 1000 - int(start) // 1000) * 1000)}


def microseconds(picoseconds: int) -> float:
    """Whole nanoseconds in microseconds, never below: Perfetto multiplies by 1000 and cuts the rest off."""
    nanoseconds = int(picoseconds) // 1000
    value = nanoseconds / 1000
    return value if int(value * 1000) == nanoseconds else math.nextafter(value, math.inf)

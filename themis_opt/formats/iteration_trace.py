"""Iterations as traces in the Chrome JSON format: compute, network, and what waits for what."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from themis_opt.formats.iteration_span import unfolded
from themis_opt.formats.trace import MAX_STAGES, NETWORK, Event, counter, microseconds, network_events, process, span
from themis_opt.iterations.schedule import IterationSchedule

NPU, COMPUTE = 3, 1
"""Process of compute, which is shown above the network, and its only track."""

MAX_ITERATIONS = 7


class _Task(NamedTuple):
    iteration: int
    number: int


class _Arrow(NamedTuple):
    """Between a task and a stage of the iteration that launches; `name` is ``launch`` towards it, else ``result``."""

    name: str
    task: _Task
    stage: int
    iteration: int


def iteration_trace(schedule: IterationSchedule) -> dict[str, Any]:
    """The complete iterations of a schedule as a trace, ready for JSON.

    Process *NPU* has the track *compute*, process *network* those of :func:`themis_opt.formats.trace.chrome_trace`.
    For every launch an arrow leads from the task that releases it to its first stage, and one from the stage whose
    result comes last to the task that waits for it.  Where there are more than :data:`MAX_ITERATIONS` iterations, or
    :data:`themis_opt.formats.trace.MAX_STAGES` stages in all, only the last ones are shown.

    Raises
    ------
    InputError
        If one iteration has more stages than that.
    """
    last = schedule.num_iterations - 1
    count = max(min(MAX_STAGES // schedule.plan.chunks.num_stages, MAX_ITERATIONS), 1)
    rows = range(max(last - count, 0), last)
    begin = int(schedule.task_start[rows[0], 0])
    tasks = [_Task(row, task) for row in rows for task in range(len(schedule.instance.iteration.tasks))]
    tasks.append(_Task(last, 0))
    at_tasks, at_stages = _marks(schedule, rows, set(tasks), begin)
    events = [*process(NPU, "NPU", [(COMPUTE, "compute")], place=0)]
    for task in tasks:
        events += [_slice(schedule, task, begin), *at_tasks[task]]
    events += _busy(schedule, tasks, begin)
    return {
        "traceEvents": events + network_events(unfolded(schedule, rows, begin), at_stages),
        "displayTimeUnit": "ns",
        "otherData": {"instance": schedule.instance.name, "fingerprint": schedule.instance.fingerprint},
    }


def _slice(schedule: IterationSchedule, task: _Task, begin: int) -> Event:
    start, end = (int(times[task]) - begin for times in (schedule.task_start, schedule.task_end))
    return {
        "ph": "X",
        "pid": NPU,
        "tid": COMPUTE,
        "name": schedule.instance.iteration.tasks[task.number].name,
        "cat": "compute",
        **span(start, end),
        "args": {"iteration": task.iteration},
    }


def _busy(schedule: IterationSchedule, tasks: list[_Task], begin: int) -> Iterator[Event]:
    values: dict[int, float] = {0: 0}
    for task in tasks:
        start, end = (int(times[task]) - begin for times in (schedule.task_start, schedule.task_end))
        if end > start:
            values |= {start: 1, end: 0}
    return counter("busy compute", "busy", values, NPU)


def _marks(
    schedule: IterationSchedule, rows: range, shown: set[_Task], begin: int
) -> tuple[dict[_Task, list[Event]], dict[int, list[Event]]]:
    """The ends of all arrows, by the task and by the stage of the shown iterations that they touch."""
    at_tasks: dict[_Task, list[Event]] = defaultdict(list)
    at_stages: dict[int, list[Event]] = defaultdict(list)
    arrows = [arrow for row in rows for arrow in _arrows(schedule, row) if arrow.task in shown]
    for number, arrow in enumerate(arrows, start=1):
        flow: Event = {"name": arrow.name, "cat": "launch", "id": number}
        tail, head = {"ph": "s", **flow}, {"ph": "f", "bp": "e", **flow}
        stage, iteration = arrow.stage, arrow.iteration
        dimension = int(schedule.plan.chunks.stage_dimensions[stage])
        at_task = {"pid": NPU, "tid": COMPUTE, "ts": microseconds(int(schedule.task_start[arrow.task]) - begin)}
        time = int(schedule.stage_start[iteration, stage]) - begin
        at_stage = {"pid": NETWORK, "tid": dimension + 1, "ts": microseconds(time)}
        leaves = arrow.name == "launch"
        at_tasks[arrow.task].append((tail if leaves else head) | at_task)
        place = (iteration - rows[0]) * schedule.plan.chunks.num_stages + stage
        at_stages[place].append((head if leaves else tail) | at_stage)
    return at_tasks, at_stages


def _arrows(schedule: IterationSchedule, row: int) -> Iterator[_Arrow]:
    """To and from every launch of an iteration."""
    for launch, (first, last) in zip(schedule.plan.launches, schedule.plan.ends_of_chunks, strict=True):
        begins = int(first[schedule.stage_start[row, first].argmin()])
        arrives = int(last[schedule.stage_ready[row, last].argmax()])
        yield _Arrow("launch", _Task(row + launch.after.later, launch.after.task), begins, row)
        yield _Arrow("result", _Task(row + launch.before.later, launch.before.task), arrives, row)

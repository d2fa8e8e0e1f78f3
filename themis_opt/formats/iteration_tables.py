"""Schedules of iterations as flat tables: what the NPU waits for, and where the time of each resource goes."""

from typing import Any

import numpy as np

from themis_opt.formats.activity import busy_intervals
from themis_opt.formats.iteration_span import last_periods
from themis_opt.formats.tables import PICOSECONDS_PER_NANOSECOND
from themis_opt.iterations.schedule import IterationSchedule


def wait_rows(schedule: IterationSchedule) -> list[dict[str, Any]]:
    """One row per wait of the NPU in the last complete period, in the order of time.

    Returns
    -------
    list of dict
        `task` waits `wait_ns` from `start_ns` on, counted from the start of the period.  `launch` is the one of those
        it waits for whose result comes last, `parallelism` that of its tensors; both are empty where there is none.
    """
    row = schedule.num_iterations - 2
    begin, tasks = int(schedule.task_start[row, 0]), schedule.instance.iteration.tasks
    starts = [*schedule.task_start[row].tolist(), int(schedule.task_start[row + 1, 0])]
    ends = schedule.task_end[row].tolist()
    rows = []
    for number, (end, start) in enumerate(zip(ends, starts[1:], strict=True), start=1):
        if start > end:
            later, task = divmod(number, len(tasks))
            waited = {"task": tasks[task].name, "start_ns": (end - begin) / PICOSECONDS_PER_NANOSECOND}
            waited |= {"wait_ns": (start - end) / PICOSECONDS_PER_NANOSECOND}
            rows.append(waited | _cause(schedule, row + later, task))
    return rows


def _cause(schedule: IterationSchedule, iteration: int, task: int) -> dict[str, str]:
    """The launch whose result a task waits for longest."""
    arrivals = [
        (int(schedule.launch_ready[iteration - launch.before.later, number]), number)
        for number, launch in enumerate(schedule.plan.launches)
        if launch.before.task == task and iteration >= launch.before.later
    ]
    if not arrivals:
        return {"launch": "", "parallelism": ""}
    launch = schedule.plan.launches[max(arrivals)[1]]
    parallelism = schedule.instance.iteration.tensors[launch.tensors[0]].parallelism
    return {"launch": launch.name, "parallelism": parallelism}


def resource_rows(schedule: IterationSchedule) -> list[dict[str, Any]]:
    """One row for compute and for each dimension: how long it is busy in the last complete period, in ns."""
    period = last_periods(schedule, 1)
    start, end = period.tasks
    busy = {"compute": int((end - start).sum())}
    for k, name in enumerate(period.network.instance.network.dimension_names):
        intervals = busy_intervals(period.network, k)
        busy[name] = int(np.diff(intervals, axis=1).sum())
    return [
        {
            "resource": name,
            "busy_ns": time / PICOSECONDS_PER_NANOSECOND,
            "idle_ns": (period.length - time) / PICOSECONDS_PER_NANOSECOND,
        }
        for name, time in busy.items()
    ]


def task_rows(schedule: IterationSchedule) -> list[dict[str, Any]]:
    """One row per task of the last complete iteration, times in ns from its start on."""
    start, end = last_periods(schedule, 1).tasks
    return [
        {
            "task": task.name,
            "start_ns": begin / PICOSECONDS_PER_NANOSECOND,
            "end_ns": finish / PICOSECONDS_PER_NANOSECOND,
        }
        for task, begin, finish in zip(
            schedule.instance.iteration.tasks, start[0].tolist(), end[0].tolist(), strict=True
        )
    ]

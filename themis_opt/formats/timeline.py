"""The timeline of a schedule, from which every picture and trace is drawn: rows of bars.

It shows a schedule without compute as a whole, and iterations in a row where there is compute, on a clock that starts
with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.schedules.schedule import Schedule

MAX_PICTURED_BARS = 20_000
"""Above this many stages and tasks in an iteration, trace and pictures would not be readable and are left out."""

PICTURED_PERIODS = 2  # iterations that pictures show where there is compute


def is_pictured(schedule: Schedule) -> bool:
    """Whether pictures of a schedule could be read."""
    return schedule.plan.num_stages + len(schedule.instance.tasks) <= MAX_PICTURED_BARS


def is_backward(task: str) -> bool:
    """Whether the name of a task says that it belongs to the backward pass."""
    return any(word in task.lower() for word in ("backward", "bwd", "gradient"))


class Bars(NamedTuple):
    """Bars of one kind, as columns."""

    kind: Literal["task", "wait", "stage"]  # waits are times in which NPUs wait between tasks
    row: IntArray  # rows of the timeline, counted from the top
    start: IntArray  # picoseconds from the begin of the timeline on
    end: IntArray
    number: IntArray  # the task of the iteration, or the stage of the plan; for waits the task before
    label: Sequence[str]  # names of tasks, and numbers of chunks


@dataclass(frozen=True, eq=False)
class Timeline:
    """Some complete iterations of a schedule; times are in picoseconds from their begin on.

    Rows are those of compute, one for each stage of a pipeline, and below them one for each dimension.
    """

    schedule: Schedule
    iterations: range
    begin: int  # when the first of them begins, on the clock of the schedule
    periods: IntArray  # shape (iterations + 1,): starts of the iterations, and the end of the last
    stages: IntArray  # shape (shown stages,): their numbers, iteration after iteration
    start: IntArray  # shape (shown stages,), as are those below: times of a schedule
    end: IntArray
    ready: IntArray

    @property
    def length(self) -> int:
        """Picoseconds from the begin of the first iteration to the end of the last."""
        return int(self.periods[-1])

    @property
    def stage_in_plan(self) -> IntArray:
        """Number of every shown stage in the plan."""
        return self.stages % self.schedule.plan.num_stages

    @property
    def stage_iterations(self) -> IntArray:
        """Iteration of every shown stage."""
        return self.stages // self.schedule.plan.num_stages

    @property
    def lanes(self) -> tuple[tuple[int, int], ...]:
        """The rows of stages: dimensions with the resources that stages hold there."""
        return self.schedule.instance.ports.lanes

    @cached_property
    def lane_names(self) -> tuple[str, ...]:
        """Names of the dimensions, with the direction where there are two."""
        names, ports = self.schedule.instance.fabric.dimension_names, self.schedule.instance.ports
        ways = {k: iter((" out", " in")) for k, against in enumerate(ports.against) if against}
        return tuple(names[k] + (next(ways[k]) if k in ways else "") for k, _ in self.lanes)

    @cached_property
    def stage_lanes(self) -> IntArray:
        """Lane of every shown stage."""
        instance, plan = self.schedule.instance, self.schedule.plan
        held = plan.stage_dimensions * instance.num_resources + plan.stage_resources(instance)
        keys = np.array(self.lanes) @ (instance.num_resources, 1)
        lanes: IntArray = np.searchsorted(keys, held[self.stage_in_plan])
        return lanes

    @cached_property
    def tasks(self) -> tuple[IntArray, IntArray]:
        """Start and end of every task, each of shape (iterations, tasks)."""
        rows = slice(self.iterations.start, self.iterations.stop)
        start = self.schedule.task_start[rows] - self.begin
        return start, start + np.array([task.duration for task in self.schedule.instance.tasks], dtype=np.int64)

    @cached_property
    def compute_rows(self) -> tuple[str, ...]:
        """Names of the rows of compute."""
        instance = self.schedule.instance
        if not self.schedule.has_period:
            return ()
        if instance.num_stages == 1:
            return ("compute",)
        return tuple(f"stage {number}" for number in range(1, instance.num_stages + 1))

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of all rows."""
        return (*self.compute_rows, *self.lane_names)

    @cached_property
    def bars(self) -> tuple[Bars, ...]:
        """All bars, in the order in which they are drawn."""
        return (self.task_bars, self.wait_bars, self.stage_bars) if self.compute_rows else (self.stage_bars,)

    @cached_property
    def stage_bars(self) -> Bars:
        """The shown stages, some of no length."""
        chunks = self.schedule.plan.chunk_of_stage[self.stage_in_plan]
        rows = self.stage_lanes + len(self.compute_rows)
        return Bars("stage", rows, self.start, self.end, self.stage_in_plan, [str(chunk) for chunk in chunks.tolist()])

    @cached_property
    def task_bars(self) -> Bars:
        """The tasks of all shown iterations."""
        tasks, count = self.schedule.instance.tasks, len(self.iterations)
        rows = np.array([task.stage for task in tasks], dtype=np.int64)
        start, end = (times.ravel().clip(0, self.length) for times in self.tasks)  # later stages of a pipeline may lag
        numbers = np.tile(np.arange(len(tasks)), count)
        return Bars("task", np.tile(rows, count), start, end, numbers, [task.name for task in tasks] * count)

    @cached_property
    def wait_bars(self) -> Bars:
        """Times between the tasks of a stage of the pipeline."""
        waits = []
        for row, chain in enumerate(self.schedule.instance.chains):
            start, end = (times[:, list(chain)].ravel().clip(0, self.length) for times in self.tasks)
            following = np.append(start[1:], self.length)
            numbers = np.tile(np.array(chain), len(self.iterations))
            wait = np.stack([np.full_like(end, row), end, following, numbers])
            waits.append(wait[:, following > end])
        rows, starts, ends, numbers = np.concatenate(waits, axis=1)
        return Bars("wait", rows, starts, ends, numbers, ["waits"] * len(rows))

    def busy_time(self, row: int) -> int | None:
        """Picoseconds in which a row is held, or None where nothing uses it."""
        lane = row - len(self.compute_rows)
        if lane < 0:
            start, end = self.tasks
            return int((end - start)[:, list(self.schedule.instance.chains[row])].sum())
        if self.lanes[lane][0] not in self.schedule.dimensions_in_use:
            return None
        intervals = self.busy_intervals(lane)
        return int((intervals[:, 1] - intervals[:, 0]).sum())

    def busy_intervals(self, lane: int) -> IntArray:
        """Maximal intervals in which a lane is held without a pause.

        Returns int64 array, shape (intervals, 2): start and end, ascending.
        """
        held = (self.stage_lanes == lane) & (self.end > self.start)
        order = np.argsort(self.start[held])
        start, end = self.start[held][order], self.end[held][order]
        if not len(start):
            return np.empty((0, 2), dtype=np.int64)
        pauses = np.flatnonzero(start[1:] > end[:-1])
        firsts, lasts = np.append(0, pauses + 1), np.append(pauses, len(end) - 1)
        return np.stack([start[firsts], end[lasts]], axis=1)

    @cached_property
    def busy_bandwidth(self) -> tuple[IntArray, FloatArray]:
        r"""Share of the bandwidth in use that belongs to busy dimensions, as a step function of time.

        At time `t` it is :math:`\sum_{k \text{ busy at } t} B_k / \sum_k B_k` over the dimensions in use; of those that
        are one resource, the sum below takes one.  Where dimensions are held only to send, its mean over the makespan
        is the utilisation.

        Returns times (ascending, from 0 on) and the share from each time to the next, within 0..1; the last is 0.
        """
        instance = self.schedule.instance
        used = [(lane, k) for lane, (k, _) in enumerate(self.lanes) if k in self.schedule.dimensions_in_use]
        intervals = [self.busy_intervals(lane) for lane, _ in used]
        times = np.unique(np.concatenate([np.zeros(1, np.int64), *(both.ravel() for both in intervals)]))
        bandwidths = np.array([instance.fabric.bandwidths[k] for _, k in used])
        total = sum(instance.bandwidth_by_resource.values())
        begun, ended = ([both[:, end].searchsorted(times, side="right") for both in intervals] for end in (0, 1))
        busy = np.array(begun, dtype=np.float64) - np.array(ended)
        shares: FloatArray = np.clip(bandwidths / total @ busy, 0.0, 1.0)
        changes = np.append(True, shares[1:] != shares[:-1])
        return times[changes], shares[changes]


def last_iterations(schedule: Schedule, count: int = 1) -> Timeline:
    """The last `count` complete iterations, or as many as there are, with all of their stages."""
    return _timeline(schedule, count, cut=False)


def last_periods(schedule: Schedule, count: int) -> Timeline:
    """The time of the last `count` complete iterations, or of as many as there are.

    Every stage of which a part lies inside is shown, of whichever iteration, with the rest cut off; others have no
    length.
    """
    return _timeline(schedule, count, cut=True)


def pictured(schedule: Schedule) -> Timeline:
    """The timeline that pictures show."""
    return last_periods(schedule, PICTURED_PERIODS)


def _timeline(schedule: Schedule, count: int, *, cut: bool) -> Timeline:
    """The last complete iterations: where there is compute, the very last of all may be incomplete."""
    complete = schedule.num_iterations - 1 if schedule.has_period else 1
    first, num_stages = max(complete - count, 0), schedule.plan.num_stages
    iterations = range(first, complete)
    ends = schedule.task_start[first:, 0] if schedule.has_period else np.array([0, schedule.makespan])
    begin, periods = int(ends[0]), ends - ends[0]
    if cut:
        ready = schedule.ready.reshape(schedule.num_iterations, -1)[:complete].max(axis=1)
        first = int(np.argmax(ready > begin))  # the iterations themselves reach into their time
    stages = slice(first * num_stages, complete * num_stages)
    times = (array[stages] - begin for array in (schedule.start, schedule.end, schedule.ready))
    if cut:
        times = (array.clip(0, int(periods[-1])) for array in times)
    return Timeline(schedule, iterations, begin, periods, np.arange(stages.start, stages.stop), *times)

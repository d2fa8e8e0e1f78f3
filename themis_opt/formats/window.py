"""The part of a schedule that is written down or drawn: iterations in a row, on a clock that starts with them.

A schedule without compute is shown as a whole.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.schedules.schedule import Schedule

MAX_PICTURED_STAGES = 100_000
"""Above this many stages in an iteration, trace and pictures would not be readable and are left out."""


def is_pictured(schedule: Schedule) -> bool:
    """Whether pictures of a schedule could be read."""
    return schedule.plan.num_stages <= MAX_PICTURED_STAGES


@dataclass(frozen=True, eq=False)
class Window:
    """Some complete iterations of a schedule; times are in picoseconds from their begin on.

    Attributes
    ----------
    schedule : Schedule
        Where they come from.
    iterations : range
        Which they are.
    begin : int
        When the first of them begins, on the clock of the schedule.
    periods : int64 array, shape (iterations + 1,)
        Starts of the iterations, and the end of the last.
    stages : int64 array, shape (shown stages,)
        Numbers of the shown stages, those of one iteration after those of another.
    start, end, ready : int64 arrays, shape (shown stages,)
        Their times, as in :class:`themis_opt.schedules.schedule.Schedule`.
    """

    schedule: Schedule
    iterations: range
    begin: int
    periods: IntArray
    stages: IntArray
    start: IntArray
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

    @cached_property
    def dimensions(self) -> IntArray:
        """Dimension of every shown stage."""
        return self.schedule.plan.stage_dimensions[self.stage_in_plan]

    @cached_property
    def tasks(self) -> tuple[IntArray, IntArray]:
        """Start and end of every task, each of shape (iterations, tasks)."""
        rows = slice(self.iterations.start, self.iterations.stop)
        start = self.schedule.task_start[rows] - self.begin
        return start, start + np.array([task.duration for task in self.schedule.instance.tasks], dtype=np.int64)

    def busy_intervals(self, dimension: int) -> IntArray:
        """Maximal intervals in which a dimension is held without a pause.

        Returns
        -------
        int64 array, shape (intervals, 2)
            Start and end, ascending.
        """
        held = (self.dimensions == dimension) & (self.end > self.start)
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

        Returns
        -------
        times : int64 array
            Ascending, from 0 on.
        shares : float64 array, same shape
            Share from each time to the next, within 0..1; the last is 0.
        """
        used, instance = self.schedule.dimensions_in_use, self.schedule.instance
        intervals = [self.busy_intervals(k) for k in used]
        times = np.unique(np.concatenate([np.zeros(1, np.int64), *(both.ravel() for both in intervals)]))
        bandwidths = np.array([instance.fabric.bandwidths[k] for k in used])
        total = sum({instance.resources[k]: instance.fabric.bandwidths[k] for k in used}.values())
        busy = np.array([_is_busy(both, times) for both in intervals], dtype=np.float64)
        shares: FloatArray = np.clip(bandwidths / total @ busy, 0.0, 1.0)
        changes = np.append(True, shares[1:] != shares[:-1])
        return times[changes], shares[changes]


def _is_busy(intervals: IntArray, times: IntArray) -> IntArray:
    begun = np.searchsorted(intervals[:, 0], times, side="right")
    finished = np.searchsorted(intervals[:, 1], times, side="right")
    return begun - finished


def last_iterations(schedule: Schedule, count: int = 1) -> Window:
    """The last `count` complete iterations, or as many as there are, with all of their stages."""
    iterations = _last(schedule, count)
    return _window(schedule, iterations, iterations)


def last_periods(schedule: Schedule, count: int) -> Window:
    """The time of the last `count` complete iterations, or of as many as there are.

    Every stage of which a part lies inside is shown, of whichever iteration, with the rest cut off; others have no
    length.
    """
    iterations = _last(schedule, count)
    ready = schedule.ready.reshape(schedule.num_iterations, -1)[: iterations.stop].max(axis=1)
    first = int(np.argmax(ready > _begin(schedule, iterations)))  # the iterations themselves reach into their time
    return _window(schedule, iterations, range(first, iterations.stop), cut=True)


def _last(schedule: Schedule, count: int) -> range:
    """The last complete iterations: where there is compute, the very last of all may be incomplete."""
    complete = schedule.num_iterations - 1 if schedule.has_period else 1
    return range(max(complete - count, 0), complete)


def _begin(schedule: Schedule, iterations: range) -> int:
    return int(schedule.task_start[iterations.start, 0]) if schedule.has_period else 0


def _window(schedule: Schedule, iterations: range, shown: range, *, cut: bool = False) -> Window:
    begin, num_stages = _begin(schedule, iterations), schedule.plan.num_stages
    ends = schedule.task_start[iterations.start :, 0] if schedule.has_period else np.array([0, schedule.makespan])
    periods = ends - begin
    own = slice(shown.start * num_stages, shown.stop * num_stages)
    times = (array[own] - begin for array in (schedule.start, schedule.end, schedule.ready))
    if cut:
        times = (array.clip(0, int(periods[-1])) for array in times)
    return Window(schedule, iterations, begin, periods, np.arange(own.start, own.stop), *times)

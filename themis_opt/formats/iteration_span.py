"""Iterations on one clock: their launches as the collectives of an ordinary schedule, for pictures and tables."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from themis_opt.cost import FloatArray, IntArray
from themis_opt.formats.activity import busy_bandwidth
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.plan import Plan
from themis_opt.schedule import Schedule


def unfolded(schedule: IterationSchedule, iterations: range, begin: int = 0) -> Schedule:
    """Complete iterations as one schedule: a collective per iteration and launch, on a clock that starts at `begin`.

    Its collective number ``i`` is launch ``i % launches`` of iteration ``iterations[i // launches]``; names say which
    iteration where there are several.
    """
    plan, rows = schedule.plan, list(iterations)
    several = len(rows) > 1
    collectives = tuple(
        collective.replace(name=f"{collective.name} i{row}" if several else collective.name)
        for row in rows
        for collective in plan.stream.collectives
    )
    stream = plan.stream.replace(collectives=collectives)
    times = (schedule.stage_start, schedule.stage_end, schedule.stage_ready)
    whole = Plan(plan.chunks.chunks * len(rows), plan.chunks.dispatch)
    return Schedule(stream, whole, *(time[rows].ravel() - begin for time in times))


@dataclass(frozen=True)
class Span:
    """The last complete periods of a schedule, cut out of it; times are in picoseconds from its begin on.

    Attributes
    ----------
    schedule : IterationSchedule
        Where they come from.
    first : int
        The iteration at whose start the span begins.
    """

    schedule: IterationSchedule
    first: int

    @property
    def begin(self) -> int:
        """Begin on the clock of the schedule."""
        return int(self.schedule.task_start[self.first, 0])

    @cached_property
    def periods(self) -> IntArray:
        """Starts of the iterations, and the end of the last."""
        return self.schedule.task_start[self.first :, 0] - self.begin

    @property
    def length(self) -> int:
        """Length of all periods together."""
        return int(self.periods[-1])

    @cached_property
    def tasks(self) -> tuple[IntArray, IntArray]:
        """Start and end of every task, each of shape (iterations, tasks)."""
        rows = slice(self.first, -1)
        return self.schedule.task_start[rows] - self.begin, self.schedule.task_end[rows] - self.begin

    @cached_property
    def waits(self) -> tuple[IntArray, IntArray]:
        """Start and end of the times in which the NPU waits."""
        start, end = (times.ravel() for times in self.tasks)
        following = np.append(start[1:], self.length)
        waits = following > end
        return end[waits], following[waits]

    @cached_property
    def network(self) -> Schedule:
        """All stages of which a part lies inside, with the rest cut off; others have no length."""
        last = self.schedule.num_iterations - 1
        reach = [row for row in range(last) if self.schedule.stage_ready[row].max() > self.begin]
        whole = unfolded(self.schedule, range(reach[0] if reach else last - 1, last), self.begin)
        return Schedule(
            whole.instance, whole.plan, *(t.clip(0, self.length) for t in (whole.start, whole.end, whole.ready))
        )

    @cached_property
    def busy_bandwidth(self) -> tuple[IntArray, FloatArray]:
        """Share of the bandwidth in use, as :func:`themis_opt.formats.activity.busy_bandwidth` of the network.

        Dimensions that are one resource count once.
        """
        times, shares = busy_bandwidth(self.network)
        used = self.network.dimensions_in_use
        bandwidths = {self.schedule.instance.resources[k]: self.network.instance.network.bandwidths[k] for k in used}
        every = sum(self.network.instance.network.bandwidths[k] for k in used)
        return times, shares * (every / sum(bandwidths.values()))


def last_periods(schedule: IterationSchedule, count: int) -> Span:
    """The last `count` complete periods of a schedule, or as many as there are."""
    return Span(schedule, max(schedule.num_iterations - 1 - count, 0))

"""A schedule of several iterations in a row, and what it says about one of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from themis_opt.cost import IntArray, StageCosts, read_only
from themis_opt.iteration import Parallelism
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan
from themis_opt.units import PICOSECONDS_PER_SECOND

FEW = 8
"""Iterations up to which the network may still be filling up."""


@dataclass(frozen=True, eq=False)
class IterationSchedule:
    """When all tasks and stages of iterations in a row run, in integer picoseconds.

    Attributes
    ----------
    task_start : int64 array, shape (iterations, tasks)
    stage_start : int64 array, shape (iterations, stages)
        Stages are numbered as in :class:`themis_opt.plan.Plan`; -1 in the last iteration where they belong to a launch
        that waits for one more.
    """

    instance: IterationInstance
    plan: IterationPlan
    task_start: IntArray
    stage_start: IntArray

    def __post_init__(self) -> None:
        for name in ("task_start", "stage_start"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @cached_property
    def costs(self) -> StageCosts:
        """Costs of every stage of one iteration."""
        return self.plan.chunks.costs(self.plan.stream)

    @cached_property
    def task_end(self) -> IntArray:
        """End of every task, shape (iterations, tasks)."""
        durations = np.array([task.duration for task in self.instance.iteration.tasks], dtype=np.int64)
        end: IntArray = self.task_start + durations
        return end

    @cached_property
    def stage_end(self) -> IntArray:
        """When every stage gives its dimension back, shape (iterations, stages)."""
        return self.stage_start + self.costs.occupancy

    @cached_property
    def stage_ready(self) -> IntArray:
        """When every stage has its result, shape (iterations, stages)."""
        return self.stage_end + self.costs.lag

    @property
    def num_iterations(self) -> int:
        """Iterations that were simulated."""
        return len(self.task_start)

    @cached_property
    def launch_ready(self) -> IntArray:
        """When every launch has its result, shape (iterations, launches)."""
        return np.stack([self.stage_ready[:, last].max(axis=1) for _, last in self.plan.ends_of_chunks], axis=1)

    @cached_property
    def is_steady(self) -> bool:
        """Whether the last whole iteration repeats the one before it, shifted in time."""
        if self.num_iterations < 3:
            return False
        own = [np.concatenate([t, s]) for t, s in zip(self.task_start[-3:-1], self.stage_start[-3:-1], strict=True)]
        return bool(((own[1] - own[0]) == self._periods[-1]).all())

    @property
    def _periods(self) -> IntArray:
        return np.diff(self.task_start[:, 0])

    @cached_property
    def iteration_time(self) -> int:
        """From the start of an iteration to the start of the next, in picoseconds.

        The last distance; where iterations do not repeat each other, the largest in the second half of them, or what
        the slowest task or stage takes per iteration there, if that is more.  Few iterations may all be those of a
        network that is still filling up: theirs is no less than what they take if they are repeated as a block.
        """
        found = max(int(self._periods[self._first_period :].max()), self._pace)
        return found if self.is_steady or self.num_iterations > FEW else max(found, self._drained)

    @property
    def _drained(self) -> int:
        """Picoseconds per iteration if those that are whole begin again when all of them are done and have arrived."""
        whole = self.num_iterations - 1
        end = max(int(self.task_end[:whole].max()), int(self.stage_ready[:whole].max(initial=0)))
        return -(-(end - int(self.task_start[0, 0])) // whole)

    @cached_property
    def _pace(self) -> int:
        """Picoseconds per iteration, on average over the periods that are looked at, of the slowest task or stage.

        The first task alone may run ahead of tensors that arrive later and later, for hundreds of iterations, until
        they stop it.  With the same sequences in all iterations, the largest mean advance is never less than the
        iteration time that results (F. Baccelli et al., *Synchronization and Linearity*, 1992).
        """
        first, last = self._first_period, self.num_iterations - 2
        starts = int(self.task_start[-1, 0] - self.task_start[first, 0])
        pace = -(-starts // (last + 1 - first))
        if last > first:
            own = [np.concatenate([self.task_start[row], self.stage_start[row]]) for row in (first, last)]
            pace = max(pace, -(-int((own[1] - own[0]).max()) // (last - first)))
        return pace

    @property
    def _first_period(self) -> int:
        """The first of the periods that are looked at: the last one, or where they differ, the second half."""
        count = len(self._periods)
        return count - 1 if self.is_steady or self.num_iterations < 3 else count // 2

    @property
    def exposed(self) -> int:
        """Picoseconds of an iteration in which the NPU waits for communication."""
        return self.iteration_time - self.instance.compute

    def exposed_by(self, parallelism: Parallelism) -> int:
        """Picoseconds in which the NPU waits in the last whole iteration for tensors of one kind of parallelism.

        A wait counts for the tensor that arrives last.  Where iterations repeat each other, the kinds add up to
        `exposed`.
        """
        row, tensors = self.num_iterations - 1, self.instance.iteration.tensors
        total = 0
        for task, waited in self._waits(row - 1):
            cause = self._latest_launch(task, row - 1)
            total += waited * (cause is not None and tensors[cause].parallelism == parallelism)
        return total

    def _waits(self, iteration: int) -> list[tuple[int, int]]:
        """Tasks of the period that follows the start of an iteration that begin after a wait, and its length.

        The wait before the first task of the following iteration belongs to the period.
        """
        starts = np.append(self.task_start[iteration], self.task_start[iteration + 1, 0])
        gaps = starts[1:] - self.task_end[iteration]
        return [(task + 1, int(gap)) for task, gap in enumerate(gaps.tolist()) if gap > 0]

    def _latest_launch(self, task: int, iteration: int) -> int | None:
        """A tensor of the launch that a task, counted from an iteration on, waits for longest."""
        row, number = divmod(task, len(self.instance.iteration.tasks))
        row += iteration
        arrivals = [
            (int(self.launch_ready[row - launch.before.later, index]), launch.tensors[0])
            for index, launch in enumerate(self.plan.launches)
            if launch.before.task == number and row - launch.before.later >= 0
        ]
        return max(arrivals)[1] if arrivals else None

    @cached_property
    def communicating(self) -> int:
        """Picoseconds of a period in which at least one stage is under way, on a dimension or in flight.

        Where iterations do not repeat each other, it is the mean of the second half of them, at the pace of the slowest
        task or stage.
        """
        begin, end = int(self.task_start[self._first_period, 0]), int(self.task_start[-1, 0])
        known = self.stage_start >= 0
        starts, ends = (a[known].clip(begin, end) for a in (self.stage_start, self.stage_ready))
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        covered = np.maximum.accumulate(np.concatenate([[begin], ends[:-1]]))
        busy = int(np.maximum(ends - np.maximum(starts, covered), 0).sum())
        return busy * self._pace // (end - begin) if end > begin else 0

    @property
    def overlap(self) -> float:
        """Share of the time of communication that compute hides."""
        return 1 - min(self.exposed / self.communicating, 1.0) if self.communicating else 1.0

    @property
    def utilisation(self) -> float:
        """Bytes sent in an iteration over the time of communication times the bandwidth of the dimensions in use."""
        in_use = {k for span in self.instance.spans for k in span}
        resources = {self.instance.resources[k]: self.instance.fabric.bandwidths[k] for k in in_use}
        room = self.communicating * sum(resources.values()) / PICOSECONDS_PER_SECOND
        return float(self.costs.sent.sum()) / room if room else 0.0

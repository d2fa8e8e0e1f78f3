"""One period of a schedule with compute: what iterations in a row say about one of them."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from themis_opt.base.units import format_short_time

if TYPE_CHECKING:
    import pandas

    from themis_opt.base.arrays import IntArray
    from themis_opt.problem.cost import StageCosts
    from themis_opt.problem.exchanges import Parallelism
    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.plan import Plan

FEW = 8  # iterations up to which the network may still be filling up


def covered(starts: IntArray, ends: IntArray, begin: int, end: int) -> int:
    """How much of the time from `begin` to `end` lies in at least one of some intervals."""
    starts, ends = starts.clip(begin, end), ends.clip(begin, end)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    until = np.maximum.accumulate(np.concatenate([[begin], ends[:-1]]))  # what earlier intervals cover already
    return int(np.maximum(ends - np.maximum(starts, until), 0).sum())


@dataclass(frozen=True)
class Wait:
    """A time in which the NPU waits for communication, or for a pass of another stage.

    `start`, `length`: picoseconds, the start from that of the period on.
    `launch`, `parallelism`: of those that the task waits for, the launch whose result comes last, and why its tensors
      are exchanged; empty where it waits for none.
    """

    task: str
    start: int
    length: int
    launch: str = ""
    parallelism: Parallelism | Literal[""] = ""


@dataclass(frozen=True, eq=False)
class Period:
    """Iterations in a row, in integer picoseconds; attributes as in :class:`themis_opt.schedules.schedule.Schedule`.

    `task_start` has the shape (iterations, tasks), `stage_start` and `stage_ready` (iterations, stages).
    """

    instance: Instance
    plan: Plan
    costs: StageCosts
    task_start: IntArray
    stage_start: IntArray
    stage_ready: IntArray

    def __repr__(self) -> str:
        name = self.instance.name or "an iteration"
        times = (format_short_time(time) for time in (self.iteration_time, self.instance.compute, self.exposed))
        return "<Period of {}: {}, compute {}, exposed {}>".format(name, *times)

    def to_frame(self) -> pandas.DataFrame:
        """One row per time that the NPU waits, with the fields of :class:`Wait`, times in picoseconds."""
        import pandas

        names = [field.name for field in fields(Wait)]
        return pandas.DataFrame([astuple(wait) for wait in self.waits], columns=names)

    @cached_property
    def task_end(self) -> IntArray:
        """End of every task, shape (iterations, tasks)."""
        durations = np.array([task.duration for task in self.instance.tasks], dtype=np.int64)
        end: IntArray = self.task_start + durations
        return end

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
        starts = [np.concatenate([t, s]) for t, s in zip(self.task_start[-3:-1], self.stage_start[-3:-1], strict=True)]
        return bool(((starts[1] - starts[0]) == self._periods[-1]).all())

    @property
    def _periods(self) -> IntArray:
        return np.diff(self.task_start[:, 0])

    @cached_property
    def iteration_time(self) -> int:
        """From the start of an iteration to the start of the next, in picoseconds.

        The last distance; where iterations do not repeat each other, the largest in the second half of them, or what
        the slowest task or stage takes per iteration there, if that is more.  Few iterations may all be those of a
        network that is still filling up: theirs is no less than what they take if they are repeated as a block.  Nor
        is that of iterations that begin faster than a resource serves them, whose stages would queue for ever.
        """
        slowest = max(int(self._periods[self._first_period :].max()), self._pace)
        is_kept_up = slowest >= self._load and (self.is_steady or self.num_iterations > FEW)
        return slowest if is_kept_up else max(slowest, self._drained)

    @property
    def _load(self) -> float:
        """Picoseconds of an iteration for which its busiest resource is held."""
        resources = self.plan.stage_resources(self.instance)
        return float(np.bincount(resources, self.costs.occupancy, minlength=1).max())

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
            places = [np.concatenate([self.task_start[row], self.stage_start[row]]) for row in (first, last)]
            pace = max(pace, -(-int((places[1] - places[0]).max()) // (last - first)))
        return pace

    @property
    def _first_period(self) -> int:
        """The first of the periods that are looked at: the last one, or where they differ, the second half."""
        count = len(self._periods)
        return count - 1 if self.is_steady or self.num_iterations < 3 else count // 2

    @property
    def exposed(self) -> int:
        """Picoseconds of an iteration in which the NPU waits for communication, beside the bubble of a pipeline."""
        return self.iteration_time - self.instance.compute - self.bubble

    @property
    def bubble(self) -> int:
        """Picoseconds in which the NPU waits on an infinitely fast network, too."""
        return self.instance.bubble

    def exposed_gap(self, bound: float) -> float:
        """Exposed communication over the least that a bound on the iteration time leaves, minus 1; 0 if both are 0."""
        least = bound - self.instance.compute - self.bubble
        return self.exposed / least - 1 if least > 0 else float(self.exposed > 0)

    def exposed_by(self, parallelism: Parallelism) -> int:
        """Picoseconds in which the NPU waits in the last whole iteration for tensors of one kind of parallelism.

        A wait counts for the tensor that arrives last, less the share that is bubble.  Where iterations repeat each
        other, the kinds add up to `exposed`.
        """
        waited = sum(wait.length for wait in self.waits if wait.parallelism == parallelism)
        return waited * self.exposed // (self.exposed + self.bubble) if self.bubble else waited

    @cached_property
    def waits(self) -> tuple[Wait, ...]:
        """What the NPU that computes longest waits for in the last whole period, that before the next one included."""
        row, chain = self.num_iterations - 2, list(self.instance.busiest_chain)
        starts = np.append(self.task_start[row, chain], self.task_start[row + 1, chain[0]])
        gaps = starts[1:] - self.task_end[row, chain]
        return tuple(self._wait(row, place + 1, int(gaps[place])) for place in np.flatnonzero(gaps > 0).tolist())

    def _wait(self, iteration: int, place: int, length: int) -> Wait:
        """The wait before a task, by its place among those of its NPU from an iteration on: for what arrives last."""
        chain = self.instance.busiest_chain
        later, number = place // len(chain), chain[place % len(chain)]
        start = int(self.task_end[iteration, chain[place - 1]] - self.task_start[iteration, 0])
        name, row, launches = self.instance.tasks[number].name, iteration + later, self.plan.launches_of(self.instance)
        arrivals = [
            (int(self.launch_ready[row - launch.before.later, index]), launch.tensors[0], launch)
            for index, launch in enumerate(launches)
            if launch.before and launch.before.task == number and row - launch.before.later >= 0
        ]
        if not arrivals:
            return Wait(name, start, length)
        _, tensor, launch = max(arrivals, key=lambda arrival: arrival[:2])
        return Wait(name, start, length, launch.name, self.instance.exchanges[tensor].parallelism)

    @cached_property
    def communicating(self) -> int:
        """Picoseconds of a period in which at least one stage is under way, on a dimension or in flight.

        Where iterations do not repeat each other, it is the mean of the second half of them, at the pace of the slowest
        task or stage.
        """
        begin, end = int(self.task_start[self._first_period, 0]), int(self.task_start[-1, 0])
        known = self.stage_start >= 0
        busy = covered(self.stage_start[known], self.stage_ready[known], begin, end)
        return busy * self._pace // (end - begin) if end > begin else 0

    @property
    def overlap(self) -> float:
        """Share of the time of communication that compute hides."""
        return 1 - min(self.exposed / self.communicating, 1.0) if self.communicating else 1.0

    def enforced_plan(self) -> Plan:
        """The plan with the sequences of the last whole period enforced."""
        begins = self.task_start[:, 0]
        last = self.num_iterations - 2
        times = self.stage_start[last].copy()
        late = times >= begins[last + 1]
        times[late] -= self.iteration_time
        order = np.lexsort((np.arange(len(times)), self.costs.occupancy, times))
        resource = self.plan.stage_resources(self.instance)[order]
        sequences = tuple(order[resource == number] for number in range(self.instance.num_resources))
        return self.plan.enforcing(sequences, late.astype(np.int64))

"""Timed operations: what every kind of schedule comes to on the clock, and why it takes as long as it does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.units import format_percent
from themis_opt.schedules.event_loop import Operations

if TYPE_CHECKING:
    from themis_opt.schedules.period import Wait


@dataclass(frozen=True)
class CriticalStep:
    """One stage or compute task on the critical path.

    `label`: in words, with its iteration where there are several.
    `iteration`: 0 without compute.
    `stage`: number of the stage in the plan; None for a task.
    `start`, `busy`, `lag`: when it starts, how long it holds its resource, and how much later its result is there, in
      picoseconds.
    `waited_for`: what it had to wait for: the result of the stage before it in its chunk, or of launches (``data``),
      its ``dimension`` or another ``resource``, a ``task``, or nothing but its ``release``.
    """

    label: str
    iteration: int
    stage: int | None
    start: int
    busy: int
    lag: int
    waited_for: str


@dataclass(frozen=True)
class ResourceTime:
    """How one resource spends the makespan, or with compute the last whole period, in picoseconds.

    `lag` is time without work while the next stage's data (at the end: the last result) are on their way along the path
    of a chunk, `idle` all other time without work.
    """

    name: str
    busy: int
    lag: int
    idle: int


@dataclass(frozen=True)
class RailLoad:
    """What one rail of a dimension carries in one iteration, with headers, and what share of the dimension's bytes."""

    dimension: str
    rail: str
    bytes: float
    share: float


@dataclass(frozen=True)
class Explanation:
    """The critical path, the time of each resource, and with compute that of the NPU, first, and what it waits for."""

    steps: tuple[CriticalStep, ...]
    resources: tuple[ResourceTime, ...]
    waits: "tuple[Wait, ...]" = ()
    rails: tuple[RailLoad, ...] = ()

    def __repr__(self) -> str:
        total = max((one.busy + one.lag + one.idle for one in self.resources), default=0) or 1
        busiest = max(self.resources, key=lambda one: one.busy, default=None)
        words = f"; {busiest.name} is busiest, {format_percent(busiest.busy / total)} of the time" if busiest else ""
        return f"<Explanation: {len(self.steps)} operations on the critical path{words}>"


@dataclass(frozen=True, eq=False)
class TimedOperations:
    """Operations with their start times and the words of people.

    Attributes
    ----------
    operations : Operations
    start : int64 array, shape (operations,)
        Picoseconds.
    label : callable
        From the number of an operation to its name, since millions of names would take longer than the clock.
    resources : sequence of str
        A name for each resource.
    """

    operations: Operations
    start: IntArray
    label: Callable[[int], str]
    resources: Sequence[str]

    @property
    def end(self) -> IntArray:
        """When each operation gives back its resource."""
        return self.start + self.operations.duration

    @property
    def result(self) -> IntArray:
        """When the result of each operation is there."""
        return self.end + self.operations.lag

    @property
    def makespan(self) -> int:
        """When the last result is there."""
        return int(self.result.max())

    @property
    def busy(self) -> dict[str, float]:
        """The share of the makespan in which each resource is held."""
        held = np.bincount(self.operations.resource, self.operations.duration, len(self.resources))
        return dict(zip(self.resources, (held / self.makespan).tolist(), strict=True))

    def explain(self) -> Explanation:
        """The critical path and the time of each resource, the busiest first."""
        held = np.bincount(self.operations.resource, self.operations.duration, len(self.resources)).astype(np.int64)
        times = [
            ResourceTime(name, busy, 0, self.makespan - busy)
            for name, busy in zip(self.resources, held.tolist(), strict=True)
        ]
        return Explanation(self.critical_path(), tuple(sorted(times, key=lambda time: (-time.busy, time.name))))

    def critical_path(self) -> tuple[CriticalStep, ...]:
        """The longest path to the last result: each operation waits for data, for its resource or for its turn."""
        steps = []
        for operation, waited_for in self.longest_path():
            busy, lag = (int(times[operation]) for times in (self.operations.duration, self.operations.lag))
            label = f"{self.label(operation)} on {self.resources[int(self.operations.resource[operation])]}"
            steps.append(CriticalStep(label, 0, None, int(self.start[operation]), busy, lag, waited_for))
        return tuple(steps)

    def longest_path(self, last: int | None = None) -> list[tuple[int, str]]:
        """Operations on the longest path to one, or to the last result, each with what it waited for.

        That is ``data``, its ``resource``, or nothing but its ``release``.  Resources serve in the order of the start
        times.  An arc that the times contradict is left out: a valid schedule may begin earlier than its plan says.
        """
        length, before, waited_for = self._longest_paths()
        if last is None:
            last = int((np.array(length) + self.operations.duration + self.operations.lag).argmax())
        path = []
        while last >= 0:
            path.append((last, waited_for[last]))
            last = before[last]
        return path[::-1]

    def _longest_paths(self) -> tuple[list[int], list[int], list[str]]:
        """The longest path to each operation: its length, the operation before, -1 if there is none, and the wait.

        The length is -1 for an operation without a start.
        """
        operations, waits = self.operations, self._waits()
        start, end, result, release = (a.tolist() for a in (self.start, self.end, self.result, operations.release))
        held, passed = operations.duration.tolist(), (operations.duration + operations.lag).tolist()
        length, before, waited_for = [-1] * len(start), [-1] * len(start), ["release"] * len(start)
        previous: dict[int, int] = {}
        resource = operations.resource.tolist()
        for operation in self._in_turn():
            arcs = [(one, result[one], passed[one], "data") for one in waits[operation]]
            if (one := previous.get(resource[operation], -1)) >= 0:
                arcs.append((one, end[one], held[one], "resource"))
            for one, over, time, kind in arcs:
                if length[one] >= 0 and over <= start[operation] and length[one] + time > length[operation]:
                    length[operation], before[operation], waited_for[operation] = length[one] + time, one, kind
            if release[operation] > length[operation]:
                length[operation], before[operation], waited_for[operation] = release[operation], -1, "release"
            previous[resource[operation]] = operation
        return length, before, waited_for

    def _in_turn(self) -> list[int]:
        """Operations that have a start, each after those that it waits for."""
        order = np.lexsort((self.end, self.start))
        in_turn: list[int] = order[self.start[order] >= 0].tolist()
        return in_turn

    def _waits(self) -> list[list[int]]:
        """The operations whose results each one waits for."""
        waits: list[list[int]] = [[] for _ in self.start]
        bounds, successors = self.operations.successor_start.tolist(), self.operations.successor.tolist()
        for operation in range(len(waits)):
            for successor in successors[bounds[operation] : bounds[operation + 1]]:
                waits[successor].append(operation)
        return waits

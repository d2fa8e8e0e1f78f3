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
      its dimension (``dimension``), a task (``task``), or nothing but its release (``release``).
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
        """Operations from the first start to the last result: each waits for data, for its resource or for its turn.

        Where an operation begins later than anything asks for, the path goes on with what ended last before it.
        """
        before, on_resource = self._predecessors(), self._previous_on_resource()
        operation, path = int(self.result.argmax()), list[CriticalStep]()
        while True:
            start = int(self.start[operation])
            data = max(before[operation], key=lambda one: int(self.result[one]), default=None)
            previous = on_resource[operation]
            at_data = -1 if data is None else int(self.result[data])
            at_resource = -1 if previous is None else int(self.end[previous])
            waited_for = "release" if max(at_data, at_resource) <= 0 else "data"
            if at_resource > max(at_data, 0):
                data, waited_for = previous, "resource"
            path.append(self._step(operation, start, waited_for))
            if data is None or waited_for == "release":
                return tuple(reversed(path))
            operation = data

    def _step(self, operation: int, start: int, waited_for: str) -> CriticalStep:
        busy, lag = (int(times[operation]) for times in (self.operations.duration, self.operations.lag))
        where = self.resources[int(self.operations.resource[operation])]
        return CriticalStep(f"{self.label(operation)} on {where}", 0, None, start, busy, lag, waited_for)

    def _predecessors(self) -> list[list[int]]:
        """The operations that each one waits for."""
        before: list[list[int]] = [[] for _ in self.start]
        bounds, successors = self.operations.successor_start.tolist(), self.operations.successor.tolist()
        for operation in range(len(before)):
            for successor in successors[bounds[operation] : bounds[operation + 1]]:
                before[successor].append(operation)
        return before

    def _previous_on_resource(self) -> list[int | None]:
        """The operation that each resource serves before each one."""
        previous: list[int | None] = [None] * len(self.start)
        last: list[int | None] = [None] * len(self.resources)
        resource = self.operations.resource.tolist()
        for operation in np.lexsort((self.end, self.start)).tolist():
            previous[operation], last[resource[operation]] = last[resource[operation]], operation
        return previous

"""A schedule: a plan with the times of all its stages, and of the compute tasks beside them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray, read_only
from themis_opt.base.documents import write_atomically
from themis_opt.base.notebook import page
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, PICOSECONDS_PER_SECOND, format_percent, format_short_time
from themis_opt.problem.cost import StageCosts, wire_bytes
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import Phase
from themis_opt.problem.rails import parts
from themis_opt.schedules.memory import memory_peak
from themis_opt.schedules.period import Period, covered
from themis_opt.schedules.plan import Plan, equal_sizes

if TYPE_CHECKING:
    import pandas

    from themis_opt.schedules.timed import TimedOperations


@dataclass(frozen=True, eq=False)
class Schedule:
    """When every stage of a plan runs, in integer picoseconds on a clock that starts at 0.

    Where the instance has compute, the plan is run for several iterations in a row.

    Attributes
    ----------
    start, end, ready : int64 arrays, shape (iterations * stages,)
        When a stage takes its dimension, gives it back, and has its result, iteration after iteration; a negative start
        in the last iteration stands for a stage of a launch that waits for one more.
    task_start : int64 array, shape (iterations, tasks)

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    <Schedule of 16 stages on fig5 all_reduce 256 MB: 7 ms>
    """

    instance: Instance
    plan: Plan
    start: IntArray
    end: IntArray
    ready: IntArray
    task_start: IntArray = field(default_factory=lambda: np.zeros((1, 0), dtype=np.int64))

    def __post_init__(self) -> None:
        for name in ("start", "end", "ready", "task_start"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schedule)
            and self.instance.fingerprint == other.instance.fingerprint
            and self.plan == other.plan
            and all(
                np.array_equal(getattr(self, n), getattr(other, n)) for n in ("start", "end", "ready", "task_start")
            )
        )

    def save(self, path: str | Path) -> None:
        """Write the schedule to a file, which :func:`themis_opt.load` reads.

        Raises InputError if the file cannot be written.
        """
        from themis_opt.schedules.schedule_file import schedule_document

        write_atomically(Path(path), json.dumps(schedule_document(self)) + "\n")

    def __repr__(self) -> str:
        what = f"{len(self.start)} stages on {self.instance.name or 'an instance'}"
        return f"<Schedule of {what}: {format_short_time(self.makespan)}>"

    def _repr_html_(self) -> str:
        rows = [(name, format_percent(share)) for name, share in self.busy.items()]
        return page([repr(self)[1:-1]], ["dimension", "busy"], rows)

    @property
    def problem(self) -> Instance:
        """The instance."""
        return self.instance

    @property
    def timed(self) -> "TimedOperations":
        """The tasks and stages of all iterations as operations."""
        from themis_opt.schedules.explanation import timed_operations

        return timed_operations(self)

    def stage_columns(self) -> dict[str, list[Any]]:
        """The stages as columns, by collective, chunk and position along the path of the chunk.

        With compute they are those of the last complete iteration, whose start is time 0, and a collective is a launch.

        Returns
        -------
        dict of lists
            `collective`, `phase` and `dimension` are names, `chunk` and `position` count from 0.  `start_ns`,
            `end_ns` and `ready_ns` say when the stage takes its dimension, gives it back and has its result;
            `bytes_sent` is what each NPU sends, `bytes_held_before` what it holds of the chunk until then.
        """
        plan, iteration = self.plan, self.num_iterations - 2 if self.has_period else 0
        begin = int(self.task_start[iteration, 0]) if self.has_period else 0
        times = {"start_ns": self.start, "end_ns": self.end, "ready_ns": self.ready}
        shown = {name: array.reshape(self.num_iterations, -1)[iteration] - begin for name, array in times.items()}
        columns = {
            "collective": np.array([launch.name for launch in self.launched], dtype=object)[plan.launch_of_stage],
            "chunk": plan.chunk_of_stage,
            "position": plan.positions,
            "phase": np.array([phase.name.lower() for phase in Phase], dtype=object)[plan.phases(self.instance)],
            "dimension": np.array(self.instance.fabric.dimension_names, dtype=object)[plan.stage_dimensions],
            **{name: array / PICOSECONDS_PER_NANOSECOND for name, array in shown.items()},
            "bytes_sent": self.costs.sent,
            "bytes_held_before": self.costs.held_before,
        }
        return {name: column.tolist() for name, column in columns.items()}

    def to_frame(self) -> "pandas.DataFrame":
        """One row per stage, with the columns of :meth:`stage_columns`."""
        import pandas

        return pandas.DataFrame(self.stage_columns())

    @property
    def makespan(self) -> int:
        """What is minimised, in picoseconds: when the last result is ready or, with compute, the iteration time."""
        return self.period.iteration_time if self.has_period else int(self.ready.max())

    @property
    def has_period(self) -> bool:
        """Whether there is compute, which collectives repeat beside, iteration after iteration."""
        return bool(self.instance.tasks)

    @cached_property
    def period(self) -> Period:
        """What the schedule says about one iteration; only where there is compute."""
        shape = (self.num_iterations, -1)
        return Period(
            self.instance, self.plan, self.costs, self.task_start, *(a.reshape(shape) for a in (self.start, self.ready))
        )

    @property
    def num_iterations(self) -> int:
        """Iterations that were simulated; 1 without compute."""
        return len(self.task_start)

    @cached_property
    def launched(self) -> tuple[Exchange, ...]:
        """The collective operation of every launch."""
        return self.plan.launched(self.instance)

    @cached_property
    def costs(self) -> StageCosts:
        """Costs of every stage of one iteration."""
        return self.plan.costs(self.instance)

    def knowing(self, costs: StageCosts) -> Self:
        """The schedule itself, with its costs, which were computed to make it; changed copies compute them again."""
        self.__dict__["costs"] = costs
        return self

    @cached_property
    def rail_bytes(self) -> Mapping[int, FloatArray]:
        """What each rail carries, with headers, of the stages on every dimension that has rails.

        By dimension, shape (stages on it in the order of the plan, rails); see :mod:`themis_opt.problem.rails`.
        """
        instance, stages, phases = self.instance, self.plan.stage_dimensions, self.plan.phases(self.instance)
        carried: dict[int, FloatArray] = {}
        for k, dimension in enumerate(instance.fabric.dimensions):
            if dimension.rails:
                visits = np.flatnonzero(stages == k)
                wire = wire_bytes(instance, k, self.costs.sent[visits])
                carried[k] = np.zeros((len(visits), len(dimension.rails)))
                for phase in np.unique(phases[visits]).tolist():
                    chosen = phases[visits] == phase
                    carried[k][chosen] = parts(dimension, Phase(phase), wire[chosen])
        return carried

    @property
    def has_equal_sizes(self) -> bool:
        """Whether every launch is cut as the instance says, in chunks that differ by at most one element."""
        pairs = zip(self.launched, self.plan.chunks, strict=True)
        return all(np.array_equal(np.sort(part.sizes)[::-1], equal_sizes(exchange)) for exchange, part in pairs)

    @property
    def dimensions_in_use(self) -> tuple[int, ...]:
        """Indices of the dimensions that some exchange spans."""
        return tuple(sorted({k for exchange in self.instance.exchanges for k in exchange.span}))

    @property
    def utilisation(self) -> float:
        """Bytes sent over time times the summed bandwidth of the dimensions in use (Themis, section 6).

        The time is the makespan; with compute, that in which a stage is under way.
        """
        time = self.period.communicating if self.has_period else self.makespan
        room = time * sum(self.instance.bandwidth_by_resource.values())
        return float(self.costs.sent.sum()) * PICOSECONDS_PER_SECOND / room if room else 0.0

    @property
    def busy(self) -> dict[str, float]:
        """Share of the makespan, or of an iteration, in which each resource that is used is held, by its name."""
        held = np.bincount(
            self.plan.stage_resources(self.instance), self.costs.occupancy, minlength=self.instance.num_resources
        )
        used = self.instance.bandwidth_by_resource
        return {self.instance.resource_names[k]: float(held[k]) / self.makespan for k in used}

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes of the collectives over the makespan, in bytes per second: *algbw* of nccl-tests.

        https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
        """
        return sum(exchange.size for exchange in self.instance.exchanges) * PICOSECONDS_PER_SECOND / self.makespan

    @property
    def bus_bandwidth(self) -> float:
        """*busbw* of nccl-tests: algbw times the factor of each kind, 2 (n - 1) / n for all-reduce on n NPUs."""
        total = 0.0
        for exchange in self.instance.exchanges:
            npus = math.prod(self.instance.fabric.sizes[k] for k in exchange.span)
            total += float(exchange.size * exchange.kind.rule.bus_share(npus))
        return total * PICOSECONDS_PER_SECOND / self.makespan

    @property
    def idle(self) -> float:
        """Share of the time in which no dimension works; with compute, of the last whole iteration."""
        begin, end = (int(t) for t in self.task_start[-2:, 0]) if self.has_period else (0, self.makespan)
        known = self.start >= 0
        return 1 - covered(self.start[known], self.end[known], begin, end) / (end - begin) if end > begin else 0.0

    @cached_property
    def memory_peak(self) -> int:
        """The most bytes that an NPU holds at any time; only where there is compute."""
        return memory_peak(self)

    @property
    def fits(self) -> bool:
        """Whether no NPU holds more than the instance allows."""
        return self.instance.memory is None or self.memory_peak <= self.instance.memory

    def sequence(self, resource: int) -> IntArray:
        """Numbers of the stages on a resource of the network in the order they are served, over all iterations."""
        resources = np.tile(self.plan.stage_resources(self.instance), self.num_iterations)
        stages = np.flatnonzero((resources == resource) & (self.start >= 0))
        order: IntArray = stages[np.lexsort((stages, self.end[stages], self.start[stages]))]
        return order

    def enforced_plan(self) -> Plan:
        """The plan that repeats this schedule, or its last whole period: every sequence enforced."""
        if self.has_period:
            return self.period.enforced_plan()
        return self.plan.enforcing(tuple(self.sequence(k) for k in range(self.instance.num_resources)))

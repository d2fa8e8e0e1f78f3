"""A schedule: a plan with the times of all its stages."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from themis_opt.cost import PHASES, IntArray, StageCosts, read_only
from themis_opt.instance import Instance
from themis_opt.plan import Plan, equal_sizes
from themis_opt.units import PICOSECONDS_PER_SECOND


@dataclass(frozen=True, eq=False)
class Schedule:
    """When every stage of a plan runs, in integer picoseconds on a clock that starts at 0.

    Attributes
    ----------
    start, end, ready : int64 arrays, shape (stages,)
        When a stage takes its dimension, gives it back, and has its result.
    """

    instance: Instance
    plan: Plan
    start: IntArray
    end: IntArray
    ready: IntArray

    def __post_init__(self) -> None:
        for name in ("start", "end", "ready"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schedule)
            and self.instance.fingerprint == other.instance.fingerprint
            and self.plan == other.plan
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in ("start", "end", "ready"))
        )

    @property
    def makespan(self) -> int:
        """When the last result is ready, in picoseconds."""
        return int(self.ready.max())

    @cached_property
    def costs(self) -> StageCosts:
        """Costs of every stage."""
        return self.plan.costs(self.instance)

    @property
    def has_equal_sizes(self) -> bool:
        """Whether every collective is cut as its instance says, in chunks that differ by at most one element."""
        pairs = zip(self.instance.collectives, self.plan.chunks, strict=True)
        return all(np.array_equal(np.sort(c.sizes)[::-1], equal_sizes(collective)) for collective, c in pairs)

    @property
    def dimensions_in_use(self) -> tuple[int, ...]:
        """Indices of the dimensions that some collective spans."""
        return tuple(sorted({k for span in self.instance.spans for k in span}))

    @property
    def utilisation(self) -> float:
        """Bytes sent over makespan times the summed bandwidth of the dimensions in use (Themis, section 6)."""
        total = sum(self.instance.network.bandwidths[k] for k in self.dimensions_in_use)
        return float(self.costs.sent.sum()) * PICOSECONDS_PER_SECOND / (self.makespan * total)

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes of the collectives over the makespan, in bytes per second: *algbw* of nccl-tests.

        https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
        """
        return sum(c.size for c in self.instance.collectives) * PICOSECONDS_PER_SECOND / self.makespan

    @property
    def bus_bandwidth(self) -> float:
        """*busbw* of nccl-tests: algbw x 2 (n - 1) / n for all-reduce on n NPUs, x (n - 1) / n for the others."""
        total = 0.0
        for collective, span in zip(self.instance.collectives, self.instance.spans, strict=True):
            npus = math.prod(self.instance.network.sizes[k] for k in span)
            total += collective.size * len(PHASES[collective.kind]) * (npus - 1) / npus
        return total * PICOSECONDS_PER_SECOND / self.makespan

    def sequence(self, dimension: int) -> IntArray:
        """Numbers of the stages on a dimension in the order they are served."""
        (stages,) = np.nonzero(self.plan.stage_dimensions == dimension)
        return stages[np.lexsort((stages, self.end[stages], self.start[stages]))]

    def enforced_plan(self) -> Plan:
        """The plan that repeats this schedule: every sequence enforced."""
        count = len(self.instance.network.dimensions)
        return self.plan.enforcing(tuple(self.sequence(k) for k in range(count)))

"""The proof for few equal chunks: a horizon is refuted for all places where chunks begin.

:mod:`formulations.end_counts` says which cells a horizon leaves: how many chunks begin on each dimension.
:mod:`formulations.chunk_order` is asked about every one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import ClassVar

from formulations.chunk_order import ChunkOrder
from formulations.end_counts import BeginCounts, EndCells
from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.schedules.incumbent import ignore
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import num_stages
from themis_opt.search.orders import MAX_ORDERED_STAGES
from themis_opt.search.refuter import QUESTION_WORK, Answer, Refuter
from themis_opt.solving.lowering import RESOLUTION, ChunkOrderData, enforced_plan, job_class, rounded_down
from themis_opt.solving.makespan_bounds import least_equal


@dataclass(frozen=True)
class RefuteEnds:
    """The step for one collective in few equal chunks on several dimensions."""

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether there is one collective in few equal chunks, and each of its dimensions is one resource."""
        exchanges, is_plain = incumbent.instance.exchanges, incumbent.instance.ports.is_plain
        is_small = num_stages(exchanges[0]) <= MAX_ORDERED_STAGES / 2
        is_one = len(exchanges) == 1 and len(exchanges[0].span) > 1
        return is_plain and not incumbent.free_sizes and is_one and is_small

    def run(self, incumbent: Incumbent) -> None:
        """Refute longer and longer horizons."""
        data = equal_chunks(incumbent.instance, max(1, incumbent.best.makespan // RESOLUTION))
        at_once = 1 if incumbent.limits.deterministic else incumbent.limits.workers
        oracle = OrderOracle(incumbent.instance, data)
        Refuter(incumbent, Begins(incumbent, data), [oracle], data.tick, at_once).run()


def equal_chunks(instance: Instance, tick: int) -> ChunkOrderData:
    """The chunks of the only collective, as jobs of the least size of all of them."""
    exchange = instance.exchanges[0]
    job = rounded_down(job_class(instance, exchange, least_equal(exchange), count=exchange.chunks), tick)
    return ChunkOrderData(tick, (job,), ((0, tuple(range(exchange.chunks))),), (equal_sizes(exchange),))


@dataclass(frozen=True)
class Begins:
    """How many chunks begin on which dimension, as cells."""

    incumbent: Incumbent
    data: ChunkOrderData

    def __call__(self, horizon: float) -> Sequence[BeginCounts] | None:
        """All begin counts that a horizon leaves, those like the best schedule first; None if there is no time."""
        cells, charged = list[BeginCounts](), 0.0
        listing = EndCells(self.data.jobs[0], int(horizon) // self.data.tick, max(self.incumbent.left, 0.0))
        for cell in listing:
            self.incumbent.allowance.charge(QUESTION_WORK + listing.work - charged)
            charged = listing.work
            cells.append(cell)
            if self.incumbent.left <= QUESTION_WORK * len(cells):
                return None  # no time to ask about all of them
        return sorted(cells, key=self._distance) if listing.are_all else None

    def _distance(self, cell: BeginCounts) -> int:
        """Chunks that begin elsewhere than in the best schedule, or end where that is read backwards, twice."""
        span, paths = self.incumbent.instance.exchanges[0].span, self.incumbent.best.plan.chunks[0].paths
        ends = [[column.tolist().count(k) for k in span] for column in (paths[:, 0], paths[:, -1])]
        distance: int = min(sum(abs(a - b) for a, b in zip(cell, counts, strict=True)) for counts in ends)
        return distance


@dataclass(frozen=True)
class OrderOracle:
    """CP-SAT on the paths and starts of chunks that begin on given dimensions."""

    instance: Instance
    data: ChunkOrderData

    def __call__(self, cell: BeginCounts, horizon: float, limits: Limits, stop: Event) -> Answer[BeginCounts]:
        """Whether chunks that begin there fit into the horizon."""
        outcome = ChunkOrder(self.data.jobs, int(horizon) // self.data.tick, begin=cell).solve(limits, ignore, stop)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if outcome.status == "infeasible":
            return Answer({cell: horizon}, None, outcome.work)
        if outcome.jobs is None:
            return Answer({}, None, outcome.work)
        plan = enforced_plan(self.instance, self.data, outcome.jobs)
        return Answer({}, simulate(self.instance, plan), outcome.work)

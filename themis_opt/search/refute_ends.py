"""The proof for few equal chunks: a horizon is refuted for all places where chunks begin.

:mod:`formulations.end_counts` says which cells a horizon leaves: how many chunks begin on each dimension.
:mod:`formulations.chunk_order` is asked about every one, and about the parts of those that are hard, which say too on
which dimension each chunk ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import ClassVar

from formulations.chunk_order import ChunkOrder
from formulations.end_counts import BeginCounts, EndCells, Ends
from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent, ignore
from themis_opt.search.refuter import QUESTION_WORK, Answer, Refuter
from themis_opt.solving.lowering import ChunkOrderData, enforced_plan, job_class, rounded_down
from themis_opt.solving.makespan_bounds import least_equal

FEWEST_STAGES, MOST_STAGES = 33, 160
"""Stages of the plans it is for: CP-SAT proves smaller ones as a whole, and hardly any cell of larger ones."""

MOST_ARCS = 5_000
"""Lattice arcs of all chunks: a larger model takes longer to build for every cell than its search takes."""

TICKS_OF_BEST = 20_000
"""Ticks of the best makespan; finer ones are refuted no later."""

HARD_CELLS = 3
"""Cells of a horizon that may be refuted part by part: where more are hard, a shorter horizon costs less."""

LISTING_WORK = 0.015
"""Seconds counted as work for a cell that is met, beside what the solver counts."""


@dataclass(frozen=True)
class RefuteEnds:
    """The step for one collective in few equal chunks on several dimensions."""

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether chunks are equal and few, models of all of them small, and each dimension is one resource."""
        exchanges = incumbent.instance.exchanges
        span, chunks = exchanges[0].span, exchanges[0].chunks
        stages = chunks * len(span) * len(exchanges[0].kind.rule.phases)
        is_small = FEWEST_STAGES <= stages <= MOST_STAGES and stages * 2 ** (len(span) - 1) <= MOST_ARCS
        is_plain = incumbent.instance.ports.is_plain
        return is_plain and not incumbent.free_sizes and len(exchanges) == 1 and len(span) > 1 and is_small

    def run(self, incumbent: Incumbent) -> None:
        """Refute longer and longer horizons."""
        data = equal_chunks(incumbent.instance, math.ceil(incumbent.best.makespan / TICKS_OF_BEST))
        at_once = 1 if incumbent.limits.deterministic else incumbent.limits.workers
        oracle = OrderOracle(incumbent.instance, data)
        Refuter(incumbent, PlacesOfEnds(incumbent, data), [oracle], data.tick, at_once, HARD_CELLS).run()


def equal_chunks(instance: Instance, tick: int) -> ChunkOrderData:
    """The chunks of the only collective, as jobs of the least size of all of them."""
    exchange = instance.exchanges[0]
    job = rounded_down(job_class(instance, exchange, least_equal(exchange), count=exchange.chunks), tick)
    return ChunkOrderData(tick, (job,), ((0, tuple(range(exchange.chunks))),), (equal_sizes(exchange),))


@dataclass(frozen=True)
class PlacesOfEnds:
    """How many chunks begin on which dimension, and how many of these end on which, as cells and parts."""

    incumbent: Incumbent
    data: ChunkOrderData

    def within(self, horizon: float) -> Sequence[Ends] | None:
        """All begin counts that a horizon leaves, those like the best schedule first; None if there is no time."""
        cells = self._listed(horizon)
        if cells is None:
            return None
        likely = end_counts(self.incumbent.best)
        return sorted(cells, key=lambda cell: min(_distance(cell, ends) for ends in likely))

    def parts(self, cell: Ends, horizon: float) -> Sequence[Ends] | None:
        """All pairs of begin and end counts with the begin counts of a cell."""
        return self._listed(horizon, cell) if isinstance(cell, BeginCounts) else None

    def _listed(self, horizon: float, cell: BeginCounts | None = None) -> Sequence[Ends] | None:
        met, charged = list[Ends](), 0.0
        left = max(self.incumbent.left, 0.0)
        listing = EndCells(self.data.jobs[0], int(horizon) // self.data.tick, cell, left)
        for one in listing:
            self.incumbent.charge(LISTING_WORK + listing.work - charged)
            charged = listing.work
            met.append(one)
            if self.incumbent.left <= QUESTION_WORK * len(met):
                return None  # no time to ask about all of them
        return met if listing.are_all else None


def end_counts(schedule: Schedule) -> tuple[list[int], list[int]]:
    """How many chunks of the only collective begin, and how many end, on each dimension of its span.

    A schedule that is read backwards may be one as well, so both are places where chunks of good schedules begin.
    """
    span, paths = schedule.instance.exchanges[0].span, schedule.plan.chunks[0].paths
    first, last = paths[:, 0].tolist(), paths[:, -1].tolist()
    return [first.count(k) for k in span], [last.count(k) for k in span]


def _distance(cell: Ends, counts: Sequence[int]) -> int:
    """Chunks that begin elsewhere, twice."""
    return sum(abs(a - b) for a, b in zip(cell.begin, counts, strict=True)) if isinstance(cell, BeginCounts) else 0


@dataclass(frozen=True)
class OrderOracle:
    """CP-SAT on the paths and starts of chunks with given ends."""

    instance: Instance
    data: ChunkOrderData

    def __call__(self, cell: Ends, horizon: float, limits: Limits, stop: Event) -> Answer[Ends]:
        """Whether chunks that begin, and perhaps end, there fit into the horizon."""
        outcome = ChunkOrder(self.data.jobs, int(horizon) // self.data.tick, ends=cell).solve(limits, ignore, stop)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if outcome.status == "infeasible":
            return Answer({cell: horizon}, None, outcome.work)
        if outcome.jobs is None:
            return Answer({}, None, outcome.work)
        plan = enforced_plan(self.instance, self.data, outcome.jobs)
        return Answer({}, simulate(self.instance, plan), outcome.work)

"""The proof for few equal chunks: a horizon is refuted by refuting it for all places where chunks begin and end.

:mod:`formulations.end_counts` says which cells a horizon leaves: how many chunks begin and end on each dimension.
:mod:`formulations.chunk_order` is asked about every one.  If none has a schedule, the makespan is more than the
horizon, and a longer one is asked; if one has, it is simulated and may be the best; if one is too hard, the horizon was
too long.  What is refuted in a cell is kept, so that a shorter horizon asks the hard cells alone.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from threading import Event

from formulations.chunk_order import ChunkOrder
from formulations.end_counts import EndCells, EndCounts
from formulations.job_plans import PlanOutcome
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.solving.lowering import ChunkOrderData, enforced_plan, job_class, rounded_down
from themis_opt.solving.makespan_bounds import least_equal

MIN_STAGES, MAX_STAGES = 33, 160
"""Stages of the plans it is for: CP-SAT proves smaller ones as a whole, and hardly any cell of larger ones."""

MAX_ARCS = 5_000
"""Lattice arcs of all chunks: a larger model takes longer to build for every cell than its search takes."""

ADVANCE, LEAST_STEP = 2.0, 0.02
"""By how much the step grows after a horizon that was refuted, and the step at which the proof is given up."""


@dataclass(frozen=True)
class EndProofParams:
    """How horizons are chosen and searched.

    Attributes
    ----------
    step : float
        Place of the first horizon between the bound and the best makespan: few cells have schedules that short.
    retreat : float
        By how much that shrinks after a horizon that was not refuted.
    slot : float
        Share of the time of the proof that a cell may take.
    resolution : int
        Ticks of a horizon; finer ones are refuted no later.
    """

    step: float = 0.15
    retreat: float = 0.5
    slot: float = 0.2
    resolution: int = 20_000


USUAL = EndProofParams()


class EndProof:
    """The bound of an instance of one collective in equal chunks.

    Parameters
    ----------
    limits : SearchLimits
        Threads, seed, memory and the gap at which to stop.
    best : Schedule
        The best schedule known, of equal sizes.
    bound : float
        What is proven, in picoseconds.
    offer : callable
        Hears of better schedules.
    report : callable
        Hears of better bounds, in picoseconds.
    params : EndProofParams
        How horizons are chosen.

    Attributes
    ----------
    bound : float
        What is proven, in picoseconds.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    def __init__(
        self,
        limits: SearchLimits,
        best: Schedule,
        bound: float,
        offer: Callable[[Schedule], None],
        report: Callable[[float], None],
        params: EndProofParams = USUAL,
    ) -> None:
        self.limits, self.best, self.bound, self.offer, self.report = limits, best, bound, offer, report
        self.params, self.interrupted = params, False
        self._refuted: dict[EndCounts, float] = {}
        self._hardest: list[EndCounts] = []

    @staticmethod
    def suits(instance: Instance) -> bool:
        """Whether it says something of an instance: one collective on several dimensions, in few chunks."""
        own = instance.exchanges[0]
        stages = own.chunks * len(own.span) * len(own.kind.rule.phases)
        is_small = MIN_STAGES <= stages <= MAX_STAGES and stages * 2 ** (len(own.span) - 1) <= MAX_ARCS
        return len(instance.exchanges) == 1 and len(own.span) > 1 and is_small

    def run(self, allowance: Allowance, seconds: float) -> None:
        """Raise the bound until it is near the best makespan, cannot be raised, or the seconds are over."""
        last, step = allowance.left - seconds, self.params.step
        slot = self.params.slot * seconds
        while step >= LEAST_STEP and allowance.left > last and not self._is_near and not self.interrupted:
            horizon = self.bound + min(step, 1.0) * (self.best.makespan - self.bound)
            if self._refutes(horizon, allowance, last, slot):
                self.bound = horizon
                self.report(horizon)
                step *= ADVANCE
            else:
                step *= self.params.retreat

    @property
    def _is_near(self) -> bool:
        return self.best.makespan <= self.bound * (1 + self.limits.gap)

    def _refutes(self, horizon: float, allowance: Allowance, last: float, slot: float) -> bool:
        """Whether no cell has a schedule that ends by the horizon."""
        data = self._data(horizon)
        ticks = int(horizon) // data.tick
        cells = EndCells(data.jobs[0], ticks)

        def ask(cell: EndCounts, stop: Event) -> PlanOutcome:
            budget = replace(self.limits.budget(min(slot, allowance.left - last)), workers=1)
            return ChunkOrder(data.jobs, ticks, ends=cell).solve(budget, ignore, stop)

        workers = 1 if self.limits.deterministic else self.limits.workers
        try:
            with closing(in_parallel(ask, self._questions(cells, horizon, allowance, last), workers)) as outcomes:
                for cell, outcome in outcomes:
                    allowance.charge(outcome.work)
                    if outcome.status != "infeasible":
                        self._hardest = [cell, *(other for other in self._hardest if other != cell)]
                        self._take(data, outcome)
                        return False
                    self._refuted[cell] = horizon
        except KeyboardInterrupt:
            self.interrupted = True
        return cells.are_all and not self.interrupted

    def _questions(self, cells: EndCells, horizon: float, allowance: Allowance, last: float) -> Iterator[EndCounts]:
        """The cells that are not refuted yet, those that were hard first, while there is time."""
        asked, charged = set[EndCounts](), 0.0
        for cell in chain(self._hardest, cells):
            allowance.charge(cells.work - charged)
            charged = cells.work
            if allowance.left <= last:
                cells.are_all = False
                return
            if cell not in asked and self._refuted.get(cell, 0.0) < horizon:
                asked.add(cell)
                yield cell

    def _data(self, horizon: float) -> ChunkOrderData:
        """The chunks, as jobs of the least size of all of them, in ticks of the horizon."""
        instance = self.best.instance
        own, tick = instance.exchanges[0], math.ceil(horizon / self.params.resolution)
        job = rounded_down(job_class(instance, own, least_equal(own), count=own.chunks), tick)
        return ChunkOrderData(tick, (job,), ((0, tuple(range(own.chunks))),), (equal_sizes(own),))

    def _take(self, data: ChunkOrderData, outcome: PlanOutcome) -> None:
        """Simulate a plan, if there is one."""
        if outcome.jobs is None:
            return
        schedule = simulate(self.best.instance, enforced_plan(self.best.instance, data, outcome.jobs))
        if schedule.makespan < self.best.makespan:
            self.best = schedule
            self.offer(schedule)


def in_parallel(
    ask: Callable[[EndCounts, Event], PlanOutcome], cells: Iterable[EndCounts], workers: int
) -> Generator[tuple[EndCounts, PlanOutcome], None, None]:
    """What is known of cells, as it becomes known; the questions end where nobody listens any more."""
    running, stop = dict[Future[PlanOutcome], EndCounts](), Event()
    with ThreadPoolExecutor(workers) as threads:
        try:
            for cell in cells:
                running[threads.submit(ask, cell, stop)] = cell
                if len(running) == workers:
                    yield from _answered(running)
            while running:
                yield from _answered(running)
        finally:
            stop.set()


def _answered(running: dict[Future[PlanOutcome], EndCounts]) -> Iterator[tuple[EndCounts, PlanOutcome]]:
    """Take out what is answered, at least one."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

"""The proof for few equal chunks: a horizon is refuted by refuting it for all places where chunks begin and end.

:mod:`formulations.end_counts` says which cells a horizon leaves: how many chunks begin and end on each dimension.
:mod:`formulations.chunk_order` is asked about every one, and then about the parts of those that are hard.  If none has
a schedule, the makespan is more than the horizon, and a longer one is asked; if one has, it is simulated and may be the
best; if a part is too hard, or too many cells are, the horizon was too long.  What is refuted is kept, so that a
shorter horizon asks what was hard alone.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from threading import Event
from typing import TypeVar

from formulations.chunk_order import ChunkOrder
from formulations.end_counts import EndCells, EndCounts, EndPairs, is_reversible
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

LEAST_STEP = 0.02
"""Share of the gap below which the place between the bound and a horizon that was not refuted is not searched."""

Own = TypeVar("Own", EndCounts, EndPairs)


@dataclass(frozen=True)
class EndProofParams:
    """How horizons are chosen and searched.

    What half and twice of each changes: ``reports/parameters``, proof by begin and end counts.

    Attributes
    ----------
    step : float
        Place of the first horizon between the bound and the best makespan: few cells have schedules that short.
    advance, quick : float
        By how much the step grows as long as every horizon is refuted in no more than a share of the time that is left.
    retreat : float
        Place of the next one between the bound and the least horizon that was not refuted.
    slot : float
        Share of the time of the proof that a part of a hard cell may take.
    hard_cells : int
        Cells of a horizon that may turn out to be hard; to be asked as a whole they share what a part may take.
    parts_share : float
        Share of the time left that the parts of hard cells may take: then there is some for a shorter horizon.
    resolution : int
        Ticks of a horizon; finer ones are refuted no later.
    """

    step: float = 0.15
    advance: float = 2.0
    quick: float = 0.05
    retreat: float = 0.65
    slot: float = 0.1
    hard_cells: int = 2
    parts_share: float = 0.7
    resolution: int = 20_000


USUAL = EndProofParams()


@dataclass(frozen=True)
class Turn:
    """What the proof may take of an allowance: until `last` of it is left, and `slot` for a part of a cell."""

    allowance: Allowance
    last: float
    slot: float

    @property
    def left(self) -> float:
        """Seconds left, zero or less if they are used up."""
        return self.allowance.left - self.last

    def part(self, share: float) -> "Turn":
        """A share of what is left."""
        return replace(self, last=self.last + (1 - share) * max(self.left, 0.0))


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
        self._forget(reversible=False)

    def _forget(self, *, reversible: bool) -> None:
        """Begin without any knowledge of cells, of which one may stand for the other, read backwards, or not."""
        self._is_reversible = reversible
        self._refuted: dict[EndCounts | EndPairs, float] = {}
        self._hard: set[EndCounts] = set()
        self._hardest: list[EndPairs] = []
        self._met, self._met_until = list[EndCounts](), 0.0

    @staticmethod
    def suits(instance: Instance) -> bool:
        """Whether it says something of an instance: one collective on several dimensions, in few chunks."""
        own = instance.exchanges[0]
        stages = own.chunks * len(own.span) * len(own.kind.rule.phases)
        is_small = MIN_STAGES <= stages <= MAX_STAGES and stages * 2 ** (len(own.span) - 1) <= MAX_ARCS
        return len(instance.exchanges) == 1 and len(own.span) > 1 and is_small

    def run(self, allowance: Allowance, seconds: float) -> None:
        """Raise the bound until it is near the best makespan, cannot be raised, or the seconds are over."""
        turn = Turn(allowance, allowance.left - seconds, self.params.slot * seconds)
        step, failed = self.params.step, math.inf
        while turn.left > 0 and not self._is_near and not self.interrupted:
            room = min(self.best.makespan, failed) - self.bound
            if room < max(LEAST_STEP * (self.best.makespan - self.bound), self.bound / self.params.resolution):
                return
            horizon, left = self.bound + min(step, 1.0) * room, turn.left
            if self._refutes(horizon, turn):
                self.bound = horizon
                self.report(horizon)
                is_quick = left - turn.left < self.params.quick * left
                step *= self.params.advance if is_quick and failed == math.inf else 1.0
            else:
                step, failed = self.params.retreat, horizon

    @property
    def _is_near(self) -> bool:
        return self.best.makespan <= self.bound * (1 + self.limits.gap)

    def _refutes(self, horizon: float, turn: Turn) -> bool:
        """Whether no cell has a schedule that ends by the horizon."""
        data = self._data(horizon)
        if is_reversible(data.jobs[0]) != self._is_reversible:  # rounding to ticks may hide a difference
            self._forget(reversible=not self._is_reversible)
        try:
            if not self._leaves_few(data, horizon, turn):
                return False
            return self._parts_fall(data, horizon, turn.part(self.params.parts_share))
        except KeyboardInterrupt:
            self.interrupted = True
            return False

    def _leaves_few(self, data: ChunkOrderData, horizon: float, turn: Turn) -> bool:
        """Whether all cells are met, and hardly any turn out to be hard or have a schedule."""
        slot, most = turn.slot / self.params.hard_cells, len(self._hard) + self.params.hard_cells
        with closing(self._standing(data, horizon, self._whole(data, horizon, turn), turn, slot)) as standing:
            for cell, has_schedule in standing:
                if has_schedule or turn.left <= 0 or len(self._hard) == most:
                    return False
                self._hard.add(cell)
        return self._met_until >= horizon

    def _parts_fall(self, data: ChunkOrderData, horizon: float, turn: Turn) -> bool:
        """Whether all parts of the hard cells are refuted."""
        with closing(self._standing(data, horizon, self._parts(horizon), turn, turn.slot)) as standing:
            for part, _ in standing:
                self._hardest = [part, *(other for other in self._hardest if other != part)]
                return False
        return True

    def _parts(self, horizon: float) -> Iterator[EndPairs]:
        """The parts of the hard cells that are not refuted, those first that were hard themselves."""
        hard = [cell for cell in self._met if cell in self._hard]
        first = [part for part in self._hardest if part.cell in hard]
        others = (part for cell in hard for part in cell.pairs() if part not in first)
        for part in chain(first, others):
            if self._refuted.get(part, 0.0) < horizon:
                yield part

    def _whole(self, data: ChunkOrderData, horizon: float, turn: Turn) -> Iterator[EndCounts]:
        """The cells that are neither refuted nor hard, while there is time."""
        for cell in self._cells(data, horizon, turn):
            if cell not in self._hard and self._refuted.get(cell, 0.0) < horizon:
                yield cell

    def _cells(self, data: ChunkOrderData, horizon: float, turn: Turn) -> Iterator[EndCounts]:
        """The cells of a horizon, or of a longer one of which all were met."""
        if horizon <= self._met_until:
            yield from self._met
            return
        cells, met, charged = EndCells(data.jobs[0], int(horizon) // data.tick), list[EndCounts](), 0.0
        for cell in cells:
            turn.allowance.charge(cells.work - charged)
            charged = cells.work
            if turn.left <= 0:
                return
            met.append(cell)
            yield cell
        if cells.are_all:
            self._met, self._met_until = met, horizon

    def _standing(
        self, data: ChunkOrderData, horizon: float, cells: Iterable[Own], turn: Turn, slot: float
    ) -> Generator[tuple[Own, bool]]:
        """Those of some cells that are not refuted in their slot, and whether they have a schedule."""

        def ask(cell: Own, stop: Event) -> PlanOutcome:
            budget = replace(self.limits.budget(min(slot, turn.left)), workers=1)
            return ChunkOrder(data.jobs, int(horizon) // data.tick, ends=cell).solve(budget, ignore, stop)

        workers = 1 if self.limits.deterministic else self.limits.workers
        with closing(in_parallel(ask, cells, workers)) as outcomes:
            for cell, outcome in outcomes:
                turn.allowance.charge(outcome.work)
                if outcome.status == "interrupted":
                    raise KeyboardInterrupt
                if outcome.status == "infeasible":
                    self._refuted[cell] = horizon
                else:
                    self._take(data, outcome)
                    yield cell, outcome.jobs is not None

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
    ask: Callable[[Own, Event], PlanOutcome], cells: Iterable[Own], workers: int
) -> Generator[tuple[Own, PlanOutcome]]:
    """What is known of cells, as it becomes known; the questions end where nobody listens any more."""
    running, stop = dict[Future[PlanOutcome], Own](), Event()
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


def _answered(running: dict[Future[PlanOutcome], Own]) -> Iterator[tuple[Own, PlanOutcome]]:
    """Take out what is answered, at least one."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

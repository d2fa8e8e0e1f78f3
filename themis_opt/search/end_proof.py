"""The proof for few equal chunks: a horizon is refuted by refuting it for all places where chunks begin.

:mod:`formulations.end_counts` says which cells a horizon leaves: how many chunks begin on each dimension.
:mod:`formulations.chunk_order` is asked about every one, then about the parts of those that are hard, which say too on
which dimension each chunk ends.  If none has a schedule, the makespan is more than the horizon, and a longer one is
asked; if one has, it is simulated and may be the best; if too many are hard, a shorter one is asked.

What a cell may take is little at first, and doubled when hardly any longer horizon is refuted.  Those that took
longest, and those like the best schedule, come first, so that a horizon that is too long is left soon.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Event
from time import monotonic

from formulations.chunk_order import ChunkOrder
from formulations.end_counts import EndCells, EndPairs, Ends
from formulations.job_plans import PlanOutcome
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.solving.lowering import ChunkOrderData, enforced_plan, in_ticks, job_class, job_plans, rounded_down
from themis_opt.solving.makespan_bounds import least_equal

MIN_STAGES, MAX_STAGES = 33, 160
"""Stages of the plans it is for: CP-SAT proves smaller ones as a whole, and hardly any cell of larger ones."""

MAX_ARCS = 5_000
"""Lattice arcs of all chunks: a larger model takes longer to build for every cell than its search takes."""

LEAST_STEP, MAX_STEP = 0.05, 0.9
"""Share of the gap below which the place between the bound and a horizon that was not refuted is not searched, and the
place of the longest horizon: only cells like the best schedule have schedules that are hardly better.
"""

QUESTION_WORK, LISTING_WORK = 0.03, 0.015
"""Seconds counted as work for a question about a cell, and for a cell that is met, beside what the solver counts: the
least that they took with 8 chunks on four dimensions, most of it to build and presolve the models.
"""


@dataclass(frozen=True)
class EndProofParams:
    """How horizons are chosen and searched.

    What half and twice of each changes: ``reports/parameters``, proof by begin and end counts.

    Attributes
    ----------
    step : float
        Place of the first horizon between the bound and the best makespan; after one that was not refuted comes the
        middle between it and the bound.
    slot : float
        Share of the time of the proof that a cell, or a part of one, may take, until it is doubled.
    quick, advance : float
        As long as a horizon is refuted in no more than a share of the time left, the step is doubled; after that, and
        whenever cells may take longer, the next horizon has this place.
    hard_cells : int
        Cells of a horizon, or parts of one cell, that may turn out to be hard.  The study, of some seconds, meets
        hardly any; in single runs of 42 to 48 s bounds of four cases with 3 and with 6 differ by 0.6 % or less.
    resolution : int
        Ticks of the best makespan; finer ones are refuted no later.
    """

    step: float = 0.35
    slot: float = 0.1
    quick: float = 0.05
    advance: float = 0.1
    hard_cells: int = 3
    resolution: int = 20_000


USUAL = EndProofParams()


@dataclass(frozen=True)
class Turn:
    """What the proof may take of an allowance: until `last` of it is left, and `slot` for a cell."""

    allowance: Allowance
    last: float
    slot: float

    @property
    def left(self) -> float:
        """Seconds left, zero or less if they are used up."""
        return self.allowance.left - self.last


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
        self.params, self.interrupted, self._is_starved = params, False, False
        self._data, self._likely = self._in_ticks(), ends_of(best)
        self._refuted, self._work = dict[Ends, float](), dict[Ends, float]()
        self._hard = dict[Ends, tuple[float, float]]()

    @staticmethod
    def suits(instance: Instance) -> bool:
        """Whether it says something of an instance: one collective on several dimensions, in few chunks."""
        own = instance.exchanges[0]
        stages = own.chunks * len(own.span) * len(own.kind.rule.phases)
        is_small = MIN_STAGES <= stages <= MAX_STAGES and stages * 2 ** (len(own.span) - 1) <= MAX_ARCS
        return len(instance.exchanges) == 1 and len(own.span) > 1 and is_small

    def run(self, allowance: Allowance, seconds: float) -> None:
        """Raise the bound until it is near the best makespan, cannot be raised, or the seconds are over."""
        own = self.params
        turn = Turn(allowance, allowance.left - seconds, own.slot * seconds)
        step, failed = own.step, math.inf
        while turn.left > 0 and not self._is_near and not self.interrupted and not self._is_starved:
            gap = self.best.makespan - self.bound
            room = min(self.best.makespan, failed) - self.bound
            if gap < self._data.tick:
                return
            if room < max(LEAST_STEP * gap, self._data.tick):
                turn, step, failed = replace(turn, slot=2 * turn.slot), own.advance, math.inf
                continue
            horizon, known, left = self.bound + step * room, self.best, turn.left
            if self._refutes(horizon, turn):
                self.bound = horizon
                self.report(horizon)
                if failed == math.inf:
                    is_quick = left - turn.left < own.quick * left
                    step = min(2 * step, MAX_STEP) if is_quick else own.advance
            elif self.best is known:
                step, failed = 0.5, horizon

    @property
    def _is_near(self) -> bool:
        return self.best.makespan <= self.bound * (1 + self.limits.gap)

    def _refutes(self, horizon: float, turn: Turn) -> bool:
        """Whether no cell has a schedule that ends by the horizon."""
        try:
            cells = self._parts(None, horizon, turn)
            return cells is not None and self._fall(cells, horizon, turn)
        except KeyboardInterrupt:
            self.interrupted = True
            return False

    def _fall(self, cells: list[Ends], horizon: float, turn: Turn) -> bool:
        """Whether all cells are refuted, some of them by their parts."""
        left = [cell for cell in cells if self._refuted.get(cell, 0.0) < horizon]
        hard = [cell for cell in left if self._is_hard(cell, horizon, turn)]
        if len(hard) > self.params.hard_cells:
            return False
        asked = sorted((cell for cell in left if cell not in hard), key=self._ease)
        with closing(self._standing(asked, horizon, turn)) as standing:
            for cell, has_schedule in standing:
                hard.append(cell)
                is_over = turn.left <= 0 or self._is_starved
                if has_schedule or is_over or len(hard) > self.params.hard_cells or isinstance(cell, EndPairs):
                    return False
        return all(self._parts_fall(cell, horizon, turn) for cell in hard)

    def _is_hard(self, cell: Ends, horizon: float, turn: Turn) -> bool:
        """Whether a cell was not refuted with a horizon as short in as long a time."""
        shortest, slot = self._hard.get(cell, (math.inf, 0.0))
        return shortest <= horizon and turn.slot <= slot and not isinstance(cell, EndPairs)

    def _parts_fall(self, cell: Ends, horizon: float, turn: Turn) -> bool:
        """Whether all parts of a cell are refuted."""
        parts = self._parts(cell, horizon, turn)
        if parts is None or not self._fall(parts, horizon, turn):
            return False
        self._refuted[cell] = horizon
        return True

    def _ease(self, cell: Ends) -> tuple[float, int]:
        """The least for cells to be asked first: those that took long, and those like the best schedule."""
        if isinstance(cell, EndPairs):
            return -self._work.get(cell, 0.0), 0
        return -self._work.get(cell, 0.0), min(
            sum(abs(one - other) for one, other in zip(cell.begin, ends, strict=True)) for ends in self._likely
        )

    def _parts(self, cell: Ends | None, horizon: float, turn: Turn) -> list[Ends] | None:
        """The parts of a cell, or all cells, that a horizon leaves; None if there is no time."""
        if isinstance(cell, EndPairs):
            return None
        met, charged = list[Ends](), 0.0
        cells = EndCells(self._data.jobs[0], int(horizon) // self._data.tick, cell)
        for own in cells:
            turn.allowance.charge(LISTING_WORK + cells.work - charged)
            charged = cells.work
            met.append(own)
            if turn.left <= QUESTION_WORK * len(met):
                return None
        return met if cells.are_all else None

    def _standing(self, cells: Iterable[Ends], horizon: float, turn: Turn) -> Generator[tuple[Ends, bool]]:
        """Those of some cells that are not refuted in their slot, and whether they have a schedule."""

        def ask(cell: Ends, stop: Event) -> PlanOutcome:
            budget = replace(self.limits.budget(max(min(turn.slot, turn.left), 0.0)), workers=1)
            model = ChunkOrder(self._data.jobs, int(horizon) // self._data.tick, ends=cell)
            begin = monotonic()
            outcome = model.solve(budget, ignore, stop)
            spent = outcome.work if budget.deterministic else monotonic() - begin
            if outcome.status == "unknown" and not stop.is_set() and spent < budget.seconds / 2:
                self._is_starved = True  # it was stopped for its memory, and so will be all others
            return outcome

        workers = 1 if self.limits.deterministic else self.limits.workers
        with closing(in_parallel(ask, cells, workers)) as outcomes:
            for cell, outcome in outcomes:
                turn.allowance.charge(QUESTION_WORK + outcome.work)
                self._work[cell] = outcome.work
                if outcome.status == "interrupted":
                    raise KeyboardInterrupt
                if outcome.status == "infeasible":
                    self._refuted[cell] = horizon
                else:
                    self._hard[cell] = horizon, turn.slot
                    self._take(outcome)
                    yield cell, outcome.jobs is not None

    def _in_ticks(self) -> ChunkOrderData:
        """The chunks, as jobs of the least size of all of them, in ticks of the best makespan."""
        instance = self.best.instance
        own, tick = instance.exchanges[0], math.ceil(self.best.makespan / self.params.resolution)
        job = rounded_down(job_class(instance, own, least_equal(own), count=own.chunks), tick)
        return ChunkOrderData(tick, (job,), ((0, tuple(range(own.chunks))),), (equal_sizes(own),))

    def _take(self, outcome: PlanOutcome) -> None:
        """Simulate a plan, if there is one."""
        if outcome.jobs is None:
            return
        schedule = simulate(self.best.instance, enforced_plan(self.best.instance, self._data, outcome.jobs))
        if schedule.makespan < self.best.makespan:
            self.best, self._likely = schedule, ends_of(schedule)
            self.offer(schedule)


def ends_of(schedule: Schedule) -> tuple[list[int], list[int]]:
    """How many chunks begin, and how many end, on each dimension."""
    data = in_ticks(schedule)
    paths, machines = [times.paths for own in job_plans(data, schedule) for times in own], data.jobs[0].machines
    first, last = [path[0][0] for path in paths], [path[-1][-1] for path in paths]
    return [first.count(k) for k in machines], [last.count(k) for k in machines]


def in_parallel(
    ask: Callable[[Ends, Event], PlanOutcome], cells: Iterable[Ends], workers: int
) -> Generator[tuple[Ends, PlanOutcome]]:
    """What is known of cells, as it becomes known; the questions end where nobody listens any more."""
    running, stop = dict[Future[PlanOutcome], Ends](), Event()
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


def _answered(running: dict[Future[PlanOutcome], Ends]) -> Iterator[tuple[Ends, PlanOutcome]]:
    """Take out what is answered, at least one."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

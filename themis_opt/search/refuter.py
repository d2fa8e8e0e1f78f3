"""One bisection over horizons: the proof that no schedule ends before a time, cell by cell.

The schedules of an instance are divided into cells, such as the numbers of chunks.  A horizon is refuted if oracles
refute it for all cells; then no schedule ends by it, and a longer one is asked.  If a cell has a schedule, that may be
the best; if no oracle knows, a shorter horizon is asked.  Oracles that answer soon are asked first, alone; slow ones
raise what these leave.  A question may take little time at first, and twice as much when nothing more is refuted.
"""

import math
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Event
from time import monotonic
from typing import Generic, TypeVar

from formulations.interruption import INTERRUPTION, POLL_SECONDS
from formulations.limits import Limits
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.incumbent import Incumbent

FIRST_SHARE = 0.1  # of the time for a question, until it is doubled, and of the gap for what a bisection leaves of it
QUESTION_WORK = 0.03
"""Seconds counted as work for a question beside what a solver counts: most of it to build and presolve a model."""

Cell = TypeVar("Cell", bound=Hashable)


@dataclass(frozen=True)
class Answer(Generic[Cell]):
    """What an oracle says.

    `refuted`: horizons that are too short, in picoseconds; others than the one that was asked about are welcome.
    `schedule`: one that was met.
    `work`: seconds of work, which do not depend on the machine.
    """

    refuted: Mapping[Cell, float] = field(default_factory=dict)
    schedule: Schedule | None = None
    work: float = 0.0


Oracle = Callable[[Cell, float, Limits, Event], Answer[Cell]]
"""Whether a cell has a schedule that ends by a horizon in picoseconds, within limits and until the event is set."""


Cells = Callable[[float], Sequence[Cell] | None]
"""All cells that may have a schedule that ends by a horizon, the likely ones first; None if time is short."""


class Refuter(Generic[Cell]):
    """The search for a bound.

    `incumbent`: whose bound is raised, to whom schedules are offered, and who says what is left.
    `cells`: what is asked about.
    `oracles`: those that answer sooner first.  All but the last are asked alone at first.
    `precision`: gap in picoseconds at which to stop.
    `at_once`: questions at the same time, which share the threads.
    `known`: horizons that are known to be too short.
    """

    def __init__(
        self,
        incumbent: Incumbent,
        cells: Cells[Cell],
        oracles: Sequence[Oracle[Cell]],
        precision: float,
        at_once: int = 1,
        known: Mapping[Cell, float] | None = None,
    ) -> None:
        self._incumbent, self._cells, self._oracles = incumbent, cells, oracles
        self._precision, self._at_once = precision, at_once
        self._bounds, self._work = dict(known or {}), dict[Cell, float]()
        self._failures = dict[tuple[int, Cell], tuple[float, float]]()  # by oracle, horizon and slot

    def run(self) -> None:
        """Raise the bound until it is near the best makespan, cannot be raised, or the turn is over."""
        slot = FIRST_SHARE * self._incumbent.left
        try:
            for number in range(1, len(self._oracles) + 1):
                self._bisect(self._oracles[:number], slot)
            while not self._is_over and slot < self._incumbent.left:
                slot *= 2
                self._bisect(self._oracles, slot)
        except KeyboardInterrupt:
            self._incumbent.allowance.interrupt()

    @property
    def _is_over(self) -> bool:
        incumbent = self._incumbent
        return incumbent.done or incumbent.best.makespan - incumbent.bound < self._precision

    def _bisect(self, oracles: Sequence[Oracle[Cell]], slot: float) -> None:
        """Refute longer horizons, until the shortest that was not refuted leaves little of the gap."""
        incumbent, failed = self._incumbent, math.inf
        while not self._is_over:
            room = min(incumbent.best.makespan, failed) - incumbent.bound
            if room < FIRST_SHARE * (incumbent.best.makespan - incumbent.bound):
                return
            horizon = incumbent.bound + room / 2
            if not self._refutes(horizon, oracles, slot):
                failed = horizon

    def _refutes(self, horizon: float, oracles: Sequence[Oracle[Cell]], slot: float) -> bool:
        """Whether no cell has a schedule that ends by the horizon; what is learnt on the way raises the bound too."""
        cells = self._cells(horizon)
        if cells is None:
            return False
        left = [cell for cell in cells if self._bounds.get(cell, 0.0) < horizon]
        with closing(self._answers(left, _Question(horizon, oracles, slot))) as answers:
            is_refuted = all(self._take(cell, answer, horizon) for cell, answer in answers)
        self._incumbent.raise_bound(min([horizon, *(self._bounds.get(cell, 0.0) for cell in cells)]))
        return is_refuted

    def _take(self, cell: Cell, answer: Answer[Cell], horizon: float) -> bool:
        """Keep what an answer says; whether the cell is refuted."""
        self._incumbent.allowance.charge(QUESTION_WORK + answer.work)
        self._work[cell] = max(self._work.get(cell, 0.0), answer.work)
        for other, refuted in answer.refuted.items():
            self._bounds[other] = max(self._bounds.get(other, 0.0), refuted)
        if answer.schedule is not None:
            self._incumbent.offer(answer.schedule)
        return self._bounds.get(cell, 0.0) >= horizon

    def _answers(self, cells: Sequence[Cell], question: "_Question[Cell]") -> Generator[tuple[Cell, Answer[Cell]]]:
        """What is known of cells, as it becomes known; the questions end where nobody listens any more.

        Cells that took long come first, so that a horizon that is too long is left soon.
        """
        running, stop = dict[Future[Answer[Cell]], Cell](), Event()
        with ThreadPoolExecutor(self._at_once) as threads:
            try:
                for cell in sorted(cells, key=lambda cell: -self._work.get(cell, 0.0)):
                    running[threads.submit(self._ask, cell, question, stop)] = cell
                    if len(running) == self._at_once:
                        yield from _take_out(running)
                while running:
                    yield from _take_out(running)
            finally:
                stop.set()

    def _ask(self, cell: Cell, question: "_Question[Cell]", stop: Event) -> Answer[Cell]:
        """Ask oracles in turn until one of them knows."""
        refuted, work, schedule = dict[Cell, float](), 0.0, None
        for number, oracle in enumerate(question.oracles):
            too_long, slot = self._failures.get((number, cell), (math.inf, 0.0))
            if too_long <= question.horizon and question.slot <= slot:
                continue
            limits = self._incumbent.solver_limits(question.slot)
            share, begin = replace(limits, workers=max(limits.workers // self._at_once, 1)), monotonic()
            answer = oracle(cell, question.horizon, share, stop)
            refuted |= {one: max(horizon, refuted.get(one, 0.0)) for one, horizon in answer.refuted.items()}
            work, schedule = work + answer.work, answer.schedule
            if schedule is not None or refuted.get(cell, 0.0) >= question.horizon or stop.is_set():
                break
            spent = answer.work if limits.deterministic else monotonic() - begin
            # An oracle that gave up early, such as one out of memory, knows no more with more time.
            self._failures[number, cell] = question.horizon, question.slot if spent > limits.seconds / 2 else math.inf
        return Answer(refuted, schedule, work)


@dataclass(frozen=True)
class _Question(Generic[Cell]):
    """A horizon, who is asked about it, and the seconds that each may take for a cell."""

    horizon: float
    oracles: Sequence[Oracle[Cell]]
    slot: float


def _take_out(running: dict[Future[Answer[Cell]], Cell]) -> Iterator[tuple[Cell, Answer[Cell]]]:
    """Take out what is answered, at least one."""
    while not (answered := wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done):
        INTERRUPTION.check()
    for future in answered:
        yield running.pop(future), future.result()

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
from typing import Generic, Protocol, TypeVar

from formulations.interruption import INTERRUPTION, POLL_SECONDS
from formulations.limits import Limits
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.incumbent import Incumbent

PLACE, BOLD_PLACE = 1 / 3, 2 / 3
"""Place of a horizon between what is proven and what is not, and while none has failed: to fail takes longest."""

LEAST_ROOM = 0.05
"""Share of the gap below which the rest between the bound and a horizon that was not refuted is not searched."""

SLOT = 0.1
"""Share of the time that a question may take, until it is doubled."""

QUESTION_WORK = 0.03
"""Seconds counted as work for a question beside what a solver counts: most of it to build and presolve a model."""

Cell = TypeVar("Cell", bound=Hashable)


@dataclass(frozen=True)
class Answer(Generic[Cell]):
    """What an oracle says.

    Attributes
    ----------
    refuted : mapping from cell to number
        Horizons that are too short, in picoseconds; others than the one that was asked about are welcome.
    schedule : Schedule or None
        One that was met.
    work : float
        Seconds of work, which do not depend on the machine.
    """

    refuted: Mapping[Cell, float] = field(default_factory=dict)
    schedule: Schedule | None = None
    work: float = 0.0


Oracle = Callable[[Cell, float, Limits, Event], Answer[Cell]]
"""Whether a cell has a schedule that ends by a horizon in picoseconds, within limits and until the event is set."""


class Cells(Protocol[Cell]):
    """What the schedules of an instance are divided into."""

    def within(self, horizon: float) -> Sequence[Cell] | None:
        """All cells that may have a schedule that ends by a horizon, the likely ones first; None if time is short."""

    def parts(self, cell: Cell, horizon: float) -> Sequence[Cell] | None:
        """The same of the parts of a cell; None if it has none, or there is no time."""


class Refuter(Generic[Cell]):
    """The search for a bound.

    Parameters
    ----------
    incumbent : Incumbent
        Whose bound is raised, to whom schedules are offered, and who says what is left.
    cells : Cells
        What is asked about.
    oracles : sequence of Oracle
        Those that answer sooner first.  All but the last are asked alone at first.
    precision : number
        Gap in picoseconds at which to stop.
    at_once : int
        Questions at the same time, which share the threads.
    most_hard : int
        Cells of a horizon that may be refuted by their parts.
    known : mapping from cell to number, optional
        Horizons that are known to be too short.
    """

    def __init__(
        self,
        incumbent: Incumbent,
        cells: Cells[Cell],
        oracles: Sequence[Oracle[Cell]],
        precision: float,
        at_once: int = 1,
        most_hard: int = 0,
        known: Mapping[Cell, float] | None = None,
    ) -> None:
        self._incumbent, self._cells, self._oracles = incumbent, cells, oracles
        self._precision, self._at_once, self._most_hard = precision, at_once, most_hard
        self._bounds, self._work = dict(known or {}), dict[Cell, float]()
        self._failures = dict[tuple[int, Cell], tuple[float, float]]()  # by oracle, horizon and slot

    def run(self) -> None:
        """Raise the bound until it is near the best makespan, cannot be raised, or the turn is over."""
        slot = SLOT * self._incumbent.left
        try:
            for number in range(1, len(self._oracles) + 1):
                self._bisect(self._oracles[:number], slot)
            while not self._is_over and slot < self._incumbent.left:
                slot *= 2
                self._bisect(self._oracles, slot)
        except KeyboardInterrupt:
            self._incumbent.interrupt()

    @property
    def _is_over(self) -> bool:
        return self._incumbent.done or self._gap < self._precision

    @property
    def _gap(self) -> float:
        return self._incumbent.best.makespan - self._incumbent.bound

    def _bisect(self, oracles: Sequence[Oracle[Cell]], slot: float) -> None:
        """Refute longer horizons, until the shortest that was not refuted leaves little of the gap."""
        incumbent, failed, place = self._incumbent, math.inf, PLACE
        while not self._is_over:
            room = min(incumbent.best.makespan, failed) - incumbent.bound
            if room < LEAST_ROOM * self._gap:
                return
            horizon = incumbent.bound + place * room
            is_refuted = self._refutes(horizon, oracles, slot)
            failed = failed if is_refuted else horizon
            place = BOLD_PLACE if failed == math.inf else PLACE

    def _refutes(self, horizon: float, oracles: Sequence[Oracle[Cell]], slot: float) -> bool:
        """Whether no cell has a schedule that ends by the horizon; what is learnt on the way raises the bound too."""
        cells = self._cells.within(horizon)
        if cells is None:
            return False
        question = _Question(horizon, oracles, slot)
        is_refuted = self._fall(cells, question, self._most_hard)
        self._incumbent.raise_bound(min([horizon, *(self._bounds.get(cell, 0.0) for cell in cells)]))
        return is_refuted

    def _fall(self, cells: Sequence[Cell], question: "_Question[Cell]", most_hard: int) -> bool:
        """Whether all cells are refuted, some of them by their parts."""
        left = [cell for cell in cells if self._bounds.get(cell, 0.0) < question.horizon]
        hard = list[Cell]()
        with closing(self._answers(left, question)) as answers:
            for cell, answer in answers:
                if self._take(cell, answer, question.horizon):
                    continue
                hard.append(cell)
                if answer.schedule is not None or self._is_over or len(hard) > most_hard:
                    return False
        return all(self._parts_fall(cell, question) for cell in hard)

    def _parts_fall(self, cell: Cell, question: "_Question[Cell]") -> bool:
        """Whether all parts of a cell are refuted."""
        parts = self._cells.parts(cell, question.horizon)
        if parts is None or not self._fall(parts, question, most_hard=0):
            return False
        self._bounds[cell] = question.horizon
        return True

    def _take(self, cell: Cell, answer: Answer[Cell], horizon: float) -> bool:
        """Keep what an answer says; whether the cell is refuted."""
        self._incumbent.charge(QUESTION_WORK + answer.work)
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
            if self._has_failed(number, cell, question):
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

    def _has_failed(self, number: int, cell: Cell, question: "_Question[Cell]") -> bool:
        """Whether the oracle did not refute a horizon as short in as long a time."""
        horizon, slot = self._failures.get((number, cell), (math.inf, 0.0))
        return horizon <= question.horizon and question.slot <= slot


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

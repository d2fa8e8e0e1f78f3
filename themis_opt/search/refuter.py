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
from functools import cached_property
from threading import Event
from time import monotonic
from typing import ClassVar, Generic, TypeVar

from formulations.chunk_count import ChunkCount
from formulations.chunk_order import ChunkOrder
from formulations.dispatch_loop import FITS, REFUTED, UNDECIDED, advance
from formulations.dispatch_tree import MAX_TREE_MACHINES, JobStates
from formulations.end_counts import BeginCounts, EndCells
from formulations.interruption import INTERRUPTION, POLL_SECONDS
from formulations.interval_loads import MAX_LOADS_MACHINES, IntervalLoads
from formulations.job_plans import SizedOutcome
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits
from themis_opt.base.compiled import Compilable, FirstUse
from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.instance import Instance
from themis_opt.schedules.incumbent import ignore
from themis_opt.schedules.plan import equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import num_stages
from themis_opt.search.orders import MAX_ORDERED_STAGES
from themis_opt.solving.lowering import RESOLUTION, ChunkOrderData, enforced_plan, job_class, rounded_down
from themis_opt.solving.makespan_bounds import chunk_counts, least_equal
from themis_opt.solving.sizing import plan_with_shares, resized

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


MAX_OPEN_COUNTS = 24  # most numbers of chunks that are open; where there are more, chunks cost too little to be counted
MAX_TREE_STAGES = 64  # stages of the largest trees: larger ones are neither refuted nor solved in a minute
ADVANCE = Compilable(advance, nogil=True)  # always compiled; other threads run meanwhile
SLICE = 20_000  # nodes between two looks at the clock: a tenth of a second
WORK_PER_NODE = 5e-7  # seconds of work for a node and job
ENTRIES = 1 << 20  # nodes that are remembered, in 16 MiB


@dataclass(frozen=True)
class RefuteCounts:
    """The step for one collective in chunks of any sizes, each of which costs something."""

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether sizes are free, stages cost something whatever they send, and each dimension is one resource."""
        exchanges, is_plain = incumbent.instance.exchanges, incumbent.instance.ports.is_plain
        is_one = len(exchanges) == 1 and len(exchanges[0].span) > 1
        if not (is_one and is_plain and incumbent.free_sizes):
            return False
        least = job_class(incumbent.instance, exchanges[0], 0, "fluid")
        return any(duration > 0 for phase in least.phases for duration in phase.duration.values())

    def run(self, incumbent: Incumbent) -> None:
        """Raise the least bound of all numbers."""
        counts, makespan = chunk_counts(incumbent.instance), float(incumbent.best.makespan)
        bounds = open_counts(counts, makespan)
        incumbent.raise_bound(min([makespan, *bounds.values()]) if bounds is not None else 0.0)
        if not bounds or incumbent.done:
            return
        is_ready(0)  # it is by the time it is asked
        oracles = list(usual_oracles(incumbent.instance, counts, max(bounds), makespan))
        likely = sorted(bounds, key=bounds.__getitem__)

        def cells(horizon: float) -> list[int]:
            return [count for count in likely if bounds[count] < horizon]

        Refuter(incumbent, cells, oracles, precision=1.0, known=bounds).run()


def usual_oracles(instance: Instance, counts: ChunkCount, most: int, makespan: float) -> Iterator[Oracle[int]]:
    """Who is asked about numbers of chunks up to `most`, the fastest first."""
    num_machines = len(counts.jobs[0].machines)
    if num_machines <= MAX_LOADS_MACHINES:
        yield LoadsOracle(counts, most, makespan)
    if num_machines <= MAX_TREE_MACHINES:
        yield TreeOracle(instance, counts)


def open_counts(counts: ChunkCount, makespan: float) -> dict[int, float] | None:
    """Bounds by number of chunks, of those that may have a better schedule; None where there are too many."""
    bounds = dict[int, float]()
    for count in range(1, counts.most[0] + 1):
        if counts.loads((count,), ends=False) >= makespan:
            break  # loads grow with the number, so all others are closed
        if len(bounds) == MAX_OPEN_COUNTS:
            return None
        if (bound := counts.bound_of((count,))) < makespan:
            bounds[count] = bound
    return bounds


class LoadsOracle:
    """Interval loads, which learn about all numbers of chunks and all horizons from each question."""

    def __init__(self, counts: ChunkCount, most: int, makespan: float) -> None:
        self._loads = IntervalLoads(replace(counts.jobs[0], count=most), counts.least[0], makespan)

    def __call__(self, cell: int, horizon: float, limits: Limits, stop: Event) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        outcome = self._loads.solve(cell, self._loads.ticks(horizon), limits, stop)
        refuted = {count: self._loads.horizon(int(t)) for count, t in enumerate(self._loads.refuted) if count}
        return Answer(refuted, None, outcome.work)


def _compile() -> None:
    """Refute a horizon."""
    job = JobClass((0,), (JobPhase({(0, 0): 1.0}, {0: 0.0}),))
    states = JobStates(job, job, [1.0])
    ADVANCE.compiled(states.tree(1.0), states.search(1, 1), 1)


is_ready = FirstUse(_compile).is_over  # whether the search can begin within some seconds (None: however long it takes)


@dataclass(frozen=True)
class TreeOracle:
    """The dispatch tree: quick, or it never ends."""

    instance: Instance
    counts: ChunkCount

    def __call__(self, cell: int, horizon: float, limits: Limits, stop: Event) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        job = self.counts.jobs[0]
        num_stages = cell * len(job.machines) * len(job.phases)
        if num_stages > MAX_TREE_STAGES or not is_ready(None if limits.deterministic else 0):
            return Answer()
        outcome = search_tree(self._states, cell, horizon, limits, stop)
        refuted = {cell: horizon} if outcome.status == "infeasible" else {}
        return Answer(refuted, simulated(self.instance, outcome), outcome.work)

    @cached_property
    def _states(self) -> JobStates:
        """Any weights of the loads give a bound: these are those of as many chunks as dimensions."""
        job = self.counts.jobs[0]
        weights = self.counts.machine_weights((len(job.machines),))
        return JobStates(job, self.counts.least[0], [weights[k] for k in job.machines])


def search_tree(states: JobStates, count: int, horizon: float, limits: Limits, stop: Event) -> SizedOutcome:
    """Whether so many jobs fit into a horizon, as far as limits and other threads allow."""
    tree, search, status, work = states.tree(horizon), states.search(count, ENTRIES), UNDECIDED, 0.0
    last = monotonic() + limits.seconds
    while status == UNDECIDED and not stop.is_set():
        if (work >= limits.seconds) if limits.deterministic else (monotonic() >= last):
            break
        status = ADVANCE.compiled(tree, search, SLICE)
        work = WORK_PER_NODE * float(search.nodes[0]) * count
    if status == FITS:
        return SizedOutcome("feasible", *states.plans(search, horizon), work)
    return SizedOutcome("infeasible" if status == REFUTED else "unknown", (), (), work)


def simulated(instance: Instance, outcome: SizedOutcome) -> Schedule | None:
    """The plan of an outcome, if it has one, with the sizes that suit it best."""
    if not outcome.jobs:
        return None
    try:
        return resized(simulate(instance, plan_with_shares(instance, outcome)))
    except CyclicPlan:
        return None

"""One bisection over horizons: the proof that no schedule ends before a time, cell by cell.

The schedules of an instance are divided into cells, such as the numbers of chunks.  A horizon is refuted if oracles
refute it for all cells; then no schedule ends by it, and a longer one is asked.  If a cell has a schedule, that may be
the best; if no oracle knows, a shorter horizon is asked.  Oracles that answer soon are asked first, alone; slow ones
raise what these leave.  A question may take little time at first, and twice as much when nothing more is refuted.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import monotonic
from typing import ClassVar, Generic, TypeVar

from formulations.chunk_count import ChunkCount
from formulations.dispatch_loop import FITS, REFUTED, UNDECIDED, advance
from formulations.dispatch_tree import MAX_TREE_MACHINES, JobStates
from formulations.interval_loads import MAX_LOADS_MACHINES, IntervalLoads
from formulations.job_plans import SizedOutcome
from formulations.lattice import JobClass, JobPhase
from formulations.limits import Limits
from themis_opt.base.compiled import Compilable, FirstUse
from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.solving.lowering import job_class
from themis_opt.solving.makespan_bounds import chunk_counts
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


Oracle = Callable[[Cell, float, Limits], Answer[Cell]]
"""Whether a cell has a schedule that ends by a horizon in picoseconds, within limits."""


class Refuter(Generic[Cell]):
    """The search for a bound.

    `incumbent`: whose bound is raised, to whom schedules are offered, and who says what is left.
    `cells`: all that may have a schedule, the likely ones first.
    `oracles`: those that answer sooner first.  All but the last are asked alone at first.
    `precision`: gap in picoseconds at which to stop.
    `known`: horizons that are known to be too short.
    """

    def __init__(
        self,
        incumbent: Incumbent,
        cells: Sequence[Cell],
        oracles: Sequence[Oracle[Cell]],
        precision: float,
        known: Mapping[Cell, float] | None = None,
    ) -> None:
        self._incumbent, self._cells, self._oracles = incumbent, cells, oracles
        self._precision = precision
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
        """Whether no cell has a schedule that ends by the horizon; what is learnt on the way raises the bound too.

        Cells that took long come first, so that a horizon that is too long is left soon.
        """
        left = [cell for cell in self._cells if self._bounds.get(cell, 0.0) < horizon]
        left.sort(key=lambda cell: -self._work.get(cell, 0.0))
        is_refuted = all(self._take(cell, self._ask(cell, horizon, oracles, slot), horizon) for cell in left)
        self._incumbent.raise_bound(min([horizon, *(self._bounds.get(cell, 0.0) for cell in self._cells)]))
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

    def _ask(self, cell: Cell, horizon: float, oracles: Sequence[Oracle[Cell]], slot: float) -> Answer[Cell]:
        """Ask oracles in turn, each for a slot of so many seconds, until one of them knows."""
        refuted, work, schedule = dict[Cell, float](), 0.0, None
        for number, oracle in enumerate(oracles):
            too_long, slot_in_vain = self._failures.get((number, cell), (math.inf, 0.0))
            if too_long <= horizon and slot <= slot_in_vain:
                continue
            limits, begin = self._incumbent.solver_limits(slot), monotonic()
            answer = oracle(cell, horizon, limits)
            refuted |= {one: max(too_short, refuted.get(one, 0.0)) for one, too_short in answer.refuted.items()}
            work, schedule = work + answer.work, answer.schedule
            if schedule is not None or refuted.get(cell, 0.0) >= horizon:
                break
            spent = answer.work if limits.deterministic else monotonic() - begin
            # An oracle that gave up early, such as one out of memory, knows no more with more time.
            self._failures[number, cell] = horizon, slot if spent > limits.seconds / 2 else math.inf
        return Answer(refuted, schedule, work)


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
        Refuter(incumbent, likely, oracles, precision=1.0, known=bounds).run()


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
        if counts.loads((count,)) >= makespan:
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

    def __call__(self, cell: int, horizon: float, limits: Limits) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        outcome = self._loads.solve(cell, self._loads.ticks(horizon), limits)
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

    def __call__(self, cell: int, horizon: float, limits: Limits) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        job = self.counts.jobs[0]
        num_stages = cell * len(job.machines) * len(job.phases)
        if num_stages > MAX_TREE_STAGES or not is_ready(None if limits.deterministic else 0):
            return Answer()
        outcome = search_tree(self._states, cell, horizon, limits)
        refuted = {cell: horizon} if outcome.status == "infeasible" else {}
        return Answer(refuted, simulated(self.instance, outcome), outcome.work)

    @cached_property
    def _states(self) -> JobStates:
        """Any weights of the loads give a bound: these are those of as many chunks as dimensions."""
        job = self.counts.jobs[0]
        weights = self.counts.machine_weights((len(job.machines),))
        return JobStates(job, self.counts.least[0], [weights[k] for k in job.machines])


def search_tree(states: JobStates, count: int, horizon: float, limits: Limits) -> SizedOutcome:
    """Whether so many jobs fit into a horizon, as far as limits allow."""
    tree, search, status, work = states.tree(horizon), states.search(count, ENTRIES), UNDECIDED, 0.0
    last = monotonic() + limits.seconds
    while status == UNDECIDED:
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

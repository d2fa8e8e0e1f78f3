"""The proof where every chunk costs something: a horizon is refuted for every number of chunks.

:mod:`formulations.chunk_count` bounds the makespan for every number at once; those whose bound is below the best
makespan are open.  About these, :mod:`formulations.interval_loads` and :mod:`formulations.dispatch_tree` are asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event
from time import monotonic
from typing import ClassVar

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
from themis_opt.search.refuter import Answer, Oracle, Refuter
from themis_opt.solving.lowering import job_class
from themis_opt.solving.makespan_bounds import chunk_counts
from themis_opt.solving.sizing import plan_with_shares, resized

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

"""The proof where every chunk costs something: a horizon is refuted for every number of chunks.

:mod:`formulations.chunk_count` bounds the makespan for every number at once; those whose bound is below the best
makespan are open.  About these, :mod:`formulations.interval_loads` and :mod:`formulations.sized_order` are asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event
from time import monotonic
from typing import ClassVar

from formulations.chunk_count import ChunkCount
from formulations.dispatch_tree import MAX_TREE_MACHINES, JobStates
from formulations.interval_loads import MAX_LOADS_MACHINES, IntervalLoads
from formulations.limits import Limits
from formulations.sized_order import SizedOrder, SizedOutcome
from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.dispatch_search import is_ready, search_tree
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.refuter import Answer, Oracle, Refuter
from themis_opt.solving.lowering import job_class
from themis_opt.solving.makespan_bounds import chunk_counts
from themis_opt.solving.sizing import plan_with_shares, resized

MAX_OPEN_COUNTS = 24
"""Most numbers of chunks that are open; where there are more, chunks cost too little to be counted."""

MAX_ASKED_STAGES = 64
"""Stages of the largest models with sizes: larger ones are neither refuted nor solved in a minute."""

PRECISIONS = (1_000, 512), (16_000, 8_192)
"""Ticks of a horizon and units of size: finer ones where coarse ones, which are refuted sooner, only seem to fit."""


@dataclass(frozen=True)
class RefuteCounts:
    """The step for one collective in chunks of any sizes, each of which costs something."""

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether sizes are free, stages cost something whatever they send, and each dimension is one resource."""
        exchanges = incumbent.instance.exchanges
        if (
            not incumbent.instance.ports.is_plain
            or not incumbent.free_sizes
            or len(exchanges) > 1
            or len(exchanges[0].span) == 1
        ):
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
        Refuter(incumbent, Counts(bounds), oracles, precision=1.0, known=bounds).run()


def usual_oracles(instance: Instance, counts: ChunkCount, most: int, makespan: float) -> Iterator[Oracle[int]]:
    """Who is asked about numbers of chunks up to `most`, the fastest first."""
    num_machines = len(counts.jobs[0].machines)
    if num_machines <= MAX_LOADS_MACHINES:
        yield LoadsOracle(counts, most, makespan)
    if num_machines <= MAX_TREE_MACHINES:
        yield TreeOracle(instance, counts)
    yield SizedOracle(instance, counts)


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


@dataclass(frozen=True)
class Counts:
    """The open numbers of chunks, and their bounds, as cells."""

    bounds: Mapping[int, float]

    def within(self, horizon: float) -> Sequence[int]:
        """The numbers whose bounds are below a horizon, the least first."""
        return sorted((count for count, bound in self.bounds.items() if bound < horizon), key=self.bounds.__getitem__)

    def parts(self, cell: int, horizon: float) -> None:
        """None: a number has no parts."""


class LoadsOracle:
    """Interval loads, which learn about all numbers of chunks and all horizons from each question."""

    def __init__(self, counts: ChunkCount, most: int, makespan: float) -> None:
        self._loads = IntervalLoads(replace(counts.jobs[0], count=most), counts.least[0], makespan)

    def __call__(self, cell: int, horizon: float, limits: Limits, stop: Event) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        outcome = self._loads.solve(cell, self._loads.ticks(horizon), limits, stop)
        refuted = {count: self._loads.horizon(int(t)) for count, t in enumerate(self._loads.refuted) if count}
        return Answer(refuted, None, outcome.work)


@dataclass(frozen=True)
class SizedOracle:
    """CP-SAT with sizes as variables, which finds plans as well."""

    instance: Instance
    counts: ChunkCount

    def __call__(self, cell: int, horizon: float, limits: Limits, stop: Event) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        (job,), least = self.counts.jobs, self.counts.least
        if num_stages(self.counts, cell) > MAX_ASKED_STAGES:
            return Answer()
        jobs, work, last = [replace(job, count=cell)], 0.0, monotonic() + limits.seconds
        for resolution, units in PRECISIONS:
            left = limits.seconds - work if limits.deterministic else last - monotonic()
            outcome = SizedOrder(jobs, least, horizon, resolution, units).solve(limits.within(left), stop)
            if outcome.status == "interrupted":
                raise KeyboardInterrupt
            work, schedule = work + outcome.work, simulated(self.instance, outcome)
            if outcome.status == "infeasible":
                return Answer({cell: horizon}, None, work)
            if schedule is None or schedule.makespan <= horizon:
                break
        return Answer({}, schedule, work)


@dataclass(frozen=True)
class TreeOracle:
    """The dispatch tree: quick, or it never ends."""

    instance: Instance
    counts: ChunkCount

    def __call__(self, cell: int, horizon: float, limits: Limits, stop: Event) -> Answer[int]:
        """Whether so many chunks fit into the horizon."""
        if num_stages(self.counts, cell) > MAX_ASKED_STAGES or not is_ready(None if limits.deterministic else 0):
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


def num_stages(counts: ChunkCount, count: int) -> int:
    """Stages of so many chunks."""
    return count * len(counts.jobs[0].machines) * len(counts.jobs[0].phases)


def simulated(instance: Instance, outcome: SizedOutcome) -> Schedule | None:
    """The plan of an outcome, if it has one, with the sizes that suit it best."""
    if outcome.jobs is None:
        return None
    try:
        return resized(simulate(instance, plan_with_shares(instance, outcome)))
    except CyclicPlan:
        return None

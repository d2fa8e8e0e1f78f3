"""The proof where every chunk costs something: one bound for every number of chunks, raised where it is least.

A schedule of one collective has exactly n chunks for some n.  :mod:`formulations.chunk_count` bounds the makespan for
every n at once; those n whose bound is below the best makespan are open.  The least of the bounds is what is proven, so
that n alone is asked whether a makespan between its bound and the best is in reach.  If it is not, the bound of n rises
to it.  The time is shared by :mod:`formulations.dispatch_tree`, which is asked about longer and longer horizons as long
as it answers in time, and :mod:`formulations.interval_loads`, which is asked by bisection, one model for all n that
keeps what it learns; where both know no more, :mod:`formulations.sized_order` is asked.  An answer may be a plan, which
is simulated and may be the best.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import monotonic

from formulations.dispatch_tree import JobStates
from formulations.interval_loads import MAX_MACHINES, IntervalLoads, IntervalParams
from formulations.sized_order import SizedOrder, SizedOutcome
from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.dispatch_search import ask as search_tree
from themis_opt.search.dispatch_search import is_ready, job_states
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.solving.lowering import job_class
from themis_opt.solving.makespan_bounds import chunk_counts
from themis_opt.solving.sizing import plan_with_shares, resized


@dataclass(frozen=True)
class ProofParams:
    """How horizons are chosen and searched.

    All-reduces of 16 MiB on networks of the Themis paper, one busy core, November 2026: a horizon 7 % above the bound
    of :mod:`formulations.chunk_count` was refuted in 0.1 s for three chunks on three dimensions; five of seven that
    were 6 to 22 % above it in 2 to 13 s for four chunks on four; those of five on four were neither refuted nor reached
    in 25 s.

    Attributes
    ----------
    max_stages : int
        Stages of the largest models that are built: larger ones are neither refuted nor solved in a minute.
    max_open : int
        Most numbers of chunks that are open; where there are more, chunks cost too little.
    slots : int
        Horizons tried in the time left at the start, each for an equal share, unless they take less.
    step : float
        Place of the first horizon between the bound and the best makespan.
    retreat : float
        By how much that shrinks after a horizon that was neither refuted nor reached.
    least_step : float
        Step at which a number of chunks is given up, and the proof with it.
    resolution, units : int
        Ticks of a horizon and units of size: coarse models are refuted sooner, and a plan is made exact afterwards.
    stages_planned_first : int
        Stages up to which CP-SAT is asked before interval loads: it refutes horizons of 18 in a second or two.
    tree_step : float
        `step` of dispatch trees: their work doubles with every per mille or two of the horizon.
    tree_slot : float
        Share of the time of the proof that the first horizon of a tree may take: a tree is quick, or never ends.
    tree_patience : float
        How many times as long as the last horizon that a tree refuted the next one may take; two to five are usual.
    loads : IntervalParams
        How finely interval loads look at a horizon.
    """

    max_stages: int = 64
    max_open: int = 24
    slots: int = 4
    step: float = 0.3
    retreat: float = 0.4
    least_step: float = 0.03
    resolution: int = 1_000
    units: int = 512
    stages_planned_first: int = 20
    tree_step: float = 0.05
    tree_slot: float = 0.1
    tree_patience: float = 10.0
    loads: IntervalParams = field(default_factory=IntervalParams)


USUAL = ProofParams()


@dataclass
class OpenCount:
    """What is known of a number of chunks.

    Attributes
    ----------
    bound : float
        No schedule of so many chunks has a lower makespan, in picoseconds.
    reach : float
        Least horizon of which interval loads know no more; at first the best makespan.
    step, tree_step : float
        Place of the next horizon of CP-SAT, and of dispatch trees, between the bound and the best makespan.
    tree_seconds : float
        What the last horizon that a dispatch tree refuted took.
    """

    bound: float
    reach: float
    step: float
    tree_step: float
    tree_seconds: float = 0.0


class CountProof:
    """Bounds by number of chunks for an instance of one collective.

    Parameters
    ----------
    limits : SearchLimits
        Threads, seed, memory and the gap at which to stop.
    best : Schedule
        The best schedule known, of free sizes.
    offer : callable
        Hears of better schedules.
    report : callable
        Hears of better bounds, in picoseconds.
    params : ProofParams
        How horizons are chosen.
    """

    def __init__(
        self,
        limits: SearchLimits,
        best: Schedule,
        offer: Callable[[Schedule], None],
        report: Callable[[float], None],
        params: ProofParams = USUAL,
    ) -> None:
        self.limits, self.best, self.offer, self.report, self.params = limits, best, offer, report, params
        self.interrupted = False
        self._counts = chunk_counts(best.instance)
        self._open = self._open_counts()
        self._told = self.bound
        self._in_trees = self._in_loads = 0.0

    @staticmethod
    def suits(instance: Instance) -> bool:
        """Whether it says something of an instance: one collective on several dimensions, whose chunks each cost."""
        if len(instance.exchanges) > 1 or len(instance.exchanges[0].span) == 1:
            return False
        least = job_class(instance, instance.exchanges[0], 0, "fluid")
        return any(duration > 0 for leg in least.legs for duration in leg.duration.values())

    @property
    def bounds(self) -> dict[int, float]:
        """What is proven for every open number of chunks, in picoseconds."""
        return {count: own.bound for count, own in (self._open or {}).items()}

    @property
    def bound(self) -> float:
        """What is proven for all numbers of chunks, in picoseconds; 0 where too many are open."""
        if self._open is None:
            return 0.0
        return min([*self.bounds.values(), float(self.best.makespan)])

    def run(self, allowance: Allowance, seconds: float) -> None:
        """Raise the least bound until it is near the best makespan, cannot be raised, or the seconds are over."""
        last, slot = allowance.left - seconds, seconds / self.params.slots
        while self._open and allowance.left > last and not self._is_near and not self.interrupted:
            count = min(self._open, key=lambda number: self.bounds[number])
            own = self._open[count]
            left = min(slot, allowance.left - last)
            stages, horizon = self._num_stages(count), self._next_ticks(own)
            trees_are_next = horizon is None or self._in_trees <= self._in_loads
            if trees_are_next and (states := self._tree_states(count, own, left)) is not None:
                allowance.charge(self._look_at_tree(states, count, own, seconds, allowance.left - last))
                continue
            may_plan = own.step >= self.params.least_step and stages <= self.params.max_stages
            if may_plan and (stages <= self.params.stages_planned_first or horizon is None):
                allowance.charge(self._look_for_a_plan(count, own, left))
            elif horizon is not None:
                allowance.charge(self._look_at_loads(count, own, horizon, left))
            else:
                break

    def _tree_states(self, count: int, own: OpenCount, seconds: float) -> JobStates | None:
        """The data of dispatch trees, where these may know more of a number of chunks."""
        if own.tree_step < self.params.least_step or self._num_stages(count) > self.params.max_stages:
            return None
        return self._states if is_ready(None if self.limits.deterministic else seconds) else None

    @cached_property
    def _states(self) -> JobStates | None:
        return job_states(self._counts)

    def _look_at_tree(self, states: JobStates, count: int, own: OpenCount, seconds: float, left: float) -> float:
        """Ask a dispatch tree about a horizon, in what is left of some seconds; the work it took."""
        horizon, start = own.bound + own.tree_step * (self.best.makespan - own.bound), monotonic()
        first = self.params.tree_slot * seconds
        budget = self.limits.budget(min(max(first, self.params.tree_patience * own.tree_seconds), left))
        outcome = search_tree(states, count, horizon, budget)
        took = outcome.work if self.limits.deterministic else monotonic() - start
        self.interrupted |= outcome.status == "interrupted"
        self._in_trees += took
        if outcome.status == "infeasible":
            own.bound, own.tree_seconds = horizon, took
            self._report()
            if took * self.params.tree_patience < first:
                own.tree_step = min(own.tree_step / self.params.retreat, 1.0)
        else:
            own.tree_step *= self.params.retreat
            self._take(outcome)
        return outcome.work

    @cached_property
    def _loads(self) -> IntervalLoads:
        """Interval loads for all open numbers, up to the makespan that was the best at first."""
        job = replace(self._counts.jobs[0], count=max(self._open or [1]))
        return IntervalLoads(job, self._counts.least[0], float(self.best.makespan), self.params.loads)

    def _next_ticks(self, own: OpenCount) -> int | None:
        """The horizon between the bound and the reach of interval loads, in their ticks, if there is one."""
        if own.reach <= own.bound:
            return None
        low = self._loads.ticks(own.bound)
        high = self._loads.ticks(min(own.reach, self.best.makespan))
        return (low + high) // 2 if high - low > 1 else None

    def _look_at_loads(self, count: int, own: OpenCount, ticks: int, seconds: float) -> float:
        """Ask interval loads about a horizon, and take what they learn about any number; the work it took."""
        start = monotonic()
        outcome = self._loads.solve(count, ticks, self.limits.budget(seconds))
        self._in_loads += outcome.work if self.limits.deterministic else monotonic() - start
        if outcome.status == "fits":
            own.reach = self._loads.horizon(ticks)
        for number, other in (self._open or {}).items():
            other.bound = max(other.bound, self._loads.horizon(int(self._loads.refuted[number])))
        self._report()
        return outcome.work

    def _look_for_a_plan(self, count: int, own: OpenCount, seconds: float) -> float:
        """Ask CP-SAT about a horizon; the work it took."""
        horizon = own.bound + own.step * (self.best.makespan - own.bound)
        outcome = self._ask(count, horizon, seconds)
        if outcome.status == "infeasible":
            own.bound = horizon
            self._report()
        else:
            own.step *= self.params.retreat
            self._take(outcome)
        return outcome.work

    def _report(self) -> None:
        """Tell of the least bound if it is higher than before."""
        if self.bound > self._told:
            self._told = self.bound
            self.report(self.bound)

    @property
    def _is_near(self) -> bool:
        return self.best.makespan <= self.bound * (1 + self.limits.gap)

    def _num_stages(self, count: int) -> int:
        own = self.best.instance.exchanges[0]
        return count * len(own.span) * len(own.kind.rule.phases)

    def _ask(self, count: int, horizon: float, seconds: float) -> SizedOutcome:
        """Whether so many chunks fit into a horizon."""
        jobs = [replace(job, count=count) for job in self._counts.jobs]
        model = SizedOrder(jobs, self._counts.least, horizon, self.params.resolution, self.params.units)
        outcome = model.solve(self.limits.budget(seconds))
        self.interrupted |= outcome.status == "interrupted"
        return outcome

    def _take(self, outcome: SizedOutcome) -> None:
        """Simulate a plan, if there is one, with the sizes that suit it best."""
        if outcome.jobs is None or outcome.shares is None:
            return
        try:
            found = resized(simulate(self.best.instance, plan_with_shares(self.best.instance, outcome)))
        except CyclicPlan:
            return
        if found.makespan < self.best.makespan:
            self.best = found
            self.offer(found)

    def _open_counts(self) -> dict[int, OpenCount] | None:
        """Numbers of chunks that may have a schedule as good as the best; None where there are too many."""
        counts, makespan = self._counts, float(self.best.makespan)
        open_counts: dict[int, OpenCount] = {}
        for count in range(1, counts.most[0] + 1):
            if counts.loads((count,), ends=False) >= makespan:
                break  # they grow with the number, so all others are closed
            if len(open_counts) == self.params.max_open:
                return None
            if (bound := counts.bound_of((count,))) < makespan:
                reach = makespan if len(counts.jobs[0].machines) <= MAX_MACHINES else bound
                open_counts[count] = OpenCount(bound, reach, self.params.step, self.params.tree_step)
        return open_counts

"""The reference policy: near-optimal schedules with a proven bound."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from formulations.chunk_order import ChunkOrder
from formulations.job_plans import PlanOutcome
from formulations.sequencing import Sequencing
from themis_opt.problem.cost import count_stages
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan, has_launches
from themis_opt.schedules.refinement import even_counts, refined
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search import dispatch_search
from themis_opt.search.annealing import is_ready
from themis_opt.search.count_proof import CountProof, ProofParams
from themis_opt.search.end_proof import EndProof, EndProofParams
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.search.local_search import MAX_ARCS, MIN_GAIN, LocalSearch, LocalSearchParams
from themis_opt.search.nesting import growing, shares_by_count, start_of_all_counts
from themis_opt.search.period_reference import PeriodParams, PeriodReference
from themis_opt.search.starts import starting_schedule
from themis_opt.solving.lowering import ChunkOrderData, chunk_overhead, enforced_plan, in_ticks, job_plans
from themis_opt.solving.sizing import resized

Progress = Callable[[float, float], None]
"""Called with the best makespan and the best bound so far, in picoseconds."""

MAX_STAGES, MAX_SEQUENCED_STAGES = 300, 3_000
"""Largest plan that CP-SAT is given, and of which it is given the sequences alone: larger ones it does not improve.

Half and twice as many change nothing (``reports/parameters``).
"""

ARCS_PER_SECOND = 20_000
"""Lattice arcs that CP-SAT's model takes in per second; it is not built where that would take half of the time."""

START_SECONDS = 1e-5
"""What the policies of the start take for each stage; a schedule that is given is used alone where there is no time."""

START_SHARE = 0.3
"""Share of the time left that hourglass may take for a start: only where it has to be compiled does it take any."""

COARSE_SHARE = 0.2
"""Share of the time of local search in which few chunks stand for many; half and double are as good."""

PROOF_SHARE = 0.7
"""Share of the time left that the proof for free sizes takes where chunks cost something."""

ENDS_SHARE = 0.8
"""Share of the time left that the proof of few equal chunks takes; the rest suffices for CP-SAT.

With 8 chunks of 1000 MiB on four dimensions that gained 1.3 % after it, 1.0 of them in a second.
"""

SEQUENCES_SHARE = 0.05
"""Share of the time left that CP-SAT has for the sequences alone of free sizes; it proves most in 0 to 3 s."""

NESTED_LOCAL_SHARE = 0.7
"""Share of the work for one allowance that local search has, before CP-SAT: as it has where nothing is nested."""

PATIENCE = 5
"""Waves without gain after which local search gives way to a CP-SAT of few prospects; half and double are as good."""


@dataclass(frozen=True)
class ExactParams:
    """How the parts of the search share the time.

    Attributes
    ----------
    small_stages : int
        Plans that CP-SAT is given early, because it improves and proves them.
    coarse_chunks, coarse_stages : int
        Equal chunks in more stages start from a plan with at most so many chunks.
    local_share_if_small, local_share_if_dear, local_share : float
        Share of the time after which local search gives way to CP-SAT, where the plan is small, where chunks of free
        sizes cost something, and else.
    patience_if_small : int
        Waves without gain after which local search gives way where the plan is small.
    free_patience : int
        The same for free sizes, whose waves start anew.
    sizes_share : float
        Share of the remaining time in which CP-SAT seeks orders for free sizes, each time anew.
    local : LocalSearchParams
        The waves of local search.
    period : PeriodParams
        The search where there is compute.
    proof : ProofParams
        The proof for free sizes where every chunk costs something.
    ends : EndProofParams
        The proof for few equal chunks.
    """

    small_stages: int = 100
    coarse_chunks: int = 64
    coarse_stages: int = 1_000
    local_share_if_small: float = 0.1
    local_share_if_dear: float = 0.4
    local_share: float = 0.85
    patience_if_small: int = 2
    free_patience: int = 10
    sizes_share: float = 0.3
    local: LocalSearchParams = field(default_factory=LocalSearchParams)
    period: PeriodParams = field(default_factory=PeriodParams)
    proof: ProofParams = field(default_factory=ProofParams)
    ends: EndProofParams = field(default_factory=EndProofParams)


USUAL = ExactParams()


@dataclass(frozen=True)
class Reference:
    """A schedule and what is proven about it.

    `bound` is in picoseconds; for ``sizes="equal"`` it may hold for chunks of these sizes only.  `status` is
    ``finished``, ``interrupted``, or ``recalled`` if it was found before.  With compute, `launch_bound`, never less
    than `bound`, holds for schedules that have the same launches and chunk sizes and repeat themselves from one
    iteration to the next.
    """

    schedule: Schedule
    bound: float
    status: str
    launch_bound: float = 0.0


@dataclass(frozen=True)
class Exact(SearchLimits):
    """Near-optimal paths, sequences and (where they are free) sizes of chunks.

    The search starts from the best of the fixed order, Themis with several dispatch rules, and the equal chunks of
    hourglass (:mod:`themis_opt.policies.hourglass.policy`), or as many as that chooses where sizes are free and chunks
    cost something, so it never ends worse.  It composes

    1. for many equal chunks, a plan of fewer chunks, refined (:mod:`themis_opt.schedules.refinement`);
    2. waves of local search (:mod:`themis_opt.search.local_search`), which for free sizes anneal orders and
       optimise sizes (:mod:`formulations.chunk_sizes`) in turn, or both together, always where chunks are few or dear,
       from many starts;
    3. for plans of moderate size, CP-SAT (:mod:`formulations.chunk_order`) from the best plan so far, which finds
       schedules that wait on purpose, and proves;
    4. before that, for few equal chunks of one collective, CP-SAT for each choice of how many chunks begin on which
       dimension (:mod:`themis_opt.search.end_proof`), which proves, and finds, more than for all of them at once;
    5. for free sizes of one collective whose chunks each cost something, interval loads
       (:mod:`formulations.interval_loads`), and CP-SAT with sizes as variables, on every number of chunks that may be
       best (:mod:`themis_opt.search.count_proof`), which proves and finds schedules.

    With compute, where sizes are always free, it keeps the fastest of

    1. launches of all policies and of evenly cut buckets, in several orders, with the chunks of hourglass
       (:mod:`themis_opt.search.candidates`);
    2. buckets that are merged, split and shifted in turn while that pays;
    3. the best launches with the chunks of each group improved on their own, which suffices where groups never meet on
       the network;
    4. waves of local search on the paths of chunks and on when launches and stages are served;
    5. rounds of CP-SAT on paths and sequences (:mod:`formulations.period`), which also proves, and of a linear
       programme on sizes (:mod:`formulations.period_sizes`), from the best schedule so far; many chunks are searched as
       few, and cut afterwards.

    Only paths, sequences and sizes are taken from the solvers; the times are simulated.  The knobs are those of
    :class:`formulations.budget.Budget`, and the following.

    Parameters
    ----------
    sizes : {"equal", "free"}
        Whether chunks are equal, or of any sizes and at most as many as the instance says.
    local_search, cp_sat : bool
        Whether to use these parts.
    """

    sizes: Literal["equal", "free"] = "equal"
    local_search: bool = True
    cp_sat: bool = True

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        schedule = self.solve(instance).schedule
        return schedule.plan if schedule.has_period else schedule.enforced_plan()

    def solve(
        self,
        instance: Instance,
        lower_bound: float = 0.0,
        progress: Progress | None = None,
        start: Schedule | None = None,
        params: ExactParams = USUAL,
    ) -> Reference:
        """Search for a schedule and a bound.

        Parameters
        ----------
        lower_bound : float
            A proven bound to start from, in picoseconds, that holds for the sizes asked for.
        progress : callable, optional
            Hears of every better schedule and bound.
        start : Schedule, optional
            A schedule of the instance, with sizes of the kind asked for, to start from if it is the best.
        params : ExactParams
            How the parts of the search share the time.
        """
        if has_launches(instance):
            return self._of_period(instance, lower_bound, progress or ignore, start, params)
        search = ExactSearch(self, instance, lower_bound, progress or ignore, params, start)
        if start is not None:
            search.offer(start)
        try:
            search.run()
        except KeyboardInterrupt:
            search.interrupted = True
        return Reference(search.best, search.bound, "interrupted" if search.interrupted else "finished")

    def _of_period(
        self, instance: Instance, lower_bound: float, progress: Progress, start: Schedule | None, params: ExactParams
    ) -> Reference:
        """The same where there is compute."""

        def solve_group(group: Instance, bound: float, seconds: float) -> Reference:
            return replace(self, seconds=seconds, sizes="free").solve(group, bound, params=params)

        bound = max(lower_bound, float(instance.compute))
        search = PeriodReference(self, instance, bound, progress, start, solve_group, params.period)
        incumbent = search.run(local_search=self.local_search, cp_sat=self.cp_sat)
        status = "interrupted" if incumbent.interrupted else "finished"
        return Reference(incumbent.best, incumbent.bound, status, incumbent.launch_bound)


class ExactSearch:
    """The parts of the search, which share the best schedule of the instance and what is left of the limits."""

    def __init__(
        self,
        limits: Exact,
        instance: Instance,
        lower_bound: float,
        report: Progress,
        params: ExactParams,
        given: Schedule | None = None,
    ) -> None:
        self.limits, self.instance, self.bound, self.report = limits, instance, lower_bound, report
        self.params = params
        self.allowance = Allowance(limits.seconds, limits.deterministic)
        self.interrupted, self.num_searches = False, 0
        nests = limits.deterministic and limits.sizes == "free"
        self.shares = shares_by_count(instance) if nests else {}
        late = count_stages(instance) * START_SECONDS > max(self.allowance.left, 0.0) + 1
        is_late = late and not limits.deterministic
        self.best = given if given and is_late else self.start(instance, free_sizes=self.chooses_count(instance))
        report(self.best.makespan, self.bound)

    def run(self) -> None:
        """Use the parts in turn until the gap, the limits or Ctrl-C ends it."""
        if self.shares:
            self.run_nested()
        else:
            self.run_once()

    def run_once(self) -> None:
        """Use the parts in turn on the instance alone."""
        searches = self.uses_local_search and is_ready(None if self.limits.deterministic else self.local_seconds)
        if self.proves_counts:
            dispatch_search.is_ready(0)  # it is by the time of the proof
        if searches:
            if self.limits.sizes == "equal" and self.best.plan.num_stages > self.params.coarse_stages:
                self.refine_coarse((COARSE_SHARE if self.is_searchable else 1.0) * self.local_seconds)
            if self.is_searchable:
                self.search_locally(self.best, self.local_seconds, self.offer)
        if self.proves_counts and not self.done:
            self.prove_counts(PROOF_SHARE * self.allowance.left, self.offer)
        if self.proves_ends and not self.done:
            self.prove_ends(ENDS_SHARE * self.allowance.left)
        if self.limits.cp_sat and not self.done:
            self.search_exactly()
        if searches and self.limits.sizes == "free" and not self.done:
            self.search_locally(self.best, self.allowance.left, self.offer)

    def run_nested(self) -> None:
        """Search with one allowance of chunks after the other (:mod:`themis_opt.search.nesting`), and then prove.

        Plans that the proof finds are those of one allowance, so they are not taken.
        """
        is_ready(None)
        begin, proof_share = self.allowance.left, PROOF_SHARE * (1 - self.params.local_share_if_dear)
        most = begin * (1 - proof_share if self.proves_counts else 1.0)

        def search(start: Schedule, count: int, share: float) -> Schedule:
            return self.with_allowance(start, count, self.allowance.left - (begin - share * most))

        for schedule in growing(self.instance, self.shares, search):
            self.offer(schedule)
            if self.done:
                return
        if self.proves_counts:
            self.prove_counts(self.allowance.left, lambda schedule: None)

    def with_allowance(self, start: Schedule, count: int, seconds: float) -> Schedule:
        """Improve a schedule of an allowance of so many chunks."""
        last, found = self.allowance.left - seconds, start
        if self.limits.local_search:
            share = NESTED_LOCAL_SHARE if self.limits.cp_sat else 1.0
            found = self.search_locally(start, share * seconds, lambda schedule: None, count)
        if self.limits.cp_sat and found.plan.num_stages <= MAX_STAGES:
            found = self.alternate(found, self.allowance.left - last)
        return found

    @cached_property
    def proves_ends(self) -> bool:
        """Whether the chunks are equal and few."""
        return self.limits.cp_sat and self.limits.sizes == "equal" and EndProof.suits(self.instance)

    def prove_ends(self, seconds: float) -> None:
        """Raise the bound of few equal chunks."""
        proof = EndProof(self.limits, self.best, self.bound, self.offer, self.raise_bound, self.params.ends)
        proof.run(self.allowance, seconds)
        self.interrupted |= proof.interrupted

    @cached_property
    def proves_counts(self) -> bool:
        """Whether the number of chunks is free and decides."""
        return self.limits.cp_sat and self.limits.sizes == "free" and CountProof.suits(self.instance)

    def prove_counts(self, seconds: float, offer: Callable[[Schedule], None]) -> None:
        """Raise the bound for free sizes where every chunk costs something; `offer` hears of plans found on the way."""
        proof = CountProof(self.limits, self.best, offer, self.raise_bound, self.params.proof)
        self.raise_bound(proof.bound)
        proof.run(self.allowance, seconds)
        self.interrupted |= proof.interrupted

    def raise_bound(self, bound: float) -> None:
        """Take and report what is proven."""
        self.bound = max(self.bound, bound)
        self.report(self.best.makespan, self.bound)

    def chooses_count(self, instance: Instance) -> bool:
        """Whether the number of chunks is free, and matters because each costs something."""
        return self.limits.sizes == "free" and chunk_overhead(instance) > 0

    def start(self, instance: Instance, *, free_sizes: bool = False) -> Schedule:
        """The best schedule of the fast policies that are there in time, for equal chunks unless told."""
        if self.limits.deterministic and free_sizes:
            return start_of_all_counts(instance)
        seconds = None if self.limits.deterministic else max(START_SHARE * self.allowance.left, 0.0)
        return starting_schedule(instance, seconds, free_sizes=free_sizes)

    def search_exactly(self) -> None:
        """Give CP-SAT paths and sequences where the plan is small enough, and sequences alone where it is not."""
        if not self.uses_cp_sat:
            self.offer(self.with_best_sequences(self.best, self.allowance.left))
        elif self.limits.sizes == "equal":
            self.offer(self.with_best_orders(self.best, self.allowance.left, proves=True))
        else:
            self.offer(self.alternate(self.best, self.allowance.left))

    @property
    def uses_local_search(self) -> bool:
        """Whether local search has its turn."""
        return self.limits.local_search and not self.done and self.num_arcs(self.params.coarse_chunks) <= MAX_ARCS

    @property
    def is_searchable(self) -> bool:
        """Whether local search can lay out the tables of the instance; free sizes never hold many chunks."""
        return self.num_arcs(self.params.coarse_chunks if self.limits.sizes == "free" else MAX_CHUNKS) <= MAX_ARCS

    def num_arcs(self, most_chunks: int) -> int:
        """Lattice arcs with at most so many chunks per collective."""
        return _num_arcs(self.instance, (min(c.chunks, most_chunks) for c in self.instance.exchanges))

    @property
    def local_seconds(self) -> float:
        """How long local search, or the wait for it, may take."""
        if not self.limits.cp_sat:
            return self.allowance.left
        share = self.params.local_share_if_small if self.is_small else self.params.local_share
        if self.limits.sizes == "free" and not self.uses_cp_sat:
            share = 1 - SEQUENCES_SHARE
        return self.allowance.left * (self.params.local_share_if_dear if self.proves_counts else share)

    @property
    def patience(self) -> int:
        """Waves without gain after which local search of equal chunks gives way."""
        return self.params.patience_if_small if self.is_small and self.uses_cp_sat else PATIENCE

    @property
    def uses_cp_sat(self) -> bool:
        """Whether CP-SAT has its turn."""
        return self.limits.cp_sat and self.best.plan.num_stages <= MAX_STAGES

    @property
    def is_small(self) -> bool:
        """Whether CP-SAT has good prospects."""
        return self.best.plan.num_stages <= self.params.small_stages

    @property
    def done(self) -> bool:
        """Whether to stop."""
        return self.interrupted or self.allowance.left <= 0 or self.near(self.best)

    @property
    def enough(self) -> float:
        """Makespan within the asked gap, in picoseconds."""
        return self.bound * (1 + self.limits.gap)

    def near(self, schedule: Schedule) -> bool:
        """Whether a schedule is within the asked gap."""
        return schedule.makespan <= self.enough

    def offer(self, schedule: Schedule) -> None:
        """Keep a schedule of the instance if it is the best."""
        if schedule.makespan < self.best.makespan:
            self.best = schedule
            self.report(schedule.makespan, self.bound)

    def refine_coarse(self, seconds: float) -> None:
        """Search with fewer chunks per collective, and cut them evenly."""
        few = self.start(self.instance.at_most(self.params.coarse_chunks))
        coarse = self.search_locally(few, seconds, lambda schedule: None)
        self.offer(
            simulate(self.instance, refined(coarse.enforced_plan(), self.instance, even_counts(coarse, self.instance)))
        )

    def search_locally(
        self, start: Schedule, seconds: float, offer: Callable[[Schedule], None], count: int | None = None
    ) -> Schedule:
        """The best schedule of waves of local search, which end after `seconds` or some waves without gain.

        With `count` they start from so many chunks per collective.
        """
        limits, free_sizes = self.limits, self.limits.sizes == "free"
        search = LocalSearch(
            start,
            free_start=self.start if free_sizes else None,
            count=count,
            workers=limits.workers,
            seed=(limits.seed, self.num_searches),
            params=self.params.local,
        )
        self.num_searches += 1
        patience = self.params.free_patience if free_sizes else self.patience
        search.run(self.allowance, seconds, patience, self.enough, offer)
        self.interrupted |= search.interrupted
        return search.best

    def alternate(self, schedule: Schedule, seconds: float) -> Schedule:
        """Improve sizes, and by CP-SAT orders, in turn while that pays and seconds are left."""
        best, last = resized(schedule), self.allowance.left - seconds
        while self.allowance.left > last and not self.done and not self.near(best):
            found = resized(self.with_best_orders(best, self.params.sizes_share * (self.allowance.left - last)))
            if found.makespan > best.makespan * (1 - MIN_GAIN):
                return min(best, found, key=lambda s: s.makespan)
            best = found
        return best

    def with_best_orders(self, start: Schedule, seconds: float, proves: bool = False) -> Schedule:
        """The best paths and sequences CP-SAT finds for the chunks of a schedule.

        With `proves` its bound holds for all schedules of the instance.
        """
        arcs = _num_arcs(start.instance, (len(own.sizes) for own in start.plan.chunks))
        if self.done or arcs > ARCS_PER_SECOND * seconds / 2:
            return start
        last = self.allowance.left - seconds
        data = in_ticks(start)
        known = self.bound if proves else 0.0
        model = ChunkOrder(data.jobs, horizon=-(-start.makespan // data.tick), lower_bound=int(known) // data.tick)
        model.hint(job_plans(data, start))

        def report(objective: float, bound: float) -> None:
            if proves:
                best_bound = max(bound * data.tick, self.bound)
                self.report(max(objective * data.tick, best_bound), best_bound)

        outcome = model.solve(self.limits.budget(self.allowance.left - last), report)
        if proves:
            self.bound = max(self.bound, float(outcome.bound * data.tick))
        return self.better(start, data, outcome)

    def with_best_sequences(self, start: Schedule, seconds: float) -> Schedule:
        """The best sequences CP-SAT finds for the paths of a schedule."""
        if start.plan.num_stages > MAX_SEQUENCED_STAGES:
            return start
        data = in_ticks(start)
        plans = job_plans(data, start)
        paths = [[times.paths for times in own] for own in plans]
        model = Sequencing(data.jobs, paths, horizon=-(-start.makespan // data.tick))
        model.hint(plans)
        return self.better(start, data, model.solve(self.limits.budget(seconds), ignore))

    def better(self, start: Schedule, data: ChunkOrderData, outcome: PlanOutcome) -> Schedule:
        """The plan of CP-SAT, simulated, if it is better than its start."""
        self.allowance.charge(outcome.work)
        self.interrupted |= outcome.status == "interrupted"
        if outcome.jobs is None:
            return start
        found = simulate(start.instance, enforced_plan(start.instance, data, outcome.jobs))
        return min(start, found, key=lambda schedule: schedule.makespan)


def _num_arcs(instance: Instance, counts: Iterable[int]) -> int:
    """Arcs of the subset lattices of all phases of so many chunks of each collective."""
    return sum(
        count * len(own.kind.rule.phases) * len(own.span) * 2 ** (len(own.span) - 1)
        for own, count in zip(instance.exchanges, counts, strict=True)
    )


def ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

"""One run of the reference policy of training iterations: the parts that improve the fastest schedule."""

from dataclasses import dataclass, field
from functools import partial

from themis_opt.policies.planning import plan_launches
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import fused
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.annealing import can_anneal, is_ready
from themis_opt.search.candidates import CHUNK_POLICIES, Candidate, CandidateParams, candidates, neighbours
from themis_opt.search.groups import GroupExact, Remembered, SolveGroup, are_apart
from themis_opt.search.incumbent import Incumbent, Progress
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.search.local_search import MAX_ARCS, LocalSearch, LocalSearchParams
from themis_opt.search.period_rounds import PeriodRounds, num_arcs

PATIENCE = 5
"""Waves of local search without gain after which it gives way; half and double are as good."""


@dataclass(frozen=True)
class PeriodParams:
    """How the parts of the search share the time.

    Attributes
    ----------
    candidates_share, buckets_share : float
        Shares of the time left for candidates, and then for changes of their buckets.
    groups_share, groups_share_if_apart : float
        Share of the time left for groups on their own, where they meet on the network and where they never do.
    local_share : float
        Share of the time left for local search before CP-SAT, after which it has the time that is left then.
    stages_per_second : int
        Stages that are planned and simulated in a second, roughly; candidates that would take too long are left out.
    candidates : CandidateParams
        What is tried.
    local : LocalSearchParams
        Waves of local search.
    """

    candidates_share: float = 0.2
    buckets_share: float = 0.3
    groups_share: float = 0.1
    groups_share_if_apart: float = 0.9
    local_share: float = 0.3
    stages_per_second: int = 20_000
    candidates: CandidateParams = field(default_factory=CandidateParams)
    local: LocalSearchParams = field(default_factory=partial(LocalSearchParams, hot=1e-7, cold=1e-8))


class PeriodReference:
    """The parts of the search, which share an incumbent."""

    def __init__(
        self,
        limits: SearchLimits,
        instance: Instance,
        bound: float,
        report: Progress,
        start: Schedule | None,
        solve_group: SolveGroup,
        params: PeriodParams,
    ) -> None:
        self.instance, self.solve_group, self.params = instance, solve_group, params
        self.allowance = Allowance(limits.seconds, limits.deterministic)
        self.chunk_policies = {name: Remembered(make_policy(name)) for name in CHUNK_POLICIES}
        self.found: tuple[Schedule, Candidate] | None = None
        self.num_searches = 0
        best = self.simulated(next(iter(candidates(instance, params.candidates)))) if start is None else start
        self.incumbent = Incumbent(limits, self.allowance, best, bound, report)

    def run(self, *, local_search: bool = True, cp_sat: bool = True) -> Incumbent:
        """Use the parts in turn, the last two where asked to, until the gap, the limits or Ctrl-C ends it."""
        try:
            self.try_candidates()
            self.change_buckets()
            self.improve_groups()
            if local_search:
                self.search_locally(self.allowance.left * (self.params.local_share if cp_sat else 1.0))
            if cp_sat and not self.incumbent.done:
                PeriodRounds(self.incumbent).run()
            if cp_sat and local_search:
                self.search_locally(self.allowance.left)
        except KeyboardInterrupt:
            self.incumbent.interrupted = True
        return self.incumbent

    def simulated(self, candidate: Candidate) -> Schedule:
        """The schedule of a candidate."""
        chunk_policy = self.chunk_policies[candidate.chunk_policy]
        plan = plan_launches(self.instance, candidate.launches, candidate.order, chunk_policy)
        schedule = simulate(self.instance, plan)
        self.allowance.charge(plan.num_stages / self.params.stages_per_second)
        return schedule

    def try_candidates(self) -> None:
        """Keep the fastest candidate, and the one whose buckets can be changed."""
        last = self.allowance.left * (1 - self.params.candidates_share)
        for candidate in candidates(self.instance, self.params.candidates):
            if self.incumbent.done or self.allowance.left < last:
                return
            if self.seconds_for(candidate) < self.allowance.left - last:
                self.judge(candidate)

    def seconds_for(self, candidate: Candidate) -> float:
        """How long it takes to plan and simulate a candidate, roughly."""
        launched = fused(self.instance, candidate.launches)
        num_stages = sum(len(own.kind.rule.phases) * len(own.span) * own.chunks for own in launched)
        return num_stages / self.params.stages_per_second

    def judge(self, candidate: Candidate) -> bool:
        """Offer the schedule of a candidate; whether it is the fastest with buckets so far."""
        schedule = self.simulated(candidate)
        self.incumbent.offer(schedule)
        if candidate.buckets is None or (self.found and schedule.makespan >= self.found[0].makespan):
            return False
        self.found = schedule, candidate
        return True

    def change_buckets(self) -> None:
        """Change the buckets of the best candidate for as long as that pays."""
        last = self.allowance.left * (1 - self.params.buckets_share)
        tried = set()
        improved = self.found is not None
        while improved and self.found:
            improved = False
            for candidate in neighbours(self.instance, self.found[1]):
                if self.incumbent.done or self.allowance.left < last:
                    return
                if (candidate.buckets, candidate.order) not in tried:
                    tried.add((candidate.buckets, candidate.order))
                    if self.judge(candidate):
                        improved = True
                        break

    def improve_groups(self) -> None:
        """Plan each group of the best launches on its own as well as can be."""
        incumbent, plan = self.incumbent, self.incumbent.best.plan
        if incumbent.done:
            return
        apart = are_apart(incumbent.best)
        seconds = self.allowance.left * (self.params.groups_share_if_apart if apart else self.params.groups_share)
        policy = GroupExact(incumbent.limits, self.instance, plan, seconds, self.solve_group)
        improved = plan_launches(self.instance, plan.launches, plan.order, policy)
        incumbent.offer(simulate(self.instance, improved))
        self.allowance.charge(seconds)
        incumbent.interrupted |= policy.interrupted

    def search_locally(self, seconds: float) -> None:
        """Improve paths and orders of the fastest schedule, unless it is the best of its launches and sizes."""
        incumbent, limits, proven = self.incumbent, self.incumbent.limits, self.incumbent.launch_bound

        enough = proven * (1 + limits.gap)

        def offer(best: Schedule) -> None:
            incumbent.offer(best)
            incumbent.launch_bound = proven  # launches and sizes are the same

        fits = can_anneal(incumbent.best) and num_arcs(incumbent.best) <= MAX_ARCS
        if (
            seconds <= 0
            or incumbent.done
            or incumbent.best.makespan <= enough
            or not fits
            or not is_ready(None if limits.deterministic else seconds)
        ):
            return
        seed = (limits.seed, self.num_searches)
        search = LocalSearch(incumbent.best, workers=limits.workers, seed=seed, params=self.params.local)
        self.num_searches += 1
        search.run(self.allowance, seconds, PATIENCE, enough, offer)
        incumbent.interrupted |= search.interrupted


def ignore(iteration_time: float, bound: float) -> None:
    """Report to nobody."""

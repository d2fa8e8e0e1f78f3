"""One run of the reference policy of training iterations: the parts that improve the fastest schedule."""

from themis_opt.allowance import Allowance, SearchLimits
from themis_opt.cost import PHASES
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.bucket_search import neighbours
from themis_opt.iterations.candidates import CHUNK_POLICIES, Candidate, candidates
from themis_opt.iterations.group_search import GroupExact, Remembered, are_apart
from themis_opt.iterations.incumbent import Incumbent, Progress
from themis_opt.iterations.period_search import PeriodSearch
from themis_opt.iterations.plan import stream_of
from themis_opt.iterations.planning import planned
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.policies.registry import make_policy

CANDIDATES_SHARE, BUCKETS_SHARE = 0.2, 0.3
"""Shares of the time left for candidates, and then for changes of their buckets."""

GROUPS_SHARE = {True: 0.9, False: 0.1}
"""Share of the time left for groups on their own, where they never meet on the network and where they do."""

STAGES_PER_SECOND = 20_000
"""Stages that are planned and simulated in a second, roughly; candidates that would take too long are left out."""


class ReferenceSearch:
    """The parts of the search, which share an incumbent."""

    def __init__(
        self,
        limits: SearchLimits,
        instance: IterationInstance,
        bound: float,
        report: Progress,
        start: IterationSchedule | None,
    ) -> None:
        self.instance = instance
        self.allowance = Allowance(limits.seconds, limits.deterministic)
        self.chunk_policies = {name: Remembered(make_policy(name)) for name in CHUNK_POLICIES}
        self.found: tuple[IterationSchedule, Candidate] | None = None
        best = self.simulated(next(iter(candidates(instance)))) if start is None else start
        self.incumbent = Incumbent(limits, self.allowance, best, bound, report)

    def run(self) -> Incumbent:
        """Use the parts in turn until the gap, the limits or Ctrl-C ends it."""
        try:
            self.try_candidates()
            self.change_buckets()
            self.improve_groups()
            if not self.incumbent.done:
                PeriodSearch(self.incumbent).run()
        except KeyboardInterrupt:
            self.incumbent.interrupted = True
        return self.incumbent

    def simulated(self, candidate: Candidate) -> IterationSchedule:
        """The schedule of a candidate."""
        chunk_policy = self.chunk_policies[candidate.chunk_policy]
        plan = planned(self.instance, candidate.launches, candidate.order, chunk_policy)
        schedule = simulate_iterations(self.instance, plan)
        self.allowance.charge(plan.chunks.num_stages / STAGES_PER_SECOND)
        return schedule

    def try_candidates(self) -> None:
        """Keep the fastest candidate, and the one whose buckets can be changed."""
        last = self.allowance.left * (1 - CANDIDATES_SHARE)
        for candidate in candidates(self.instance):
            if self.incumbent.done or self.allowance.left < last:
                return
            if self.seconds_for(candidate) < self.allowance.left - last:
                self.judge(candidate)

    def seconds_for(self, candidate: Candidate) -> float:
        """How long it takes to plan and simulate a candidate, roughly."""
        stream = stream_of(self.instance, candidate.launches)
        visits = [
            len(PHASES[c.kind]) * len(s) * c.chunks for c, s in zip(stream.collectives, stream.spans, strict=True)
        ]
        return sum(visits) / STAGES_PER_SECOND

    def judge(self, candidate: Candidate) -> bool:
        """Offer the schedule of a candidate; whether it is the fastest with buckets so far."""
        schedule = self.simulated(candidate)
        self.incumbent.offer(schedule)
        if candidate.buckets is None or (self.found and schedule.iteration_time >= self.found[0].iteration_time):
            return False
        self.found = schedule, candidate
        return True

    def change_buckets(self) -> None:
        """Change the buckets of the best candidate for as long as that pays."""
        last = self.allowance.left * (1 - BUCKETS_SHARE)
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
        seconds = self.allowance.left * GROUPS_SHARE[are_apart(incumbent.best)]
        policy = GroupExact(incumbent.limits, plan, seconds)
        improved = planned(self.instance, plan.launches, plan.order, policy)
        incumbent.offer(simulate_iterations(self.instance, improved))
        self.allowance.charge(seconds)
        incumbent.interrupted |= policy.interrupted


def ignore(iteration_time: float, bound: float) -> None:
    """Report to nobody."""

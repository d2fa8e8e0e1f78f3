"""One run of the reference policy: the best schedule and bound so far, and the steps that improve them."""

from collections.abc import Callable, Iterable

from formulations.chunk_order import ChunkOrder
from formulations.job_plans import PlanOutcome
from formulations.sequencing import Sequencing
from themis_opt.allowance import Allowance
from themis_opt.annealing import is_ready
from themis_opt.cost import PHASES
from themis_opt.instance import MAX_CHUNKS, Instance
from themis_opt.local_search import MIN_GAIN, WORK_PER_SECOND, LocalSearch, with_at_most
from themis_opt.lowering import ChunkOrderData, chunk_order_data, enforced_plan, job_plans
from themis_opt.policies.exact_limits import ExactLimits
from themis_opt.policies.starts import starting_schedule
from themis_opt.refinement import even_counts, refined
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.sizing import resized

RESOLUTION = 2**22
"""Ticks into which the makespan of the starting schedule is divided."""

SMALL_STAGES, MAX_STAGES = 100, 300
"""Plans that CP-SAT is given early, because it improves and proves them, and largest plan that it is given at all."""

MAX_SEQUENCED_STAGES = 3_000
"""Largest plan of which CP-SAT is given the sequences alone, where it is too large for the rest."""

MAX_ARCS = 200_000
"""Lattice arcs of all chunks above which neither local search nor CP-SAT lays out its tables."""

ARCS_PER_SECOND = 20_000
"""Lattice arcs that CP-SAT's model takes in per second; it is not built where that would take half of the time."""

COARSE_CHUNKS, COARSE_STAGES, COARSE_SHARE = 64, 1_000, 0.2
"""Equal chunks in more stages start from a plan with at most so many chunks, found in this share of the time."""

START_SHARE = 0.3
"""Share of the time left that hourglass may take for a start: only where it has to be compiled does it take any."""

LOCAL_SHARE = {True: 0.4, False: 0.85}
"""Share of the time after which local search gives way to CP-SAT, where the plan is small and where it is not."""

PATIENCE = {True: 2, False: 5}
"""Waves without gain after which local search gives way, where the plan is small and where it is not."""

FREE_PATIENCE = 10
"""The same for free sizes, whose waves start anew."""

SIZES_SHARE = 0.3
"""Share of the remaining time in which CP-SAT seeks orders for free sizes, each time anew."""

Progress = Callable[[float, float], None]
"""Called with the best makespan and the best bound so far, in picoseconds."""


class ExactSearch:
    """The parts of the search, which share the best schedule of the instance and what is left of the limits."""

    def __init__(self, limits: ExactLimits, instance: Instance, lower_bound: float, report: Progress) -> None:
        self.limits, self.instance, self.bound, self.report = limits, instance, lower_bound, report
        self.allowance = Allowance(limits.seconds, limits.deterministic)
        self.interrupted, self.num_searches = False, 0
        self.best = self.start(instance)
        report(self.best.makespan, self.bound)

    def run(self) -> None:
        """Use the parts in turn until the gap, the limits or Ctrl-C ends it."""
        searches = self.uses_local_search and is_ready(None if self.limits.deterministic else self.local_seconds)
        if searches:
            if self.limits.sizes == "equal" and self.best.plan.num_stages > COARSE_STAGES:
                self.refine_coarse((COARSE_SHARE if self.is_searchable else 1.0) * self.local_seconds)
            if self.is_searchable:
                self.searched(self.best, self.local_seconds, self.offer)
        if self.limits.cp_sat and not self.done:
            self.search_exactly()
        if searches and self.limits.sizes == "free" and not self.done:
            self.searched(self.best, self.allowance.left, self.offer)

    def start(self, instance: Instance) -> Schedule:
        """The best schedule of the fast policies that are there in time, for equal chunks."""
        seconds = None if self.limits.deterministic else max(START_SHARE * self.allowance.left, 0.0)
        return starting_schedule(instance, seconds)

    def search_exactly(self) -> None:
        """Give CP-SAT paths and sequences where the plan is small enough, and sequences alone where it is not."""
        if not self.uses_cp_sat:
            self.offer(self.with_best_sequences(self.best, self.allowance.left))
        elif self.limits.sizes == "equal":
            self.offer(self.with_best_orders(self.best, self.allowance.left, proves=True))
        else:
            self.offer(self.alternated(self.best))

    @property
    def uses_local_search(self) -> bool:
        """Whether local search has its turn."""
        return self.limits.local_search and not self.done and self.num_arcs(COARSE_CHUNKS) <= MAX_ARCS

    @property
    def is_searchable(self) -> bool:
        """Whether local search can lay out the tables of the instance; free sizes never hold many chunks."""
        return self.num_arcs(COARSE_CHUNKS if self.limits.sizes == "free" else MAX_CHUNKS) <= MAX_ARCS

    def num_arcs(self, most_chunks: int) -> int:
        """Lattice arcs with at most so many chunks per collective."""
        return _num_arcs(self.instance, (min(c.chunks, most_chunks) for c in self.instance.collectives))

    @property
    def local_seconds(self) -> float:
        """How long local search, or the wait for it, may take."""
        return self.allowance.left * (LOCAL_SHARE[self.is_small] if self.limits.cp_sat else 1.0)

    @property
    def uses_cp_sat(self) -> bool:
        """Whether CP-SAT has its turn."""
        return self.limits.cp_sat and self.best.plan.num_stages <= MAX_STAGES

    @property
    def is_small(self) -> bool:
        """Whether CP-SAT has good prospects."""
        return self.best.plan.num_stages <= SMALL_STAGES

    @property
    def done(self) -> bool:
        """Whether to stop."""
        return self.interrupted or self.allowance.left <= 0 or self.near(self.best)

    def near(self, schedule: Schedule) -> bool:
        """Whether a schedule is within the asked gap."""
        return schedule.makespan <= self.bound * (1 + self.limits.gap)

    def offer(self, schedule: Schedule) -> None:
        """Keep a schedule of the instance if it is the best."""
        if schedule.makespan < self.best.makespan:
            self.best = schedule
            self.report(schedule.makespan, self.bound)

    def refine_coarse(self, seconds: float) -> None:
        """Search with fewer chunks per collective, and cut them evenly."""
        few = self.start(with_at_most(self.instance, COARSE_CHUNKS))
        coarse = self.searched(few, seconds, lambda schedule: None)
        self.offer(
            simulate(self.instance, refined(coarse.enforced_plan(), self.instance, even_counts(coarse, self.instance)))
        )

    def searched(self, start: Schedule, seconds: float, offer: Callable[[Schedule], None]) -> Schedule:
        """The best schedule of waves of local search, which end after `seconds` or some waves without gain."""
        limits, last = self.limits, self.allowance.left - seconds
        seed, free_sizes = (limits.seed, self.num_searches), limits.sizes == "free"
        search = LocalSearch(start, self.start, free_sizes=free_sizes, workers=limits.workers, seed=seed)
        self.num_searches += 1
        idle, patience = 0, FREE_PATIENCE if free_sizes else PATIENCE[self.is_small and self.uses_cp_sat]
        while idle < patience and self.allowance.left > last and not self.interrupted:
            before = search.best.makespan
            most_work = (self.allowance.left - last) * WORK_PER_SECOND
            work = search.wave(most_work, lambda: not limits.deterministic and self.allowance.left <= last)
            self.allowance.charge(work / WORK_PER_SECOND)
            self.interrupted |= search.interrupted
            idle = idle + 1 if search.best.makespan > before * (1 - MIN_GAIN) else 0
            offer(search.best)
            if self.near(search.best):
                break
        return search.best

    def alternated(self, schedule: Schedule) -> Schedule:
        """Improve sizes, and by CP-SAT orders, in turn while that pays."""
        best = resized(schedule)
        while not self.done and not self.near(best):
            found = resized(self.with_best_orders(best, SIZES_SHARE * self.allowance.left))
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
        data = ticked(start)
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
        data = ticked(start)
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


def ticked(schedule: Schedule) -> ChunkOrderData:
    """The chunks of a schedule as CP-SAT's jobs."""
    tick = max(1, schedule.makespan // RESOLUTION)
    return chunk_order_data(schedule.instance, tuple(c.sizes for c in schedule.plan.chunks), tick)


def _num_arcs(instance: Instance, counts: Iterable[int]) -> int:
    """Arcs of the subset lattices of all phases of so many chunks of each collective."""
    return sum(
        count * len(PHASES[collective.kind]) * len(span) * 2 ** (len(span) - 1)
        for collective, span, count in zip(instance.collectives, instance.spans, counts, strict=True)
    )


def ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

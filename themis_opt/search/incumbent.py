"""The fastest schedule of iterations that a search knows, and the limits within which it seeks a faster one."""

from collections.abc import Callable

from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.limits import Allowance, SearchLimits

Progress = Callable[[float, float], None]
"""Called with the best iteration time and the bound, in picoseconds."""


class Incumbent:
    """What the parts of a search share.

    Parameters
    ----------
    limits : SearchLimits
        Time, threads, seed, gap and memory.
    allowance : Allowance
        What is left of the time.
    best : Schedule
        The fastest schedule so far.
    bound : float
        A proven bound on the iteration time, in picoseconds.
    report : callable
        Hears of every faster schedule.

    Attributes
    ----------
    launch_bound : float
        What is proven for the launches and chunk sizes of `best`, never less than `bound`.
    interrupted : bool
        Whether Ctrl-C ended the search.
    """

    def __init__(
        self, limits: SearchLimits, allowance: Allowance, best: Schedule, bound: float, report: Progress
    ) -> None:
        self.limits, self.allowance, self.report = limits, allowance, report
        self.best, self.bound, self.launch_bound = best, bound, bound
        self.interrupted = False
        report(best.makespan, bound)

    @property
    def instance(self) -> Instance:
        """The instance of all schedules."""
        return self.best.instance

    @property
    def done(self) -> bool:
        """Whether to stop."""
        near = self.best.makespan <= self.bound * (1 + self.limits.gap)
        return near or self.interrupted or self.allowance.left <= 0

    def offer(self, schedule: Schedule) -> None:
        """Keep a schedule if it is the fastest."""
        if schedule.makespan < self.best.makespan:
            self.best, self.launch_bound = schedule, self.bound
            self.report(schedule.makespan, self.bound)

    def offer_plan(self, plan: Plan) -> None:
        """Simulate a plan of a solver and keep it if it is the fastest; one that waits for itself is left out."""
        try:
            self.offer(simulate(self.instance, plan))
        except CyclicPlan:
            return

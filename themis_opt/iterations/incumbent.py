"""The fastest schedule of iterations that a search knows, and the limits within which it seeks a faster one."""

from collections.abc import Callable

from themis_opt.allowance import Allowance, SearchLimits
from themis_opt.errors import CyclicPlan
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations

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
    best : IterationSchedule
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
        self, limits: SearchLimits, allowance: Allowance, best: IterationSchedule, bound: float, report: Progress
    ) -> None:
        self.limits, self.allowance, self.report = limits, allowance, report
        self.best, self.bound, self.launch_bound = best, bound, bound
        self.interrupted = False
        report(best.iteration_time, bound)

    @property
    def instance(self) -> IterationInstance:
        """The instance of all schedules."""
        return self.best.instance

    @property
    def done(self) -> bool:
        """Whether to stop."""
        near = self.best.iteration_time <= self.bound * (1 + self.limits.gap)
        return near or self.interrupted or self.allowance.left <= 0

    def offer(self, schedule: IterationSchedule) -> None:
        """Keep a schedule if it is the fastest."""
        if schedule.iteration_time < self.best.iteration_time:
            self.best, self.launch_bound = schedule, self.bound
            self.report(schedule.iteration_time, self.bound)

    def offer_plan(self, plan: IterationPlan) -> None:
        """Simulate a plan of a solver and keep it if it is the fastest; one that waits for itself is left out."""
        try:
            self.offer(simulate_iterations(self.instance, plan))
        except CyclicPlan:
            return

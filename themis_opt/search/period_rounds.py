"""CP-SAT on one period of a schedule of training iterations, in rounds that are simulated."""

from formulations.budget import Budget
from formulations.period import PeriodModel
from formulations.period_variables import PeriodTimes
from themis_opt.base.errors import CyclicPlan
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.planning import plan_launches
from themis_opt.schedules.plan import Launch
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.solving.lowering import RESOLUTION
from themis_opt.solving.period_lowering import PeriodData, enforced_plan, period_data, period_times
from themis_opt.solving.sizing import even_plan, resized

MAX_STAGES = 1_500
"""Largest plan that CP-SAT is given, counting stages twice where some may be under way at the end of a period."""

COARSE_STAGES = 600
"""The same for the few chunks that are searched in the place of too many, of which there is time for several rounds."""

ARCS_PER_SECOND = 20_000
"""Lattice arcs that the model takes in per second; it is not built where that would take half of the time."""

ROUND_SHARE, LEAST_SECONDS = 0.4, 10.0
"""Share of the time left that a round has, and time that is too little to be divided."""


class PeriodRounds:
    """Rounds of CP-SAT on orders and of a linear programme on sizes, which start from the fastest schedule.

    Where that has too many chunks, the rounds are on fewer of them, which are cut in the end.
    """

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent, self.rounds = incumbent, 0
        self.is_coarse = num_intervals(incumbent.best) > MAX_STAGES
        self.bound = incumbent.bound

    def run(self) -> None:
        """Search while time is left, and the period is not proven optimal."""
        found = self.start()
        while found is not None and found.period.is_steady and not self.incumbent.done and self.has_time_for(found):
            start = self.with_best_sizes(found)
            found, proven = self.round(start)
            if proven and self.with_best_sizes(found) is found:
                return

    def start(self) -> Schedule | None:
        """The fastest schedule, or its launches in few chunks; None if even two each are too many."""
        best = self.incumbent.best
        if not self.is_coarse:
            return best
        chunks = best.instance.chunks * COARSE_STAGES // num_intervals(best)
        if chunks < 2:
            return None
        few = best.instance.replace(chunks=chunks)
        return simulate(few, plan_launches(few, best.plan.launches, best.plan.order, Hourglass()))

    def has_time_for(self, schedule: Schedule) -> bool:
        """Whether the model of a schedule can be built in good time."""
        return num_arcs(schedule) <= ARCS_PER_SECOND * self.incumbent.allowance.left / 2

    def with_best_sizes(self, schedule: Schedule) -> Schedule:
        """A schedule with better sizes, for which what is proven for the old ones no longer holds; or itself."""
        found = resized(schedule)
        if found is not schedule:
            self.bound = self.incumbent.bound
            self.offer(found)
        return found

    def offer(self, schedule: Schedule) -> None:
        """Offer a schedule, cut in as many chunks as it should have."""
        if self.is_coarse:
            self.incumbent.offer_plan(even_plan(self.incumbent.instance, schedule.enforced_plan()))
        else:
            self.incumbent.offer(schedule)

    def round(self, start: Schedule) -> tuple[Schedule, bool]:
        """One round of CP-SAT: the faster one of its schedule and the start, and whether it ended with a proof."""
        incumbent, tick = self.incumbent, max(1, start.makespan // RESOLUTION)
        data = period_data(start.instance, start.plan, tick)
        model = PeriodModel(data.period, -(-start.makespan // tick), int(self.bound) // tick)
        model.hint(period_times(data, start))
        outcome = model.solve(self.budget(), lambda period, bound: None)
        self.rounds += 1
        incumbent.allowance.charge(outcome.work)
        incumbent.interrupted |= outcome.status == "interrupted"
        self.bound = max(self.bound, float(data.bound(outcome.bound)))
        found = start if outcome.times is None else self.better(start, data, outcome.times)
        if not self.is_coarse and incumbent.best in (start, found):
            incumbent.launch_bound = self.bound
        near = found.makespan <= self.bound * (1 + incumbent.limits.gap)
        return found, near or outcome.status == "optimal"

    def better(self, start: Schedule, data: PeriodData, times: PeriodTimes) -> Schedule:
        """The schedule of a solution, simulated and offered, if it is faster than the start."""
        try:
            found = simulate(start.instance, enforced_plan(start.instance, start.plan, data, times))
        except CyclicPlan:
            return start
        if found.makespan >= start.makespan:
            return start
        self.offer(found)
        return found

    def budget(self) -> Budget:
        """What CP-SAT may spend in a round."""
        limits, left = self.incumbent.limits, self.incumbent.allowance.left
        seconds = left if left * ROUND_SHARE < LEAST_SECONDS else left * ROUND_SHARE
        return limits.budget(seconds, seed=limits.seed + self.rounds)


def num_intervals(schedule: Schedule) -> int:
    """Stages of one period, twice where some launch may be under way at its end."""
    wraps = any(_wraps(launch) for launch in schedule.plan.launches)
    return schedule.plan.num_stages * (1 + wraps)


def num_arcs(schedule: Schedule) -> int:
    """Lattice arcs of all chunks."""
    pairs = zip(schedule.plan.chunks, schedule.launched, strict=True)
    return sum(own.paths.size * 2 ** (len(exchange.span) - 1) for own, exchange in pairs)


def _wraps(launch: Launch) -> bool:
    """Whether a launch may be under way when a period ends."""
    after, before = launch.after, launch.before
    return after is not None and before is not None and not after.later and bool(before.later and before.task)

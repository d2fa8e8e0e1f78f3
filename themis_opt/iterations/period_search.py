"""CP-SAT on one period of a schedule of training iterations, in rounds that are simulated."""

from formulations.budget import Budget
from formulations.iteration import IterationModel
from formulations.iteration_variables import PeriodTimes
from themis_opt.errors import CyclicPlan
from themis_opt.iterations.incumbent import Incumbent
from themis_opt.iterations.lowering import PeriodData, enforced_plan, period_data, period_times
from themis_opt.iterations.planning import planned
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.iterations.sizing import refined_plan, resized
from themis_opt.policies.hourglass import Hourglass

RESOLUTION = 2**22
"""Ticks into which the iteration time is divided."""

MAX_STAGES = 1_500
"""Largest plan that CP-SAT is given, counting stages twice where some may be under way at the end of a period."""

COARSE_STAGES = 600
"""The same for the few chunks that are searched in the place of too many."""

ARCS_PER_SECOND = 20_000
"""Lattice arcs that the model takes in per second; it is not built where that would take half of the time."""

ROUND_SHARE, LEAST_SECONDS = 0.4, 10.0
"""Share of the time left in a round, and what is not divided any more."""


class PeriodSearch:
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
        while found is not None and found.is_steady and not self.incumbent.done and self.has_time_for(found):
            start = self.with_best_sizes(found)
            found, proven = self.round(start)
            if proven and self.with_best_sizes(found) is found:
                return

    def start(self) -> IterationSchedule | None:
        """The fastest schedule, or its launches in few chunks; None if even two each are too many."""
        best = self.incumbent.best
        if not self.is_coarse:
            return best
        chunks = best.instance.chunks * COARSE_STAGES // num_intervals(best)
        if chunks < 2:
            return None
        few = best.instance.replace(chunks=chunks)
        return simulate_iterations(few, planned(few, best.plan.launches, best.plan.order, Hourglass()))

    def has_time_for(self, schedule: IterationSchedule) -> bool:
        """Whether the model of a schedule can be built in good time."""
        return num_arcs(schedule) <= ARCS_PER_SECOND * self.incumbent.allowance.left / 2

    def with_best_sizes(self, schedule: IterationSchedule) -> IterationSchedule:
        """A schedule with better sizes, for which what is proven for the old ones no longer holds; or itself."""
        found = resized(schedule)
        if found is not schedule:
            self.bound = self.incumbent.bound
            self.offer(found)
        return found

    def offer(self, schedule: IterationSchedule) -> None:
        """Offer a schedule, cut in as many chunks as it should have."""
        if self.is_coarse:
            self.incumbent.offer_plan(refined_plan(self.incumbent.instance, schedule))
        else:
            self.incumbent.offer(schedule)

    def round(self, start: IterationSchedule) -> tuple[IterationSchedule, bool]:
        """One round of CP-SAT: the faster one of its schedule and the start, and whether it ended with a proof."""
        incumbent, tick = self.incumbent, max(1, start.iteration_time // RESOLUTION)
        data = period_data(start.instance, start.plan, tick)
        model = IterationModel(data.period, -(-start.iteration_time // tick), int(self.bound) // tick)
        model.hint(period_times(data, start))
        outcome = model.solve(self.budget(), lambda period, bound: None)
        self.rounds += 1
        incumbent.allowance.charge(outcome.work)
        incumbent.interrupted |= outcome.status == "interrupted"
        self.bound = max(self.bound, float(data.bound(outcome.bound)))
        found = start if outcome.times is None else self.better(start, data, outcome.times)
        if not self.is_coarse and incumbent.best in (start, found):
            incumbent.launch_bound = self.bound
        near = found.iteration_time <= self.bound * (1 + incumbent.limits.gap)
        return found, near or outcome.status == "optimal"

    def better(self, start: IterationSchedule, data: PeriodData, times: PeriodTimes) -> IterationSchedule:
        """The schedule of a solution, simulated and offered, if it is faster than the start."""
        try:
            found = simulate_iterations(start.instance, enforced_plan(start.instance, start.plan, data, times))
        except CyclicPlan:
            return start
        if found.iteration_time >= start.iteration_time:
            return start
        self.offer(found)
        return found

    def budget(self) -> Budget:
        """What CP-SAT may spend in a round."""
        limits, left = self.incumbent.limits, self.incumbent.allowance.left
        seconds = left if left * ROUND_SHARE < LEAST_SECONDS else left * ROUND_SHARE
        return limits.budget(seconds, seed=limits.seed + self.rounds)


def num_intervals(schedule: IterationSchedule) -> int:
    """Stages of one period, twice where some launch may be under way at its end."""
    wraps = any(not own.after.later and own.before.later and own.before.task for own in schedule.plan.launches)
    return schedule.plan.chunks.num_stages * (1 + wraps)


def num_arcs(schedule: IterationSchedule) -> int:
    """Lattice arcs of all chunks."""
    stream, chunks = schedule.plan.stream, schedule.plan.chunks.chunks
    return sum(own.paths.size * 2 ** (len(span) - 1) for own, span in zip(chunks, stream.spans, strict=True))

"""A step of a search for training iterations: CP-SAT on one period, in rounds that are simulated."""

from dataclasses import dataclass
from typing import ClassVar

from formulations.period import PeriodModel
from themis_opt.schedules.plan import Launch
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.orders import ARCS_PER_SECOND
from themis_opt.solving.lowering import RESOLUTION, num_arcs
from themis_opt.solving.period_lowering import enforced_plan, period_data, period_times
from themis_opt.solving.sizing import resized

MAX_INTERVALS = 1_500
"""Largest period that CP-SAT improves in good time; it never looks at the clock while it simplifies a larger one."""

RESIZED_PER_SECOND = 1_000
"""Stages of a linear programme on sizes that are solved in a second, roughly, as it cannot be cut off."""


@dataclass(frozen=True)
class Rounds:
    """Rounds of CP-SAT on orders and of a linear programme on sizes, which start from the fastest schedule."""

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether iterations repeat each other and have few tasks and stages."""
        return incumbent.best.period.is_steady and num_intervals(incumbent.best) <= MAX_INTERVALS

    def run(self, incumbent: Incumbent) -> None:
        """Search while time is left, and the period is not proven optimal for the best sizes."""
        improve_sizes(incumbent)
        while has_time(incumbent):
            proves = improve_orders(incumbent)
            if not improve_sizes(incumbent) and proves:
                return


def has_time(incumbent: Incumbent) -> bool:
    """Whether the model of the fastest schedule can be built in good time."""
    is_soon = num_arcs(incumbent.best) <= ARCS_PER_SECOND * incumbent.left / 2
    return is_soon and incumbent.best.period.is_steady and not incumbent.done


def improve_sizes(incumbent: Incumbent) -> bool:
    """Whether other sizes make the fastest schedule faster; what was proven for the old ones no longer holds then."""
    is_soon = incumbent.best.plan.num_stages <= RESIZED_PER_SECOND * incumbent.left
    return is_soon and incumbent.offer(resized(incumbent.best))


def improve_orders(incumbent: Incumbent) -> bool:
    """Search the orders of the fastest schedule with CP-SAT; whether no better ones are possible, or needed."""
    instance, plan, makespan = incumbent.instance, incumbent.best.plan, incumbent.best.makespan
    tick = max(1, makespan // RESOLUTION)
    data, proven = period_data(instance, plan, tick), incumbent.launch_bound
    model = PeriodModel(data.period, -(-makespan // tick), int(proven) // tick)
    model.hint(period_times(data, incumbent.best))
    outcome = model.solve(incumbent.solver_limits(), lambda period, bound: None)
    incumbent.charge(outcome.work)
    if outcome.status == "interrupted":
        incumbent.interrupt()
    if outcome.times is not None:
        incumbent.offer_plan(enforced_plan(instance, plan, data, outcome.times))
    # What is proven is proven for all orders of these launches and sizes, so that it holds for a better schedule too.
    incumbent.launch_bound = max(proven, float(data.bound(outcome.bound)))
    enough = incumbent.launch_bound * (1 + incumbent.limits.gap)
    return outcome.status == "optimal" or incumbent.best.makespan <= enough


def num_intervals(schedule: Schedule) -> int:
    """Tasks and stages of one period, the latter twice where some launch may be under way at its end."""
    wraps = any(_wraps(launch) for launch in schedule.plan.launches)
    return len(schedule.instance.tasks) + schedule.plan.num_stages * (1 + wraps)


def _wraps(launch: Launch) -> bool:
    """Whether a launch may be under way when a period ends."""
    after, before = launch.after, launch.before
    return after is not None and before is not None and not after.later and bool(before.later and before.task)

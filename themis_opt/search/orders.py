"""A step of a search that asks CP-SAT for paths and sequences."""

from dataclasses import dataclass
from typing import ClassVar

from formulations.chunk_order import ChunkOrder
from formulations.job_plans import PlanOutcome
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import MIN_GAIN, Incumbent
from themis_opt.solving.lowering import ChunkOrderData, enforced_plan, in_ticks, job_plans, num_arcs
from themis_opt.solving.sizing import resized

MAX_ORDERED_STAGES = 300  # of the largest plans whose paths and sequences CP-SAT improves before time is up
# Lattice arcs that the model takes in per second; it is not built where that would take half of the time
ARCS_PER_SECOND = 20_000


@dataclass(frozen=True)
class Orders:
    """CP-SAT from the best plan so far (:mod:`formulations.chunk_order`): finds schedules that wait on purpose.

    It proves where sizes are equal.  Where they are free, orders and sizes are improved in turn while that pays.
    """

    engine: ClassVar[str] = "cp_sat"

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether the plan is small enough."""
        return incumbent.best.plan.num_stages <= MAX_ORDERED_STAGES

    def run(self, incumbent: Incumbent) -> None:
        """Search until the turn is over, or the schedule is proven."""
        if not incumbent.free_sizes:
            self._improve(incumbent, incumbent.best)
            return
        best = resized(incumbent.best)
        incumbent.offer(best)
        while not incumbent.done:
            with incumbent.turn():
                improved = resized(self._improve(incumbent, best))
            incumbent.offer(improved)
            if improved.makespan > best.makespan * (1 - MIN_GAIN):
                return
            best = improved

    def _improve(self, incumbent: Incumbent, start: Schedule) -> Schedule:
        """The best schedule CP-SAT finds for the chunks of a schedule; its bound counts where these stay."""
        if num_arcs(start) > ARCS_PER_SECOND * incumbent.left / 2:
            return start
        proves, data = not incumbent.free_sizes, in_ticks(start)
        bound = int(incumbent.bound) // data.tick if proves else 0
        model = ChunkOrder(data.jobs, horizon=-(-start.makespan // data.tick), lower_bound=bound)
        model.hint(job_plans(data, start))

        def report(objective: float, bound: float) -> None:
            if proves:
                incumbent.raise_bound(bound * data.tick)

        outcome = model.solve(incumbent.solver_limits(), report)
        report(0.0, float(outcome.bound))
        return better(incumbent, start, data, outcome)


def better(incumbent: Incumbent, start: Schedule, data: ChunkOrderData, outcome: PlanOutcome) -> Schedule:
    """The plan of CP-SAT, simulated and offered, if it is better than its start."""
    incumbent.allowance.charge(outcome.work)
    if outcome.status == "interrupted":
        incumbent.allowance.interrupt()
    if outcome.jobs is None:
        return start
    schedule = simulate(start.instance, enforced_plan(start.instance, data, outcome.jobs))
    incumbent.offer(schedule)
    return min(start, schedule, key=lambda candidate: candidate.makespan)

"""The reference policy: the chunk-order model solved by CP-SAT, with a proven bound."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from formulations.budget import Budget
from formulations.chunk_order import ChunkOrder
from themis_opt.instance import Instance
from themis_opt.lowering import chunk_order_data, enforced_plan, job_plans
from themis_opt.plan import Plan
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.themis import Themis
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate

RESOLUTION = 2**22
"""Ticks into which the makespan of the starting schedule is divided."""

MAX_STAGES = 20_000
"""Largest plan that the solver is given; above it the model itself would take longer than the search."""

Progress = Callable[[float, float], None]
"""Called with the best makespan and the best bound so far, in picoseconds."""


@dataclass(frozen=True)
class Reference:
    """A schedule and what is proven about it; `bound` is in picoseconds and needs chunks of these sizes."""

    schedule: Schedule
    bound: float
    status: str


@dataclass(frozen=True)
class Exact:
    """Near-optimal paths and sequences of equal chunks, found by :mod:`formulations.chunk_order`.

    The search starts from the best of the fixed order and Themis with each of its dispatch rules, so it
    never ends worse.  Only paths and sequences are taken from the solver; the times are simulated.

    Parameters
    ----------
    seconds : float
        Wall time of the search.
    workers : int
        Solver threads.
    seed : int
        Solver seed.
    gap : float
        Relative gap at which the search stops.
    """

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    workers: Annotated[int, Field(gt=0, le=1024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-4

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        return self.solve(instance).schedule.enforced_plan()

    def solve(self, instance: Instance, lower_bound: float = 0.0, progress: Progress | None = None) -> Reference:
        """Search for a schedule and a bound, from a proven `lower_bound` in picoseconds on."""
        start = starting_schedule(instance)
        report = progress or _ignore
        report(start.makespan, lower_bound)
        if start.makespan <= lower_bound * (1 + self.gap):
            return Reference(start, lower_bound, "optimal")
        if start.plan.num_stages > MAX_STAGES:
            return Reference(start, lower_bound, "too large for the solver")
        return self._improve(instance, start, lower_bound, report)

    def _improve(self, instance: Instance, start: Schedule, lower_bound: float, report: Progress) -> Reference:
        tick = max(1, start.makespan // RESOLUTION)
        data = chunk_order_data(instance, tuple(c.sizes for c in start.plan.chunks), tick)
        model = ChunkOrder(data.jobs, horizon=-(-start.makespan // tick), lower_bound=int(lower_bound) // tick)
        model.hint(job_plans(data, start))
        outcome = model.solve(
            Budget(self.seconds, self.workers, self.seed, gap=self.gap),
            lambda objective, bound: report(objective * tick, max(bound * tick, lower_bound)),
        )
        best = start
        if outcome.jobs is not None:
            found = simulate(instance, enforced_plan(instance, data, outcome.jobs))
            best = min(start, found, key=lambda schedule: schedule.makespan)
        return Reference(best, max(lower_bound, float(outcome.bound * tick)), outcome.status)


def starting_schedule(instance: Instance) -> Schedule:
    """The best schedule of the fast policies."""
    policies: list[Callable[[Instance], Plan]] = [
        Baseline(),
        *(Themis(dispatch=rule) for rule in ("fifo", "scf", "longest_remaining")),
    ]
    return min((simulate(instance, policy(instance)) for policy in policies), key=lambda s: s.makespan)


def _ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

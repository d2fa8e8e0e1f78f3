"""The reference policy: near-optimal schedules with a proven bound."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from formulations.interruption import TimeUp
from formulations.limits import Limits
from themis_opt.base.allowance import SLACK, Allowance, cut_off
from themis_opt.policies.law import Law, has_law
from themis_opt.problem.cost import count_stages
from themis_opt.problem.instance import Instance
from themis_opt.schedules.incumbent import Progress, Step, take_turns, tell_notebook
from themis_opt.schedules.plan import Plan, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent, Reference
from themis_opt.search.start import starting_schedule
from themis_opt.solving.lowering import chunk_overhead

STARTED_PER_SECOND = 70_000  # stages that the fast policies plan and simulate in a second on a slow core
LEAST_START = 0.5  # seconds that the fast policies take at least; with less a given schedule stands for theirs

OVERTIME = 0.25
"""Seconds of processor after the end of its time in which a step may end what it does, before it is cut off."""


@dataclass(frozen=True)
class Exact(Limits):
    """Near-optimal paths, sequences and (where they are free) sizes of chunks.

    The search starts from the best of the fixed order, Themis with several dispatch rules, hourglass and, if sizes are
    free, the law of chunks, so it never ends worse.  The law (docs/law.md) ends the search if it meets the bound.  With
    compute it starts from the launches of the policies.  Then the steps of one table take turns
    (:mod:`themis_opt.search.table`).

    Only paths, sequences and sizes are taken from the solvers; the times are simulated.  The knobs are those of
    :class:`formulations.limits.Limits`, and the following.

    `sizes`: whether chunks are equal, or of any sizes and at most as many as the instance says.  With compute they are
      free.
    `local_search`, `cp_sat`: whether to use the steps that anneal, and those that ask CP-SAT.
    """

    sizes: Literal["equal", "free"] = "equal"
    local_search: bool = True
    cp_sat: bool = True

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        schedule = self.solve(instance).schedule
        return schedule.plan if schedule.has_period else schedule.enforced_plan()

    def solve(
        self,
        instance: Instance,
        lower_bound: float = 0.0,
        progress: Progress = tell_notebook,
        start: Schedule | None = None,
        steps: Sequence[Step] | None = None,
    ) -> Reference:
        """Search for a schedule and a bound.

        `lower_bound`: a proven bound to start from, in picoseconds, that holds for the sizes asked for.
        `progress`: hears of every better schedule and bound.
        `start`: a schedule of the instance, with sizes of the kind asked for, to start from if it is the best.
        `steps`: steps that take turns in the place of the usual ones.
        """
        allowance, is_period = Allowance(self.seconds, self.deterministic), has_launches(instance)
        best = self._start(instance, allowance, start, lower_bound)
        bound = max(lower_bound, float(instance.compute)) if is_period else lower_bound
        free_sizes = self.sizes == "free" and not is_period
        engines = {"", *(["annealing"] if self.local_search else []), *(["cp_sat"] if self.cp_sat else [])}
        incumbent = Incumbent(self, best, bound, progress, free_sizes=free_sizes, engines=engines, allowance=allowance)
        try:
            if not incumbent.done:
                from themis_opt.search.table import PERIOD_STEPS, STEPS  # which imports every step

                with suppress(TimeUp), cut_off(allowance, OVERTIME):
                    take_turns(incumbent, steps or (PERIOD_STEPS if is_period else STEPS))
        except KeyboardInterrupt:  # before the first step
            allowance.interrupt()
        status = "interrupted" if allowance.interrupted else "finished"
        return Reference(incumbent.best, incumbent.bound, status)

    def _start(self, instance: Instance, allowance: Allowance, given: Schedule | None, lower_bound: float) -> Schedule:
        """The best of the schedule that is given and those of the fast policies, if there is time for these."""
        launches = has_launches(instance)
        expected = count_stages(instance) / STARTED_PER_SECOND + (-SLACK if launches else LEAST_START)
        if given is not None and given.fits and expected > allowance.left and not self.deterministic:
            return given
        if launches:
            from themis_opt.search.launches import launched_schedule

            return launched_schedule(instance, allowance, given)
        law = simulate(instance, Law()(instance)) if self.sizes == "free" and has_law(instance) else None
        if law and law.makespan <= lower_bound * (1 + self.gap):
            return law
        seconds = None if self.deterministic else max(allowance.left / 2, 0.0)
        chooses_count = self.sizes == "free" and chunk_overhead(instance) > 0
        best = starting_schedule(instance, seconds, free_sizes=chooses_count)
        return min((schedule for schedule in (best, law, given) if schedule), key=lambda schedule: schedule.makespan)

"""Local search on the simulator as a policy, between the rules of :mod:`hourglass` and the reference."""

import math
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from formulations.limits import MAX_SECONDS, Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError
from themis_opt.problem.cost import count_stages
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.anneal import Anneal
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.start import starting_schedule


@dataclass(frozen=True)
class Annealed:
    """Improve the best schedule of the fast policies by annealing (:mod:`themis_opt.search.anneal`).

    Without `seconds`, equal evaluations, seeds and workers give equal plans on every machine.  Time: O(n (D + log n))
    per evaluation, for n stages on D dimensions.

    `evaluations`: plans that each thread considers, counted in plans of as many stages as the instance has; with free
      sizes the starts that were begun are finished.  ``inf`` leaves `seconds` alone to end the search.
    `seconds`: wall time after which the search ends all the same.
    `seed`, `workers`: seed of all random choices, and threads.
    `sizes`: whether chunks are equal, or of any sizes and at most as many as the instance says.
    """

    evaluations: Annotated[float, Field(ge=1)] = 200_000
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    workers: Annotated[int, Field(gt=0, le=1024)] = 1
    sizes: Literal["equal", "free"] = "equal"

    def __post_init__(self) -> None:
        """Check the budget.

        Raises InputError if nothing would end the search.
        """
        if not 1 <= self.evaluations <= (math.inf if self.seconds else sys.float_info.max):
            rule = "must be at least 1, and finite unless seconds are given"
            raise InputError(rule, field="evaluations", value=self.evaluations)

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        return self.searched(instance).enforced_plan()

    def searched(self, instance: Instance) -> Schedule:
        """The best schedule that the evaluations give.

        Raises KeyboardInterrupt after Ctrl-C, as soon as all threads have stopped.
        """
        free_sizes = self.sizes == "free"
        limits = Limits(self.seconds or MAX_SECONDS, self.workers, self.seed, deterministic=self.seconds is None)
        allowance = Allowance(limits.seconds, limits.deterministic)
        best = starting_schedule(instance, self.seconds, free_sizes=free_sizes)
        incumbent = Incumbent(limits, best, free_sizes=free_sizes, allowance=allowance)
        step = Anneal(patience=math.inf, most_work=self.evaluations * count_stages(instance))
        if step.applies(incumbent):
            step.run(incumbent)
        if allowance.interrupted:
            raise KeyboardInterrupt
        return incumbent.best

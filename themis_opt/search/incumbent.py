"""The best schedule that a search knows, what is proven, and what the search may still spend."""

import math
from collections.abc import Set
from dataclasses import dataclass

from formulations.limits import PROVEN_GAP, Limits
from themis_opt.base.allowance import Allowance
from themis_opt.problem.instance import Instance
from themis_opt.schedules.incumbent import ENGINES, AnyIncumbent, Progress, tell_notebook
from themis_opt.schedules.schedule import Schedule

MIN_GAIN = PROVEN_GAP / 10  # relative gain below which a schedule counts as no better


@dataclass(frozen=True)
class Reference:
    """A schedule and what is proven about it.

    `bound` is in picoseconds; for ``sizes="equal"`` it may hold for chunks of these sizes only.  `status` is
    ``finished`` or ``interrupted``.
    """

    schedule: Schedule
    bound: float
    status: str


class Incumbent(AnyIncumbent[Schedule]):
    """The incumbent of a search for a schedule on dimensions; nothing else holds what its steps share.

    `free_sizes`: whether chunks may be of any sizes.
    """

    def __init__(
        self,
        limits: Limits,
        best: Schedule,
        bound: float = 0.0,
        report: Progress = tell_notebook,
        *,
        free_sizes: bool = False,
        engines: Set[str] = ENGINES,
        allowance: Allowance | None = None,
    ) -> None:
        self.free_sizes = free_sizes
        super().__init__(limits, best, bound, report, engines=engines, allowance=allowance)

    def value_of(self, schedule: Schedule) -> float:
        """The makespan, or the iteration time; infinite for what does not fit in memory."""
        return schedule.makespan if schedule.fits else math.inf

    @property
    def instance(self) -> Instance:
        """The instance of all schedules."""
        return self.best.instance

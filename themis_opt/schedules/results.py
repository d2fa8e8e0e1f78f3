"""The schedule of a policy beside the bound of its problem: what is the same for graphs and pipelines."""

from dataclasses import dataclass
from typing import Any

from themis_opt.schedules.status import status_of


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """A validated schedule and the best bound that is known, in picoseconds."""

    policy: str
    schedule: Any
    bound: float

    @property
    def makespan(self) -> int:
        """The value of the objective in picoseconds."""
        value: int = self.schedule.makespan
        return value

    @property
    def gap(self) -> float:
        """Makespan over the bound, minus 1.  A bound of 0 counts as a picosecond, which every message takes."""
        return self.makespan / max(self.bound, 1) - 1

    @property
    def status(self) -> str:
        """``optimal``, ``near-optimal`` or ``feasible``, by the gap."""
        return status_of(self.gap)

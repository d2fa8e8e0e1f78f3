"""The schedule of a policy beside the bound of its problem: what is the same for all families."""

from dataclasses import dataclass
from typing import Any

from formulations.limits import PROVEN_GAP
from themis_opt.base.units import format_percent, format_short_time

NEAR_OPTIMAL = 0.01  # gap up to which a schedule is called so: less than a change of the runtime is worth


def status_of(gap: float) -> str:
    """``optimal`` up to a gap of 1e-4, ``near-optimal`` up to a hundredth, else ``feasible``."""
    if gap <= PROVEN_GAP:
        return "optimal"
    return "near-optimal" if gap <= NEAR_OPTIMAL else "feasible"


def result_in_words(policy: str, makespan: int, gap: float) -> str:
    """A result in a line."""
    return f"<{policy}: {format_short_time(makespan)}, {format_percent(gap)} above the bound>"


def comparison_in_words(compared: Any) -> str:
    """The results of policies on a problem in a line."""
    best, problem = compared.best, compared.problem.name or "a problem without a name"
    return f"<{type(compared).__name__} of {len(compared.results)} policies on {problem}: {str(best)[1:]}"


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """A validated schedule and the best bound that is known, in picoseconds."""

    policy: str
    schedule: Any
    bound: float

    def __repr__(self) -> str:
        return result_in_words(self.policy, self.makespan, self.gap)

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

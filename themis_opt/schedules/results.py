"""The schedule of a policy beside the bound of its problem: what is the same for all families."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from formulations.limits import PROVEN_GAP
from themis_opt.base.units import format_percent, format_short_time

if TYPE_CHECKING:
    import pandas

NEAR_OPTIMAL = 0.01  # gap up to which a schedule is called so: less than a change of the runtime is worth


def status_of(gap: float) -> str:
    """``optimal`` up to a gap of 1e-4, ``near-optimal`` up to a hundredth, else ``feasible``."""
    if gap <= PROVEN_GAP:
        return "optimal"
    return "near-optimal" if gap <= NEAR_OPTIMAL else "feasible"


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """A validated schedule and the best bound that is known, in picoseconds."""

    policy: str
    schedule: Any
    bound: float

    def __repr__(self) -> str:
        return f"<{self.policy}: {format_short_time(self.makespan)}, {format_percent(self.gap)} above the bound>"

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

    def row(self) -> Mapping[str, Any]:
        """Plain values; times in nanoseconds."""
        raise NotImplementedError


R = TypeVar("R", bound=PolicyResult)


@dataclass(frozen=True, repr=False)
class PolicyComparison(Generic[R]):
    """Results of policies on one problem.

    `bounds`: lower bounds in picoseconds, by name.
    `refused`: why other policies have no result, by name.
    `left_out`: policies for which there was no time.
    `interrupted`: whether Ctrl-C ended it before all were tried.
    """

    problem: Any
    results: tuple[R, ...]
    bounds: Mapping[str, float]
    refused: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    left_out: tuple[str, ...] = field(default=(), kw_only=True)
    interrupted: bool = field(default=False, kw_only=True)

    def __repr__(self) -> str:
        problem = self.problem.name or "a problem without a name"
        return f"<{type(self).__name__} of {len(self.results)} policies on {problem}: {str(self.best)[1:]}"

    @property
    def best(self) -> R:
        """The first result with the least makespan."""
        return min(self.results, key=lambda result: result.makespan)

    @property
    def notes(self) -> list[str]:
        """Why policies have no result, those with the same reason together."""
        reasons = defaultdict[str, list[str]](list, {"longer than --time-limit": list(self.left_out)})
        for name, reason in self.refused.items():
            reasons[str(reason)].append(name)
        return [f"left out: {', '.join(names)}: {reason}" for reason, names in reasons.items() if names]

    @property
    def verdict(self) -> tuple[str, ...]:
        """What it comes to, in sentences."""
        raise NotImplementedError

    def to_frame(self) -> "pandas.DataFrame":
        """One row per policy, with the columns of its result."""
        import pandas

        return pandas.DataFrame([result.row() for result in self.results])

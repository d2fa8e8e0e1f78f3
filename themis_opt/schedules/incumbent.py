"""What the steps of a search share, in every family: the best schedule, what is proven, and what is left to spend."""

from collections.abc import Callable, Set
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from formulations.limits import Limits
from themis_opt.base.allowance import Allowance

S = TypeVar("S")

ENGINES = frozenset({"", "annealing", "cp_sat"})  # what steps may use; users can switch off the last two
TURN_SHARE = 1 / 2  # share of what is left that a part of a search may spend if others follow
Progress = Callable[[float, float], None]
"""Hears of the best value of the objective, and of the bound, in picoseconds, when one of them improves."""


def ignore(value: float, bound: float) -> None:
    """Report progress to nobody."""


class AnyIncumbent(Generic[S]):
    """The incumbent of a search, whatever its schedules are.

    `limits`: time, threads, seed, gap and memory.
    `best`: the best schedule so far.
    `bound`: a proven bound on the value of the objective, in picoseconds.
    `report`: hears of every better schedule and bound.
    `engines`: those that steps may use.
    `allowance`: what is left of the time; at first that of the limits.
    """

    def __init__(
        self,
        limits: Limits,
        best: S,
        bound: float = 0.0,
        report: Progress = ignore,
        *,
        engines: Set[str] = ENGINES,
        allowance: Allowance | None = None,
    ) -> None:
        self.limits, self.best, self.bound = limits, best, bound
        self.engines, self._num_searches, self.tell = engines, 0, report
        self.allowance = allowance or Allowance(limits.seconds, limits.deterministic)
        self.tell(self.value, bound)

    def value_of(self, schedule: S) -> float:
        """The value of the objective in picoseconds; infinite for what is no schedule, or does not fit."""
        raise NotImplementedError

    @property
    def value(self) -> float:
        """The value of the best schedule."""
        return self.value_of(self.best)

    @property
    def left(self) -> float:
        """Seconds left of the turn of the step that runs, zero or less if it is over."""
        return self.allowance.left

    @property
    def enough(self) -> float:
        """The value within the asked gap, in picoseconds."""
        return self.bound * (1 + self.limits.gap)

    @property
    def done(self) -> bool:
        """Whether to stop: the gap, the time or Ctrl-C says so."""
        return self.allowance.interrupted or self.left <= 0 or self.value <= self.enough

    def turn(self, followers: int = 1) -> AbstractContextManager[None]:
        """A turn of a part of a search that others follow."""
        return self.allowance.turn(TURN_SHARE * self.left)

    def solver_limits(self, seconds: float | None = None) -> Limits:
        """What a solver may spend: so many seconds, or all that is left of the turn."""
        return self.limits.within(self.left if seconds is None else min(seconds, self.left))

    def next_seed(self) -> tuple[int, int]:
        """Seed of the next search with random choices."""
        self._num_searches += 1
        return self.limits.seed, self._num_searches - 1

    def offer(self, schedule: S) -> bool:
        """Keep a schedule if it is the best; whether it is."""
        if self.value_of(schedule) >= self.value:
            return False
        self.best = schedule
        self.tell(self.value, self.bound)
        return True

    def raise_bound(self, bound: float) -> None:
        """Keep a proven bound if it is higher than the one so far."""
        if bound > self.bound:
            self.bound = bound
            self.tell(self.value, self.bound)

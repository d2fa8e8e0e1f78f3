"""What the steps of a search share, in every family: the best schedule, what is proven, and what is left to spend."""

from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, Protocol, TypeVar

from formulations.limits import Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.notebook import show_best

S = TypeVar("S")

ENGINES = frozenset({"", "annealing", "cp_sat"})  # what steps may use; users can switch off the last two
TURN_SHARE = 1 / 2  # share of what is left that a part of a search may spend if others follow
Progress = Callable[[float, float], None]
"""Hears of the best value of the objective, and of the bound, in picoseconds, when one of them improves."""


def tell_notebook(value: float, bound: float) -> None:
    """Report progress in the line of a notebook, if this is one."""
    show_best("best", value, bound)


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
        report: Progress = tell_notebook,
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


class Step(Protocol):
    """One idea of a search.  A new one is a file with such a class and a line of a table, and goes as easily."""

    @property
    def engine(self) -> str:
        """``annealing`` or ``cp_sat``, which users can switch off, or nothing."""

    def applies(self, incumbent: Any) -> bool:
        """Whether the step may help, by the problem and the best schedule."""

    def run(self, incumbent: Any) -> None:
        """Offer schedules and raise bounds until :attr:`AnyIncumbent.left` is zero, or nothing more is to be expected.

        The step charges the work it does, looks at :attr:`AnyIncumbent.done`, and marks Ctrl-C if it catches it.
        """


def take_turns(incumbent: AnyIncumbent[Any], steps: Sequence[Step]) -> None:
    """Run the steps that apply, one after the other, until the gap, the limits or Ctrl-C ends it, or none gains more.

    Each has a share of what is left, and the last one all.
    """
    try:
        before = None
        while before != (incumbent.value, incumbent.bound):
            before = (incumbent.value, incumbent.bound)
            for number, step in enumerate(steps):
                if incumbent.done:
                    return
                if may_run(step, incumbent):
                    followers = sum(may_run(later, incumbent) for later in steps[number + 1 :])
                    with incumbent.turn(followers) if followers else nullcontext():
                        step.run(incumbent)
    except KeyboardInterrupt:
        incumbent.allowance.interrupt()


def may_run(step: Step, incumbent: AnyIncumbent[Any]) -> bool:
    """Whether a step applies and its engine is not switched off."""
    return step.engine in incumbent.engines and step.applies(incumbent)

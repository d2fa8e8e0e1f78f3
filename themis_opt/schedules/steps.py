"""The loop of a search, in every family: steps take turns at one incumbent."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from themis_opt.schedules.incumbent import AnyIncumbent


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

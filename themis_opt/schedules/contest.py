"""Policies and steps of one problem under one limit of time: each has its best schedule under its name."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic

from formulations.interruption import TimeUp
from formulations.limits import Limits
from themis_opt.base.allowance import SLACK, Allowance, cut_off
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.schedules.incumbent import AnyIncumbent, Progress, S, tell_notebook

FIRST_CHECK = 3.0
"""Seconds of processor past the limit for the check of the first schedule, without which there is no answer."""

CONTEST_SHARE = 3 / 4  # share of the time in which the first policy makes schedules


class Contest(AnyIncumbent[S | None], Generic[S]):
    """The incumbent of policies and steps, of which none ends the others.

    `schedules`: the best schedule of each, by name; all of them obey the rules.
    `refused`: why others have none.
    `left_out`: those for which there was no time.
    `tried`: all of these, and those that made nothing.
    """

    def __init__(
        self, limits: Limits, bound: float = 0.0, report: Progress = tell_notebook, allowance: Allowance | None = None
    ) -> None:
        super().__init__(limits, None, bound, report, allowance=allowance)
        self.schedules, self.refused, self.left_out = dict[str, S](), dict[str, str](), list[str]()
        self.tried = set[str]()

    @abstractmethod
    def measure(self, schedule: S) -> float:
        """The value of the objective in picoseconds."""

    @abstractmethod
    def check(self, schedule: S) -> None:
        """Raise InvalidSchedule if a schedule breaks a rule."""

    def value_of(self, schedule: S | None) -> float:
        """The value of the objective in picoseconds; infinite as long as there is no schedule."""
        return math.inf if schedule is None else self.measure(schedule)

    def attempt_each(
        self,
        names: Iterable[str],
        make: Callable[[str], Iterable[S]],
        enough: float | None = None,
        reserve: float = 0.0,
    ) -> None:
        """Attempt policies one after the other, of which the first with a plan has a schedule whatever the time."""
        for name in names:
            if self.allowance.interrupted:
                return
            share = 1.0 if self.schedules else CONTEST_SHARE
            self.attempt(name, partial(make, name), enough, reserve, share, is_cut_off=bool(self.schedules))

    def attempt(
        self,
        name: str,
        make: Callable[[], Iterable[S]],
        enough: float | None = None,
        reserve: float = 0.0,
        share: float = 1.0,
        *,
        is_cut_off: bool = True,
    ) -> None:
        """Keep the best of some schedules under a name, or the reason why there is none.

        `make`: gives schedules, each of which may take longer to make than the ones before.
        `enough`: value at which no other one is made; by default that of the search.
        `reserve`: how much longer than the one before the next one takes, with its validation: one for which there is
          no time is not begun.
        `share`: share of the time that is left in which schedules are made.
        `is_cut_off`: whether what takes longer than the turn is cut off in the middle.
        """
        if name in self.tried:
            return
        self.tried.add(name)
        if self.schedules and self.left <= 0:
            self.left_out.append(name)
            return

        def limited(overtime: float) -> AbstractContextManager[None]:
            return cut_off(self.allowance, overtime if is_cut_off else math.inf)

        try:
            is_first = not self.schedules
            with self.allowance.turn(share * self.left), limited(SLACK if is_first else SLACK / 2):
                best = self._best_of(make, self.enough if enough is None else enough, reserve)
            if best is not None:
                with limited(FIRST_CHECK if is_first else SLACK):
                    self.check(best)
                self.schedules[name] = best
                self.offer(best)
        except TimeUp:
            self.left_out.append(name)
        except (InputError, InvalidSchedule) as error:
            self.refused[name] = error.rule if isinstance(error, InputError) else str(error)
        except Exception as error:  # whatever a policy of another package dies of, the others go on
            self.refused[name] = f"{type(error).__name__}: {error}"

    def _best_of(self, make: Callable[[], Iterable[S]], enough: float, reserve: float) -> S | None:
        """The best schedule that is made in time, or until Ctrl-C; raises TimeUp if there is none in time."""
        best, begin = None, -math.inf  # the first schedule takes as long as the plan
        try:
            for schedule in make():
                best = min(best or schedule, schedule, key=self.measure)
                if self.measure(best) <= enough or self.left <= max(reserve * (begin - self.left), 0):
                    break
                begin = self.left
        except TimeUp:
            if best is None:
                raise
        except KeyboardInterrupt:
            self.allowance.interrupt()
        return best

    @property
    def ends(self) -> dict[str, Any]:
        """What a comparison says of policies without a schedule, and whether Ctrl-C ended it."""
        left_out = tuple(self.left_out)
        return {"refused": self.refused, "left_out": left_out, "interrupted": self.allowance.interrupted}

    def expect_schedules(self, otherwise: str) -> None:
        """Raise KeyboardInterrupt after Ctrl-C, and else InputError, where nothing has a legal schedule."""
        if self.schedules:
            return
        if self.allowance.interrupted:
            raise KeyboardInterrupt
        reasons = "; ".join(self.refused.values()) or otherwise
        raise InputError(f"no policy has a plan: {reasons}", field="--policies")

"""What is left of the time that a search may take, and of the turn of one of its steps."""

import math
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import current_thread, main_thread
from time import process_time
from types import FrameType

from formulations.interruption import IMPORTS, INTERRUPTION, METER, SECONDS_LEFT, TimeUp, is_within
from themis_opt.base.clock import SEARCH_CLOCK

SLACK = 0.5  # seconds of processor past the limit for policies and bounds, so that small problems have all of them
LEAST_TIMER = 1e-3  # seconds of a timer that is to ring at once: 0 would stop it
# Wall time, and time of the processor, after which a timer rings again: its exception may have been caught by others,
# or had to wait for the compiler
AGAIN_SECONDS, AGAIN_PROCESSOR_SECONDS = 1.0, 0.1
# Packages that are left to end what they do: what they compile is kept for the next time, and what is imported is whole
UNDISTURBED = ("numba", "llvmlite", *IMPORTS, "weakref", "_weakrefset")
FINALISERS = ("__del__", "ring_again")  # functions in which Python drops exceptions


class Allowance:
    """Seconds of wall time but for those of the compiler, or of work, which does not depend on the machine.

    A second of work takes about a second of one core.

    `seconds`: the whole allowance.
    `counts_work`: whether only what is charged counts, and not the time that passes.
    """

    def __init__(self, seconds: float, counts_work: bool = False) -> None:
        self.counts_work, self._was_interrupted = counts_work, False
        self._end = seconds if counts_work else SEARCH_CLOCK.now() + seconds
        self._kept = 0.0  # for the turns after this one
        self.overtime = 0.0  # seconds of processor that work took after the end, before it was cut off
        self.is_cut_off = False  # whether a timer runs for it

    @property
    def left(self) -> float:
        """Seconds left of the turn, zero or less if it is over."""
        return self._end - self._kept - (0.0 if self.counts_work else SEARCH_CLOCK.now())

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search, also where its exception was lost."""
        return self._was_interrupted or INTERRUPTION.came

    def interrupt(self) -> None:
        """End what it is for, as Ctrl-C asks."""
        self._was_interrupted = True

    def charge(self, seconds: float) -> None:
        """Count work of so many seconds; wall time counts itself."""
        if self.counts_work:
            self._end -= seconds

    def charge_until(self, overtime: float, seconds: float) -> None:
        """The same; raises TimeUp where the whole allowance was used up so many seconds of `overtime` ago."""
        self.charge(seconds)
        if self._end < -overtime:
            raise TimeUp

    @contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        """A turn of so many seconds at most, within which :attr:`left` is what is left of it."""
        kept = self._kept
        self._kept += max(self.left - seconds, 0.0)
        try:
            yield
        finally:
            self._kept = kept


@contextmanager
def cut_off(allowance: Allowance, overtime: float = 0.0) -> Iterator[None]:
    """Raise :class:`TimeUp` where time is up, and so many seconds of processor after it for all that is cut off.

    Where work is counted, that of simulations is charged.  Wall time is a timer, since policies of other packages and
    loops of libraries poll nothing; the main thread alone hears of it.  Where Python drops the exception, as in
    callbacks of weak references and generators that are given up, it comes again at once.

    `overtime`: infinite for work that is charged, and never cut off.
    """
    if allowance.counts_work:
        token = METER.set(partial(allowance.charge_until, overtime))
        try:
            yield
        finally:
            METER.reset(token)
        return
    is_heard = current_thread() is main_thread() and hasattr(signal, "setitimer")
    if math.inf in (allowance.left, overtime) or allowance.is_cut_off or not is_heard:
        yield
        return
    ended: list[float] = []  # the time of the processor when time was up

    def end(number: int, frame: FrameType | None) -> None:
        if not ended and allowance.left > 0:
            signal.setitimer(signal.ITIMER_REAL, max(allowance.left, LEAST_TIMER), AGAIN_SECONDS)
            return
        if not ended:
            ended.append(process_time())
        left = overtime - allowance.overtime - (process_time() - ended[0])
        if left > 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
        first = max(left, LEAST_TIMER) if left > 0 else AGAIN_PROCESSOR_SECONDS
        signal.setitimer(signal.ITIMER_PROF, first, AGAIN_PROCESSOR_SECONDS)
        if left <= 0 and not is_within(frame, UNDISTURBED, FINALISERS):
            raise TimeUp

    def ring_again(dropped: "sys.UnraisableHookArgs") -> None:
        if dropped.exc_type is TimeUp:
            signal.setitimer(signal.ITIMER_REAL, LEAST_TIMER, AGAIN_SECONDS)
        else:
            show(dropped)

    show, sys.unraisablehook = sys.unraisablehook, ring_again
    numbers = (signal.SIGALRM, signal.SIGPROF)
    before = [signal.signal(number, end) for number in numbers]
    of_solvers = SECONDS_LEFT.set(lambda: allowance.left + overtime)
    try:
        allowance.is_cut_off = True
        signal.setitimer(signal.ITIMER_REAL, max(allowance.left, LEAST_TIMER), AGAIN_SECONDS)
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = show
        SECONDS_LEFT.reset(of_solvers)
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        allowance.is_cut_off = False
        if ended:
            allowance.overtime += process_time() - ended[0]

"""What is left of the time that a search may take, and of the turn of one of its steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from formulations.interruption import INTERRUPTION


class Allowance:
    """Seconds of wall time, or of work that takes about as long on one core and does not depend on the machine.

    Parameters
    ----------
    seconds : float
        The whole allowance.
    counts_work : bool
        Whether only what is charged counts, and not the time that passes.
    """

    def __init__(self, seconds: float, counts_work: bool = False) -> None:
        self.counts_work, self._was_interrupted = counts_work, False
        self._end = seconds if counts_work else monotonic() + seconds
        self._kept = 0.0  # for the turns after this one

    @property
    def left(self) -> float:
        """Seconds left of the turn, zero or less if it is over."""
        return self._end - self._kept - (0.0 if self.counts_work else monotonic())

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

    @contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        """A turn of so many seconds at most, within which :attr:`left` is what is left of it."""
        kept = self._kept
        self._kept += max(self.left - seconds, 0.0)
        try:
            yield
        finally:
            self._kept = kept

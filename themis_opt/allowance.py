"""What is left of the time that a search may take."""

from time import monotonic


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
        self.counts_work = counts_work
        self._end = seconds if counts_work else monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, zero or less if it is used up."""
        return self._end if self.counts_work else self._end - monotonic()

    def charge(self, seconds: float) -> None:
        """Count work of so many seconds; wall time counts itself."""
        if self.counts_work:
            self._end -= seconds

"""The limits of a search, and what is left of its time."""

from dataclasses import dataclass
from time import monotonic
from typing import Annotated

from pydantic import Field

from formulations.budget import DEFAULT_MEMORY, PROVEN_GAP, Budget

MIN_SECONDS = 0.01
"""Least wall time that CP-SAT is given."""


@dataclass(frozen=True)
class SearchLimits:
    """What a reference policy may spend, and when it is good enough.

    Parameters
    ----------
    seconds : float
        Wall time of the search.
    workers : int
        Threads.
    seed : int
        Seed of all random choices.
    gap : float
        Relative gap at which the search stops.
    deterministic : bool
        Count work in the place of wall time, so that equal inputs give equal schedules whatever the load of the
        machine; `seconds` then states the work that a core of 2020 does in that time, roughly.
    memory : float
        GiB that the process may hold; near it CP-SAT is stopped, and its best schedule kept.
    """

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    workers: Annotated[int, Field(gt=0, le=1024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = PROVEN_GAP
    deterministic: bool = False
    memory: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_MEMORY

    def budget(self, seconds: float, *, seed: int | None = None) -> Budget:
        """What CP-SAT may spend in `seconds` of these limits, with `seed` in the place of theirs if there is one."""
        return Budget(
            seconds=None if self.deterministic else max(seconds, MIN_SECONDS),
            workers=1 if self.deterministic else self.workers,
            seed=self.seed if seed is None else seed,
            deterministic_time=seconds if self.deterministic else None,
            gap=self.gap,
            memory=self.memory,
        )


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

"""The limits of a search, and what is left of its time."""

from dataclasses import dataclass, fields
from time import monotonic
from typing import Annotated

from pydantic import Field

from formulations.budget import DEFAULT_MEMORY, PROVEN_GAP, Budget

MIN_SECONDS = 0.01
"""Least wall time that CP-SAT is given, since none may be left."""


@dataclass(frozen=True)
class SearchLimits(Budget):
    """A budget as the knobs of a policy: the same fields, with the values that are allowed."""

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    workers: Annotated[int, Field(gt=0, le=1024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = PROVEN_GAP
    memory: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_MEMORY

    def budget(self, seconds: float, *, seed: int | None = None) -> Budget:
        """What CP-SAT may spend in `seconds` of these limits, with `seed` in the place of theirs if there is one."""
        same = {field.name: getattr(self, field.name) for field in fields(Budget)}
        least = 0.0 if self.deterministic else MIN_SECONDS
        return Budget(**same | {"seconds": max(seconds, least), "seed": self.seed if seed is None else seed})


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

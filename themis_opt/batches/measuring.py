"""What runs of all kinds share: their limits, their columns, and how they are timed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BOUND = "bound"
"""The name, in the place of a policy, of a run that computes the lower bounds."""

PICOSECONDS_PER_NANOSECOND = 1000

Columns = dict[str, Any]

_warm: set[str] = set()
"""What ran in this process."""


@dataclass(frozen=True)
class Limits:
    """What a run may spend and what it records.

    `time_limit` is in seconds; None stands for a knob that the policy does not have, or for its default.
    """

    time_limit: float | None = None
    workers: int | None = None
    seed: int | None = None
    gap: float | None = None
    sizes: str | None = None
    record: tuple[str, ...] = ()

    def given(self) -> dict[str, Any]:
        """The knobs that are set, but for the time."""
        knobs = {"workers": self.workers, "seed": self.seed, "gap": self.gap, "sizes": self.sizes}
        return {name: value for name, value in knobs.items() if value is not None}

    def knobs(self) -> dict[str, Any]:
        """The knobs that are set, by the names that policies have for them."""
        return ({} if self.time_limit is None else {"seconds": self.time_limit}) | self.given()

    def of(self, policy: object, *recorded: str, sizes: str = "equal") -> "Limits":
        """The limits that a policy, made with :meth:`knobs`, has: its own values, and nothing that it lacks.

        Parameters
        ----------
        policy : object
            With knobs as attributes.
        *recorded : str
            What its runs can record.
        sizes : str
            Its chunk sizes, where it has no such knob.
        """
        names = {"time_limit": "seconds", "workers": "workers", "seed": "seed", "gap": "gap"}
        own = {name: getattr(policy, knob, None) for name, knob in names.items()}
        kept = tuple(sorted(set(self.record) & set(recorded)))
        return Limits(**own, sizes=getattr(policy, "sizes", sizes), record=kept)


class Trajectory(list[tuple[float, float, float]]):
    """Seconds, best makespan and best bound in ns, whenever one of them became better."""

    def add(self, seconds: float, makespan: float, bound: float) -> None:
        """Add what is known by now, in seconds and picoseconds, where it is better than before."""
        makespan, bound = makespan / PICOSECONDS_PER_NANOSECOND, bound / PICOSECONDS_PER_NANOSECOND
        if self:
            makespan, bound = min(makespan, self[-1][1]), max(bound, self[-1][2])
        if not self or (makespan, bound) != self[-1][1:]:
            self.append((round(seconds, 6), makespan, bound))


def warm_up(name: str, run: Callable[[], object]) -> None:
    """Run what has this name once before its time is taken, because the first run in a process loads compiled code."""
    if name not in _warm:
        _warm.add(name)
        run()

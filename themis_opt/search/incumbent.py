"""The best schedule that a search knows, what is proven, and what the search may still spend."""

from collections.abc import Callable, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass

from formulations.limits import PROVEN_GAP, Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import CyclicPlan
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

ENGINES = frozenset({"", "annealing", "cp_sat"})  # what steps may use; users can switch off the last two
MIN_GAIN = PROVEN_GAP / 10  # relative gain below which a schedule counts as no better
TURN_SHARE = 1 / 2  # share of what is left that a part of a search may spend if others follow
Progress = Callable[[float, float], None]
"""Hears of the best makespan, or iteration time, and of the bound, in picoseconds, when one of them improves."""


def ignore(makespan: float, bound: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class Reference:
    """A schedule and what is proven about it.

    `bound` is in picoseconds; for ``sizes="equal"`` it may hold for chunks of these sizes only.  `status` is
    ``finished``, ``interrupted``, or ``recalled`` if it was known before.  With compute, `launch_bound`, never less
    than `bound`, holds for schedules that have the same launches and chunk sizes and repeat themselves from one
    iteration to the next.
    """

    schedule: Schedule
    bound: float
    status: str
    launch_bound: float = 0.0


class Incumbent:
    """What the steps of a search share; nothing else holds it.

    `limits`: time, threads, seed, gap and memory.
    `best`: the best schedule so far.
    `bound`: a proven bound on the makespan, or on the iteration time, in picoseconds.
    `report`: hears of every better schedule and bound.
    `free_sizes`: whether chunks may be of any sizes.
    `engines`: those that steps may use.
    `allowance`: what is left of the time; at first that of the limits.
    `launch_bound`: with compute, what is proven for the launches and chunk sizes of `best`, never less than `bound`.
    """

    def __init__(
        self,
        limits: Limits,
        best: Schedule,
        bound: float = 0.0,
        report: Progress = ignore,
        *,
        free_sizes: bool = False,
        engines: Set[str] = ENGINES,
        allowance: Allowance | None = None,
    ) -> None:
        self.limits, self.best, self.bound, self.launch_bound = limits, best, bound, bound
        self.free_sizes, self.engines, self._num_searches, self._report = free_sizes, engines, 0, report
        self.allowance = allowance or Allowance(limits.seconds, limits.deterministic)
        report(best.makespan, bound)

    @property
    def instance(self) -> Instance:
        """The instance of all schedules."""
        return self.best.instance

    @property
    def left(self) -> float:
        """Seconds left of the turn of the step that runs, zero or less if it is over."""
        return self.allowance.left

    @property
    def enough(self) -> float:
        """Makespan within the asked gap, in picoseconds."""
        return self.bound * (1 + self.limits.gap)

    @property
    def is_best_of_launches(self) -> bool:
        """Whether the best schedule is within the asked gap of those with its launches and chunk sizes."""
        return self.best.makespan <= self.launch_bound * (1 + self.limits.gap)

    @property
    def done(self) -> bool:
        """Whether to stop: the gap, the time or Ctrl-C says so."""
        is_enough = self.best.makespan <= self.enough and self.best.fits
        return self.allowance.interrupted or self.left <= 0 or is_enough

    def turn(self) -> AbstractContextManager[None]:
        """A turn of a part of a search that others follow."""
        return self.allowance.turn(TURN_SHARE * self.left)

    def solver_limits(self, seconds: float | None = None) -> Limits:
        """What a solver may spend: so many seconds, or all that is left of the turn."""
        return self.limits.within(self.left if seconds is None else min(seconds, self.left))

    def next_seed(self) -> tuple[int, int]:
        """Seed of the next search with random choices."""
        self._num_searches += 1
        return self.limits.seed, self._num_searches - 1

    def offer(self, schedule: Schedule) -> bool:
        """Keep a schedule of the instance if it is the best of those that fit in memory; whether it is."""
        if (schedule.makespan >= self.best.makespan and self.best.fits) or not schedule.fits:
            return False
        self.best, self.launch_bound = schedule, self.bound
        self._report(self.best.makespan, self.bound)
        return True

    def offer_plan(self, plan: Plan) -> bool:
        """Simulate a plan of a solver and keep it if it is the best; one that waits for itself is left out."""
        try:
            return self.offer(simulate(self.instance, plan))
        except CyclicPlan:
            return False

    def raise_bound(self, bound: float) -> None:
        """Keep a proven bound if it is higher than the one so far."""
        if bound > self.bound:
            self.bound = bound
            self.launch_bound = max(self.launch_bound, bound)
            self._report(self.best.makespan, self.bound)

    def beside(self, best: Schedule, bound: float = 0.0, *, free_sizes: bool | None = None) -> "Incumbent":
        """The incumbent of another problem that is searched on the way, out of the same allowance."""
        free_sizes = self.free_sizes if free_sizes is None else free_sizes
        allowance = self.allowance
        return Incumbent(self.limits, best, bound, free_sizes=free_sizes, engines=self.engines, allowance=allowance)

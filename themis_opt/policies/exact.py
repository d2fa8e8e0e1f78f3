"""The reference policy: near-optimal schedules with a proven bound."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Literal

from pydantic import Field

from formulations.budget import PROVEN_GAP, Budget
from formulations.chunk_order import ChunkOrder
from themis_opt.cost import PHASES, IntArray
from themis_opt.instance import Instance
from themis_opt.lowering import chunk_order_data, enforced_plan, job_plans
from themis_opt.plan import Plan
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.themis import Themis
from themis_opt.refinement import even_counts, refined
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.sizing import chunk_counts, resized

RESOLUTION = 2**22
"""Ticks into which the makespan of the starting schedule is divided."""

MAX_STAGES = 5_000
"""Largest plan that the solver is given; above it the model itself would take longer than the search."""

ARCS_PER_SECOND = 20_000
"""Lattice arcs that the model takes in per second; it is not built where that would take half of the time or more."""

FEW_DIMENSIONS = 3
COARSE_SHARES = {True: {8: 0.1, 12: 0.3, 16: 0.5}, False: {12: 0.35, 16: 0.8}}
"""With few dimensions and with many: chunks per collective of the coarse plans, in the order they are tried, and the
share of the remaining time that the first search for orders may take."""

RETURN_SHARE = 0.1
"""Share of the remaining time for orders that suit sizes found before."""

COUNT_SECONDS = 3.0
"""Longest search for the number of equal chunks in the place of each coarse one."""

MIN_SECONDS = 0.01
MIN_GAIN = 1e-5
"""Relative gain below which sizes and orders are not improved in turn any further."""

Progress = Callable[[float, float], None]
"""Called with the best makespan and the best bound so far, in picoseconds."""


@dataclass(frozen=True)
class Reference:
    """A schedule and what is proven about it.

    `bound` is in picoseconds; for ``sizes="equal"`` it may hold for chunks of these sizes only.  `status` is
    ``finished`` or ``interrupted``.
    """

    schedule: Schedule
    bound: float
    status: str


@dataclass(frozen=True)
class Exact:
    """Near-optimal paths, sequences and (where they are free) sizes of chunks.

    The search starts from the best of the fixed order and Themis with several dispatch rules, so it never ends
    worse.  It alternates three programmes, from coarse to fine:

    1. paths and sequences of a few equal chunks, by :mod:`formulations.chunk_order`;
    2. the best sizes of these chunks, by :mod:`formulations.chunk_sizes`, and again 1 for these sizes;
    3. for many equal chunks: how many of them take the place of each coarse one, then 1 for all of them.

    Only paths, sequences and sizes are taken from the solvers; the times are simulated.

    Parameters
    ----------
    seconds : float
        Wall time of the search.
    workers : int
        Solver threads.
    seed : int
        Solver seed.
    gap : float
        Relative gap at which the search stops.
    sizes : {"equal", "free"}
        Whether chunks are equal, or of any sizes and at most as many as the instance says.
    """

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    workers: Annotated[int, Field(gt=0, le=1024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = PROVEN_GAP
    sizes: Literal["equal", "free"] = "equal"

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        return self.solve(instance).schedule.enforced_plan()

    def solve(self, instance: Instance, lower_bound: float = 0.0, progress: Progress | None = None) -> Reference:
        """Search for a schedule and a bound.

        Parameters
        ----------
        lower_bound : float
            A proven bound to start from, in picoseconds, that holds for the sizes asked for.
        progress : callable, optional
            Hears of every better schedule and bound.
        """
        search = _Search(self, instance, lower_bound, progress or _ignore)
        try:
            search.run()
        except KeyboardInterrupt:
            search.interrupted = True
        return Reference(search.best, search.bound, "interrupted" if search.interrupted else "finished")


class _Search:
    """One run: the best schedule and bound so far, and the steps that improve them."""

    def __init__(self, limits: Exact, instance: Instance, lower_bound: float, report: Progress) -> None:
        self.limits, self.instance, self.bound, self.report = limits, instance, lower_bound, report
        self.deadline = monotonic() + limits.seconds
        self.interrupted = False
        self.best = starting_schedule(instance)
        report(self.best.makespan, self.bound)

    def run(self) -> None:
        """Go from coarse to fine until the gap, the time or Ctrl-C ends it."""
        finest = max(c.chunks for c in self.instance.collectives)
        free = self.limits.sizes == "free"
        few_dimensions = max(len(span) for span in self.instance.spans) <= FEW_DIMENSIONS
        for count, share in COARSE_SHARES[few_dimensions].items():
            if not self.done and (count < finest or free):
                self.coarse(count, share * self.left)
        if not self.done:
            self.offer(self.with_best_orders(self.best, self.left, proves=not free))
        if free and not self.done:
            self.offer(self.alternated(self.best))

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.deadline - monotonic()

    @property
    def done(self) -> bool:
        """Whether to stop."""
        return self.interrupted or self.left <= 0 or self.best.makespan <= self.bound * (1 + self.limits.gap)

    def offer(self, schedule: Schedule) -> None:
        """Keep a schedule of the instance if it is the best."""
        if schedule.makespan < self.best.makespan:
            self.best = schedule
            self.report(schedule.makespan, self.bound)

    def coarse(self, count: int, seconds: float) -> None:
        """Plan with at most `count` chunks per collective, and carry the plan over to the instance."""
        few = self.instance.replace(
            collectives=[c.replace(chunks=min(c.chunks, count)) for c in self.instance.collectives]
        )
        equal = self.with_best_orders(starting_schedule(few), seconds)
        if self.limits.sizes == "equal":
            self.offer_refined(equal, even_counts(equal, self.instance))
        schedule = self.alternated(equal)
        if self.limits.sizes == "free":
            self.offer(simulate(self.instance, schedule.enforced_plan()))
        elif not self.done:
            self.offer_refined(schedule, chunk_counts(schedule, self.instance, min(COUNT_SECONDS, self.left)))

    def offer_refined(self, coarse: Schedule, counts: Sequence[IntArray]) -> None:
        """Offer a coarse schedule with these numbers of equal chunks in the place of each of its own."""
        self.offer(simulate(self.instance, refined(coarse.enforced_plan(), self.instance, counts)))

    def alternated(self, schedule: Schedule) -> Schedule:
        """Improve sizes and orders in turn while that pays."""
        best = resized(schedule)
        while not self.done and best.makespan > self.bound * (1 + self.limits.gap):
            found = resized(self.with_best_orders(best, RETURN_SHARE * self.left))
            if found.makespan > best.makespan * (1 - MIN_GAIN):
                return min(best, found, key=lambda s: s.makespan)
            best = found
        return best

    def with_best_orders(self, start: Schedule, seconds: float, proves: bool = False) -> Schedule:
        """The best paths and sequences found for the chunks of a schedule; with `proves` the bound holds for all."""
        began = monotonic()
        if self.done or start.plan.num_stages > MAX_STAGES or _num_arcs(start) > ARCS_PER_SECOND * seconds / 2:
            return start
        tick = max(1, start.makespan // RESOLUTION)
        data = chunk_order_data(start.instance, tuple(c.sizes for c in start.plan.chunks), tick)
        known = self.bound if proves else 0.0
        model = ChunkOrder(data.jobs, horizon=-(-start.makespan // tick), lower_bound=int(known) // tick)
        model.hint(job_plans(data, start))

        def report(objective: float, bound: float) -> None:
            if proves:
                best_bound = max(bound * tick, self.bound)
                self.report(max(objective * tick, best_bound), best_bound)

        limits = self.limits
        seconds_left = max(seconds - (monotonic() - began), MIN_SECONDS)
        outcome = model.solve(Budget(seconds_left, limits.workers, limits.seed, gap=limits.gap), report)
        self.interrupted |= outcome.status == "interrupted"
        if proves:
            self.bound = max(self.bound, float(outcome.bound * tick))
        if outcome.jobs is None:
            return start
        found = simulate(start.instance, enforced_plan(start.instance, data, outcome.jobs))
        return min(start, found, key=lambda schedule: schedule.makespan)


def starting_schedule(instance: Instance) -> Schedule:
    """The best schedule of the fast policies."""
    rules = ("fifo", "scf", "longest_remaining")
    policies: list[Callable[[Instance], Plan]] = [Baseline(), *(Themis(dispatch=rule) for rule in rules)]
    return min((simulate(instance, policy(instance)) for policy in policies), key=lambda s: s.makespan)


def _num_arcs(schedule: Schedule) -> int:
    """Arcs of the subset lattices of all chunks and phases."""
    return sum(
        len(chunks.sizes) * len(PHASES[collective.kind]) * len(span) * 2 ** (len(span) - 1)
        for collective, span, chunks in zip(
            schedule.instance.collectives, schedule.instance.spans, schedule.plan.chunks, strict=True
        )
    )


def _ignore(makespan: float, bound: float) -> None:
    """Report to nobody."""

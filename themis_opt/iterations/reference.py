"""The reference policy of training iterations: near-optimal, with what is proven about it."""

from dataclasses import dataclass

from themis_opt.allowance import SearchLimits
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.incumbent import Progress
from themis_opt.iterations.plan import IterationPlan
from themis_opt.iterations.reference_search import ReferenceSearch, ignore
from themis_opt.iterations.schedule import IterationSchedule


@dataclass(frozen=True)
class IterationReference:
    """A schedule of iterations and what is proven about it, in picoseconds.

    `bound` holds for every schedule if the bound that was given does; `launch_bound`, never less, for those that
    have the same launches and chunk sizes and repeat themselves from one iteration to the next.  `status` is
    ``finished`` or ``interrupted``.
    """

    schedule: IterationSchedule
    bound: float
    launch_bound: float
    status: str


@dataclass(frozen=True)
class IterationExact(SearchLimits):
    """Near-optimal launches, paths and sequences of every iteration.

    The search keeps the fastest of

    1. launches of all policies and of evenly cut buckets, in several orders, with the chunks of hourglass
       (:mod:`themis_opt.iterations.candidates`);
    2. buckets that are merged, split and shifted in turn while that pays;
    3. the best launches with the chunks of each group improved on their own (:class:`themis_opt.policies.exact.Exact`),
       which suffices where groups never meet on the network;
    4. rounds of CP-SAT on paths and sequences (:mod:`formulations.iteration`), which also proves, and of a linear
       programme on sizes (:mod:`formulations.period_sizes`), from the best schedule so far; many chunks are searched as
       few, and cut afterwards.

    Only launches, paths, sizes and sequences are taken from solvers; the times are simulated.  The knobs are those of
    :class:`themis_opt.allowance.SearchLimits`.
    """

    def __call__(self, instance: IterationInstance) -> IterationPlan:
        """Plan `instance`."""
        return self.solve(instance).schedule.plan

    def solve(
        self,
        instance: IterationInstance,
        bound: float = 0.0,
        progress: Progress = ignore,
        start: IterationSchedule | None = None,
    ) -> IterationReference:
        """Search for a schedule.

        Parameters
        ----------
        bound : float
            A proven bound on the iteration time, in picoseconds.
        progress : callable, optional
            Hears of every better schedule.
        start : IterationSchedule, optional
            A schedule to start from; the result is never worse.
        """
        found = ReferenceSearch(self, instance, max(bound, float(instance.compute)), progress, start).run()
        status = "interrupted" if found.interrupted else "finished"
        return IterationReference(found.best, found.bound, found.launch_bound, status)

"""The reference policy of training iterations: near-optimal, with what is proven about it."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from formulations.budget import DEFAULT_MEMORY, PROVEN_GAP
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan
from themis_opt.iterations.reference_search import Progress, ReferenceSearch, ignore
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
class IterationExact:
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

    Only launches, paths, sizes and sequences are taken from solvers; the times are simulated.

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
        Count work in the place of wall time, as in :class:`themis_opt.policies.exact.Exact`.
    memory : float
        GiB that the process may hold.
    """

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    workers: Annotated[int, Field(gt=0, le=1024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = PROVEN_GAP
    deterministic: bool = False
    memory: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_MEMORY

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
        search = ReferenceSearch(self, instance, max(bound, float(instance.compute)), progress, start)
        search.run()
        status = "interrupted" if search.interrupted else "finished"
        return IterationReference(search.best, search.bound, search.launch_bound, status)

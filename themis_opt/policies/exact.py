"""The reference policy: near-optimal schedules with a proven bound."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from formulations.budget import DEFAULT_MEMORY, PROVEN_GAP
from themis_opt.instance import Instance
from themis_opt.plan import Plan
from themis_opt.policies.exact_search import ExactSearch, Progress, ignore
from themis_opt.schedule import Schedule


@dataclass(frozen=True)
class Reference:
    """A schedule and what is proven about it.

    `bound` is in picoseconds; for ``sizes="equal"`` it may hold for chunks of these sizes only.  `status` is
    ``finished``, ``interrupted``, or ``recalled`` if it was found before.
    """

    schedule: Schedule
    bound: float
    status: str


@dataclass(frozen=True)
class Exact:
    """Near-optimal paths, sequences and (where they are free) sizes of chunks.

    The search starts from the best of the fixed order, Themis with several dispatch rules, and the equal chunks of
    hourglass (:mod:`themis_opt.policies.hourglass`), so it never ends worse.  It composes

    1. for many equal chunks, a plan of fewer chunks, refined (:mod:`themis_opt.refinement`);
    2. waves of local search on the simulator (:mod:`themis_opt.local_search`), which for free sizes anneal orders and
       optimise sizes (:mod:`formulations.chunk_sizes`) in turn, from many starts;
    3. for plans of moderate size, CP-SAT (:mod:`formulations.chunk_order`) from the best plan so far, which finds
       schedules that wait on purpose, and proves.

    Only paths, sequences and sizes are taken from the solvers; the times are simulated.

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
    sizes : {"equal", "free"}
        Whether chunks are equal, or of any sizes and at most as many as the instance says.
    deterministic : bool
        Count work in the place of wall time, so that equal inputs give equal schedules whatever the load of the
        machine; `seconds` then states the work that a core of 2020 does in that time, roughly.
    memory : float
        GiB that the process may hold; near it CP-SAT is stopped, and its best schedule kept.
    local_search, cp_sat : bool
        Whether to use these parts.
    """

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    workers: Annotated[int, Field(gt=0, le=1024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = PROVEN_GAP
    sizes: Literal["equal", "free"] = "equal"
    deterministic: bool = False
    memory: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_MEMORY
    local_search: bool = True
    cp_sat: bool = True

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        return self.solve(instance).schedule.enforced_plan()

    def solve(
        self,
        instance: Instance,
        lower_bound: float = 0.0,
        progress: Progress = ignore,
        start: Schedule | None = None,
    ) -> Reference:
        """Search for a schedule and a bound.

        Parameters
        ----------
        lower_bound : float
            A proven bound to start from, in picoseconds, that holds for the sizes asked for.
        progress : callable, optional
            Hears of every better schedule and bound.
        start : Schedule, optional
            A schedule of the instance, with sizes of the kind asked for, to start from if it is the best.
        """
        search = ExactSearch(self, instance, lower_bound, progress)
        if start is not None:
            search.offer(start)
        try:
            search.run()
        except KeyboardInterrupt:
            search.interrupted = True
        return Reference(search.best, search.bound, "interrupted" if search.interrupted else "finished")

"""The reference policy: near-optimal schedules with a proven bound."""

from dataclasses import dataclass

from themis_opt.instance import Instance
from themis_opt.plan import Plan
from themis_opt.policies.exact_limits import ExactLimits
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
class Exact(ExactLimits):
    """Near-optimal paths, sequences and (where they are free) sizes of chunks.

    The search starts from the best of the fixed order, Themis with several dispatch rules, and the equal chunks of
    hourglass (:mod:`themis_opt.policies.hourglass`), so it never ends worse.  It composes

    1. for many equal chunks, a plan of fewer chunks, refined (:mod:`themis_opt.refinement`);
    2. waves of local search on the simulator (:mod:`themis_opt.local_search`), which for free sizes anneal orders and
       optimise sizes (:mod:`formulations.chunk_sizes`) in turn, from many starts;
    3. for plans of moderate size, CP-SAT (:mod:`formulations.chunk_order`) from the best plan so far, which finds
       schedules that wait on purpose, and proves.

    Only paths, sequences and sizes are taken from the solvers; the times are simulated.  The knobs are those of
    :class:`themis_opt.policies.exact_limits.ExactLimits` and :class:`themis_opt.allowance.SearchLimits`.
    """

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

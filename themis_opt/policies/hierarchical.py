"""The two-level collective of libraries: reduce-scatter inside, all-reduce outside, all-gather inside."""

from dataclasses import dataclass, replace

import numpy as np

from themis_opt.policies.baseline import Baseline
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.simulator import simulate


@dataclass(frozen=True)
class Hierarchical:
    """Reduce-scatter inside, all-reduce outside, all-gather inside, one chunk after the other.

    The paths are those of the fixed order (:class:`~themis_opt.policies.baseline.Baseline`): the all-reduce outside is
    a reduce-scatter and an all-gather on the outer dimensions, and with more than two the same again.  What differs is
    who is served: libraries call these three operations for one piece of the buffer before the next, so a chunk that
    is under way goes before all later ones, where the fixed order serves whatever came first.
    """

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        plan = Baseline()(instance)
        releases = plan.releases(instance)
        oldest_first = np.lexsort((plan.chunk_of_stage, plan.launch_of_stage, releases))
        keys = np.empty(plan.num_stages)
        keys[oldest_first] = np.arange(plan.num_stages)
        return simulate(instance, replace(plan, keys=keys)).enforced_plan()

"""Lower bounds on what is minimised: the makespan of collectives, or with compute the iteration time."""

from collections.abc import Mapping

from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import has_launches
from themis_opt.solving.makespan_bounds import MAKESPAN_BOUNDS, Bound
from themis_opt.solving.period_bounds import PERIOD_BOUNDS


def bounds_of(instance: Instance) -> Mapping[str, Bound]:
    """The bounds that say something about an instance, by name."""
    return PERIOD_BOUNDS if has_launches(instance) else MAKESPAN_BOUNDS


def bounds(instance: Instance, *, equal_sizes: bool = True) -> dict[str, float]:
    """All bounds that hold, in picoseconds by name; with free sizes those that need equal chunks are left out."""
    chosen = bounds_of(instance).items()
    return {name: bound.compute(instance) for name, bound in chosen if equal_sizes or not bound.equal_sizes_only}

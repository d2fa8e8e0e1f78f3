"""The local search of the reference alone."""

from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.exact import Exact


def solve(instance: Instance, seconds: float) -> Schedule:
    """The best schedule, with chunks of any sizes."""
    return Exact(seconds=seconds, workers=2, sizes="free", cp_sat=False).solve(instance).schedule

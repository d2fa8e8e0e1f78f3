"""hourglass, the rule of this project for run time, with chunks of any sizes."""

from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


def solve(instance: Instance, seconds: float) -> Schedule:
    """The schedule of the rule, which needs no time limit."""
    return simulate(instance, make_policy("hourglass", sizes="free")(instance))

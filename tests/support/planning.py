"""Schedules of policies, as most tests want them."""

from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


def schedule_of(instance: Instance, policy: str) -> Schedule:
    """Plan an instance with the policy of a specification and simulate the plan."""
    return simulate(instance, make_policy(policy)(instance))

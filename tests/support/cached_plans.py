"""What the tests of the plan cache share."""

from pathlib import Path

from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.study.plan_cache import PlanCache


def scheduled(instance: Instance, policy: str = "themis+scf") -> Schedule:
    """The schedule of a policy."""
    return simulate(instance, make_policy(policy)(instance))


def cached_files(cache: PlanCache) -> list[Path]:
    """Everything in the folder."""
    return sorted(cache.root.glob("*"))

"""What the tests of the plan cache share."""

from pathlib import Path

from themis_opt.instance import Instance
from themis_opt.plan_cache import PlanCache
from themis_opt.policies.registry import make_policy
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate


def scheduled(instance: Instance, policy: str = "themis+scf") -> Schedule:
    """The schedule of a policy."""
    return simulate(instance, make_policy(policy)(instance))


def cached_files(cache: PlanCache) -> list[Path]:
    """Everything in the folders of the keys."""
    return sorted(cache.root.glob("*/*"))

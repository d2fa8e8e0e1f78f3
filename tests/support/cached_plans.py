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


def longer(instance: Instance, factor: int) -> Instance:
    """An iteration with tensors and tasks so many times as large and as long."""
    assert instance.iteration is not None
    tasks = tuple(task.replace(duration=f"{factor * task.duration} ps") for task in instance.iteration.tasks)
    tensors = tuple(tensor.replace(size=factor * tensor.size) for tensor in instance.iteration.tensors)
    return instance.replace(iteration=instance.iteration.replace(tasks=tasks, tensors=tensors))


def cached_files(cache: PlanCache) -> list[Path]:
    """Everything in the folders of the keys."""
    return sorted(cache.root.glob("*/*"))

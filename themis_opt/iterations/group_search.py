"""Chunks of the groups of launches, each as if it were alone on the network."""

import numpy as np

from themis_opt.allowance import Allowance, SearchLimits
from themis_opt.instance import Instance
from themis_opt.iterations.plan import IterationPlan
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.lower_bounds import bounds
from themis_opt.plan import Plan
from themis_opt.policies.exact import Exact
from themis_opt.policies.registry import Policy

LEAST_SECONDS = 0.05


class Remembered:
    """A chunk policy that plans equal groups once, over all calls."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.plans: dict[str, Plan] = {}

    def __call__(self, group: Instance) -> Plan:
        """The plan of a group."""
        if group.fingerprint not in self.plans:
            self.plans[group.fingerprint] = self.policy(group)
        return self.plans[group.fingerprint]


class GroupExact:
    """The reference policy of collectives for every group of a plan, with a share of the time for each.

    Parameters
    ----------
    limits : SearchLimits
        Threads, seed, gap and memory.
    plan : IterationPlan
        Where the groups come from, which are planned in turn.
    seconds : float
        For all groups together.
    """

    def __init__(self, limits: SearchLimits, plan: IterationPlan, seconds: float) -> None:
        self.limits, self.interrupted = limits, False
        self.allowance = Allowance(seconds, limits.deterministic)
        self.waiting = num_groups(plan)

    def __call__(self, group: Instance) -> Plan:
        """The plan of a group, with chunks of any sizes."""
        limits = self.limits
        seconds = LEAST_SECONDS if self.interrupted else max(self.allowance.left / self.waiting, LEAST_SECONDS)
        self.waiting = max(self.waiting - 1, 1)
        exact = Exact(
            seconds=seconds,
            workers=limits.workers,
            seed=limits.seed,
            gap=limits.gap,
            sizes="free",
            deterministic=limits.deterministic,
            memory=limits.memory,
        )
        found = exact.solve(group, max(bounds(group, equal_sizes=False).values()))
        self.allowance.charge(seconds)
        self.interrupted |= found.status == "interrupted"
        return found.schedule.enforced_plan()


def num_groups(plan: IterationPlan) -> int:
    """Groups of launches with different contents, at least 1."""
    groups: dict[object, list[object]] = {}
    for launch, collective in zip(plan.launches, plan.stream.collectives, strict=True):
        content = (collective.kind, collective.size, collective.chunks, collective.dimensions)
        groups.setdefault((launch.after, launch.after_launches), []).append(content)
    return max(len({tuple(own) for own in groups.values()}), 1)


def are_apart(schedule: IterationSchedule) -> bool:
    """Whether launches of different groups are never under way at once in the last whole period."""
    row, plan = schedule.num_iterations - 2, schedule.plan
    windows: dict[object, tuple[int, int]] = {}
    for number, launch in enumerate(plan.launches):
        first, _ = plan.ends_of_chunks[number]
        own = (int(schedule.stage_start[row, first].min()), int(schedule.launch_ready[row, number]))
        known = windows.get((launch.after, launch.after_launches), own)
        windows[launch.after, launch.after_launches] = (min(own[0], known[0]), max(own[1], known[1]))
    if not windows:
        return True
    spans = np.array(sorted(windows.values()))
    following = np.append(spans[1:, 0], spans[0, 0] + schedule.iteration_time)
    return bool((spans[:, 1] <= following).all())

"""Chunks of the groups of launches, each as if it were alone on the network."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from themis_opt.policies.registry import Policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.solving.bounds import bounds

LEAST_SECONDS = 0.05
"""Of a search for one group, for which the others may have left nothing: enough to make its start."""


class Solution(Protocol):
    """What a search for the schedule of one group comes back with."""

    @property
    def schedule(self) -> Schedule:
        """The best schedule found."""

    @property
    def status(self) -> str:
        """Whether the search was ``interrupted``."""


SolveGroup = Callable[[Instance, float, float], Solution]
"""Searches for a schedule of a group, from a proven bound and the seconds that it may take."""


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
    instance, plan : Instance and Plan
        Where the groups come from, which are planned in turn.
    seconds : float
        For all groups together.
    solve_group : callable
        The search for one group.
    """

    def __init__(
        self, limits: SearchLimits, instance: Instance, plan: Plan, seconds: float, solve_group: SolveGroup
    ) -> None:
        self.solve_group, self.interrupted = solve_group, False
        self.allowance = Allowance(seconds, limits.deterministic)
        self.waiting = num_groups(instance, plan)

    def __call__(self, group: Instance) -> Plan:
        """The plan of a group, with chunks of any sizes."""
        seconds = LEAST_SECONDS if self.interrupted else max(self.allowance.left / self.waiting, LEAST_SECONDS)
        self.waiting = max(self.waiting - 1, 1)
        found = self.solve_group(group, max(bounds(group, equal_sizes=False).values()), seconds)
        self.allowance.charge(seconds)
        self.interrupted |= found.status == "interrupted"
        return found.schedule.enforced_plan()


def num_groups(instance: Instance, plan: Plan) -> int:
    """Groups of launches with different contents, at least 1."""
    groups: dict[object, list[object]] = {}
    for launch, own in zip(plan.launches, plan.launched(instance), strict=True):
        content = (own.kind, own.size, own.chunks, own.span)
        groups.setdefault((launch.after, launch.after_launches), []).append(content)
    return max(len({tuple(own) for own in groups.values()}), 1)


def are_apart(schedule: Schedule) -> bool:
    """Whether launches of different groups are never under way at once in the last whole period."""
    row, plan = schedule.num_iterations - 2, schedule.plan
    windows: dict[object, tuple[int, int]] = {}
    for number, launch in enumerate(plan.launches):
        first, _ = plan.ends_of_chunks[number]
        own = (int(schedule.period.stage_start[row, first].min()), int(schedule.period.launch_ready[row, number]))
        known = windows.get((launch.after, launch.after_launches), own)
        windows[launch.after, launch.after_launches] = (min(own[0], known[0]), max(own[1], known[1]))
    if not windows:
        return True
    spans = np.array(sorted(windows.values()))
    following = np.append(spans[1:, 0], spans[0, 0] + schedule.makespan)
    return bool((spans[:, 1] <= following).all())

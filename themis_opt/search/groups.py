"""A step of a search for training iterations: chunks of each group of launches, as if it were alone on the network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import ClassVar

import numpy as np

from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.planning import plan_launches
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import content
from themis_opt.search.steps import Step, take_turns
from themis_opt.solving.bounds import bounds


@dataclass(frozen=True)
class Groups:
    """Search each group of launches that one event releases as a separate collective, where no two of them meet.

    `steps`: the search of collectives.
    """

    steps: Sequence[Step]
    engine: ClassVar[str] = ""

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether the groups of the fastest launches are never on the network at once."""
        return are_apart(incumbent.best)

    def run(self, incumbent: Incumbent) -> None:
        """Plan the fastest launches with the best chunks of each group, each with an equal share of the time left."""
        plan = incumbent.best.plan
        waiting = count(num_groups(incumbent.instance, plan), -1)
        search = partial(self._best_plan, incumbent, waiting)
        incumbent.offer_plan(plan_launches(incumbent.instance, plan.launches, plan.order, search))

    def _best_plan(self, incumbent: Incumbent, waiting: Iterator[int], group: Instance) -> Plan:
        """The plan of a group, with chunks of any sizes; `waiting` counts the groups that are still to be planned."""
        plan, share = Hourglass()(group), incumbent.left / max(next(waiting), 1)
        if share <= 0:
            return plan
        bound = max(bounds(group, equal_sizes=False).values())
        alone = incumbent.beside(simulate(group, plan), bound, free_sizes=True)
        with incumbent.allowance.turn(share):
            take_turns(alone, self.steps)
        return alone.best.enforced_plan()


def num_groups(instance: Instance, plan: Plan) -> int:
    """Groups of launches with different contents, at least 1."""
    groups: dict[object, list[object]] = {}
    for launch, exchange in zip(plan.launches, plan.launched(instance), strict=True):
        groups.setdefault((launch.after, launch.after_launches), []).append(content(exchange))
    return max(len({tuple(contents) for contents in groups.values()}), 1)


def are_apart(schedule: Schedule) -> bool:
    """Whether launches of different groups are never under way at once in the last whole period."""
    row, plan = schedule.num_iterations - 2, schedule.plan
    windows: dict[object, tuple[int, int]] = {}
    for number, launch in enumerate(plan.launches):
        first, _ = plan.ends_of_chunks[number]
        begin, end = int(schedule.period.stage_start[row, first].min()), int(schedule.period.launch_ready[row, number])
        event = launch.after, launch.after_launches
        earliest, latest = windows.get(event, (begin, end))
        windows[event] = min(begin, earliest), max(end, latest)
    if not windows:
        return True
    spans = np.array(sorted(windows.values()))
    following = np.append(spans[1:, 0], spans[0, 0] + schedule.makespan)
    return bool((spans[:, 1] <= following).all())

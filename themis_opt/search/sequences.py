"""A step of a search for training iterations: sequences in which resources wait for a more urgent launch."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from typing import ClassVar

import numpy as np

from themis_opt.base.errors import CyclicPlan
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.launches import SIMULATED_PER_SECOND, Trials, all_buckets, candidates

MOST_SEQUENCED = 300  # of a plan, whose moves are then tried in some seconds
# The stages that a resource serves in a period, in turn, each with the periods after its iteration began
Service = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sequences:
    """Move stages of the usual launches to other places in their sequences, the fastest sequences first.

    Where a resource waits for a later launch, launches may be the fastest that are slower as long as nothing waits.
    Of few tensors all ways to fuse them are tried, and of few stages all sequences.
    """

    engine: ClassVar[str] = ""

    def applies(self, incumbent: Incumbent) -> bool:
        """Whether iterations repeat each other and have few stages."""
        return is_small(incumbent.best)

    def run(self, incumbent: Incumbent) -> None:
        """Start from one candidate after the other, the fastest first, while time is left."""
        trials, instance = Trials(incumbent), incumbent.instance
        with incumbent.turn():
            starts = trials.judge_each(chain(all_buckets(instance), candidates(instance)))
        for start in starts:
            schedule = None if incumbent.done else trials.simulated(start.candidate)
            if schedule is not None and is_small(schedule):
                with incumbent.turn():
                    explore(incumbent, schedule)


def is_small(schedule: Schedule) -> bool:
    """Whether the iterations of a schedule repeat each other and have few stages."""
    return schedule.period.is_steady and schedule.plan.num_stages <= MOST_SEQUENCED


def explore(incumbent: Incumbent, start: Schedule) -> None:
    """Offer schedules with the launches and chunks of one, until none is left that moves lead to."""
    plan = start.period.enforced_plan()
    first = services_of(plan)
    seen, waiting = {first}, [(start.makespan, 0, moved(first))]
    work = start.num_iterations * (plan.num_stages + len(start.instance.tasks))
    while waiting:
        makespan, number, changes = heappop(waiting)
        for services in changes:
            if incumbent.done:
                return
            if services in seen:
                continue
            seen.add(services)
            incumbent.allowance.charge(work / SIMULATED_PER_SECOND)
            try:
                schedule = simulate(start.instance, with_services(plan, services))
            except CyclicPlan:
                continue
            incumbent.offer(schedule)
            heappush(waiting, (schedule.makespan, len(seen), moved(services)))
            if schedule.makespan < makespan:
                heappush(waiting, (makespan, number, changes))
                break


def services_of(plan: Plan) -> tuple[Service, ...]:
    """What each resource serves by the sequences of a plan."""
    sequences = [[] if sequence is None else sequence.tolist() for sequence in plan.sequences]
    return tuple(turned([(stage, int(plan.shifts[stage])) for stage in sequence]) for sequence in sequences)


def with_services(plan: Plan, services: tuple[Service, ...]) -> Plan:
    """The plan with other sequences."""
    shifts = np.zeros(plan.num_stages, dtype=np.int64)
    for service in services:
        for stage, shift in service:
            shifts[stage] = shift
    return plan.enforcing(
        tuple(np.array([stage for stage, _ in service], dtype=np.int64) for service in services), shifts
    )


def turned(service: list[tuple[int, int]]) -> Service:
    """The same service, in a period that begins with the stage of the least number."""
    place = service.index(min(service)) if service else 0
    whole = [*service[place:], *((stage, shift - 1) for stage, shift in service[:place])]
    least = min((shift for _, shift in whole), default=0)
    return tuple((stage, shift - least) for stage, shift in whole)


def moved(services: tuple[Service, ...]) -> Iterator[tuple[Service, ...]]:
    """Services after a move of one stage to another place, in the same period or the one before or after."""
    for number, service in enumerate(services):
        for place, (stage, shift) in enumerate(service):
            rest = [*service[:place], *service[place + 1 :]]
            for other in range(len(service)):
                for later in (shift, shift - 1, shift + 1):
                    changed = turned([*rest[:other], (stage, later), *rest[other:]])
                    yield (*services[:number], changed, *services[number + 1 :])

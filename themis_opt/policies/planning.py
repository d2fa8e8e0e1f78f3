"""From launches to a whole plan: a chunk policy is called for each group of launches that one event releases."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from graphlib import TopologicalSorter
from typing import Protocol, TypeVar

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Launch, Order, Plan, TaskOf, fused, mirrored_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

Policy = Callable[[Instance], Plan]


class LaunchingPolicy(Protocol):
    """What a launching policy is."""

    @property
    def order(self) -> Order:
        """Which launch a dimension serves first."""

    def __call__(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""


AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


@dataclass(frozen=True)
class Combined:
    """A launching policy combined with a chunk policy."""

    launching: LaunchingPolicy
    chunk_policy: Policy

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        return plan_launches(instance, self.launching(instance), self.launching.order, self.chunk_policy)


def seconds_of(policy: Policy) -> float | None:
    """Seconds that a policy may search; None if it minds no clock."""
    seconds: float | None = getattr(chunk_policy_of(policy), "seconds", None)
    return seconds


def within(policy: AnyPolicy, seconds: float) -> AnyPolicy:
    """The policy with at most so many seconds for its search, if it minds the clock at all."""
    if isinstance(policy, Combined):
        return replace(policy, chunk_policy=within(policy.chunk_policy, seconds))
    limit = seconds_of(policy)
    if limit is None or not is_dataclass(policy) or isinstance(policy, type):
        return policy
    return replace(policy, seconds=min(limit, seconds))


def chunk_policy_of(policy: Policy) -> Policy:
    """The part of a policy that cuts operations in chunks."""
    return policy.chunk_policy if isinstance(policy, Combined) else policy


def planning_once(policy: Policy) -> Policy:
    """The policy, which plans equal instances once."""
    plans: dict[str, Plan] = {}

    def plan(instance: Instance) -> Plan:
        if instance.fingerprint not in plans:
            plans[instance.fingerprint] = policy(instance)
        return plans[instance.fingerprint]

    return plan


def plan_launches(instance: Instance, launches: Sequence[Launch], order: Order, chunk_policy: Policy) -> Plan:
    """Plan every launch with a policy for chunks.

    Launches released together are planned together, as one instance, within an equal part of the seconds that the
    policy may search.  Where the policy enforces sequences, they are priorities among the chunks of the group, and, if
    that is faster, enforced group after group.
    """
    launches = tuple(launches)
    exchanges = fused(instance, launches)
    plans = _plans(instance, exchanges, _groups(launches), chunk_policy)
    chunks = {
        launch: chunks_of_launch
        for members, plan in plans.items()
        for launch, chunks_of_launch in zip(members, plan.chunks, strict=True)
    }
    mirrors = mirrored_launches(instance, launches)
    for gather, scatter in mirrors.items():
        chunks[gather] = Chunks(chunks[scatter].sizes, chunks[scatter].paths[:, ::-1])
    ordered = tuple(chunks[launch] for launch in range(len(launches)))
    whole = Plan(ordered, next(iter(plans.values())).dispatch, launches=launches, order=order)
    if not any(plan.sequences for plan in plans.values()):
        return whole
    keys = _positions(instance, whole, plans, _starts(instance, exchanges, plans, mirrors))
    by_priority = replace(whole, keys=keys)
    return fastest(instance, (by_priority, _one_group_after_another(instance, by_priority, keys))).plan


def fastest(instance: Instance, plans: Sequence[Plan]) -> Schedule:
    """The schedule with the least makespan among those of some plans."""
    return min((simulate(instance, plan) for plan in plans), key=lambda schedule: schedule.makespan)


def _groups(launches: Sequence[Launch]) -> list[tuple[int, ...]]:
    """Launches that one event releases, in the order of their numbers."""
    groups: dict[object, list[int]] = {}
    for number, launch in enumerate(launches):
        groups.setdefault((launch.after, launch.after_launches), []).append(number)
    return [tuple(members) for members in groups.values()]


def _group(instance: Instance, exchanges: Sequence[Exchange], members: Sequence[int]) -> Instance:
    return instance.group(exchanges[number] for number in members)


def _plans(
    instance: Instance, exchanges: Sequence[Exchange], groups: Sequence[tuple[int, ...]], chunk_policy: Policy
) -> dict[tuple[int, ...], Plan]:
    """The plan of every group; equal groups are planned once, and the others share the seconds of the policy."""
    instances = {members: _group(instance, exchanges, members) for members in groups}
    different: dict[str, Instance] = {}
    for group in instances.values():
        different.setdefault(group.fingerprint, group)
    policy = within(chunk_policy, (seconds_of(chunk_policy) or math.inf) / len(different))
    known = {fingerprint: policy(group) for fingerprint, group in different.items()}
    return {members: known[group.fingerprint] for members, group in instances.items()}


def _starts(
    instance: Instance, exchanges: Sequence[Exchange], plans: Mapping[tuple[int, ...], Plan], mirrors: Mapping[int, int]
) -> dict[int, IntArray]:
    """Per launch, when its stages start if its group runs alone, shape (chunks, stages).

    A gather that reverses a scatter runs like it, backwards in time.
    """
    starts, ends = {}, {}
    known: dict[int, Schedule] = {}
    for members, plan in plans.items():
        if id(plan) not in known:  # equal groups share their plan
            known[id(plan)] = simulate(_group(instance, exchanges, members), plan)
        schedule = known[id(plan)]
        for place, launch in enumerate(members):
            stages, shape = slice(*plan.offsets[place : place + 2]), plan.chunks[place].paths.shape
            starts[launch], ends[launch] = schedule.start[stages].reshape(shape), schedule.end[stages].reshape(shape)
    return starts | {gather: -ends[scatter][:, ::-1] for gather, scatter in mirrors.items()}


def _positions(
    instance: Instance, whole: Plan, groups: Iterable[tuple[int, ...]], starts: Mapping[int, IntArray]
) -> FloatArray:
    """Position of every stage among those of its group on its resource, by start.

    Starts of all dimensions are compared, so that no two resources make each other wait, shared ones included.
    """
    keys = np.zeros(whole.num_stages)
    start = np.concatenate([starts[launch].ravel() for launch in range(len(whole.chunks))])
    resources = whole.stage_resources(instance)
    for members in groups:
        stages = np.concatenate([np.arange(whole.offsets[n], whole.offsets[n + 1]) for n in members])
        ordered = stages[np.lexsort((whole.positions[stages], start[stages]))]
        for resource in range(instance.num_resources):
            served = ordered[resources[ordered] == resource]
            keys[served] = np.arange(len(served))
    return keys


def _one_group_after_another(instance: Instance, plan: Plan, keys: FloatArray) -> Plan:
    """The plan that enforces, per resource, the launches of one period in the order their events happen in it.

    At one event launches that wait for others come after them, urgent launches first, then one group after the other.
    """
    launch_of_stage = plan.launch_of_stage
    after = [launch.after or TaskOf(-1, 0) for launch in plan.launches]
    moment, shift, rest = (
        np.array(numbers, dtype=np.int64)[launch_of_stage]
        for numbers in (*zip(*after, strict=True), [not launch.urgent for launch in plan.launches])
    )
    depth = _depths(plan.launches)[launch_of_stage]
    group = np.zeros(len(plan.launches), dtype=np.int64)
    for number, members in enumerate(_groups(plan.launches)):
        group[list(members)] = number
    # The last key of a lexsort decides first; the number of the stage breaks the last ties.
    order = np.lexsort((np.arange(plan.num_stages), keys, group[launch_of_stage], rest, depth, moment))
    resources = plan.stage_resources(instance)[order]
    return plan.enforcing(tuple(order[resources == r] for r in range(instance.num_resources)), shift)


def _depths(launches: Sequence[Launch]) -> IntArray:
    """For each launch, how many launches of the same event stand one after the other before it."""
    depths = np.zeros(len(launches), dtype=np.int64)
    waits = {number: launch.after_launches for number, launch in enumerate(launches)}
    for number in TopologicalSorter(waits).static_order():
        same = [other for other in waits[number] if launches[other].after == launches[number].after]
        depths[number] = max((depths[other] + 1 for other in same), default=0)
    return depths

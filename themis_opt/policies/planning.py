"""From launches to a whole plan: a chunk policy is called for each group of launches that one event releases."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Launch, Order, Plan, TaskOf, fused, mirrored_launches

if TYPE_CHECKING:
    from themis_opt.schedules.schedule import Schedule

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


def in_stages(policy: AnyPolicy) -> Iterator[AnyPolicy]:
    """The policy, after its variant of equal chunks if sizes are free, which is planned sooner and may be the best."""
    if is_dataclass(policy) and not isinstance(policy, type) and getattr(policy, "plans_equal_sooner", False):
        yield replace(policy, sizes="equal")
    yield policy


class PlanningOnce:
    """A policy that plans equal instances once; `schedule` is that of its plan, simulated once too."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._plans: dict[str, Plan] = {}
        self._schedules: dict[str, Schedule] = {}

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`."""
        if instance.fingerprint not in self._plans:
            self._plans[instance.fingerprint] = self._policy(instance)
        return self._plans[instance.fingerprint]

    def schedule(self, instance: Instance) -> "Schedule":
        """The schedule of `instance`."""
        from themis_opt.schedules.simulator import simulate

        if instance.fingerprint not in self._schedules:
            self._schedules[instance.fingerprint] = simulate(instance, self(instance))
        return self._schedules[instance.fingerprint]


def plan_launches(
    instance: Instance,
    launches: Sequence[Launch],
    order: Order,
    chunk_policy: Policy,
    most_chunks: Sequence[int] | None = None,
) -> Plan:
    """The faster one of the plans of :func:`plans_of_launches`."""
    plans = plans_of_launches(instance, launches, order, chunk_policy, most_chunks)
    return fastest(instance, plans).plan if len(plans) > 1 else plans[0]


def plans_of_launches(
    instance: Instance,
    launches: Sequence[Launch],
    order: Order,
    chunk_policy: Policy,
    most_chunks: Sequence[int] | None = None,
) -> tuple[Plan, ...]:
    """Plan every launch with a policy for chunks, in at most so many chunks each.

    Launches released together are planned together, as one instance, within an equal part of the seconds that the
    policy may search.  Where the policy enforces sequences, there are two plans: they are priorities among the chunks
    of the group, or enforced group after group.
    """
    launches = tuple(launches)
    exchanges = fused(instance, launches) if most_chunks is None else in_few_chunks(instance, launches, most_chunks)
    groups = {
        members: _group(instance, tuple(exchanges[number] for number in members)) for members in _groups(launches)
    }
    once = chunk_policy
    if not isinstance(once, PlanningOnce):
        different = {group.fingerprint for group in groups.values()}
        once = PlanningOnce(within(chunk_policy, (seconds_of(chunk_policy) or math.inf) / len(different)))
    plans = {members: once(group) for members, group in groups.items()}
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
        return (whole,)
    alone = {members: once.schedule(group) for members, group in groups.items()}
    keys = _positions(instance, whole, plans, _starts(alone, mirrors))
    by_priority = replace(whole, keys=keys)
    return by_priority, _one_group_after_another(instance, by_priority, keys)


def fastest(instance: Instance, plans: Sequence[Plan]) -> "Schedule":
    """The schedule with the least makespan among those of some plans."""
    from themis_opt.schedules.simulator import simulate

    return min((simulate(instance, plan) for plan in plans), key=lambda schedule: schedule.makespan)


def _groups(launches: Sequence[Launch]) -> list[tuple[int, ...]]:
    """Launches that one event releases, in the order of their numbers."""
    groups: dict[object, list[int]] = {}
    for number, launch in enumerate(launches):
        groups.setdefault((launch.after, launch.after_launches), []).append(number)
    return [tuple(members) for members in groups.values()]


def in_few_chunks(instance: Instance, launches: Sequence[Launch], most: Sequence[int]) -> tuple[Exchange, ...]:
    """The collective operation of every launch, in at most so many chunks."""
    pairs = zip(fused(instance, tuple(launches)), most, strict=True)
    return tuple(replace(e, max_chunks=count) if count < e.max_chunks else e for e, count in pairs)


@lru_cache(maxsize=4096)
def _group(instance: Instance, exchanges: tuple[Exchange, ...]) -> Instance:
    return instance.group(exchanges)


def _starts(alone: "Mapping[tuple[int, ...], Schedule]", mirrors: Mapping[int, int]) -> dict[int, IntArray]:
    """Per launch, when its stages start if its group runs `alone`, shape (chunks, stages).

    A gather that reverses a scatter runs like it, backwards in time.
    """
    starts, ends = {}, {}
    for members, schedule in alone.items():
        plan = schedule.plan
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

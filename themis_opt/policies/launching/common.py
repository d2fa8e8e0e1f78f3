"""What launching policies share: buckets of tensors, and launches made of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field

from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Chunks, Launch, LaunchedPart, Order, Plan, TaskOf, default_launches, fixed_path

Bucket = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Launching:
    """What launching policies share: how dimensions choose among their launches.

    `order`: which launch a dimension serves first: the one ready first, the newest, or the one needed first.
    `urgent`: whether kinds whose rule says so, all-to-all, go before all others (Themis, ISCA 2022, section 5).
    `ahead`: how many gathers ahead of its use a gather is launched whose result is given up after it.
    """

    order: Order = "ready"
    urgent: bool = True
    ahead: Annotated[int, Field(ge=0)] = 1

    def __call__(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`."""
        launches = prefetched(instance, self.launches(instance), self.ahead)
        return launches if self.urgent else tuple(replace(launch, urgent=False) for launch in launches)

    def launches(self, instance: Instance) -> tuple[Launch, ...]:
        """Launches for `instance`, with those urgent that are by default."""
        raise NotImplementedError


def fusible(instance: Instance) -> list[Bucket]:
    """Data-parallel tensors needed in the next iteration, in one bucket per kind, span, element and needing stage.

    Others are left out, and so are those that wait for other tensors or are waited for, and those whose result is given
    up.  Within a bucket they stand in the order they become ready.
    """
    groups: dict[object, list[int]] = {}
    chained = {tensor for exchange in instance.exchanges for tensor in exchange.after}
    for number, tensor in enumerate(instance.exchanges):
        is_alone = tensor.after or number in chained or tensor.freed_task >= 0
        if tensor.parallelism == "data" and tensor.needed_later and not is_alone:
            key = (tensor.kind, tensor.span, tensor.element_bytes, instance.tasks[tensor.needed_task].stage)
            groups.setdefault(key, []).append(number)
    return [tuple(sorted(group, key=lambda t: (instance.exchanges[t].ready_task, t))) for group in groups.values()]


def has_buckets(instance: Instance) -> bool:
    """Whether gradients are reduced as DistributedDataParallel does, which has buckets."""
    return any(instance.exchanges[tensors[0]].kind is CollectiveKind.ALL_REDUCE for tensors in fusible(instance))


@lru_cache(maxsize=16)
def runs(instance: Instance) -> tuple[Bucket, ...]:
    """All data-parallel tensors in groups of which neighbours may be fused.

    Those of a group have the same kind, span and element, are made and needed in iterations equally far apart, and in
    the same stage.  Those that are given up after their use stand in the order they are needed, others in the order
    they become ready.
    """
    groups: dict[object, list[int]] = {}
    for number, tensor in enumerate(instance.exchanges):
        if tensor.parallelism == "data":
            stage = instance.tasks[tensor.needed_task].stage
            apart = tensor.needed_later, tensor.freed_task >= 0, bool(tensor.after)
            groups.setdefault((tensor.kind, tensor.span, tensor.element_bytes, stage, apart), []).append(number)

    def place(number: int) -> tuple[int, int]:
        tensor = instance.exchanges[number]
        return (tensor.needed_task if tensor.freed_task >= 0 else tensor.ready_task), number

    return tuple(tuple(sorted(group, key=place)) for group in groups.values())


def of_runs(instance: Instance, buckets: Iterable[Bucket]) -> list[Launch]:
    """One launch for each bucket of tensors, after one for each tensor that is in none of them.

    A launch waits for those that carry what its tensors come after.
    """
    buckets = tuple(buckets)
    fused = {tensor for bucket in buckets for tensor in bucket}
    alone = [(number,) for number in range(len(instance.exchanges)) if number not in fused]
    carrier = {tensor: place for place, bucket in enumerate((*alone, *buckets)) for tensor in bucket}
    launches = []
    for bucket in (*alone, *buckets):
        sources = {carrier[source] for tensor in bucket for source in instance.exchanges[tensor].after}
        launches.append(replace(whole(instance, bucket), after_launches=tuple(sorted(sources))))
    return launches


def may_fuse(instance: Instance, bucket: Bucket) -> bool:
    """Whether the last of some tensors is ready before the first of them is needed."""
    ready = max(instance.exchanges[tensor].ready_task for tensor in bucket)
    need = first_need(instance, bucket)
    return ready < need.task + need.later * len(instance.tasks)


def launches_alone(instance: Instance) -> list[Launch]:
    """One launch for each tensor that is not fusible, the first of all launches of a plan.

    These are model-parallel ones, those needed in the same iteration or given up after their use, and those that come
    one after the other.
    """
    buckets = fusible(instance)
    launches = of_runs(instance, buckets)
    return launches[: len(launches) - len(buckets)]


def prefetched(instance: Instance, launches: Sequence[Launch], ahead: int) -> tuple[Launch, ...]:
    """The launches, with gathers that are given up after their use launched later, where they may be.

    Each of a kind and span leaves when the task begins that needs the gather so many places before it; in the order of
    their use, round and round.
    """
    uses: dict[object, list[tuple[int, int]]] = {}
    for number, launch in enumerate(launches):
        exchange = instance.exchanges[launch.tensors[0]]
        if exchange.freed_task >= 0 and launch.before:
            uses.setdefault((exchange.kind, exchange.span), []).append((launch.before.task, number))
    moved = list(launches)
    for group in uses.values():
        ordered = sorted(group)
        for place, (task, number) in enumerate(ordered):
            rounds, earlier = divmod(place - ahead, len(ordered))
            distance = task - ordered[earlier][0] - rounds * len(instance.tasks)
            moved[number] = delayed(instance, launches[number], distance)
    return tuple(moved)


def delayed(instance: Instance, launch: Launch, distance: int) -> Launch:
    """A launch that leaves `distance` tasks before the one that waits for it, but no earlier than it may."""
    if launch.after is None or launch.before is None:
        return launch
    tasks = len(instance.tasks)
    begin = launch.before.task + tasks * launch.before.later - distance
    later, task = divmod(begin - 1, tasks)
    return replace(launch, after=max(launch.after, TaskOf(task, later), key=lambda of: (of.later, of.task)))


def grouped(
    instance: Instance, tensors: Iterable[int], begins: Callable[[list[list[int]], int, int], bool]
) -> list[Bucket]:
    """Tensors in buckets, in the order given.

    `begins`: whether a bucket begins, by the buckets so far, the bytes in the last one, and the next tensor.
    """
    buckets: list[list[int]] = []
    held = 0
    for tensor in tensors:
        if not buckets or begins(buckets, held, tensor):
            buckets.append([])
            held = 0
        buckets[-1].append(tensor)
        held += instance.exchanges[tensor].size
    return [tuple(bucket) for bucket in buckets]


def capped(instance: Instance, tensors: Iterable[int], cap: int, first_cap: int | None = None) -> list[Bucket]:
    """Tensors in buckets, in the order given; a bucket is closed once it holds `cap` bytes, the first `first_cap`."""
    first = cap if first_cap is None else first_cap
    return grouped(instance, tensors, lambda buckets, held, _: held >= (cap if buckets[1:] else first))


def whole(
    instance: Instance, tensors: Sequence[int], *, ready: int | None = None, before: TaskOf | None = None
) -> Launch:
    """One launch for some tensors, released by the task that makes the last of them, or by task `ready`.

    The first task that needs one of them waits for it, unless `before` says which.
    """
    exchanges = instance.exchanges
    if ready is None:
        ready = max(exchanges[t].ready_task for t in tensors)
    return Launch(
        name=fused_name(instance, tensors),
        kind=exchanges[tensors[0]].kind,
        tensors=tuple(tensors),
        after=TaskOf(ready, 0),
        before=before or first_need(instance, tensors),
        urgent=exchanges[tensors[0]].kind.rule.urgent,
    )


def fused_name(instance: Instance, tensors: Sequence[int], part: LaunchedPart = "whole") -> str:
    """The name of a launch: those of its first and last tensor, and which half it is."""
    names = dict.fromkeys(instance.exchanges[tensor].name for tensor in (tensors[0], tensors[-1]))
    return "+".join(names) + ("" if part == "whole" else f" {part}")


def first_need(instance: Instance, tensors: Sequence[int]) -> TaskOf:
    """The first task that needs one of some tensors."""
    later, task = min((instance.exchanges[t].needed_later, instance.exchanges[t].needed_task) for t in tensors)
    return TaskOf(task, later)


def next_iteration(instance: Instance, tensors: Sequence[int]) -> TaskOf:
    """The first task of the stage that needs some tensors, which ends the iteration where it waits for them."""
    stage = instance.tasks[instance.exchanges[tensors[0]].needed_task].stage
    return TaskOf(instance.chains[stage][0], 1)


@lru_cache(maxsize=16)
def times_alone(instance: Instance) -> tuple[float, ...]:
    """Picoseconds of every exchange alone on the network, in one chunk and the fixed order."""
    chunks = tuple(Chunks(np.array([e.size]), np.array([fixed_path(e)])) for e in instance.exchanges)
    plan = Plan(chunks, launches=default_launches(instance))
    costs = plan.costs(instance)
    return tuple(np.bincount(plan.launch_of_stage, costs.occupancy + costs.lag).tolist())

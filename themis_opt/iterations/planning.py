"""From launches to a whole plan: a chunk policy is called for each group of launches that one event releases."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from themis_opt.cost import FloatArray, IntArray
from themis_opt.instance import CollectiveKind, Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan, Launch, Order, stream_of
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.plan import Chunks, Plan
from themis_opt.policies.registry import Policy
from themis_opt.simulator import simulate


def planned(
    instance: IterationInstance, launches: Sequence[Launch], order: Order, chunk_policy: Policy
) -> IterationPlan:
    """Plan every launch with a policy for chunks.

    Launches released together are planned together, as one instance.  Where the policy enforces sequences, they
    are priorities among the chunks of the group, and, if that is faster, enforced group after group.
    """
    stream = stream_of(instance, launches)
    plans = _plans(stream, _groups(launches), chunk_policy)
    chunks = {launch: own for members, plan in plans.items() for launch, own in zip(members, plan.chunks, strict=True)}
    mirrors = _mirrors(instance, launches)
    for gather, scatter in mirrors.items():
        chunks[gather] = Chunks(chunks[scatter].sizes, chunks[scatter].paths[:, ::-1])
    whole = Plan(tuple(chunks[launch] for launch in range(len(launches))), next(iter(plans.values())).dispatch)
    if not any(plan.sequences for plan in plans.values()):
        return IterationPlan(tuple(launches), stream, whole, order)
    keys = _positions(instance, whole, plans, _starts(stream, plans, mirrors))
    by_priority = IterationPlan(tuple(launches), stream, whole, order, keys)
    in_turn = by_priority.enforcing(_one_group_after_another(instance, by_priority, keys))
    return fastest(instance, (by_priority, in_turn)).plan


def fastest(instance: IterationInstance, plans: Sequence[IterationPlan]) -> IterationSchedule:
    """The schedule with the least iteration time among those of some plans."""
    return min((simulate_iterations(instance, plan) for plan in plans), key=lambda s: s.iteration_time)


def _groups(launches: Sequence[Launch]) -> list[tuple[int, ...]]:
    """Launches that one event releases, in the order of their numbers."""
    groups: dict[object, list[int]] = {}
    for number, launch in enumerate(launches):
        groups.setdefault((launch.after, launch.after_launches), []).append(number)
    return [tuple(members) for members in groups.values()]


def _group(stream: Instance, members: Sequence[int]) -> Instance:
    return stream.replace(collectives=tuple(stream.collectives[number] for number in members))


def _plans(stream: Instance, groups: Sequence[tuple[int, ...]], chunk_policy: Policy) -> dict[tuple[int, ...], Plan]:
    """The plan of every group; equal groups are planned once."""
    found: dict[str, Plan] = {}
    plans = {}
    for members in groups:
        group = _group(stream, members)
        if group.fingerprint not in found:
            found[group.fingerprint] = chunk_policy(group)
        plans[members] = found[group.fingerprint]
    return plans


def _mirrors(instance: IterationInstance, launches: Sequence[Launch]) -> dict[int, int]:
    """Where gathers must reverse scatters, the scatter of every gather that is launched on its own."""
    if instance.ag_order == "free":
        return {}
    scatters = {launch.tensors: n for n, launch in enumerate(launches) if launch.part == "scatter"}
    return {n: scatters[launch.tensors] for n, launch in enumerate(launches) if launch.part == "gather"}


def _starts(stream: Instance, plans: Mapping[tuple[int, ...], Plan], mirrors: Mapping[int, int]) -> dict[int, IntArray]:
    """Per launch, when its stages start if its group runs alone, shape (chunks, stages).

    A gather that reverses a scatter runs like it, backwards in time.
    """
    starts, ends = {}, {}
    for members, plan in plans.items():
        schedule = simulate(_group(stream, members), plan)
        for place, launch in enumerate(members):
            own, shape = slice(*plan.offsets[place : place + 2]), plan.chunks[place].paths.shape
            starts[launch], ends[launch] = schedule.start[own].reshape(shape), schedule.end[own].reshape(shape)
    return starts | {gather: -ends[scatter][:, ::-1] for gather, scatter in mirrors.items()}


def _positions(
    instance: IterationInstance, whole: Plan, groups: Iterable[tuple[int, ...]], starts: Mapping[int, IntArray]
) -> FloatArray:
    """Position of every stage among those of its group on its resource, by start.

    Starts of all dimensions are compared, so that no two resources make each other wait, shared ones included.
    """
    keys = np.zeros(whole.num_stages)
    start = np.concatenate([starts[launch].ravel() for launch in range(len(whole.chunks))])
    place = np.concatenate([np.tile(np.arange(c.paths.shape[1]), len(c.paths)) for c in whole.chunks])
    resources = np.array(instance.resources)[whole.stage_dimensions]
    for members in groups:
        stages = np.concatenate([np.arange(whole.offsets[n], whole.offsets[n + 1]) for n in members])
        ordered = stages[np.lexsort((place[stages], start[stages]))]
        for resource in range(instance.num_resources):
            own = ordered[resources[ordered] == resource]
            keys[own] = np.arange(len(own))
    return keys


def _one_group_after_another(
    instance: IterationInstance, plan: IterationPlan, keys: FloatArray
) -> tuple[IntArray, ...]:
    """Per resource, the stages of one period: launches in the order their events happen in it."""
    moment = np.array([launch.after.task for launch in plan.launches], dtype=np.float64)
    urgent = np.array([launch.kind is not CollectiveKind.ALL_TO_ALL for launch in plan.launches])
    later = np.array([launch.after.later for launch in plan.launches])
    own = plan.launch_of_stage
    group = np.zeros(len(plan.launches))
    for number, members in enumerate(_groups(plan.launches)):
        group[list(members)] = number
    order = np.lexsort((np.arange(len(own)), keys, group[own], urgent[own], moment[own]))
    resources = np.array(instance.resources)[plan.chunks.stage_dimensions[order]]
    pairs = np.stack([order, later[own[order]]], axis=1)
    return tuple(pairs[resources == r] for r in range(instance.num_resources))

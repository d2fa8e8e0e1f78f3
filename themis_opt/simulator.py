"""Simulation: exact times of a plan, on one clock for all collectives and policies."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from themis_opt.cost import FloatArray, IntArray, StageCosts, check_clock, path_costs, read_only
from themis_opt.dispatch import DISPATCH, PriorityKeys
from themis_opt.errors import CyclicPlan, InputError
from themis_opt.instance import Instance
from themis_opt.kernel import Operations, start_times, start_times_of_runs
from themis_opt.plan import Plan
from themis_opt.schedule import Schedule


def simulate(instance: Instance, plan: Plan) -> Schedule:
    """Run a plan.

    Raises
    ------
    CyclicPlan
        If enforced sequences and paths wait for each other.
    InputError
        If a sequence is no ordering of the stages of its dimension, or the clock is too small.
    """
    _check_clock_once(instance)
    costs = plan.costs(instance)
    operations = build_operations(instance, plan, costs)
    start = start_times(operations)
    if start.min() < 0:
        raise CyclicPlan(_describe_cycle(instance, plan, operations, start), field="sequences")
    end = start + costs.occupancy
    return Schedule(instance, plan, start, end, end + costs.lag)


STAGES_TOGETHER = 2**13
"""Stages of all plans simulated in one call of the kernel: larger arrays leave the processor's cache, and their memory
goes back to the system and is cleared by it at every call."""


def makespans(instance: Instance, plans: Sequence[Plan]) -> IntArray:
    """Makespans of many plans, as :func:`simulate` finds them; faster than one by one where they are alike.

    Parameters
    ----------
    plans : sequence of Plan
        Those with the same numbers of chunks and the same dispatch rule are simulated together.

    Returns
    -------
    int64 array, shape (plans,)
        Picoseconds.

    Raises
    ------
    CyclicPlan, InputError
        As :func:`simulate`.
    """
    _check_clock_once(instance)
    alike: dict[Any, list[int]] = {}
    for number, plan in enumerate(plans):
        alike.setdefault((plan.dispatch, tuple(c.paths.shape for c in plan.chunks)), []).append(number)
    found = np.zeros(len(plans), dtype=np.int64)
    for members in alike.values():
        together = max(1, STAGES_TOGETHER // plans[members[0]].num_stages)
        for first in range(0, len(members), together):
            block = members[first : first + together]
            found[block] = _makespans_of_alike(instance, [plans[number] for number in block])
    return found


def _makespans_of_alike(instance: Instance, plans: Sequence[Plan]) -> IntArray:
    runs, one = len(plans), plans[0]
    resource, costs = _stages_of_alike(instance, plans)
    shapes = tuple(c.paths.shape for c in one.chunks)
    chains = _chains(shapes)
    keys = DISPATCH[one.dispatch](costs, _last_of_chunk(shapes, runs))
    major, enforced = _enforced_of_alike(instance, plans, keys)
    operations = Operations(
        resource=resource,
        duration=costs.occupancy,
        lag=costs.lag,
        release=one.releases(instance),
        successor_start=chains.successor_start,
        successor=chains.successor,
        num_predecessors=chains.num_predecessors,
        major=major,
        minor=keys.minor,
        time_sign=np.full(len(resource), keys.time_sign),
        enforced=enforced,
    )
    start = start_times_of_runs(operations, runs)
    for stuck in np.flatnonzero(start.min(axis=1) < 0).tolist():
        simulate(instance, plans[stuck])  # raises, naming the cycle
    found: IntArray = (start + (costs.occupancy + costs.lag).reshape(runs, -1)).max(axis=1)
    return found


def _stages_of_alike(instance: Instance, plans: Sequence[Plan]) -> tuple[IntArray, StageCosts]:
    """Dimensions and costs of all stages of all plans, one plan after the other."""
    per_collective = []
    for number, collective in enumerate(instance.collectives):
        sizes = np.concatenate([plan.chunks[number].sizes for plan in plans])
        paths = np.concatenate([plan.chunks[number].paths for plan in plans])
        arrays = (paths, *path_costs(instance, collective, sizes, paths))
        per_collective.append([array.reshape(len(plans), -1) for array in arrays])
    several = len(per_collective) > 1  # a single array is not worth a copy
    joined = (np.concatenate(own, axis=1) if several else own[0] for own in zip(*per_collective, strict=True))
    resource, *costs = (array.ravel() for array in joined)
    return resource, StageCosts(*costs)


def _enforced_of_alike(instance: Instance, plans: Sequence[Plan], keys: PriorityKeys) -> tuple[FloatArray, np.ndarray]:
    """:func:`_enforced` for all plans, one after the other."""
    if not any(plan.sequences for plan in plans):
        return keys.major, np.zeros(len(plans) * len(instance.network.dimensions), dtype=np.bool_)
    majors = keys.major.reshape(len(plans), -1)
    each = [_enforced(instance, plan, major) for plan, major in zip(plans, majors, strict=True)]
    return np.concatenate([major for major, _ in each]), np.concatenate([flags for _, flags in each])


@lru_cache(maxsize=256)
def _check_clock_once(instance: Instance) -> None:
    check_clock(instance)


class _Chains(NamedTuple):
    """The precedence of stages along the paths of chunks; arrays as in :class:`themis_opt.kernel.Operations`.

    `first` and `last` number the first and the last stage of every chunk, `last_of_chunk` repeats the latter for
    every stage.
    """

    first: IntArray
    last: IntArray
    last_of_chunk: IntArray
    successor_start: IntArray
    successor: IntArray
    num_predecessors: IntArray


@lru_cache(maxsize=256)
def _chains(shapes: tuple[tuple[int, ...], ...]) -> _Chains:
    """Chains for the shapes (chunks, stages) of all collectives."""
    stages = np.concatenate([np.full(chunks, length) for chunks, length in shapes])
    last = np.cumsum(stages) - 1
    first = last + 1 - stages
    count = int(last[-1]) + 1
    continues, num_predecessors = np.ones(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    continues[last] = 0
    num_predecessors[first] = 0
    successor_start = np.concatenate([[0], np.cumsum(continues)])
    successor = np.flatnonzero(continues) + 1
    arrays = (first, last, np.repeat(last, stages), successor_start, successor, num_predecessors)
    return _Chains(*(read_only(array) for array in arrays))


@lru_cache(maxsize=16)
def _last_of_chunk(shapes: tuple[tuple[int, ...], ...], runs: int) -> IntArray:
    """The last stage of the chunk of every stage, for several runs one after the other."""
    last = _chains(shapes).last_of_chunk
    return read_only((last + np.arange(runs)[:, None] * len(last)).ravel())


def build_operations(instance: Instance, plan: Plan, costs: StageCosts) -> Operations:
    """The plan as the kernel sees it: one operation per stage, one resource per dimension."""
    chains = _chains(tuple(c.paths.shape for c in plan.chunks))
    keys = DISPATCH[plan.dispatch](costs, chains.last_of_chunk)
    major, enforced = _enforced(instance, plan, keys.major)
    return Operations(
        resource=plan.stage_dimensions,
        duration=costs.occupancy,
        lag=costs.lag,
        release=plan.releases(instance),
        successor_start=chains.successor_start,
        successor=chains.successor,
        num_predecessors=chains.num_predecessors,
        major=major,
        minor=keys.minor,
        time_sign=np.full(plan.num_stages, keys.time_sign),
        enforced=enforced,
    )


def _enforced(instance: Instance, plan: Plan, major: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """Major keys with the position in the sequence where one is enforced, and where that is."""
    num_dimensions = len(instance.network.dimensions)
    enforced = np.zeros(num_dimensions, dtype=np.bool_)
    if not plan.sequences:
        return major, enforced
    if len(plan.sequences) != num_dimensions:
        raise InputError(f"must have one entry per dimension ({num_dimensions})", field="sequences")
    major = major.copy()
    for k, sequence in enumerate(plan.sequences):
        if sequence is not None:
            _check_sequence(instance, plan, k, sequence)
            major[sequence] = np.arange(len(sequence))
            enforced[k] = True
    return major, enforced


def _check_sequence(instance: Instance, plan: Plan, dimension: int, sequence: IntArray) -> None:
    expected = np.flatnonzero(plan.stage_dimensions == dimension)
    if sequence.shape != expected.shape or (np.sort(sequence) != expected).any():
        name = instance.network.dimension_names[dimension]
        raise InputError(f"must list each of the {len(expected)} stages on {name} once", field=f"sequences.{name}")


def _describe_cycle(instance: Instance, plan: Plan, operations: Operations, start: IntArray) -> str:
    """Name stages that wait for each other: each stuck stage waits for its chunk or its sequence."""
    firsts = set(_chains(tuple(c.paths.shape for c in plan.chunks)).first.tolist())
    waits_for: dict[int, int] = {}
    before = {int(b): int(a) for s in plan.sequences if s is not None for a, b in pairwise(s)}
    stuck = set(np.flatnonzero(start < 0).tolist())
    for stage in stuck:
        own = stage - 1 if stage not in firsts else -1
        waits_for[stage] = own if own in stuck else before[stage]
    return "stages wait for each other: " + " <- ".join(plan.label(instance, s) for s in _cycle(waits_for, min(stuck)))


def _cycle(waits_for: dict[int, int], stage: int) -> list[int]:
    seen: list[int] = []
    while stage not in seen:
        seen.append(stage)
        stage = waits_for[stage]
    return [*seen[seen.index(stage) :], stage]

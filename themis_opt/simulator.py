"""Simulation: exact times of a plan, on one clock for all collectives and policies."""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from themis_opt.cost import IntArray, StageCosts, check_clock, read_only
from themis_opt.dispatch import DISPATCH, PriorityKeys
from themis_opt.errors import CyclicPlan, InputError
from themis_opt.instance import Instance
from themis_opt.kernel import Operations, start_times
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


def build_operations(instance: Instance, plan: Plan, costs: StageCosts) -> Operations:
    """The plan as the kernel sees it: one operation per stage, one resource per dimension."""
    chains = _chains(tuple(c.paths.shape for c in plan.chunks))
    keys = DISPATCH[plan.dispatch](costs, chains.last_of_chunk)
    major, enforced = _enforced(instance, plan, keys)
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


def _enforced(instance: Instance, plan: Plan, keys: PriorityKeys) -> tuple[np.ndarray, np.ndarray]:
    """Major keys with the position in the sequence where one is enforced, and where that is."""
    num_dimensions = len(instance.network.dimensions)
    enforced = np.zeros(num_dimensions, dtype=np.bool_)
    if not plan.sequences:
        return keys.major, enforced
    if len(plan.sequences) != num_dimensions:
        raise InputError(f"must have one entry per dimension ({num_dimensions})", field="sequences")
    major = keys.major.copy()
    for k, sequence in enumerate(plan.sequences):
        if sequence is not None:
            _check_sequence(instance, plan, k, sequence)
            major[sequence] = np.arange(len(sequence))
            enforced[k] = True
    return major, enforced


def _check_sequence(instance: Instance, plan: Plan, dimension: int, sequence: IntArray) -> None:
    expected = np.flatnonzero(plan.stage_dimensions == dimension)
    if not np.array_equal(np.sort(sequence), expected):
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

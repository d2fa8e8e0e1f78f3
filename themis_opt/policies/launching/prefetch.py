"""Gathers that are launched as early as memory allows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from themis_opt.base.arrays import IntArray, read_only
from themis_opt.policies.launching.common import times_alone
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Launch, TaskOf


def as_early_as_fits(
    instance: Instance, launches: Sequence[Launch], budget: int, *, in_order: bool = True
) -> tuple[Launch, ...]:
    """Gathers that are given up after their use, launched as early as what they hold together stays below a budget.

    In the order of their use, each takes what room is left to it.
    Memory is counted by tasks, round and round: a gather is held in every task from its launch to the last of its uses.
    A gather that does not fit is launched when it is needed.

    `budget`: bytes that an NPU holds at most, with all the rest (:func:`held_besides`).
    `in_order`: whether none leaves before the one used before it.
    """
    moved, held, before = list(launches), held_besides(instance).copy(), -1
    uses = sorted((moment_of(instance, launches[number].before), number) for number in temporary(instance, launches))
    for need, number in uses:
        exchanges = [instance.exchanges[tensor] for tensor in launches[number].tensors]
        freed = 1 + max(exchange.freed_task + exchange.freed_later * len(held) for exchange in exchanges)
        held[_tasks(instance, need, freed)] += size_of(instance, launches[number])
    for need, number in uses:
        launch, size = launches[number], size_of(instance, launches[number])
        earliest = max(before if in_order else -1, moment_of(instance, launch.after) + 1)
        room = held[np.arange(need - 1, earliest - 1, -1) % len(held)] + size <= budget
        begin = need - int(np.argmin(np.append(room, False)))
        held[_tasks(instance, begin, need)] += size
        later, task = divmod(begin - 1, len(held))
        moved[number] = replace(launch, after=TaskOf(task, later))
        before = begin
    return tuple(moved)


UNDER_WAY = 2.0  # times alone that gradients take to be scattered, beside other collectives


@lru_cache(maxsize=16)
def held_besides(instance: Instance) -> IntArray:
    """Bytes that an NPU is likely to hold in every task besides gathers, see :mod:`themis_opt.schedules.memory`."""
    tasks = instance.tasks
    held = instance.parameter_bytes + activations(instance)
    ends = np.cumsum([task.duration for task in tasks])
    for exchange, time in zip(instance.exchanges, times_alone(instance), strict=True):
        if exchange.kind is CollectiveKind.REDUCE_SCATTER:
            arrival = int(np.searchsorted(ends, ends[exchange.ready_task] + UNDER_WAY * time))
            need = exchange.needed_task + len(tasks) * exchange.needed_later
            held[_tasks(instance, exchange.ready_task, max(min(arrival + 1, need), exchange.ready_task + 1))] += (
                exchange.size
            )
    return read_only(held)


def temporary(instance: Instance, launches: Sequence[Launch]) -> list[int]:
    """Numbers of the launches whose results are given up after their use."""
    return [n for n, launch in enumerate(launches) if instance.exchanges[launch.tensors[0]].freed_task >= 0]


def activations(instance: Instance) -> IntArray:
    """Bytes of activations that an NPU holds in every task."""
    tasks = instance.tasks
    held = np.zeros(len(tasks), dtype=np.int64)
    for number, task in enumerate(tasks):
        freed = number if task.freed_after is None else instance.task_index[task.freed_after]
        held[_tasks(instance, number, freed + 1 + len(tasks) * (freed < number))] += task.activation_bytes
    return held


SHARES = (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1)
"""Of the memory that gathers could take, what is tried: how long gradients stay is known after the simulation alone."""


def budgets(instance: Instance, near: int = 0) -> Iterator[int]:
    """Bytes that an NPU may hold: what the instance allows, or all that could be held at once; then less and less.

    `near`: amounts a little above and below this one instead.  Without gathers that are given up it is 0.
    """
    gathers = [exchange.size for exchange in instance.exchanges if exchange.freed_task >= 0]
    if not gathers:
        yield from () if near else (0,)
        return
    least = int(held_besides(instance).max())
    most = least + sum(gathers) if instance.memory is None else instance.memory
    room = max(most - least, 0)
    amounts = [near - room // 20, near + room // 40] if near else [least + int(room * share) for share in SHARES]
    allowed = list(dict.fromkeys(amount for amount in amounts if 0 < amount <= most))
    yield from allowed if allowed or near else [most]


def moment_of(instance: Instance, task: TaskOf | None) -> int:
    """A task, counted on from those of the iteration of a launch; -1 for none."""
    return -1 if task is None else task.task + task.later * len(instance.tasks)


def size_of(instance: Instance, launch: Launch) -> int:
    """Bytes of all tensors of a launch."""
    return sum(instance.exchanges[tensor].size for tensor in launch.tensors)


def _tasks(instance: Instance, begin: int, end: int) -> IntArray:
    """Tasks from one to before another, each once."""
    return np.arange(begin, min(end, begin + len(instance.tasks))) % len(instance.tasks)

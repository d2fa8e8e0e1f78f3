"""Size profiles: plans of policies with chunks that are not equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.simulator import simulate

if TYPE_CHECKING:
    from themis_opt.base.arrays import IntArray
    from themis_opt.policies.registry import Policy
    from themis_opt.problem.exchanges import Exchange
    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.schedule import Schedule


def equal(instance: Instance, policy: Policy, ratio: int) -> Schedule:
    """Chunks that differ by at most one element."""
    return simulate(instance, policy(instance))


def ramp(instance: Instance, policy: Policy, ratio: int) -> Schedule:
    """Small chunks first and last, `ratio` times larger ones between: dimensions begin sooner and end together."""
    return simulate(
        instance, planned(instance, policy, [ramp_sizes(exchange, ratio) for exchange in instance.exchanges])
    )


def free(instance: Instance, policy: Policy, ratio: int) -> Schedule:
    """The sizes that suit the schedule of equal chunks best (:func:`themis_opt.solving.sizing.resized`)."""
    from themis_opt.solving.sizing import resized

    schedule = equal(instance, policy, ratio)
    for _ in range(4):  # chunks that one programme drops no longer cost the next one anything
        sized = resized(schedule)
        if sized.makespan >= schedule.makespan:
            break
        schedule = sized
    return schedule


PROFILES: Mapping[str, Callable[[Instance, Policy, int], Schedule]] = {"equal": equal, "ramp": ramp, "free": free}
"""From an instance, a policy and the ratio of a ramp to a schedule, by name."""


def ramp_sizes(collective: Exchange, ratio: int) -> IntArray:
    """Sizes that grow geometrically at the start and shrink alike at the end, shape (chunks,) at most.

    `ratio`: size of the middle chunks over the size of the first and the last.
    """
    from themis_opt.solving.sizing import rounded

    number = np.arange(collective.chunks)
    from_end = np.minimum(number, number[::-1])
    climbed = np.minimum(from_end / max(1.0, collective.chunks / 4), 1.0)  # a quarter rises, a quarter falls
    sizes = rounded(float(ratio) ** climbed, collective.size, collective.element_bytes)
    return sizes[sizes > 0]


def planned(instance: Instance, policy: Policy, sizes: Sequence[IntArray]) -> Plan:
    """The plan of a policy for chunks of given sizes, one array per collective.

    The policy sees every chunk as a separate collective that is released with the others.
    """
    alone = tuple(
        collective.replace(size=size, chunks=1, name=f"{exchange.name} chunk {number}")
        for collective, exchange, chunk_sizes in zip(instance.collectives, instance.exchanges, sizes, strict=True)
        for number, size in enumerate(chunk_sizes.tolist())
    )
    plan = policy(instance.replace(collectives=alone))
    ends = np.cumsum([len(group_sizes) for group_sizes in sizes])
    groups = (plan.chunks[end - len(group_sizes) : end] for group_sizes, end in zip(sizes, ends, strict=True))
    chunks = tuple(
        Chunks(group_sizes, np.concatenate([part.paths for part in group]))
        for group_sizes, group in zip(sizes, groups, strict=True)
    )
    return Plan(chunks, plan.dispatch, plan.sequences)

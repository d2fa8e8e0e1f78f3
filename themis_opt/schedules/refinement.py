"""Plans of many chunks made from plans of few.

In a refined plan every chunk is split in consecutive parts that keep its path, and every sequence serves the parts
where it served the chunk.  Where stages cost no more than their bytes (lagging latency, no launch overhead, no packet
headers) the makespan does not grow, but for picoseconds of rounding: each part is ready when the whole would have been,
or before.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule


def refined(plan: Plan, instance: Instance, counts: Sequence[IntArray]) -> Plan:
    """Put equal chunks in the place of the chunks of an enforced plan.

    `plan`: with a sequence for every dimension.
    `instance`: same network and collectives, other chunk counts.
    `counts`, shape (chunks of the plan,): per collective, how many equal chunks take the place of each; they sum to the
      chunks of `instance`.
    """
    chunks, parts = [], []
    first = 0
    for coarse, exchange, counts_of_launch in zip(plan.chunks, plan.launched(instance), counts, strict=True):
        parent = np.repeat(np.arange(len(coarse.sizes)), counts_of_launch)
        chunks.append(Chunks(equal_sizes(exchange), coarse.paths[parent]))
        parts += _parts_of_stages(parent, coarse.paths.shape, first)
        first += exchange.chunks * coarse.paths.shape[1]
    nothing = np.zeros(0, dtype=np.int64)
    sequences = tuple(np.concatenate([nothing, *(parts[stage] for stage in _enforced(s))]) for s in plan.sequences)
    shifts = np.zeros(first, dtype=np.int64)
    for stages, shift in zip(parts, plan.shifts.tolist(), strict=False):  # all 0 where the plan has none
        shifts[stages] = shift
    kept = shifts if len(plan.shifts) else plan.shifts
    return replace(plan, chunks=tuple(chunks), keys=None, sequences=sequences, shifts=kept)


def even_counts(schedule: Schedule, instance: Instance) -> list[IntArray]:
    """Counts for :func:`refined` that differ by at most one within each collective."""
    return [
        np.diff(np.arange(len(chunks.sizes) + 1) * exchange.chunks // len(chunks.sizes))
        for chunks, exchange in zip(schedule.plan.chunks, schedule.plan.launched(instance), strict=True)
    ]


def _parts_of_stages(parent: IntArray, shape: tuple[int, ...], first: int) -> list[IntArray]:
    """Per stage of the coarse chunks, the numbers of the stages of its parts."""
    num_chunks, num_stages = shape
    starts = first + np.arange(len(parent)) * num_stages
    members = np.split(starts, np.searchsorted(parent, np.arange(1, num_chunks)))
    return [members[chunk] + position for chunk in range(num_chunks) for position in range(num_stages)]


def _enforced(sequence: IntArray | None) -> list[int]:
    if sequence is None:
        raise ValueError("only an enforced plan can be refined")
    stages: list[int] = sequence.tolist()
    return stages

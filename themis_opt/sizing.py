"""Free chunk sizes: the sizes that suit a schedule best, in whole elements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.chunk_sizes import SizingData, best_shares
from themis_opt.cost import FloatArray, IntArray, fixed_occupancy, transfer_time
from themis_opt.instance import Instance
from themis_opt.plan import Chunks, Plan
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate


def resized(schedule: Schedule) -> Schedule:
    """The same paths and sequences with the best chunk sizes (:mod:`formulations.chunk_sizes`).

    Sizes are whole multiples of :func:`granule`; chunks that end with nothing are dropped.  The schedule itself is
    returned where rounding leaves no gain, or the solver gives up.
    """
    try:
        shares = best_shares(_sizing_data(schedule))
    except ArithmeticError:
        return schedule
    found = simulate(schedule.instance, _with_shares(schedule, shares))
    return min(schedule, found, key=lambda s: s.makespan)


def granule(instance: Instance, number: int) -> int:
    """Bytes that free chunk sizes of a collective are multiples of: one element for every NPU it spans."""
    collective = instance.collectives[number]
    npus = math.prod(instance.network.sizes[k] for k in instance.spans[number])
    whole = npus * collective.element_bytes
    return whole if collective.size % whole == 0 else collective.element_bytes


@dataclass(frozen=True)
class AffineTimes:
    """How the holding times of a plan's stages depend on the shares that its chunks have of their collectives.

    Attributes
    ----------
    rate, fixed : float64 arrays, shape (stages,)
        Picoseconds for the whole collective, and whatever the share.
    chunk : int64 array, shape (stages,)
        Chunk of each stage, numbered through.
    group : int64 array, shape (chunks,)
        Collective of each chunk.
    """

    rate: FloatArray
    fixed: FloatArray
    chunk: IntArray
    group: IntArray


def affine_times(instance: Instance, plan: Plan, sent: FloatArray) -> AffineTimes:
    """Holding times without the rounding to whole packets and picoseconds, from the bytes that each stage sends."""
    counts = np.array([c.paths.shape[1] for c in plan.chunks for _ in c.sizes])
    chunk = np.repeat(np.arange(len(counts)), counts)
    group = np.repeat(np.arange(len(plan.chunks)), [len(c.sizes) for c in plan.chunks])
    totals = np.array([c.size for c in instance.collectives], dtype=np.float64)
    own = np.concatenate([c.sizes for c in plan.chunks])[chunk]
    transfer = transfer_time(instance, plan.stage_dimensions, sent, whole_packets=False)
    fixed = fixed_occupancy(instance, plan.phases(instance), plan.stage_dimensions)
    return AffineTimes(transfer / own * totals[group[chunk]], fixed.astype(np.float64), chunk, group)


def _sizing_data(schedule: Schedule) -> SizingData:
    instance, plan = schedule.instance, schedule.plan
    times = affine_times(instance, plan, schedule.costs.sent)
    follows = np.flatnonzero(times.chunk[1:] == times.chunk[:-1])
    orders = [schedule.sequence(k) for k in range(len(instance.network.dimensions))]
    return SizingData(
        rate=times.rate,
        fixed=times.fixed,
        lag=schedule.costs.lag.astype(np.float64),
        release=plan.releases(instance).astype(np.float64),
        job=times.chunk,
        group=times.group,
        results=np.stack([follows, follows + 1], axis=1),
        sequences=np.concatenate([np.stack([order[:-1], order[1:]], axis=1) for order in orders]),
    )


def _with_shares(schedule: Schedule, shares: FloatArray) -> Plan:
    instance = schedule.instance
    sizes = [
        rounded(part, instance.collectives[number].size, granule(instance, number))
        for number, part in enumerate(np.split(shares, _first_chunks(schedule)))
    ]
    return with_sizes(schedule.enforced_plan(), sizes)


def with_sizes(plan: Plan, sizes: Sequence[IntArray]) -> Plan:
    """The chunks of an enforced plan in other sizes, one array per collective; those that get nothing are dropped."""
    keep = [own > 0 for own in sizes]
    chunks = tuple(Chunks(s[k], c.paths[k]) for s, k, c in zip(sizes, keep, plan.chunks, strict=True))
    alive = np.concatenate([np.repeat(k, c.paths.shape[1]) for k, c in zip(keep, plan.chunks, strict=True)])
    number = np.cumsum(alive) - 1
    return Plan(chunks, plan.dispatch, tuple(number[s[alive[s]]] for s in plan.sequences if s is not None))


def _first_chunks(schedule: Schedule) -> IntArray:
    """Where the chunks of the second and later collectives begin, counted over all chunks."""
    return np.cumsum([len(c.sizes) for c in schedule.plan.chunks])[:-1]


def rounded(shares: FloatArray, total: int, unit: int) -> IntArray:
    """Sizes that sum to `total`, in multiples of `unit`, nearest to the shares (largest remainders first)."""
    units = total // unit
    exact = shares / shares.sum() * units
    sizes = np.floor(exact).astype(np.int64)
    missing = units - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:missing]] += 1
    whole: IntArray = sizes * unit
    return whole

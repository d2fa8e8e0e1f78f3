r"""The cost model: bytes, occupation and lag of every stage.  Pure functions.

A chunk of :math:`m` bytes (counted like the size of its collective) that is scattered over the set
:math:`W` of dimensions holds :math:`m / \prod_{l \in W} P_l` bytes.  A reduce-scatter on :math:`k` moves it
from :math:`W \setminus k` to :math:`W`, an all-gather back, and either sends

.. math:: n = m \, (P_k - 1) \,/ \prod_{l \in W} P_l .

An all-to-all on :math:`k` sends :math:`m (P_k - 1) / P_k` whatever came before (Themis, ISCA 2022, section 2).
With in-network reduction an NPU sends what it holds, once: before the stage, in reduce-scatter and all-gather.
Bytes come from the set, in one product and one division, so equal states have equal bytes to the last bit.

The stage occupies its dimension for :math:`n / B_k`, plus the launch overhead, and its result is ready
:math:`A_k` = steps :math:`\times` latency later.  With ``latency: occupy`` the dimension is held for
:math:`A_k` too.  Occupations are rounded up to whole picoseconds: data are never ready before they arrived.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from themis_opt.errors import InputError
from themis_opt.instance import Algorithm, Collective, CollectiveKind, Dimension, Instance
from themis_opt.units import MAX_CLOCK, PICOSECONDS_PER_SECOND

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_ROUNDING_SLACK = 1e-12
"""Fraction of a time forgiven before rounding up, against noise of the floating-point division."""


def read_only(array: IntArray) -> IntArray:
    """A view of the array that cannot be written through."""
    view = array.view()
    view.setflags(write=False)
    return view


class Phase(IntEnum):
    """What a stage does on its dimension."""

    REDUCE_SCATTER = 0
    ALL_GATHER = 1
    ALL_TO_ALL = 2


PHASES: dict[CollectiveKind, tuple[Phase, ...]] = {
    CollectiveKind.ALL_REDUCE: (Phase.REDUCE_SCATTER, Phase.ALL_GATHER),
    CollectiveKind.REDUCE_SCATTER: (Phase.REDUCE_SCATTER,),
    CollectiveKind.ALL_GATHER: (Phase.ALL_GATHER,),
    CollectiveKind.ALL_TO_ALL: (Phase.ALL_TO_ALL,),
}
"""The phases of each collective, in order; a chunk visits every dimension of its collective once in each."""


class StageCosts(NamedTuple):
    """Costs of stages, as arrays of one shape.

    Attributes
    ----------
    held_before, held_after : float64
        Bytes of the chunk on an NPU before and after the stage.
    sent : float64
        Bytes an NPU sends, after compression and without packet headers.
    occupancy : int64
        Picoseconds for which the dimension is held.
    lag : int64
        Picoseconds from the release of the dimension to the result.
    """

    held_before: FloatArray
    held_after: FloatArray
    sent: FloatArray
    occupancy: IntArray
    lag: IntArray


def steps(dimension: Dimension, phase: Phase) -> int:
    """Steps of the basic algorithm.

    Ring P-1, direct 1, halving-doubling ceil(log2 P): for sizes that are no power of two the algorithm of
    Bruck et al. (1997, https://doi.org/10.1109/71.642949), which sends the same bytes in that many steps.
    All-to-all takes 1 step, on a ring P-1; in-network reduction and multicast take 1.
    """
    algorithm = dimension.basic_algorithm
    if dimension.in_network and phase is not Phase.ALL_TO_ALL:
        return 1
    if algorithm is Algorithm.RING:
        return dimension.size - 1
    if algorithm is Algorithm.DIRECT or phase is Phase.ALL_TO_ALL:
        return 1
    return math.ceil(math.log2(dimension.size))


@dataclass(frozen=True, eq=False)
class _Rates:
    """What the formulas need of each dimension: shapes (dimensions,) and (phases, dimensions)."""

    size: IntArray
    picoseconds_per_byte: FloatArray
    payload: FloatArray
    header: FloatArray
    has_headers: bool
    shares_sent: FloatArray
    fixed_occupancy: IntArray
    fixed_lag: IntArray


@lru_cache(maxsize=256)
def _rates(instance: Instance) -> _Rates:
    dimensions = instance.network.dimensions
    delay = np.array([[steps(d, phase) * d.latency for d in dimensions] for phase in Phase])
    launch = np.array([d.launch_overhead for d in dimensions])
    occupies = instance.latency == "occupy"
    return _Rates(
        size=np.array(instance.network.sizes),
        picoseconds_per_byte=PICOSECONDS_PER_SECOND / np.array(instance.network.bandwidths),
        payload=np.array([d.packet.payload if d.packet else math.inf for d in dimensions]),
        header=np.array([d.packet.header if d.packet else 0.0 for d in dimensions]),
        has_headers=any(d.packet and d.packet.header for d in dimensions),
        shares_sent=np.array([[_shares_sent(d, phase) for d in dimensions] for phase in Phase]),
        fixed_occupancy=launch + occupies * delay,
        fixed_lag=(not occupies) * delay,
    )


def _shares_sent(dimension: Dimension, phase: Phase) -> float:
    """Blocks of 1/P of the larger side of the stage that an NPU sends, after compression."""
    if not dimension.in_network or phase is Phase.ALL_TO_ALL:
        return (dimension.size - 1) / dimension.compression
    return (dimension.size if phase is Phase.REDUCE_SCATTER else 1) / dimension.compression


def _at(table: Any, phase: Phase | IntArray, dimension: int | IntArray) -> Any:
    """What a table of shape (phases, dimensions) holds; faster than indexing it with arrays."""
    return table.take(phase * table.shape[1] + dimension)


def fixed_lag(instance: Instance, phase: Phase | IntArray, dimension: int | IntArray) -> IntArray:
    """Picoseconds from the release of a dimension to the result of a stage."""
    lag: IntArray = _at(_rates(instance).fixed_lag, phase, dimension)
    return lag


def fixed_occupancy(instance: Instance, phase: Phase | IntArray, dimension: int | IntArray) -> IntArray:
    """Picoseconds for which a stage holds its dimension whatever it sends."""
    held: IntArray = _at(_rates(instance).fixed_occupancy, phase, dimension)
    return held


def bytes_sent(
    instance: Instance,
    phase: Phase | IntArray,
    dimension: int | IntArray,
    size: FloatArray,
    scattered: IntArray,
) -> FloatArray:
    """Bytes an NPU sends in a stage, after compression.

    Parameters
    ----------
    size : float64 array
        Chunk bytes.
    scattered : int64 array
        Product of the sizes of the dimensions the chunk is scattered over on the scattered side of the stage
        (after a reduce-scatter, before an all-gather), its own included; for all-to-all its own alone.

    Notes
    -----
    The arrays broadcast; `phase` and `dimension` index what belongs to each element.
    """
    rates = _rates(instance)
    sent: FloatArray = size * _at(rates.shares_sent, phase, dimension) / scattered
    return sent


def transfer_time(
    instance: Instance, dimension: int | IntArray, sent: FloatArray, *, whole_packets: bool = True
) -> FloatArray:
    """Picoseconds, not rounded, to send bytes with their packet headers.

    With ``whole_packets=False`` a part of a packet costs that part of a header: a lower bound, linear in `sent`.
    """
    rates = _rates(instance)
    on_wire = sent
    if rates.has_headers:
        packets = sent / rates.payload[dimension]
        on_wire = sent + (np.ceil(packets) if whole_packets else packets) * rates.header[dimension]
    time: FloatArray = on_wire * rates.picoseconds_per_byte.take(dimension)
    return time


def occupancy(instance: Instance, phase: Phase | IntArray, dimension: int | IntArray, sent: FloatArray) -> IntArray:
    """Picoseconds for which stages that send `sent` bytes hold their dimension."""
    transfer = np.ceil(transfer_time(instance, dimension, sent) * (1 - _ROUNDING_SLACK))
    return transfer.astype(np.int64) + fixed_occupancy(instance, phase, dimension)


def path_costs(instance: Instance, collective: Collective, sizes: IntArray, paths: IntArray) -> StageCosts:
    """Costs of all stages of the chunks of one collective.

    Parameters
    ----------
    sizes : int64 array, shape (chunks,)
        Bytes of each chunk.
    paths : int64 array, shape (chunks, stages)
        Dimension of each stage; the phases of the collective follow each other.
    """
    phase = stage_phases(collective.kind, paths.shape[1])
    own = _rates(instance).size.take(paths)
    size = sizes[:, None].astype(np.float64)
    scattered, before = _scattered(collective, own)
    small, large = size / scattered, size / before
    sent = bytes_sent(instance, phase, paths, size, scattered)
    shrinks = phase == Phase.REDUCE_SCATTER
    if collective.kind is CollectiveKind.ALL_TO_ALL:
        small = large = np.broadcast_to(size, paths.shape)
    return StageCosts(
        held_before=np.where(shrinks, large, small),
        held_after=np.where(shrinks, small, large),
        sent=sent,
        occupancy=occupancy(instance, phase, paths, sent),
        lag=fixed_lag(instance, phase, paths),
    )


@lru_cache(maxsize=256)
def stage_phases(kind: CollectiveKind, num_stages: int) -> IntArray:
    """Phase of each stage of a path, shape (stages,)."""
    phases = PHASES[kind]
    return read_only(np.repeat(np.array(phases, dtype=np.int64), num_stages // len(phases)))


def _scattered(collective: Collective, own: IntArray) -> tuple[IntArray, IntArray]:
    """The divisor of :func:`bytes_sent` for each stage, and the same without the dimension of the stage.

    Both come from the sizes of the dimensions along the paths.
    """
    if collective.kind is CollectiveKind.ALL_TO_ALL:
        return own, np.ones_like(own)
    scattered, others = np.empty_like(own), np.ones_like(own)
    half = own.shape[1] // len(PHASES[collective.kind])
    if PHASES[collective.kind][0] is Phase.REDUCE_SCATTER:
        np.multiply.accumulate(own[:, :half], axis=1, out=scattered[:, :half])
        others[:, 1:half] = scattered[:, : half - 1]
    if PHASES[collective.kind][-1] is Phase.ALL_GATHER:
        np.multiply.accumulate(own[:, -half:][:, ::-1], axis=1, out=scattered[:, -half:][:, ::-1])
        others[:, -half:-1] = scattered[:, own.shape[1] - half + 1 :]
    return scattered, others


def check_clock(instance: Instance) -> None:
    """Refuse an instance whose schedules could outlast the integer clock.

    Raises
    ------
    InputError
        If one stage after another would take longer than :data:`~themis_opt.units.MAX_CLOCK` picoseconds.
    """
    total = float(max(c.release for c in instance.collectives))
    for collective, span in zip(instance.collectives, instance.spans, strict=True):
        whole = np.full(len(span), float(collective.size))
        for phase in PHASES[collective.kind]:
            k = np.array(span)
            rates = _rates(instance)
            one_packet = rates.header[k] * rates.picoseconds_per_byte[k]
            fixed = fixed_occupancy(instance, phase, k) + fixed_lag(instance, phase, k) + one_packet + 1
            total += float(transfer_time(instance, k, whole).sum()) + collective.chunks * float(fixed.sum())
    if total > MAX_CLOCK:
        raise InputError(
            f"moving it one stage after another takes {total / PICOSECONDS_PER_SECOND:.3g} s, "
            f"more than the {MAX_CLOCK / PICOSECONDS_PER_SECOND:.3g} s the clock holds",
            field="collectives",
        )

r"""The cost model: bytes, occupation and lag of every stage.  Pure functions.

A chunk of :math:`m` bytes (counted like the size of its collective) that is scattered over the set
:math:`W` of dimensions holds :math:`m / \prod_{l \in W} P_l` bytes.  A reduce-scatter on :math:`k` moves it
from :math:`W \setminus k` to :math:`W`, an all-gather back, and either sends

.. math:: n = m \, (P_k - 1) \,/ \prod_{l \in W} P_l .

A scatter on :math:`k` sends as much from the root, which is the busiest NPU and stands for all; in a gather the root
receives as much.  An all-to-all on :math:`k` sends :math:`m (P_k - 1) / P_k` whatever came before (Themis, ISCA 2022,
section 2), on a ring or line however :math:`m \lfloor P_k^2 / 4 \rfloor / P_k`, which is what crosses both links of an
NPU, or the link in the middle.  What is sent on a line is what its busiest link carries in one direction, on a ring
twice as much.
With in-network reduction an NPU sends all it holds in a reduce-scatter, and in an all-gather it receives as much as
without; where both overlap, each takes the time of :math:`P_k + 1` blocks (:mod:`themis_opt.problem.ports`).
Bytes come from the set, in one product and one division, so equal states have equal bytes to the last bit.

A reduce-scatter also adds up: an NPU receives as many bytes as it sends and adds them, uncompressed, to what it has.
These are :math:`m (P_k - 1) \,/ \prod_{l \in W} P_l` bytes with every algorithm: one block of them per step on a ring,
all at once where links are direct, half of what is left per step of recursive halving; on a line of three or more NPUs
those inside hear from two sides and add up :math:`P_k + 1` blocks.  With in-network reduction the
switch sums, at the speed of its links.

Where a dimension has rails, :math:`n / B_k` is the time of :mod:`themis_opt.problem.rails`, by which its parts on all
of them have arrived.

The stage occupies its dimension for :math:`n / B_k`, plus the launch overhead, plus the bytes summed over the
`reduction` of the dimension, since sums stand between the steps; and its result is ready
:math:`A_k` = steps :math:`\times` latency later.  With ``latency: occupy`` the dimension is held for
:math:`A_k` too.  Occupations are rounded up to whole picoseconds, exactly: data are never ready before
they arrived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray, ObjectArray, read_only
from themis_opt.base.errors import InputError
from themis_opt.base.units import MAX_CLOCK, PICOSECONDS_PER_SECOND, format_seconds
from themis_opt.problem.fields import MAX_CHUNK_STAGES
from themis_opt.problem.network import SLOWEST_LINK
from themis_opt.problem.phases import CollectiveKind, Data, Phase
from themis_opt.problem.rails import Line, lines
from themis_opt.problem.wiring import blocks_sent, exactly, seconds_to_sum, steps

if TYPE_CHECKING:
    from themis_opt.problem.exchanges import Exchange
    from themis_opt.problem.instance import Instance

_NOISE = 1e-14
"""Relative error that floating-point times and packet counts are sure to stay below: ten roundings are 1.1e-15."""


class StageCosts(NamedTuple):
    """Costs of stages, as arrays of one shape.

    `held_before`, `held_after`: bytes of the chunk on an NPU before and after the stage.
    `sent`: bytes an NPU sends, after compression and without packet headers; the root receives them in a gather, and
      all in one through a switch that copies.  Where the directions of a link are two resources, also what goes
      against.
    `occupancy`: picoseconds for which the dimension is held.
    `lag`: picoseconds from the release of the dimension to the result.
    """

    held_before: FloatArray
    held_after: FloatArray
    sent: FloatArray
    occupancy: IntArray
    lag: IntArray


@dataclass(frozen=True, eq=False)
class _Rates:
    """What the formulas need of each dimension: shapes (dimensions,) and (phases, dimensions).

    `line_rates` and `line_offsets`, picoseconds for each byte and whatever the bytes, are the :func:`lines` of rails,
    shape (lines, phases, dimensions); zeros where there are no rails.
    """

    size: IntArray
    picoseconds_per_byte: FloatArray
    line_rates: FloatArray
    line_offsets: FloatArray
    has_offsets: bool
    payload: FloatArray
    header: FloatArray
    has_headers: bool
    sum_picoseconds_per_byte: FloatArray
    has_sums: bool
    shares_sent: FloatArray
    fixed_occupancy: IntArray
    fixed_lag: IntArray


@lru_cache(maxsize=256)
def _rates(instance: Instance) -> _Rates:
    dimensions = instance.fabric.dimensions
    delay = np.array([[steps(d, phase) * d.latency for d in dimensions] for phase in Phase])
    launch = np.array([d.launch_overhead for d in dimensions])
    occupies = instance.latency == "occupy"
    line_rates = line_offsets = np.zeros((1, len(Phase), len(dimensions)))
    if any(dimension.rails for dimension in dimensions):
        line_rates, line_offsets = np.moveaxis(np.array(_lines(instance), dtype=np.float64), -1, 0)
    sums = np.array([[float(seconds_to_sum(d, phase)) for d in dimensions] for phase in Phase])
    return _Rates(
        size=np.array(instance.fabric.sizes),
        picoseconds_per_byte=PICOSECONDS_PER_SECOND / np.array(instance.fabric.bandwidths),
        line_rates=line_rates,
        line_offsets=line_offsets,
        has_offsets=bool(line_offsets.any()),
        payload=np.array([d.packet.payload if d.packet else math.inf for d in dimensions]),
        header=np.array([d.packet.header if d.packet else 0.0 for d in dimensions]),
        has_headers=any(d.packet and d.packet.header for d in dimensions),
        sum_picoseconds_per_byte=PICOSECONDS_PER_SECOND * sums,
        has_sums=bool(sums.any()),
        shares_sent=np.array(
            [[float(_blocks(instance, phase, k)) / d.compression for k, d in enumerate(dimensions)] for phase in Phase]
        ),
        fixed_occupancy=launch + occupies * delay,
        fixed_lag=(not occupies) * delay,
    )


def _blocks(instance: Instance, phase: Phase, k: int) -> Fraction | int:
    """Blocks that a stage on a dimension sends, with those that go the other way where the directions are apart."""
    dimension, against = instance.fabric.dimensions[k], instance.ports.against[k]
    return dimension.size * (1 + against) if against else blocks_sent(dimension, phase)


@lru_cache(maxsize=256)
def _lines(instance: Instance) -> list[list[list[Line]]]:
    """The lines of rails by number, phase and dimension; where there are fewer than elsewhere the last is repeated."""
    each = [[lines(dimension, phase) for dimension in instance.fabric.dimensions] for phase in Phase]
    most = max(len(alternatives) for row in each for alternatives in row)
    return [
        [[alternatives[min(number, len(alternatives) - 1)] for alternatives in row] for row in each]
        for number in range(most)
    ]


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
    size: FloatArray | IntArray,
    scattered: IntArray,
) -> FloatArray:
    """Bytes an NPU sends in a stage, after compression.

    The arrays broadcast; `phase` and `dimension` index what belongs to each element.

    `size`: chunk bytes.
    `scattered`: product of the sizes of the dimensions the chunk is scattered over on the scattered side of the stage
      (after a reduce-scatter, before an all-gather), that of the stage included; for all-to-all that one alone.
    """
    rates = _rates(instance)
    sent: FloatArray = size * _at(rates.shares_sent, phase, dimension) / scattered
    return sent


def variable_occupancy(
    instance: Instance,
    phase: Phase | IntArray,
    dimension: int | IntArray,
    sent: FloatArray,
    *,
    whole_packets: bool = True,
) -> FloatArray:
    """Picoseconds, not rounded, for which a stage holds its dimension: to send, with packet headers, and to sum.

    With ``whole_packets=False`` a part of a packet costs that part of a header: a lower bound, linear in `sent`; with
    rails it is concave, so a part of the bytes takes at least that part of the time.
    """
    rates = _rates(instance)
    on_wire = wire_bytes(instance, dimension, sent, whole_packets=whole_packets)
    time: FloatArray = on_wire * rates.picoseconds_per_byte.take(dimension)
    if rates.has_offsets:
        time = np.minimum.reduce(_times_on_lines(instance, phase, dimension, on_wire))
    if rates.has_sums:
        time = time + sent * _at(rates.sum_picoseconds_per_byte, phase, dimension)
    return time


def wire_bytes(
    instance: Instance, dimension: int | IntArray, sent: FloatArray, *, whole_packets: bool = True
) -> FloatArray:
    """Bytes sent with the headers of their packets."""
    rates = _rates(instance)
    if not rates.has_headers:
        return sent
    packets = sent / rates.payload[dimension]
    whole: FloatArray = sent + (np.ceil(packets) if whole_packets else packets) * rates.header[dimension]
    return whole


def _times_on_lines(
    instance: Instance, phase: Phase | IntArray, dimension: int | IntArray, on_wire: FloatArray
) -> list[FloatArray]:
    rates = _rates(instance)
    return [
        on_wire * _at(rate, phase, dimension) + _at(offset, phase, dimension)
        for rate, offset in zip(rates.line_rates, rates.line_offsets, strict=True)
    ]


def rails_offset(
    instance: Instance, phase: Phase | IntArray, dimension: int | IntArray, sent: FloatArray
) -> FloatArray | float:
    """Picoseconds of :func:`variable_occupancy` that stay when `sent` changes a little: of the rails that are late."""
    rates = _rates(instance)
    if not rates.has_offsets:
        return 0.0
    on_wire = wire_bytes(instance, dimension, sent, whole_packets=False)
    line = np.argmin(_times_on_lines(instance, phase, dimension, on_wire), axis=0)
    every = [_at(offset, phase, dimension) + np.zeros(np.shape(sent)) for offset in rates.line_offsets]
    offset: FloatArray = np.choose(line, every)
    return offset


def occupancy(
    instance: Instance, phase: Phase | IntArray, dimension: int | IntArray, size: IntArray, scattered: IntArray
) -> IntArray:
    """Picoseconds for which stages hold their dimension, rounded up exactly; arguments are those of :func:`bytes_sent`.

    Floating point decides where it is sure on which side of a whole number it is, and whole numbers do elsewhere.
    """
    sent = bytes_sent(instance, phase, dimension, size, scattered)
    variable = np.asarray(variable_occupancy(instance, phase, dimension, sent))
    doubtful = _is_doubtful(variable)
    if _rates(instance).has_headers:
        doubtful |= _is_doubtful(sent / _rates(instance).payload[dimension])
    time = np.ceil(variable).astype(np.int64)
    if doubtful.any():
        exactly = (np.broadcast_to(array, time.shape)[doubtful] for array in (phase, dimension, size, scattered))
        time[doubtful] = _rounded_up(instance, *exactly)
    return time + fixed_occupancy(instance, phase, dimension)


def _is_doubtful(value: FloatArray) -> BoolArray:
    """Where a value is so close to a whole number that floating point cannot say how it is rounded up."""
    doubtful: BoolArray = np.ceil(value * (1 - _NOISE)) != np.ceil(value * (1 + _NOISE))
    return doubtful


class _Ratios(NamedTuple):
    """Variable occupations as ratios of whole numbers; arrays of Python integers, shape (lines, phases, dimensions).

    A chunk of S bytes scattered over W NPUs sends p = ceil(S `packets` / (W `payloads`)) packets in a stage that takes
    (S `bytes` + W (p `headers` + `offset`)) / (W `unit`) picoseconds, on the best of the lines of rails.
    """

    bytes: ObjectArray
    headers: ObjectArray
    offset: ObjectArray
    unit: ObjectArray
    packets: ObjectArray
    payloads: ObjectArray


@lru_cache(maxsize=256)
def _ratios(instance: Instance) -> _Ratios:
    each = [
        [
            [_ratio(instance, phase, k, line) for k, line in enumerate(row)]
            for phase, row in zip(Phase, table, strict=True)
        ]
        for table in _lines(instance)
    ]
    return _Ratios(*np.moveaxis(np.array(each, dtype=object), -1, 0))


def _ratio(instance: Instance, phase: Phase, k: int, line: Line) -> tuple[int, ...]:
    dimension = instance.fabric.dimensions[k]
    sent = _blocks(instance, phase, k) / exactly(dimension.compression)
    time = sent * (line.per_byte + PICOSECONDS_PER_SECOND * seconds_to_sum(dimension, phase))
    packet = dimension.packet
    header = packet.header * line.per_byte if packet else Fraction(0)
    packets = sent / packet.payload if packet else Fraction(0)
    unit = math.lcm(time.denominator, header.denominator, line.offset.denominator)
    whole = (int(part * unit) for part in (time, header, line.offset))
    return *whole, unit, packets.numerator, packets.denominator


def _rounded_up(
    instance: Instance, phase: IntArray, dimension: IntArray, size: IntArray, scattered: IntArray
) -> IntArray:
    """Variable occupations, rounded up, in whole numbers: machine words where they are long enough."""
    tables = zip(*_ratios(instance), strict=True)
    on_lines = [
        _rounded_up_on_line([_at(table, phase, dimension) for table in line], size, scattered) for line in tables
    ]
    time: IntArray = np.minimum.reduce(on_lines)
    return time


def _rounded_up_on_line(ratios: Sequence[ObjectArray], size: IntArray, scattered: IntArray) -> IntArray:
    """The same by one of the lines of rails."""

    def times(kind: Any) -> tuple[Any, Any]:
        return _times(_Ratios(*(table.astype(kind) for table in ratios)), size.astype(kind), scattered.astype(kind))

    fits = max(part.max() for part in times(np.float64)) < 2**62  # a machine word, also where floating point says so
    above, below = times(np.int64 if fits else object)
    time: IntArray = (-(-above // below)).astype(np.int64)
    return time


def _times(ratios: _Ratios, size: Any, scattered: Any) -> tuple[Any, Any]:
    """Numerators and denominators of variable occupations."""
    packets = -(-size * ratios.packets // (scattered * ratios.payloads))
    fixed = packets * ratios.headers + ratios.offset
    return size * ratios.bytes + scattered * fixed, scattered * ratios.unit


def path_costs(instance: Instance, kind: CollectiveKind, sizes: IntArray, paths: IntArray) -> StageCosts:
    """Costs of all stages of the chunks of one collective operation; sizes and paths are those of a plan."""
    phase = stage_phases(kind, paths.shape[1])
    dimension_sizes = _rates(instance).size.take(paths)
    size = sizes[:, None]
    before, after, divisor = _along(kind, dimension_sizes)
    return StageCosts(
        held_before=size / before,
        held_after=size / after,
        sent=bytes_sent(instance, phase, paths, size, divisor),
        occupancy=occupancy(instance, phase, paths, size, divisor),
        lag=fixed_lag(instance, phase, paths),
    )


def path_divisors(instance: Instance, kind: CollectiveKind, paths: IntArray) -> IntArray:
    """What :func:`bytes_sent` divides by in every stage of paths, shape (chunks, stages)."""
    return _along(kind, _rates(instance).size.take(paths)).divisor


@lru_cache(maxsize=256)
def stage_phases(kind: CollectiveKind, num_stages: int) -> IntArray:
    """Phase of each stage of a path, shape (stages,)."""
    phases = kind.rule.phases
    return read_only(np.repeat(np.array(phases, dtype=np.int64), num_stages // len(phases)))


class Spread(NamedTuple):
    """NPUs over which a chunk is scattered before and after stages, and the divisor of :func:`bytes_sent`."""

    before: IntArray
    after: IntArray
    divisor: IntArray


def spread(phase: Phase, dimension_sizes: IntArray, reached: IntArray, everything: IntArray | int) -> Spread:
    """How chunks are scattered around stages of one phase.

    `reached`, `everything`: products of the sizes of the dimensions that the chunk has visited in the phase after the
      stage, and of all.
    """
    data = phase.rule.data
    if data is Data.STAY:
        return Spread(np.ones_like(dimension_sizes), np.ones_like(dimension_sizes), dimension_sizes)
    if data is Data.SHRINK:
        return Spread(reached // dimension_sizes, reached, reached)
    left = everything // reached
    before = left * dimension_sizes
    return Spread(before, left, before)


def _along(kind: CollectiveKind, dimension_sizes: IntArray) -> Spread:
    """The spread of every stage of paths, from the sizes of the dimensions along them."""
    phases = kind.rule.phases
    width = dimension_sizes.shape[1] // len(phases)
    whole = Spread(*(np.empty_like(dimension_sizes) for _ in Spread._fields))
    for number, phase in enumerate(phases):
        columns = slice(number * width, (number + 1) * width)
        reached = np.multiply.accumulate(dimension_sizes[:, columns], axis=1)
        for array, part in zip(
            whole, spread(phase, dimension_sizes[:, columns], reached, reached[:, -1:]), strict=True
        ):
            array[:, columns] = part
    return whole


def check_clock(instance: Instance) -> None:
    """Refuse an instance whose schedules could outlast the integer clock, or fill the memory.

    Raises InputError if one stage after another would take longer than :data:`~themis_opt.base.units.MAX_CLOCK`
    picoseconds, or chunks of collectives have more than :data:`~themis_opt.problem.fields.MAX_CHUNK_STAGES` stages
    together.
    """
    stages = count_stages(instance)
    if not instance.tasks and stages > MAX_CHUNK_STAGES:
        rule = f"their chunks must have at most {MAX_CHUNK_STAGES} stages together, have {stages}; take fewer chunks"
        raise InputError(rule, field="collectives")
    total = float(instance.work + max(exchange.release for exchange in instance.exchanges))
    rates = _rates(instance)
    alike: dict[tuple[CollectiveKind, tuple[int, ...]], list[Exchange]] = {}
    for exchange in instance.exchanges:
        alike.setdefault((exchange.kind, exchange.span), []).append(exchange)
    for (kind, span), exchanges in alike.items():
        k, chunks = np.array(span), sum(exchange.chunks for exchange in exchanges)
        whole = np.repeat([[float(exchange.size)] for exchange in exchanges], len(k), axis=1)
        for phase in kind.rule.phases:
            one_packet = rates.header[k] * rates.picoseconds_per_byte[k] + rates.line_offsets[-1, phase, k]
            fixed = fixed_occupancy(instance, phase, k) + fixed_lag(instance, phase, k) + one_packet + 1
            total += float(variable_occupancy(instance, phase, k, whole).sum()) + chunks * float(fixed.sum())
    if total > MAX_CLOCK:
        rule = (
            f"moving it one stage after another takes {format_seconds(total)}, "
            f"more than the {format_seconds(MAX_CLOCK)} the clock holds"
        )
        slowest = min(instance.network.bandwidths)
        if slowest < SLOWEST_LINK:
            rule += f"; the bandwidth {slowest:g} means {slowest:g} B/s: write the unit"
        raise InputError(rule, field="iteration" if instance.tasks else "collectives")


def count_stages(instance: Instance) -> int:
    """Stages of all chunks of an instance, those of all tensors where there is compute."""
    return sum(exchange.num_stages for exchange in instance.exchanges)


def check_memory(instance: Instance, memory: float) -> None:
    """Refuse an instance whose plans and schedules alone need more than the memory allowed, in GiB."""
    needed = count_stages(instance) * 1e-6  # what schedules and their files hold for each stage
    if needed > memory and not instance.tasks:
        rule = f"must be {needed:.2g} GiB or more for {count_stages(instance)} stages; or take fewer chunks"
        raise InputError(rule, field="memory", value=memory)

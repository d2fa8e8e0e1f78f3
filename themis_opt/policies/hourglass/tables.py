"""What :mod:`themis_opt.policies.hourglass.policy` knows of an instance, and paths as numbers.

A path is a number, four bits for each *local* dimension (the place of a dimension in the span of its collective) in the
order of the visits; so it fits in a machine word.  A *layer* of a collective is a phase whose path a chunk chooses: the
two phases of an all-reduce, or both as one where the gather order is the scatter order reversed.  The functions below
:func:`tables_of` are compiled with those that use them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.solving.lowering import occupancies, resources_and_lags, stacked

NumberOrArray = TypeVar("NumberOrArray", int, IntArray)

BITS, LOW_BITS = 4, 15  # bits of one local dimension in a path, and their mask
NO_LAG = np.iinfo(np.int64).max  # stands for a dimension without stages while the least lags are sought
FIRST, MIDDLE, LAST = 0, 1, 2  # columns of `Tables.rank`
RANKS: dict[tuple[bool, bool], tuple[int, int, int]] = {
    (True, True): (1, 0, 2),
    (True, False): (1, 2, 2),
    (False, True): (0, 0, 2),
    (False, False): (1, 1, 1),
}
"""Rank of the first stage of a chunk, of those in the middle and of the last one; a lower rank is served first.

By whether the collective opens and closes: whether a chunk has most bytes at first, and at last.
"""


class Portion(NamedTuple):
    """Chunks of one collective of the instance that are dealt out as if they were a collective."""

    number: int  # of the collective in the instance
    sizes: IntArray  # shape (chunks,): bytes of each, equal but for one element, the largest first


def equal_portions(instance: Instance, most: int | None = None) -> list[Portion]:
    """All chunks of every collective, equal and, if `most` is given, at most so many of each."""
    exchanges = instance.exchanges
    if most is not None:
        exchanges = tuple(replace(exchange, max_chunks=min(exchange.max_chunks, most)) for exchange in exchanges)
    return [Portion(number, equal_sizes(exchange)) for number, exchange in enumerate(exchanges)]


class Tables(NamedTuple):
    """The collectives, or portions of them, in arrays of shape (collectives,) unless stated.

    `width`, `phases`, `chunks`, `release`: dimensions it spans, phases, equal chunks, and release in picoseconds.
    `mirrors`, `mirrored`: whether the gather order can be the scatter order reversed, and whether it is.
    `opens`, `closes`: whether its first stages scatter, and its last stages gather: the stages that move most bytes.
    `rank`, shape (collectives, 3): as in :data:`RANKS`.
    `resource`, shape (collectives, phases, widest): what a stage holds, by phase and local dimension.
    `duration`, shape (collectives, phases, 2**widest, widest): picoseconds a stage of a chunk holds its dimension, by
      phase, mask of the local dimensions visited in the phase, and local dimension.
    `lag`, shape (collectives, phases, widest): picoseconds from then to the result.
    """

    width: IntArray
    phases: IntArray
    chunks: IntArray
    release: IntArray
    mirrors: IntArray
    mirrored: IntArray
    opens: IntArray
    closes: IntArray
    rank: IntArray
    resource: IntArray
    duration: IntArray
    lag: IntArray


def tables_of(instance: Instance, portions: Sequence[Portion] | None = None) -> Tables:
    """Lay out an instance, or portions of its collectives; all chunks of one get the size of the largest of them."""
    portions = equal_portions(instance) if portions is None else portions
    collectives = [instance.exchanges[portion.number] for portion in portions]
    rules = [collective.kind.rule for collective in collectives]
    numbers = np.array([portion.number for portion in portions])
    resource, lag = resources_and_lags(instance, instance.exchanges)
    return Tables(
        width=np.array([len(collective.span) for collective in collectives]),
        phases=np.array([len(rule.phases) for rule in rules]),
        chunks=np.array([len(portion.sizes) for portion in portions]),
        release=np.array([collective.release for collective in collectives]),
        mirrors=np.array([rule.mirrors for rule in rules]),
        mirrored=np.array([instance.ag_order == "reverse" and rule.mirrors for rule in rules]),
        opens=np.array([rule.opens for rule in rules]),
        closes=np.array([rule.closes for rule in rules]),
        rank=np.array([RANKS[rule.opens, rule.closes] for rule in rules]),
        resource=resource[numbers],
        duration=_durations(instance, numbers, np.array([portion.sizes[0] for portion in portions])),
        lag=lag[numbers],
    )


def _durations(instance: Instance, numbers: IntArray, sizes: IntArray) -> IntArray:
    """`duration` of portions: a collective of the instance and a size for each."""
    of_each = {
        number: iter(occupancies(instance, instance.exchanges[number], sizes[numbers == number]))
        for number in np.unique(numbers).tolist()
    }
    return stacked([next(of_each[number]) for number in numbers.tolist()])


def least_lags(tables: Tables, num_resources: int) -> IntArray:
    """Least lag of the stages on every resource."""
    least = np.full(num_resources, NO_LAG)
    for number, width in enumerate(tables.width):
        for phase in range(tables.phases[number]):
            np.minimum.at(least, tables.resource[number, phase, :width], tables.lag[number, phase, :width])
    return np.where(least == NO_LAG, 0, least)


def num_layers(tables: Tables, collective: int) -> int:
    """Paths that a chunk of the collective chooses."""
    return 1 if tables.mirrored[collective] else tables.phases[collective]


def dimension_at(path: NumberOrArray, position: NumberOrArray) -> NumberOrArray:
    """The local dimension that a path visits at a position."""
    return path >> (BITS * position) & LOW_BITS


def swapped(path: int, one: int, two: int) -> int:
    """The path with two positions swapped."""
    both = dimension_at(path, one) ^ dimension_at(path, two)
    return path ^ (both << (BITS * one)) ^ (both << (BITS * two))


def arc_duration(tables: Tables, collective: int, layer: int, visited: int, local: int) -> int:
    """Picoseconds for which a chunk that has visited a set holds the next dimension, in all phases of the layer."""
    duration: int = tables.duration[collective, layer, visited, local]
    if tables.mirrored[collective]:
        others = ((1 << tables.width[collective]) - 1) & ~(visited | 1 << local)
        duration += tables.duration[collective, 1, others, local]
    return duration


def arc_cost(
    tables: Tables, collective: int, layer: int, visited: int, local: int, price: FloatArray, extra: float
) -> float:
    """That time at the price of what is held, and an extra one."""
    duration, resource = arc_duration(tables, collective, layer, visited, local), tables.resource[collective]
    cost: float = (price[resource[layer, local]] + extra) * duration
    if tables.mirrored[collective]:  # what the second phase holds may be dearer
        second = duration - tables.duration[collective, 0, visited, local]
        cost += (price[resource[1, local]] - price[resource[0, local]]) * second
    return cost


def is_middle(tables: Tables, collective: int, layer: int, position: int) -> bool:
    """Whether a stage is neither the first scatter nor the last gather of its chunk."""
    if tables.opens[collective] and layer == 0 and position == 0:
        return False
    ends = layer == tables.phases[collective] - 1 and position == tables.width[collective] - 1
    return not (tables.closes[collective] and ends)


def cheapest_path(
    tables: Tables,
    collective: int,
    layer: int,
    price: FloatArray,
    surcharge: float,
    least: FloatArray,
    choice: IntArray,
) -> int:
    """Path of least cost: time at the `price` of what is held, in middle stages with the surcharge.

    `least` and `choice`, shape (2**widest,), are work space: least cost to have visited each set of local dimensions,
    and the dimension visited last then.
    """
    width = tables.width[collective]
    everything = (1 << width) - 1
    for visited in range(everything + 1):
        least[visited] = np.inf if visited else 0.0
    for visited in range(everything):  # in this order each set comes after all of its subsets
        position = 0
        for local in range(width):
            position += visited >> local & 1
        extra = surcharge if is_middle(tables, collective, layer, position) else 0.0
        for local in range(width):
            if not visited >> local & 1:
                cost = least[visited] + arc_cost(tables, collective, layer, visited, local, price, extra)
                if cost < least[visited | 1 << local]:
                    least[visited | 1 << local], choice[visited | 1 << local] = cost, local
    path, visited = 0, everything
    for position in range(width - 1, -1, -1):
        path |= choice[visited] << (BITS * position)
        visited ^= 1 << choice[visited]
    return path


def add_load(tables: Tables, load: FloatArray, collective: int, layer: int, path: int) -> float:
    """Add the load of one chunk on a path; returns its time in middle stages."""
    visited, middle = 0, 0.0
    for position in range(tables.width[collective]):
        local = dimension_at(path, position)
        duration = arc_duration(tables, collective, layer, visited, local)
        first = tables.duration[collective, layer, visited, local]
        load[tables.resource[collective, layer, local]] += first
        if tables.mirrored[collective]:
            load[tables.resource[collective, 1, local]] += duration - first
        if is_middle(tables, collective, layer, position):
            middle += duration
        visited |= 1 << local
    return middle

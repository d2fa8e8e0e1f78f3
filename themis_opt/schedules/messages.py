"""Stages as messages: who sends which block to whom in every step of an algorithm, for all that execute schedules.

Each algorithm is written once, as an all-gather; its reduce-scatter is the mirror image, with steps and messages turned
round and sums in the place of copies.  So recursive doubling becomes recursive halving.  Scatter and gather are mirror
images too, along a tree whose root is the first NPU of the dimension.

Where wires join neighbours in a ring, half of every block takes the way of the algorithm, and half its mirror image in
the other direction.  An all-to-all there is passed on from neighbour to neighbour; other algorithms are left to
messages that pass through NPUs, counted by :mod:`themis_opt.schedules.port_traffic`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import Data, Phase
from themis_opt.problem.wiring import Algorithm, Kind, grid, row_first_share


class Messages(NamedTuple):
    """The messages of one step, read-only int64 arrays of one shape.

    No message of a step needs what another message of that step brings.

    `source`, `target`: NPUs of the dimension.
    `block`: number of the block along the dimension; in an all-to-all the NPU for which it is.
    `origin`: in an all-to-all the NPU that had the block first, under whose number the last target keeps it; elsewhere
      the source.
    """

    source: IntArray
    target: IntArray
    block: IntArray
    origin: IntArray


@dataclass(frozen=True)
class Pattern:
    """The messages of a stage, made step by step, since all of them may be too many."""

    num_steps: int
    step: Callable[[int], Messages]

    def __iter__(self) -> Iterator[Messages]:
        """The steps."""
        return map(self.step, range(self.num_steps))

    def mirrored(self) -> "Pattern":
        """The steps in reverse, with source and target turned round."""

        def step(number: int) -> Messages:
            source, target, block, _ = self.step(self.num_steps - 1 - number)
            return _messages(target, source, block)

        return Pattern(self.num_steps, step)

    def in_other_direction(self, size: int, rooted: bool) -> "Pattern":
        """The same around a ring of so many NPUs the other way, from or to the same root if there is one."""
        last = 0 if rooted else size - 1
        return Pattern(self.num_steps, lambda number: Messages(*((last - ends) % size for ends in self.step(number))))


class Way(NamedTuple):
    """A share of every block, and the messages that move it."""

    share: Fraction
    pattern: Pattern


def stage_ways(phase: Phase, kind: Kind, algorithm: Algorithm, size: int) -> tuple[Way, ...]:
    """The messages of a stage on so many NPUs, as the links of the kind carry them."""
    rule = phase.rule
    if not kind.rule.is_ring or size == 2 or rule.shifts:
        return algorithm_ways(phase, algorithm, size)
    if rule.data is Data.STAY:
        return _ring_exchange(size)
    ((_, pattern),) = algorithm_ways(phase, algorithm, size)
    return tuple(Way(Fraction(1, 2), one) for one in (pattern, pattern.in_other_direction(size, rule.rooted)))


def algorithm_ways(phase: Phase, algorithm: Algorithm, size: int) -> tuple[Way, ...]:
    """The messages of a stage of an algorithm on so many NPUs; most send whole blocks by one way."""
    rule, patterns = phase.rule, PATTERNS.get(algorithm) or algorithm.rule.patterns
    if rule.shifts:
        return _whole(Pattern(1, partial(_shift, size)))
    if rule.data is Data.STAY:
        return patterns.exchange(size)
    gathers = (patterns.to_root if rule.rooted else patterns.all_gather)(size)
    if rule.data is Data.GROW:
        return gathers
    return tuple(Way(way.share, way.pattern.mirrored()) for way in gathers)


def stage_messages(phase: Phase, dimension: Dimension) -> list[Messages]:
    """The steps of a stage, for runtimes whose NPUs send whole blocks to any other NPU, also on a ring.

    Raises InputError if a switch takes part, or as for :func:`algorithm_messages`.
    """
    if dimension.in_network and phase.rule.in_network:
        raise InputError("a switch that sums and copies sends no messages between NPUs", field="in_network", value=True)
    return algorithm_messages(phase, dimension.basic_algorithm, dimension.size)


def algorithm_messages(phase: Phase, algorithm: Algorithm, size: int) -> list[Messages]:
    """The steps of a stage of an algorithm on so many NPUs, each of flat arrays.

    Raises InputError if parts of blocks go separate ways, or an all-to-all passes on blocks that are for others.
    """
    ways = algorithm_ways(phase, algorithm, size)
    steps = [Messages(*map(np.ravel, step)) for step in ways[0].pattern]
    exchanges = phase.rule.data is Data.STAY
    if len(ways) > 1 or (exchanges and any((step.source != step.origin).any() for step in steps)):
        rule = f"{phase.name.lower()} on a {algorithm} has no messages of whole blocks that go straight to their NPU"
        raise InputError(rule, field="algorithm", value=algorithm.value)
    return steps


def _messages(source: IntArray, target: IntArray, block: IntArray, origin: IntArray | None = None) -> Messages:
    """Messages from arrays that broadcast, as views, since those of one step may be many millions."""
    return Messages(*np.broadcast_arrays(source, target, block, source if origin is None else origin))


def _whole(pattern: Pattern) -> tuple[Way, ...]:
    return (Way(Fraction(1), pattern),)


def _ranks(size: int) -> IntArray:
    """NPUs as rows, beside which their blocks stand as columns."""
    return np.arange(size)[:, None]


def _shift(size: int, step: int) -> Messages:
    """Send everything to the next NPU, the last one nothing."""
    npus = _ranks(size - 1)
    return _messages(npus, npus + 1, np.arange(size))


def _ring(size: int, step: int) -> Messages:
    """Pass on to the next NPU the block that came last, at first the one held."""
    npus = _ranks(size)
    return _messages(npus, (npus + 1) % size, (npus - step) % size)


def _direct(size: int, step: int) -> Messages:
    """Send the block held to everybody."""
    npus, distances = np.arange(size), np.arange(1, size)[:, None]
    return _messages(npus, (npus + distances) % size, npus)


def _doubling(size: int, step: int) -> Messages:
    """Recursive doubling: swap all blocks with the NPU whose number differs in bit `step`."""
    npus, distance = _ranks(size), 2**step
    return _messages(npus, npus ^ distance, npus // distance * distance + np.arange(distance))


def _bruck(size: int, step: int) -> Messages:
    """Any size (Bruck et al. 1997, https://doi.org/10.1109/71.642949): double, and send in the last step the rest.

    Before the step an NPU holds the block of its number and those that follow, `distance` in all.
    """
    npus, distance = _ranks(size), 2**step
    count = min(distance, size - distance)
    return _messages(npus, (npus - distance) % size, (npus + np.arange(count)) % size)


def _line(size: int, step: int) -> Messages:
    """Pass on to both neighbours the block that came last from the other one, at first the one held."""
    right, left = np.arange(step, size - 1), np.arange(1, size - step)
    source = np.concatenate([right, left])
    return _messages(source, np.concatenate([right + 1, left - 1]), np.concatenate([right - step, left + step]))


def _towards_root(size: int, step: int) -> Messages:
    """Pass on to the previous NPU, none beyond the root, the block that came last, at first the one held."""
    source = np.arange(1, size - step)
    return _messages(source, source - 1, source + step)


def _to_root(size: int, step: int) -> Messages:
    """Send the block held to the root."""
    source = np.arange(1, size)
    return _messages(source, np.zeros_like(source), source)


def _binomial(size: int, step: int) -> Messages:
    """Join neighbouring groups of 2**`step` NPUs in pairs: the first of a group sends all blocks of the group."""
    distance, block = 2**step, np.arange(size)
    block = block[block // distance % 2 == 1]
    source = block // distance * distance
    return _messages(source, source - distance, block)


def _pairwise(size: int, step: int) -> Messages:
    """Send the NPU at a distance the block that is for it."""
    npus = _ranks(size)
    target = (npus + step + 1) % size
    return _messages(npus, target, target)


def _at_once(size: int, step: int) -> Messages:
    """Send every NPU the block that is for it."""
    npus, distances = np.arange(size), np.arange(1, size)[:, None]
    target = (npus + distances) % size
    return _messages(npus, target, target)


def _around(size: int, forward: int, step: int) -> Messages:
    """Pass on to the next NPU what is for the `forward` NPUs after its origin, to the previous one the rest."""
    distance = np.concatenate([np.arange(step + 1, forward + 1), -np.arange(step + 1, size - forward)])
    origin, hop = _ranks(size), np.sign(distance)
    source = origin + step * hop
    return _messages(source % size, (source + hop) % size, (origin + distance) % size, origin)


def _ring_exchange(size: int) -> tuple[Way, ...]:
    """Every block by the shorter way; of those for the opposite NPU half by either."""
    ways = sorted({size // 2, (size - 1) // 2})
    return tuple(Way(Fraction(1, len(ways)), Pattern(size // 2, partial(_around, size, forward))) for forward in ways)


_Step = Callable[[int, int], Messages]  # from a size and the number of a step to its messages


def _numbered(rows: int, columns: int, place: IntArray) -> IntArray:
    """Numbers of the NPUs at places of a grid, counted row by row: every other row is numbered backwards."""
    row, column = place // columns, place % columns
    numbers: IntArray = row * columns + np.where(row % 2, columns - 1 - column, column)
    return numbers


def _sweeps(rows: int, columns: int, line: _Step, rooted: bool, row_first: bool) -> Pattern:
    """A gather along one axis of a grid, then of all that came along the other one."""
    lengths = (columns, rows) if row_first else (rows, columns)
    strides = (1, columns) if row_first else (columns, 1)
    numbered = partial(_numbered, rows, columns)

    def step(number: int) -> Messages:
        later = number >= lengths[0] - 1
        along, across = strides[later], strides[not later]
        hops = line(lengths[later], number - (lengths[0] - 1) * later)
        source, target, block = (ends[:, None] * along for ends in hops[:3])
        lines = np.arange(1 if rooted and later else lengths[not later])[:, None, None] * across
        carried = np.arange(lengths[0]) * across if later else lines
        return _messages(numbered(source + lines), numbered(target + lines), numbered(block + carried))

    return Pattern(sum(lengths) - 2, step)


def _mesh2d_gather(line: _Step, rooted: bool, size: int) -> tuple[Way, ...]:
    """A share of each block goes along the rows first, the rest along the columns first."""
    share = row_first_share(size)
    ways = ((share, True), (1 - share, False))
    return tuple(Way(part, _sweeps(*grid(size), line, rooted, row_first)) for part, row_first in ways if part)


def _relayed_exchange(rows: int, columns: int) -> Pattern:
    """Pass on, in every step, all that has not arrived: within the row to its column, then within the column."""
    numbered = partial(_numbered, rows, columns)
    origin, block = (places.ravel() for places in np.indices((rows * columns, rows * columns)))
    in_row, in_column = block % columns - origin % columns, block // columns - origin // columns

    def step(number: int) -> Messages:
        later = number >= columns - 1
        passed, stride = (number - columns + 1, columns) if later else (number, 1)
        left = in_column if later else in_row
        moving = np.flatnonzero(np.abs(left) > passed)
        hop = np.sign(left[moving]) * stride
        source = origin[moving] + passed * hop + (in_row[moving] if later else 0)
        return _messages(*map(numbered, (source, source + hop, block[moving], origin[moving])))

    return Pattern(rows + columns - 2, step)


@dataclass(frozen=True)
class AlgorithmPatterns:
    """The messages of an algorithm, from NPUs along the dimension.

    `all_gather`, `to_root`, `exchange`: an all-gather, a gather at the first NPU, and an all-to-all.  The trees to the
      root are those of R. Thakur, R. Rabenseifner, W. Gropp (2005), https://doi.org/10.1177/1094342005051521.
    """

    all_gather: Callable[[int], tuple[Way, ...]]
    to_root: Callable[[int], tuple[Way, ...]]
    exchange: Callable[[int], tuple[Way, ...]]


def _halving_doubling(size: int) -> tuple[Way, ...]:
    is_power_of_two = size & (size - 1) == 0
    return _whole(Pattern((size - 1).bit_length(), partial(_doubling if is_power_of_two else _bruck, size)))


def _by_neighbours(step: _Step) -> Callable[[int], tuple[Way, ...]]:
    return lambda size: _whole(Pattern(size - 1, partial(step, size)))


def _in_one_step(step: _Step) -> Callable[[int], tuple[Way, ...]]:
    return lambda size: _whole(Pattern(1, partial(step, size)))


_BY_TREES = AlgorithmPatterns(
    _halving_doubling,
    lambda size: _whole(Pattern((size - 1).bit_length(), partial(_binomial, size))),
    _in_one_step(_at_once),
)

PATTERNS: Mapping[Algorithm, AlgorithmPatterns] = {
    Algorithm.RING: AlgorithmPatterns(_by_neighbours(_ring), _by_neighbours(_towards_root), _by_neighbours(_pairwise)),
    Algorithm.DIRECT: AlgorithmPatterns(_in_one_step(_direct), _in_one_step(_to_root), _in_one_step(_at_once)),
    Algorithm.HALVING_DOUBLING: _BY_TREES,
    Algorithm.ADASUM: _BY_TREES,
    Algorithm.LINE: AlgorithmPatterns(
        _by_neighbours(_line), _by_neighbours(_towards_root), lambda size: _whole(_relayed_exchange(1, size))
    ),
    Algorithm.MESH2D: AlgorithmPatterns(
        partial(_mesh2d_gather, _line, False),
        partial(_mesh2d_gather, _towards_root, True),
        lambda size: _whole(_relayed_exchange(*grid(size))),
    ),
}
"""The messages of every algorithm."""

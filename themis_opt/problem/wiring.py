"""How the NPUs of a dimension are wired, and what their basic algorithm does in a stage: two tables that all else asks.

A new kind or algorithm is a member and a row here, and a row of :mod:`themis_opt.schedules.messages`, which says who
sends what to whom.  Sizes are NPUs along the dimension, P below; blocks are 1/P of what an NPU holds on the larger side
of a stage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache, cached_property
from importlib.metadata import entry_points
from math import isqrt
from typing import TYPE_CHECKING, Any, Self

from themis_opt.problem.phases import Data, Phase

if TYPE_CHECKING:
    from themis_opt.problem.network import Dimension


PLUGGED = {"Kind": "themis_opt.kinds", "Algorithm": "themis_opt.algorithms"}
"""Groups of entry points by which other packages add names."""


class OpenNames(StrEnum):
    """Names to which other packages add, each with its rule."""

    @classmethod
    def _missing_(cls, value: object) -> "Self | None":
        if not isinstance(value, str) or not entry_points(group=PLUGGED[cls.__name__], name=value):
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = value.upper(), value
        cls._value2member_map_[value] = member
        return member

    @cached_property
    def plugged(self) -> Any:
        """The rule that another package gives."""
        (entry,) = entry_points(group=PLUGGED[type(self).__name__], name=self.value)
        return entry.load()


class Algorithm(OpenNames):
    """Basic collective algorithm inside one dimension."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halving_doubling"
    ADASUM = "adasum"
    LINE = "line"
    MESH2D = "mesh2d"

    @property
    def rule(self) -> "AlgorithmRule":
        """What it does in a stage."""
        return ALGORITHM_RULES.get(self) or self.plugged


class Kind(OpenNames):
    """How the NPUs of one dimension are wired."""

    RING = "ring"
    FULLY_CONNECTED = "fully_connected"
    SWITCH = "switch"
    LINE = "line"
    MESH2D = "mesh2d"

    @property
    def rule(self) -> "KindRule":
        """What distinguishes it from the others."""
        return KIND_RULES.get(self) or self.plugged


@dataclass(frozen=True)
class AlgorithmRule:
    """What an algorithm does in a stage.

    `steps`: from P and the phase to the steps.
    `blocks`: from P and the phase to the blocks that the busiest NPU sends, or receives where it is the root.  Where
      `links` is given, those that the busiest link carries in one direction, times `links`.
    `sums`: from P to the blocks that the busiest NPU adds up in a reduce-scatter.
    `links`: from P to the links that the bandwidth of the dimension is the sum of; then blocks go from neighbour to
      neighbour, and the busiest link counts.  Without, all NPUs use all their links evenly.
    `crossings`: from P to the blocks, counted so, that cross the wires of a ring in a reduce-scatter or all-gather;
      P - 1 where it is not given.
    `patterns`: of an algorithm of another package its messages, as
      :class:`themis_opt.schedules.messages.AlgorithmPatterns`.
    """

    steps: Callable[[int, Phase], int]
    blocks: Callable[[int, Phase], int]
    sums: Callable[[int], Fraction]
    links: Callable[[int], int] | None = None
    crossings: Callable[[int], int] = lambda size: size - 1
    patterns: Any = None

    @property
    def on_ring(self) -> "AlgorithmRule":
        """What takes its place where wires join neighbours in a ring, so that blocks for others pass through NPUs.

        Each of the two links of an NPU has half of the bandwidth.  An all-to-all is passed on both ways, whatever the
        algorithm: of the P - 1 blocks of an NPU, at distances up to P / 2, floor(P^2 / 4) cross a wire.
        """

        def steps(size: int, phase: Phase) -> int:
            return size // 2 if phase.rule.data is Data.STAY else self.steps(size, phase)

        def blocks(size: int, phase: Phase) -> int:
            if phase.rule.data is Data.STAY:
                return size**2 // 4
            return size - 1 if phase.rule.rooted else self.crossings(size)

        return replace(self, steps=steps, blocks=blocks, links=lambda size: min(2, size - 1))

    @property
    def shift(self) -> "AlgorithmRule":
        """What takes its place where every NPU sends all it holds to the next one, its neighbour."""
        links = self.links or (lambda size: 1)
        return AlgorithmRule(lambda *_: 1, lambda size, phase: size * links(size), lambda size: Fraction(0), self.links)


@dataclass(frozen=True)
class KindRule:
    """What distinguishes a kind of wires.

    `algorithms`: those it can run, the usual one first (Themis, ISCA 2022, table 1).
    `capacity`: from P to what all links of the dimension carry in one direction, for each NPU in the mean, over the
      bandwidth.
    `is_switched`: whether messages pass a switch, which has a price and a latency.
    `can_reduce`: whether something in it can sum and copy in the place of the NPUs.
    `is_ring`: whether wires join every NPU to the next one, the last one to the first, and to no other.
    `flaw`: from P to what keeps so many NPUs from being wired like that, if anything does.
    `few_npus`: what large dimensions are tried on: a power of two, and what is none.
    """

    algorithms: tuple[Algorithm, ...]
    capacity: Callable[[int], Fraction]
    is_switched: bool = False
    can_reduce: bool = True
    is_ring: bool = False
    flaw: Callable[[int], str | None] = lambda size: None
    few_npus: tuple[int, int] = (2, 3)


def _all_but_one(size: int, phase: Phase) -> int:
    return size - 1


def _levels(size: int, phase: Phase) -> int:
    """Steps of halving-doubling, one where NPUs pass on nothing."""
    return (size - 1).bit_length() if phase.rule.relays else 1


def _adasum_steps(size: int, phase: Phase) -> int:
    levels = _levels(size, phase)
    return levels + (levels * (levels + 1) // 2 if phase.rule.reduces else 0)


def _crossings_of_halving(size: int) -> int:
    """Blocks that cross the wires of a ring in recursive doubling, or in that of Bruck et al.

    Where P is a power of two, P / 2 blocks go to the opposite NPU by either way: P^2 / 4 in all.  Before, P / 4 NPUs
    swap P / 4 blocks each over the wire in the middle of either half; no other wire carries more in all steps.  Else
    min(d, P - d) blocks go as many hops in the step of distance d.
    """
    if size & (size - 1) == 0:
        return 3 * size**2 // 8
    return sum(min(2**level, size - 2**level) ** 2 for level in range(size.bit_length()))


def _relayed_sums(size: int) -> int:
    """Blocks that an NPU of a line adds up: inside it hears from both sides, and the block it holds twice."""
    return size + 1 if size > 2 else size - 1


@cache
def grid(size: int) -> tuple[int, int]:
    """Rows and columns of a `mesh2d` of so many NPUs: the most square, no more rows than columns.

    NPUs are numbered along the first row, back along the second, and so on, so that each is beside the next one.
    """
    rows = next(rows for rows in range(isqrt(size), 0, -1) if size % rows == 0)
    return rows, size // rows


def row_first_share(size: int) -> Fraction:
    """Share of every block that a gather on a `mesh2d` sends along the rows first, the rest along the columns first.

    On R rows and C columns a block that goes along the rows first crosses the last link of a row C - 1 times and that
    of a column (R - 1) C times, one that goes along the columns first (C - 1) R and R - 1 times.  With this share both
    links of a corner carry (R C - 1) / 2 blocks, half of what the NPU there must receive.
    """
    rows, columns = grid(size)
    return Fraction(size - 2 * rows + 1, 2 * (rows - 1) * (columns - 1))


def _mesh2d_blocks(size: int, phase: Phase) -> int:
    """Of an all-to-all by rows, then by columns, what crosses a link in the middle; else what a corner receives."""
    if phase.rule.data is not Data.STAY:
        return size - 1
    rows, columns = grid(size)
    return 2 * max(rows * (columns**2 // 4), columns * (rows**2 // 4))


def _mesh2d_sums(size: int) -> Fraction:
    (rows, columns), share = grid(size), row_first_share(size)
    in_row, in_column = _relayed_sums(columns), _relayed_sums(rows)
    return share * (in_row + columns * in_column) + (1 - share) * (in_column + rows * in_row)


def _mesh2d_capacity(size: int) -> Fraction:
    rows, columns = grid(size)
    return 2 - Fraction(1, rows) - Fraction(1, columns)


def _mesh2d_flaw(size: int) -> str | None:
    return f"{size} NPUs make no grid: use a 'line'" if grid(size)[0] == 1 else None


def _blocks_without_relays(size: int) -> Fraction:
    return Fraction(size - 1)


# The algorithms
ALGORITHM_RULES: Mapping[Algorithm, AlgorithmRule] = {
    Algorithm.RING: AlgorithmRule(_all_but_one, _all_but_one, _blocks_without_relays),
    Algorithm.DIRECT: AlgorithmRule(
        lambda size, phase: 1, _all_but_one, _blocks_without_relays, crossings=lambda size: size**2 // 4
    ),
    Algorithm.HALVING_DOUBLING: AlgorithmRule(
        _levels, _all_but_one, _blocks_without_relays, crossings=_crossings_of_halving
    ),
    Algorithm.ADASUM: AlgorithmRule(
        _adasum_steps, _all_but_one, _blocks_without_relays, crossings=_crossings_of_halving
    ),
    Algorithm.LINE: AlgorithmRule(
        _all_but_one,
        lambda size, phase: size**2 // 4 if phase.rule.data is Data.STAY else size - 1,
        lambda size: Fraction(_relayed_sums(size)),
        links=lambda size: 1,
    ),
    Algorithm.MESH2D: AlgorithmRule(
        lambda size, phase: sum(grid(size)) - 2, _mesh2d_blocks, _mesh2d_sums, links=lambda size: 2
    ),
}
# What takes the place of the algorithm where a switch sums and copies; the busier direction of the link counts
IN_NETWORK = AlgorithmRule(
    lambda size, phase: 1,
    lambda size, phase: size if phase.rule.data is Data.SHRINK else size - 1,
    lambda size: Fraction(0),
)

_EVENLY_WIRED = (Algorithm.DIRECT, Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.ADASUM)


def _usually(usual: Algorithm) -> tuple[Algorithm, ...]:
    return usual, *(algorithm for algorithm in _EVENLY_WIRED if algorithm is not usual)


KIND_RULES: Mapping[Kind, KindRule] = {
    Kind.RING: KindRule(_usually(Algorithm.RING), lambda size: Fraction(1), is_ring=True),
    Kind.FULLY_CONNECTED: KindRule(_usually(Algorithm.DIRECT), lambda size: Fraction(1)),
    Kind.SWITCH: KindRule(_usually(Algorithm.HALVING_DOUBLING), lambda size: Fraction(1), is_switched=True),
    Kind.LINE: KindRule((Algorithm.LINE,), lambda size: Fraction(2 * (size - 1), size), can_reduce=False),
    Kind.MESH2D: KindRule((Algorithm.MESH2D,), _mesh2d_capacity, can_reduce=False, flaw=_mesh2d_flaw, few_npus=(4, 6)),
}
"""The kinds of wires; a line is a ring, and a mesh2d a torus, without their wrap-around."""


def exactly(value: float) -> Fraction:
    """A quantity as documents say it: its shortest decimal."""
    return Fraction(repr(value))


def algorithm_rule(dimension: "Dimension", phase: Phase) -> AlgorithmRule:
    """What a stage does: shifts and switches that sum take the place of the algorithm, and rings pass on its blocks."""
    if dimension.in_network and phase.rule.in_network:
        return IN_NETWORK
    rule = dimension.basic_algorithm.rule
    if dimension.kind.rule.is_ring:
        rule = rule.on_ring
    return rule.shift if phase.rule.shifts else rule


def steps(dimension: "Dimension", phase: Phase) -> int:
    """Steps of a stage.

    Ring and line P-1, a grid of R rows and C columns R+C-2, direct 1, halving-doubling ceil(log2 P): for sizes that are
    no power of two the algorithm of Bruck et al. (1997, https://doi.org/10.1109/71.642949), which sends the same bytes
    in that many steps, and binomial trees from or to a root.  All-to-all takes 1 step, on a line or grid and by
    a ring on other wires as many as the others, and floor(P/2) where the wires are a ring; in-network reduction and
    multicast take 1, and so does a send.

    Adasum (S. Maleki et al., https://arxiv.org/abs/2006.02924) is halving-doubling that, to combine two gradients at
    level l of a reduce-scatter, all-reduces three scalars among the 2**l NPUs that hold them, in l steps more; their
    bytes are left out.
    """
    return algorithm_rule(dimension, phase).steps(dimension.size, phase)


def blocks_sent(dimension: "Dimension", phase: Phase) -> int:
    """Blocks of 1/P of the larger side of the stage that an NPU sends, or the links of the NPU with the fewest."""
    return algorithm_rule(dimension, phase).blocks(dimension.size, phase)


def seconds_to_sum(dimension: "Dimension", phase: Phase) -> Fraction:
    """Seconds for which an NPU adds up for each byte that it sends: what it receives is summed uncompressed."""
    if dimension.reduction is None or not phase.rule.reduces:
        return Fraction(0)
    rule = algorithm_rule(dimension, phase)
    blocks = rule.sums(dimension.size) / rule.blocks(dimension.size, phase)
    return exactly(dimension.compression) / exactly(dimension.reduction) * blocks

"""Collective operations and the phases they consist of: two tables that everything else asks.

A collective runs its phases one after the other; in each of them a chunk visits every dimension of its collective once,
and a visit is a stage.  What a stage costs follows from its phase (:mod:`themis_opt.problem.cost`), what policies,
rules and pictures need to know of a kind follows from its phases.

The phases are those of the algorithms for long messages: all-reduce and reduce begin with a reduce-scatter
(Rabenseifner), all-reduce and broadcast end with an all-gather (van de Geijn); R. Thakur, R. Rabenseifner, W. Gropp,
*Optimization of Collective Communication Operations in MPICH* (2005), https://doi.org/10.1177/1094342005051521.
A send brings to every NPU what its neighbour holds, one further along each dimension: messages of a pipeline, borders
between parts of an image.  Broadcast and reduce have a root: the first NPU of each group that a collective spans, with
coordinate 0 along all its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from themis_opt.base.arrays import BoolArray, IntArray

Blocks = NDArray[Any]
"""What NPUs hold: mostly uint32, whose sums wrap around, so that their order does not matter; float64 for Adasum."""

DimensionSizes = tuple[int, ...]  # NPUs along each dimension of a collective


class Data(Enum):
    """What becomes of the bytes of a chunk on an NPU in a stage on P NPUs."""

    SHRINK = "to 1/P of what they were"
    GROW = "to P times what they were"
    STAY = "as many as they were"


class Phase(IntEnum):
    """What a stage does on its dimension."""

    REDUCE_SCATTER = 0
    SCATTER = 1
    ALL_GATHER = 2
    GATHER = 3
    ALL_TO_ALL = 4
    SEND = 5

    @property
    def rule(self) -> PhaseRule:
        """What distinguishes it from the others."""
        return PHASE_RULES[self]


class CollectiveKind(StrEnum):
    """The collective operations."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SEND = "send"

    @property
    def rule(self) -> CollectiveRule:
        """What distinguishes it from the others."""
        return COLLECTIVE_RULES[self]


@dataclass(frozen=True)
class PhaseRule:
    """What distinguishes a phase.

    `label`: the field's abbreviation.
    `data`: what becomes of the bytes of a chunk; stages that make them grow are drawn lighter.
    `reduces`: whether NPUs sum what they receive.
    `relays`: whether NPUs pass on what others sent, so that halving-doubling takes several steps.
    `in_network`: whether a switch that reduces and multicasts takes part: an NPU sends what it holds, once, in one
      step.
    `rooted`: whether all data come from one NPU of the dimension, the root, or go to it; it is the one that stages wait
      for.
    `shifts`: whether every NPU sends all it holds to its neighbour, whatever the algorithm of the dimension.
    """

    label: str
    data: Data
    reduces: bool
    relays: bool
    in_network: bool
    rooted: bool = False
    shifts: bool = False


PHASE_RULES: Mapping[Phase, PhaseRule] = {
    Phase.REDUCE_SCATTER: PhaseRule("RS", Data.SHRINK, reduces=True, relays=True, in_network=True),
    Phase.SCATTER: PhaseRule("SC", Data.SHRINK, reduces=False, relays=True, in_network=False, rooted=True),
    Phase.ALL_GATHER: PhaseRule("AG", Data.GROW, reduces=False, relays=True, in_network=True),
    Phase.GATHER: PhaseRule("GA", Data.GROW, reduces=False, relays=True, in_network=False, rooted=True),
    Phase.ALL_TO_ALL: PhaseRule("A2A", Data.STAY, reduces=False, relays=False, in_network=False),
    Phase.SEND: PhaseRule("P2P", Data.STAY, reduces=False, relays=False, in_network=False, shifts=True),
}
"""The phases."""


class Ends(Enum):
    """Which NPUs are at one end of the data of a collective."""

    ALL = "all of them together: as sources of a sum, as targets of copies"
    EACH = "each of them, with a share of its own"
    ROOT = "the root"


@dataclass(frozen=True)
class Demand:
    """What must reach whom, whatever the network: the sources of the data, and their targets."""

    sources: Ends
    targets: Ends

    @property
    def sums(self) -> bool:
        """Whether NPUs contribute to sums."""
        return self.sources is Ends.ALL

    @property
    def copies(self) -> bool:
        """Whether all NPUs want the same data."""
        return self.targets is Ends.ALL

    @property
    def sums_for_all(self) -> bool:
        """Whether all NPUs want sums of what all have."""
        return self.sums and self.copies

    @property
    def is_backwards(self) -> bool:
        """Whether it is a gather or a broadcast backwards: sums that one NPU wants."""
        return self.sums and not self.copies

    @property
    def rooted(self) -> bool:
        """Whether one end is the root."""
        return Ends.ROOT in (self.sources, self.targets)

    @property
    def divided(self) -> bool:
        """Whether every NPU has a share of the data."""
        return Ends.EACH in (self.sources, self.targets)

    @property
    def personal(self) -> bool:
        """Whether every pair of NPUs has data of its own."""
        return self.sources is self.targets is Ends.EACH


Halves = tuple[CollectiveKind, CollectiveKind]  # a kind that scatters and one that gathers


@dataclass(frozen=True)
class CollectiveRule:
    """What distinguishes a collective.

    `phases`: in the order a chunk goes through them.
    `outcome`: its definition: from what NPUs hold in the beginning, shape (NPUs, blocks), and the sizes of its
      dimensions, to what they must hold in the end; the root is the first of them, and the only row where no other NPU
      must hold anything.
    `demand`: what must reach whom; None if that follows from the dimensions alone.
    `mirror`: the kind that is this one backwards: its sources want what its targets have.
    `halves`: the kinds that do the same one after the other, if it may be launched in halves.
    `urgent`: whether a training iteration serves it before others by default.
    """

    phases: tuple[Phase, ...]
    outcome: Callable[[Blocks, DimensionSizes], Blocks]
    demand: Demand | None = None
    mirror: CollectiveKind | None = None
    halves: Halves | None = None
    urgent: bool = False

    @property
    def opens(self) -> bool:
        """Whether a chunk has most bytes at first, and leaves some behind at every stage of its first phase."""
        return self.phases[0].rule.data is Data.SHRINK

    @property
    def closes(self) -> bool:
        """Whether a chunk has most bytes at last, and gains some at every stage of its last phase."""
        return self.phases[-1].rule.data is Data.GROW

    @property
    def mirrors(self) -> bool:
        """Whether its gather order is its scatter order reversed where an instance asks for that."""
        return self.opens and self.closes

    @property
    def order_matters(self) -> bool:
        """Whether the bytes of a stage depend on the order of the dimensions."""
        return any(phase.rule.data is not Data.STAY for phase in self.phases)

    def bus_share(self, num_npus: int) -> Fraction:
        """Bus bandwidth over algorithm bandwidth (nccl-tests): (n - 1) / n for each phase, 1 with a root or to send."""
        if any(phase.rule.rooted or phase.rule.shifts for phase in self.phases):
            return Fraction(1)
        return Fraction(len(self.phases) * (num_npus - 1), num_npus)

    def crossing_share(
        self, num_groups: int, num_npus: int, *, multicast: bool = False, mean: bool = True, receives: bool = False
    ) -> Fraction:
        """Least bytes that an NPU exchanges with other groups, whatever the algorithm, over the size of the collective.

        :mod:`themis_opt.solving.cut` derives it.

        `num_groups`: groups of equal size into which the NPUs are divided.
        `num_npus`: NPUs of each group.
        `multicast`: whether switches between the groups sum and copy, so that what an NPU sends to all of them, or
          receives of all, counts once.
        `mean`: in the mean over all groups what they send, or of one group what it sends or receives.
        `receives`: in the mean what they receive; it differs from what they send with `multicast` alone.
        """
        if num_groups == 1:
            return Fraction(0)
        rooted = any(phase.rule.rooted for phase in self.phases)
        share = Fraction(num_groups - 1, num_groups)
        if mean:
            share *= 1 if rooted else len(self.phases)
        elif len(self.phases) > 1:
            share = Fraction(1)  # it ends with all there is, or what it has ends elsewhere
        once = [phase.rule.data for phase in self.phases if phase.rule.in_network]
        if multicast and mean and once:
            many = Data.GROW if receives else Data.SHRINK
            share = sum((Fraction(num_groups - 1 if data is many else 1, num_groups) for data in once), Fraction(0))
        return share / num_npus if self.order_matters else share


def _sum(initial: Blocks) -> Blocks:
    total: Blocks = initial.sum(axis=0, dtype=initial.dtype)
    return total


def _send(initial: Blocks, sizes: DimensionSizes) -> Blocks:
    """Along every dimension from the neighbour before; the first NPU there keeps its block."""
    held = initial.reshape(*sizes, -1)
    for axis, size in enumerate(sizes):
        held = held.take(np.maximum(np.arange(size) - 1, 0), axis=axis)
    return held.reshape(initial.shape)


COLLECTIVE_RULES: Mapping[CollectiveKind, CollectiveRule] = {
    CollectiveKind.ALL_REDUCE: CollectiveRule(
        (Phase.REDUCE_SCATTER, Phase.ALL_GATHER),
        lambda initial, sizes: np.broadcast_to(_sum(initial), initial.shape),
        Demand(Ends.ALL, Ends.ALL),
        CollectiveKind.ALL_REDUCE,
        halves=(CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER),
    ),
    CollectiveKind.REDUCE_SCATTER: CollectiveRule(
        (Phase.REDUCE_SCATTER,),
        lambda initial, sizes: _sum(initial)[:, None],
        Demand(Ends.ALL, Ends.EACH),
        CollectiveKind.ALL_GATHER,
    ),
    CollectiveKind.ALL_GATHER: CollectiveRule(
        (Phase.ALL_GATHER,),
        lambda initial, sizes: np.broadcast_to(initial[:, 0], (len(initial), len(initial))),
        Demand(Ends.EACH, Ends.ALL),
        CollectiveKind.REDUCE_SCATTER,
    ),
    CollectiveKind.ALL_TO_ALL: CollectiveRule(
        (Phase.ALL_TO_ALL,),
        lambda initial, sizes: initial.T,
        Demand(Ends.EACH, Ends.EACH),
        CollectiveKind.ALL_TO_ALL,
        urgent=True,
    ),
    CollectiveKind.BROADCAST: CollectiveRule(
        (Phase.SCATTER, Phase.ALL_GATHER),
        lambda initial, sizes: np.broadcast_to(initial[0], initial.shape),
        Demand(Ends.ROOT, Ends.ALL),
        CollectiveKind.REDUCE,
    ),
    CollectiveKind.REDUCE: CollectiveRule(
        (Phase.REDUCE_SCATTER, Phase.GATHER),
        lambda initial, sizes: _sum(initial)[None],
        Demand(Ends.ALL, Ends.ROOT),
        CollectiveKind.BROADCAST,
    ),
    CollectiveKind.SEND: CollectiveRule((Phase.SEND,), _send),
}
"""The collectives."""


def growing(phases: IntArray) -> BoolArray:
    """Whether the data of each of some stages grow, by their phases."""
    return np.isin(phases, [phase for phase in Phase if phase.rule.data is Data.GROW])

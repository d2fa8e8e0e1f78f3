r"""Ports: which resource of the network a stage holds.

A stage holds its dimension, and in most networks each dimension is one resource.  A switch that sums and copies
(`in_network`) on P NPUs takes m bytes from an NPU in a reduce-scatter and returns :math:`m / P`; in an all-gather it
takes :math:`m / P` and returns the :math:`m (P - 1) / P` of the others.  Links are full duplex, so a reduce-scatter of
one chunk and an all-gather of another overlap: the first holds the port *out*, the second the port *in*.

What goes the other way must fit as well.  If a reduce-scatter lasts for a m bytes and an all-gather for b m bytes, then
while both are under way out carries :math:`1 / a + 1 / (b P)` of its bandwidth, and in
:math:`1 / (a P) + (P - 1) / (P b)`.  Neither is above 1 with :math:`a = b = 1 + 1 / P`, the least of their maxima.

Where other stages need both directions, or all go one way, such a dimension is one resource and costs what its busier
direction carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from themis_opt.base.arrays import IntArray, read_only
from themis_opt.problem.phases import Data, Phase

if TYPE_CHECKING:
    from themis_opt.problem.network import Dimension


@dataclass(frozen=True, eq=False)
class Ports:
    """The resources of a network.

    `names`: one per resource.
    `resource`, shape (phases, dimensions): what a stage holds.
    `against`: per dimension, what its stages carry against their direction over what they carry along it, where the two
      directions are two resources; else 0.
    `is_plain`: whether each dimension is one resource, with its number.
    """

    names: tuple[str, ...]
    resource: IntArray
    against: tuple[Fraction, ...]
    is_plain: bool

    @cached_property
    def lanes(self) -> tuple[tuple[int, int], ...]:
        """Dimensions, each with every resource that its stages hold: the rows of pictures."""
        return tuple((k, r) for k, column in enumerate(self.resource.T) for r in np.unique(column).tolist())


def ports_of(
    dimensions: Sequence[Dimension], names: Sequence[str], links: Sequence[int], visits: Iterable[tuple[Phase, int]]
) -> Ports:
    """The resources of dimensions.

    `links`: per dimension the number of its link; those that share one have the same.
    `visits`: what stages do anywhere.
    """
    phases: list[set[Phase]] = [set() for _ in range(max(links) + 1)]
    for phase, k in visits:
        phases[links[k]].add(phase)
    members = [[k for k, other in enumerate(links) if other == link] for link in range(len(phases))]
    labels = ["+".join(names[k] for k in joined) for joined in members]
    resource, against = np.tile(np.array(links), (len(Phase), 1)), [Fraction(0)] * len(links)
    growing = [phase for phase in Phase if phase.rule.data is Data.GROW]
    for link, joined in enumerate(members):
        if _has_two_ports([dimensions[k] for k in joined], phases[link]):
            fewest = min(dimensions[k].size for k in joined)
            for k in joined:
                resource[growing, k], against[k] = len(labels), Fraction(1, fewest)
            labels[link], label = f"{labels[link]} out", f"{labels[link]} in"
            labels.append(label)
    is_plain = len(labels) == len(links) and not any(against)
    return Ports(tuple(labels), read_only(resource), tuple(against), is_plain)


def _has_two_ports(dimensions: Sequence[Dimension], phases: set[Phase]) -> bool:
    """Whether switches sum and copy for all stages on a link, and these go both ways."""
    in_network = all(d.in_network for d in dimensions) and all(phase.rule.in_network for phase in phases)
    return in_network and {phase.rule.data for phase in phases} >= {Data.SHRINK, Data.GROW}

"""What the basic algorithm of a dimension does in a stage: steps, blocks that are sent, and sums."""

import math
from fractions import Fraction

from themis_opt.problem.network import Algorithm, Dimension
from themis_opt.problem.phases import Data, Phase


def exactly(value: float) -> Fraction:
    """A quantity as documents say it: its shortest decimal."""
    return Fraction(repr(value))


def steps(dimension: Dimension, phase: Phase) -> int:
    """Steps of the basic algorithm.

    Ring and line P-1, direct 1, halving-doubling ceil(log2 P): for sizes that are no power of two the algorithm of
    Bruck et al. (1997, https://doi.org/10.1109/71.642949), which sends the same bytes in that many steps, and
    binomial trees from or to a root.  All-to-all takes 1 step, on a ring or line P-1; in-network reduction and
    multicast take 1, and so does a send.

    Adasum (S. Maleki et al., https://arxiv.org/abs/2006.02924) is halving-doubling that, to combine two gradients at
    level l of a reduce-scatter, all-reduces three scalars among the 2**l NPUs that hold them, in l steps more; their
    bytes are left out.
    """
    algorithm = dimension.basic_algorithm
    if phase.rule.shifts or (dimension.in_network and phase.rule.in_network):
        return 1
    if algorithm in (Algorithm.RING, Algorithm.LINE):
        return dimension.size - 1
    if algorithm is Algorithm.DIRECT or not phase.rule.relays:
        return 1
    levels = math.ceil(math.log2(dimension.size))
    scalars = levels * (levels + 1) // 2 if algorithm is Algorithm.ADASUM and phase.rule.reduces else 0
    return levels + scalars


def blocks_sent(dimension: Dimension, phase: Phase) -> int:
    """Blocks of 1/P of the larger side of the stage that an NPU, or the busiest link of a line, sends."""
    if phase.rule.shifts:
        return dimension.size
    if dimension.basic_algorithm is Algorithm.LINE and phase.rule.data is Data.STAY:
        return dimension.size**2 // 4
    if not (dimension.in_network and phase.rule.in_network):
        return dimension.size - 1
    return dimension.size if phase.rule.data is Data.SHRINK else 1


def seconds_to_sum(dimension: Dimension, phase: Phase) -> Fraction:
    """Seconds for which an NPU adds up for each byte that it sends: it receives as many, and sums them uncompressed.

    On a line the busiest NPU receives P + 1 blocks, two of them of its own, where its busiest link carries P - 1.
    """
    if dimension.reduction is None or not phase.rule.reduces or (dimension.in_network and phase.rule.in_network):
        return Fraction(0)
    size = dimension.size
    inside_line = dimension.basic_algorithm is Algorithm.LINE and size > 2
    blocks = Fraction(size + 1, size - 1) if inside_line else 1
    return exactly(dimension.compression) / exactly(dimension.reduction) * blocks

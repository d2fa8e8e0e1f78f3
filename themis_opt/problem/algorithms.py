"""What the basic algorithm of a dimension does in a stage: steps, blocks that are sent, and sums."""

from fractions import Fraction

from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import Phase
from themis_opt.problem.wiring import ALGORITHM_RULES, IN_NETWORK, AlgorithmRule


def exactly(value: float) -> Fraction:
    """A quantity as documents say it: its shortest decimal."""
    return Fraction(repr(value))


def algorithm_rule(dimension: Dimension, phase: Phase) -> AlgorithmRule:
    """What a stage does: a shift and a switch that sums take the place of the algorithm."""
    if dimension.in_network and phase.rule.in_network:
        return IN_NETWORK
    rule = ALGORITHM_RULES[dimension.basic_algorithm]
    return rule.shift if phase.rule.shifts else rule


def steps(dimension: Dimension, phase: Phase) -> int:
    """Steps of a stage.

    Ring and line P-1, a grid of R rows and C columns R+C-2, direct 1, halving-doubling ceil(log2 P): for sizes that are
    no power of two the algorithm of Bruck et al. (1997, https://doi.org/10.1109/71.642949), which sends the same bytes
    in that many steps, and binomial trees from or to a root.  All-to-all takes 1 step, as many as the others on a ring,
    line or grid; in-network reduction and multicast take 1, and so does a send.

    Adasum (S. Maleki et al., https://arxiv.org/abs/2006.02924) is halving-doubling that, to combine two gradients at
    level l of a reduce-scatter, all-reduces three scalars among the 2**l NPUs that hold them, in l steps more; their
    bytes are left out.
    """
    return algorithm_rule(dimension, phase).steps(dimension.size, phase)


def blocks_sent(dimension: Dimension, phase: Phase) -> int:
    """Blocks of 1/P of the larger side of the stage that an NPU sends, or the links of the NPU with the fewest."""
    return algorithm_rule(dimension, phase).blocks(dimension.size, phase)


def seconds_to_sum(dimension: Dimension, phase: Phase) -> Fraction:
    """Seconds for which an NPU adds up for each byte that it sends: what it receives is summed uncompressed."""
    if dimension.reduction is None or not phase.rule.reduces:
        return Fraction(0)
    rule = algorithm_rule(dimension, phase)
    blocks = rule.sums(dimension.size) / rule.blocks(dimension.size, phase)
    return exactly(dimension.compression) / exactly(dimension.reduction) * blocks

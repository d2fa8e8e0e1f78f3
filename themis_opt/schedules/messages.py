"""Stages as messages: who sends which block to whom in every step of an algorithm, for all that execute schedules."""

from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError
from themis_opt.problem.network import Algorithm, Dimension
from themis_opt.problem.phases import Data, Phase
from themis_opt.schedules.data_movement import Tree, exchange_pattern, gather_pattern, line, rooted_tree


class Messages(NamedTuple):
    """The messages of one step, int64 arrays of shape (messages,).

    Attributes
    ----------
    source, target : int64 array
        NPUs of the dimension.
    block : int64 array
        Number of the block along the dimension; in an all-to-all the target keeps it under the number of the source.
    """

    source: IntArray
    target: IntArray
    block: IntArray


def stage_messages(phase: Phase, dimension: Dimension) -> list[Messages]:
    """The steps of a stage.

    No message of a step needs what another message of that step brings.

    Raises
    ------
    InputError
        If a switch takes part, or NPUs pass on what others sent to others, as in an all-to-all on a line.
    """
    if dimension.in_network and phase.rule.in_network:
        raise InputError("a switch that sums and copies sends no messages between NPUs", field="in_network", value=True)
    return algorithm_messages(phase, dimension.basic_algorithm, dimension.size)


def algorithm_messages(phase: Phase, algorithm: Algorithm, size: int) -> list[Messages]:
    """The steps of a stage of an algorithm on so many NPUs.

    Raises
    ------
    InputError
        If NPUs pass on what others sent to others.
    """
    rule = phase.rule
    if rule.rooted:
        return _along(rooted_tree(algorithm, size), rule.data)
    exchanged = rule.data is Data.STAY
    if algorithm is Algorithm.LINE:
        if exchanged:
            raise InputError("an all-to-all on a line has no messages of blocks", field="algorithm", value=algorithm)
        return _along(line(size), rule.data)
    pattern = (exchange_pattern if exchanged else gather_pattern)(algorithm, size)
    steps = []
    for number in range(pattern.num_steps):
        parts = [_flat(target, blocks) for target, blocks in pattern.messages(number)]
        steps.append(Messages(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))))
    if rule.data is Data.SHRINK:  # a reduce-scatter is the mirror image of the all-gather
        return [Messages(step.target, step.source, step.block) for step in reversed(steps)]
    return steps


def _flat(target: IntArray, blocks: IntArray) -> Messages:
    """One message per block, from arrays of shape (NPUs, 1) and (NPUs, blocks)."""
    target, blocks = np.broadcast_arrays(target, blocks)
    source = np.broadcast_to(np.arange(len(blocks))[:, None], blocks.shape)
    return Messages(source.ravel(), target.ravel(), blocks.ravel())


def _along(tree: Tree, data: Data) -> list[Messages]:
    """What is passed on in a gather, or turned round in what is its mirror image."""
    steps = [tree.hops(number) for number in range(tree.num_steps)]
    if data is Data.GROW:
        return [Messages(step.child, step.parent, step.block) for step in steps]
    return [Messages(step.parent, step.child, step.block) for step in reversed(steps)]

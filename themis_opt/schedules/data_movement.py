r"""Basic collectives along one dimension, message by message, on real arrays.

Blocks live in a tensor with one axis per dimension: the reduce-scatter on a dimension leaves every NPU the
block of its own coordinate along that axis, the all-gather brings the others back.  Each algorithm is written
once, as an all-gather; its reduce-scatter is the mirror image, with the steps and the messages turned round
and sums in the place of copies.  So recursive doubling becomes recursive halving.
Scatter and gather are mirror images too, along a tree whose root is the first NPU of the dimension.
On a line blocks go hop by hop to both sides, and what counts is its busiest link.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from themis_opt.base.arrays import IntArray
from themis_opt.problem.network import Algorithm, Dimension
from themis_opt.problem.phases import Data, Phase
from themis_opt.schedules import adasum

Tensor = NDArray[Any]
"""Mostly uint32, whose arithmetic wraps around, so that sums do not depend on their order; float64 for Adasum."""


class Message(NamedTuple):
    """What every NPU of a dimension sends at once.

    Attributes
    ----------
    target : int64 array, shape (NPUs, 1)
        To whom: every NPU hears from one other.
    blocks : int64 array, shape (NPUs, blocks)
        Which of the blocks along the dimension.
    """

    target: IntArray
    blocks: IntArray


class Pattern(NamedTuple):
    """A basic algorithm: its steps, and the messages of each.

    No message of a step needs what another message of that step brings.
    """

    num_steps: int
    messages: Callable[[int], Iterable[Message]]


class Hops(NamedTuple):
    """What NPUs pass on at once in a gather, towards the root if there is one, int64 arrays of shape (messages,)."""

    child: IntArray
    parent: IntArray
    block: IntArray


class Tree(NamedTuple):
    """A basic algorithm hop by hop: its steps, what is passed on in each, and whether its busiest link counts."""

    num_steps: int
    hops: Callable[[int], Hops]
    by_link: bool = False

    @property
    def busiest(self) -> int:
        """Blocks that the busiest NPU sends, or receives where that is more; or those of the busiest link."""
        steps = [self.hops(step) for step in range(self.num_steps)]
        if self.by_link:
            links = np.concatenate([np.stack([own.child, own.parent]) for own in steps], axis=1)
            return int(np.unique(links, axis=1, return_counts=True)[1].max())
        ends = (np.concatenate(ends) for ends in ([own.child for own in steps], [own.parent for own in steps]))
        return max(int(np.bincount(npus).max()) for npus in ends)


class Traffic(NamedTuple):
    """Steps of a stage, and blocks sent in it: by the busiest NPU or link, or by all together if all sent as many."""

    num_steps: int
    num_blocks: int


def gather_pattern(algorithm: Algorithm, size: int) -> Pattern:
    """The all-gather of an algorithm on `size` NPUs."""
    if algorithm is Algorithm.RING:
        return Pattern(size - 1, partial(_ring, size))
    if algorithm is Algorithm.DIRECT:
        return Pattern(1, partial(_direct, size))
    is_power_of_two = size & (size - 1) == 0
    return Pattern((size - 1).bit_length(), partial(_doubling if is_power_of_two else _bruck, size))


def rooted_tree(algorithm: Algorithm, size: int) -> Tree:
    """The gather of an algorithm on `size` NPUs: along the ring or line, to the root at once, or by a binomial tree.

    R. Thakur, R. Rabenseifner, W. Gropp, *Optimization of Collective Communication Operations in MPICH* (2005),
    https://doi.org/10.1177/1094342005051521.
    """
    if algorithm in (Algorithm.RING, Algorithm.LINE):
        return Tree(size - 1, partial(_along_ring, size), by_link=algorithm is Algorithm.LINE)
    if algorithm is Algorithm.DIRECT:
        return Tree(1, partial(_to_root, size))
    return Tree((size - 1).bit_length(), partial(_binomial, size))


def line(size: int) -> Tree:
    """The all-gather on a line of `size` NPUs."""
    return Tree(size - 1, partial(_along_line, size), by_link=True)


def exchange_pattern(algorithm: Algorithm, size: int) -> Pattern:
    """The all-to-all of an algorithm on `size` NPUs: pairwise steps on a ring, else one step."""
    if algorithm is Algorithm.RING:
        return Pattern(size - 1, lambda step: [_to_distance(size, step + 1)])
    return Pattern(1, lambda step: (_to_distance(size, distance) for distance in range(1, size)))


def move(state: Tensor, axis: int, phase: Phase, dimension: Dimension) -> tuple[Tensor, Traffic]:
    """Run one stage on all NPUs.

    Parameters
    ----------
    state : array, shape (NPUs along each dimension, blocks along each dimension)
        What every NPU holds.
    axis : int
        Position of the dimension among the axes.
    phase : Phase
        Where data grow it needs one block along the axis, else one per NPU.
    dimension : Dimension
        Its algorithm, and whether its switch reduces and multicasts; the size comes from `state`.

    Returns
    -------
    tuple of array and Traffic
        The new state, and what one NPU sent.
    """
    num_axes = state.ndim // 2
    pair = (axis, num_axes + axis)
    paired = np.moveaxis(state, pair, (0, 1))
    others = math.prod(state.shape[:num_axes]) // len(paired)
    tensor, traffic = _operation(phase, dimension, len(paired), others)(paired.copy().reshape(*paired.shape[:2], -1))
    moved = np.moveaxis(tensor.reshape(*tensor.shape[:2], *paired.shape[2:]), (0, 1), pair)
    return moved, Traffic(traffic.num_steps, traffic.num_blocks // math.prod(state.shape[:num_axes]))


def _operation(
    phase: Phase, dimension: Dimension, size: int, others: int
) -> Callable[[Tensor], tuple[Tensor, Traffic]]:
    """What to do with an array of shape (NPUs, blocks, all the rest), which it may overwrite."""
    rule, algorithm = Phase(phase).rule, dimension.basic_algorithm
    if rule.shifts:
        return _send
    if rule.rooted:
        rooted = {Data.SHRINK: _scatter, Data.GROW: _gather}
        return partial(rooted[rule.data], rooted_tree(algorithm, size))
    if dimension.in_network and rule.in_network:
        return {Data.SHRINK: _switch_reduces, Data.GROW: _switch_multicasts}[rule.data]
    if algorithm is Algorithm.LINE:
        on_line = {Data.STAY: _all_to_all_on_line, Data.SHRINK: _reduce_scatter_on_line, Data.GROW: _all_gather_on_line}
        return on_line[rule.data]
    if rule.data is Data.STAY:
        return partial(_all_to_all, exchange_pattern(algorithm, size))
    scatter = partial(_reduce_scatter_of_pairs, others) if algorithm is Algorithm.ADASUM else _reduce_scatter
    run = {Data.SHRINK: scatter, Data.GROW: _all_gather}[rule.data]
    return partial(run, gather_pattern(algorithm, size))


def _reduce_scatter(pattern: Pattern, sums: Tensor) -> tuple[Tensor, Traffic]:
    """Add up along the mirrored messages; the counts are of all NPUs together."""
    npus, num_sent = _ranks(len(sums)), 0
    for step in reversed(range(pattern.num_steps)):
        for target, blocks in pattern.messages(step):
            packet = sums[target, blocks]
            sums[npus, blocks] += packet
            num_sent += packet.size
    return sums[npus, npus], Traffic(pattern.num_steps, num_sent)


def _reduce_scatter_of_pairs(others: int, pattern: Pattern, sums: Tensor) -> tuple[Tensor, Traffic]:
    """The messages of halving with the rule of Adasum: at level l products are all-reduced in l steps more."""
    npus, num_sent = _ranks(len(sums)), 0
    for step in reversed(range(pattern.num_steps)):
        for target, blocks in pattern.messages(step):
            own, packet, distance = sums[npus, blocks], sums[target, blocks], 2**step
            is_near = (npus & distance == 0)[:, :, None]
            pair = np.where(is_near, own, packet), np.where(is_near, packet, own)
            sums[npus, blocks] = adasum.level(*pair, distance, others)
            num_sent += packet.size
    levels = range(1, pattern.num_steps + 1)
    return sums[npus, npus], Traffic(pattern.num_steps + sum(levels), num_sent)


def _all_gather(pattern: Pattern, own: Tensor) -> tuple[Tensor, Traffic]:
    """Copy along the messages; what was never received stays zero."""
    npus, num_sent = _ranks(len(own)), 0
    gathered = np.zeros((len(own), len(own), own.shape[2]), dtype=own.dtype)
    gathered[npus, npus] = own
    for step in range(pattern.num_steps):
        for target, blocks in pattern.messages(step):
            packet = gathered[npus, blocks]
            gathered[target, blocks] = packet
            num_sent += packet.size
    return gathered, Traffic(pattern.num_steps, num_sent)


def _all_to_all(pattern: Pattern, sent: Tensor) -> tuple[Tensor, Traffic]:
    """Send every other NPU its block, to be stored as the block of the sender."""
    npus, num_sent = _ranks(len(sent)), 0
    received = sent.copy()
    for step in range(pattern.num_steps):
        for target, blocks in pattern.messages(step):
            packet = sent[npus, blocks]
            received[target, npus] = packet
            num_sent += packet.size
    return received, Traffic(pattern.num_steps, num_sent)


def _send(held: Tensor) -> tuple[Tensor, Traffic]:
    """Send everything to the next NPU, as if the last one sent as much; the first one keeps its own."""
    before = np.maximum(np.arange(len(held)) - 1, 0)
    return held[before], Traffic(1, held.size)


def _scatter(tree: Tree, whole: Tensor) -> tuple[Tensor, Traffic]:
    """Copy the blocks of the root away from it; what the others held is lost."""
    npus, held = _ranks(len(whole)), whole
    for step in reversed(range(tree.num_steps)):
        child, parent, block = tree.hops(step)
        held[child, block] = held[parent, block]
    return held[npus, npus], _rooted_traffic(tree, held)


def _gather(tree: Tree, own: Tensor) -> tuple[Tensor, Traffic]:
    """Copy the blocks of all to the root, or on a line to all; others keep what came by."""
    npus = _ranks(len(own))
    gathered = np.zeros((len(own), len(own), own.shape[2]), dtype=own.dtype)
    gathered[npus, npus] = own
    for step in range(tree.num_steps):
        child, parent, block = tree.hops(step)
        gathered[parent, block] = gathered[child, block]
    return gathered, _rooted_traffic(tree, gathered)


def _all_gather_on_line(own: Tensor) -> tuple[Tensor, Traffic]:
    """Copy every block hop by hop to both sides."""
    return _gather(line(len(own)), own)


def _reduce_scatter_on_line(sums: Tensor) -> tuple[Tensor, Traffic]:
    """Add up hop by hop along the mirrored all-gather."""
    npus, tree = _ranks(len(sums)), line(len(sums))
    for step in reversed(range(tree.num_steps)):
        child, parent, block = tree.hops(step)
        np.add.at(sums, (child, block), sums[parent, block])  # an NPU may hear from both sides at once
    return sums[npus, npus], _rooted_traffic(tree, sums)


def _all_to_all_on_line(sent: Tensor) -> tuple[Tensor, Traffic]:
    """Pass on to the next NPU of both sides, in every step, all that has not arrived."""
    size, received = len(sent), sent.copy()
    carried = np.zeros((2, size), dtype=np.int64)
    mirror = (slice(None, None, -1),) * 2
    for side, passing, arrived in ((0, sent, received), (1, sent[mirror], received[mirror])):
        for step in range(1, size):
            passing = passing[:-1]  # of the NPU that has no next one
            origin = np.arange(size - step)
            arrived[origin + step, origin] = passing[origin, origin + step]
            carried[side, origin + step] += size - step - origin
    return received, Traffic(size - 1, int(carried.max()) * size * sent.shape[2])


def _rooted_traffic(tree: Tree, held: Tensor) -> Traffic:
    """As if every NPU were as busy as the busiest one, or as the busiest link."""
    return Traffic(tree.num_steps, tree.busiest * len(held) * held.shape[2])


def _switch_reduces(held: Tensor) -> tuple[Tensor, Traffic]:
    """Send everything to the switch, which returns to each NPU the sum of its block."""
    return held.sum(axis=0, dtype=held.dtype)[:, None], Traffic(1, held.size)


def _switch_multicasts(own: Tensor) -> tuple[Tensor, Traffic]:
    """Send the own block to the switch, which copies it to all."""
    return np.repeat(own[None, :, 0], len(own), axis=0), Traffic(1, own.size)


def _ranks(size: int) -> IntArray:
    return np.arange(size)[:, None]


def _ring(size: int, step: int) -> Iterator[Message]:
    """Pass on to the next NPU the block that came last, the own one first."""
    npus = _ranks(size)
    yield Message((npus + 1) % size, (npus - step) % size)


def _direct(size: int, step: int) -> Iterator[Message]:
    """Send the own block to everybody."""
    npus = _ranks(size)
    return (Message((npus + distance) % size, npus) for distance in range(1, size))


def _doubling(size: int, step: int) -> Iterator[Message]:
    """Recursive doubling: swap all blocks with the NPU whose number differs in bit `step`."""
    npus, distance = _ranks(size), 2**step
    yield Message(npus ^ distance, npus // distance * distance + np.arange(distance))


def _bruck(size: int, step: int) -> Iterator[Message]:
    """Any size (Bruck et al. 1997, https://doi.org/10.1109/71.642949): double, and send in the last step the rest.

    Before the step an NPU holds its own and the following blocks, `distance` in all.
    """
    npus, distance = _ranks(size), 2**step
    count = min(distance, size - distance)
    yield Message((npus - distance) % size, (npus + np.arange(count)) % size)


def _to_distance(size: int, distance: int) -> Message:
    """Send the NPU at a distance the block meant for it."""
    target = (_ranks(size) + distance) % size
    return Message(target, target)


def _along_ring(size: int, step: int) -> Hops:
    """Pass on to the previous NPU, none beyond the root, the block that came last, the own one first."""
    child = np.arange(1, size - step)
    return Hops(child, child - 1, child + step)


def _along_line(size: int, step: int) -> Hops:
    """Pass on to both neighbours the block that came last from the other one, the own one first."""
    right, left = np.arange(step, size - 1), np.arange(1, size - step)
    child = np.concatenate([right, left])
    return Hops(child, np.concatenate([right + 1, left - 1]), np.concatenate([right - step, left + step]))


def _to_root(size: int, step: int) -> Hops:
    """Send the own block to the root."""
    child = np.arange(1, size)
    return Hops(child, np.zeros_like(child), child)


def _binomial(size: int, step: int) -> Hops:
    """Join neighbouring groups of 2**`step` NPUs in pairs: the first of a group sends all blocks of the group."""
    distance, block = 2**step, np.arange(size)
    block = block[block // distance % 2 == 1]
    child = block // distance * distance
    return Hops(child, child - distance, block)

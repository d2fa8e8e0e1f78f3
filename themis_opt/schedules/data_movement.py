"""Stages on real arrays: the messages of a stage move the blocks of all NPUs.

Blocks live in a tensor with one axis per dimension: the reduce-scatter on a dimension leaves every NPU the block of its
coordinate along that axis, the all-gather brings the others back.  Who sends what to whom is said by
:mod:`themis_opt.schedules.messages` alone, so that what is proven here is what runtimes and exports send.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import Blocks, Data, Phase
from themis_opt.problem.wiring import Algorithm
from themis_opt.schedules import adasum
from themis_opt.schedules.messages import Messages, Pattern, stage_ways
from themis_opt.schedules.port_traffic import port_blocks


class Traffic(NamedTuple):
    """Steps of a stage, and blocks at its busiest port, over the part of the bandwidth that the port has."""

    num_steps: int
    num_blocks: int | Fraction


def move(state: Blocks, axis: int, phase: Phase, dimension: Dimension) -> tuple[Blocks, Traffic]:
    """Run one stage on all NPUs.

    Returns the new state, and what one NPU sent.

    `state`, shape (NPUs along each dimension, blocks along each dimension): what every NPU holds.
    `axis`: position of the dimension among the axes.
    `phase`: where data grow it needs one block along the axis, else one per NPU.
    `dimension`: its algorithm, and whether its switch reduces and multicasts; the size comes from `state`.
    """
    num_axes = state.ndim // 2
    pair = (axis, num_axes + axis)
    paired = np.moveaxis(state, pair, (0, 1))
    others = math.prod(state.shape[:num_axes]) // len(paired)
    held = paired.copy().reshape(*paired.shape[:2], -1)
    after, traffic = _run(held, Phase(phase), dimension, others)
    moved = np.moveaxis(after.reshape(*after.shape[:2], *paired.shape[2:]), (0, 1), pair)
    return moved, Traffic(traffic.num_steps, traffic.num_blocks * (held.shape[2] // others))


def _run(held: Blocks, phase: Phase, dimension: Dimension, others: int) -> tuple[Blocks, Traffic]:
    """A stage on an array of shape (NPUs, blocks, all the rest), which it may overwrite; traffic for a rest of one."""
    size, rule, algorithm = len(held), phase.rule, dimension.basic_algorithm
    if dimension.in_network and rule.in_network:
        return _through_switch(held, rule.data), Traffic(1, max(port_blocks(phase, dimension, size).values()))
    ways = stage_ways(phase, dimension.kind, algorithm, size)
    num_steps = max(way.pattern.num_steps for way in ways)
    num_blocks = max(port_blocks(phase, dimension, size).values())
    if algorithm is Algorithm.ADASUM and rule.reduces:
        scalars = sum(range(1, num_steps + 1))  # at level l products are all-reduced in l steps more
        return _reduced_by_pairs(held, ways[0].pattern, others), Traffic(num_steps + scalars, num_blocks)
    results = [_moved(held.copy(), phase, way.pattern) for way in ways]
    return _agreed(results), Traffic(num_steps, num_blocks)


def _through_switch(held: Blocks, data: Data) -> Blocks:
    """Send all to the switch, which returns to each NPU the sum of its block, or copies every block to all."""
    if data is Data.SHRINK:
        summed: Blocks = held.sum(axis=0, dtype=held.dtype)[:, None]
        return summed
    return np.repeat(held[None, :, 0], len(held), axis=0)


def _agreed(results: Sequence[Blocks]) -> Blocks:
    """What NPUs hold when parts of blocks went different ways, each of which was tried on the whole: zeros if wrong."""
    first, *others = results
    return np.where(np.logical_and.reduce([first == other for other in others]), first, 0) if others else first


def _moved(held: Blocks, phase: Phase, pattern: Pattern) -> Blocks:
    """What NPUs hold after messages; what was never received is zero."""
    rule, npus = phase.rule, np.arange(len(held))
    if rule.data is Data.STAY and not rule.shifts:
        return _exchanged(held, pattern)
    if rule.data is Data.GROW:
        gathered = np.zeros((len(held), len(held), held.shape[2]), dtype=held.dtype)
        gathered[npus, npus] = held[:, 0]
        held = gathered
    for source, target, block, _ in pattern:
        packets = held[source, block]
        if rule.reduces:
            np.add.at(held, (target, block), packets)  # an NPU may hear of a block from several at once
        else:
            held[target, block] = packets
    return held[npus, npus][:, None] if rule.data is Data.SHRINK else held


def _exchanged(sent: Blocks, pattern: Pattern) -> Blocks:
    """Blocks that arrived where they were meant to, each stored as the block of the NPU it comes from.

    Every block is in one place at a time: `place` says where, by its origin and its target, -1 if it was lost since an
    NPU sent it on that did not have it.
    """
    npus = np.arange(len(sent))
    place: IntArray = np.repeat(npus[:, None], len(sent), axis=1)
    for source, target, block, origin in pattern:
        place[origin, block] = np.where(place[origin, block] == source, target, -1)
    received = np.where((place == npus)[:, :, None], sent, 0)
    return received.swapaxes(0, 1)


def _reduced_by_pairs(sums: Blocks, pattern: Pattern, others: int) -> Blocks:
    """The messages of halving with the rule of Adasum."""
    npus = np.arange(len(sums))
    for step in pattern:
        rank, peer, block = _by_target(step, len(sums))
        here, packet, distance = sums[rank, block], sums[peer, block], int(abs(peer - rank)[0, 0])
        is_near = (rank < peer)[:, :, None]
        pair = np.where(is_near, here, packet), np.where(is_near, packet, here)
        sums[rank, block] = adasum.level(*pair, distance, others)
    return sums[npus, npus][:, None]


def _by_target(step: Messages, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Targets, sources and blocks of messages, shape (NPUs, blocks): every NPU receives as many."""
    order = np.lexsort((step.block.ravel(), step.target.ravel()))
    rank, peer, block = (ends.ravel()[order].reshape(size, -1) for ends in (step.target, step.source, step.block))
    return rank, peer, block

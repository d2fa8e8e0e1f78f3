"""Dispatch rules: which waiting stage a free dimension serves next.

A rule gives every stage a priority key; the smallest key goes first.  A key is ``(major, minor, time_sign x
ready time, stage number)``, so ties end with the collective, then the chunk.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.problem.cost import StageCosts


class PriorityKeys(NamedTuple):
    """Static part of the priority of every stage, shape (stages,); `time_sign` weighs the ready time."""

    major: FloatArray
    minor: IntArray
    time_sign: int


DispatchRule = Callable[[StageCosts, IntArray], PriorityKeys]
"""From the costs of all stages and the number of the last stage of each stage's chunk to their keys."""


def fifo(costs: StageCosts, last_of_chunk: IntArray) -> PriorityKeys:
    """First in, first out: by ready time."""
    return PriorityKeys(np.zeros(len(costs.sent)), np.zeros_like(costs.lag), +1)


def lifo(costs: StageCosts, last_of_chunk: IntArray) -> PriorityKeys:
    """Last in, first out: by ready time, the newest first."""
    return PriorityKeys(np.zeros(len(costs.sent)), np.zeros_like(costs.lag), -1)


def scf(costs: StageCosts, last_of_chunk: IntArray) -> PriorityKeys:
    """Smallest chunk first (Themis, ISCA 2022, section 4.4): bytes before the stage, then its duration."""
    return PriorityKeys(costs.held_before, costs.occupancy, +1)


def scf_bytes(costs: StageCosts, last_of_chunk: IntArray) -> PriorityKeys:
    """Smallest chunk first by bytes before the stage alone, ties by ready time."""
    return PriorityKeys(costs.held_before, np.zeros_like(costs.lag), +1)


def scf_largest(costs: StageCosts, last_of_chunk: IntArray) -> PriorityKeys:
    """Smallest chunk first by the larger of the bytes before and after the stage."""
    return PriorityKeys(np.maximum(costs.held_before, costs.held_after), np.zeros_like(costs.lag), +1)


def longest_remaining(costs: StageCosts, last_of_chunk: IntArray) -> PriorityKeys:
    """The chunk with most service time to go, this stage included."""
    served = np.cumsum(costs.occupancy)
    remaining = served[last_of_chunk] - served + costs.occupancy
    return PriorityKeys(np.zeros(len(served)), -remaining, +1)


DISPATCH: Mapping[str, DispatchRule] = {
    "fifo": fifo,
    "scf": scf,
    "scf_bytes": scf_bytes,
    "scf_largest": scf_largest,
    "lifo": lifo,
    "longest_remaining": longest_remaining,
}
"""The dispatch rules by name."""

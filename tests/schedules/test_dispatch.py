"""Dispatch rules: the order of each on one tiny case.

Four stages wait for one resource that is busy until all have arrived.
"""

import numpy as np
import pytest

from themis_opt.problem.cost import StageCosts
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.kernel import Operations, start_times
from themis_opt.schedules.plan import Chunks, Plan
from themis_opt.schedules.simulator import simulate

HELD_BEFORE = [900.0, 8.0, 6.0, 6.0, 4.0]
HELD_AFTER = [1.0, 2.0, 12.0, 3.0, 16.0]
DURATION = [100, 4, 3, 1, 2]
READY = [0, 10, 20, 30, 40]
TO_GO = [0, 50, 90, 70, 10]  # time each chunk still needs on other resources
ORDER = {
    "fifo": [1, 2, 3, 4],
    "lifo": [4, 3, 2, 1],
    "scf": [4, 3, 2, 1],
    "scf_bytes": [4, 2, 3, 1],
    "scf_largest": [3, 1, 2, 4],
    "longest_remaining": [2, 3, 1, 4],
}
"""In scf stages 2 and 3 hold as much, 3 is shorter; in scf_bytes 2 came first."""


def served(rule: str) -> list[int]:
    """Numbers of the waiting stages in the order of their service; stage 0 makes them wait."""
    count = len(DURATION)
    zeros = np.zeros(2 * count, dtype=np.int64)

    def each(first: list[float], second: list[float]) -> np.ndarray:
        return np.array([x for pair in zip(first, second, strict=True) for x in pair])

    duration = each(DURATION, TO_GO).astype(np.int64)
    costs = StageCosts(
        held_before=each(HELD_BEFORE, [0.0] * count),
        held_after=each(HELD_AFTER, [0.0] * count),
        sent=np.zeros(2 * count),
        occupancy=duration,
        lag=zeros,
    )
    keys = DISPATCH[rule](costs, np.repeat(2 * np.arange(count) + 1, 2))
    start = start_times(
        Operations(
            resource=np.tile([0, 1], count),
            duration=duration,
            lag=zeros,
            release=np.repeat(READY, 2),
            successor_start=np.repeat(np.arange(count + 1), 2)[1:],
            successor=2 * np.arange(count) + 1,
            num_predecessors=np.tile([0, 1], count),
            major=keys.major,
            minor=keys.minor,
            time_sign=np.full(2 * count, keys.time_sign),
            enforced=np.zeros(2, dtype=np.bool_),
        )
    )[::2]
    return np.argsort(start)[1:].tolist()


@pytest.mark.parametrize("rule", DISPATCH)
def test_a_rule_serves_in_its_order(rule: str) -> None:
    assert served(rule) == ORDER[rule]


@pytest.mark.parametrize("rule", DISPATCH)
def test_ties_are_served_by_collective_then_chunk(rule: str) -> None:
    collective = Collective(kind=CollectiveKind.ALL_TO_ALL, size=40, chunks=2)
    instance = Instance(
        network=Network(dimensions=(Dimension(kind=Kind.SWITCH, size=2, bandwidth=1e9),)),
        collectives=(collective, collective),
    )
    chunks = Chunks(np.array([20, 20]), np.array([[0], [0]]))
    schedule = simulate(instance, Plan((chunks, chunks), rule))
    assert schedule.sequence(0).tolist() == [0, 1, 2, 3]

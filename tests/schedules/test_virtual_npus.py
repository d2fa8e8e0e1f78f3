"""Virtual NPUs: their number, and what the collectives have to make of their data."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.virtual_npus import MAX_VIRTUAL_NPUS, DataTrial, virtual_sizes


def instance_of(*sizes: int, kind: CollectiveKind = CollectiveKind.ALL_REDUCE) -> Instance:
    dimensions = tuple(Dimension(kind=Kind.SWITCH, size=size, bandwidth=1e9) for size in sizes)
    return Instance(network=Network(dimensions=dimensions), collectives=(Collective(kind=kind, size=4096),))


def test_a_network_within_the_limit_keeps_its_sizes() -> None:
    assert virtual_sizes(instance_of(16, 16, 16), (0, 1, 2)) == (16, 16, 16)


def test_above_the_limit_powers_of_two_become_2_and_others_3() -> None:
    assert virtual_sizes(instance_of(64, 12, 7, 8), (0, 1, 2, 3)) == (2, 3, 3, 2)


def test_where_3_would_exceed_the_limit_sizes_fall_back_to_2() -> None:
    sizes = virtual_sizes(instance_of(*[3] * 11), tuple(range(11)))
    assert set(sizes) == {2, 3}
    assert math.prod(sizes) <= MAX_VIRTUAL_NPUS


def trial_of(instance: Instance, seed: int) -> DataTrial:
    """The trial of the only collective."""
    return DataTrial.of(instance, instance.exchanges[0], seed)


@pytest.mark.parametrize(
    ("kind", "initial", "expected"),
    [
        (CollectiveKind.ALL_REDUCE, (2, 3, 2, 3), (2, 3, 2, 3)),
        (CollectiveKind.REDUCE_SCATTER, (2, 3, 2, 3), (2, 3, 1, 1)),
        (CollectiveKind.ALL_GATHER, (2, 3, 1, 1), (2, 3, 2, 3)),
        (CollectiveKind.ALL_TO_ALL, (2, 3, 2, 3), (2, 3, 2, 3)),
        (CollectiveKind.BROADCAST, (2, 3, 2, 3), (2, 3, 2, 3)),
        (CollectiveKind.REDUCE, (2, 3, 2, 3), (1, 1, 2, 3)),
    ],
)
def test_npus_hold_the_blocks_of_the_collective(kind: CollectiveKind, initial: tuple, expected: tuple) -> None:
    trial = trial_of(instance_of(2, 3, kind=kind), seed=0)
    assert (trial.initial.shape, trial.expected.shape) == (initial, expected)


def test_all_to_all_wants_block_i_of_npu_j_from_block_j_of_npu_i() -> None:
    trial = trial_of(instance_of(2, 3, kind=CollectiveKind.ALL_TO_ALL), seed=0)
    assert trial.expected[1, 2, 0, 1] == trial.initial[0, 1, 1, 2]


def test_all_reduce_wants_the_sum_over_all_npus() -> None:
    trial = trial_of(instance_of(2, 3), seed=0)
    total = sum(int(trial.initial[i, j, 1, 2]) for i in range(2) for j in range(3))
    assert (trial.expected[:, :, 1, 2] == total % 2**32).all()


def test_broadcast_wants_what_the_root_held_on_every_npu() -> None:
    trial = trial_of(instance_of(2, 3, kind=CollectiveKind.BROADCAST), seed=0)
    assert (trial.expected == trial.initial[0, 0]).all()


def test_reduce_wants_the_sum_over_all_npus_on_the_root() -> None:
    trial = trial_of(instance_of(2, 3, kind=CollectiveKind.REDUCE), seed=0)
    np.testing.assert_array_equal(trial.expected[0, 0], trial.initial.sum(axis=(0, 1), dtype=np.uint32))


def test_an_unknown_kind_is_refused() -> None:
    instance = instance_of(2, 3)
    unknown: Any = "barrier"
    with pytest.raises(ValueError, match="'barrier' is not a valid CollectiveKind"):
        DataTrial.of(instance, replace(instance.exchanges[0], kind=unknown), 0)

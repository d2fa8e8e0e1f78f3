"""Virtual NPUs: their number, and what the collectives have to make of their data."""

import math

import pytest

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.verification import MAX_VIRTUAL_NPUS, DataTrial, virtual_sizes


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

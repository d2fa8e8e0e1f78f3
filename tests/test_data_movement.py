"""Basic collectives along one dimension: results, steps and bytes for every algorithm and size."""

import numpy as np
import pytest

from themis_opt.cost import Phase, path_costs, steps
from themis_opt.data_movement import Tensor, exchange_pattern, gather_pattern, move
from themis_opt.instance import Algorithm, Collective, CollectiveKind, Dimension, Instance, Kind, Network

SIZES = (2, 3, 4, 5, 6, 7, 8, 12, 16)
COLLECTIVE_OF = {
    Phase.REDUCE_SCATTER: CollectiveKind.REDUCE_SCATTER,
    Phase.ALL_GATHER: CollectiveKind.ALL_GATHER,
    Phase.ALL_TO_ALL: CollectiveKind.ALL_TO_ALL,
}


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[*Algorithm, "in_network"])
def dimension(request: pytest.FixtureRequest, size: int) -> Dimension:
    if request.param == "in_network":
        return Dimension(kind=Kind.SWITCH, size=size, bandwidth=1e9, in_network=True)
    return Dimension(kind=Kind.SWITCH, size=size, bandwidth=1e9, algorithm=request.param)


def random_blocks(*shape: int) -> Tensor:
    return np.random.default_rng(7).integers(2**32, size=shape, dtype=np.uint32)


def blocks_before(phase: Phase, size: int) -> Tensor:
    return random_blocks(size, 1 if phase is Phase.ALL_GATHER else size)


def test_reduce_scatter_leaves_every_npu_the_sum_of_its_block(dimension: Dimension, size: int) -> None:
    before = random_blocks(size, size)
    after, _ = move(before, 0, Phase.REDUCE_SCATTER, dimension)
    np.testing.assert_array_equal(after, before.sum(axis=0, dtype=np.uint32)[:, None])


def test_all_gather_brings_every_block_to_every_npu(dimension: Dimension, size: int) -> None:
    before = random_blocks(size, 1)
    after, _ = move(before, 0, Phase.ALL_GATHER, dimension)
    np.testing.assert_array_equal(after, np.tile(before.T, (size, 1)))


def test_all_to_all_exchanges_npus_and_blocks(dimension: Dimension, size: int) -> None:
    before = random_blocks(size, size)
    after, _ = move(before, 0, Phase.ALL_TO_ALL, dimension)
    np.testing.assert_array_equal(after, before.T)


@pytest.mark.parametrize("phase", Phase)
def test_a_stage_takes_the_steps_of_the_cost_model(dimension: Dimension, size: int, phase: Phase) -> None:
    _, traffic = move(blocks_before(phase, size), 0, phase, dimension)
    assert traffic.num_steps == steps(dimension, phase)


@pytest.mark.parametrize("phase", Phase)
def test_a_stage_sends_the_bytes_of_the_cost_model(dimension: Dimension, size: int, phase: Phase) -> None:
    collective = Collective(kind=COLLECTIVE_OF[phase], size=size, element_bytes=1, chunks=1)
    instance = Instance(network=Network(dimensions=(dimension,)), collectives=(collective,))
    costs = path_costs(instance, collective, np.array([size]), np.array([[0]]))
    _, traffic = move(blocks_before(phase, size), 0, phase, dimension)
    assert traffic.num_blocks == costs.sent[0, 0]


@pytest.mark.parametrize("algorithm", Algorithm)
def test_every_npu_sends_all_blocks_but_one(algorithm: Algorithm, size: int) -> None:
    pattern = gather_pattern(algorithm, size)
    messages = [message for step in range(pattern.num_steps) for message in pattern.messages(step)]
    assert sum(message.blocks.shape[1] for message in messages) == size - 1


@pytest.mark.parametrize("pattern_of", [gather_pattern, exchange_pattern])
@pytest.mark.parametrize("algorithm", Algorithm)
def test_every_message_goes_to_another_npu_each(pattern_of, algorithm: Algorithm, size: int) -> None:
    pattern = pattern_of(algorithm, size)
    for step in range(pattern.num_steps):
        for target, _ in pattern.messages(step):
            assert sorted(target.ravel()) == list(range(size))
            assert (target.ravel() != np.arange(size)).all()


@pytest.mark.parametrize("algorithm", Algorithm)
def test_no_message_of_a_step_sends_what_the_step_brings(algorithm: Algorithm, size: int) -> None:
    pattern = gather_pattern(algorithm, size)
    for step in range(pattern.num_steps):
        sent, brought = set(), set()
        for target, blocks in pattern.messages(step):
            sent |= {(npu, block) for npu, row in enumerate(blocks.tolist()) for block in row}
            brought |= {
                (npu, block) for (npu,), row in zip(target.tolist(), blocks.tolist(), strict=True) for block in row
            }
        assert not sent & brought


def test_recursive_doubling_pairs_npus_that_differ_in_one_bit() -> None:
    pattern = gather_pattern(Algorithm.HALVING_DOUBLING, 8)
    targets = [target.ravel().tolist() for step in range(3) for target, _ in pattern.messages(step)]
    assert targets == [[1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [4, 5, 6, 7, 0, 1, 2, 3]]


def test_a_ring_talks_to_one_neighbour_only() -> None:
    pattern = gather_pattern(Algorithm.RING, 5)
    targets = {tuple(target.ravel().tolist()) for step in range(4) for target, _ in pattern.messages(step)}
    assert targets == {(1, 2, 3, 4, 0)}


def test_reduce_scatter_sums_within_the_groups_of_its_dimension() -> None:
    before = random_blocks(2, 3, 4, 2, 3, 4)
    dimension = Dimension(kind=Kind.RING, size=3, bandwidth=1e9)
    after, _ = move(before, 1, Phase.REDUCE_SCATTER, dimension)
    own = [before[:, :, :, :, j].sum(axis=1, dtype=np.uint32) for j in range(3)]
    np.testing.assert_array_equal(after, np.stack(own, axis=1)[:, :, :, :, None])


def test_blocks_scattered_before_are_sent_as_fewer_blocks() -> None:
    before = random_blocks(2, 3, 4, 1, 3, 4)
    _, traffic = move(before, 1, Phase.REDUCE_SCATTER, Dimension(kind=Kind.RING, size=3, bandwidth=1e9))
    assert traffic.num_blocks == 2 * 4


def test_the_state_before_is_left_alone() -> None:
    before = random_blocks(4, 4)
    copy = before.copy()
    move(before, 0, Phase.REDUCE_SCATTER, Dimension(kind=Kind.RING, size=4, bandwidth=1e9))
    np.testing.assert_array_equal(before, copy)

"""Basic collectives along one dimension: results, steps and bytes for every algorithm and size."""

import numpy as np
import pytest

from themis_opt.problem.cost import path_costs, steps
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind, Phase
from themis_opt.schedules.data_movement import Tensor, exchange_pattern, gather_pattern, line, move, rooted_tree

IN_STEP = [algorithm for algorithm in Algorithm if algorithm is not Algorithm.LINE]
"""Algorithms in which every NPU does the same."""
SIZES = (2, 3, 4, 5, 6, 7, 8, 12, 16)
FIRST_PATH = {kind: list(kind.rule.phases) for kind in reversed(CollectiveKind)}
WHERE = {phase: (kind, path.index(phase)) for kind, path in FIRST_PATH.items() for phase in path}
"""A collective with every phase, and the position of the phase on a path on one dimension."""


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[*(own for own in Algorithm if own is not Algorithm.ADASUM), "in_network"])
def dimension(request: pytest.FixtureRequest, size: int) -> Dimension:
    if request.param == "in_network":
        return Dimension(kind=Kind.SWITCH, size=size, bandwidth=1e9, in_network=True)
    kind = Kind.LINE if request.param is Algorithm.LINE else Kind.SWITCH
    return Dimension(kind=kind, size=size, bandwidth=1e9, algorithm=request.param)


def random_blocks(*shape: int) -> Tensor:
    return np.random.default_rng(7).integers(2**32, size=shape, dtype=np.uint32)


def blocks_before(phase: Phase, size: int) -> Tensor:
    return random_blocks(size, 1 if phase in (Phase.ALL_GATHER, Phase.GATHER) else size)


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


def test_scatter_leaves_every_npu_its_block_of_the_root(dimension: Dimension, size: int) -> None:
    before = random_blocks(size, size)
    after, _ = move(before, 0, Phase.SCATTER, dimension)
    np.testing.assert_array_equal(after[:, 0], before[0])


def test_gather_brings_every_block_to_the_root(dimension: Dimension, size: int) -> None:
    before = random_blocks(size, 1)
    after, _ = move(before, 0, Phase.GATHER, dimension)
    np.testing.assert_array_equal(after[0], before[:, 0])


@pytest.mark.parametrize("phase", Phase)
def test_a_stage_takes_the_steps_of_the_cost_model(dimension: Dimension, size: int, phase: Phase) -> None:
    _, traffic = move(blocks_before(phase, size), 0, phase, dimension)
    assert traffic.num_steps == steps(dimension, phase)


@pytest.mark.parametrize("phase", Phase)
def test_a_stage_sends_the_bytes_of_the_cost_model(dimension: Dimension, size: int, phase: Phase) -> None:
    kind, position = WHERE[phase]
    collective = Collective(kind=kind, size=size, element_bytes=1, chunks=1)
    instance = Instance(network=Network(dimensions=(dimension,)), collectives=(collective,))
    costs = path_costs(instance, kind, np.array([size]), np.zeros((1, len(kind.rule.phases)), dtype=np.int64))
    _, traffic = move(blocks_before(phase, size), 0, phase, dimension)
    assert traffic.num_blocks == costs.sent[0, position]


@pytest.mark.parametrize("algorithm", IN_STEP)
def test_every_npu_sends_all_blocks_but_one(algorithm: Algorithm, size: int) -> None:
    pattern = gather_pattern(algorithm, size)
    messages = [message for step in range(pattern.num_steps) for message in pattern.messages(step)]
    assert sum(message.blocks.shape[1] for message in messages) == size - 1


@pytest.mark.parametrize("pattern_of", [gather_pattern, exchange_pattern])
@pytest.mark.parametrize("algorithm", IN_STEP)
def test_every_message_goes_to_another_npu_each(pattern_of, algorithm: Algorithm, size: int) -> None:
    pattern = pattern_of(algorithm, size)
    for step in range(pattern.num_steps):
        for target, _ in pattern.messages(step):
            assert sorted(target.ravel()) == list(range(size))
            assert (target.ravel() != np.arange(size)).all()


@pytest.mark.parametrize("algorithm", IN_STEP)
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


@pytest.mark.parametrize("algorithm", Algorithm)
def test_towards_the_root_no_hop_of_a_step_sends_what_the_step_brings(algorithm: Algorithm, size: int) -> None:
    tree = rooted_tree(algorithm, size)
    for step in range(tree.num_steps):
        child, parent, block = (ends.tolist() for ends in tree.hops(step))
        assert not set(zip(child, block, strict=True)) & set(zip(parent, block, strict=True))


@pytest.mark.parametrize("algorithm", Algorithm)
def test_the_root_receives_every_block_but_its_own_once(algorithm: Algorithm, size: int) -> None:
    tree = rooted_tree(algorithm, size)
    hops = [hop for step in range(tree.num_steps) for hop in zip(*tree.hops(step), strict=True)]
    assert sorted(block for _, parent, block in hops if parent == 0) == list(range(1, size))


def test_a_binomial_tree_joins_groups_in_pairs() -> None:
    tree = rooted_tree(Algorithm.HALVING_DOUBLING, 6)
    hops = [list(zip(*(ends.tolist() for ends in tree.hops(step)), strict=True)) for step in range(3)]
    assert hops == [[(1, 0, 1), (3, 2, 3), (5, 4, 5)], [(2, 0, 2), (2, 0, 3)], [(4, 0, 4), (4, 0, 5)]]


def test_on_a_ring_the_neighbour_of_the_root_is_as_busy_as_the_root() -> None:
    tree = rooted_tree(Algorithm.RING, 5)
    children = np.concatenate([tree.hops(step).child for step in range(4)])
    assert np.bincount(children).tolist() == [0, 4, 3, 2, 1]


def test_recursive_doubling_pairs_npus_that_differ_in_one_bit() -> None:
    pattern = gather_pattern(Algorithm.HALVING_DOUBLING, 8)
    targets = [target.ravel().tolist() for step in range(3) for target, _ in pattern.messages(step)]
    assert targets == [[1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [4, 5, 6, 7, 0, 1, 2, 3]]


def test_a_ring_talks_to_one_neighbour_only() -> None:
    pattern = gather_pattern(Algorithm.RING, 5)
    targets = {tuple(target.ravel().tolist()) for step in range(4) for target, _ in pattern.messages(step)}
    assert targets == {(1, 2, 3, 4, 0)}


def test_on_a_line_blocks_go_to_both_sides_and_never_around() -> None:
    tree = line(4)
    hops = [sorted(zip(*(ends.tolist() for ends in tree.hops(step)), strict=True)) for step in range(3)]
    assert hops == [
        [(0, 1, 0), (1, 0, 1), (1, 2, 1), (2, 1, 2), (2, 3, 2), (3, 2, 3)],
        [(1, 0, 2), (1, 2, 0), (2, 1, 3), (2, 3, 1)],
        [(1, 0, 3), (2, 3, 0)],
    ]


def test_an_all_to_all_on_a_line_needs_no_more_time_than_its_middle_link(size: int) -> None:
    """With one block per link at a time, the farthest first, it ends when the last block has crossed the middle."""
    waiting = [{(origin, target) for target in range(origin + 1, size)} for origin in range(size)]
    slots = 0
    while any(waiting):
        slots += 1
        chosen = [max(blocks, key=lambda block: block[1], default=None) for blocks in waiting]
        for npu, block in enumerate(chosen):
            if block is not None:
                waiting[npu].remove(block)
                if block[1] > npu + 1:
                    waiting[npu + 1].add(block)
    dimension = Dimension(kind=Kind.LINE, size=size, bandwidth=1e9)
    _, traffic = move(random_blocks(size, size), 0, Phase.ALL_TO_ALL, dimension)
    assert traffic.num_blocks == size**2 // 4
    assert traffic.num_blocks <= slots <= traffic.num_blocks + size - 2


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


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="7 is not a valid Phase"):
        move(np.zeros((2, 1), dtype=np.uint32), 0, 7, Dimension(kind=Kind.RING, size=2, bandwidth=1.0))  # type: ignore[arg-type]

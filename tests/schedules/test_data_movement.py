"""Stages along one dimension: results, steps, bytes and messages for every algorithm and size."""

from itertools import pairwise

import numpy as np
import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.network import Dimension
from themis_opt.problem.phases import Blocks, Phase
from themis_opt.problem.wiring import ALGORITHM_RULES, KIND_RULES, Algorithm, Kind, blocks_sent, grid, steps
from themis_opt.schedules.messages import (
    PATTERNS,
    Messages,
    algorithm_messages,
    algorithm_ways,
    stage_messages,
    stage_ways,
)
from themis_opt.schedules.verification import move

SIZES = (2, 3, 4, 5, 6, 7, 8, 12, 16, 21)
GATHERS = (Phase.ALL_GATHER, Phase.GATHER)
KIND_OF = {algorithm: kind for kind in Kind for algorithm in kind.rule.algorithms}
ON_OTHER_WIRES = [Algorithm.RING, Algorithm.DIRECT, Algorithm.HALVING_DOUBLING]
WIRED = [
    (kind, algorithm, size)
    for kind, algorithm in [*((KIND_OF[a], a) for a in KIND_OF), *((Kind.RING, a) for a in ON_OTHER_WIRES)]
    for size in SIZES
    if algorithm is not Algorithm.ADASUM and not kind.rule.flaw(size)
]


@pytest.fixture(params=[*WIRED, *SIZES], ids=lambda param: "-".join(map(str, np.atleast_1d(param))))
def dimension(request: pytest.FixtureRequest) -> Dimension:
    if request.param in SIZES:
        return Dimension(kind=Kind.SWITCH, size=request.param, bandwidth=1e9, in_network=True)
    kind, algorithm, size = request.param
    return Dimension(kind=kind, size=size, bandwidth=1e9, algorithm=algorithm)


def random_blocks(*shape: int) -> Blocks:
    return np.random.default_rng(7).integers(2**32, size=shape, dtype=np.uint32)


def blocks_before(phase: Phase, size: int) -> Blocks:
    return random_blocks(size, 1 if phase in GATHERS else size)


def links_of(step: Messages) -> set[tuple[int, int]]:
    return set(zip(step.source.ravel().tolist(), step.target.ravel().tolist(), strict=True))


def test_every_algorithm_and_kind_has_its_rows() -> None:
    assert set(PATTERNS) == set(ALGORITHM_RULES) == set(Algorithm)
    assert set(KIND_RULES) == set(Kind)


@pytest.mark.parametrize("phase", Phase)
def test_a_stage_ends_with_what_it_is_for(dimension: Dimension, phase: Phase) -> None:
    size, before = dimension.size, blocks_before(phase, dimension.size)
    after, _ = move(before, 0, phase, dimension)
    expected = {
        Phase.REDUCE_SCATTER: lambda: before.sum(axis=0, dtype=np.uint32)[:, None],
        Phase.SCATTER: lambda: before[0][:, None],
        Phase.ALL_GATHER: lambda: np.tile(before.T, (size, 1)),
        Phase.GATHER: lambda: before.T,
        Phase.ALL_TO_ALL: lambda: before.T,
        Phase.SEND: lambda: before[np.maximum(np.arange(size) - 1, 0)],
    }[phase]()
    np.testing.assert_array_equal(after[:1] if phase is Phase.GATHER else after, expected)


@pytest.mark.parametrize("phase", Phase)
def test_a_stage_takes_the_steps_and_sends_the_bytes_of_the_cost_model(dimension: Dimension, phase: Phase) -> None:
    _, traffic = move(blocks_before(phase, dimension.size), 0, phase, dimension)
    assert traffic == (steps(dimension, phase), blocks_sent(dimension, phase))


@pytest.mark.parametrize(("kind", "algorithm", "size"), WIRED)
def test_the_busiest_npu_adds_up_what_the_cost_model_counts(kind: Kind, algorithm: Algorithm, size: int) -> None:
    received = sum(
        way.share * np.bincount(step.target.ravel(), minlength=size).astype(object)
        for way in stage_ways(Phase.REDUCE_SCATTER, kind, algorithm, size)
        for step in way.pattern
    )
    assert max(received) == ALGORITHM_RULES[algorithm].sums(size)


@pytest.mark.parametrize("phase", [Phase.ALL_GATHER, Phase.GATHER])
@pytest.mark.parametrize("algorithm", Algorithm)
def test_no_message_of_a_step_sends_what_the_step_brings(algorithm: Algorithm, phase: Phase) -> None:
    for size in (size for size in SIZES if not KIND_OF[algorithm].rule.flaw(size)):
        for way in algorithm_ways(phase, algorithm, size):
            for step in way.pattern:
                source, target, block = (ends.ravel().tolist() for ends in step[:3])
                assert not set(zip(source, block, strict=True)) & set(zip(target, block, strict=True))


@pytest.mark.parametrize(
    "algorithm", [algorithm for algorithm in Algorithm if ALGORITHM_RULES[algorithm].links is None]
)
def test_where_all_links_are_used_evenly_every_npu_receives_as_much_as_it_sends(algorithm: Algorithm) -> None:
    for phase in (Phase.ALL_GATHER, Phase.ALL_TO_ALL):
        for step in algorithm_messages(phase, algorithm, 6):
            counts = [np.bincount(ends, minlength=6) for ends in (step.source, step.target)]
            assert len(set(np.concatenate(counts).tolist())) == 1
            assert (step.source != step.target).all()


@pytest.mark.parametrize("phase", [Phase.ALL_GATHER, Phase.ALL_TO_ALL, Phase.GATHER, Phase.SEND])
def test_on_a_grid_every_message_goes_to_a_neighbour(phase: Phase) -> None:
    """Six NPUs in two rows, the second numbered backwards: 0 1 2 above 5 4 3."""
    beside = {*pairwise(range(6)), (0, 5), (1, 4)}
    neighbours = beside | {(two, one) for one, two in beside}
    for way in algorithm_ways(phase, Algorithm.MESH2D, 6):
        assert set().union(*map(links_of, way.pattern)) <= neighbours


@pytest.mark.parametrize(("size", "shape"), [(4, (2, 2)), (6, (2, 3)), (12, (3, 4)), (22, (2, 11)), (36, (6, 6))])
def test_a_grid_is_as_square_as_can_be(size: int, shape: tuple[int, int]) -> None:
    assert grid(size) == shape


def test_blocks_that_went_two_ways_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of both ways that leaves out its last steps is seen in the result."""
    whole = algorithm_ways(Phase.ALL_GATHER, Algorithm.MESH2D, 6)
    broken = (whole[0], whole[1]._replace(pattern=type(whole[1].pattern)(2, whole[1].pattern.step)))
    monkeypatch.setattr("themis_opt.schedules.verification.stage_ways", lambda *_: broken)
    dimension = Dimension(kind=Kind.MESH2D, size=6, bandwidth=1e9)
    before = random_blocks(6, 1)
    after, _ = move(before, 0, Phase.ALL_GATHER, dimension)
    assert (after != np.tile(before.T, (6, 1))).any()


def test_a_block_that_an_npu_does_not_have_is_not_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    (way,) = algorithm_ways(Phase.ALL_TO_ALL, Algorithm.LINE, 4)
    late = way._replace(pattern=type(way.pattern)(2, lambda number: way.pattern.step(number + 1)))
    monkeypatch.setattr("themis_opt.schedules.verification.stage_ways", lambda *_: (late,))
    after, _ = move(random_blocks(4, 4), 0, Phase.ALL_TO_ALL, Dimension(kind=Kind.LINE, size=4, bandwidth=1e9))
    assert (after[1:, 0] == 0).all()


def test_a_binomial_tree_joins_groups_in_pairs() -> None:
    steps = algorithm_messages(Phase.GATHER, Algorithm.HALVING_DOUBLING, 6)
    hops = [list(zip(*(ends.tolist() for ends in step[:3]), strict=True)) for step in steps]
    assert hops == [[(1, 0, 1), (3, 2, 3), (5, 4, 5)], [(2, 0, 2), (2, 0, 3)], [(4, 0, 4), (4, 0, 5)]]


def test_a_ring_talks_to_one_neighbour_only() -> None:
    steps = algorithm_messages(Phase.ALL_GATHER, Algorithm.RING, 5)
    assert set().union(*map(links_of, steps)) == {(npu, (npu + 1) % 5) for npu in range(5)}


def test_on_a_line_blocks_go_to_both_sides_and_never_around() -> None:
    steps = algorithm_messages(Phase.ALL_GATHER, Algorithm.LINE, 4)
    assert [sorted(zip(*(ends.tolist() for ends in step[:3]), strict=True)) for step in steps] == [
        [(0, 1, 0), (1, 0, 1), (1, 2, 1), (2, 1, 2), (2, 3, 2), (3, 2, 3)],
        [(1, 0, 2), (1, 2, 0), (2, 1, 3), (2, 3, 1)],
        [(1, 0, 3), (2, 3, 0)],
    ]


@pytest.mark.parametrize(
    ("phase", "dimension"),
    [
        (Phase.ALL_TO_ALL, {"kind": "line"}),
        (Phase.ALL_GATHER, {"kind": "mesh2d"}),
        (Phase.ALL_GATHER, {"kind": "switch", "in_network": True}),
    ],
)
def test_runtimes_that_send_whole_blocks_straight_to_their_npu_are_refused_the_rest(
    phase: Phase, dimension: dict
) -> None:
    with pytest.raises(InputError):
        stage_messages(phase, Dimension(size=4, bandwidth=1e9, **dimension))


@pytest.mark.parametrize("size", SIZES)
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
    sums = [before[:, :, :, :, j].sum(axis=1, dtype=np.uint32) for j in range(3)]
    np.testing.assert_array_equal(after, np.stack(sums, axis=1)[:, :, :, :, None])


def test_blocks_scattered_before_are_sent_as_fewer_blocks() -> None:
    before = random_blocks(2, 3, 4, 1, 3, 4)
    _, traffic = move(before, 1, Phase.REDUCE_SCATTER, Dimension(kind=Kind.RING, size=3, bandwidth=1e9))
    assert traffic.num_blocks == 2 * 4


def test_the_state_before_is_left_alone() -> None:
    before = random_blocks(4, 4)
    copy = before.copy()
    move(before, 0, Phase.REDUCE_SCATTER, Dimension(kind=Kind.RING, size=4, bandwidth=1e9))
    np.testing.assert_array_equal(before, copy)

"""Adasum on a dimension: what the products of pairs cost, and where it can run."""

import numpy as np
import pytest
from planning import schedule_of

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.problem.cost import steps
from themis_opt.problem.documents import INSTANCE_FORMAT
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import Phase
from themis_opt.schedules import adasum
from themis_opt.schedules.validation import validate
from themis_opt.schedules.verification import move, verify
from themis_opt.solving.bounds import bounds


def dimension(algorithm: str, size: int = 64) -> Dimension:
    return Dimension(kind="switch", size=size, bandwidth="100 Gb/s", latency="3 us", algorithm=algorithm)


def all_reduce(size: str, *dimensions: Dimension) -> Instance:
    collective = Collective(kind="all_reduce", size=size, chunks=1)
    return Instance(format=INSTANCE_FORMAT, network=Network(dimensions=dimensions), collectives=(collective,))


def makespan(instance: Instance) -> int:
    schedule = schedule_of(instance, "hourglass")
    validate(schedule)
    assert schedule.makespan >= max(bounds(instance).values()) * (1 - 1e-9)
    return schedule.makespan


@pytest.mark.parametrize("size", ["25 MB", "100 MB", "1 GB"])
def test_products_cost_less_than_two_percent_from_25_megabytes_on(size: str) -> None:
    plain, adasum = (makespan(all_reduce(size, dimension(algorithm))) for algorithm in ("halving_doubling", "adasum"))
    assert 1 < adasum / plain < 1.02


def test_steps_are_those_of_halving_doubling_and_of_the_products_of_every_level() -> None:
    assert steps(dimension("adasum", 8), Phase.REDUCE_SCATTER) == 3 + (1 + 2 + 3)
    assert steps(dimension("adasum", 8), Phase.ALL_GATHER) == 3


def test_hierarchical_mode_sums_inside_and_combines_between_nodes() -> None:
    inside = Dimension(kind="ring", size=4, bandwidth="150 GB/s", latency="2 us")
    instance = all_reduce("100 MB", inside, dimension("adasum", 8))
    flat = all_reduce("100 MB", inside.replace(kind="switch", algorithm="adasum"), dimension("adasum", 8))
    assert makespan(instance) <= makespan(flat) * 1.001


def tree(vectors: list[np.ndarray]) -> np.ndarray:
    """The definition, one pair of whole vectors at a time."""
    if len(vectors) == 1:
        return vectors[0]
    half = len(vectors) // 2
    pairs = zip(vectors[:half], vectors[half:], strict=True)
    return tree([(1 - a @ b / (2 * a @ a)) * a + (1 - a @ b / (2 * b @ b)) * b for a, b in pairs])


@pytest.mark.parametrize("size", [2, 4, 16])
def test_reduce_scatter_ends_with_the_blocks_of_the_tree_of_pairs(size: int) -> None:
    held = np.random.default_rng(0).standard_normal((size, size))
    moved, _ = move(held, 0, Phase.REDUCE_SCATTER, dimension("adasum", size))
    np.testing.assert_allclose(moved[:, 0], tree(list(held)), rtol=1e-12)


def test_equal_gradients_are_averaged_and_orthogonal_ones_added() -> None:
    one = np.array([[3.0, 4.0], [3.0, 4.0]])
    moved, _ = move(one, 0, Phase.REDUCE_SCATTER, dimension("adasum", 2))
    np.testing.assert_allclose(moved[:, 0], [3.0, 4.0])
    moved, _ = move(np.diag([3.0, 4.0]), 0, Phase.REDUCE_SCATTER, dimension("adasum", 2))
    np.testing.assert_allclose(moved[:, 0], [3.0, 4.0])
    moved, _ = move(np.array([[0.0, 0.0], [1.0, 2.0]]), 0, Phase.REDUCE_SCATTER, dimension("adasum", 2))
    np.testing.assert_allclose(moved[:, 0], [1.0, 2.0])


@pytest.mark.parametrize("policy", ["baseline", "hourglass", "themis"])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "reduce"])
def test_schedules_compute_the_tree_of_pairs(kind: str, policy: str) -> None:
    inside = Dimension(kind="ring", size=3, bandwidth="150 GB/s", latency="2 us")
    network = Network(dimensions=(inside, dimension("adasum", 8), dimension("adasum", 2)))
    instance = Instance(network=network, collectives=(Collective(kind=kind, size="96 MB", chunks=12),))
    verify(schedule_of(instance, policy))


def test_hierarchical_mode_sums_shards_and_combines_them() -> None:
    """Two NPUs inside, four between: each half of the sums of nodes is combined by itself."""
    held = np.random.default_rng(1).standard_normal((2, 4, 2, 4))
    sums, _ = move(held, 0, Phase.REDUCE_SCATTER, Dimension(kind="ring", size=2, bandwidth="1 GB/s"))
    moved, _ = move(sums, 1, Phase.REDUCE_SCATTER, dimension("adasum", 4))
    for place in range(2):
        np.testing.assert_allclose(moved[place, :, 0, 0], tree(list(held.sum(axis=0)[:, place])), rtol=1e-12)


def test_sums_in_the_place_of_pairs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adasum, "level", lambda first, second, distance, others: first + second)
    instance = all_reduce("1 MB", dimension("adasum", 4))
    with pytest.raises(InvalidSchedule, match="wrong block"):
        verify(schedule_of(instance, "baseline"))


@pytest.mark.parametrize("size", [3, 6, 12])
def test_numbers_of_npus_that_are_no_power_of_two_are_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"{size} is no power of two"):
        dimension("adasum", size)


def test_switch_that_reduces_is_refused() -> None:
    with pytest.raises(ModelError, match="does not compute 'adasum'"):
        dimension("adasum").replace(in_network=True)

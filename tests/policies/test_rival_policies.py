"""Policies that stand for what others do: cyclic, hierarchical and NCCL."""

import numpy as np
import pytest

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hierarchical import Hierarchical
from themis_opt.policies.nccl import Nccl, estimates
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate

MICROSECOND = 10**6


def nodes(size: str = "1 GiB", kind: str = "all_reduce", **inside: object) -> Instance:
    """Four nodes of eight NPUs, 400 and 50 GB/s."""
    dimensions = [
        {"kind": "switch", "size": 8, "bandwidth": "400 GB/s", **inside},
        {"kind": "switch", "size": 4, "bandwidth": "50 GB/s"},
    ]
    collective = {"kind": kind, "size": size, "chunks": 8}
    return Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": [collective]})


@pytest.fixture(scope="module")
def torus() -> Instance:
    """Three dimensions that are equally fast and large."""
    dimensions = [{"kind": "ring", "size": 4, "bandwidth": "100 GB/s"} for _ in range(3)]
    collective = {"kind": "all_reduce", "size": "64 MiB", "chunks": 48}
    return Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": [collective]})


def test_chunks_of_cyclic_go_round_from_one_dimension_after_the_other(torus: Instance) -> None:
    paths = make_policy("cyclic")(torus).chunks[0].paths
    assert paths[:4].tolist() == [[0, 1, 2, 2, 1, 0], [1, 2, 0, 0, 2, 1], [2, 0, 1, 1, 0, 2], [0, 1, 2, 2, 1, 0]]


def test_cyclic_is_balanced_on_a_torus(torus: Instance) -> None:
    times = [simulate(torus, make_policy(name)(torus)).makespan for name in ("cyclic", "baseline")]
    assert times[0] < 0.45 * times[1]


def test_hierarchical_gathers_a_chunk_outside_before_it_scatters_the_next() -> None:
    instance = nodes()
    schedule = simulate(instance, Hierarchical()(instance))
    outside = schedule.sequence(1)
    assert schedule.plan.chunk_of_stage[outside].tolist() == sorted([*range(8), *range(8)])
    assert np.array_equal(schedule.plan.chunks[0].paths, Baseline()(instance).chunks[0].paths)


@pytest.mark.parametrize(
    ("size", "kind", "way", "microseconds"),
    [
        # 32 NPUs in 4 nodes, and 2 x 31/32 bytes at 400 GB/s x 0.5
        ("200 MB", "all_reduce", ("ring", "LL"), 6.6 + 2 * (28 * 0.6 + 3 * 2.7) + 2 * 31 / 32 * 1000),
        ("16 B", "all_reduce", ("tree", "Simple"), 8.4 + 2 * (7 * 4 + 2 * 14)),
        # 8 + 2 x 14 / 3.5 + 32 x 2.8 us, and 31/32 bytes at 400 GB/s x 0.75
        *(("300 MB", kind, ("pat",), 8 + 8 + 32 * 2.8 + 31 / 32 * 1000) for kind in ("all_gather", "reduce_scatter")),
    ],
)
def test_latency_and_bandwidth_are_those_of_nccl(
    size: str, kind: str, way: tuple[str, ...], microseconds: float
) -> None:
    instance = nodes(size, kind)
    (one,) = [e for e in estimates(instance, instance.exchanges[0]) if e[1 : 1 + len(way)] == way]
    assert one.time == pytest.approx(microseconds * MICROSECOND, rel=1e-4 if size == "16 B" else 1e-6)


def test_nccl_chooses_trees_for_few_bytes_and_rings_for_many() -> None:
    chosen = [estimates(instance, instance.exchanges[0])[0].algorithm for instance in (nodes("64 KiB"), nodes("4 GiB"))]
    assert chosen == ["tree", "ring"]


@pytest.mark.parametrize(("size", "like"), [("64 KiB", Hierarchical()), ("4 GiB", Baseline())])
def test_the_plan_serves_as_the_chosen_algorithm_does(size: str, like: Hierarchical | Baseline) -> None:
    instance = nodes(size)
    assert Nccl()(instance) == like(instance)


def test_nvls_needs_a_switch_that_sums() -> None:
    with pytest.raises(InputError, match="it has ring, tree"):
        Nccl("nvls")(nodes())
    summing = nodes(in_network=True)
    assert "nvls" in {e.algorithm for e in estimates(summing, summing.exchanges[0])}


def test_rivals_never_beat_a_bound() -> None:
    instance = themis_opt.load("dgx_h100_superpod.all_reduce.1GiB")
    bound = max(themis_opt.bounds(instance).values())
    assert all(simulate(instance, make_policy(name)(instance)).makespan >= bound for name in ("nccl", "cyclic"))

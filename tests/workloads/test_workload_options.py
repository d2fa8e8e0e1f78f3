"""Options that change a workload: unequal NPUs, compression, bytes that may be lost, local losses."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from small_iterations import run

from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate
from themis_opt.workloads.transformations import Compression, parse_compression, parse_refresh
from themis_opt.workloads.unequal import Unequal, parse_unequal

NETWORK = load("2d-sw_sw.all_reduce.100MiB").network
SETUP = Setup(network=NETWORK, timing=Rate(10**14), batch=12)
SLOW_RING = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="1 GB/s", latency="1 us"),))


def make(model: str = "vgg-16-cifar", parallelism: str = "data", **choices: Any) -> Instance:
    setup = replace(SETUP, **choices)
    return make_workload(MODELS[model], MODELS[model].layers(), setup, parallelism=parallelism, chunks=2)


def test_equal_shares_take_mean_over_least_speed_times_as_long_as_proportional_ones() -> None:
    speeds = "1, 1, 0.5, 0.5"
    equal, proportional = (make(unequal=parse_unequal(speeds, share)).compute for share in ("equal", "proportional"))
    assert equal / proportional == pytest.approx(0.75 / 0.5, rel=1e-6)


def test_nodes_of_half_the_speed_take_twice_the_time() -> None:
    assert make(unequal=Unequal((Fraction(1, 2),))).compute == 2 * make().compute


def test_optimizer_waits_for_the_slowest_npu_whatever_its_share() -> None:
    instance = make(unequal=parse_unequal("1, 0.25", "proportional"), update=10**6)
    assert instance.tasks[0].duration == 4 * 10**6


@pytest.mark.parametrize("speeds", [(1, 1, 2), (3, 1), (5, 2, 2), (7, 3)])
def test_whole_samples_are_shared_so_that_the_last_group_is_done_earliest(speeds: tuple[int, ...]) -> None:
    batch, groups = 4, len(speeds)
    unequal = Unequal(tuple(map(Fraction, speeds)), "proportional")
    every = (parts for parts in product(range(batch * groups + 1), repeat=groups) if sum(parts) == batch * groups)
    best = min(max(Fraction(n, s) for n, s in zip(parts, speeds, strict=True)) for parts in every)
    assert unequal.slowest(batch) * batch == best
    assert sum(unequal.samples(batch)) == batch * groups


def test_speeds_of_groups_that_do_not_divide_the_npus_are_refused() -> None:
    with pytest.raises(InputError, match=r"--speeds = 3.*equally many"):
        make(unequal=parse_unequal("1,1,2", "equal"))


def test_compressed_bytes_are_values_and_their_places() -> None:
    dense, sparse = make(element_bytes=4), make(element_bytes=4, compression=parse_compression("data=100", 4))
    for exchange, other in zip(dense.exchanges, sparse.exchanges, strict=True):
        assert 0 <= other.size - exchange.size / 100 * 2 < 8


def test_each_parallelism_has_its_ratio() -> None:
    dense = make("dlrm-mlperf", element_bytes=4)
    sparse = make("dlrm-mlperf", element_bytes=4, compression=parse_compression("data=100, model=20", 4))
    ratios = {"data": 50, "model": 10}
    for exchange, other in zip(dense.exchanges, sparse.exchanges, strict=True):
        assert other.size == pytest.approx(exchange.size / ratios[exchange.parallelism], abs=8)


def test_values_travel_as_they_are_where_places_would_cost_more() -> None:
    tensor = Tensor(name="t", size=4000, ready_after="a", needed_before="a", element_bytes=4)
    assert Compression({"data": Fraction(3, 2)}, index_bytes=4)(tensor) == tensor


def test_refresh_is_a_task_of_its_share_of_the_time() -> None:
    instance = make(compression=parse_compression("data=100", 4), refresh=parse_refresh("50 ms/1000"))
    assert (instance.tasks[0].name, instance.tasks[0].duration) == ("refresh", 50_000_000)


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 0.5])
def test_lost_bytes_gain_at_most_their_share_of_the_communication(tolerance: float) -> None:
    full, lossy = (run(make(network=SLOW_RING, tolerance=p), "fused/baseline+fifo").makespan for p in (0.0, tolerance))
    assert 1 < full / lossy <= 1 / (1 - tolerance) + 1e-9


def test_only_data_parallel_tensors_may_lose_bytes() -> None:
    full, lossy = make("dlrm-mlperf"), make("dlrm-mlperf", tolerance=0.25)
    for exchange, other in zip(full.exchanges, lossy.exchanges, strict=True):
        share = 0.75 if exchange.parallelism == "data" else 1
        assert other.size == pytest.approx(exchange.size * share, abs=2)


@pytest.mark.parametrize("model", ["vgg-16-cifar", "resnet-50"])
@pytest.mark.parametrize("policy", ["wait_free/hourglass", "priority/hourglass"])
def test_local_losses_expose_no_more_than_buckets_of_one_loss_at_the_end(model: str, policy: str) -> None:
    local = run(make(model, network=SLOW_RING, local_blocks=4), policy)
    buckets = run(make(model, network=SLOW_RING), "ddp/hourglass")
    assert local.period.exposed <= buckets.period.exposed
    assert local.makespan < buckets.makespan


def test_gradients_of_a_local_block_leave_before_the_next_block_begins() -> None:
    instance = make(local_blocks=4)
    tasks = instance.task_index
    assert tasks["conv1_1.weight_gradient"] < tasks["conv3_1.forward"]
    assert "conv3_1.input_gradient" not in tasks  # no gradient flows into the block before

"""Compression where the network is slow."""

from dataclasses import replace

import pytest
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate
from themis_opt.workloads.transformations import adapted, sending_times

SITES = Network(
    dimensions=(
        Dimension(kind="switch", size=4, bandwidth="10 GB/s", name="node"),
        Dimension(kind="switch", size=4, bandwidth="1.25 GB/s", name="rack"),
        Dimension(kind="switch", size=3, bandwidth="1 MB/s", name="sites"),
    )
)
SETUP = Setup(network=SITES, timing=Rate(10**13), batch=8)


def make(adaptive: float, parallelism: str = "data") -> Instance:
    model, setup = MODELS["vgg-16-cifar"], replace(SETUP, adaptive=adaptive)
    return make_workload(model, model.layers(), setup, parallelism=parallelism, chunks=1)


def makespan(instance: Instance) -> int:
    return schedule_of(instance, "fused/baseline+fifo").makespan


def sent(instance: Instance) -> float:
    plan = make_policy("fused/baseline+fifo")(instance)
    return float(plan.costs(instance).sent.sum())


def test_slowest_dimension_is_compressed_most_and_fast_ones_are_not() -> None:
    ratios = [dimension.compression for dimension in make(10.0).network.dimensions]
    assert ratios == [1.0, 1.0, 30.0]


def test_ratios_follow_the_times_of_the_dimensions() -> None:
    plain = make(1.0)
    times = sending_times(plain)
    ratios = dict(
        zip(times, (dimension.compression for dimension in adapted(plain, 4000.0).network.dimensions), strict=True)
    )
    slowest = max(times.values())
    assert ratios == pytest.approx({name: max(1.0, 12_000 * time / slowest) for name, time in times.items()})


@pytest.mark.parametrize("ratio", [2.0, 100.0, 10_000.0])
def test_it_is_no_slower_than_equal_compression_that_sends_as_many_bytes(ratio: float) -> None:
    plain, adaptive = make(1.0), make(ratio)
    even = sent(plain) / sent(adaptive)
    dimensions = tuple(dimension.model_copy(update={"compression": even}) for dimension in SITES.dimensions)
    uniform = plain.varied(network=SITES.varied(dimensions=dimensions))
    assert sent(uniform) == pytest.approx(sent(adaptive))
    assert makespan(adaptive) <= makespan(uniform)


def test_ratio_below_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"--adaptive = 0.5: must be 1 or more"):
        make(0.5)

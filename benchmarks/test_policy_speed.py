"""Speed of the hourglass policy and of many simulations.

All times are processor time of one core, so that other work on the machine hardly counts.  Everything runs compiled and
warm.  The targets hold for a core of 2020 or later; without ``--benchmark-enable`` everything runs once and none is
checked.
"""

from collections.abc import Callable
from math import log2
from time import process_time
from timeit import repeat
from typing import Any

import pytest
from paper_networks import PAPER_NETWORKS
from pytest_benchmark.fixture import BenchmarkFixture

import themis_opt
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.random_orders import RandomOrders
from themis_opt.problem.instance import Instance
from themis_opt.schedules.kernel import Operations, start_times
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.simulator import build_operations, simulate

COMPILED = pytest.mark.usefixtures("always_compiled")
pytestmark = [pytest.mark.benchmarks, pytest.mark.benchmark(timer=process_time), COMPILED]

THREE, FOUR = PAPER_NETWORKS[1:4], PAPER_NETWORKS[4:]
SIZES = ("100 MiB", "1000 MiB")

PLAN_TARGETS = [
    *((network, 64, "equal", 20e-3) for network in FOUR),
    *((network, 8, "equal", 2e-3) for network in THREE),
    *((network, 8, "free", 5e-3) for network in THREE),
    *((network, 64, "free", 30e-3) for network in FOUR),
]
"""Network, chunks, kind of sizes and seconds in which the median plan is to be made."""

SIMULATIONS_PER_SECOND = 20_000  # target for 64 chunks on four dimensions
MOST_GROWTH = 2.0  # how much more than n log n a simulation may grow, from 512 stages to 49 152
NUM_PLANS = 512  # plans simulated together; all differ, since a processor learns a run that is repeated by heart


@pytest.fixture(params=["fifo", "scf"])
def plans(request: pytest.FixtureRequest) -> tuple[Instance, list[Plan]]:
    """Plans of 512 stages, in random orders."""
    instance = themis_opt.load("4d-ring_fc_ring_sw.all_reduce.100MiB")
    return instance, [RandomOrders(request.param, seed)(instance) for seed in range(NUM_PLANS)]


def measure(benchmark: BenchmarkFixture, function: Callable[..., Any], *arguments: Any) -> float | None:
    """The median seconds of a call, or None if nothing is measured."""
    benchmark.pedantic(function, arguments, rounds=21, warmup_rounds=2)
    return None if benchmark.stats is None else float(benchmark.stats.stats.median)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("network", "chunks", "sizes", "target"), PLAN_TARGETS)
def test_plan(benchmark: BenchmarkFixture, network: str, chunks: int, sizes: str, target: float, size: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=chunks, size=size)
    median = measure(benchmark, Hourglass(sizes), instance)  # type: ignore[arg-type]
    assert median is None or median <= target


def test_simulate_many_plans(benchmark: BenchmarkFixture, plans: tuple[Instance, list[Plan]]) -> None:
    """With the costs of all stages, which the kernel is given; the target is that of the kernel."""
    instance, several = plans
    note_rate(benchmark, measure(benchmark, lambda: [simulate(instance, plan) for plan in several]))


def test_kernel_alone(benchmark: BenchmarkFixture, plans: tuple[Instance, list[Plan]]) -> None:
    instance, several = plans
    prepared = [operations_of(instance, plan) for plan in several]
    rate = note_rate(benchmark, measure(benchmark, lambda: [start_times(operations) for operations in prepared]))
    assert rate is None or rate >= SIMULATIONS_PER_SECOND


def test_kernel_grows_as_n_log_n(benchmark: BenchmarkFixture, plans: tuple[Instance, list[Plan]]) -> None:
    """From 64 chunks on four dimensions to 4096 on six."""
    instance, several = plans
    few = [operations_of(instance, plan) for plan in several]
    wide = themis_opt.load("6d-ring_fc_ring_sw_sw_sw.all_reduce.1000MiB").overridden(chunks=4096)
    many = operations_of(wide, RandomOrders(several[0].dispatch)(wide))
    slow = measure(benchmark, start_times, many)
    if slow is not None:
        fast = min(
            repeat(lambda: [start_times(operations) for operations in few], timer=process_time, number=1, repeat=9)
        ) / len(few)
        growth = slow / fast / (n_log_n(many) / n_log_n(few[0]))
        benchmark.extra_info["growth over n log n"] = round(growth, 2)
        assert growth <= MOST_GROWTH


def note_rate(benchmark: BenchmarkFixture, median: float | None) -> float | None:
    """Note the simulations per second; returns them, or None if nothing is measured."""
    if median is None:
        return None
    benchmark.extra_info["simulations per second"] = round(NUM_PLANS / median)
    return NUM_PLANS / median


def operations_of(instance: Instance, plan: Plan) -> Operations:
    """A plan as the kernel sees it."""
    return build_operations(instance, plan, plan.costs(instance))


def n_log_n(operations: Operations) -> float:
    """Of the number of operations."""
    count = len(operations.resource)
    return count * log2(count)

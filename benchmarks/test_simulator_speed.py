"""Speed and memory of the simulator.

All simulations run compiled and warm; what loading the compiler takes is not part of any figure.
"""

import tracemalloc

import pytest
from paper_networks import PAPER_NETWORKS
from pytest_benchmark.fixture import BenchmarkFixture

import themis_opt
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.simulator import simulate

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("always_compiled")]

GRID_POLICIES = ("baseline+fifo", "themis+fifo", "themis+scf")


@pytest.fixture
def usual() -> tuple[Instance, Plan]:
    """An all-reduce of 64 chunks on four dimensions: 512 stages."""
    instance = themis_opt.load("4d-ring_fc_ring_sw.all_reduce.100MiB")
    return instance, make_policy("themis+scf")(instance)


@pytest.fixture
def largest() -> tuple[Instance, Plan]:
    """An all-reduce of 4096 chunks on six dimensions: 49 152 stages."""
    instance = themis_opt.load("4d-ring_fc_ring_sw.all_reduce.1000MiB")
    two_more = tuple(d.replace(bandwidth="25 GB/s", name="") for d in instance.network.dimensions[:2])
    dimensions = tuple(d.replace(name="") for d in instance.network.dimensions) + two_more
    wide = instance.replace(network=instance.network.replace(dimensions=dimensions)).overridden(chunks=4096)
    return wide, make_policy("themis+scf")(wide)


def test_simulate_64_chunks_on_4_dimensions(benchmark: BenchmarkFixture, usual: tuple[Instance, Plan]) -> None:
    benchmark(simulate, *usual)


def test_simulate_4096_chunks_on_6_dimensions(benchmark: BenchmarkFixture, largest: tuple[Instance, Plan]) -> None:
    benchmark(simulate, *largest)
    benchmark.extra_info["stages"] = largest[1].num_stages
    benchmark.extra_info["peak_megabytes"] = peak_bytes(*largest) / 1e6


def test_plan_and_simulate_the_paper_grid(benchmark: BenchmarkFixture) -> None:
    """Six networks x 19 sizes x three policies, 64 chunks."""
    instances = [
        themis_opt.load(f"{network}.all_reduce.100MiB").overridden(size=f"{size} MiB")
        for network in PAPER_NETWORKS
        for size in range(100, 1001, 50)
    ]
    policies = [make_policy(specification) for specification in GRID_POLICIES]

    def grid() -> int:
        return sum(simulate(instance, policy(instance)).makespan for instance in instances for policy in policies)

    benchmark.pedantic(grid, rounds=3, warmup_rounds=1)
    benchmark.extra_info["simulations"] = len(instances) * len(policies)


def peak_bytes(instance: Instance, plan: Plan) -> int:
    """Most memory that one simulation holds at once, beyond instance and plan."""
    tracemalloc.start()
    simulate(instance, plan)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak

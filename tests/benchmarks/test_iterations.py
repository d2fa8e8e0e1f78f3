"""Time to plan and simulate training iterations: ``python -m pytest -m benchmarks``."""

import pytest
from paper_networks import PAPER_NETWORKS
from pytest_benchmark.fixture import BenchmarkFixture

import themis_opt
from themis_opt.base.compiled import compile_at_once
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds

pytestmark = pytest.mark.benchmarks

WORKLOADS = ("resnet-152", "gnmt", "dlrm", "transformer-1t")
POLICIES = ("fused:order=newest/baseline+fifo", "fused/themis+scf_largest", "fused/hourglass")
LARGEST = "4d-ring_fc_ring_sw.transformer-1t"


@pytest.fixture(autouse=True)
def always_compiled() -> None:
    """Compile before anything is measured, and never interpret."""
    compile_at_once()
    planned_and_simulated(loaded("2d-sw_sw.resnet-50"), POLICIES[-1])


def loaded(name: str) -> Instance:
    """A shipped iteration."""
    instance = themis_opt.load(name)
    assert isinstance(instance, Instance)
    return instance


def planned_and_simulated(instance: Instance, specification: str, iterations: int | None = None) -> int:
    """Iteration time in picoseconds."""
    return simulate(instance, make_policy(specification)(instance), iterations).makespan


def test_plan_and_simulate_all_panels_of_figure_12(benchmark: BenchmarkFixture) -> None:
    """Themis (ISCA 2022), figure 12: four workloads on six networks, three iterations, three policies."""
    panels = [loaded(f"{network}.{workload}") for workload in WORKLOADS for network in PAPER_NETWORKS]

    def figure() -> int:
        return sum(planned_and_simulated(panel, policy, 3) for panel in panels for policy in POLICIES)

    benchmark.pedantic(figure, rounds=3, warmup_rounds=1)
    benchmark.extra_info["simulations"] = len(panels) * len(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_plan_and_simulate_the_largest_iteration(benchmark: BenchmarkFixture, policy: str) -> None:
    """Fifteen launches of 64 chunks, on up to three dimensions."""
    benchmark.pedantic(planned_and_simulated, (loaded(LARGEST), policy), rounds=5, warmup_rounds=1)


def test_bound_the_largest_iteration(benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(bounds, (loaded(LARGEST),), rounds=5, warmup_rounds=1)

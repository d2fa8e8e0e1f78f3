"""The training iterations of Themis (ISCA 2022, arXiv:2110.04478), figure 12; instances are rebuilt from its text.

Themis with the smallest chunk first reads "smallest" as the public simulator does, the larger of the bytes before and
after a stage; bytes before it give 1.456 for ResNet-152, 2.3 % below the figure.
"""

from functools import cache

import numpy as np
import pytest
from paper_networks import PAPER_NETWORKS
from small_iterations import run

import themis_opt
from themis_opt.problem.instance import Instance
from themis_opt.solving.bounds import bounds

BASELINE, THEMIS = "fused:order=newest/baseline+fifo", "fused/themis+scf_largest"

SPEEDUPS = {"resnet-152": 1.49, "gnmt": 1.30, "dlrm": 1.30, "transformer-1t": 1.25}
"""Of Themis, geometric means over the networks of table 2; section 6.2."""

IDEAL = {"resnet-152": 1.54, "gnmt": 1.32, "dlrm": 1.33, "transformer-1t": 1.26}
"""The same of an ideal network; that of DLRM within 2 %, since the figure counts what passes on a ring of 16 once."""

TOTALS = {
    ("resnet-152", "2d-sw_sw"): 0.71487,
    ("resnet-152", "3d-sw_sw_sw_homo"): 0.44479,
    ("resnet-152", "3d-sw_sw_sw_hetero"): 0.70972,
    ("resnet-152", "3d-fc_ring_sw"): 0.71687,
    ("resnet-152", "4d-ring_sw_sw_sw"): 0.71737,
    ("resnet-152", "4d-ring_fc_ring_sw"): 0.79297,
    ("gnmt", "2d-sw_sw"): 0.79207,
    ("gnmt", "3d-sw_sw_sw_homo"): 0.56052,
    ("gnmt", "3d-sw_sw_sw_hetero"): 0.80229,
    ("gnmt", "3d-fc_ring_sw"): 0.80479,
    ("gnmt", "4d-ring_sw_sw_sw"): 0.82414,
    ("gnmt", "4d-ring_fc_ring_sw"): 0.8887,
}
"""Iteration time of Themis over that of the baseline: the bars of figure 12, read from its vector graphics."""


@cache
def panel(workload: str, network: str) -> Instance:
    """The shipped instance of one panel."""
    instance = themis_opt.load(f"{network}.{workload}")
    assert isinstance(instance, Instance)
    return instance


@cache
def iteration_time(workload: str, network: str, specification: str) -> int:
    """Picoseconds, of three iterations."""
    return run(panel(workload, network), specification, iterations=3).makespan


def speedup(workload: str, network: str, specification: str = THEMIS) -> float:
    """Iteration time of the baseline over that of a policy."""
    return iteration_time(workload, network, BASELINE) / iteration_time(workload, network, specification)


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.log(values).mean()))


@pytest.mark.parametrize("workload", SPEEDUPS)
def test_mean_speedups_of_themis_are_those_of_the_paper(workload: str) -> None:
    mean = geometric_mean([speedup(workload, network) for network in PAPER_NETWORKS])
    assert mean == pytest.approx(SPEEDUPS[workload], rel=0.02)


def test_speedups_of_the_panels_are_those_of_the_figure() -> None:
    errors = [abs(speedup(*where) * total - 1) for where, total in TOTALS.items()]
    assert np.mean(errors) <= 0.015


@pytest.mark.parametrize("workload", IDEAL)
def test_ideal_speedups_are_those_of_the_paper(workload: str) -> None:
    ideal = [
        iteration_time(workload, network, BASELINE) / bounds(panel(workload, network))["ideal"]
        for network in PAPER_NETWORKS
    ]
    assert geometric_mean(ideal) == pytest.approx(IDEAL[workload], rel=0.02 if workload == "dlrm" else 0.01)


def test_bytes_before_a_stage_as_key_stay_below_the_figure_for_resnet() -> None:
    mean = geometric_mean([speedup("resnet-152", network, "fused/themis+scf") for network in PAPER_NETWORKS])
    assert mean == pytest.approx(1.4557, rel=1e-3)


@pytest.mark.parametrize("workload", SPEEDUPS)
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_hourglass_exposes_hardly_more_than_the_bound_leaves(workload: str, network: str) -> None:
    instance = panel(workload, network)
    least = max(bounds(instance).values()) - instance.compute
    assert least <= run(instance, "fused/hourglass").period.exposed <= 1.015 * least

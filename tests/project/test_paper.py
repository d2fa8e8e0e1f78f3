"""Published figures that the simulator has to reproduce."""

from statistics import fmean, geometric_mean

import pytest
from paper_networks import PAPER_NETWORKS
from planning import schedule_of

import themis_opt

SIZES_MIB = range(100, 1001, 50)
POLICIES = ("baseline+fifo", "themis+fifo", "themis+scf")


@pytest.fixture(scope="module")
def grid() -> dict[str, list[tuple[int, float]]]:
    """Makespan and utilisation per policy over six networks x 19 sizes, always in the same order."""
    rows: dict[str, list[tuple[int, float]]] = {policy: [] for policy in POLICIES}
    for network in PAPER_NETWORKS:
        instance = themis_opt.load(f"{network}.all_reduce.100MiB")
        for size in SIZES_MIB:
            sized = instance.overridden(size=f"{size} MiB", chunks=64)
            for specification, results in rows.items():
                schedule = schedule_of(sized, specification)
                results.append((schedule.makespan, schedule.utilisation))
    return rows


def mean_speedup(grid: dict[str, list[tuple[int, float]]], policy: str) -> float:
    """Geometric mean of the speedups over the fixed order."""
    pairs = zip(grid["baseline+fifo"], grid[policy], strict=True)
    return geometric_mean(slow / fast for (slow, _), (fast, _) in pairs)


@pytest.mark.parametrize(("policy", "published"), [("themis+fifo", 1.58), ("themis+scf", 1.72)])
def test_mean_speedup_is_the_published_one(
    grid: dict[str, list[tuple[int, float]]], policy: str, published: float
) -> None:
    """Themis (ISCA 2022), section 6.1, figure 8."""
    assert mean_speedup(grid, policy) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("policy", "published", "points"),
    [("baseline+fifo", 0.5631, 0.005), ("themis+fifo", 0.8767, 0.015), ("themis+scf", 0.9514, 0.015)],
)
def test_mean_utilisation_is_the_published_one(
    grid: dict[str, list[tuple[int, float]]], policy: str, published: float, points: float
) -> None:
    """Themis (ISCA 2022), section 6.1, figure 11."""
    assert fmean(utilisation for _, utilisation in grid[policy]) == pytest.approx(published, abs=points)


ASTRA_SIM = {
    ("2d-sw_sw", "baseline+fifo"): (1579.5, 6463.6, 12861.4),
    ("2d-sw_sw", "themis+fifo"): (2158.8, 6405.3, 11575.6),
    ("4d-ring_fc_ring_sw", "baseline+fifo"): (682.4, 1963.5, 4012.5),
    ("4d-ring_fc_ring_sw", "themis+fifo"): (917.4, 2142.1, 3584.2),
}
"""Microseconds for 100, 500 and 1024 MiB in 64 chunks, of the public ASTRA-sim 1.0 analytical simulator on the same
networks; it serves one chunk after another on a dimension and lets the step latency occupy it."""

TOLERANCE = {"baseline+fifo": 0.005, "themis+fifo": 0.015}


@pytest.mark.parametrize(
    ("network", "policy", "size_mib", "microseconds"),
    [
        (network, policy, size_mib, microseconds)
        for (network, policy), times in ASTRA_SIM.items()
        for size_mib, microseconds in zip((100, 500, 1024), times, strict=True)
    ],
)
def test_times_agree_with_astra_sim(network: str, policy: str, size_mib: int, microseconds: float) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB")
    sized = instance.overridden(size=f"{size_mib} MiB", chunks=64, latency="occupy")
    schedule = schedule_of(sized, policy)
    assert schedule.makespan / 10**6 == pytest.approx(microseconds, rel=TOLERANCE[policy])

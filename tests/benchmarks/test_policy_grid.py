"""What the fast policies reach on the grid of the paper.

``python -m pytest -m benchmarks tests/benchmarks/test_policy_grid.py`` prints the figures: of hourglass and Themis on
six networks x 19 sizes, and of the search that starts from it on two sizes.
"""

from dataclasses import dataclass
from functools import cache
from statistics import fmean

import pytest
from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.themis import Themis
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.annealed import Annealed
from themis_opt.solving.bounds import bounds

pytestmark = pytest.mark.benchmarks

GRID_SIZES, SEARCHED_SIZES = range(100, 1001, 50), (100, 1000)
"""MiB."""

TARGETS = [(64, "equal", 0.98), (16, "equal", 0.95), (8, "free", 0.96)]
"""Chunks, kind of sizes, and least mean utilisation of hourglass on the grid."""

MOST_TO_THEMIS = 1.005
"""Largest makespan of hourglass over that of Themis with the smallest chunk first and as many chunks."""

EVALUATIONS, LARGEST_GAP = 100_000, 0.01
"""Limits of the search, and the gap to the best bound that it has to reach with 64 equal chunks."""


@dataclass(frozen=True)
class Point:
    """Utilisations of hourglass and of Themis on one instance, and one makespan over the other."""

    hourglass: float
    themis: float
    ratio: float


def point_of(instance: Instance, sizes: str) -> Point:
    """Both policies on one instance."""
    schedule = simulate(instance, Hourglass(sizes)(instance))  # type: ignore[arg-type]
    validate(schedule)
    themis = simulate(instance, Themis("scf")(instance))
    return Point(schedule.utilisation, themis.utilisation, schedule.makespan / themis.makespan)


@cache
def points(chunks: int, sizes: str) -> dict[str, list[Point]]:
    """The whole grid, by network."""
    return {
        network: [point_of(instance_of(network, size, chunks), sizes) for size in GRID_SIZES]
        for network in PAPER_NETWORKS
    }


def instance_of(network: str, size: int, chunks: int = 64) -> Instance:
    """An all-reduce of so many MiB on a network of the paper."""
    return themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=chunks, size=f"{size} MiB")


def line(network: str, group: list[Point]) -> str:
    """Means of the utilisations, the least of hourglass, and the worst ratio."""
    ours, themis = [point.hourglass for point in group], fmean(point.themis for point in group)
    worst = max(point.ratio for point in group)
    return f"| {network} | {fmean(ours):.2%} | {min(ours):.2%} | {themis:.2%} | {worst:.4f} |"


@pytest.mark.parametrize(("chunks", "sizes", "least"), TARGETS)
def test_mean_utilisation_of_hourglass(
    capsys: pytest.CaptureFixture[str], chunks: int, sizes: str, least: float
) -> None:
    by_network = points(chunks, sizes)
    everything = [point for group in by_network.values() for point in group]
    with capsys.disabled():
        print(f"\n\n| {chunks} {sizes} chunks | mean | least | themis+scf | worst makespan over it |")
        print("|---|---|---|---|---|")
        print("\n".join(line(network, group) for network, group in [*by_network.items(), ("all", everything)]))
    assert fmean(point.hourglass for point in everything) >= least


@pytest.mark.parametrize(("chunks", "sizes", "least"), TARGETS)
def test_hourglass_is_nowhere_worse_than_themis(chunks: int, sizes: str, least: float) -> None:
    by_network = points(chunks, sizes)
    assert max(point.ratio for group in by_network.values() for point in group) <= MOST_TO_THEMIS


@pytest.mark.parametrize("size", SEARCHED_SIZES)
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_search_closes_the_gap_and_repeats_itself(capsys: pytest.CaptureFixture[str], network: str, size: int) -> None:
    instance, search = instance_of(network, size), Annealed(evaluations=EVALUATIONS, workers=1)
    best_bound = max(bounds(instance).values())
    start, improved = simulate(instance, Hourglass()(instance)), search.searched(instance)
    validate(improved)
    gaps = [schedule.makespan / best_bound - 1 for schedule in (start, improved)]
    with capsys.disabled():
        print(f"\n{network} {size} MiB: gap of hourglass {gaps[0]:.3%}, after {EVALUATIONS} evaluations {gaps[1]:.3%}")
    assert gaps[1] <= LARGEST_GAP
    assert search.searched(instance).enforced_plan() == improved.enforced_plan()

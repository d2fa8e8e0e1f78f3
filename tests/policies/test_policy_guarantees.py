"""What the fast policies promise on networks that nobody chose, and on the grid of the paper."""

from functools import cache

import pytest
from paper_networks import PAPER_NETWORKS
from planning import schedule_of

import themis_opt
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.themis import Themis
from themis_opt.problem.catalog import random_instance
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

NEVER_WORSE = 1 + 1e-6
MOST_TO_THEMIS = 1.005


def to_themis(instance: Instance, sizes: str = "equal") -> float:
    """Makespan of a valid schedule of hourglass over that of Themis with the smallest chunk first."""
    schedule = simulate(instance, Hourglass(sizes)(instance))  # type: ignore[arg-type]
    validate(schedule)
    return schedule.makespan / simulate(instance, Themis("scf")(instance)).makespan


@pytest.mark.parametrize("dispatch", ["baseline+fifo", "themis+fifo", "themis+scf"])
@pytest.mark.parametrize("seed", [41, 143, 249, 431, 453, 505])  # few bytes, long latencies: waiting decides
def test_no_usual_policy_is_better_where_latency_decides(seed: int, dispatch: str) -> None:
    instance = random_instance(seed)
    schedule = simulate(instance, Hourglass()(instance))
    assert schedule.makespan <= schedule_of(instance, dispatch).makespan


@cache
def on_random_network(seed: int) -> float:
    return to_themis(random_instance(seed))


@pytest.mark.parametrize("seed", range(30))
def test_hourglass_is_never_worse_than_themis_on_random_networks(seed: int) -> None:
    assert on_random_network(seed) <= NEVER_WORSE


@pytest.mark.parametrize(("chunks", "sizes"), [(64, "equal"), (16, "equal"), (8, "free")])
@pytest.mark.parametrize("size", ["100 MiB", "1000 MiB"])
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_hourglass_is_not_worse_than_themis_on_the_paper_networks(
    network: str, size: str, chunks: int, sizes: str
) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=chunks, size=size)
    assert to_themis(instance, sizes) <= MOST_TO_THEMIS

"""Adasum on a dimension: what the products of pairs cost, and where it can run."""

import pytest
from pydantic import ValidationError

from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost import steps
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import FORMAT, Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import Phase
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.schedules.verification import verify
from themis_opt.solving.bounds import bounds


def dimension(algorithm: str, size: int = 64) -> Dimension:
    return Dimension(kind="switch", size=size, bandwidth="100 Gb/s", latency="3 us", algorithm=algorithm)


def all_reduce(size: str, *dimensions: Dimension) -> Instance:
    collective = Collective(kind="all_reduce", size=size, chunks=1)
    return Instance(format=FORMAT, network=Network(dimensions=dimensions), collectives=(collective,))


def makespan(instance: Instance) -> int:
    schedule = simulate(instance, make_policy("hourglass")(instance))
    validate(schedule)
    assert schedule.makespan >= max(bounds(instance).values()) * (1 - 1e-9)
    return schedule.makespan


@pytest.mark.parametrize("size", ["25 MB", "100 MB", "1 GB"])
def test_products_cost_less_than_two_percent_from_25_megabytes_on(size: str) -> None:
    plain, adasum = (makespan(all_reduce(size, dimension(own))) for own in ("halving_doubling", "adasum"))
    assert 1 < adasum / plain < 1.02


def test_steps_are_those_of_halving_doubling_and_of_the_products_of_every_level() -> None:
    assert steps(dimension("adasum", 8), Phase.REDUCE_SCATTER) == 3 + (1 + 2 + 3)
    assert steps(dimension("adasum", 8), Phase.ALL_GATHER) == 3


def test_hierarchical_mode_sums_inside_and_combines_between_nodes() -> None:
    inside = Dimension(kind="ring", size=4, bandwidth="150 GB/s", latency="2 us")
    instance = all_reduce("100 MB", inside, dimension("adasum", 8))
    flat = all_reduce("100 MB", inside.replace(kind="switch", algorithm="adasum"), dimension("adasum", 8))
    assert makespan(instance) <= makespan(flat) * 1.001
    verify(simulate(instance, make_policy("baseline")(instance)))


@pytest.mark.parametrize("size", [3, 6, 12])
def test_numbers_of_npus_that_are_no_power_of_two_are_refused(size: int) -> None:
    with pytest.raises(ValidationError, match=f"{size} is no power of two"):
        dimension("adasum", size)


def test_switch_that_reduces_is_refused() -> None:
    with pytest.raises(ValidationError, match="does not compute 'adasum'"):
        dimension("adasum").replace(in_network=True)

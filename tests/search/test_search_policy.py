"""Local search as a policy: reproducible by evaluations, never worse than its start, legal for both kinds of sizes."""

import math
from signal import SIGINT, raise_signal
from threading import Timer

import pytest

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.policies.hourglass.policy import Hourglass, balanced
from themis_opt.problem.catalog import random_instance
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.annealed import Annealed


@pytest.fixture(scope="module")
def eight(hetero: Instance) -> Instance:
    """Eight chunks on three dimensions."""
    return hetero.overridden(chunks=8)


def test_equal_evaluations_and_seeds_give_equal_plans(eight: Instance) -> None:
    assert Annealed(evaluations=3_000)(eight) == Annealed(evaluations=3_000)(eight)


def test_search_never_ends_worse_than_it_starts(paper_instance: Instance) -> None:
    instance = paper_instance.overridden(chunks=8)
    schedule = Annealed(evaluations=2_000).searched(instance)
    validate(schedule)
    assert schedule.makespan <= balanced(instance).makespan


@pytest.mark.parametrize("sizes", ["equal", "free"])
@pytest.mark.parametrize("seed", [143, 431])
def test_a_short_search_is_never_worse_than_hourglass(seed: int, sizes: str) -> None:
    instance = random_instance(seed)
    short = simulate(instance, Annealed(evaluations=20, sizes=sizes)(instance))  # type: ignore[arg-type]
    assert short.makespan <= simulate(instance, Hourglass(sizes)(instance)).makespan  # type: ignore[arg-type]


def test_evaluations_find_better_plans() -> None:
    eight = themis_opt.load("4d-ring_sw_sw_sw.all_reduce.100MiB").overridden(chunks=8)
    few, many = (simulate(eight, Annealed(evaluations=n)(eight)).makespan for n in (1, 50_000))
    assert many < few


@pytest.mark.parametrize("evaluations", [math.inf, math.nan, 0, -5])
def test_a_search_without_an_end_is_refused(evaluations: float) -> None:
    with pytest.raises(InputError, match="evaluations = "):
        Annealed(evaluations=evaluations)


def test_wall_time_ends_the_search(eight: Instance) -> None:
    validate(Annealed(evaluations=10**12, seconds=0.2).searched(eight))


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_an_interruption_is_passed_on(eight: Instance) -> None:
    timer = Timer(0.5, raise_signal, [SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        Annealed(evaluations=10**12, seconds=600.0)(eight)

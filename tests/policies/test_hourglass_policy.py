"""The hourglass policy: its plans, and the parts it is made of."""

from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_networks import PAPER_NETWORKS
from strategies import instances

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass import policy as hourglass
from themis_opt.policies.hourglass.candidates import SEARCH
from themis_opt.policies.hourglass.policy import Hourglass, HourglassParams, balanced
from themis_opt.policies.themis import Themis
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.makespan_bounds import fluid


def scheduled(instance: Instance, sizes: str = "equal") -> Schedule:
    return simulate(instance, Hourglass(sizes)(instance))  # type: ignore[arg-type]


def of_kind(instance: Instance, kind: CollectiveKind, chunks: int = 8) -> Instance:
    return instance.replace(collectives=(instance.collectives[0].replace(kind=kind, chunks=chunks),))


@pytest.mark.parametrize("sizes", ["equal", "free"])
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_plans_of_several_collectives_are_valid(every_kind: Instance, ag_order: str, sizes: str) -> None:
    validate(scheduled(every_kind.overridden(chunks=3, ag_order=ag_order), sizes))


@given(instances(), st.sampled_from(["equal", "free"]))
def test_plans_of_random_instances_are_valid_and_never_worse_than_themis(instance: Instance, sizes: str) -> None:
    schedule = scheduled(instance, sizes)
    validate(schedule)
    assert schedule.makespan <= simulate(instance, Themis("scf")(instance)).makespan


@pytest.mark.parametrize("kind", CollectiveKind)
def test_chunks_are_equal_by_default(hetero: Instance, kind: CollectiveKind) -> None:
    assert scheduled(of_kind(hetero, kind, 7)).has_equal_sizes


def test_the_gather_order_is_reversed_where_it_has_to_be(hetero: Instance) -> None:
    (chunks,) = Hourglass()(hetero.overridden(chunks=16, ag_order="reverse")).chunks
    assert np.array_equal(chunks.paths, chunks.paths[:, ::-1])


def test_equal_instances_get_equal_plans(hetero: Instance) -> None:
    few = hetero.overridden(chunks=6)
    assert Hourglass()(few) == Hourglass()(few.replace(name="other"))


def test_free_sizes_take_no_more_chunks_than_allowed(mixed: Instance) -> None:
    instance = mixed.overridden(chunks=5)
    plan = Hourglass("free")(instance)
    assert all(len(chunks.sizes) <= 5 for chunks in plan.chunks)


@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_free_sizes_beat_as_many_equal_chunks(network: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=8)
    assert scheduled(instance, "free").makespan < scheduled(instance).makespan


@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_free_sizes_are_no_worse_than_many_equal_chunks_as_dealt_out(network: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.1000MiB")
    assert scheduled(instance, "free").makespan <= balanced(instance, HourglassParams(trials_per_stage=0)).makespan


def test_very_many_collectives_keep_equal_chunks_though_sizes_are_free() -> None:
    network = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="100 GB/s"),))
    one = Collective(kind="all_reduce", size="1 MiB", chunks=5)
    instance = Instance(network=network, collectives=tuple(one.replace(name=f"number {i}") for i in range(65)))
    assert scheduled(instance, "free").has_equal_sizes


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_the_best_usual_schedule_is_returned_where_it_is_better(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, sizes: str
) -> None:
    monkeypatch.setattr(hourglass, "plan_of", lambda instance, *_: Baseline("lifo")(instance))
    monkeypatch.setattr("themis_opt.solving.sizing.resized", lambda schedule: schedule)
    usual = (Themis("scf"), Themis("fifo"), Baseline())
    assert scheduled(hetero, sizes).makespan == min(simulate(hetero, policy(hetero)).makespan for policy in usual)


@pytest.mark.filterwarnings("error")
def test_a_clock_that_is_too_small_is_reported() -> None:
    slow = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="1 B/s"),))
    with pytest.raises(InputError):
        Hourglass()(Instance(network=slow, collectives=(Collective(kind="all_reduce", size="1 TiB"),)))


@pytest.mark.parametrize("ag_order", ["free", "reverse"])
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_64_chunks_come_within_a_hundredth_of_the_fluid_bound(network: str, ag_order: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(ag_order=ag_order)
    assert scheduled(instance).makespan <= 1.01 * fluid(instance)


@pytest.mark.parametrize(("chunks", "sizes", "least"), [(64, "equal", 0.99), (16, "equal", 0.97), (8, "free", 0.96)])
def test_mean_utilisation_on_the_paper_networks(chunks: int, sizes: str, least: float) -> None:
    loaded = [themis_opt.load(f"{network}.all_reduce.100MiB") for network in PAPER_NETWORKS]
    grid = [i.overridden(chunks=chunks, size=f"{size} MiB") for i in loaded for size in (100, 300, 1000)]
    assert fmean(scheduled(instance, sizes).utilisation for instance in grid) >= least


@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_is_planned_better_than_by_themis(hetero: Instance, kind: CollectiveKind) -> None:
    instance = of_kind(hetero, kind, 16)
    assert scheduled(instance).makespan < simulate(instance, Themis("scf")(instance)).makespan


@pytest.mark.parametrize("chunks", [1, 3])
def test_the_interpreted_search_finds_the_same_plan_as_the_compiled_one(
    mixed: Instance, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    instance = mixed.overridden(chunks=chunks)
    monkeypatch.setattr(SEARCH, "patience", 0)
    compiled = balanced(instance)
    monkeypatch.setattr(SEARCH, "patience", 10**12)
    assert balanced(instance) == compiled

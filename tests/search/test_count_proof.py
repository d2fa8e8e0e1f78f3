"""What the reference proves where every chunk costs something."""

from itertools import pairwise

import pytest

from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.count_proof import CountProof, ProofParams
from themis_opt.search.exact import Exact
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.search.starts import starting_schedule
from themis_opt.solving.bounds import bounds

LIMITS = SearchLimits(seconds=600.0, workers=1, gap=0.01, deterministic=True)


def problem(launch: str, kind: str = "all_reduce", chunks: int = 4) -> Instance:
    """4 MiB on two dimensions, one four times as fast."""
    dimensions = tuple(
        Dimension(kind=Kind.SWITCH, size=4, bandwidth=bandwidth, latency="1 us", launch_overhead=launch)
        for bandwidth in ("100 GB/s", "25 GB/s")
    )
    collective = {"kind": kind, "size": "4 MiB", "chunks": chunks}
    return Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": [collective]})


def proof(instance: Instance, seconds: float = 0.5, **params: float) -> tuple[CountProof, list[Schedule], list[float]]:
    schedules, proven = [starting_schedule(instance)], list[float]()
    own = CountProof(LIMITS, schedules[0], schedules.append, proven.append, ProofParams(**params))
    own.run(Allowance(seconds, counts_work=True), seconds)
    return own, schedules, proven


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "broadcast"])
def test_bounds_rise_and_schedules_improve(kind: str) -> None:
    instance = problem("10 us", kind)
    known = max(bounds(instance, equal_sizes=False).values())
    own, schedules, proven = proof(instance)
    assert known * (1 - 1e-9) <= own.bound <= own.best.makespan <= schedules[0].makespan
    assert all(one < other for one, other in pairwise(proven))
    assert all(one.makespan > other.makespan for one, other in pairwise(schedules))
    for schedule in schedules:
        validate(schedule)


def test_bounds_hold_for_any_schedule() -> None:
    """It closes some of the gap, and stays below what the fast policies reach with any number of chunks."""
    instance = problem("10 us")
    own, _, _ = proof(instance)
    assert own.bound > max(bounds(instance, equal_sizes=False).values()) * 1.01
    for count in range(1, 5):
        assert starting_schedule(instance.at_most(count)).makespan >= own.bound


def test_filling_the_pipeline_is_seen_without_cp_sat() -> None:
    """What interval loads prove is above what launches and bytes alone do."""
    instance = problem("10 us", chunks=6)
    own, _, proven = proof(instance, seconds=1.0, max_stages=0)
    assert own.bound > max(bounds(instance, equal_sizes=False).values()) * 1.01
    assert proven[-1] == own.bound
    for count in range(1, 7):
        assert starting_schedule(instance.at_most(count)).makespan >= own.bound


def test_free_launches_are_not_its_business() -> None:
    assert not CountProof.suits(problem("0 us"))
    assert CountProof.suits(problem("1 us"))
    one = problem("1 us")
    assert not CountProof.suits(one.replace(network=Network(dimensions=one.network.dimensions[:1])))


def test_too_many_open_numbers_prove_nothing() -> None:
    own, _, proven = proof(problem("10 us"), max_open=1)
    assert own.bound == 0.0
    assert proven == []


def test_the_reference_proves_more_than_its_bounds_say() -> None:
    instance = problem("10 us").replace(ag_order="reverse")
    known = max(bounds(instance, equal_sizes=False).values())
    reference = Exact(seconds=0.4, workers=1, sizes="free", deterministic=True).solve(instance, known)
    assert known < reference.bound <= reference.schedule.makespan
    assert simulate(instance, reference.schedule.enforced_plan()).makespan == reference.schedule.makespan

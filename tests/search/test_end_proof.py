"""What the reference proves of few equal chunks by where they begin and end."""

from collections.abc import Sequence
from itertools import pairwise
from threading import Event

import pytest

from formulations.budget import Budget
from formulations.chunk_order import ChunkOrder
from formulations.cp_sat import Report
from formulations.end_counts import BeginCounts, EndPairs, Ends
from formulations.job_plans import PlanOutcome
from formulations.lattice import JobClass
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search import end_proof
from themis_opt.search.end_proof import EndProof, EndProofParams
from themis_opt.search.exact import Exact
from themis_opt.search.limits import Allowance, SearchLimits
from themis_opt.search.starts import starting_schedule
from themis_opt.solving.bounds import bounds

LIMITS = SearchLimits(seconds=600.0, workers=1, gap=0.01, deterministic=True)


def problem(kind: str = "all_reduce", chunks: int = 3, ag_order: str = "free") -> Instance:
    """4 MiB on two dimensions, one four times as fast."""
    dimensions = tuple(
        Dimension(kind=Kind.SWITCH, size=4, bandwidth=bandwidth, latency="10 us")
        for bandwidth in ("100 GB/s", "25 GB/s")
    )
    collective = {"kind": kind, "size": "4 MiB", "chunks": chunks}
    network = {"dimensions": dimensions}
    return Instance.model_validate({"network": network, "collectives": [collective], "ag_order": ag_order})


def proof(start: Schedule, seconds: float, **params: float) -> tuple[EndProof, list[Schedule], list[float]]:
    schedules, proven = [start], [max(bounds(start.instance).values())]
    own = EndProof(LIMITS, start, proven[0], schedules.append, proven.append, EndProofParams(**params))
    own.run(Allowance(seconds, counts_work=True), seconds)
    return own, schedules, proven


@pytest.mark.parametrize(
    ("kind", "ag_order"),
    [("all_reduce", "free"), ("all_reduce", "reverse"), ("all_gather", "free"), ("broadcast", "free")],
)
def test_bound_and_schedule_meet_at_the_optimum(kind: str, ag_order: str) -> None:
    """From the worst of starts, without any other search."""
    instance = problem(kind, ag_order=ag_order)
    start = simulate(instance, make_policy("baseline+fifo")(instance))
    own, schedules, proven = proof(start, 20.0)
    optimum = Exact(seconds=20.0, workers=1, deterministic=True).solve(instance)
    assert own.bound <= optimum.schedule.makespan * (1 + 1e-9)
    assert own.best.makespan >= optimum.bound * (1 - 1e-9)
    assert own.best.makespan <= own.bound * (1 + LIMITS.gap)
    assert all(one < other for one, other in pairwise(proven))
    assert all(one.makespan > other.makespan for one, other in pairwise(schedules))
    for schedule in schedules:
        validate(schedule)


def test_what_is_proven_before_the_time_is_over_is_kept() -> None:
    start = starting_schedule(problem(chunks=5))
    own, _, proven = proof(start, 0.02)
    assert proven[-1] == own.bound <= own.best.makespan
    assert proof(start, 5.0)[0].bound >= own.bound


def test_hard_cells_are_refuted_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound and the schedule meet where CP-SAT knows nothing of whole cells."""
    asked = set[type]()

    class Parts(ChunkOrder):
        def __init__(self, jobs: Sequence[JobClass], horizon: int, *, ends: Ends) -> None:
            super().__init__(jobs, horizon, ends=ends)
            self.is_hard = isinstance(ends, BeginCounts)
            asked.add(type(ends))

        def solve(self, budget: Budget, report: Report, stop: Event | None = None) -> PlanOutcome:
            outcome = super().solve(budget, report, stop)
            return PlanOutcome(None, 0, "unknown", budget.seconds) if self.is_hard else outcome

    monkeypatch.setattr(end_proof, "ChunkOrder", Parts)
    instance = problem(chunks=5)
    start = simulate(instance, make_policy("baseline+fifo")(instance))
    own, _, _ = proof(start, 100.0, slot=0.002, hard_cells=100)
    optimum = Exact(seconds=20.0, workers=1, deterministic=True).solve(instance)
    assert asked == {BeginCounts, EndPairs}
    assert max(bounds(start.instance).values()) < own.bound <= optimum.schedule.makespan * (1 + 1e-9)
    assert own.best.makespan <= own.bound * (1 + LIMITS.gap)


def test_it_is_for_few_chunks_of_one_collective() -> None:
    few = problem(chunks=10)
    assert EndProof.suits(few)
    assert not EndProof.suits(problem(chunks=2))
    assert not EndProof.suits(problem(chunks=100))
    assert not EndProof.suits(few.replace(collectives=few.collectives * 2))


def test_models_of_many_dimensions_are_not_built() -> None:
    (one, _), collectives = problem().network.dimensions, problem(chunks=4).collectives
    wide = [Instance(network=Network(dimensions=(one,) * count), collectives=collectives) for count in (6, 10)]
    assert [EndProof.suits(instance) for instance in wide] == [True, False]


def test_the_reference_proves_more_than_its_bounds_say() -> None:
    instance = problem(chunks=9)
    known = max(bounds(instance).values())
    reference = Exact(seconds=1.0, workers=1, deterministic=True).solve(instance, known)
    assert known < reference.bound <= reference.schedule.makespan

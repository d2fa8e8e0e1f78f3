"""The reference of training iterations, and its translation to and from the constraint programme."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from ortools.sat.python import cp_model

from formulations.budget import Budget
from formulations.period import PeriodModel
from themis_opt.policies.planning import plan_launches
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.catalog import load
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration, Split
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search import period_reference, period_rounds
from themis_opt.search.candidates import candidates, even_buckets, neighbours, with_buckets
from themis_opt.search.exact import Exact, ExactParams, ignore
from themis_opt.search.local_search import LocalSearch
from themis_opt.search.period_reference import PeriodParams, PeriodReference
from themis_opt.search.period_rounds import PeriodRounds
from themis_opt.solving.bounds import bounds
from themis_opt.solving.period_lowering import enforced_plan, period_data, period_times
from themis_opt.solving.sizing import even_plan, resized
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

ROUNDING = 1_000
"""Picoseconds that parts of chunks may take longer together, because each is rounded up."""

A_LITTLE = Exact(seconds=0.2, workers=1, deterministic=True)


def layers(number: int, *, task: int = 100, size: int = 4 * 2**20, **rules: Any) -> Instance:
    """As many layers on 4 x 4 NPUs, with backward tasks twice as long as forward ones."""
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="1 us") for bandwidth in ("200 GB/s", "100 GB/s")
    )
    forward = [ComputeTask(name=f"forward{n}", duration=f"{task} us") for n in range(number)]
    backward = [ComputeTask(name=f"backward{n}", duration=f"{2 * task} us") for n in reversed(range(number))]
    tensors = [
        Tensor(name=f"layer{n}", size=size * (n + 1), ready_after=f"backward{n}", needed_before=f"forward{n}")
        for n in range(number)
    ]
    iteration = Iteration(tasks=(*forward, *backward), tensors=tuple(tensors))
    rules = {"chunks": 2} | rules
    return Instance(network=Network(dimensions=dimensions), iteration=iteration, **rules)


def scheduled(instance: Instance, launching: str) -> Schedule:
    """What a launching policy with the chunks of hourglass does."""
    return simulate(instance, make_policy(f"{launching}/hourglass")(instance))


def modelled(schedule: Schedule, tick: int) -> PeriodModel:
    """The model of a schedule, with the schedule as hint."""
    data = period_data(schedule.instance, schedule.plan, tick)
    model = PeriodModel(data.period, -(-schedule.makespan // tick))
    model.hint(period_times(data, schedule))
    return model


@pytest.mark.parametrize("launching", LAUNCHING)
@pytest.mark.parametrize(("ag_order", "latency"), list(product(["free", "reverse"], ["lag", "occupy"])))
@pytest.mark.parametrize("tick", [1, 997])
def test_a_simulated_schedule_is_feasible_in_ticks(launching: str, ag_order: str, latency: str, tick: int) -> None:
    model = modelled(scheduled(layers(3, ag_order=ag_order, latency=latency), launching), tick)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    assert solver.solve(model.model) == cp_model.OPTIMAL


def test_a_schedule_on_a_shared_dimension_is_feasible_in_ticks() -> None:
    plain = layers(2)
    split = Split(dimension=plain.network.dimension_names[1], sizes=(2, 2), names=("near", "far"), shared=True)
    instance = plain.replace(iteration=plain.iteration.replace(splits=(split,)))
    model = modelled(scheduled(instance, "wait_free"), tick=997)
    solver = cp_model.CpSolver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    assert len(model.stages) == 2
    assert solver.solve(model.model) == cp_model.OPTIMAL


@pytest.mark.parametrize("launching", LAUNCHING)
def test_a_schedule_comes_back_from_ticks_as_fast_as_it_was(launching: str) -> None:
    schedule = scheduled(layers(3), launching)
    data = period_data(schedule.instance, schedule.plan, tick=1)
    plan = enforced_plan(schedule.instance, schedule.plan, data, period_times(data, schedule))
    again = simulate(schedule.instance, plan)
    validate(again)
    assert again.makespan <= schedule.makespan


@pytest.mark.parametrize("tick", [1, 10**4, 10**7])
def test_the_optimum_in_ticks_bounds_the_schedules_of_the_same_launches(tick: int) -> None:
    instance = layers(2)
    schedules = [scheduled(instance, name) for name in ("wait_free", "priority")]
    data = period_data(instance, schedules[0].plan, tick)
    model = PeriodModel(data.period, -(-schedules[0].makespan // tick))
    outcome = model.solve(Budget(seconds=600.0, workers=1, gap=0.0), lambda period, bound: None)
    assert outcome.times is not None
    found = simulate(instance, enforced_plan(instance, schedules[0].plan, data, outcome.times))
    assert data.bound(outcome.bound) <= min(s.makespan for s in (*schedules, found))


def test_the_optimum_in_picoseconds_is_the_simulated_time() -> None:
    schedule = scheduled(layers(2), "wait_free")
    data = period_data(schedule.instance, schedule.plan, tick=1)
    outcome = modelled(schedule, tick=1).solve(Budget(seconds=600.0, workers=1, gap=0.0), lambda period, bound: None)
    assert outcome.times is not None
    found = simulate(schedule.instance, enforced_plan(schedule.instance, schedule.plan, data, outcome.times))
    assert (outcome.status, found.makespan) == ("optimal", outcome.bound)


@pytest.mark.parametrize("launching", LAUNCHING)
def test_the_reference_is_never_worse_than_its_start(launching: str) -> None:
    instance = layers(4)
    start = scheduled(instance, launching)
    found = A_LITTLE.solve(instance, start=start)
    assert found.schedule.makespan <= start.makespan


@pytest.mark.parametrize("rules", [{}, {"ag_order": "reverse"}, {"latency": "occupy", "chunks": 5}])
def test_the_reference_is_legal_and_no_faster_than_its_bounds(rules: dict[str, Any]) -> None:
    instance = layers(4, **rules)
    found = A_LITTLE.solve(instance, max(bounds(instance).values()))
    validate(found.schedule)
    assert found.bound <= found.launch_bound <= found.schedule.makespan


def test_the_reference_is_better_than_every_policy_where_these_expose_communication() -> None:
    instance = layers(5, task=50)
    best = min(scheduled(instance, launching).makespan for launching in LAUNCHING)
    assert Exact(seconds=2.0, workers=1, deterministic=True).solve(instance).schedule.makespan < best


@pytest.mark.benchmarks
def test_the_reference_is_no_worse_where_blocking_exchanges_suit_the_fixed_order() -> None:
    """Hourglass is worse there."""
    setup = Setup(network=load("v100-256.resnet-50").network, timing=Rate(10**13), batch=64, group=16)
    instance = make_workload(MODELS["vgg-16"], MODELS["vgg-16"].layers(), setup, parallelism="splitbrain", chunks=2)
    plans = [make_policy(f"priority/{chunks}")(instance) for chunks in ("hourglass", "baseline+fifo")]
    usual, fixed = (simulate(instance, plan).makespan for plan in plans)
    assert fixed < usual
    reference = Exact(seconds=2.0, workers=1, deterministic=True)
    assert reference.solve(instance).schedule.makespan <= fixed


def test_the_same_seed_repeats_the_schedule() -> None:
    instance = layers(3)
    one, other = (A_LITTLE.solve(instance).schedule for _ in range(2))
    assert (one.task_start == other.task_start).all()
    assert (one.period.stage_start == other.period.stage_start).all()


def test_collectives_that_compute_hides_are_proven_optimal() -> None:
    """All but that of the first layer, which nothing hides."""
    plain = layers(3, task=1000)
    instance = plain.replace(iteration=plain.iteration.replace(tensors=plain.iteration.tensors[1:]))
    found = A_LITTLE.solve(instance)
    assert found.schedule.makespan == found.bound == instance.compute


def test_an_interruption_keeps_the_best_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = layers(3)
    start = scheduled(instance, "priority")
    monkeypatch.setattr(period_reference, "plan_launches", interrupt_after(3, plan_launches))
    found = A_LITTLE.solve(instance, start=start)
    assert found.status == "interrupted"
    assert found.schedule.makespan <= start.makespan


def interrupt_after(calls: int, function: Callable[..., Plan]) -> Callable[..., Plan]:
    """The function, which raises KeyboardInterrupt from some call on."""
    left = iter(range(calls))

    def wrapped(*arguments: Any) -> Plan:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return function(*arguments)

    return wrapped


def test_every_candidate_is_a_legal_plan() -> None:
    instance = layers(5)
    for candidate in candidates(instance):
        policy = make_policy("themis+scf")
        plan = plan_launches(instance, candidate.launches, candidate.order, policy)
        validate(simulate(instance, plan))


def test_neighbours_carry_every_tensor_once() -> None:
    instance = layers(6)
    for candidate in neighbours(instance, with_buckets(instance, even_buckets(instance, 3), "ready")):
        assert sorted(t for launch in candidate.launches for t in launch.tensors) == list(range(6))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_even_buckets_are_at_most_as_many_as_asked_for(count: int) -> None:
    buckets = even_buckets(layers(5), count)
    assert len(buckets) <= count
    assert sorted(t for bucket in buckets for t in bucket) == list(range(5))


@pytest.mark.parametrize("launching", LAUNCHING)
@pytest.mark.parametrize("latency", ["lag", "occupy"])
def test_better_sizes_are_legal_and_never_slower(launching: str, latency: str) -> None:
    schedule = scheduled(layers(4, chunks=4, latency=latency), launching)
    found = resized(schedule)
    validate(found)
    assert found.makespan <= schedule.makespan


def test_sizes_shorten_a_collective_that_nothing_hides() -> None:
    schedule = scheduled(layers(1, chunks=3), "fused")
    assert resized(schedule).makespan < schedule.makespan


@pytest.mark.parametrize("launching", LAUNCHING)
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_chunks_cut_in_parts_are_legal_and_no_slower(launching: str, ag_order: str) -> None:
    coarse = scheduled(layers(3, ag_order=ag_order), launching)
    instance = coarse.instance.replace(chunks=8)
    found = simulate(instance, even_plan(instance, coarse.enforced_plan()))
    validate(found)
    assert [len(own.sizes) for own in found.plan.chunks] == [8] * len(coarse.plan.launches)
    assert found.makespan <= coarse.makespan + ROUNDING


def test_local_search_improves_what_candidates_and_groups_leave() -> None:
    instance = layers(6, size=8 * 2**20, chunks=4)
    bound = max(bounds(instance).values())
    without, found = (
        Exact(seconds=1.0, workers=1, deterministic=True, cp_sat=False, local_search=searches).solve(instance, bound)
        for searches in (False, True)
    )
    validate(found.schedule)
    assert found.schedule.makespan - bound < (without.schedule.makespan - bound) / 10


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The seeds of all local searches of iterations."""
    seeds: list[Any] = []

    class Noting(LocalSearch):
        def __init__(self, best: Schedule, **options: Any) -> None:
            seeds.append(options["seed"])
            super().__init__(best, **options)

    monkeypatch.setattr(period_reference, "LocalSearch", Noting)
    return seeds


@pytest.mark.parametrize(("local_search", "share", "turns"), [(True, 0.3, 2), (True, 0.0, 1), (False, 0.3, 0)])
def test_local_search_has_its_turn_before_and_after_cp_sat(
    searches: list[Any], monkeypatch: pytest.MonkeyPatch, local_search: bool, share: float, turns: int
) -> None:
    monkeypatch.setattr(PeriodRounds, "run", lambda self: None)
    params = ExactParams(period=PeriodParams(local_share=share))
    reference = Exact(seconds=0.5, workers=1, deterministic=True, gap=0.0, local_search=local_search)
    reference.solve(layers(4, task=20, chunks=4), params=params)
    assert len(set(searches)) == len(searches) == turns


def test_local_search_leaves_what_is_proven_for_its_launches_alone(searches: list[Any]) -> None:
    """CP-SAT proves the optimum of the launches and sizes before local search would have its turn."""
    params = ExactParams(period=PeriodParams(local_share=0.0))
    instance = layers(2, chunks=1)
    reference = Exact(seconds=5.0, workers=1, deterministic=True)
    found = reference.solve(instance, max(bounds(instance).values()), params=params)
    assert found.bound < found.launch_bound <= found.schedule.makespan <= found.launch_bound * (1 + reference.gap)
    assert searches == []


def test_local_search_keeps_what_is_proven_for_its_launches() -> None:
    instance = layers(6, size=8 * 2**20, chunks=4)
    start, limits = scheduled(instance, "wait_free"), Exact(seconds=0.5, workers=1, deterministic=True)
    bound = max(bounds(instance).values())
    search = PeriodReference(limits, instance, bound, ignore, start, limits.solve, PeriodParams())
    search.incumbent.launch_bound = proven = bound + 1
    search.search_locally(0.5)
    assert search.incumbent.best.makespan < start.makespan
    assert search.incumbent.launch_bound == proven


@pytest.mark.benchmarks
def test_many_chunks_are_searched_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period_rounds, "MAX_STAGES", 60)
    monkeypatch.setattr(period_rounds, "COARSE_STAGES", 60)
    instance = layers(3, task=20, chunks=8)
    found = Exact(seconds=2.0, workers=1, deterministic=True).solve(instance)
    validate(found.schedule)
    assert found.bound == found.launch_bound < found.schedule.makespan

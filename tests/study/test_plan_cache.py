"""The cache of plans: what it recalls, and what it keeps."""

import pytest
from cached_plans import cached_files, scheduled
from hypothesis import given
from iteration_strategies import iteration_instances, specifications
from small_iterations import iteration, tensor
from strategies import schedules

from themis_opt.base.errors import InvalidSchedule
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import resized
from themis_opt.study import plan_cache
from themis_opt.study.comparison import compare
from themis_opt.study.plan_cache import PlanCache


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_an_empty_cache_recalls_nothing(cache: PlanCache, few: Instance, sizes: str) -> None:
    assert cache.recall(few, sizes) is None


def test_the_same_instance_gets_its_schedule_back(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 3.5)
    recalled = cache.recall(few, "equal")
    assert recalled.seconds == 3.5
    assert recalled.schedule.plan.chunks == schedule.plan.chunks
    assert [s.tolist() for s in recalled.schedule.plan.sequences] == [schedule.sequence(k).tolist() for k in range(3)]
    assert recalled.schedule.makespan == schedule.makespan


def test_free_sizes_are_kept_apart_from_equal_ones(cache: PlanCache, few: Instance) -> None:
    schedule = resized(scheduled(few))
    cache.keep(schedule, "free", 1.0)
    assert cache.recall(few, "equal") is None
    assert cache.recall(few, "free").schedule.makespan == schedule.makespan


def test_a_better_plan_replaces_a_worse(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 9.0)
    cache.keep(scheduled(few), "equal", 1.0)
    assert len(cached_files(cache)) == 1
    assert cache.recall(few, "equal").seconds == 1.0


def test_a_longer_search_without_a_better_plan_is_remembered(cache: PlanCache, few: Instance) -> None:
    for seconds in (5.0, 60.0, 0.2):
        cache.keep(scheduled(few), "equal", seconds)
    assert cache.recall(few, "equal").seconds == 60.0


def test_a_search_without_a_finite_duration_is_not_kept(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", float("inf"))
    assert cached_files(cache) == []


def test_an_illegal_schedule_is_not_kept(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    (chunks,) = schedule.plan.chunks
    twice = simulate(few, type(schedule.plan)((type(chunks)(chunks.sizes, chunks.paths * 0),)))
    cache.keep(twice, "equal", 1.0)
    assert cached_files(cache) == []


def test_plans_too_large_to_time_are_not_kept(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MOST_STORED_STAGES", 47)
    cache.keep(scheduled(few), "equal", 1.0)
    assert cached_files(cache) == []


def test_what_breaks_a_rule_is_not_recalled(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Schedule) -> None:
        raise InvalidSchedule("lag", "for the test")

    cache.keep(scheduled(few), "equal", 1.0)
    monkeypatch.setattr(plan_cache, "validate", refuse)
    assert cache.recall(few, "equal") is None


@given(schedules(max_collectives=2))
def test_what_is_recalled_is_always_legal(tmp_path_factory: pytest.TempPathFactory, schedule: Schedule) -> None:
    cache = PlanCache(tmp_path_factory.mktemp("plans"))
    cache.keep(schedule, "free", 1.0)
    recalled = cache.recall(schedule.instance, "free")
    validate(recalled.schedule)
    assert recalled.schedule.makespan <= schedule.makespan


@given(iteration_instances(), specifications)
def test_an_iteration_gets_its_launches_back(
    tmp_path_factory: pytest.TempPathFactory, instance: Instance, policy: str
) -> None:
    schedule, cache = scheduled(instance, policy), PlanCache(tmp_path_factory.mktemp("plans"))
    cache.keep(schedule, "free", 1.0)
    if schedule.period.is_steady:
        recalled = cache.recall(instance, "equal")
        assert recalled.schedule.plan.launches == schedule.plan.launches
        assert recalled.schedule.makespan <= schedule.makespan


def test_a_comparison_answers_from_the_cache(cache: PlanCache) -> None:
    tasks = {f"forward{n}": 10.0 for n in range(4)} | {f"backward{n}": 20.0 for n in reversed(range(4))}
    tensors = [tensor(f"gradients{n}", 40, f"backward{n}", f"forward{n}") for n in range(4)]
    layers, names = iteration(tasks, tensors, dimensions=2, chunks=4), ("ddp/hourglass", "exact")
    once, again = (compare(layers, names, cache=cache, time_limit=2.0, workers=1, gap=0.0) for _ in range(2))
    assert len(cached_files(cache)) == 1
    assert again.results[1].makespan == once.results[1].makespan

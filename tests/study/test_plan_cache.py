"""The cache of plans: what it recalls, also on instances of other sizes and chunk counts, and what it keeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cached_plans import cached_files, longer, scheduled
from hypothesis import assume, given
from hypothesis import strategies as st
from iteration_strategies import iteration_instances, specifications
from small_iterations import PAIR, iteration, tensor
from strategies import schedules

from themis_opt.base.errors import InvalidSchedule
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Plan
from themis_opt.schedules.refinement import refined
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import granule, resized
from themis_opt.study import plan_cache
from themis_opt.study.comparison import compare
from themis_opt.study.plan_cache import CachedPlan, PlanCache


def free(instance: Instance) -> Schedule:
    """A schedule of sizes that differ."""
    schedule = resized(scheduled(instance))
    assert not schedule.has_equal_sizes
    return schedule


def with_sizes_of(instance: Instance, schedule: Schedule) -> Plan:
    """The paths and sequences of a schedule, in chunks of another instance."""
    plan = schedule.enforced_plan()
    return refined(plan, instance, [np.ones(len(chunks.sizes), dtype=np.int64) for chunks in plan.chunks])


def test_an_empty_cache_recalls_nothing(cache: PlanCache, few: Instance) -> None:
    assert cache.recall(few, "equal") is None
    assert cache.recall(few, "free") is None


def test_the_same_instance_gets_its_schedule_back(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 3.5)
    recalled = cache.recall(few, "equal")
    assert (recalled.seconds, recalled.exact) == (3.5, True)
    assert recalled.schedule.plan.chunks == schedule.plan.chunks
    assert recalled.schedule.makespan <= schedule.makespan


def test_sequences_come_back_as_they_were(tmp_path: Path, few: Instance) -> None:
    cache = PlanCache(tmp_path, rule="scf")
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 3.5)
    recalled = cache.recall(few, "equal")
    assert [s.tolist() for s in recalled.schedule.plan.sequences] == [schedule.sequence(k).tolist() for k in range(3)]
    assert recalled.schedule.makespan == schedule.makespan


def test_sequences_that_wait_in_vain_give_way_to_a_rule(cache: PlanCache, hetero: Instance) -> None:
    large, small = hetero.overridden(size="10 GiB"), hetero.overridden(size="1 MiB")
    schedule = scheduled(large)
    cache.keep(schedule, "equal", 3.5)
    recalled = cache.recall(small, "equal")
    assert recalled.schedule.makespan < simulate(small, with_sizes_of(small, schedule)).makespan


def test_equal_chunks_of_permuted_sizes_come_back_as_they_were(cache: PlanCache, few: Instance) -> None:
    instance = few.overridden(size=1_000_006)
    schedule = scheduled(instance)
    (chunks,) = schedule.plan.chunks
    turned = type(chunks)(chunks.sizes[::-1], chunks.paths)
    schedule = simulate(instance, type(schedule.plan)((turned,)))
    cache.keep(schedule, "equal", 1.0)
    recalled = cache.recall(instance, "equal")
    assert recalled.schedule.plan.chunks == (turned,)


def test_the_entry_with_the_least_makespan_is_recalled(cache: PlanCache, few: Instance, hetero: Instance) -> None:
    cache.keep(scheduled(hetero, "baseline+fifo"), "equal", 1.0)
    cache.keep(scheduled(few.overridden(size="1000 MiB")), "equal", 2.0)
    recalled = cache.recall(hetero, "equal")
    assert (recalled.exact, recalled.seconds) == (False, 2.0)
    assert recalled.schedule.makespan < scheduled(hetero, "baseline+fifo").makespan


def test_only_the_nearest_entries_are_tried(tmp_path: Path, few: Instance) -> None:
    cache = PlanCache(tmp_path, max_entries=1)
    cache.keep(scheduled(few), "equal", 1.0)
    cache.keep(scheduled(few.overridden(size="1000 MiB")), "equal", 2.0)
    cache.keep(scheduled(few.overridden(chunks=4)), "equal", 3.0)
    recalled = cache.recall(few.overridden(size="900 MiB"), "equal")
    assert recalled.seconds == 2.0


def test_plans_too_large_to_time_are_neither_kept_nor_recalled(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    small = replace(cache, max_stages=47)
    assert small.recall(few, "equal") is None
    small.keep(scheduled(few.overridden(size="1 GiB")), "equal", 1.0)
    assert len(cached_files(cache)) == 1


def stored_seconds(cache: PlanCache, instance: Instance) -> float:
    recalled = cache.recall(instance, "equal")
    return recalled.seconds


def test_a_better_plan_replaces_a_worse(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 9.0)
    cache.keep(scheduled(few), "equal", 1.0)
    assert len(cached_files(cache)) == 1
    assert stored_seconds(cache, few) == 1.0


def test_a_longer_search_without_a_better_plan_is_remembered(cache: PlanCache, few: Instance) -> None:
    for seconds in (5.0, 60.0, 0.2):
        cache.keep(scheduled(few), "equal", seconds)
    assert stored_seconds(cache, few) == 60.0


def test_of_sizes_of_one_class_the_plan_that_is_shorter_now_stays(cache: PlanCache, few: Instance) -> None:
    near = few.overridden(size="101 MiB")
    cache.keep(scheduled(few), "equal", 1.0)
    cache.keep(scheduled(near, "baseline+fifo"), "equal", 2.0)
    assert stored_seconds(cache, near) == 1.0
    cache.keep(scheduled(near), "equal", 0.5)
    assert len(cached_files(cache)) == 1
    assert stored_seconds(cache, near) == 0.5


def test_a_search_without_a_finite_duration_is_not_kept(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", float("inf"))
    assert cached_files(cache) == []


def test_an_illegal_schedule_is_not_kept(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    (chunks,) = schedule.plan.chunks
    twice = simulate(few, type(schedule.plan)((type(chunks)(chunks.sizes, chunks.paths * 0),)))
    cache.keep(twice, "equal", 1.0)
    assert cached_files(cache) == []


def test_only_so_many_stages_are_timed(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 1.0)
    cache.keep(scheduled(few.overridden(size="1 GiB")), "equal", 2.0)
    for stages, seconds in ((95, 1.0), (96, 2.0)):
        recalled = replace(cache, max_stages=stages).recall(few, "equal")
        assert recalled.seconds == seconds


def test_what_breaks_a_rule_is_not_recalled(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Schedule) -> None:
        raise InvalidSchedule("lag", "for the test")

    cache.keep(scheduled(few), "equal", 1.0)
    monkeypatch.setattr(plan_cache, "validate", refuse)
    assert cache.recall(few, "equal") is None


@pytest.mark.parametrize("size", ["1 MiB", "1000 MiB", "123457 kB"])
def test_another_size_is_timed_anew(cache: PlanCache, few: Instance, size: str) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    other = few.overridden(size=size)
    recalled = cache.recall(other, "equal")
    assert not recalled.exact
    assert recalled.schedule.instance is other
    assert recalled.schedule.makespan == simulate(other, recalled.schedule.plan).makespan
    assert recalled.schedule.has_equal_sizes
    validate(recalled.schedule)


def test_an_even_multiple_of_chunks_is_no_slower(cache: PlanCache, few: Instance, hetero: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 1.0)
    recalled = cache.recall(hetero, "equal")
    assert recalled.schedule.makespan <= schedule.makespan * (1 + 1e-6)


def test_fewer_chunks_than_were_planned_recall_nothing(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    cache.keep(free(few), "free", 1.0)
    fewer = few.overridden(chunks=2)
    assert cache.recall(fewer, "equal") is None
    assert cache.recall(fewer, "free") is None


@pytest.mark.parametrize("size", ["3 MiB", "5 GiB", 1_000_006])
def test_free_sizes_are_scaled(cache: PlanCache, few: Instance, size: str | int) -> None:
    cache.keep(free(few), "free", 1.0)
    other = few.overridden(size=size, chunks=32)
    recalled = cache.recall(other, "free")
    assert (recalled.schedule.plan.chunks[0].sizes % granule(other, other.exchanges[0]) == 0).all()
    assert recalled.schedule.makespan == simulate(other, recalled.schedule.plan).makespan
    validate(recalled.schedule)


def test_scaled_free_sizes_keep_their_ratios(tmp_path: Path, few: Instance) -> None:
    cache = PlanCache(tmp_path, resized_chunks=0)
    schedule = free(few)
    cache.keep(schedule, "free", 1.0)
    recalled = cache.recall(few.overridden(size="1000 MiB"), "free")
    assert recalled.schedule.plan.chunks[0].sizes == pytest.approx(10 * schedule.plan.chunks[0].sizes, abs=2048)


def test_equal_chunks_get_the_best_free_sizes(tmp_path: Path, few: Instance) -> None:
    cache = PlanCache(tmp_path, rule="scf")
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 1.0)
    recalled = cache.recall(few, "free")
    assert not recalled.exact
    assert recalled.schedule.makespan == resized(schedule).makespan < schedule.makespan


def test_free_chunks_become_equal_ones_in_proportion(cache: PlanCache, few: Instance, hetero: Instance) -> None:
    schedule = free(few)
    cache.keep(schedule, "free", 1.0)
    recalled = cache.recall(hetero, "equal")
    assert recalled.schedule.has_equal_sizes
    (before,), (after,) = schedule.plan.chunks, recalled.schedule.plan.chunks
    for path in np.unique(before.paths, axis=0):
        planned = before.sizes[(before.paths == path).all(axis=1)].sum()
        assert after.sizes[(after.paths == path).all(axis=1)].sum() == pytest.approx(
            planned, abs=int(after.sizes[0]) * len(before.sizes)
        )


@contextmanager
def in_memory() -> Iterator[PlanCache]:
    """A cache that writes no files."""
    stored: dict[Path, CachedPlan] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "write_plan", stored.__setitem__)
        patch.setattr(plan_cache, "nearest_plans", lambda *_: list(stored.values()))
        yield PlanCache(Path("nowhere"))


@given(st.data())
def test_what_is_recalled_is_always_legal(data: st.DataObject) -> None:
    schedule = data.draw(schedules(max_collectives=2))
    base = schedule.instance
    factor, chunks = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 6))
    other = base.replace(
        collectives=tuple(
            c.replace(size=c.size * factor, chunks=min(c.chunks + chunks, c.size // c.element_bytes))
            for c in base.collectives
        )
    )
    with in_memory() as cache:
        cache.keep(schedule, "free", 1.0)
        for sizes in ("equal", "free"):
            recalled = cache.recall(other, sizes)
            validate(recalled.schedule)
            assert sizes == "free" or recalled.schedule.has_equal_sizes


@given(iteration_instances(), specifications, st.integers(1, 5), st.integers(0, 3), st.booleans())
def test_what_is_recalled_for_an_iteration_is_always_legal(
    instance: Instance, policy: str, factor: int, more: int, enforces: bool
) -> None:
    schedule = scheduled(instance, policy)
    assume(schedule.period.is_steady)
    if enforces:
        schedule = simulate(instance, schedule.enforced_plan())
    other = longer(instance.replace(chunks=instance.chunks + more), factor)
    with in_memory() as cache:
        cache.keep(schedule, "free", 1.0)
        recalled = cache.recall(other, "free")
        assert [launch.tensors for launch in recalled.schedule.plan.launches] == [
            launch.tensors for launch in schedule.plan.launches
        ]
        validate(recalled.schedule)
        same = cache.recall(instance, "free")
        assert same.exact
        assert same.schedule.makespan <= schedule.makespan


@pytest.fixture
def layers() -> Instance:
    """Four layers on two dimensions, the gradients of which are late for the next iteration."""
    names = [f"{number}" for number in range(4)]
    tasks = {f"forward{n}": 10.0 for n in names} | {f"backward{n}": 20.0 for n in reversed(names)}
    tensors = [tensor(f"gradients{n}", 40, f"backward{n}", f"forward{n}") for n in names]
    return iteration(tasks, tensors, dimensions=2, chunks=4)


@pytest.mark.parametrize("policy", ["ddp/hourglass", "wait_free/themis+scf", "dear:threshold=50kB/hourglass"])
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_an_iteration_gets_its_launches_back(cache: PlanCache, layers: Instance, policy: str, ag_order: str) -> None:
    instance = layers.overridden(ag_order=ag_order)
    schedule = scheduled(instance, policy)
    cache.keep(schedule, "free", 3.5)
    recalled = cache.recall(instance, "equal")
    assert (recalled.seconds, recalled.exact) == (3.5, True)
    assert recalled.schedule.plan.launches == schedule.plan.launches
    assert recalled.schedule.makespan <= schedule.makespan


def test_the_order_of_an_iteration_comes_back_as_it_was(tmp_path: Path, layers: Instance) -> None:
    """Priorities of stages, and of launches, as the policy gave them; and sequences with the shifts of their stages."""
    cache = PlanCache(tmp_path, resized_chunks=0, rule="fifo")
    schedule = scheduled(layers, "priority/hourglass")
    assert schedule.plan.order == "layer"
    assert schedule.plan.keys is not None
    enforced = simulate(layers, replace(schedule.enforced_plan(), keys=None))
    assert enforced.plan.shifts.any()
    for one in (schedule, enforced):
        cache.keep(one, "free", 1.0)
        recalled = cache.recall(layers, "free")
        assert recalled.schedule.plan == one.plan or recalled.schedule.makespan < one.makespan
        for file in cached_files(cache):
            file.unlink()


def test_priorities_that_do_not_suit_give_way_to_a_rule(tmp_path: Path) -> None:
    cache = PlanCache(tmp_path, resized_chunks=0)
    network = {"dimensions": [PAIR, PAIR | {"bandwidth": "700 MB/s"}]}
    instance = iteration({"one": 1.0}, [tensor("gradients", 64, "one", "one")], network=network, chunks=8)
    plan = scheduled(instance, "fused/hourglass").plan
    assert plan.keys is not None
    reversed_keys = simulate(instance, replace(plan, keys=-plan.keys))
    cache.keep(reversed_keys, "free", 1.0)
    recalled = cache.recall(instance, "free")
    ruled = simulate(instance, replace(plan, keys=None, dispatch=cache.rule))
    assert recalled.schedule.makespan == ruled.makespan < reversed_keys.makespan


def test_iterations_count_as_often_as_they_are_simulated(tmp_path: Path, layers: Instance) -> None:
    schedule = scheduled(layers, "wait_free/hourglass")
    for room, kept in ((4 * schedule.plan.num_stages - 1, 0), (4 * schedule.plan.num_stages, 1)):
        cache = PlanCache(tmp_path, max_stages=room)
        cache.keep(schedule, "free", 1.0)
        assert len(cached_files(cache)) == kept


def test_a_larger_iteration_has_the_launches_of_a_smaller_one(cache: PlanCache, layers: Instance) -> None:
    schedule = scheduled(layers, "ddp:first_cap=1B:cap=80kB/hourglass")
    assert len(schedule.plan.launches) == 3
    cache.keep(schedule, "free", 3.5)
    other = longer(layers, 10)
    recalled = cache.recall(other, "free")
    assert not recalled.exact
    assert [launch.tensors for launch in recalled.schedule.plan.launches] == [
        launch.tensors for launch in schedule.plan.launches
    ]
    assert recalled.schedule.makespan == simulate(other, recalled.schedule.plan).makespan <= 10 * schedule.makespan
    validate(recalled.schedule)


def test_iterations_of_other_durations_do_not_push_each_other_out(cache: PlanCache, layers: Instance) -> None:
    tasks = tuple(task.replace(duration=f"{8 * task.duration} ps") for task in layers.iteration.tasks)
    slow = layers.replace(iteration=layers.iteration.replace(tasks=tasks))
    for instance in (layers, slow):
        cache.keep(scheduled(instance, "wait_free/hourglass"), "free", 3.5)
    recalled = [cache.recall(instance, "free") for instance in (layers, slow)]
    assert [one is not None and one.exact for one in recalled] == [True, True]


def test_a_comparison_answers_from_the_cache(cache: PlanCache, layers: Instance) -> None:
    names = ("ddp/hourglass", "exact")
    once, again = (compare(layers, names, cache=cache, time_limit=2.0, workers=1, gap=0.0) for _ in range(2))
    assert len(cached_files(cache)) == 1
    assert again.results[1].makespan == once.results[1].makespan

"""The cache of plans: what it recalls and what it keeps."""

from pathlib import Path

import numpy as np
import pytest
from cached_plans import cached_files, scheduled

from themis_opt import plan_cache
from themis_opt.errors import InvalidSchedule
from themis_opt.instance import Instance
from themis_opt.plan import Plan
from themis_opt.plan_cache import PlanCache
from themis_opt.refinement import refined
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.sizing import resized


def free(instance: Instance) -> Schedule:
    """A schedule of sizes that differ."""
    schedule = resized(scheduled(instance))
    assert not schedule.has_equal_sizes
    return schedule


def with_sizes_of(instance: Instance, schedule: Schedule) -> Plan:
    """The paths and sequences of a schedule, in chunks of another instance."""
    plan = schedule.enforced_plan()
    return refined(plan, instance, [np.ones(len(own.sizes), dtype=np.int64) for own in plan.chunks])


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def few(hetero: Instance) -> Instance:
    """An all-reduce of 100 MiB in 8 chunks."""
    return hetero.overridden(chunks=8)


def test_an_empty_cache_recalls_nothing(cache: PlanCache, few: Instance) -> None:
    assert cache.recall(few, "equal") is None
    assert cache.recall(few, "free") is None


def test_the_same_instance_gets_its_schedule_back(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 0.25, 3.5)
    found = cache.recall(few, "equal")
    assert found is not None
    assert (found.gap, found.seconds, found.exact) == (0.25, 3.5, True)
    assert found.schedule.plan.chunks == schedule.plan.chunks
    assert found.schedule.makespan <= schedule.makespan


def test_sequences_come_back_as_they_were(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "RULE", "scf")
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 0.25, 3.5)
    found = cache.recall(few, "equal")
    assert found is not None
    assert [s.tolist() for s in found.schedule.plan.sequences] == [schedule.sequence(k).tolist() for k in range(3)]
    assert found.schedule.makespan == schedule.makespan


def test_sequences_that_wait_in_vain_give_way_to_a_rule(cache: PlanCache, hetero: Instance) -> None:
    large, small = hetero.overridden(size="10 GiB"), hetero.overridden(size="1 MiB")
    schedule = scheduled(large)
    cache.keep(schedule, "equal", 0.25, 3.5)
    found = cache.recall(small, "equal")
    assert found is not None
    assert found.schedule.makespan < simulate(small, with_sizes_of(small, schedule)).makespan


def test_a_schedule_of_free_sizes_comes_back_no_worse(cache: PlanCache, few: Instance) -> None:
    schedule = free(few)
    cache.keep(schedule, "free", 0.01, 1.0)
    found = cache.recall(few, "free")
    assert found is not None
    assert found.exact
    assert found.schedule.makespan <= schedule.makespan


def test_equal_chunks_of_permuted_sizes_come_back_as_they_were(cache: PlanCache, few: Instance) -> None:
    instance = few.overridden(size=1_000_006)
    schedule = scheduled(instance)
    (chunks,) = schedule.plan.chunks
    turned = type(chunks)(chunks.sizes[::-1], chunks.paths)
    schedule = simulate(instance, type(schedule.plan)((turned,)))
    cache.keep(schedule, "equal", 0.1, 1.0)
    found = cache.recall(instance, "equal")
    assert found is not None
    assert found.schedule.plan.chunks == (turned,)


def test_the_entry_with_the_least_makespan_is_recalled(cache: PlanCache, few: Instance, hetero: Instance) -> None:
    cache.keep(scheduled(hetero, "baseline+fifo"), "equal", 0.001, 1.0)
    cache.keep(scheduled(few.overridden(size="1000 MiB")), "equal", 0.5, 2.0)
    found = cache.recall(hetero, "equal")
    assert found is not None
    assert (found.exact, found.seconds) == (False, 2.0)
    assert found.schedule.makespan < scheduled(hetero, "baseline+fifo").makespan


def test_of_equal_makespans_the_exact_entry_is_recalled(cache: PlanCache, few: Instance) -> None:
    for sizes in ("equal", "free"):
        cache.keep(scheduled(few), sizes, 0.1, 1.0)
    found = cache.recall(few, "free")
    assert found is not None
    assert found.exact


def test_another_kind_of_sizes_is_not_exact(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "free", 0.1, 1.0)
    found = cache.recall(few, "equal")
    assert found is not None
    assert not found.exact


def test_only_the_nearest_entries_are_tried(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    cache.keep(scheduled(few.overridden(size="1000 MiB")), "equal", 0.1, 2.0)
    cache.keep(scheduled(few.overridden(chunks=4)), "equal", 0.1, 3.0)
    monkeypatch.setattr(plan_cache, "MAX_ENTRIES", 1)
    found = cache.recall(few.overridden(size="900 MiB"), "equal")
    assert found is not None
    assert found.seconds == 2.0


def test_plans_too_large_to_time_are_neither_kept_nor_recalled(
    cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    monkeypatch.setattr(plan_cache, "MAX_STAGES", 47)
    assert cache.recall(few, "equal") is None
    cache.keep(scheduled(few.overridden(size="1 GiB")), "equal", 0.1, 1.0)
    assert len(cached_files(cache)) == 1


def stored_gap(cache: PlanCache, instance: Instance) -> float:
    found = cache.recall(instance, "equal")
    assert found is not None
    return found.gap


def test_a_better_entry_replaces_a_worse(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 0.5, 1.0)
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert len(cached_files(cache)) == 1
    assert stored_gap(cache, few) == 0.1


def test_a_worse_entry_never_replaces_a_better(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 0.5, 9.0)
    assert stored_gap(cache, few) == 0.1


def test_on_one_instance_the_makespan_decides_whatever_the_bound_was(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 0.0, 1.0)
    assert stored_gap(cache, few) == 0.1


def test_a_longer_search_that_found_no_better_is_remembered(cache: PlanCache, few: Instance) -> None:
    for seconds in (5.0, 60.0, 0.2):
        cache.keep(scheduled(few), "equal", 0.1, seconds)
    found = cache.recall(few, "equal")
    assert found is not None
    assert found.seconds == 60.0


def test_for_sizes_of_one_class_the_gap_decides(cache: PlanCache, few: Instance) -> None:
    near = few.overridden(size="101 MiB")
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    cache.keep(scheduled(near), "equal", 0.2, 1.0)
    assert stored_gap(cache, near) == 0.1
    cache.keep(scheduled(near), "equal", 0.05, 1.0)
    assert len(cached_files(cache)) == 1
    assert stored_gap(cache, near) == 0.05


@pytest.mark.parametrize("gap", [float("nan"), float("inf")])
def test_a_gap_that_is_no_number_is_not_kept(cache: PlanCache, few: Instance, gap: float) -> None:
    cache.keep(scheduled(few), "equal", gap, 1.0)
    assert cached_files(cache) == []


def test_a_gap_below_zero_by_rounding_is_zero(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", -1e-15, 1.0)
    assert stored_gap(cache, few) == 0.0


def test_an_illegal_schedule_is_not_kept(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    (chunks,) = schedule.plan.chunks
    twice = simulate(few, type(schedule.plan)((type(chunks)(chunks.sizes, chunks.paths * 0),)))
    cache.keep(twice, "equal", 0.1, 1.0)
    assert cached_files(cache) == []


def test_only_so_many_stages_are_timed(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep(scheduled(few, "baseline+fifo"), "equal", 0.1, 1.0)
    cache.keep(scheduled(few.overridden(size="1 GiB")), "equal", 0.1, 2.0)
    for stages, seconds in ((95, 1.0), (96, 2.0)):
        monkeypatch.setattr(plan_cache, "MAX_STAGES", stages)
        found = cache.recall(few, "equal")
        assert found is not None
        assert found.seconds == seconds


def test_what_breaks_a_rule_is_not_recalled(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Schedule) -> None:
        raise InvalidSchedule("lag", "for the test")

    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    monkeypatch.setattr(plan_cache, "validate", refuse)
    assert cache.recall(few, "equal") is None

"""Plans of the cache on instances of other sizes and chunk counts."""

from pathlib import Path

import numpy as np
import pytest
from cached_plans import scheduled
from hypothesis import given
from hypothesis import strategies as st
from strategies import schedules

from themis_opt import plan_cache
from themis_opt.instance import Instance
from themis_opt.plan_cache import PlanCache
from themis_opt.plan_entry import Entry
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.sizing import granule, resized
from themis_opt.validation import validate


def free(instance: Instance) -> Schedule:
    """A schedule of sizes that differ."""
    schedule = resized(scheduled(instance))
    assert not schedule.has_equal_sizes
    return schedule


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def few(hetero: Instance) -> Instance:
    """An all-reduce of 100 MiB in 8 chunks."""
    return hetero.overridden(chunks=8)


@pytest.mark.parametrize("size", ["1 MiB", "1000 MiB", "123457 kB"])
def test_another_size_is_timed_anew(cache: PlanCache, few: Instance, size: str) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    other = few.overridden(size=size)
    found = cache.recall(other, "equal")
    assert found is not None
    assert not found.exact
    assert found.schedule.instance is other
    assert found.schedule.makespan == simulate(other, found.schedule.plan).makespan
    assert found.schedule.has_equal_sizes
    validate(found.schedule)


@pytest.mark.parametrize("chunks", [9, 20, 64])
def test_equal_chunks_become_more_equal_chunks(cache: PlanCache, few: Instance, chunks: int) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    found = cache.recall(few.overridden(chunks=chunks), "equal")
    assert found is not None
    assert not found.exact
    assert found.schedule.has_equal_sizes
    validate(found.schedule)


def test_an_even_multiple_of_chunks_is_no_slower(cache: PlanCache, few: Instance, hetero: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 0.1, 1.0)
    found = cache.recall(hetero, "equal")
    assert found is not None
    assert found.schedule.makespan <= schedule.makespan * (1 + 1e-6)


def test_fewer_chunks_than_were_planned_recall_nothing(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    cache.keep(free(few), "free", 0.1, 1.0)
    fewer = few.overridden(chunks=2)
    assert cache.recall(fewer, "equal") is None
    assert cache.recall(fewer, "free") is None


@pytest.mark.parametrize("size", ["3 MiB", "5 GiB", 1_000_006])
def test_free_sizes_are_scaled(cache: PlanCache, few: Instance, size: str | int) -> None:
    cache.keep(free(few), "free", 0.1, 1.0)
    other = few.overridden(size=size, chunks=32)
    found = cache.recall(other, "free")
    assert found is not None
    assert (found.schedule.plan.chunks[0].sizes % granule(other, 0) == 0).all()
    assert found.schedule.makespan == simulate(other, found.schedule.plan).makespan
    validate(found.schedule)


def test_scaled_free_sizes_keep_their_ratios(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "RESIZED_CHUNKS", 0)
    schedule = free(few)
    cache.keep(schedule, "free", 0.1, 1.0)
    found = cache.recall(few.overridden(size="1000 MiB"), "free")
    assert found is not None
    assert found.schedule.plan.chunks[0].sizes == pytest.approx(10 * schedule.plan.chunks[0].sizes, abs=2048)


def test_chunks_that_scale_to_nothing_are_dropped(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    tiny = few.overridden(size=3 * 2048)
    found = cache.recall(tiny, "free")
    assert found is not None
    assert len(found.schedule.plan.chunks[0].sizes) <= 3
    validate(found.schedule)


def test_equal_chunks_get_the_best_free_sizes(cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "RULE", "scf")
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 0.1, 1.0)
    found = cache.recall(few, "free")
    assert found is not None
    assert not found.exact
    assert found.schedule.makespan == resized(schedule).makespan < schedule.makespan


def test_free_chunks_become_equal_ones_in_proportion(cache: PlanCache, few: Instance, hetero: Instance) -> None:
    schedule = free(few)
    cache.keep(schedule, "free", 0.1, 1.0)
    found = cache.recall(hetero, "equal")
    assert found is not None
    assert found.schedule.has_equal_sizes
    (before,), (after,) = schedule.plan.chunks, found.schedule.plan.chunks
    for path in np.unique(before.paths, axis=0):
        planned = before.sizes[(before.paths == path).all(axis=1)].sum()
        assert after.sizes[(after.paths == path).all(axis=1)].sum() == pytest.approx(
            planned, abs=int(after.sizes[0]) * len(before.sizes)
        )


def test_a_free_chunk_too_small_for_an_equal_one_disappears(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    (chunks,) = schedule.plan.chunks
    sizes = np.full(8, 2048)
    sizes[0] += chunks.sizes.sum() - sizes.sum()
    plan = type(schedule.plan)((type(chunks)(sizes, chunks.paths),))
    cache.keep(simulate(few, plan), "free", 0.1, 1.0)
    found = cache.recall(few, "equal")
    assert found is not None
    assert (found.schedule.plan.chunks[0].paths == chunks.paths[0]).all()
    validate(found.schedule)


def test_several_collectives_are_recalled(cache: PlanCache, mixed: Instance) -> None:
    coarse = mixed.overridden(chunks=2)
    cache.keep(scheduled(coarse), "equal", 0.1, 1.0)
    for sizes in ("equal", "free"):
        found = cache.recall(mixed, sizes)
        assert found is not None
        validate(found.schedule)


def test_one_collective_of_fewer_chunks_rules_an_entry_out(cache: PlanCache, mixed: Instance) -> None:
    cache.keep(scheduled(mixed.overridden(chunks=4)), "equal", 0.1, 1.0)
    first, *others = mixed.collectives
    fewer = mixed.replace(collectives=(first.replace(chunks=2), *(c.replace(chunks=64) for c in others)))
    assert cache.recall(fewer, "equal") is None


def test_a_reversed_gather_is_kept(cache: PlanCache, few: Instance) -> None:
    reverse = few.overridden(ag_order="reverse")
    cache.keep(scheduled(reverse), "equal", 0.1, 1.0)
    found = cache.recall(reverse.overridden(chunks=16, size="1 GiB"), "free")
    assert found is not None
    validate(found.schedule)


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
    stored: dict[Path, Entry] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "write_entry", stored.__setitem__)
        patch.setattr(plan_cache, "nearest_entries", lambda *_: list(stored.values()))
        PlanCache(Path("nowhere")).keep(schedule, "free", 0.1, 1.0)
        for sizes in ("equal", "free"):
            found = PlanCache(Path("nowhere")).recall(other, sizes)
            assert found is not None
            validate(found.schedule)
            assert sizes == "free" or found.schedule.has_equal_sizes

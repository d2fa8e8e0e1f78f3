"""Files of the plan cache: which instances share them; nothing in them is trusted, or an error."""

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cached_plans import cached_files, scheduled

import themis_opt
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import resized
from themis_opt.study import plan_cache
from themis_opt.study.plan_cache import PlanCache


def test_names_do_not_matter(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    network = few.network
    dimensions = tuple(d.replace(name=f"other{k}", source="elsewhere") for k, d in enumerate(network.dimensions))
    renamed = few.replace(
        name="renamed",
        description="in other words",
        network=network.replace(name="another", dimensions=dimensions, source="hearsay"),
        collectives=tuple(c.replace(name="weights") for c in few.collectives),
    )
    recalled = cache.recall(renamed, "equal")
    assert recalled.schedule.instance is renamed


def test_a_kept_plan_is_a_schedule_file(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 2.5)
    (file,) = cached_files(cache)
    stored = read_schedule(file)
    validate(stored)
    assert (stored.makespan, stored.plan) == (schedule.makespan, schedule.enforced_plan())


def putting(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of a document that puts a value at a place."""

    def edit(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return edit


def reverse_sequences(document: dict[str, Any]) -> None:
    """Let the last stages go first, so that they wait for those that follow them."""
    for sequence in document["sequences"].values():
        sequence.reverse()


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no format": lambda document: document.pop("format"),
    "another format": putting("format", to="themis-opt/cached-plan/1"),
    "unknown field": putting("surprise", to=1),
    "seconds missing": lambda document: document["summary"]["settings"].pop("seconds"),
    "seconds as text": putting("summary", "settings", "seconds", to="long"),
    "sizes that do not sum": putting("collectives", 0, "sizes", 0, to=2),
    "huge stage": putting("sequences", "dim1", 0, to=10**30),
    "path through an unknown dimension": putting("collectives", 0, "paths", 0, 0, to="dim9"),
    "cyclic sequences": reverse_sequences,
}


@pytest.fixture
def entry(cache: PlanCache, few: Instance) -> Path:
    """The file of an entry."""
    cache.keep(scheduled(few), "equal", 1.0)
    (file,) = cached_files(cache)
    return file


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_entry_is_passed_over(
    cache: PlanCache, few: Instance, entry: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    document = json.loads(entry.read_text())
    damage(document)
    entry.write_text(json.dumps(document))
    assert cache.recall(few, "equal") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"gap": NaN}', b"9" * 10_000, b"\x00" * 2**23],
    ids=["empty", "cut", "array", "null", "binary", "deep", "nan", "digits", "large"],
)
def test_a_file_that_is_no_entry_is_passed_over(cache: PlanCache, few: Instance, entry: Path, content: bytes) -> None:
    entry.write_bytes(content)
    assert cache.recall(few, "equal") is None


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_in_the_place_of_an_entry_is_replaced(
    cache: PlanCache, few: Instance, entry: Path, tmp_path: Path, is_link: bool
) -> None:
    entry.unlink()
    pipe = tmp_path / "pipe" if is_link else entry
    os.mkfifo(pipe)
    if is_link:
        entry.symlink_to(pipe)
    assert cache.recall(few, "equal") is None
    cache.keep(scheduled(few), "equal", 1.0)
    assert cache.recall(few, "equal") is not None
    assert entry.is_file()


def test_a_truncated_entry_is_passed_over_wherever_it_ends(cache: PlanCache, few: Instance, entry: Path) -> None:
    content = entry.read_bytes()
    for length in range(0, len(content), 97):
        entry.write_bytes(content[:length])
        assert cache.recall(few, "equal") is None


def test_unequal_sizes_in_the_place_of_equal_ones_are_passed_over(cache: PlanCache, few: Instance, entry: Path) -> None:
    cache.keep(resized(scheduled(few)), "free", 1.0)
    (free,) = set(cached_files(cache)) - {entry}
    free.replace(entry)
    assert cache.recall(few, "equal") is None


def test_an_entry_of_another_network_in_this_place_is_passed_over(cache: PlanCache, few: Instance, entry: Path) -> None:
    first, *others = few.network.dimensions
    network = few.network.replace(dimensions=(first.replace(bandwidth="1 GB/s"), *others))
    cache.keep(scheduled(few.replace(network=network)), "equal", 1.0)
    (foreign,) = set(cached_files(cache)) - {entry}
    foreign.replace(entry)
    assert cache.recall(few, "equal") is None


def test_a_folder_in_the_place_of_a_file_is_passed_over(cache: PlanCache, few: Instance, entry: Path) -> None:
    entry.unlink()
    entry.mkdir()
    assert cache.recall(few, "equal") is None
    cache.keep(scheduled(few), "equal", 1.0)
    assert entry.is_dir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_place_of_a_file_does_not_block(cache: PlanCache, few: Instance, entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)
    assert cache.recall(few, "equal") is None


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device")])
def test_where_nothing_can_be_written_nothing_is_kept(
    cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("os.fsync", refuse)
    cache.keep(scheduled(few), "equal", 1.0)
    assert cache.recall(few, "equal") is None


def test_what_is_passed_over_is_logged_for_debugging(
    cache: PlanCache, few: Instance, entry: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry.write_text("{")
    with caplog.at_level("DEBUG", logger="themis_opt"):
        cache.recall(few, "equal")
    assert entry.name in caplog.text
    assert {record.levelname for record in caplog.records} == {"DEBUG"}


def test_the_default_folder_is_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plan_cache, "user_cache_path", lambda name, **_: tmp_path / name)
    assert PlanCache().root == tmp_path / "themis_opt" / "plans"


def keep_many(folder: Path, first: int) -> None:
    schedule = scheduled(themis_opt.load("fig5.all_reduce.256MB"))
    for number in range(first, 100, 2):
        PlanCache(folder).keep(schedule, "equal", number + 1.0)


def test_two_processes_may_write_at_once(cache: PlanCache, figure_5: Instance) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=keep_many, args=(cache.root, first)) for first in (0, 1)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for file in cached_files(cache):
            assert file.suffix != ".json" or cache.recall(figure_5, "equal") is not None
    assert [writer.exitcode for writer in writers] == [0, 0]
    recalled = cache.recall(figure_5, "equal")
    assert recalled.seconds >= 99

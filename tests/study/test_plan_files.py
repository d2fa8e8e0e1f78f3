"""Files of the plan cache: which instances share them; nothing in them is trusted, or an error."""

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cached_plans import cached_files, longer, scheduled
from small_iterations import iteration, tensor, two_layers

import themis_opt
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import resized
from themis_opt.study import plan_cache
from themis_opt.study.plan_cache import PlanCache, plan_key, read_plan


def test_names_are_not_in_the_key(cache: PlanCache, few: Instance) -> None:
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
    assert recalled.exact


def test_the_usual_algorithm_is_the_same_named_or_not(few: Instance) -> None:
    dimensions = tuple(d.replace(algorithm=d.basic_algorithm) for d in few.network.dimensions)
    assert plan_key(few.replace(network=few.network.replace(dimensions=dimensions))) == plan_key(few)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 4},
        {"kind": "ring"},
        {"bandwidth": "1 GB/s"},
        {"latency": "1 us"},
        {"algorithm": "direct"},
        {"in_network": True},
        {"packet": {"payload": 4096, "header": 64}},
        {"launch_overhead": "1 us"},
        {"compression": 2.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_network_that_differs_in_a_figure_misses(cache: PlanCache, few: Instance, change: dict[str, Any]) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    first, *others = few.network.dimensions
    other = few.replace(network=few.network.replace(dimensions=(first.replace(**change), *others)))
    assert cache.recall(other, "equal") is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "all_gather"}, {"element_bytes": 4}, {"release": "1 us"}, {"dimensions": ("dim1", "dim3")}],
    ids=lambda change: next(iter(change)),
)
def test_a_collective_that_differs_misses(cache: PlanCache, few: Instance, change: dict[str, Any]) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    assert few.network.dimension_names == ("dim1", "dim2", "dim3")
    other = few.replace(collectives=(few.collectives[0].replace(**change),))
    assert cache.recall(other, "equal") is None


@pytest.mark.parametrize("rule", [{"latency": "occupy"}, {"ag_order": "reverse"}], ids=lambda rule: next(iter(rule)))
def test_another_rule_misses(cache: PlanCache, few: Instance, rule: dict[str, str]) -> None:
    cache.keep(scheduled(few), "equal", 1.0)
    assert cache.recall(few.overridden(**rule), "equal") is None


def test_only_the_ratios_of_sizes_are_in_the_key(mixed: Instance) -> None:
    first, *others = mixed.collectives
    doubled = mixed.replace(collectives=tuple(c.replace(size=2 * c.size) for c in mixed.collectives))
    uneven = mixed.replace(collectives=(first.replace(size=2 * first.size), *others))
    assert plan_key(doubled) == plan_key(mixed) != plan_key(uneven)


def test_a_cached_plan_is_a_schedule_file(cache: PlanCache, few: Instance) -> None:
    schedule = scheduled(few)
    cache.keep(schedule, "equal", 2.5)
    (file,) = cached_files(cache)
    assert file.parent.name == plan_key(few)
    stored = read_schedule(file)
    validate(stored)
    assert (stored.makespan, stored.plan) == (schedule.makespan, schedule.enforced_plan())


def test_only_the_ratios_of_sizes_and_durations_are_in_the_key_of_an_iteration() -> None:
    instance = two_layers()
    assert plan_key(longer(instance, 7)) == plan_key(instance.overridden(chunks=9)) == plan_key(instance)
    assert plan_key(two_layers(kilobytes1=5)) != plan_key(instance)


@pytest.mark.parametrize(
    "change",
    [
        {"tasks": {"one": 10.0, "two": 20.0, "three": 5.0}},
        {"tasks": {"one": 10.0, "two": 20.0}},
        {"tensors": [tensor("a", 4, "two", "one")]},
        {"tensors": [tensor("a", 4, "one", "two")]},
        {"tensors": [tensor("a", 4, "one", "one", dimensions=["dim1"])]},
        {"latency": "occupy"},
        {"splits": [{"dimension": "dim2", "sizes": [2, 2], "names": ["near", "far"], "shared": True}]},
    ],
    ids=["durations", "tasks", "ready", "needed", "span", "rule", "shared"],
)
def test_an_iteration_that_differs_in_what_decides_legality_misses(change: dict[str, Any]) -> None:
    dimensions = [{"kind": "switch", "size": size, "bandwidth": "1 GB/s"} for size in (2, 4)]
    usual = {
        "tasks": {"one": 10.0, "two": 20.0, "three": 10.0},
        "tensors": [tensor("a", 4, "one", "one")],
        "splits": [{"dimension": "dim2", "sizes": [2, 2], "names": ["near", "far"]}],
        "network": {"dimensions": dimensions},
    }
    assert plan_key(iteration(**(usual | change))) != plan_key(iteration(**usual))


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
    "no such kind of sizes": putting("summary", "settings", "sizes", to="any"),
    "sizes that do not sum": putting("collectives", 0, "sizes", 0, to=2),
    "huge stage": putting("sequences", "dim1", 0, to=10**30),
    "path through an unknown dimension": putting("collectives", 0, "paths", 0, 0, to="dim9"),
    "cyclic sequences": reverse_sequences,
    "times that overlap": lambda document: document.update(start_ps=[0] * len(document["start_ps"])),
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
    assert cache.recall(few.overridden(size="1 GiB", chunks=64), "free") is None


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
    assert cache.recall(few, "equal").exact
    assert entry.is_file()


def test_a_truncated_entry_is_passed_over_wherever_it_ends(cache: PlanCache, few: Instance, entry: Path) -> None:
    content = entry.read_bytes()
    for length in range(0, len(content), 97):
        entry.write_bytes(content[:length])
        assert cache.recall(few, "equal") is None


def test_unequal_sizes_that_claim_to_be_equal_become_equal(cache: PlanCache, few: Instance) -> None:
    cache.keep(resized(scheduled(few)), "free", 1.0)
    (file,) = cached_files(cache)
    document = json.loads(file.read_text())
    document["summary"]["settings"]["sizes"] = "equal"
    file.write_text(json.dumps(document))
    recalled = cache.recall(few, "equal")
    assert recalled.schedule.has_equal_sizes


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
            assert file.suffix != ".json" or read_plan(file, plan_key(figure_5)) is not None
    assert [writer.exitcode for writer in writers] == [0, 0]
    recalled = cache.recall(figure_5, "equal")
    assert recalled.seconds >= 99

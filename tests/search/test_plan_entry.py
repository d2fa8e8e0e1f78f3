"""Entries of the plan cache: which instances share them; nothing in their files is trusted, or an error."""

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
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search import plan_cache
from themis_opt.search.plan_cache import PlanCache
from themis_opt.search.plan_entry import Entry, plan_key, read_entry


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def few(hetero: Instance) -> Instance:
    """An all-reduce of 100 MiB in 8 chunks."""
    return hetero.overridden(chunks=8)


def test_names_are_not_in_the_key(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    network = few.network
    dimensions = tuple(d.replace(name=f"other{k}", source="elsewhere") for k, d in enumerate(network.dimensions))
    renamed = few.replace(
        name="renamed",
        description="in other words",
        network=network.replace(name="another", dimensions=dimensions, source="hearsay"),
        collectives=tuple(c.replace(name="weights") for c in few.collectives),
    )
    found = cache.recall(renamed, "equal")
    assert found is not None
    assert found.exact


def test_no_name_is_written(cache: PlanCache, few: Instance) -> None:
    secret = few.replace(name="secret", network=few.network.replace(name="secret"))
    cache.keep(scheduled(secret), "equal", 0.1, 1.0)
    (file,) = cached_files(cache)
    assert "secret" not in f"{file.relative_to(cache.root)}{file.read_text()}"


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
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    first, *others = few.network.dimensions
    other = few.replace(network=few.network.replace(dimensions=(first.replace(**change), *others)))
    assert cache.recall(other, "equal") is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "all_gather"}, {"element_bytes": 4}, {"release": "1 us"}, {"dimensions": ("dim1", "dim3")}],
    ids=lambda change: next(iter(change)),
)
def test_a_collective_that_differs_misses(cache: PlanCache, few: Instance, change: dict[str, Any]) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert few.network.dimension_names == ("dim1", "dim2", "dim3")
    other = few.replace(collectives=(few.collectives[0].replace(**change),))
    assert cache.recall(other, "equal") is None


@pytest.mark.parametrize("rule", [{"latency": "occupy"}, {"ag_order": "reverse"}], ids=lambda rule: next(iter(rule)))
def test_another_rule_misses(cache: PlanCache, few: Instance, rule: dict[str, str]) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert cache.recall(few.overridden(**rule), "equal") is None


def test_only_the_ratios_of_sizes_are_in_the_key(mixed: Instance) -> None:
    first, *others = mixed.collectives
    doubled = mixed.replace(collectives=tuple(c.replace(size=2 * c.size) for c in mixed.collectives))
    uneven = mixed.replace(collectives=(first.replace(size=2 * first.size), *others))
    assert plan_key(doubled) == plan_key(mixed) != plan_key(uneven)


OF_FIGURE_5 = (
    '{"format":"themis-opt/cached-plan/1","key":"52a6d99c55bab5afc18a25c930ba0187a8c1cb783cef766d7fab1a96deef7594",'
    '"fingerprint":"d3ab3fa1a23b8ce1b7215087ff2022c3","found_as":"equal","gap":0.05,"seconds":2.5,"collectives":'
    '[{"size":256000000,"allowed":4,"sizes":[64000000,64000000,64000000,64000000],'
    '"paths":[[0,1,1,0],[1,0,0,1],[0,1,1,0],[0,1,1,0]]}],'
    '"sequences":[[0,8,5,6,12,3,11,15],[4,1,2,9,10,13,14,7]]}'
)


def test_an_entry_of_collectives_is_what_it_was_before_there_were_launches(
    cache: PlanCache, figure_5: Instance
) -> None:
    """The same content in the same place, and what was written then is read."""
    cache.keep(scheduled(figure_5), "equal", 0.05, 2.5)
    (file,) = cached_files(cache)
    assert file.relative_to(cache.root) == Path(json.loads(OF_FIGURE_5)["key"], "equal.4.46b18841.28.json")
    assert file.read_text() == OF_FIGURE_5
    found = cache.recall(figure_5, "equal")
    assert found is not None
    assert found.exact


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


def test_no_name_of_an_iteration_is_written(cache: PlanCache) -> None:
    instance = iteration({"hush": 1.0}, [tensor("secret", 4, "hush", "hush")], name="private")
    cache.keep(scheduled(instance, "wait_free/hourglass"), "free", 0.1, 1.0)
    (file,) = cached_files(cache)
    assert not any(name in file.read_text() for name in ("hush", "secret", "private"))


OF_LAUNCHES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no launches": lambda document: document.pop("launches"),
    "too few launches": lambda document: document["launches"].pop(),
    "no sequences and no launches": lambda document: document.update(sequences=[], launches=[], shifts=[]),
    "no tensors": lambda document: document["launches"][0].update(tensors=[]),
    "unknown tensor": lambda document: document["launches"][0].update(tensors=[7]),
    "tensor twice": lambda document: document["launches"][0].update(tensors=[0, 0]),
    "tensor below zero": lambda document: document["launches"][0].update(tensors=[-1]),
    "half of another": lambda document: [
        document["launches"][0].update(kind="reduce_scatter", part="scatter"),
        document["launches"][1].update(kind="all_gather", part="gather"),
    ],
    "tensor left out": lambda document: document["launches"][1].update(tensors=[0]),
    "unknown task": lambda document: document["launches"][0].update(after=[4, 0]),
    "task far away": lambda document: document["launches"][0].update(after=[0, 2]),
    "task too early": lambda document: document["launches"][0].update(after=[0, 0]),
    "awaited too late": lambda document: document["launches"][0].update(before=[3, 1]),
    "not awaited": lambda document: document["launches"][0].pop("before"),
    "unknown launch": lambda document: document["launches"][0].update(after_launches=[2]),
    "waits for itself": lambda document: document["launches"][0].update(after_launches=[0]),
    "another kind": lambda document: document["launches"][0].update(kind="all_gather"),
    "unknown kind": lambda document: document["launches"][0].update(kind="gossip"),
    "half of it": lambda document: document["launches"][0].update(part="scatter"),
    "unknown order": lambda document: document.update(order="oldest"),
    "unknown rule": lambda document: document.update(dispatch="by_name"),
    "too few shifts": lambda document: document["shifts"].pop(),
    "shift below zero": lambda document: document["shifts"].__setitem__(0, -1),
    "too many keys": lambda document: document.update(keys=[0.0] * 100),
    "a key that is no number": lambda document: document.update(keys=["0"] * len(document["shifts"])),
}


@pytest.mark.parametrize("damage", OF_LAUNCHES.values(), ids=OF_LAUNCHES.keys())
def test_a_damaged_entry_of_an_iteration_is_passed_over(
    cache: PlanCache, damage: Callable[[dict[str, Any]], None]
) -> None:
    instance = two_layers(dimensions=2, chunks=2)
    schedule = scheduled(instance, "wait_free/hourglass")
    cache.keep(simulate(instance, schedule.enforced_plan()), "free", 0.1, 1.0)
    assert cache.recall(instance, "free") is not None
    (file,) = cached_files(cache)
    document = json.loads(file.read_text())
    damage(document)
    file.write_text(json.dumps(document))
    assert cache.recall(instance, "free") is None


def test_launches_that_are_in_time_by_luck_are_passed_over(cache: PlanCache) -> None:
    """The sequences serve them late enough, but what changes the sequences would not."""
    instance = two_layers(kilobytes2=40, chunks=2)
    usual, halves = (scheduled(instance, f"{name}/hourglass") for name in ("wait_free", "dear:threshold=10kB"))
    lucky = [
        (usual, lambda document: document["launches"][1].update(after=[2, 0])),
        (halves, lambda document: [own.update(after_launches=[]) for own in document["launches"]]),
    ]
    for schedule, damage in lucky:
        cache.keep(simulate(instance, schedule.enforced_plan()), "free", 0.1, 1.0)
        (file,) = cached_files(cache)
        document = json.loads(file.read_text())
        damage(document)
        plan = Entry.model_validate_json(json.dumps(document)).plan_for(instance)
        validate(simulate(instance, plan))
        file.write_text(json.dumps(document))
        assert cache.recall(instance, "free") is None
        file.unlink()


def putting(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of a document that puts a value at a place."""

    def edit(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return edit


def reverse_sequences(document: dict[str, Any]) -> None:
    """Let the last stages go first, so that they wait for what follows them."""
    for sequence in document["sequences"]:
        sequence.reverse()


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no format": lambda document: document.pop("format"),
    "another format": putting("format", to="themis-opt/cached-plan/0"),
    "another key": putting("key", to="0" * 64),
    "unknown field": putting("surprise", to=1),
    "gap as text": putting("gap", to="0.1"),
    "gap below zero": putting("gap", to=-0.5),
    "seconds missing": lambda document: document.pop("seconds"),
    "no such kind of sizes": putting("found_as", to="any"),
    "no collectives": putting("collectives", to=[]),
    "too many collectives": lambda document: document["collectives"].append(document["collectives"][0]),
    "sizes as text": putting("collectives", 0, "sizes", 0, to="13107200"),
    "sizes as fractions": putting("collectives", 0, "sizes", 0, to=13107200.5),
    "sizes that do not sum": putting("collectives", 0, "sizes", 0, to=2),
    "size zero": putting("collectives", 0, "sizes", 0, to=0),
    "size below zero": putting("collectives", 0, "sizes", 0, to=-1),
    "huge size": putting("collectives", 0, "sizes", 0, to=10**30),
    "huge stage": putting("sequences", 0, 0, to=10**30),
    "stage below zero": putting("sequences", 0, 0, to=-1),
    "no sizes": putting("collectives", 0, "sizes", to=[]),
    "more sizes than paths": lambda document: document["collectives"][0]["paths"].pop(),
    "more chunks than allowed": putting("collectives", 0, "allowed", to=3),
    "ragged path": lambda document: document["collectives"][0]["paths"][0].pop(),
    "path that is no permutation": putting("collectives", 0, "paths", 0, to=[0, 0, 1, 1, 2, 2]),
    "path through an unknown dimension": putting("collectives", 0, "paths", 0, to=[0, 1, 7, 7, 1, 0]),
    "paths without stages": putting("collectives", 0, "paths", to=[[]] * 8),
    "sequence with a stage twice": lambda document: document["sequences"][0].append(document["sequences"][0][0]),
    "sequence without a stage": lambda document: document["sequences"][0].pop(),
    "sequence of unknown stages": putting("sequences", 0, 0, to=4000),
    "sequences exchanged": lambda document: document["sequences"].reverse(),
    "too few sequences": lambda document: document["sequences"].pop(),
    "too many sequences": lambda document: document["sequences"].append([]),
    "no sequences": putting("sequences", to=[]),
    "cyclic sequences": reverse_sequences,
}


@pytest.fixture
def entry(cache: PlanCache, few: Instance) -> Path:
    """The file of an entry."""
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
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


def test_a_truncated_entry_is_passed_over_wherever_it_ends(cache: PlanCache, few: Instance, entry: Path) -> None:
    content = entry.read_bytes()
    for length in range(0, len(content), 97):
        entry.write_bytes(content[:length])
        assert cache.recall(few, "equal") is None


def test_unequal_sizes_that_claim_to_be_equal_become_equal(cache: PlanCache, few: Instance, entry: Path) -> None:
    document = json.loads(entry.read_text())
    document["collectives"][0]["sizes"][0] += 2048
    document["collectives"][0]["sizes"][1] -= 2048
    entry.write_text(json.dumps(document))
    found = cache.recall(few, "equal")
    assert found is not None
    assert found.schedule.has_equal_sizes


def test_a_gather_that_is_not_reversed_is_passed_over(cache: PlanCache, few: Instance) -> None:
    reverse = few.overridden(ag_order="reverse")
    cache.keep(scheduled(reverse), "equal", 0.1, 1.0)
    (file,) = cached_files(cache)
    document = json.loads(file.read_text())
    path = document["collectives"][0]["paths"][0]
    document["collectives"][0]["paths"][0] = path[:3] + path[:3]
    file.write_text(json.dumps(document))
    assert cache.recall(reverse, "equal") is None


def test_an_entry_of_another_network_in_this_place_is_passed_over(cache: PlanCache, few: Instance, entry: Path) -> None:
    first, *others = few.network.dimensions
    network = few.network.replace(dimensions=(first.replace(bandwidth="1 GB/s"), *others))
    cache.keep(scheduled(few.replace(network=network)), "equal", 0.0, 1.0)
    (foreign,) = set(cached_files(cache)) - {entry}
    foreign.replace(entry)
    assert cache.recall(few, "equal") is None


def test_a_damaged_entry_does_not_hide_another(cache: PlanCache, few: Instance, entry: Path) -> None:
    cache.keep(scheduled(few.overridden(chunks=4)), "equal", 0.1, 2.0)
    entry.write_text("{")
    found = cache.recall(few, "equal")
    assert found is not None
    assert found.seconds == 2.0


def test_a_damaged_entry_is_replaced(cache: PlanCache, few: Instance, entry: Path) -> None:
    document = json.loads(entry.read_text())
    reverse_sequences(document)
    entry.write_text(json.dumps(document | {"gap": 0.0}))
    cache.keep(scheduled(few), "equal", 0.3, 1.0)
    found = cache.recall(few, "equal")
    assert found is not None
    assert found.gap == 0.3


def test_a_folder_in_the_place_of_a_file_is_passed_over(cache: PlanCache, few: Instance, entry: Path) -> None:
    entry.unlink()
    entry.mkdir()
    assert cache.recall(few, "equal") is None
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert entry.is_dir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_place_of_a_file_does_not_block(cache: PlanCache, few: Instance, entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)
    assert cache.recall(few, "equal") is None


def test_strange_file_names_are_passed_over(cache: PlanCache, few: Instance, entry: Path) -> None:
    for name in ("equal.json", "equal.0.00000000.27.json", "equal.8.00000000.27.json.tmp", f"equal.{'9' * 200}.x.json"):
        (entry.parent / name).write_bytes(entry.read_bytes())
    entry.unlink()
    assert cache.recall(few, "equal") is None


def test_an_entry_that_may_not_be_read_is_passed_over(
    cache: PlanCache, few: Instance, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert cache.recall(few, "equal") is None


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device")])
def test_where_nothing_can_be_written_nothing_is_kept(
    cache: PlanCache, few: Instance, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("os.fsync", refuse)
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert cache.recall(few, "equal") is None


def test_a_file_in_the_place_of_the_folder_turns_the_cache_off(tmp_path: Path, few: Instance) -> None:
    (tmp_path / "plans").write_text("mine")
    cache = PlanCache(tmp_path / "plans")
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert cache.recall(few, "equal") is None
    assert (tmp_path / "plans").read_text() == "mine"


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
    instance = themis_opt.load("fig5.all_reduce.256MB")
    schedule = scheduled(instance)
    for number in range(first, 200, 2):
        PlanCache(folder).keep(schedule, "equal", 1 / (number + 1), 1.0)


def test_two_processes_may_write_at_once(cache: PlanCache, figure_5: Instance) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=keep_many, args=(cache.root, first)) for first in (0, 1)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for file in cached_files(cache):
            assert file.suffix != ".json" or read_entry(file, plan_key(figure_5)) is not None
    assert [writer.exitcode for writer in writers] == [0, 0]
    (file,) = cached_files(cache)
    assert Entry.model_validate_json(file.read_bytes()).gap <= 1 / 199

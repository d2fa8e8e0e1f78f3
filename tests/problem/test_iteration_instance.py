"""Training iterations as instances: every field is checked at the border."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance

PLAIN: dict[str, Any] = {
    "network": {
        "dimensions": [
            {"kind": "switch", "size": 4, "bandwidth": "48 GB/s"},
            {"kind": "ring", "size": 8, "bandwidth": "10 GB/s", "latency": "1 us"},
        ]
    },
    "iteration": {
        "tasks": [
            {"name": "forward", "duration": "10 us"},
            {"name": "backward", "duration": "20 us", "after": ["forward"]},
            {"name": "update", "duration": "5 us"},
        ],
        "tensors": [
            {"name": "gradients", "size": "1 MB", "ready_after": "backward", "needed_before": "forward"},
            {"name": "activations", "size": "2 MB", "ready_after": "forward", "needed_before": "backward"},
        ],
        "splits": [{"dimension": "dim2", "sizes": [4, 2], "names": ["mp", "dp"]}],
    },
}

Change = Callable[[dict[str, Any]], None]


def changed(*path: str | int, to: Any) -> Change:
    """A change of one field of the document."""

    def change(document: dict[str, Any]) -> None:
        place = document
        for part in path[:-1]:
            place = place[part]  # type: ignore[index]
        place[path[-1]] = to  # type: ignore[index]

    return change


def document_with(change: Change) -> dict[str, Any]:
    """The plain document, changed."""
    document = copy.deepcopy(PLAIN)
    change(document)
    return document


def instance_with(change: Change) -> Instance:
    return Instance.model_validate(document_with(change))


def refusal(change: Change) -> str:
    """The message for a document that has to be refused."""
    with pytest.raises(ModelError) as caught:
        instance_with(change)
    return str(caught.value)


TASKS, TENSORS, SPLITS = ("iteration", "tasks"), ("iteration", "tensors"), ("iteration", "splits")
TEN_MORE = [{"kind": "ring", "size": 2, "bandwidth": "1 GB/s"}] * 11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("iteration", to=5), "iteration = 5: "),
        (changed("iteration", to=None), "collectives: required field is missing"),
        (changed("iteration", "surprise", to=1), "iteration.surprise = 1: unknown field"),
        (changed(*TASKS, to=[]), "iteration.tasks: tuple should have at least 1 item"),
        (changed(*TASKS, 1, to=5), "iteration.tasks[1] = 5: "),
        (changed(*TASKS, 1, to={"name": "nap"}), "iteration.tasks[1].duration: required field is missing"),
        (changed(*TASKS, 1, "duration", to="1e20 s"), "clock"),
        (changed(*TASKS, 0, "name", to=""), "iteration.tasks[0].name = ''"),
        (changed(*TASKS, 0, "duration", to="-1 us"), "iteration.tasks[0].duration = '-1 us'"),
        (changed(*TASKS, 0, "duration", to="1 MB"), "iteration.tasks[0].duration = '1 MB': unknown unit 'MB'"),
        (changed(*TASKS, 0, "parameter_bytes", to=-1), "iteration.tasks[0].parameter_bytes = -1"),
        (changed(*TASKS, 0, "after", to=["sleep"]), "iteration.tasks[0].after names 'sleep', there is no such task"),
        (changed(*TASKS, 0, "after", to=["update"]), "iteration.tasks: 'forward' waits for 'update', which is listed"),
        (changed(*TASKS, 0, "after", to=["backward"]), "dependencies form a cycle: forward <- backward <- forward"),
        (changed(*TASKS, 0, "after", to=["forward"]), "dependencies form a cycle: forward <- forward"),
        (changed(*TASKS, 1, "name", to="forward"), "iteration.tasks: names must differ, 'forward' stands twice"),
        (changed(*TENSORS, to=[]), "iteration.tensors: tuple should have at least 1 item"),
        (
            changed(*TENSORS, 1, "name", to="gradients"),
            "iteration.tensors: names must differ, 'gradients' stands twice",
        ),
        (changed(*TENSORS, 0, "size", to=0), "iteration.tensors[0].size = 0: "),
        (changed(*TENSORS, 1, "size", to="1e29 TB"), "iteration.tensors[1].size = '1e29 TB': "),
        (changed(*TENSORS, 0, "size", to=1001), "size must be a multiple of element_bytes = 2, is 1001 bytes"),
        (changed(*TENSORS, 0, "kind", to="shout"), "iteration.tensors[0].kind = 'shout'"),
        (changed(*TENSORS, 0, "parallelism", to="pipeline"), "iteration.tensors[0].parallelism = 'pipeline'"),
        (changed(*TENSORS, 0, "needed_in", to="last"), "iteration.tensors[0].needed_in = 'last'"),
        (
            changed(*TENSORS, 0, "ready_after", to="sleep"),
            "iteration.tensors[0].ready_after names 'sleep', there is no such task",
        ),
        (
            changed(*TENSORS, 1, "needed_before", to="sleep"),
            "iteration.tensors[1].needed_before names 'sleep', there is no such task",
        ),
        (
            changed(*TENSORS, 0, "dimensions", to=["dim2"]),
            "iteration.tensors[0].dimensions names 'dim2', the network has dim1, mp, dp",
        ),
        (changed(*TENSORS, 0, "dimensions", to=["mp", "mp"]), "iteration.tensors[0].dimensions repeats a dimension"),
        (changed(*TENSORS, 0, "dimensions", to=[]), "iteration.tensors[0].dimensions"),
        (changed(*TENSORS, 0, "needed_in", to="this"), "dependencies form a cycle: "),
        (
            changed(*SPLITS, 0, "dimension", to="dim3"),
            "iteration.splits[0].dimension: names 'dim3', the network has dim1, dim2",
        ),
        (
            changed("network", "dimensions", 1, "kind", to="mesh2d"),
            "iteration.splits[0].sizes: 'dim2' is a mesh2d, 2 NPUs make no grid: use a 'line'",
        ),
        (changed(*SPLITS, 0, "sizes", to=[4, 4]), "iteration.splits[0].sizes: must multiply to 8, are (4, 4)"),
        (changed(*SPLITS, 0, "sizes", to=[8, 1]), "iteration.splits[0].sizes[1] = 1: "),
        (changed(*SPLITS, to=PLAIN["iteration"]["splits"] * 2), "iteration.splits: splits a dimension twice"),
        (changed(*SPLITS, 0, "names", to=["a", "a"]), "dimension names must differ after splits, got dim1, a, a"),
        (changed(*SPLITS, 0, "names", to=["a", "dim1"]), "dimension names must differ after splits, got dim1, a, dim1"),
        (changed(*SPLITS, 0, "names", to=["", "b"]), "iteration.splits[0].names[0] = ''"),
        (changed(*SPLITS, 0, "shared", to="yes"), "iteration.splits[0].shared = 'yes'"),
        (
            changed("network", "dimensions", to=[*TEN_MORE, PLAIN["network"]["dimensions"][1] | {"name": "dim2"}]),
            "dimension names must differ, got ",
        ),
        (changed("iteration", "steps", to=0), "iteration.steps = 0: "),
        (changed("chunks", to=0), "chunks = 0: "),
        (changed("latency", to="none"), "latency = 'none'"),
        (changed("ag_order", to="any"), "ag_order = 'any'"),
        (
            changed("collectives", to=[{"kind": "all_reduce", "size": "1 MB"}]),
            "iteration: has either collectives or an iteration",
        ),
    ],
)
def test_a_broken_rule_is_named(change: Change, message: str) -> None:
    assert message in refusal(change)


def test_dimensions_after_splits_are_limited() -> None:
    many = [*TEN_MORE, PLAIN["network"]["dimensions"][1] | {"name": "last"}]
    split = {"dimension": "last", "sizes": [4, 2], "names": ["mp", "dp"]}

    def change(document: dict[str, Any]) -> None:
        document["network"]["dimensions"] = many
        document["iteration"]["splits"] = [split]

    assert refusal(change) == "must have at most 12 dimensions after splits"


def test_tasks_must_fit_the_clock_together() -> None:
    long = [{"name": name, "duration": "2000000 s"} for name in ("forward", "backward", "update")]
    assert "iteration.tasks must take at most the" in refusal(changed(*TASKS, to=long))


@pytest.mark.parametrize(
    ("ready", "needed", "needed_in", "later"),
    [
        ("forward", "backward", None, 0),
        ("backward", "forward", None, 1),
        ("backward", "backward", None, 1),
        ("forward", "backward", "next", 1),
        ("forward", "backward", "this", 0),
    ],
)
def test_a_tensor_is_needed_in_this_iteration_only_by_later_tasks(
    ready: str, needed: str, needed_in: str | None, later: int
) -> None:
    tensor = {"name": "t", "size": 2, "ready_after": ready, "needed_before": needed, "needed_in": needed_in}
    assert instance_with(changed(*TENSORS, to=[tensor])).exchanges[0].needed_later == later


def test_split_dimensions_are_two_of_the_full_bandwidth() -> None:
    fabric = instance_with(changed("chunks", to=8)).fabric
    assert fabric.dimension_names == ("dim1", "mp", "dp")
    assert fabric.sizes == (4, 4, 2)
    assert fabric.bandwidths == (48e9, 10e9, 10e9)


@pytest.mark.parametrize(("shared", "resources"), [(False, (0, 1, 2)), (True, (0, 1, 1))])
def test_only_shared_parts_are_one_resource(shared: bool, resources: tuple[int, ...]) -> None:
    assert instance_with(changed(*SPLITS, 0, "shared", to=shared)).links == resources


def test_spans_are_indices_after_splits_innermost_first() -> None:
    instance = instance_with(changed(*TENSORS, 0, "dimensions", to=["dp", "dim1"]))
    assert [exchange.span for exchange in instance.exchanges] == [(0, 2), (0, 1, 2)]


def test_compute_and_memory_are_sums_over_tasks() -> None:
    instance = instance_with(changed(*TASKS, 0, "parameter_bytes", to=6))
    assert (instance.compute, instance.parameter_bytes) == (35_000_000, 6)


def test_a_size_cannot_be_set_for_all_tensors() -> None:
    with pytest.raises(InputError, match="tensors state their sizes"):
        instance_with(changed("chunks", to=8)).overridden(size="1 MB")


def test_overridden_rules_are_replaced() -> None:
    instance = instance_with(changed("chunks", to=8)).overridden(chunks=3, latency="occupy", ag_order="reverse")
    assert (instance.chunks, instance.latency, instance.ag_order) == (3, "occupy", "reverse")


def renamed_tasks(document: dict[str, Any]) -> None:
    for task in document["iteration"]["tasks"]:
        task["name"] = f"my {task['name']}"
        task.pop("after", None)
    for one in document["iteration"]["tensors"]:
        one |= {"ready_after": f"my {one['ready_after']}", "needed_before": f"my {one['needed_before']}"}


@pytest.mark.parametrize(
    "change",
    [
        changed(*TENSORS, 0, "name", to="other"),
        changed(*TENSORS, 0, "needed_in", to="next"),
        changed(*TENSORS, 0, "dimensions", to=["dim1", "mp", "dp"]),
        changed(*TASKS, 1, "after", to=[]),
        changed(*SPLITS, 0, "names", to=["inner", "outer"]),
        changed(*TASKS, 0, "parameter_bytes", to=8),
        renamed_tasks,
    ],
)
def test_what_changes_no_time_keeps_the_fingerprint(change: Change) -> None:
    assert instance_with(change).fingerprint == Instance.model_validate(PLAIN).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        changed(*TASKS, 0, "duration", to="11 us"),
        changed(*TENSORS, 0, "size", to="1002 kB"),
        changed(*TENSORS, 0, "kind", to="all_gather"),
        changed(*TENSORS, 0, "ready_after", to="update"),
        changed(*TENSORS, 0, "needed_before", to="backward"),
        changed(*TENSORS, 1, "needed_in", to="next"),
        changed(*TENSORS, 0, "dimensions", to=["dim1"]),
        changed(*TENSORS, 0, "element_bytes", to=4),
        changed(*SPLITS, 0, "sizes", to=[2, 4]),
        changed(*SPLITS, 0, "shared", to=True),
        changed(*SPLITS, to=[]),
        changed("chunks", to=32),
        changed("latency", to="occupy"),
        changed("ag_order", to="reverse"),
    ],
)
def test_what_changes_times_changes_the_fingerprint(change: Change) -> None:
    assert instance_with(change).fingerprint != Instance.model_validate(PLAIN).fingerprint


def test_a_document_survives_a_round_trip() -> None:
    instance = Instance.model_validate(PLAIN)
    assert Instance.model_validate_json(instance.model_dump_json()) == instance

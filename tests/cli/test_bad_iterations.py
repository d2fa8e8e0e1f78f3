"""Iterations that break a rule, in instance files and options: one line names it; exit code 2."""

import pytest
from edits import ABSENT, edited
from iteration_schedules import SHARED, layers

TASK, TENSOR, SPLIT = "iteration.tasks.1", "iteration.tensors.1", "iteration.splits.0"

FIELDS = [
    # path, value, what the message must say
    ("iteration", 5, "iteration = 5: "),
    ("iteration", None, "collectives: required field is missing"),
    ("iteration.surprise", 1, "iteration.surprise = 1: unknown field"),
    ("iteration.tasks", ABSENT, "iteration.tasks: required field is missing"),
    ("iteration.tasks", [], "iteration.tasks: "),
    ("iteration.steps", 0, "iteration.steps = 0: "),
    ("chunks", 0, "chunks = 0: "),
    ("latency", "wait", "latency = 'wait': "),
    ("collectives", [{"kind": "all_reduce", "size": "1 MB"}], "has either collectives or an iteration"),
    (TASK, 5, "iteration.tasks[1] = 5: "),
    (f"{TASK}.surprise", 1, "iteration.tasks[1].surprise = 1: unknown field"),
    (f"{TASK}.duration", ABSENT, "iteration.tasks[1].duration: required field is missing"),
    (f"{TASK}.duration", "-1 us", "iteration.tasks[1].duration = '-1 us': "),
    (f"{TASK}.duration", -5, "iteration.tasks[1].duration = -5: "),
    (f"{TASK}.duration", "5 parsec", "iteration.tasks[1].duration = '5 parsec': unknown unit"),
    (f"{TASK}.duration", "1e20 s", "clock"),
    (f"{TASK}.name", "layer0_forward", "'layer0_forward' stands twice"),
    (f"{TASK}.after", ["nothing"], "iteration.tasks[1].after names 'nothing', there is no such task"),
    (f"{TASK}.after", ["layer1_forward"], "dependencies form a cycle: layer1_forward <- layer1_forward"),
    (
        f"{TASK}.after",
        ["layer2_backward"],
        "iteration.tasks: 'layer1_forward' waits for 'layer2_backward', which is listed",
    ),
    (f"{TENSOR}.kind", "barrier", "iteration.tensors[1].kind = 'barrier': "),
    (f"{TENSOR}.size", "0 B", "iteration.tensors[1].size = '0 B': "),
    (f"{TENSOR}.size", "3 B", "iteration.tensors[1]: size must be a multiple of element_bytes = 2"),
    (f"{TENSOR}.size", "1e29 TB", "iteration.tensors[1].size = '1e29 TB': "),
    (f"{TENSOR}.parallelism", "expert", "iteration.tensors[1].parallelism = 'expert': "),
    (f"{TENSOR}.name", "rows", "'rows' stands twice"),
    (f"{TENSOR}.ready_after", "nothing", "iteration.tensors[1].ready_after names 'nothing'"),
    (f"{TENSOR}.needed_before", "nothing", "iteration.tensors[1].needed_before names 'nothing'"),
    (f"{TENSOR}.needed_in", "last", "iteration.tensors[1].needed_in = 'last': "),
    (f"{TENSOR}.needed_in", "this", "layer0_backward"),
    (f"{TENSOR}.dimensions", ["dim9"], "iteration.tensors[1].dimensions names 'dim9', the network has dim1, "),
    (f"{TENSOR}.dimensions", ["dim1", "dim1"], "iteration.tensors[1].dimensions repeats a dimension"),
    (f"{TENSOR}.dimensions", ["dim2"], "iteration.tensors[1].dimensions names 'dim2', the network has dim1, near, far"),
    (f"{SPLIT}.dimension", "dim9", "iteration.splits[0].dimension names 'dim9'"),
    (f"{SPLIT}.sizes", [2, 3], "iteration.splits[0].sizes must multiply to 4"),
    (f"{SPLIT}.names", ["dim1", "far"], "dimension names must differ"),
]


@pytest.fixture(scope="module")
def document():
    """An iteration instance with a split dimension as JSON values; not to be changed."""
    return layers(**SHARED).model_dump(mode="json")


@pytest.mark.parametrize(("path", "value", "said"), FIELDS, ids=[f"{p}={str(v)[:24]}" for p, v, _ in FIELDS])
def test_mistake_in_an_instance_is_located(refuse, save, document, path, value, said):
    file = save(edited(document, path, value))
    message = refuse("show", file)
    assert message.startswith(f"error: {file}: ")
    assert said in message


def test_cycle_through_a_tensor_is_shown(refuse, save, document):
    """The activation that the second layer needs is made by the first."""
    message = refuse("show", save(edited(document, "iteration.tasks.0.after", ["layer1_forward"])))
    assert "dependencies form a cycle: layer0_forward <- layer1_forward <- layer0_forward" in message


POLICIES = [
    # policies, what the message must say
    ("magic", "'magic': unknown policy; use one of fused, wait_free, ddp"),
    ("magic/themis", "'magic': unknown policy"),
    ("fused/magic", "'magic': unknown policy"),
    ("fused,magic", "'magic': unknown policy"),
    ("fused/themis+magic", "unknown dispatch rule"),
    ("fused/", "unknown policy"),
    ("/themis", "unknown policy"),
    ("ddp:magic=1", "unknown knob 'magic'; use one of order"),
    ("ddp:cap=many", "knob cap: "),
    ("ddp:cap=0 B", "knob cap: "),
    ("ddp:cap=1MB:cap=2MB", "sets knob 'cap' twice"),
    ("horovod:cycle=1MB", "knob cycle: "),
    ("fused/themis:magic=1", "unknown knob 'magic'"),
    ("fused,fused", "each once"),
    ("", "one or more policies"),
]


@pytest.mark.parametrize(("policies", "said"), POLICIES, ids=[p for p, _ in POLICIES])
@pytest.mark.parametrize("command", ["solve", "compare", "simulate"])
def test_bad_policies(refuse, save, tmp_path, document, command, policies, said):
    message = refuse(command, save(document), "--policies", policies, "-o", tmp_path / "out")
    assert said in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["solve", "compare", "simulate", "bound", "show"])
def test_size_is_refused(refuse, save, document, command):
    message = refuse(command, save(document), "--size", "1MB")
    assert "size = '1MB'" in message
    assert "tensors state their sizes" in message


def test_chunks_of_none_are_refused(refuse, save, document):
    assert "chunks = 0: " in refuse("simulate", save(document), "--chunks", 0)

"""Iterations that break a rule, in instance files and options: one line names it; exit code 2."""

import pytest
from edits import edited
from iteration_schedules import SHARED, layers


@pytest.fixture(scope="module")
def document():
    """An iteration instance with a split dimension as JSON values; not to be changed."""
    return layers(**SHARED).model_dump(mode="json")


def test_cycle_through_a_tensor_is_shown(refuse, save, document):
    """The activation that the second layer needs is made by the first."""
    message = refuse("show", save(edited(document, "iteration.tasks.0.after", ["layer1_forward"])))
    assert "dependencies form a cycle: layer0_forward <- layer1_forward <- layer0_forward" in message


POLICIES = [
    # policies, what the message must say
    ("magic", "'magic': unknown policy; use one of fused, wait_free, ddp"),
    ("fused,magic", "'magic': unknown policy"),
    ("fused/", "unknown policy"),
    ("ddp:cap=many", "knob cap: "),
    ("ddp:cap=1MB:cap=2MB", "sets knob 'cap' twice"),
    ("horovod:cycle=1MB", "knob cycle: "),
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

"""Policies that are none for iterations: one line names them; exit code 2."""

import pytest
from iteration_schedules import SHARED, layers


@pytest.fixture(scope="module")
def document():
    """An iteration instance with a split dimension as JSON values; not to be changed."""
    return layers(**SHARED).model_dump(mode="json")


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

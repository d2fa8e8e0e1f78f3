"""Options that change the instance or choose the policies."""

import json

import pytest
from samples import rare

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1)
OVERRIDES = ("--size", "64MB", "--chunks", 2, "--latency", "occupy", "--ag-order", "reverse")


@pytest.fixture
def shown(succeed):
    """The instance that a command line describes, as JSON values."""
    return lambda *options: json.loads(succeed("show", NAME, "--json", *options))


def test_options_change_the_instance(shown):
    changed = shown("--size", "500MiB", "--chunks", 16, "--latency", "occupy", "--ag-order", "reverse")
    (collective,) = changed["collectives"]
    assert (collective["size"], collective["chunks"]) == ("500 MiB", 16)
    assert (changed["latency"], changed["ag_order"]) == ("occupy", "reverse")
    assert changed["fingerprint"] != shown()["fingerprint"]


@pytest.mark.parametrize("command", ["bound", "simulate", "compare"])
def test_every_command_takes_all_overrides(succeed, command):
    assert succeed(command, NAME, *OVERRIDES, *(QUICK if command == "compare" else ()))


def test_written_schedule_belongs_to_the_overridden_instance(succeed, shown, tmp_path):
    succeed("solve", NAME, *QUICK, "-o", tmp_path, *OVERRIDES)
    written = json.loads((tmp_path / "schedule.json").read_text(encoding="utf-8"))
    assert written["fingerprint"] == shown(*OVERRIDES)["fingerprint"]


@pytest.mark.parametrize("policies", ["exact", rare("themis+scf"), rare("random+fifo")])
def test_reverse_gather_order_is_obeyed(succeed, tmp_path, policies):
    succeed("solve", NAME, *QUICK, "-o", tmp_path, "--ag-order", "reverse", "--policies", policies)
    (collective,) = json.loads((tmp_path / "schedule.json").read_text(encoding="utf-8"))["collectives"]
    assert all(path == path[::-1] for path in collective["paths"])

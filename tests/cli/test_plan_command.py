"""``themis-opt plan``."""

import json

import pytest
from sharded_iterations import sharded

from themis_opt.workloads.files import write_instance

QUICK = ("--time-limit", 0.5, "--workers", 1)


@pytest.fixture
def step(tmp_path):
    write_instance(sharded(8, 8, 8), tmp_path / "step.json")
    return tmp_path / "step.json"


def test_it_says_one_sentence_and_writes_plan_and_picture(succeed, step, tmp_path):
    said = succeed("plan", step, "--memory", "40 kB", *QUICK, "-o", tmp_path / "plan")
    assert "a step, at least" in said
    document = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert document["format"] == "themis-opt/plan/1"
    assert document["peak_bytes"] <= document["memory"] == 40_000
    assert (tmp_path / "plan" / "plan.svg").read_text().startswith("<?xml")


def test_limits_that_are_none_are_refused(refuse, step):
    assert "memory" in refuse("plan", step, "--memory", "much")

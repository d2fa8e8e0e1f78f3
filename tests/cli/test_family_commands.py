"""Commands that take a problem of any family."""

import json
from pathlib import Path

import pytest

from themis_opt.problem.catalog import INSTANCES
from themis_opt.schedules.results import PolicyComparison

PIPELINE = str(next(INSTANCES.rglob("*.pipeline.json")))
GRAPH = "dgx1.all_gather.1GB"
FAMILIES = pytest.mark.parametrize("source", ["fig5.all_reduce.256MB", GRAPH, PIPELINE])
FILES = {"schedule.json", "comparison.json", "comparison.csv", "trace.json", "schedule.html"}


@FAMILIES
def test_solve_writes_the_same_files_for_every_family(succeed, tmp_path: Path, source: str) -> None:
    succeed("solve", source, "-o", str(tmp_path), "--time-limit", "1")
    assert {path.name for path in tmp_path.iterdir()} >= FILES
    assert list(tmp_path.glob("*.svg"))
    rows = json.loads((tmp_path / "comparison.json").read_text())
    assert all({"policy", "makespan_ns", "bound_ns", "gap", "status"} <= row.keys() for row in rows)
    assert (tmp_path / "comparison.csv").read_text().startswith("policy,")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@FAMILIES
def test_show_says_what_a_problem_is(succeed, source: str) -> None:
    assert succeed("show", source).strip()


@FAMILIES
def test_simulate_takes_policies_without_bounds(succeed, source: str) -> None:
    rows = json.loads(succeed("simulate", source, "--json"))
    assert len({row["policy"] for row in rows}) == len(rows) >= 3
    assert all(row["makespan_ns"] > 0 for row in rows)


def test_the_busy_time_of_a_pipeline_is_explained(succeed, tmp_path: Path) -> None:
    succeed("solve", PIPELINE, "-o", str(tmp_path), "--time-limit", "1")
    explained = json.loads(succeed("explain", str(tmp_path / "schedule.json"), "--json"))
    steps = explained["steps"]
    assert steps[0]["start_ns"] == 0
    assert steps[-1]["start_ns"] + steps[-1]["busy_ns"] == explained["all_stages_ns"] == 27e6
    assert explained["makespan_ns"] == 25e6
    assert explained["resources"][0]["busy_ns"] == 8 * 3e6


def test_pages_hold_the_verdict_and_escape_names(succeed, tmp_path: Path) -> None:
    document = json.loads(Path(PIPELINE).read_text()) | {"name": "<b>p</b>"}
    (tmp_path / "p.json").write_text(json.dumps(document))
    succeed("solve", str(tmp_path / "p.json"), "-o", str(tmp_path / "out"), "--time-limit", "1")
    page = (tmp_path / "out" / "schedule.html").read_text()
    assert "<b>p</b>" not in page
    assert "proven optimal" in page


def test_a_named_policy_without_a_legal_plan_gives_exit_code_1(invoke) -> None:
    result = invoke("compare", PIPELINE, "--policies", "gpipe,1f1b")
    assert result.exit_code == 1
    assert "1f1b" in result.stdout
    assert "no legal plan: gpipe" in result.stderr


BROKEN_POLICY = """
from dataclasses import replace
from themis_opt.policies.baseline import Baseline

def broken(instance):
    return replace(Baseline()(instance), sequences=(None,))
"""


def test_an_illegal_plan_on_dimensions_gives_exit_code_1(
    invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_policy.py").write_text(BROKEN_POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    result = invoke("compare", "fig5.all_reduce.256MB", "--policies", "themis+scf,broken_policy:broken")
    assert result.exit_code == 1
    assert "themis+scf" in result.stdout
    assert "no legal plan: broken_policy:broken" in result.stderr


@pytest.mark.parametrize(
    ("source", "words"),
    [(GRAPH, "link directions"), (PIPELINE, "activations kept"), ("fig5.all_reduce.256MB", "ideal")],
)
def test_the_page_of_a_schedule_has_titles_units_and_its_picture(
    succeed, tmp_path: Path, source: str, words: str
) -> None:
    succeed("solve", source, "-o", str(tmp_path), "--time-limit", "1")
    page = (tmp_path / "schedule.html").read_text()
    assert "prefers-color-scheme: dark" in page
    assert '<meta name="viewport"' in page
    assert "makespan_ns" not in page
    assert ">makespan</th>" in page or ">iteration</th>" in page
    assert words in page


def test_policies_of_one_reason_are_left_out_in_one_line() -> None:
    refused = {"pat": "is for powers of 2", "bine": "is for powers of 2"}
    compared = PolicyComparison(None, (), {}, refused=refused, left_out=("trees", "ring"))
    assert compared.notes == [
        "left out: trees, ring: longer than --time-limit",
        "left out: pat, bine: is for powers of 2",
    ]

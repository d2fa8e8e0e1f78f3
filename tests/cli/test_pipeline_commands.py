"""Commands on pipelines of microbatches."""

import json
import re

import pytest

from themis_opt.pipelines import cuts

P4 = "p4_m8"


def test_solve_writes_a_proven_schedule(succeed, tmp_path):
    said = succeed("solve", P4, "-o", str(tmp_path), "--time-limit", "5")
    assert said.startswith("an iteration takes 25 ms by zb2p, proven optimal; 33 ms by 1f1b")
    assert (tmp_path / "torch-pipeline.csv").exists()


def test_compare_as_json(succeed):
    rows = json.loads(succeed("compare", P4, "--policies", "1f1b,exact", "--json"))
    assert [(row["policy"], row["period_ns"], row["kept"]) for row in rows] == [
        ("1f1b", 33e6, 4 * 10**9),
        ("exact", 25e6, 6 * 10**9),
    ]
    assert all(row["bound_ns"] == 25e6 for row in rows)


def test_bound(succeed):
    assert json.loads(succeed("bound", P4, "--json"))[0]["bound_ns"] == 25e6
    assert "25 ms at least" in succeed("bound", P4)


def test_sweep_says_what_memory_buys(succeed):
    rows = json.loads(succeed("sweep", P4, "--over", "memory=7GB,4GB", "--json"))
    assert [(row["memory"], row["period_ns"], row["gap"]) for row in rows] == [
        (4 * 10**9, 27e6, 0.0),
        (7 * 10**9, 24e6, 0.0),
    ]


def test_models_are_pipelines(succeed, tmp_path, monkeypatch):
    """Without a limit on memory the busiest stage of the step never waits; step and file have the same cut."""
    searches, search = [], cuts.cut_and_order
    monkeypatch.setattr(cuts, "cut_and_order", lambda *setup: searches.append(setup) or search(*setup))
    words = ["workload", "bert-large", "--network", "2d-sw_sw.all_reduce.100MiB", "--parallelism", "pipeline"]
    path = str(tmp_path / "bert.json")
    words += ["--stages", "2", "--microbatches", "4", "--layers-per-stage", "best"]
    step = json.loads(succeed(*words, "--pipeline", path, "--json"))
    assert len(searches) == 1
    rows = json.loads(succeed("compare", path, "--policies", "1f1b,exact", "--json"))
    assert rows[1]["period_ns"] == pytest.approx(step["compute_ns"], rel=2e-3)
    assert rows[0]["period_ns"] > 1.2 * rows[1]["period_ns"]


def test_export_for_torch(succeed, tmp_path):
    succeed("solve", P4, "-o", str(tmp_path / "solved"))
    succeed("export", str(tmp_path / "solved" / "schedule.json"), "--to", "torch-pipeline", "-o", str(tmp_path / "out"))
    written = (tmp_path / "out" / "torch-pipeline.csv").read_text()
    assert written == (tmp_path / "solved" / "torch-pipeline.csv").read_text()
    assert written.startswith("0F0,0F1,")


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("compare", P4, "--policies", "1f1v"), "is no policy of pipelines; did you mean '1f1b'?"),
        (("compare", P4, "--policies", "zbv"), "no policy has a plan: is for pipelines with two parts"),
        (("sweep", P4, "--over", "chunks=2"), "must be memory="),
    ],
)
def test_mistakes_are_named(refuse, words, rule):
    assert rule in refuse(*words)


def test_schedules_are_checked_and_drawn(succeed, refuse, tmp_path):
    succeed("solve", P4, "-o", tmp_path)
    schedule = tmp_path / "schedule.json"
    assert succeed("validate", schedule) == "valid: an iteration takes 25 ms; a stage keeps 6 GB at most.\n"
    succeed("plot", schedule, "-o", tmp_path / "picture.svg")
    picture = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert "stage 3" in picture
    assert re.search(r"time \((ms|us|s)\)", picture)
    for text in (picture, succeed("explain", schedule)):
        assert "the busiest stage waits for 4.00 % of the time" in text
    broken = json.loads(schedule.read_text(encoding="utf-8"))
    broken["starts"][0][0] += 1
    schedule.write_text(json.dumps(broken), encoding="utf-8")
    assert "schedule breaks rule 'stage'" in refuse("validate", schedule)
    assert "schedule breaks rule 'stage'" in refuse("explain", schedule)
    assert "is a pipeline: 'bound', 'compare'" in refuse("tune", P4)


def test_an_unmet_gap_is_1_and_other_pictures_are_refused(invoke, refuse, succeed, tmp_path):
    result = invoke("compare", P4, "--policies", "1f1b", "--gap", 0.01)
    assert result.exit_code == 1
    assert "the gap of 1.00 % was not reached: 32.00 %" in result.stderr
    succeed("solve", P4, "-o", tmp_path)
    assert "pictures end in" in refuse("plot", tmp_path / "schedule.json", "-o", tmp_path / "picture.doc")


def test_steps_in_which_stages_wait_for_a_tensor_that_goes_round_are_drawn(succeed, tmp_path):
    tasks = [{"name": f"t{stage}", "duration": "1 us", "stage": stage, "after": ["t0"] * stage} for stage in (0, 1)]
    tensor = {"name": "g", "size": "1 MB", "ready_after": "t1", "needed_before": "t1"}
    network = {"dimensions": [{"kind": "ring", "size": 2, "bandwidth": "1 GB/s"}]}
    iteration = {"tasks": tasks, "tensors": [tensor]}
    what = {"format": "themis-opt/instance/1", "network": network, "iteration": iteration, "chunks": 1}
    (tmp_path / "step.json").write_text(json.dumps(what), encoding="utf-8")
    assert "1.001 ms" in succeed(
        "simulate", tmp_path / "step.json", "--policies", "fused/themis+scf", "-o", tmp_path / "x"
    )
    assert list((tmp_path / "x").rglob("*.svg"))

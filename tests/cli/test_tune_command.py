"""``tune``: the best chunk count, sizes and policy, and the folder that holds them."""

import csv
import json
import signal
import subprocess
import sys

import pytest
from background import LISTENING, PATIENCE, read_until

from themis_opt.problem.catalog import load
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.schedules.validation import validate

NAME = "2d-sw_sw.all_reduce.100MiB"
COSTS = ("--launch-overhead", "2us", "--packet", "4096B/30B", "--reduction", "400GB/s", "--latency", "occupy")
FEW = (*COSTS, "--trials", 6, "--max-chunks", 16)
PICTURES = ("history.svg",)
FILES = {"instance.json", "best.json", "schedule.json", "trials.csv", *PICTURES}


DEFAULT = "64 chunks, sizes equal, themis+scf"  # what users do today


@pytest.fixture(scope="module")
def folder(succeed, tmp_path_factory):
    """What a short search writes; not to be changed."""
    folder = tmp_path_factory.mktemp("tune") / "tuned"
    succeed("tune", NAME, *FEW, "-o", folder)
    return folder


@pytest.fixture
def again(succeed, folder):
    """Run the search once more, which has the same trials."""
    return lambda *more: succeed("tune", NAME, *FEW, "-o", folder, *more)


def trials(folder):
    return list(csv.DictReader((folder / "trials.csv").read_text(encoding="utf-8").splitlines()))


def best(folder):
    return json.loads((folder / "best.json").read_text(encoding="utf-8"))


def test_everything_is_written(folder):
    assert {path.name for path in folder.iterdir()} >= FILES | {"order.csv", "stages.csv"}
    for name in FILES:
        assert (folder / name).stat().st_size > 0


def test_the_instance_holds_the_chunk_count_and_the_costs(folder):
    instance, setting = load(folder / "instance.json"), best(folder)
    assert instance.exchanges[0].max_chunks == setting["setting"]["chunks"]
    assert instance.description == f"Tuned by themis-opt: {setting['description']}."
    assert setting["policy"] in setting["description"]
    assert instance.latency == "occupy"
    values = {(d.launch_overhead, d.packet.payload, d.reduction) for d in instance.network.dimensions}
    assert values == {(2_000_000, 4096, 400e9)}


def test_the_schedule_belongs_to_the_instance_and_is_the_best_trial(folder):
    schedule = read_schedule(folder / "schedule.json", load(folder / "instance.json"))
    validate(schedule)
    assert schedule.makespan / 1000 == min(float(row["makespan_ns"]) for row in trials(folder))


def test_the_table_has_the_default_and_the_best(again, folder):
    chosen, gained, title, *lines = again().splitlines()
    assert chosen == f"Best of 6 settings: {best(folder)['description']}."
    assert gained.endswith(f": {DEFAULT}.")
    header, default, tuned = (line.split("\t") for line in lines[:3])
    assert "6 settings tried" in title
    assert header == ["", "size", "makespan", "busy", "chunks", "gain", "gap", "setting"]
    assert (default[0], tuned[0]) == ("default", "best")
    assert default[4:6] == ["64", "0.00 %"]
    assert default[7:] == [DEFAULT]
    assert tuned[7] == best(folder)["description"]


def test_json_has_gain_and_setting(again, folder):
    report = json.loads(again("--json"))
    default, tuned = report["results"]
    assert report["gain"] == pytest.approx(1 - tuned["makespan_ns"] / default["makespan_ns"])
    assert all(0 < row["utilisation"] <= 1 for row in report["results"])
    assert report["gain"] >= 0
    assert report["gaps"] == [tuned["gap"]]
    assert all(row["gap"] == pytest.approx(row["makespan_ns"] / row["bound_ns"] - 1) for row in report["results"])
    assert report["trials_run"] == 6
    assert (report["policy"], report["setting"]) == (best(folder)["policy"], best(folder)["setting"])


def test_progress_and_notes_go_to_the_error_stream(invoke, tmp_path):
    result = invoke("tune", NAME, "--trials", 1, "-o", tmp_path / "t", "--json")
    assert "1/1 trials" in result.stderr
    assert "nothing makes small chunks costly" in result.stderr
    assert json.loads(result.stdout)["trials"] == 1


def test_ctrl_c_keeps_the_best(tmp_path):
    command = (sys.executable, "-c", LISTENING, "tune", NAME, *map(str, COSTS), "--trials", "100000")
    process = subprocess.Popen(
        (*command, "-o", str(tmp_path)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        read_until("trials", process.stderr)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "the best setting so far is kept; the same command goes on" in errors
    assert "best" in output
    validate(read_schedule(tmp_path / "schedule.json"))

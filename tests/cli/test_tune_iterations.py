"""``tune`` with a training iteration."""

import csv
import json

import pytest

from themis_opt.catalog import load
from themis_opt.formats.iteration_json import read_iteration_schedule
from themis_opt.iterations.validation import validate_iterations

NAME = "v100-256.resnet-50"
FEW = ("--launch-overhead", "10us", "--trials", 6, "--max-chunks", 4, "--policies", "themis,baseline")
FILES = {"instance.json", "best.json", "schedule.json", "trials.csv", "history.svg", "importances.svg", "front.svg"}


@pytest.fixture(scope="module")
def folder(succeed, tmp_path_factory):
    """What a short search writes; not to be changed."""
    folder = tmp_path_factory.mktemp("tune") / "tuned"
    succeed("tune", NAME, *FEW, "-o", folder, "--study", "one")
    return folder


def best(folder):
    return json.loads((folder / "best.json").read_text(encoding="utf-8"))


def test_everything_is_written(folder):
    assert {path.name for path in folder.iterdir()} >= FILES | {"study.db", "tasks.csv", "stages.csv"}


def test_the_instance_holds_the_chunk_count_and_the_costs(folder):
    instance = load(folder / "instance.json")
    assert instance.chunks == best(folder)["setting"]["chunks"]
    assert {d.launch_overhead for d in instance.network.dimensions} == {10_000_000}
    assert best(folder)["policy"] in instance.description


def test_the_schedule_belongs_to_the_instance_and_is_the_best_trial(folder):
    schedule = read_iteration_schedule(folder / "schedule.json", load(folder / "instance.json"))
    validate_iterations(schedule)
    rows = list(csv.DictReader((folder / "trials.csv").read_text(encoding="utf-8").splitlines()))
    assert schedule.iteration_time / 1000 == min(float(row["iteration_ns"]) for row in rows)
    assert best(folder)["policy"] == rows[best(folder)["trial"]]["specification"]


def test_the_policy_can_be_passed_back(succeed, folder):
    (row,) = json.loads(succeed("simulate", folder / "instance.json", "--policies", best(folder)["policy"], "--json"))
    assert row["iteration_ns"] == best(folder)["results"][1]["iteration_ns"]


def test_the_table_has_the_default_and_the_best(succeed, folder):
    text = succeed("tune", NAME, *FEW, "-o", folder, "--study", "one")
    _, header, default, found = (line.split("\t") for line in text.splitlines())
    assert header == ["", "size", "iteration", "utilisation", "chunks", "gain", "setting"]
    assert default[-1] == "4 chunks, ddp/themis+scf"
    assert found[-1].endswith(best(folder)["policy"])


def test_json_has_gain_and_policy(succeed, folder):
    report = json.loads(succeed("tune", NAME, *FEW, "-o", folder, "--study", "one", "--json"))
    default, found = report["results"]
    assert report["gain"] == pytest.approx(1 - found["iteration_ns"] / default["iteration_ns"])
    assert report["policy"] == best(folder)["policy"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sizes-of-collective", "1MiB,2MiB"), "--sizes-of-collective = "),
        (("--profiles", "equal"), "--profiles = "),
        (("--min-chunk", "64KiB"), "--min-chunk = '64KiB': is for collectives"),
        (("--size", "1MiB"), "an iteration has none"),
        (("--policies", "exact"), "--policies = 'exact'"),
        (("--max-chunks", 0), "--max-chunks = 0"),
        (("--packet", "4096"), "--packet = '4096'"),
    ],
)
def test_bad_options_are_one_line(refuse, tmp_path, options, said):
    assert said in refuse("tune", NAME, "--trials", 1, *options, "-o", tmp_path / "t")

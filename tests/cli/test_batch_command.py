import csv
import json

import pytest

from themis_opt.batches import measured_run
from themis_opt.batches.experiment_run import ROW_COLUMNS
from themis_opt.batches.store import RunStore

TEXT = """name = "trial"
[[runs]]
instances = ["fig5.all_reduce.256MB"]
chunks = [2, 4, 8, 16]
policies = ["baseline+fifo", "themis+scf", "bound"]
[quick]
limit = 3
"""


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, succeed):
    """The folder of a finished experiment; not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "experiment.toml").write_text(TEXT, encoding="utf-8")
    printed = succeed("batch", folder / "experiment.toml", "--jobs", 1, "--json")
    return folder, json.loads(printed)


def test_rows_have_the_documented_columns(finished):
    rows = read(finished[0] / "rows.csv")
    assert list(rows[0]) == list(ROW_COLUMNS)
    assert [row["chunks"] for row in rows[::3]] == ["2", "4", "8", "16"]


def test_provenance_tells_machine_versions_and_command(finished):
    known = json.loads((finished[0] / "provenance.json").read_text())
    assert known["machine"]["cpus"] > 0
    assert known["versions"]["themis-opt"]
    assert known["command"].startswith("themis-opt batch ")
    assert (known["runs"], known["rows"], known["failed"]) == (12, 12, 0)


@pytest.mark.usefixtures("in_threads")
def test_a_finished_experiment_runs_nothing_and_writes_the_same(experiment, succeed):
    succeed("batch", experiment, "--jobs", 1)
    before = (experiment.parent / "rows.csv").read_bytes()
    assert json.loads(succeed("batch", experiment, "--json"))["executed"] == 0
    assert (experiment.parent / "rows.csv").read_bytes() == before


@pytest.mark.usefixtures("in_threads")
def test_output_and_store_can_be_elsewhere(experiment, tmp_path, succeed):
    succeed(
        "batch", experiment, "--quick", "--jobs", 1, "-o", tmp_path / "a" / "r.csv", "--store", tmp_path / "b" / "s"
    )
    assert len(read(tmp_path / "a" / "r.csv")) == 3
    assert (tmp_path / "a" / "r.provenance.json").is_file()
    assert (tmp_path / "b" / "s").is_file()
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.usefixtures("in_threads")
def test_exit_code_of_a_failed_run(experiment, invoke, monkeypatch, tmp_path):
    def fail(*task):
        raise ArithmeticError("wrong")

    monkeypatch.setattr(measured_run, "run_one", fail)
    result = invoke("batch", experiment)
    assert result.exit_code == 1
    assert {row["error"] for row in read(tmp_path / "rows.csv")} == {"ArithmeticError: wrong"}


@pytest.mark.usefixtures("in_threads")
def test_failed_runs_are_run_again(experiment, invoke, succeed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr(measured_run, "run_one")
        assert invoke("batch", experiment).exit_code == 1
    assert json.loads(succeed("batch", experiment, "--json"))["failed"] == 0


@pytest.mark.usefixtures("in_threads")
def test_a_full_disk_ends_the_command_and_keeps_rows(experiment, invoke, succeed, monkeypatch):
    add = RunStore.add

    def limited(store, rows):
        store.connection.execute("PRAGMA max_page_count = 7")
        add(store, [row | {"error": "x" * 9000} for row in rows])

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "add", limited)
        result = invoke("batch", experiment)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "disk is full" in result.stderr
    assert json.loads(succeed("batch", experiment, "--json"))["rows"] == 12


def test_an_unknown_policy_is_refused_before_anything_runs(refuse, experiment):
    experiment.write_text(TEXT.replace("themis+scf", "magic"), encoding="utf-8")
    assert "runs[0].policy = 'magic'" in refuse("batch", experiment)
    assert [path.name for path in experiment.parent.iterdir()] == ["experiment.toml"]


def test_a_folder_as_output_is_refused_before_anything_runs(refuse, experiment, tmp_path):
    assert "must be a file: it is a folder" in refuse("batch", experiment, "-o", tmp_path)
    assert not experiment.with_name("runs.sqlite").exists()


@pytest.mark.usefixtures("in_threads")
def test_provenance_tells_of_all_rows_also_if_none_is_new(succeed, experiment_file):
    provenance = experiment_file.parent / "provenance.json"
    succeed("batch", experiment_file, "--jobs", 1)
    provenance.write_text('{"runs": 1, "rows": 1, "failed": 0}')
    succeed("batch", experiment_file, "--jobs", 1)
    assert json.loads(provenance.read_text())["rows"] > 1
    before = provenance.read_bytes()
    succeed("batch", experiment_file, "--jobs", 1)
    assert provenance.read_bytes() == before


@pytest.mark.usefixtures("in_threads")
def test_fewer_rows_do_not_replace_more(succeed, experiment_file):
    rows = experiment_file.parent / "rows.csv"
    succeed("batch", experiment_file, "--jobs", 1)
    many = rows.read_text() * 2
    rows.write_text(many)
    succeed("batch", experiment_file, "--jobs", 1)
    assert rows.read_text() == many


def test_an_unknown_report_is_refused_before_anything_runs(refuse, experiment_file):
    experiment_file.write_text('report = "nope"\n' + experiment_file.read_text(), encoding="utf-8")
    assert "unknown report" in refuse("batch", experiment_file)
    assert not (experiment_file.parent / "runs.sqlite").exists()


@pytest.fixture
def experiment_file(tmp_path):
    path = tmp_path / "experiment.toml"
    runs = '[[runs]]\ninstances = ["fig5.all_reduce.256MB"]\npolicies = ["baseline+fifo", "themis+scf"]\n'
    path.write_text(f'name = "small"\n{runs}', encoding="utf-8")
    return path

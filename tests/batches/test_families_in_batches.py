"""Experiments over problems of every family."""

import csv
import json

import pytest

from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.experiment_run import run_experiment
from themis_opt.reports.making import make_report

EXPERIMENT = """
name = "families"
[[runs]]
instances = ["fig5.all_reduce.256MB", "graphs/dgx1.all_gather.*", "p4_m8"]
policies = ["bound", "baseline", "trees", "1f1b", "exact"]
time_limit = 0.1
workers = 1
"""


def planned(folder, old="", new=""):
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT.replace(old, new), encoding="utf-8")
    return expand(read_experiment(path), path)


def test_policies_run_on_the_problems_of_their_family(tmp_path):
    named = [(run.columns["kind"], run.columns["policy"]) for run in planned(tmp_path)]
    assert named == [
        *(("all_reduce", policy) for policy in ("bound", "baseline", "exact")),
        *(("all_gather", policy) for policy in ("bound", "trees", "exact")),
        *(("pipeline", policy) for policy in ("bound", "1f1b", "exact")),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"trees"', '"tres"', "tres"),
        ('["bound", "baseline", "trees", "1f1b", "exact"]', '["1f1b"]\nsample = {count = 1, seed = 0}', "no policy of"),
        ("workers = 1", "chunks = [4]", "chunks = 'dgx1.all_gather.1GB': is not for graphs"),
    ],
)
def test_policies_and_values_of_no_family_are_refused(tmp_path, old, new, said):
    with pytest.raises(InputError, match=said):
        planned(tmp_path, old, new)


def test_one_report_has_the_rows_of_every_family(tmp_path):
    planned(tmp_path)
    finished = run_experiment(tmp_path / "experiment.toml", jobs=1)
    assert finished.state.failed == 0
    with finished.rows.open(newline="", encoding="utf-8") as file:
        rows = {(row["instance"], row["policy"]): row for row in csv.DictReader(file)}
    assert float(rows["p4_m8", "exact"]["makespan_ns"]) == float(rows["p4_m8", "bound"]["bound_ns"]) == 25e6
    assert json.loads(rows["p4_m8", "exact"]["extra"])["status"] == "optimal"
    for (name, policy), row in rows.items():
        if policy != "bound":
            assert float(row["makespan_ns"]) >= float(rows[name, "bound"]["bound_ns"])
    make_report(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert all(name in text for name in ("fig5.all_reduce.256MB", "dgx1.all_gather.1GB", "p4_m8"))
    assert "3 instances" in text

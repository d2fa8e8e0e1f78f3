"""What ``solve`` leaves in its folder."""

import csv
import json
import shutil

import pytest

from themis_opt.schedules.schedule_file import read_schedule

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1, "--chunk-sizes", "equal")
FILES = {
    "comparison.csv", "comparison.json", "gantt.svg", "schedule.html", "order.csv",
    "order.json", "schedule.json", "stages.csv", "trace.json",
}  # fmt: skip


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_folders_hold_every_file_and_nothing_else(solution, trained_solution):
    assert {path.name for path in solution.iterdir()} == FILES
    assert {path.name for path in trained_solution.iterdir()} >= FILES | {"tasks.csv"}


def test_the_printed_json_is_the_comparison_file_and_files_are_named_in_a_line(invoke, solution, tmp_path):
    result = invoke("solve", NAME, *QUICK, "-o", tmp_path, "--json")
    words, _, names = result.stderr.splitlines()[-1].partition(": ")
    assert words == f"wrote {len(FILES)} files into {tmp_path}"
    assert set(names.split(", ")) == FILES
    assert result.stdout == (tmp_path / "comparison.json").read_text(encoding="utf-8")
    assert (tmp_path / "schedule.json").read_bytes() == (solution / "schedule.json").read_bytes()


@pytest.mark.parametrize("name", sorted(n for n in FILES if n.endswith(".csv")))
def test_csv_file_has_a_header_and_full_rows(solution, name):
    rows = rows_of(solution / name)
    assert rows
    assert all(None not in row and None not in row.values() for row in rows)


def test_schedule_is_the_best_of_the_comparison(solution):
    rows = json.loads((solution / "comparison.json").read_text(encoding="utf-8"))
    best = min(row["makespan_ns"] for row in rows)
    assert read_schedule(solution / "schedule.json").makespan == best * 1000


def test_summary_repeats_makespan_gap_and_limits(solution):
    summary = json.loads((solution / "schedule.json").read_text(encoding="utf-8"))["summary"]
    assert summary["makespan_ns"] == 7e6
    assert summary["gap"] == pytest.approx(0, abs=1e-4)
    assert summary["settings"] == {
        "time_limit": 5,
        "workers": 1,
        "seed": 0,
        "sizes": "equal",
        "deterministic": False,
        "memory": 4.0,
    }


def test_second_run_replaces_the_files(succeed, solution, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(solution, folder)
    succeed("solve", NAME, *QUICK, "--policies", "baseline", "-o", folder)
    assert {path.name for path in folder.iterdir()} == FILES
    assert read_schedule(folder / "schedule.json").makespan == 8 * 10**9


HEURISTICS = ("--policies", "baseline,themis+scf", "--launch-overhead", "2us")


@pytest.mark.parametrize("sizes", ["equal", "free"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (NAME, ("--time-limit", 1, "--workers", 1, "--deterministic", "--chunks", 3)),
        ("3d-fc_ring_sw.all_reduce.100MiB", ("--chunks", 9, *HEURISTICS)),  # only the strongest bound gives its gap
    ],
)
def test_explain_states_what_solve_has_proven(succeed, tmp_path, name, options, sizes):
    """Also where chunks of any sizes were sought and equal ones came out, or CP-SAT proved more than the bounds."""
    printed = succeed("solve", name, *options, "--chunk-sizes", sizes, "-o", tmp_path / "solution")
    (proven,) = [line for line in printed.splitlines() if "no schedule with" in line.lower()]
    assert proven in succeed("explain", tmp_path / "solution" / "schedule.json").splitlines()


def test_the_demonstration_names_its_page(succeed, tmp_path):
    text = succeed("demo", "-o", tmp_path)
    assert text.splitlines()[-1].endswith(str((tmp_path / "schedule.html").resolve()))
    assert (tmp_path / "schedule.html").stat().st_size > 0
    assert "proven optimal" in text

"""The command line where Python leaves out docstrings and assertions, by ``-OO`` or ``PYTHONOPTIMIZE=2``."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from background import PATIENCE
from report_rows import sample, write_experiment

from themis_opt.base.docstrings import with_docstrings

STRIPPED = (sys.executable, "-OO", "-m", "themis_opt")
ENOUGH = 60  # seconds that the search does not need


def run(*arguments: object) -> str:
    command = [*STRIPPED, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr
    return ended.stdout


SELDOM = pytest.mark.benchmarks


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        pytest.param(("sweep", "--help"), marks=SELDOM),
        pytest.param(("list", "formats"), marks=SELDOM),
        ("list", "policies"),
    ],
)
def test_what_docstrings_say_is_printed(succeed: Callable[..., str], words: tuple[str, ...]) -> None:
    assert run(*words).split() == succeed(*words).split()  # lines may be of another width


@pytest.mark.benchmarks
def test_a_solution_has_its_page(tmp_path: Path) -> None:
    run("solve", "fig5.all_reduce.256MB", "--time-limit", ENOUGH, "--workers", 1, "--gap", 0.01, "-o", tmp_path)
    assert {"schedule.json", "comparison.csv", "schedule.html"} <= {path.name for path in tmp_path.iterdir()}
    assert "vega" in (tmp_path / "schedule.html").read_text(encoding="utf-8")


@pytest.mark.benchmarks
def test_a_report_has_its_pictures(tmp_path: Path) -> None:
    made = write_experiment(tmp_path / "made", "table", sample("table"))
    run("report", made)
    assert {".html", ".svg"} <= {path.suffix for path in made.iterdir()}


def test_elsewhere_packages_are_imported_as_ever() -> None:
    before = list(sys.meta_path)
    with with_docstrings("altair"):
        assert sys.meta_path == before

"""The experiments under reports/ run and end in reports; here in the quick variant, elsewhere in full."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.cli.main import application

REPORTS = Path(__file__).parents[2] / "reports"
EXPERIMENTS = sorted(path.parent.name for path in REPORTS.glob("*/experiment.toml"))


def command(*arguments: object) -> str:
    result = CliRunner().invoke(application(), [str(a) for a in arguments])
    assert result.exit_code == 0, result.stderr + repr(result.exception)
    return result.stdout


def experiments(*slow: str) -> list[object]:
    """All experiments, of which some are for benchmarks."""
    return [pytest.param(name, marks=[pytest.mark.benchmarks] * (name in slow)) for name in EXPERIMENTS]


@pytest.mark.parametrize("name", experiments("training"))
def test_quick_variant_has_runs_whose_instances_exist(name: str) -> None:
    path = REPORTS / name / "experiment.toml"
    assert expand(read_experiment(path), path, quick=True)


@pytest.mark.benchmarks
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_variant_ends_in_a_report(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(REPORTS / name, folder, ignore=shutil.ignore_patterns("*.svg", "*.csv", "*.md", "runs.sqlite*"))
    command("batch", folder / "experiment.toml", "--quick", "--jobs", 2)
    said = command("report", folder)
    assert said.startswith("# ")
    assert (folder / "README.md").stat().st_size > 500
    assert (folder / "report.html").exists()


@pytest.mark.parametrize("name", experiments("iterations", "paper_reproduction"))
def test_report_in_the_tree_is_that_of_its_rows(name: str, tmp_path: Path) -> None:
    command("report", REPORTS / name, "-o", tmp_path, "--no-html")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == (REPORTS / name / "README.md").read_text(
        encoding="utf-8"
    )

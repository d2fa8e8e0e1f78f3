"""Words that shells complete, as they ask for them."""

import os

import pytest
from typer.testing import CliRunner

from themis_opt.cli import completion
from themis_opt.cli.main import application


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("solve fig5", ["fig5.all_reduce.256MB"]),
        ("simulate x --policies baseline,th", ["baseline,themis"]),
        ("workload llama-3-4", ["llama-3-405b"]),
        ("workload x --network fig4", ["fig4.all_reduce.1000MiB"]),
        ("list mod", ["models"]),
    ],
)
def test_names_are_completed(line, completed):
    words = f"themis-opt {line}".split(" ")
    asked = {"_THEMIS_OPT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(application(), prog_name="themis-opt", env=os.environ | asked)
    assert result.stdout.split() == completed


@pytest.mark.parametrize(
    ("word", "completed"),
    [("wait_free/hour", ["wait_free/hourglass"]), ("pri", ["priority/"]), ("a,baseline+li", ["a,baseline+lifo"])],
)
def test_parts_of_policies_are_completed(word, completed):
    assert completion.policies(word) == completed


def test_files_beside_names_are_completed(tmp_path):
    (tmp_path / "mine.json").touch()
    (tmp_path / "other.csv").touch()
    (tmp_path / "inner").mkdir()
    assert completion.instances(f"{tmp_path}/") == [f"{tmp_path}/inner/", f"{tmp_path}/mine.json"]

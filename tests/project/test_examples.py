"""The scripts in ``docs/examples`` run."""

import ast
import csv
import json
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of the example and what it printed."""
    folder, path = tmp_path_factory.mktemp("example") / "results", str(EXAMPLES / "tune_batch_report.py")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(sys, "argv", [path, str(folder)])
        runpy.run_path(path, run_name="__main__")
    return folder, printed.getvalue()


def test_it_prints_three_lines(ended):
    assert [line.partition(":")[0] for line in ended[1].splitlines()] == ["tuned", "batch", "report"]


def test_the_batch_ran_the_tuned_policy_with_the_time_that_was_found(ended):
    folder, _ = ended
    best = json.loads((folder / "best.json").read_text(encoding="utf-8"))
    rows = list(csv.DictReader((folder / "rows.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["status"] for row in rows} == {"ok"}
    times = [float(row["makespan_ns"]) for row in rows if row["policy"] == best["policy"]]
    assert times == [best["results"][1]["makespan_ns"]]


def test_it_is_short():
    assert len((EXAMPLES / "tune_batch_report.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_notebook_runs_from_top_to_bottom():
    """Cells in one namespace; the last expression of each has a text, as a notebook shows it."""
    notebook = json.loads((EXAMPLES / "first_minute.ipynb").read_text(encoding="utf-8"))
    namespace: dict[str, object] = {}
    shown = []
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        *statements, last = ast.parse("".join(cell["source"])).body
        with redirect_stdout(StringIO()) as printed:
            exec(compile(ast.Module([*statements], []), "notebook", "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "notebook", "eval"), namespace)
                shown.append(str(getattr(value, "_repr_html_", value.__repr__)()))
            else:
                exec(compile(ast.Module([last], []), "notebook", "exec"), namespace)
        shown.append(printed.getvalue())
        assert not cell["outputs"]
    text = "\n".join(shown)
    assert text.count("<table") >= 3
    assert "hourglass takes " in text

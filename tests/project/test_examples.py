"""The scripts in ``docs/examples`` run."""

import ast
import csv
import json
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_a_batch_runs_the_tuned_policy_with_the_time_that_was_found(tmp_path, monkeypatch, capsys):
    folder, path = tmp_path / "results", EXAMPLES / "tune_batch_report.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(folder)])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert [line.partition(":")[0] for line in printed.splitlines()] == ["tuned", "batch", "report"]
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    best = json.loads((folder / "best.json").read_text(encoding="utf-8"))
    rows = list(csv.DictReader((folder / "rows.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["status"] for row in rows} == {"ok"}
    times = [float(row["makespan_ns"]) for row in rows if row["policy"] == best["policy"]]
    assert times == [best["results"][1]["makespan_ns"]]


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

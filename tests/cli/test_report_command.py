"""``themis-opt report``: from the folder of an experiment to its report."""

import json

import pytest
from report_rows import grid_rows, row, write_experiment, write_rows


@pytest.fixture
def folder(tmp_path):
    """The folder of an experiment with a table."""
    return write_experiment(tmp_path / "small", "table", grid_rows(chunks=(4,), sizes=(2**20,)), description="Why.")


@pytest.fixture
def files_of(succeed):
    """The files of a report."""
    return lambda *arguments: json.loads(succeed("report", *arguments, "--json"))["files"]


@pytest.mark.parametrize("place", ["made", "."])
def test_a_report_is_a_function_of_a_file_beside_the_experiment_or_above_too(succeed, place, tmp_path):
    module = f"drawing_in_{place.replace('.', 'parent')}"
    made = write_experiment(tmp_path / "made", f"{module}:counted", [row(), row()])
    program = (
        "from themis_opt.reports.rendering.document import Report\n"
        "def counted(rows, experiment):\n    return Report(experiment.title, (f'{len(rows)} rows.',), ())\n"
    )
    (tmp_path / place / f"{module}.py").write_text(program, encoding="utf-8")
    assert "2 rows." in succeed("report", made, "--no-html")


def test_an_experiment_anywhere_takes_the_figures_of_papers(succeed, tmp_path):
    made = write_experiment(tmp_path / "made", "drawing.paper_reproduction:paper_reproduction", [row(), row()])
    assert "No figure of the paper is in the rows." in succeed("report", made, "--no-html")


def test_a_report_that_cannot_be_imported_names_its_key(refuse, tmp_path):
    made = write_experiment(tmp_path / "made", "no_such_module:draw", [row()])
    assert "report = 'no_such_module:draw': cannot be loaded from no_such_module" in refuse("report", made)


def test_html_can_be_left_out(files_of, folder):
    assert [file for file in files_of(folder, "--no-html") if not file.endswith(".svg")] == [str(folder / "README.md")]
    assert not (folder / "report.html").exists()


def test_the_report_may_go_elsewhere(files_of, folder, tmp_path):
    files = files_of(folder, "-o", tmp_path / "there" / "deep")
    assert all(file.startswith(str(tmp_path / "there" / "deep")) for file in files)
    assert not (folder / "README.md").exists()


def test_a_folder_with_rows_alone_is_a_table(files_of, tmp_path):
    write_rows(tmp_path / "rows.csv", [row()])
    files_of(tmp_path, "--no-html")
    assert (tmp_path / "README.md").read_text(encoding="utf-8").startswith(f"# {tmp_path.name}\n")


def test_provenance_stands_at_the_end(files_of, folder):
    document = {"commit": "abc", "versions": {"numpy": "2"}, "command": ["a", "b"], "failed": 0, "note": None}
    (folder / "provenance.json").write_text(json.dumps(document), encoding="utf-8")
    files_of(folder)
    *_, last = (folder / "README.md").read_text(encoding="utf-8").split("<summary><b>")
    assert last.startswith("Provenance</b>")
    for fact in ("commit | abc", "command | a b", "code version | 0.1.0-abc"):
        assert f"| {fact} |" in last
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(f"<td>{name}</td>" in page for name in ("commit", "versions.numpy", "failed"))
    assert "<td>note</td>" not in page


def test_rows_of_several_versions_of_the_code_are_pointed_out(files_of, tmp_path):
    rows = [row(code_version="a"), row(code_version="b")]
    files_of(write_experiment(tmp_path / "made", "table", rows), "--no-html")
    assert "made by 2 versions of the code" in (tmp_path / "made" / "README.md").read_text(encoding="utf-8")


def test_an_unknown_report_and_missing_rows_are_refused(refuse, tmp_path):
    made = write_experiment(tmp_path / "made", "novel", [row()])
    said = refuse("report", made)
    assert f"{made / 'experiment.toml'}: report = 'novel': unknown report; use one of table, " in said
    (made / "rows.csv").unlink()
    assert f"{made}: holds no rows yet: 'themis-opt batch {made / 'experiment.toml'}' makes them" in refuse(
        "report", made
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = 7", "title = 7: must be a text"),
        ('report = ["a"]', "report = ['a']: must be a text"),
        ("title =", "not TOML: "),
    ],
)
def test_a_bad_experiment_file_is_refused(refuse, folder, text, said):
    (folder / "experiment.toml").write_text(text, encoding="utf-8")
    assert f"{folder / 'experiment.toml'}: {said}" in refuse("report", folder)


@pytest.mark.parametrize("name", ["README.md", "report.html"])
def test_files_that_no_report_left_are_not_replaced(refuse, folder, name):
    (folder / name).write_text("my notes", encoding="utf-8")
    assert "is no file of a report" in refuse("report", folder)
    assert (folder / name).read_text(encoding="utf-8") == "my notes"
    assert {path.name for path in folder.iterdir()} == {"experiment.toml", "rows.csv", name}

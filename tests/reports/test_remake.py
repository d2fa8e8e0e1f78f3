"""Numbers on pages are those of the reports, and rows that differ are seen."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "reports" / "remake.py"


@pytest.fixture(scope="module")
def remake():
    spec = importlib.util.spec_from_file_location("remake", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_quote_the_numbers_of_the_reports(remake):
    numbers = remake.quoted()
    pages = {page: page.read_text(encoding="utf-8") for page in remake.pages()}
    stale = [page.name for page, text in pages.items() if remake.written(text, numbers) != text]
    assert not stale, "python reports/remake.py --numbers"
    assert not numbers.keys() - {mark for text in pages.values() for mark, _ in remake.MARK.findall(text)}


def test_a_page_is_written_with_the_numbers_of_today(remake):
    assert remake.written("a <!--x.y-->1.0<!--/--> b", {"x.y": "2.0"}) == "a <!--x.y-->2.0<!--/--> b"


@pytest.mark.parametrize(("before", "now", "equal"), [("1.0", "1", True), ("1.0", "1.00001", False), ("a", "b", False)])
def test_cells_are_equal_to_six_digits(remake, before, now, equal):
    assert remake.is_equal(before, now) == equal


def test_a_row_that_differs_is_counted(remake, monkeypatch, capsys):
    class Report:
        name = "made up"

        def drawable(self):
            return [0, 1]

        def again(self, number):
            yield f"row {number}", "1.0", f"{1 + number}.0"

    monkeypatch.setattr(remake, "reports", lambda: {"made up": Report()})
    assert remake.check(12, 3, []) == sum("stored" in line for line in capsys.readouterr().out.splitlines()) > 0


def test_a_report_depends_on_what_its_modules_do_not_on_what_they_say(remake):
    code = '"""Words."""\n\ndef double(x):\n    """More words."""\n    return 2 * x  # and more\n'
    assert remake.meaning(code) == remake.meaning('def double(x):\n    """Others."""\n    return 2 * x\n')
    assert remake.meaning(code) != remake.meaning(code.replace("2 * x", "3 * x"))


def test_a_report_depends_on_modules_in_registries_and_their_data_and_not_on_commands(remake, monkeypatch, tmp_path):
    texts = {
        "reports/script.py": "from common import x\ndef make():\n    from themis_opt.base import registry\n",
        "reports/common.py": "x = 1\n",
        "themis_opt/base/registry.py": 'import themis_opt.cli.main\nPOLICIES = {"law": "themis_opt.law:plan"}\n',
        "themis_opt/law.py": 'TABLE = open("law.toml")',
        "themis_opt/law.toml": "",
        "themis_opt/law.csv": "",
        "themis_opt/cli/main.py": "",
        "themis_opt/other.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(remake, "ROOT", tmp_path)
    names = {file.relative_to(tmp_path).as_posix() for file in remake.imported(tmp_path / "reports/script.py")}
    assert names == texts.keys() - {"themis_opt/cli/main.py", "themis_opt/law.csv", "themis_opt/other.py"}


def test_pages_quote_tables_and_the_largest_of_several_cells(remake, monkeypatch, tmp_path):
    (tmp_path / "rows.csv").write_text("name,a_us,commit\nx,1.5,c\ny,2.5,c\nx,0.5,c\n", encoding="utf-8")
    (tmp_path / "quoted.toml").write_text(
        '[most]\nfile = "rows.csv"\nwhere = {name = "x"}\ncolumn = "a_us"\nfold = "largest"\nformat = ".1f"\n'
        '[table]\nfile = "rows.csv"\nwhere = {name = "y"}\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(remake, "FOLDER", tmp_path)
    assert remake.quoted() == {"most": "1.5", "table": "\n\n| name | a us |\n| --- | ---: |\n| y | 2.5 |\n\n"}


def test_what_fails_to_be_made_stops_the_command_and_the_rest_keeps_its_cost(remake, monkeypatch, tmp_path):
    class Report:
        def __init__(self, code):
            self.code = code

        def commands(self):
            return (["-c", f"raise SystemExit({self.code})"],)

    monkeypatch.setattr(remake, "reports", lambda: {"good": Report(0), "bad": Report(3)})
    monkeypatch.setattr(remake, "COSTS", tmp_path / "costs.csv")
    with pytest.raises(subprocess.CalledProcessError):
        remake.remake(["good", "bad"], 1)
    assert list(remake.costs()) == ["good"]

"""``themis-opt best-known`` on a library of one instance."""

import json
import shutil
from pathlib import Path

import pytest
from certified import certificate_of
from planning import schedule_of

from themis_opt.formats.order_table import order_json
from themis_opt.problem.catalog import LIBRARY, read_instance, shipped
from themis_opt.schedules.schedule_file import read_schedule, schedule_document
from themis_opt.study.best_known import Library

FILE = "instances/hetero.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "instances").mkdir()
    shutil.copy(LIBRARY / "check.py", tmp_path)
    shutil.copy(shipped()["3d-sw_sw_sw_hetero.all_reduce.100MiB"], tmp_path / FILE)
    instance = read_instance(tmp_path / FILE)
    library, today = Library(tmp_path), schedule_of(instance, "baseline")
    library.write([])
    library.store(FILE, today, certificate_of(instance), "free", "open", "the fixed order", 0.0)
    better = schedule_of(instance, "themis+scf")
    (tmp_path / "schedule.json").write_text(json.dumps(schedule_document(better)), encoding="utf-8")
    return tmp_path


def test_the_command_submits_shows_and_lists(folder: Path, succeed, invoke) -> None:
    path, place = folder / "schedule.json", ("--library", folder)
    assert "shorter than what was known" in succeed("best-known", "submit", path, "--solver", "themis", *place)
    refused = invoke("best-known", "submit", path, *place)
    assert refused.exit_code == 2
    assert "as fast" in refused.stderr
    assert "by themis" in succeed("best-known", "show", "hetero", *place)
    assert [row["name"] for row in json.loads(succeed("best-known", "list", "--open", "--json", *place))] == ["hetero"]


def test_the_order_table_of_any_solver_is_judged_plotted_and_submitted(folder: Path, succeed, invoke) -> None:
    schedule, instance = read_schedule(folder / "schedule.json"), str(folder / FILE)
    path, place = folder / "order.json", ("--library", folder)
    path.write_text(order_json(schedule), encoding="utf-8")
    took = f"{schedule.makespan / 1000:.0f}"[:3]
    assert took in succeed("validate", path, "--instance", instance).replace(".", "")
    succeed("plot", path, "-o", folder / "picture.svg")
    assert (folder / "picture.svg").exists()
    assert "shorter than what was known" in succeed("best-known", "submit", path, "--solver", "another", *place)
    (row,) = json.loads(succeed("best-known", "show", "hetero", "--json", *place))
    assert (row["makespan_ps"], row["solver"]) == (schedule.makespan, "another")
    table = json.loads(path.read_text(encoding="utf-8"))
    table["dimensions"][0]["issue_order"].pop()
    path.write_text(json.dumps(table), encoding="utf-8")
    refused = invoke("best-known", "submit", path, *place)
    assert refused.exit_code == 2
    assert "check.py refuses it" in refused.stderr
    assert "must list each of the stages" in invoke("plot", path, "-o", folder / "picture.svg").stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("list", "hetero"), "takes none"),
        (("show",), "must be an instance"),
        (("show", "nothing"), "nothing"),
        (("submit", "missing.json"), "missing.json: cannot be read"),
        (
            ("submit", "{}"),
            "solution.json: format: must be a schedule that 'solve' writes, an order table ('",
        ),
        (("submit", '{"format": "themis-opt/order-table/1"}'), "solution.json: fingerprint: required field is missing"),
        (("submit", '{"format": "themis-opt/order-table/1", "fingerprint": "FINGERPRINT"}'), "collectives: is missing"),
    ],
)
def test_what_cannot_be_done_is_refused(folder: Path, invoke, line: tuple[str, ...], said: str) -> None:
    if "{" in line[-1]:
        text = line[-1].replace("FINGERPRINT", read_instance(folder / FILE).fingerprint)
        (folder / "solution.json").write_text(text, encoding="utf-8")
        line = ("submit", str(folder / "solution.json"))
    result = invoke("best-known", *line, "--library", folder)
    assert (result.exit_code, result.stderr[:7]) == (2, "error: ")
    assert said in result.stderr

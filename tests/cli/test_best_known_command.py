"""``themis-opt best-known`` on a library of one instance."""

import json
import shutil
from pathlib import Path

import pytest

from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import LIBRARY, read_instance, shipped
from themis_opt.schedules.schedule_file import schedule_document
from themis_opt.schedules.simulator import simulate
from themis_opt.study.best_known import Library, certificate_of

FILE = "instances/hetero.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "instances").mkdir()
    shutil.copy(LIBRARY / "check.py", tmp_path)
    shutil.copy(shipped()["3d-sw_sw_sw_hetero.all_reduce.100MiB"], tmp_path / FILE)
    instance = read_instance(tmp_path / FILE)
    library, today = Library(tmp_path), simulate(instance, make_policy("baseline")(instance))
    library.write([])
    library.store(FILE, today, certificate_of(instance), "free", "open", "the fixed order", 0.0)
    better = simulate(instance, make_policy("themis+scf")(instance))
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


@pytest.mark.parametrize("line", [("list", "hetero"), ("show",), ("show", "nothing"), ("submit", "missing.json")])
def test_what_cannot_be_done_is_refused(folder: Path, invoke, line: tuple[str, ...]) -> None:
    result = invoke("best-known", *line, "--library", folder)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")

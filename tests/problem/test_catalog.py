"""Finding instances by name and by file."""

import json
from pathlib import Path
from typing import Any

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load, shipped

NAME = "fig5.all_reduce.256MB"


@pytest.fixture
def document() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(shipped()[NAME].read_text())
    return content


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_instance_loads_by_its_name(name: str) -> None:
    assert load(name) == load(shipped()[name])


def test_a_shipped_name_may_end_in_json() -> None:
    assert load(f"{NAME}.json") == load(NAME)


def test_a_file_beats_a_shipped_instance_of_its_name(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / NAME, document | {"name": "mine"})
    assert load(NAME).name == "mine"


@pytest.mark.parametrize("name", ["nowhere", "", "toy/fig5.all_reduce.256MB", "x" * 5000, "a\0b"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        load(name)


def test_the_refusal_of_an_unknown_name_says_what_was_looked_for() -> None:
    with pytest.raises(InputError, match=r"^nowhere: no such file, .* 'themis-opt list instances' names all$"):
        load("nowhere")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", 1, r"network.dimensions\[0\].size = 1: input should be greater than or equal to 2"),
        ("bandwidth", "fast", r"network.dimensions\[0\].bandwidth = 'fast': must be a number with a unit"),
        ("colour", "red", r"network.dimensions\[0\].colour = 'red': unknown field"),
        ("kind", None, r"network.dimensions\[0\].kind: "),
    ],
)
def test_a_broken_rule_is_reported_with_file_field_and_value(
    document: dict[str, Any], tmp_path: Path, field: str, value: object, message: str
) -> None:
    document["network"]["dimensions"][0][field] = value
    path = written(tmp_path / "x.json", document)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert caught.value.source == str(path)

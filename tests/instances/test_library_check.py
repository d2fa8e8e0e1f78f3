"""The checker of the library: it agrees with the package, which it shares no code with, and refuses what is wrong."""

import ast
import copy
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from library import check, generate
from library_schedules import FAMILIES, judged, random_schedule

from themis_opt.formats.order_table import order_table
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import LIBRARY, load
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds
from themis_opt.solving.certificates import certificate

DOCUMENTS = generate.generate()


@pytest.fixture(scope="module")
def sample() -> tuple[dict[str, Any], dict[str, Any]]:
    """An all-reduce on two dimensions in three equal chunks, as a document, and an order table."""
    instance = load("fig5.all_reduce.256MB").overridden(chunks=3)
    table = order_table(simulate(instance, make_policy("themis")(instance)))
    return instance.model_dump(mode="json", exclude_defaults=True), table


def test_files_are_what_the_generator_writes() -> None:
    written = {path.stem: path.read_text(encoding="utf-8") for path in (LIBRARY / "instances").glob("*.json")}
    assert written == {name: generate.text_of(document) for name, document in DOCUMENTS.items()}


def test_rows_of_the_index_are_confirmed() -> None:
    rows = check.read(LIBRARY / "index.json")["instances"]
    small = [row for row in rows if Path(LIBRARY / row["solution"]).stat().st_size < 4_000]
    assert [flaw for row in small[::25] if (flaw := check.check_row(LIBRARY, row))] == []


def test_no_file_of_the_library_is_without_a_row() -> None:
    rows = check.read(LIBRARY / "index.json")["instances"]
    for folder in ("solutions", "certificates", "instances"):
        files = {path.relative_to(LIBRARY).as_posix() for path in (LIBRARY / folder).iterdir()}
        assert files >= {
            row[kind] for row in rows for kind in ("solution", "certificate", "file") if row[kind].startswith(folder)
        }
        assert len(files) == len(rows) or folder == "instances"


def test_the_checker_needs_the_standard_library_alone() -> None:
    for module in (check, generate):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("family", FAMILIES)
def test_makespans_of_random_schedules_agree(family: str) -> None:
    for seed in range(6):
        document, schedule = random_schedule(family, seed)
        if not schedule.has_period or schedule.period.is_steady:
            assert judged(document, order_table(schedule)).makespan == schedule.makespan


@pytest.mark.parametrize("family", FAMILIES)
def test_certified_bounds_are_those_of_the_package(family: str) -> None:
    document, schedule = random_schedule(family, 7)
    instance, equal = schedule.instance, family == "equal"
    parts = certificate(instance, equal=equal)
    verdict = judged(document, order_table(schedule), certificate=json.loads(json.dumps(parts)), equal=equal)
    known = bounds(instance, equal_sizes=equal)
    known.pop("order_count", None)  # CP-SAT's
    assert 0.98 * max(known.values()) <= verdict.best(trusted=False) <= max(known.values()) * (1 + 1e-3)


def test_bounds_are_exact_fractions() -> None:
    document = {
        "network": {"dimensions": [{"kind": "switch", "size": 3, "bandwidth": "7 B/s"}]},
        "collectives": [{"kind": "reduce_scatter", "size": 10, "chunks": 2}],
    }
    cut = {"kind": "cut", "inside": [], "side": "sent"}
    windows = {"kind": "windows", "windows": [{"resource": "dim1", "head": 0, "tail": 0, "weight": 1}]}
    proven = check.judge(document, certificate={"bounds": [cut, windows, {"kind": "chain"}]}).bounds
    exact = Fraction(20 * 10**12, 21)
    assert [bound.picoseconds for bound in proven[:2]] == [exact, exact]
    assert proven[2].picoseconds == -(-6 * 2 * 10**12 // 21)  # the larger of two chunks, of three elements


def _lengthen(table: dict[str, Any]) -> None:
    table["collectives"][0]["chunks"][0]["bytes"] += 2


def _cut_an_element(table: dict[str, Any]) -> None:
    chunks = table["collectives"][0]["chunks"]
    chunks[0]["bytes"] += 1
    chunks[1]["bytes"] -= 1


def _visit_twice(table: dict[str, Any]) -> None:
    table["collectives"][0]["chunks"][0]["rs_order"] = ["dim1", "dim1"]


def _serve_less(table: dict[str, Any]) -> None:
    table["dimensions"][0]["issue_order"].pop()


def _serve_twice(table: dict[str, Any]) -> None:
    order = table["dimensions"][0]["issue_order"]
    order[0] = order[1]


def _wait_for_each_other(table: dict[str, Any]) -> None:
    for row in table["dimensions"]:
        row["issue_order"].sort(key=lambda issue: issue["phase"])


def _carry_less(table: dict[str, Any]) -> None:
    table["collectives"].clear()
    table["dimensions"].clear()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_lengthen, "not all of its bytes"),
        (_cut_an_element, "inside elements"),
        (_visit_twice, "visits other dimensions"),
        (_serve_less, "never served"),
        (_serve_twice, "once too often"),
        (_wait_for_each_other, "wait for each other"),
        (_carry_less, "not carried once"),
    ],
)
def test_damaged_orders_are_refused(sample: tuple[dict[str, Any], dict[str, Any]], damage: Any, words: str) -> None:
    document, table = copy.deepcopy(sample)
    damage(table)
    with pytest.raises(check.Refused, match=words):
        judged(document, table)


def test_bounds_above_the_makespan_are_refused(sample: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, table = sample
    proof = {"bounds": [{"kind": "trusted", "picoseconds": 10**15, "solver": "nobody"}]}
    with pytest.raises(check.Refused, match="above the makespan"):
        judged(document, table, certificate=proof)


def test_chunks_of_other_sizes_are_refused_where_they_must_be_equal(
    sample: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    document, table = copy.deepcopy(sample)
    chunks = table["collectives"][0]["chunks"]
    chunks[0]["bytes"] += 2000
    chunks[1]["bytes"] -= 2000
    assert judged(document, table).makespan
    with pytest.raises(check.Refused, match="not equal"):
        judged(document, table, equal=True)

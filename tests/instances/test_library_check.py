"""The checker of the library: it agrees with the package, which it shares no code with, and refuses what is wrong."""

import ast
import copy
import json
import random
import re
import subprocess
import sys
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from library import check, generate
from library_schedules import FAMILIES, judged, random_schedule
from planning import schedule_of

from themis_opt.base.units import parse_time
from themis_opt.formats.order_table import ORDER_FORMAT, order_table, read_order_table
from themis_opt.problem.catalog import LIBRARY, load
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.solving.bounds import bounds
from themis_opt.solving.certificates import certificate

DOCUMENTS = generate.generate()


@pytest.fixture(scope="module")
def sample() -> tuple[dict[str, Any], dict[str, Any]]:
    """An all-reduce on two dimensions in three equal chunks, as a document, and an order table."""
    instance = load("fig5.all_reduce.256MB").overridden(chunks=3)
    table = order_table(schedule_of(instance, "themis"))
    return instance.model_dump(mode="json", exclude_defaults=True), table


def test_files_are_what_the_generator_writes() -> None:
    written = {path.stem: path.read_text(encoding="utf-8") for path in (LIBRARY / "instances").glob("*.json")}
    assert written == {name: generate.text_of(document) for name, document in DOCUMENTS.items()}


def test_rows_of_the_index_are_confirmed() -> None:
    rows = check.read(LIBRARY / "index.json")["instances"]
    small = [row for row in rows if Path(LIBRARY / row["solution"]).stat().st_size < 4_000]
    assert [flaw for row in small[::25] if (flaw := check.check_row(LIBRARY, row))] == []


def test_rows_are_those_of_the_files_as_they_are() -> None:
    rows = check.read(LIBRARY / "index.json")["instances"]
    changed = [row["file"] for row in rows if sha256((LIBRARY / row["file"]).read_bytes()).hexdigest() != row["sha256"]]
    assert changed == []


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


def _any_dimension(draw: random.Random, number: int) -> dict[str, Any]:
    kind = draw.choice(list(check.KINDS))
    size = draw.choice((4, 6, 9)) if kind == "mesh2d" else draw.choice((2, 3, 4, 5, 7, 8))
    algorithms = [name for name in check.KINDS[kind] if name != "adasum" or size in (2, 4, 8)]
    part: dict[str, Any] = {"kind": kind, "size": size, "bandwidth": f"{draw.randint(1, 99)} MB/s"}
    others = {
        "algorithm": draw.choice(algorithms), "latency": f"{draw.randint(1, 99)} us", "launch_overhead": "7 us",
        "compression": 1.5, "packet": {"payload": "1 kB", "header": "64 B"}, "reduction": f"{draw.randint(1, 99)} MB/s",
        "in_network": True, "shares": f"dim{number}",
    }  # fmt: skip
    allowed = {"in_network": len(check.KINDS[kind]) > 1, "shares": number > 0, "reduction": kind != "mesh2d"}
    return part | {name: value for name, value in others.items() if allowed.get(name, True) and draw.random() < 0.6}


@pytest.mark.parametrize("seed", range(100))
def test_checker_and_package_agree_on_every_kind_of_dimension(seed: int) -> None:
    draw = random.Random(seed)
    collectives = [
        {"kind": draw.choice(list(check.PHASES)), "size": draw.randint(500, 5000) * 2, "chunks": draw.randint(1, 5),
         "release": f"{draw.choice((0, 50))} us"}
        for _ in range(draw.randint(1, 2))
    ]  # fmt: skip
    dimensions = [_any_dimension(draw, number) for number in range(draw.randint(1, 3))]
    if seed % 5 == 0:  # sums in the switch of a link that all share, with a port each way
        dimensions = [
            {"kind": "switch", "size": 4 - number, "bandwidth": "7 MB/s", "in_network": True} | shares
            for number, shares in enumerate(({}, {"shares": "dim1"}))
        ]
        collectives = [part | {"kind": "all_reduce"} for part in collectives]
    if seed % 5 == 1:
        adasum = {"kind": "fully_connected", "size": 8, "algorithm": "adasum", "latency": "9 us", "bandwidth": "7 MB/s"}
        dimensions, collectives = [*dimensions[:1], adasum], [part | {"kind": "reduce_scatter"} for part in collectives]
    document = {
        "network": {"dimensions": dimensions},
        "collectives": collectives,
        "latency": draw.choice(("lag", "occupy")),
    }
    try:
        instance = Instance.model_validate({"format": "themis-opt/instance/1"} | document)
    except ModelError:
        with pytest.raises(check.Refused):
            check.read_problem(document)
        return
    schedule = schedule_of(instance, f"random:seed={seed}")
    parts = json.loads(json.dumps(certificate(instance, equal=False)))
    verdict = judged(document, order_table(schedule), certificate=parts)
    assert verdict.makespan == schedule.makespan
    assert verdict.best(trusted=False) <= schedule.makespan
    cuts = [float(bound.picoseconds) for bound in verdict.bounds if bound.kind == "cut"]
    assert max(cuts) == pytest.approx(bounds(instance, equal_sizes=False)["cut"])


@pytest.mark.parametrize(("kind", "algorithm"), [(kind, name) for kind, names in check.KINDS.items() for name in names])
def test_checker_and_package_agree_on_every_size_of_dimensions(kind: str, algorithm: str) -> None:
    for size in range(2, 10):
        dimension = {"kind": kind, "size": size, "algorithm": algorithm, "bandwidth": "7 MB/s", "latency": "9 us"}
        collectives = [{"kind": one, "size": "50400 B"} for one in check.PHASES]
        document = {"network": {"dimensions": [dimension]}, "collectives": collectives}
        try:
            instance = Instance.model_validate({"format": "themis-opt/instance/1"} | document)
        except ModelError:
            continue
        schedule = schedule_of(instance, "baseline")
        assert judged(document, order_table(schedule)).makespan == schedule.makespan


@pytest.mark.parametrize(("launching", "needs"), [("wait_free", "bb"), ("ddp:cap=1GB", "ab"), ("ddp:cap=1GB", "ba")])
def test_periods_agree_where_links_or_the_need_of_one_of_several_tensors_decide(launching: str, needs: str) -> None:
    tensors = [
        {"name": f"t{number}", "size": "4 kB", "ready_after": "a", "needed_before": task}
        | ({"needed_in": "next"} if task == "b" else {})  # a task needs in the next iteration what it makes
        for number, task in enumerate(needs)
    ]
    document = {
        "format": "themis-opt/instance/1",
        "network": {"dimensions": [{"kind": "switch", "size": 2, "bandwidth": "1 MB/s"}]},
        "iteration": {"tasks": [{"name": name, "duration": "1 us"} for name in "ab"], "tensors": tensors},
        "chunks": 1,
    }
    instance = Instance.model_validate(document)
    schedule = schedule_of(instance, f"{launching}/baseline")
    table = order_table(schedule)
    taken = judged(document, table).makespan
    assert taken is not None
    for part in table["collectives"]:  # its tensors alone say the same
        part.pop("after", None)
        part.pop("before", None)
    assert judged(document, table).makespan == taken
    assert 8 * 10**9 <= taken <= schedule.makespan  # what the link carries
    assert taken == schedule.makespan or not schedule.period.is_steady


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
        "network": {"dimensions": [{"kind": "switch", "size": 3, "bandwidth": "7 B/s", "launch_overhead": "5 ps"}]},
        "collectives": [{"kind": "reduce_scatter", "size": 10, "chunks": 2, "release": "3 ps"}],
    }
    cut = {"kind": "cut", "inside": [], "side": "sent"}
    windows = {"kind": "windows", "windows": [{"resource": "dim1", "head": 0, "tail": 0, "weight": 1}]}
    proven = check.judge(document, certificate={"bounds": [cut, windows, {"kind": "chain"}]}).bounds
    exact = Fraction(20 * 10**12, 21)
    assert [bound.picoseconds for bound in proven[:2]] == [exact + 3, exact + 5]
    assert proven[2].picoseconds == 8 - (-6 * 2 * 10**12 // 21)  # the larger of two chunks, of three elements
    late = windows | {"windows": [windows["windows"][0] | {"head": 10**15}]}
    word = {"kind": "trusted", "picoseconds": 10**16, "solver": "nobody"}
    with pytest.raises(check.Refused, match="a window may be empty"):
        check.judge(document, certificate={"bounds": [word, late]})
    counts = windows | {"kind": "counts", "few": [10**15]}
    assert check.judge(document, certificate={"bounds": [counts]}).bounds[0].picoseconds <= proven[2].picoseconds


@pytest.fixture(scope="module")
def tree() -> tuple[dict[str, Any], dict[str, Any], int]:
    """An instance whose row is closed for equal chunks, the certificate with a tree, and its makespan."""
    row = next(row for row in check.read(LIBRARY / "index.json")["instances"] if row["name"] == "equal-03")
    parts = check.read(LIBRARY / row["certificate"])
    parts["bounds"] = [part for part in parts["bounds"] if part["kind"] != "trusted"]
    return DOCUMENTS["equal-03"], parts, row["makespan_ps"]


def test_a_tree_proves_what_windows_do_not(tree: tuple[dict[str, Any], dict[str, Any], int]) -> None:
    document, parts, makespan = tree
    *others, best = judged(document, None, certificate=parts, equal=True).bounds
    assert best.kind == "tree"
    assert max(other.picoseconds for other in others) < 0.99 * makespan
    assert makespan * (1 - 1e-4) * (1 - 1e-7) <= best.picoseconds <= makespan
    with pytest.raises(check.Refused, match="equal chunks"):
        judged(document, None, certificate=parts)


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(inner for side in ("fewer", "more") if side in node for inner in _nodes(node[side]))]


@pytest.mark.parametrize("seed", range(30))
def test_no_damaged_tree_proves_too_much(tree: tuple[dict[str, Any], dict[str, Any], int], seed: int) -> None:
    document, parts, makespan = copy.deepcopy(tree)
    draw = random.Random(seed)
    node = draw.choice(_nodes(parts["bounds"][-1]["tree"]))
    if "arc" in node:
        node["most"] += draw.choice((-1, 1, 3))
        node["fewer"], node["more"] = draw.sample((node["fewer"], node["more"]), 2)
    else:
        for window in node["windows"]:
            window[draw.choice(("head", "tail", "weight"))] *= draw.randint(1, 9)
        node["prices"] = [[arc, price * draw.randint(-3, 9)] for arc, price in node["prices"]]
    try:
        verdict = judged(document, None, certificate=parts, equal=True)
    except check.Refused:
        return
    assert verdict.best(trusted=False) <= makespan


def test_the_solver_of_the_page_needs_the_checker_alone(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (LIBRARY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in program.splitlines() if line]) <= 32
    (tmp_path / "solver.py").write_text(program.replace("range(200)", "range(20)"), encoding="utf-8")
    (tmp_path / "check.py").write_bytes((LIBRARY / "check.py").read_bytes())
    path = LIBRARY / "instances/all_reduce-56.json"
    command = [
        sys.executable,
        "-I",
        "-c",
        "import sys; sys.path.insert(0, '.'); import runpy; runpy.run_path('solver.py')",
    ]
    solved = subprocess.run([*command, path], cwd=tmp_path, capture_output=True, text=True, check=True)
    table = json.loads(solved.stdout)
    makespan = judged(DOCUMENTS["all_reduce-56"], table).makespan
    head = {"format": ORDER_FORMAT, "name": "all_reduce-56", "fingerprint": load("all_reduce-56").fingerprint}
    (tmp_path / "order.json").write_text(json.dumps(head | table), encoding="utf-8")
    assert read_order_table(tmp_path / "order.json").makespan == makespan


def test_the_checker_says_how_far_a_solution_is_from_the_best_known(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads((LIBRARY / "index.json").read_text(encoding="utf-8"))["instances"]
    row = next(row for row in rows if (row["name"], row["sizes"]) == ("equal-01", "equal"))
    files = [str(LIBRARY / row[field]) for field in ("file", "solution")]
    assert check.main([*files, "--equal"]) == 0
    assert capsys.readouterr().out == (
        "makespan 972656786 ps, 972.66 us: equal to the best known of equal-01, 972.66 us; "
        "0.1965 % above the bound, 970.75 us\n"
    )
    with pytest.raises(SystemExit):
        check.main(files[:1])
    assert "an instance needs a solution" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0.0006 ns", "0.5 ps", "1.5 ps", "2.4 ps", "0.7000005 us"])
def test_times_are_rounded_as_in_the_package(text: str) -> None:
    assert check.picoseconds(text) == parse_time(text)


def test_dimensions_have_two_npus(sample: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, _ = copy.deepcopy(sample)
    document["network"]["dimensions"][0]["size"] = 1
    with pytest.raises(check.Refused, match="from 2 to"):
        check.read_problem(document)


def test_start_ups_count_in_windows_that_all_chunks_must_enter() -> None:
    dimensions = [{"kind": "switch", "size": 2, "bandwidth": "1 GB/s", "latency": f"{n} us"} for n in (10, 100)]
    document = {
        "network": {"dimensions": dimensions},
        "collectives": [{"kind": "all_gather", "size": "800 kB", "chunks": 8}],
        "latency": "occupy",
    }
    instance = Instance.model_validate({"format": "themis-opt/instance/1"} | document)
    schedule, parts = schedule_of(instance, "baseline"), certificate(instance, equal=False)
    windows = [{"resource": "dim1", "head": 100_000_000, "tail": 0, "weight": 1}]  # its stages may be the first ones
    parts["bounds"] = [{"kind": "chain"}, {"kind": "counts", "windows": windows, "few": [5]}]
    assert judged(document, order_table(schedule), certificate=parts).bounds[1].picoseconds == 100_000_000


def test_a_cut_counts_a_collective_once(sample: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, table = sample
    cut = {"kind": "cut", "inside": [], "side": "sent"}
    twice = {**cut, "collectives": 2 * [table["collectives"][0]["name"]]}
    one, other = judged(document, table, certificate={"bounds": [cut, twice]}).bounds
    assert one.picoseconds == other.picoseconds


@pytest.mark.parametrize("other", [{"kind": "reduce_scatter"}, {"dimensions": ["dim1"]}, {"element_bytes": 1}])
def test_tensors_that_differ_are_not_fused(other: dict[str, Any]) -> None:
    tensors = [
        {"name": name, "size": "4 kB", "ready_after": "a", "needed_before": "a", "needed_in": "next"} for name in "tu"
    ]
    dimension = {"kind": "switch", "size": 2, "bandwidth": "1 MB/s"}
    document = {
        "format": "themis-opt/instance/1",
        "network": {"dimensions": [dimension, dimension]},
        "iteration": {"tasks": [{"name": "a", "duration": "1 us"}], "tensors": tensors},
        "chunks": 1,
    }
    instance = Instance.model_validate(document)
    table = order_table(schedule_of(instance, "ddp:cap=1GB/baseline"))
    assert judged(document, table).makespan
    tensors[1] |= other
    with pytest.raises(check.Refused, match="fuses tensors"):
        judged(document, table)


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


def _cut_more(table: dict[str, Any]) -> None:
    table["collectives"][0]["chunks"] = [{"index": n, "bytes": 64} for n in range(4)]


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
        (_cut_more, "cut in 4 chunks, at most 3 are allowed"),
        (_carry_less, "has 0 entries"),
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

"""The best known schedules: stored when they are better, checked before, and refused in a sentence otherwise."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from certified import certificate_of
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.graphs.problem import load_graph
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.trees import tree_plan
from themis_opt.problem.catalog import LIBRARY, library_instances, read_instance, shipped
from themis_opt.schedules.schedule import Schedule
from themis_opt.study.best_known import BestKnown, Library, LibrarySchedule, beside_best_known, shares, solution_of

FILE = "instances/hetero.json"
GRAPH = "instances/pods.json"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of two instances, of which the fixed order and a plan of few trees are known."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "instances").mkdir()
    shutil.copy(LIBRARY / "check.py", folder)
    shutil.copy(shipped()["3d-sw_sw_sw_hetero.all_reduce.100MiB"], folder / FILE)
    shutil.copy(library_instances()["graph-10"], folder / GRAPH)
    library = Library(folder)
    library.write([])
    store(library, FILE, planned(library, "baseline"))
    store(library, GRAPH, on_graph(library, 1))
    return library


@pytest.fixture
def library(shelf: Library, tmp_path: Path) -> Library:
    """The same for one test to change."""
    return Library(Path(shutil.copytree(shelf.folder, tmp_path / "library")))


def store(library: Library, file: str, schedule: LibrarySchedule) -> None:
    instance = schedule.instance if isinstance(schedule, Schedule) else schedule.plan.instance
    library.store(file, schedule, certificate_of(instance), "free", "open", "today's order", 0.5)


def planned(library: Library, policy: str) -> Schedule:
    instance = read_instance(library.folder / FILE)
    return schedule_of(instance, policy)


def on_graph(library: Library, chunks: int) -> GraphSchedule:
    return simulate_graph(tree_plan(load_graph(library.folder / GRAPH)), chunks)


def row_of(library: Library, file: str) -> BestKnown:
    return next(row for row in library.rows if row.file == file)


def test_a_better_schedule_takes_the_row(library: Library) -> None:
    better = planned(library, "themis+scf")
    (row,) = library.submit(solution_of(better), "themis")
    assert (row.makespan_ps, row.solver, row.status) == (better.makespan, "themis", "open")
    assert row_of(Library(library.folder), FILE) == row


@pytest.mark.parametrize(("policy", "words"), [("baseline", "as fast"), ("themis+lifo", "faster")])
def test_a_schedule_that_is_no_better_is_refused(library: Library, policy: str, words: str) -> None:
    library.submit(solution_of(planned(library, "themis+scf")), "themis") if policy != "baseline" else None
    before = (library.folder / "index.json").read_bytes()
    with pytest.raises(InputError, match=words):
        library.submit(solution_of(planned(library, policy)), "anybody")
    assert (library.folder / "index.json").read_bytes() == before


def test_a_schedule_of_another_instance_is_refused(library: Library) -> None:
    other = read_instance(library.folder / FILE).overridden(chunks=3)
    with pytest.raises(InputError, match="no such instance"):
        library.submit(solution_of(schedule_of(other, "themis")), "anybody")


def test_a_better_schedule_on_a_graph_takes_the_row(library: Library) -> None:
    (row,) = library.submit(solution_of(on_graph(library, 16)), "trees")
    assert row.makespan_ps == on_graph(library, 16).makespan
    assert row.bound == "cut"


def test_what_the_checker_refuses_is_not_stored(library: Library) -> None:
    proof = certificate_of(read_instance(library.folder / FILE)) | {
        "bounds": [{"kind": "trusted", "picoseconds": 10**15, "solver": "nobody"}]
    }
    with pytest.raises(InputError, match="refuses it"):
        library.store(FILE, planned(library, "themis"), proof, "free", "open", "anybody", 0.0)


def test_the_page_states_how_many_rows_are_closed() -> None:
    text = (LIBRARY / "README.md").read_text(encoding="utf-8")
    rows = Library().rows
    assert [share for share in shares(rows) if share not in text] == []
    trusted = sum(row.status == "closed" and not row.is_verified for row in rows)
    assert f"{trusted} of {sum(row.status == 'closed' for row in rows)}, rest on the word of CP-SAT" in text
    assert sum(row.core for row in rows) == 200


def test_a_better_certificate_takes_the_row(library: Library) -> None:
    proof = certificate_of(read_instance(library.folder / FILE))
    with pytest.raises(InputError, match="raises no bound"):
        library.certify(proof)
    trusted = {"kind": "trusted", "picoseconds": row_of(library, FILE).bound_ps + 1, "solver": "somebody"}
    (row,) = library.certify(proof | {"bounds": [*proof["bounds"], trusted]})
    assert (row.bound, row.bound_ps, row.proven_ps) == ("somebody, trusted", trusted["picoseconds"], row.bound_ps - 1)
    assert Library(library.folder).named("hetero") == (row,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "0"}, "no such instance"),
        ({"bounds": [{"kind": "trusted", "picoseconds": 10**15, "solver": "nobody"}]}, "refuses it"),
        ({"bounds": [{"kind": "windows"}]}, "windows: is missing"),
    ],
)
def test_a_wrong_certificate_is_refused(library: Library, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        library.certify(certificate_of(read_instance(library.folder / FILE)) | change)


def test_every_row_is_confirmed(library: Library) -> None:
    rows = [json.loads(row.model_dump_json()) for row in library.rows]
    assert [library.checker.check_row(library.folder, row) for row in rows] == [None, None]
    wrong = rows[0] | {"makespan_ps": rows[0]["makespan_ps"] - 1}
    assert "not" in library.checker.check_row(library.folder, wrong)


@pytest.mark.parametrize(
    ("policy", "words"), [("baseline", "as fast as"), ("themis+scf", "beats"), ("baseline+lifo", "longer than")]
)
def test_a_result_is_compared_with_what_is_known(library: Library, policy: str, words: str) -> None:
    schedule = planned(library, "random" if "lifo" in policy else policy)
    assert words in str(beside_best_known(schedule, "free", library))
    assert beside_best_known(schedule, "equal", library) is None

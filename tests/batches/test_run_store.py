import gzip
import random
import sqlite3

import pytest

from themis_opt.base.errors import InputError
from themis_opt.batches import rows_file
from themis_opt.batches.rows_file import num_rows, provenance_of, read_csv_text, rows_of, write_csv
from themis_opt.batches.store import RunStore


def row(key, status="ok", version="1", **more):
    return {"key": key, "code_version": version, "status": status, **more}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


def kept(path, version="1"):
    with RunStore(path) as store:
        return list(store.rows(version))


def test_rows_are_there_after_opening_again(path):
    with RunStore(path) as store:
        store.add([row("a", makespan_ns=1.5), row("b", error=None)])
    assert kept(path) == [row("a", makespan_ns=1.5), row("b", error=None)]


def test_a_row_replaces_the_one_with_its_key(path):
    with RunStore(path) as store:
        store.add([row("a", "failed")])
        store.add([row("a", "ok")])
    assert kept(path) == [row("a", "ok")]


def test_versions_of_the_code_are_apart(path):
    with RunStore(path) as store:
        store.add([row("a", version="1"), row("b", "failed", version="2")])
        assert store.statuses("2") == {"b": "failed"}


def test_rows_of_a_failed_commit_are_all_absent(path):
    with RunStore(path) as store:
        store.add([row("a")])
        with pytest.raises(InputError):
            store.add([row("b"), row(None)])
        assert store.statuses("1") == {"a": "ok"}


def test_a_full_disk_keeps_the_rows_before(path):
    with RunStore(path) as store:
        store.add([row("a")])
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match="disk is full"):
            store.add([row(f"large{n}", extra="x" * 10_000) for n in range(10)])
        assert store.statuses("1") == {"a": "ok"}
    assert kept(path) == [row("a")]


def test_a_store_in_use_is_refused(path):
    with RunStore(path), pytest.raises(InputError, match=r"runs\.sqlite: is in use by another process"):
        RunStore(path)


def test_damaged_bytes_are_told_in_one_line(path):
    """Whatever byte is another one: the rows are what they were, or the store says that it is damaged."""
    rows = [row(f"{n:03}", makespan_ns=1.5, extra="x" * 100) for n in range(100)]
    with RunStore(path) as store:
        store.add(rows)
    whole, generator, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(generator.choice([1, 1, 20])):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path.write_bytes(damaged)
        refused += _is_refused(path)
    assert refused > 20


def _is_refused(path):
    try:
        with RunStore(path) as store:
            store.statuses("1")
            list(store.rows("1"))
            store.add([row("new")])
    except InputError as error:
        return str(path) in str(error)
    return False


def test_a_refused_file_is_left_as_it_is(path):
    path.write_text("no database " * 100)
    with pytest.raises(InputError):
        RunStore(path)
    assert path.read_text() == "no database " * 100


def test_a_database_of_another_program_is_refused(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (key TEXT)")
    other.close()
    with pytest.raises(InputError, match="of another program"):
        RunStore(path)


def test_another_format_is_refused(path):
    with RunStore(path) as store:
        store.connection.execute("PRAGMA user_version = 9")
    with pytest.raises(InputError, match="user_version = 9: must have format 1"):
        RunStore(path)


def test_a_file_where_the_folder_should_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        RunStore(tmp_path / "file" / "runs.sqlite")


@pytest.mark.parametrize("text", ["{broken", "{}", "[]", "null", "[" * 100_000, "9" * 5000], ids=lambda text: text[:7])
def test_a_damaged_row_is_refused(path, text):
    with RunStore(path) as store:
        store.add([row("a")])
        store.connection.execute("UPDATE runs SET row = ?", (text,))
        with pytest.raises(InputError, match="damaged"):
            list(store.rows("1"))


NAMES = ("rows.csv", "rows.csv.gz")


@pytest.mark.parametrize("name", NAMES)
def test_what_was_written_is_read(name, tmp_path):
    write_csv(tmp_path / name, ("a", "b"), [{"a": 1, "b": "x,y"}, {"a": 2, "c": 3}])
    assert read_csv_text(tmp_path / name) == 'a,b\n1,"x,y"\n2,\n'
    assert num_rows(tmp_path / name) == 2


def test_equal_rows_give_equal_packed_files(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_csv(tmp_path / name, ("a",), [{"a": 1}])
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_a_folder_with_packed_rows_keeps_them_packed(tmp_path):
    assert rows_of(tmp_path) == tmp_path / "rows.csv"
    write_csv(tmp_path / "rows.csv.gz", ("a",), [])
    assert rows_of(tmp_path) == tmp_path / "rows.csv.gz"


@pytest.mark.parametrize("name", NAMES)
def test_files_beside_the_rows_are_named_the_same_packed_or_not(name, tmp_path):
    assert provenance_of(tmp_path / name).name == "provenance.json"
    assert provenance_of(tmp_path / f"my.{name}").name == "my.rows.provenance.json"


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", gzip.compress(b"a,b\n" * 99)[:-9]], ids=["plain", "cut off"])
def test_what_gzip_did_not_pack_is_refused(data, tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(data)
    with pytest.raises(InputError, match="damaged, or not packed"):
        read_csv_text(tmp_path / "rows.csv.gz")
    assert num_rows(tmp_path / "rows.csv.gz") == 0


def test_no_more_is_unpacked_than_may_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_file, "MAX_ROWS_BYTES", 1000)
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"a" * 1001))
    with pytest.raises(InputError, match="unpacked"):
        read_csv_text(tmp_path / "rows.csv.gz")

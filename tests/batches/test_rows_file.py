"""The file of the rows, plain and packed."""

import gzip

import pytest

from themis_opt.base.errors import InputError
from themis_opt.batches import rows_file
from themis_opt.batches.rows_file import num_rows, provenance_of, read_csv_text, rows_of, write_csv

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

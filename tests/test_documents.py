"""Reading strictly and writing atomically."""

import os
from pathlib import Path

import pytest

from themis_opt.base.documents import read_json, write_atomically
from themis_opt.base.errors import InputError

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return tmp_path / "document.json"


def test_an_object_is_read(document: Path) -> None:
    document.write_text('{"a": [1, 2.5, "x", null]}')
    assert read_json(document) == {"a": [1, 2.5, "x", None]}


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "the file is empty"),
        (b" \n\t", "the file is empty"),
        (b"{", "not JSON: .* at line 1, column 2"),
        (b"{'a': 1}", "not JSON"),
        (b"\xff\xfe\x00\x01", "not UTF-8 text"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[1]", "must be a JSON object"),
        (b"1", "must be a JSON object"),
        (b'{"a": 1, "b": 2, "a": 3}', "key 'a' stands twice"),
        (b'{"inner": {"a": 1, "a": 1}}', "key 'a' stands twice"),
        (b'{"a": NaN}', "numbers must be finite, found NaN"),
        (b'{"a": -Infinity}', "numbers must be finite, found -Infinity"),
        (b'{"a": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "digits"),
    ],
)
def test_anything_else_is_refused_by_name_and_rule(document: Path, content: bytes, rule: str) -> None:
    document.write_bytes(content)
    with pytest.raises(InputError, match=rule) as caught:
        read_json(document)
    assert caught.value.source == str(document)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        read_json(tmp_path)


def test_a_missing_file_is_refused(document: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_json(document)


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_an_unreadable_file_is_refused(document: Path) -> None:
    document.write_text("{}")
    document.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_json(document)


@pytest.mark.parametrize("content", ["text ☃", b"\x00\xff"])
def test_what_is_written_can_be_read(document: Path, content: str | bytes) -> None:
    write_atomically(document, content)
    assert document.read_bytes() == (content.encode() if isinstance(content, str) else content)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "c.json", "{}")
    assert (tmp_path / "a" / "b" / "c.json").read_text() == "{}"


def test_an_existing_file_is_replaced(document: Path) -> None:
    document.write_text("a longer old content")
    write_atomically(document, "new")
    assert document.read_text() == "new"


def test_a_written_file_is_readable_for_others(document: Path) -> None:
    write_atomically(document, "{}")
    assert document.stat().st_mode & 0o777 == 0o644


def fail(*arguments: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_content(document: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    document.write_text("old")
    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_atomically(document, "new")
    assert document.read_text() == "old"


def test_a_failed_write_leaves_nothing_behind(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError):
        write_atomically(document, "new")
    assert list(document.parent.iterdir()) == []


def test_an_interrupted_write_leaves_nothing_behind(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(document, "new")
    assert list(document.parent.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "x.json", "{}")


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "folder", "{}")

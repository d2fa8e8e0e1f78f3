"""Reading strictly and writing atomically."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from themis_opt.base.documents import file_name, read_bytes, read_json, read_toml, write_atomically
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
        (b'{"a": NaN}', "numbers must be finite, not NaN"),
        (b'{"a": -Infinity}', "numbers must be finite, not -Infinity"),
        (b'{"a": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "digits"),
    ],
)
def test_anything_else_is_refused_by_name_and_rule(document: Path, content: bytes, rule: str) -> None:
    document.write_bytes(content)
    with pytest.raises(InputError, match=rule) as caught:
        read_json(document)
    assert caught.value.source == str(document)


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_an_unreadable_file_is_refused(document: Path) -> None:
    document.write_text("{}")
    document.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_json(document)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "c.json", "{}")
    assert (tmp_path / "a" / "b" / "c.json").read_text() == "{}"


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)

    def change(mask: int) -> None:
        os.umask(mask)

    yield change
    os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="needs permissions of files")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_obeys_the_umask(document: Path, umask: Callable[[int], None], mask: int, mode: int) -> None:
    umask(mask)
    write_atomically(document, "{}")
    assert document.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name == "nt", reason="needs permissions of files")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_replaced_file_keeps_its_permissions(document: Path, umask: Callable[[int], None], mode: int) -> None:
    document.write_text("secret")
    document.chmod(mode)
    write_atomically(document, "{}")
    assert document.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device, must be a JSON file"):
        read_json(tmp_path / "pipe")


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="needs a device without end")
def test_a_device_without_end_is_refused() -> None:
    with pytest.raises(InputError, match="is a pipe or a device, must be a TOML file"):
        read_toml(Path("/dev/zero"))


def test_a_file_may_have_a_limited_size(document: Path) -> None:
    document.write_bytes(b"12345")
    assert read_bytes(document, "JSON", 5) == b"12345"
    with pytest.raises(InputError, match="must be at most 4 B"):
        read_bytes(document, "JSON", 4)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("a = " + "9" * 5000, "not TOML: .*digits"),
        ("a = " + "[" * 3000 + "]" * 3000, "TOML nested too deeply"),
        ("a = " + "{b = " * 3000 + "1" + "}" * 3000, "TOML nested too deeply"),
        ("a = 1\na = 2", "not TOML"),
        ("a = 2026-13-45", "not TOML"),
    ],
)
def test_anything_but_toml_is_refused(document: Path, content: str, rule: str) -> None:
    document.write_text(content)
    with pytest.raises(InputError, match=rule) as caught:
        read_toml(document)
    assert caught.value.source == str(document)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fig5.all_reduce.256MB.solution", "fig5.all_reduce.256MB.solution"),
        ("random:17.solution", "random_17.solution"),
        ("fused/hourglass", "fused_hourglass"),
        ('a<b>"c|d?e*f\\g\x1b', "a_b__c_d_e_f_g_"),
        ("ends in dots. .", "ends in dots"),
        ("con", "_con"),
        ("LPT1.txt", "_LPT1.txt"),
        ("...", "_"),
    ],
)
def test_names_of_files_are_allowed_everywhere(text: str, name: str) -> None:
    assert file_name(text) == name


def fail(*arguments: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_content(document: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    document.write_text("old")
    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_atomically(document, "new")
    assert document.read_text() == "old"
    assert list(document.parent.iterdir()) == [document]


def test_an_interrupted_write_leaves_nothing_behind(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(document, "new")
    assert list(document.parent.iterdir()) == []


def test_what_is_in_the_place_of_a_file_or_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for place in ("folder", "file/x.json"):
        with pytest.raises(InputError, match="cannot be written"):
            write_atomically(tmp_path / place, "{}")

"""Damaged files of the project's formats: they are read, or refused in one line, nothing else."""

import random
from pathlib import Path

import pytest
from format_files import format_files
from fuzzing import damaged_bytes
from hypothesis import given
from hypothesis import strategies as st

from themis_opt.base.errors import ThemisError

FILES = format_files()


def check(kind: str, path: Path, content: bytes) -> None:
    """Read a file; any exception but a refusal in one line fails."""
    message = ""
    for other in path.parent.glob(f"{path.name}-*"):  # what SQLite left beside a damaged store
        other.unlink()
    path.write_bytes(content)
    try:
        FILES[kind].read(path)
    except ThemisError as error:
        message = str(error)
    assert message.isprintable()


@pytest.mark.parametrize("kind", FILES)
def test_undamaged_files_are_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / FILES[kind].name
    path.write_bytes(FILES[kind].content)
    FILES[kind].read(path)


@pytest.mark.parametrize("kind", FILES)
def test_damaged_files_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    generator = random.Random(kind)
    for _ in range(60):
        check(kind, tmp_path / FILES[kind].name, damaged_bytes(FILES[kind].content, generator))


@given(st.sampled_from(sorted(FILES)), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, kind: str, content: bytes) -> None:
    check(kind, tmp_path_factory.getbasetemp() / FILES[kind].name, content)

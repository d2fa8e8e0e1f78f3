"""Damaged files of the project's formats: they are read, or refused in one line, nothing else."""

import random
from pathlib import Path

import pytest
from format_files import format_files
from fuzzing import damaged_bytes
from hypothesis import given
from hypothesis import strategies as st

FILES = format_files()
TRIALS = 20


@pytest.mark.parametrize("kind", FILES)
def test_undamaged_files_are_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / FILES[kind].name
    path.write_bytes(FILES[kind].content)
    FILES[kind].read(path)


@pytest.mark.parametrize("kind", FILES)
def test_damaged_files_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    generator = random.Random(kind)
    for _ in range(TRIALS):
        FILES[kind].check(tmp_path, damaged_bytes(FILES[kind].content, generator))


@given(st.sampled_from(sorted(FILES)), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, kind: str, content: bytes) -> None:
    FILES[kind].check(tmp_path_factory.getbasetemp(), content)

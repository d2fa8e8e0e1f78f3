"""Damaged files of every format: they are read or refused with one line that names the file, nothing else."""

import random

import pytest
from fuzzing import attempt, damaged
from reader_samples import SAMPLES

from themis_opt.formats.readers.registry import READERS

TRIALS = 30


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [name for name in READERS if SAMPLES.get(name)])
def test_damaged_files_are_read_or_refused(name, tmp_path):
    generator = random.Random(name)
    for _ in range(TRIALS):
        file, content = damaged(name, generator)
        message = attempt(name, tmp_path / file, content)
        assert "\n" not in message


def test_every_format_has_samples():
    assert SAMPLES.keys() >= set(READERS)

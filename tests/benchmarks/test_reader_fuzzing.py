"""Many damaged files of every format: none may end in a traceback, hang, or take much memory.

``THEMIS_OPT_FUZZ_TRIALS`` sets the number of files per format, 100,000 by default.
"""

import os
import random
import resource
from time import monotonic

import pytest
from fuzzing import attempt, damaged
from reader_samples import SAMPLES

from themis_opt.formats.readers.registry import READERS

TRIALS = int(os.environ.get("THEMIS_OPT_FUZZ_TRIALS", "100000"))
LONGEST_SECONDS = 20
MOST_MEMORY_KIB = 2**20


@pytest.mark.filterwarnings("error")
@pytest.mark.benchmarks
@pytest.mark.parametrize("name", [name for name in READERS if SAMPLES.get(name)])
def test_no_damaged_file_ends_in_a_traceback(name, tmp_path):
    generator = random.Random(f"{name} {TRIALS}")
    refused, longest = 0, 0.0
    for _ in range(TRIALS):
        file, content = damaged(name, generator)
        start = monotonic()
        message = attempt(name, tmp_path / file, content)
        longest = max(longest, monotonic() - start)
        refused += bool(message)
        assert "\n" not in message
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\n{name}: {TRIALS} files, {refused} refused, longest {longest:.2f} s, memory {memory // 1024} MiB")
    assert longest < LONGEST_SECONDS
    assert memory < MOST_MEMORY_KIB

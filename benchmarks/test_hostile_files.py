"""What readers spend on files that ask for all of a machine: less than a GiB and ten seconds, then one line.

``python -m pytest -m benchmarks benchmarks/test_hostile_files.py -s`` prints the dearest file of each kind.
"""

import gzip
import os
import re
import resource
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from format_files import format_files
from fuzzing import attempt
from reader_samples import SAMPLES

from themis_opt.base.compiled import compile_at_once

pytestmark = pytest.mark.benchmarks

MOST_KIB, MOST_SECONDS = 2**20, 10.0
HUGE = (b"1000000000", b"1" + b"0" * 400)
NUMBERS = 25  # numbers of a file that are made huge in turn

Check = Callable[[bytes], object]


def hostile(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Files of one format: deep ones, long ones, packed zeros, and ones with a huge number somewhere."""
    for what, part in (("lists", b"["), ("objects", b'{"a":'), ("elements", b"<a>"), ("aliases", b"- &a [*a, *a]\n")):
        yield f"deep {what}", part * 2_000_000
        yield f"deep {what} in it", content + part * 2_000_000
    yield "zeros", bytes(2**28)
    yield "packed zeros", gzip.compress(bytes(2**28), 1)
    yield "packed repeats", gzip.compress(content * (2**28 // len(content)), 1)
    yield "repeats", content * (2**26 // len(content))
    yield "ones", b"1," * 2**25
    for number in list(re.finditer(rb"\d+", content))[:NUMBERS]:
        for huge in HUGE:
            yield f"a number of {len(huge)} digits", content[: number.start()] + huge + content[number.end() :]


def cost(check: Check, content: bytes, output: Path) -> tuple[float, int]:
    """Seconds of the processor and most KiB of a fork that reads a file; nan and 0 if it ends with a traceback."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check(content)
            status = 0
        except BaseException:
            output.write_text(traceback.format_exc())
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    return (usage.ru_utime + usage.ru_stime, usage.ru_maxrss) if status == 0 else (float("nan"), 0)


def checks(folder: Path) -> Iterator[tuple[str, bytes, Check]]:
    """Every format of this project and of others, with a file of it and what reads a file."""
    for kind, file in format_files().items():
        yield kind, file.content, lambda content, file=file: file.check(folder, content)  # type: ignore[misc]
    for name, files in SAMPLES.items():
        for file_name, text in list(files.items())[:1]:
            content = text.encode() if isinstance(text, str) else text
            for ending in ("", ".gz"):
                path = folder / f"{file_name}{ending}"

                def read(content: bytes, name: str = name, path: Path = path) -> None:
                    assert "\n" not in attempt(name, path, content)

                yield f"{name}{ending}", content, read


def test_hostile_files_cost_little(tmp_path: Path) -> None:
    compile_at_once()
    failures, count, base = list[str](), 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, content, check in checks(tmp_path):
        dearest, largest = (0.0, ""), (0, "")
        for what, bad in hostile(content):
            seconds, kib = cost(check, bad, tmp_path / "traceback")
            count += 1
            dearest, largest = max(dearest, (seconds, what)), max(largest, (kib, what))
            if not (seconds < MOST_SECONDS and kib < MOST_KIB):
                failures.append(f"{kind}, {what}: {seconds:.1f} s, {kib // 1024} MiB")
        print(f"| {kind} | {dearest[0]:.1f} s ({dearest[1]}) | {largest[0] // 1024} MiB ({largest[1]}) |", flush=True)
    print(f"{count} files; a process that reads none has {base // 1024} MiB")
    assert failures == []

"""Many damaged files and random command lines: no traceback, none that hangs, none that fills the memory.

``python -m pytest -m benchmarks tests/benchmarks/test_fuzz.py -s``; THEMIS_OPT_FUZZ says how many files there are, a
hundredth of them command lines; THEMIS_OPT_FUZZ_SEED draws others, THEMIS_OPT_FUZZ_SECONDS ends before that.
"""

import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzing import attempt, damaged, damaged_bytes
from own_files import SMALL, own_files
from reader_samples import SAMPLES
from test_own_files_damaged import check
from typer.testing import CliRunner

from themis_opt.base.compiled import compile_at_once
from themis_opt.cli.main import COMMANDS, application

pytestmark = pytest.mark.benchmarks

NUM_FILES = int(os.environ.get("THEMIS_OPT_FUZZ", "1000000"))
SEED = int(os.environ.get("THEMIS_OPT_FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("THEMIS_OPT_FUZZ_SECONDS", "inf"))
MOST_SECONDS, MOST_KIB = 5.0, 2**20
"""Seconds of processors, so that other work on the machine makes nothing slow, and the memory of the process."""

MOST_WAITING = 300.0
"""Seconds that anything may wait, or it hangs."""

SOURCES = (SMALL, "random:3", "random:x", "none.json", "2d-sw_sw.all_reduce.100MiB", "", "=cmd|x", "\x1b[31m", ".")
OPTIONS = (
    "--size", "--chunks", "--latency", "--ag-order", "--policies", "--time-limit", "--workers", "--seed", "--gap",
    "--chunk-sizes", "--json", "--deterministic", "--memory", "--no-cache", "-o", "--samples", "--trials",
    "--max-chunks",
    "--launch-overhead", "--packet", "--network", "--parallelism", "--batch", "--quick", "--jobs", "--rows", "--help",
)  # fmt: skip
VALUES = (
    "0", "1", "-1", "2", "4", "1e9", "nan", "inf", "64 KiB", "1 GB", "64K", "2us", "4096B/30B", "baseline",
    "themis+scf", "hourglass", "search:evaluations=10", "themis:x=1", "free", "equal", "lag", "occupy", "reverse",
    "", "\x00", "\ud800", "9" * 400, "a,b", "fused/baseline", "/", "resnet-50", "data",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Compile before anything is measured."""
    compile_at_once()


def longest(attempts: int, run: Callable[[], str]) -> tuple[Counter[str], float]:
    """How often things were run, by their kind, and seconds of processors of the slowest."""
    counts: Counter[str] = Counter()
    slowest, end = 0.0, time.monotonic() + SECONDS
    for _ in range(attempts):
        began, spent = time.monotonic(), processor_seconds()
        if began > end:
            break
        kind = run()
        counts[kind] += 1
        slowest = max(slowest, processor_seconds() - spent)
        assert time.monotonic() - began < MOST_WAITING, kind
    return counts, slowest


def processor_seconds() -> float:
    """What this process and those that it has started and seen end took of all processors."""
    return sum(os.times()[:4])


def report(what: str, counts: Counter[str], slowest: float) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\n{what}: {counts.total()} ({dict(counts)})")
    print(f"slowest {slowest:.2f} s of a processor, memory {memory / 1024:.0f} MiB")
    assert slowest < MOST_SECONDS
    assert memory < MOST_KIB


def test_damaged_files(tmp_path: Path) -> None:
    generator, own = random.Random(SEED), own_files()
    kinds = sorted(own) + [name for name in sorted(SAMPLES) if SAMPLES[name]]

    def one() -> str:
        kind = generator.choice(kinds)
        if kind in own:
            check(kind, tmp_path / own[kind].name, damaged_bytes(own[kind].content, generator))
        else:
            file, content = damaged(kind, generator)
            assert "\n" not in attempt(kind, tmp_path / file, content)
        return kind

    report("damaged files", *longest(NUM_FILES, one))


def test_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator, runner, command = random.Random(SEED + 1), CliRunner(), application()

    def one() -> str:
        name = generator.choice(sorted(COMMANDS))
        words: list[Any] = [name] + [generator.choice(SOURCES)] * (generator.random() < 0.8)
        for _ in range(generator.randrange(5)):
            words += [generator.choice(OPTIONS)] + [generator.choice(VALUES)] * (generator.random() < 0.8)
        if name in ("solve", "compare", "tune", "robustness"):
            words += ["--time-limit", "0.2"] if name != "robustness" else ["--samples", "2"]
        spent = processor_seconds()
        result = runner.invoke(command, words)
        assert result.exit_code in (0, 1, 2), (words, result.exception)
        assert "Traceback" not in result.output, words
        took = processor_seconds() - spent
        if took > MOST_SECONDS:
            print(f"\n{took:.1f} s: {words}")
        return f"{name} {result.exit_code}"

    report("command lines", *longest(NUM_FILES // 100, one))

"""Many damaged files and random command lines: no traceback, none that hangs, none that fills the memory.

``python -m pytest -m benchmarks benchmarks/test_fuzz.py -s``; THEMIS_OPT_FUZZ says how many files there are, a
hundredth of them command lines; THEMIS_OPT_FUZZ_SEED draws others, THEMIS_OPT_FUZZ_SECONDS ends before that.
"""

import faulthandler
import os
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from format_files import SMALL, format_files
from fuzzing import attempt, damaged, damaged_bytes
from reader_samples import SAMPLES
from typer.testing import CliRunner

from themis_opt.base.compiled import compile_at_once
from themis_opt.cli.main import COMMANDS, application

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]

NUM_FILES = int(os.environ.get("THEMIS_OPT_FUZZ", "1000000"))
SEED = int(os.environ.get("THEMIS_OPT_FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("THEMIS_OPT_FUZZ_SECONDS", "inf"))
MOST_SECONDS, MOST_KIB = 5.0, 2**20
"""Seconds of processors, so that other work on the machine makes nothing slow, and the memory of a process."""

MOST_WAITING = 300.0  # seconds that anything may wait, or it hangs
FAILED = "FAILED"

SOURCES = (
    SMALL, SMALL, SMALL, "solved/schedule.json", "solved/schedule.json", "resnet-50", "random:3", "random:x",
    "none.json", "2d-sw_sw.all_reduce.100MiB", "", "=cmd|x", "\x1b[31m", ".",
)  # fmt: skip
VALUES = (
    "0", "1", "-1", "2", "4", "1e9", "nan", "inf", "64 KiB", "1 GB", "64K", "2us", "4096B/30B", "baseline",
    "themis+scf", "hourglass", "search:evaluations=10", "themis:x=1", "free", "equal", "lag", "occupy", "reverse",
    "", "\x00", "\ud800", "9" * 400, "a,b", "fused/baseline", "/", "resnet-50", "data",
)  # fmt: skip
SHORT = dict.fromkeys(("solve", "compare", "tune"), ("--time-limit", "0.2")) | {
    "robustness": ("--samples", "2"),
    "run": ("--local", "2", "--size", "4 KiB", "--repeat", "1"),
    "calibrate": ("--local", "2", "--repeat", "1"),
}
"""What keeps work short that takes its time by right."""

WARM = (
    ("solve", SMALL, "--time-limit", "0.2", "-o", "solved"),
    ("tune", SMALL, "--trials", "2", "--time-limit", "5"),
    ("sweep", SMALL, "--over", "chunks=2,4", "-o", "swept"),
)
"""Command lines that load what commands load the first time; the first of them compiles for half a minute."""


class Case(NamedTuple):
    """What is tried: its kind, the same in detail, and how; the outcome is counted with the kind."""

    kind: str
    detail: object
    run: Callable[[], str]


def longest(attempts: int, draw: Callable[[], Case]) -> tuple[Counter[str], float]:
    """How often things were run, by their kind and outcome, and seconds of processors of the slowest."""
    counts: Counter[str] = Counter()
    slowest, end = 0.0, time.monotonic() + SECONDS
    for _ in range(attempts):
        if time.monotonic() > end:
            break
        case = draw()
        faulthandler.dump_traceback_later(MOST_WAITING, exit=True)
        spent = processor_seconds()
        try:
            outcome = case.run()
        except Exception:
            outcome = FAILED
            print(f"\n{case.kind} {case.detail!r}\n{traceback.format_exc()}")
        took = processor_seconds() - spent
        faulthandler.cancel_dump_traceback_later()
        counts[f"{case.kind} {outcome}".strip()] += 1
        slowest = max(slowest, took)
        if took > MOST_SECONDS:
            print(f"\n{took:.1f} s of processors: {case.kind} {case.detail!r}")
    return counts, slowest


def processor_seconds() -> float:
    """What this process and those that it has started and seen end took of all processors."""
    return sum(os.times()[:4])


def report(what: str, counts: Counter[str], slowest: float) -> None:
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\n{what}: {counts.total()} ({dict(sorted(counts.items()))})")
    print(f"slowest {slowest:.2f} s of processors, memory {memory / 1024:.0f} MiB")
    assert not [kind for kind in counts if kind.endswith(FAILED)]
    assert slowest < MOST_SECONDS
    assert memory < MOST_KIB


def test_damaged_files(tmp_path: Path) -> None:
    generator, samples = random.Random(SEED), format_files()
    kinds = sorted(samples) + [name for name in sorted(SAMPLES) if SAMPLES[name]]

    def of_own(kind: str, content: bytes) -> str:
        samples[kind].check(tmp_path, content)
        return ""

    def of_others(kind: str, file: str, content: bytes) -> str:
        assert "\n" not in attempt(kind, tmp_path / file, content)
        return ""

    def draw() -> Case:
        kind = generator.choice(kinds)
        if kind in samples:
            content = damaged_bytes(samples[kind].content, generator)
            return Case(kind, content, partial(of_own, kind, content))
        file, content = damaged(kind, generator)
        return Case(kind, content, partial(of_others, kind, file, content))

    compile_at_once()
    for kind in kinds:  # what compiles, compiles now
        if kind in samples:
            of_own(kind, samples[kind].content)
        else:
            file, content = sorted(SAMPLES[kind].items())[0]
            of_others(kind, file, content.encode() if isinstance(content, str) else content)
    report("damaged files", *longest(NUM_FILES, draw))


def test_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator, command = random.Random(SEED + 1), application()
    options_by_command = {name: options_of(command, name) for name in sorted(COMMANDS)}
    everything = sorted({option for options in options_by_command.values() for option in options})

    def outcome(words: Sequence[str]) -> str:
        result = CliRunner().invoke(command, words)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(words) from result.exception
        assert result.exit_code in (0, 1, 2), words
        assert "Traceback" not in result.output, words
        return str(result.exit_code)

    def draw() -> Case:
        name = generator.choice(sorted(options_by_command))
        words = [name] + [generator.choice(SOURCES)] * (generator.random() < 0.8)
        for _ in range(generator.choice((0, 1, 1, 2, 4))):
            options = options_by_command[name] if generator.random() < 0.8 else everything
            words += [generator.choice(options)] + [generator.choice(VALUES)] * (generator.random() < 0.8)
        words += SHORT.get(name, ())
        return Case(name, words, partial(outcome, words))

    compile_at_once()
    for words in WARM:
        assert outcome(words) != "2", words
    report("command lines", *longest(NUM_FILES // 100, draw))


def options_of(command: typer.Typer, name: str) -> list[str]:
    """All options of a subcommand."""
    parameters = typer.main.get_command(command).commands[name].params  # type: ignore[attr-defined]
    return [option for parameter in parameters for option in parameter.opts if option.startswith("-")] + ["--help"]

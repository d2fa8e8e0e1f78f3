"""Live progress on the error stream: one line that changes on a terminal, plain lines in a pipe."""

import logging
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from themis_opt.base.compiled import COMPILED_LOG
from themis_opt.base.units import format_clock, format_percent, format_short_time
from themis_opt.cli.printing import tell

if TYPE_CHECKING:
    from themis_opt.batches.runner import BatchListener, BatchState
    from themis_opt.study.comparison import ComparisonProgress
    from themis_opt.tuning.outcome import Trial
    from themis_opt.tuning.space import Choice
    from themis_opt.tuning.tuner import TrialProgress


UNTOLD_SECONDS = 2.0  # who waits for less asks nothing


class Show(Protocol):
    """Shows how far a command is."""

    def __call__(self, line: str, done: float, total: float | None, topic: str = "") -> None:
        """Take the state in words, and how much of how much is done; a new topic is always shown."""


@contextmanager
def live(quiet: float) -> Iterator[Show]:
    """Show the states it yields a receiver for, in a pipe at most one in so many seconds of quiet, and the last."""
    COMPILED_LOG.setLevel(logging.INFO)
    COMPILED_LOG.addHandler(_COMPILING)
    try:
        with _terminal() if sys.stderr.isatty() else _pipe(quiet) as show:
            yield show
    finally:
        COMPILED_LOG.removeHandler(_COMPILING)


class _Heard(logging.Handler):
    """Passes on what is logged."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__()
        self.hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the message on."""
        self.hear(record.getMessage())


_COMPILING = _Heard(lambda message: tell(f"note: {message}"))  # which takes long and happens once


@contextmanager
def _pipe(quiet: float) -> Iterator[Show]:
    began, shown_at, shown_topic, last, waiting = monotonic(), -math.inf, "", "", ""

    def tell_now() -> None:
        tell(f"{monotonic() - began:7.1f} s  {waiting}")

    def show(line: str, done: float, total: float | None, topic: str = "") -> None:
        nonlocal shown_at, shown_topic, last, waiting
        if line == last:
            return
        last = waiting = line
        if topic != shown_topic or monotonic() - shown_at >= quiet:
            tell_now()
            shown_at, shown_topic, waiting = monotonic(), topic, ""

    try:
        yield show
    finally:
        if waiting:
            tell_now()


@contextmanager
def _terminal() -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), text)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(line: str, done: float, total: float | None, topic: str = "") -> None:
            bar.update(task, description=line, completed=done, total=total)

        yield show


@contextmanager
def comparison_progress(measured: str, time_limit: float) -> Iterator["ComparisonProgress"]:
    """Show the best value of what is measured, and the bound, of the policy at work."""
    began = monotonic()
    policy, best, bound = "", math.inf, 0.0
    with live(quiet=1.0) as show:

        def report(reporting: str, makespan: float, proven: float) -> None:
            nonlocal policy, best, bound
            best = min(best, makespan) if reporting == policy else makespan
            policy, bound = reporting, max(bound, proven)
            line = f"{policy}  {measured} {format_short_time(best) if best < math.inf else '-'}"
            if bound and best < math.inf:
                line += f"  bound {format_short_time(bound)}  gap {format_percent(best / bound - 1)}"
            show(line, monotonic() - began, time_limit, policy)

        yield report


@contextmanager
def export_progress() -> Iterator[None]:
    """Show how far exporters are, by what they log."""
    log, began = logging.getLogger("themis_opt.formats"), monotonic()
    before = log.level
    with live(quiet=20.0) as show:

        def hear(message: str) -> None:
            seconds = monotonic() - began
            if seconds > UNTOLD_SECONDS:
                show(message, seconds, None)

        handler = _Heard(hear)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(before)


@contextmanager
def batch_progress() -> Iterator["BatchListener"]:
    """Show how many runs of a batch are done, and the time that the rest may take."""
    with live(quiet=5.0) as show:

        def report(state: "BatchState") -> None:
            failed = f"  {state.failed} failed" if state.failed else ""
            running = f"  {state.running} running" if state.running else ""
            rest = f"  {format_clock(state.seconds_left)} left" if state.seconds_left else ""
            show(f"{state.done} of {state.total} runs{failed}{running}{rest}", state.done, state.total)

        yield report


@contextmanager
def trial_progress(describe: "Callable[[Choice], str]") -> Iterator["TrialProgress"]:
    """Show how many trials of a search are done, and the best of them."""
    best: Trial | None = None
    with live(quiet=1.0) as show:

        def report(done: int, total: int, trial: "Trial") -> None:
            nonlocal best
            if trial.measurement and (best is None or trial.rank < best.rank):
                best = trial
            words = (
                "no trial yet"
                if best is None
                else f"best {format_short_time(round(1000 * best.value))}: {describe(best.choice)}"
            )
            show(f"{done}/{total} trials  {words}", done, total)

        yield report

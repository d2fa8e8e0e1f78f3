"""Live progress of a batch on the error stream: a bar on a terminal, plain lines in a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from themis_opt.cli.progress import tell

if TYPE_CHECKING:
    from themis_opt.batches.runner import Report, State

QUIET_SECONDS = 5.0
"""Least time between two plain lines."""


def _line(state: "State") -> str:
    """The state in words, with the time that the rest may take."""
    failed = f"  {state.failed} failed" if state.failed else ""
    rest = f"  {_clock(state.seconds_left)} left" if state.seconds_left else ""
    return f"{state.done} of {state.total} runs{failed}{rest}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


@contextmanager
def batch_progress() -> Iterator["Report"]:
    """Show the states it yields a receiver for."""
    with _terminal() if sys.stderr.isatty() else _pipe() as report:
        yield report


@contextmanager
def _pipe() -> Iterator["Report"]:
    began, shown_at, last = monotonic(), -QUIET_SECONDS, ""

    def report(state: "State") -> None:
        nonlocal shown_at, last
        last, now = _line(state), monotonic()
        if now - shown_at >= QUIET_SECONDS:
            shown_at = now
            tell(f"{now - began:7.1f} s  {last}")
            last = ""

    try:
        yield report
    finally:
        if last:
            tell(f"{monotonic() - began:7.1f} s  {last}")


@contextmanager
def _terminal() -> Iterator["Report"]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(state: "State") -> None:
            bar.update(task, description=_line(state), completed=state.done, total=state.total)

        yield report

"""Live progress of a comparison on the error stream: one line that changes on a terminal, plain lines in a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

import typer

from themis_opt.cli.printing import duration, percent

if TYPE_CHECKING:
    from themis_opt.comparison import Progress

QUIET_SECONDS = 1.0
"""Least time between two plain lines of one policy."""


class _State:
    """Best makespan, or other time as `what` says, and bound of the policy at work, in picoseconds."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.policy, self.makespan, self.bound = "", float("inf"), 0.0

    def update(self, policy: str, makespan: float, bound: float) -> bool:
        """Take news in; whether they changed anything."""
        before = (self.policy, self.makespan, self.bound)
        if policy != self.policy:
            self.policy, self.makespan = policy, float("inf")
        self.makespan, self.bound = min(self.makespan, makespan), max(self.bound, bound)
        return before != (self.policy, self.makespan, self.bound)

    def line(self) -> str:
        """The state in words."""
        makespan = duration(self.makespan) if self.makespan < float("inf") else "-"
        if not self.bound or makespan == "-":
            return f"{self.policy}  {self.what} {makespan}"
        gap = percent(self.makespan / self.bound - 1)
        return f"{self.policy}  {self.what} {makespan}  bound {duration(self.bound)}  gap {gap}"


def tell(line: str) -> None:
    """Print a line on the error stream, if anybody still reads it."""
    with suppress(OSError):
        typer.echo(line, err=True)


@contextmanager
def live_progress(time_limit: float, what: str = "makespan") -> Iterator["Progress"]:
    """Show the reports it yields a receiver for; `what` is the time that policies make short."""
    with _terminal(time_limit, what) if sys.stderr.isatty() else _pipe(what) as report:
        yield report


@contextmanager
def _pipe(what: str) -> Iterator["Progress"]:
    state, began = _State(what), monotonic()
    shown_policy, shown_at = "", 0.0

    def report(policy: str, makespan: float, bound: float) -> None:
        nonlocal shown_policy, shown_at
        changed, now = state.update(policy, makespan, bound), monotonic()
        if changed and (policy != shown_policy or now - shown_at >= QUIET_SECONDS):
            shown_policy, shown_at = policy, now
            tell(f"{now - began:7.1f} s  {state.line()}")

    yield report
    tell(f"{monotonic() - began:7.1f} s  {state.line()}")


@contextmanager
def _terminal(time_limit: float, what: str) -> Iterator["Progress"]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    state, began = _State(what), monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=time_limit)

        def report(policy: str, makespan: float, bound: float) -> None:
            state.update(policy, makespan, bound)
            bar.update(task, description=state.line(), completed=monotonic() - began)

        yield report

"""What ``tune`` shows: trials while they run, and the best setting beside what users do today."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from themis_opt.cli.printing import durations, percent, print_json, print_table
from themis_opt.cli.progress import QUIET_SECONDS, tell
from themis_opt.tuning.history import Trial
from themis_opt.tuning.outcome import Found
from themis_opt.tuning.parameters import Choice

if TYPE_CHECKING:
    from themis_opt.tuning.search import Progress


Describe = Callable[[Choice], str]


class _Best:
    """The best trial so far, in words."""

    def __init__(self, describe: Describe) -> None:
        self.describe = describe
        self.trial: Trial | None = None

    def update(self, trial: Trial) -> bool:
        """Take a trial in; whether it is the new best."""
        better = trial.state == "complete" and (self.trial is None or trial.rank < self.trial.rank)
        if better:
            self.trial = trial
        return better

    def line(self) -> str:
        """Value and setting."""
        if self.trial is None:
            return "no trial yet"
        measured = self.trial.measurements
        value = durations([measured[0].makespan])[0] if len(measured) == 1 else f"{self.trial.value:.4f} x ideal"
        return f"best {value}: {self.describe(self.trial.choice)}"


@contextmanager
def live_trials(total: int, describe: Describe) -> Iterator["Progress"]:
    """Show the trials it yields a receiver for: a bar on a terminal, plain lines in a pipe."""
    with _bar(total, describe) if sys.stderr.isatty() else _lines(describe) as report:
        yield report


@contextmanager
def _lines(describe: Describe) -> Iterator["Progress"]:
    best, began = _Best(describe), monotonic()
    shown_at, counts = 0.0, (0, 0)

    def report(run: int, total: int, trial: Trial) -> None:
        nonlocal shown_at, counts
        counts = run, total
        if best.update(trial) and monotonic() - shown_at >= QUIET_SECONDS:
            shown_at = monotonic()
            tell(f"{shown_at - began:7.1f} s  {run}/{total} trials  {best.line()}")

    yield report
    if counts[1]:
        tell(f"{monotonic() - began:7.1f} s  {counts[0]}/{counts[1]} trials  {best.line()}")


@contextmanager
def _bar(total: int, describe: Describe) -> Iterator["Progress"]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    best = _Best(describe)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def report(run: int, total: int, trial: Trial) -> None:
            best.update(trial)
            bar.update(task, description=best.line(), completed=run, total=total)

        yield report


def print_tuned(found: Found, as_json: bool) -> None:
    """Print the best setting beside the default, and the compromises if they were asked for."""
    if as_json:
        print_json(summary(found))
        return
    rows = found.rows()
    times = durations([1000 * row[f"{found.space.measured}_ns"] for row in rows])
    settings = {"default": found.space.describe(found.space.reference), "best": found.space.describe(found.choice)}
    cells = [
        (row["setting"], row["size"], time, percent(row["utilisation"]), str(row["chunks"]), percent(row["gain"]),
         settings[row["setting"]])
        for row, time in zip(rows, times, strict=True)
    ]  # fmt: skip
    title = f"{found.space.name}: {found.num_run} settings tried, study {found.study}"
    print_table(title, ("", "size", found.space.measured, "utilisation", "chunks", "gain", "setting"), cells)
    if found.objective == "pareto":
        _print_front(found)


def _print_front(found: Found) -> None:
    several = len(found.space.cases) > 1
    values = [t.value for t in found.front]
    shown = [f"{value:.4f} x ideal" for value in values] if several else durations([1000 * v for v in values])
    cells = [
        (str(t.pieces), value, found.space.describe(t.choice)) for t, value in zip(found.front, shown, strict=True)
    ]
    time = found.space.measured
    print_table(f"compromises between {time} and chunks", ("chunks", time, "setting"), cells)


def summary(found: Found) -> dict[str, Any]:
    """The result as plain values: times in ns, fractions 0..1."""
    return {
        "study": found.study,
        "objective": found.objective,
        "trials": len(found.trials),
        "trials_run": found.num_run,
        "policy": found.policy,
        "setting": dict(found.choice),
        "description": found.space.describe(found.choice),
        "gain": found.gain,
        "results": found.rows(),
        "importances": found.importances,
        "front": [
            {"chunks": t.pieces, "value": t.value, "setting": dict(t.choice)}
            for t in (found.front if found.objective == "pareto" else ())
        ],
        "interrupted": found.interrupted,
    }

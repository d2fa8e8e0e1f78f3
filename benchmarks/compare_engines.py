"""Engines beside each other on instances of the library: ``python benchmarks/compare_engines.py``.

An engine is a file in ``engines/`` with a function ``solve(instance, sizes, seconds, watch)`` that gives every schedule
it comes to to ``watch``.  It runs in a warm process, and has so many seconds of processor, counted over its process and
those that it starts; so a busy machine takes longer and changes little else.  After them it is interrupted as by
Ctrl-C, and killed where it does not end soon.  Rows are kept in ``reports/engines/results.csv``, and what is there is
not run again.  ``--page`` writes the leaderboard and its picture from the rows.
"""

import csv
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pandas as pd
import psutil
from solver_process import warm_up

import themis_opt
from themis_opt.base.units import format_percent
from themis_opt.problem.cost import count_stages
from themis_opt.reports.rendering.charts import Axis, ecdf, save
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.study.best_known import BestKnown, Library

ENGINES = sorted(path.stem for path in (Path(__file__).parent / "engines").glob("*.py"))
REPORT = Path(__file__).parents[1] / "reports" / "engines"
COLUMNS = ("instance", "sizes", "engine", "budget_s", "makespan_ps", "seen_s", "cpu_s", "wall_s")
BUDGET = 5.0  # seconds of processor
GRACE = 1.0  # seconds of processor to wind up in, before it is killed
POLL_SECONDS = 0.05
FAMILIES, PER_FAMILY = ("all_reduce", "bulk", "equal", "kinds", "costs", "several", "paper"), 4
MOST_STAGES = 1000  # more pairs of stages than other solvers read
FACTORS = (1.0001, 1.001, 1.01, 1.05, 1.1, 1.25)  # of a performance profile: E. Dolan, J. More (2002)

Rows = Sequence[Mapping[str, str]]


class Sight(NamedTuple):
    """A makespan in picoseconds, and seconds of processor after which it came; `is_kept`: with a schedule."""

    makespan: int
    seconds: float
    is_kept: bool


class Watch:
    """Hears of schedules within the process of an engine.

    `sights`: who hears of them outside.
    """

    def __init__(self, sights: Connection) -> None:
        self._sights = sights

    def __call__(self, schedule: Schedule) -> None:
        """Keep a schedule, which must keep all rules."""
        self.progress(schedule.makespan, 0.0)
        validate(schedule)
        self._sights.send(Sight(schedule.makespan, processor_seconds(os.getpid()), True))

    def progress(self, makespan: float, bound: float) -> None:
        """Hear of the best makespan of a search that gives its schedule later."""
        self._sights.send(Sight(int(makespan), processor_seconds(os.getpid()), False))


def processor_seconds(number: int) -> float:
    """Seconds of processor that a process and its children took."""
    process, total = psutil.Process(number), 0.0
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def contest() -> list[BestKnown]:
    """Rows of collectives, one of each family after the other."""
    chosen: list[list[BestKnown]] = []
    for family in FAMILIES:
        rows = [row for row in Library().rows if row.name.rpartition("-")[0] == family]
        small = [row for row in rows if count_stages(instance_of(row)) <= MOST_STAGES]
        step = len(small) // PER_FAMILY
        chosen.append(small[step // 2 :: step][:PER_FAMILY])
    return [row for place in zip(*chosen, strict=True) for row in place]


def instance_of(row: BestKnown) -> themis_opt.Instance:
    """The instance of a row, on dimensions."""
    return themis_opt.load(Library().folder / row.file)


def run(engine: str, instance: themis_opt.Instance, sizes: str, sights: Connection) -> None:
    """Be the process of an engine."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        import_module(f"engines.{engine}").solve(instance, sizes, BUDGET, Watch(sights))
    except KeyboardInterrupt:
        print(engine, "was interrupted and kept nothing of it", file=sys.stderr)


def measure(engine: str, row: BestKnown) -> dict[str, Any] | None:
    """Let an engine solve an instance; None where it came to no schedule."""
    context, began, instance = get_context("fork"), monotonic(), instance_of(row)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(engine, instance, row.sizes, sender))
    process.start()
    sender.close()
    sights, spent = _heard(receiver, int(process.pid or 0))
    process.join()
    if not any(sight.is_kept for sight in sights):
        return None
    best = min(sight.makespan for sight in sights if sight.is_kept)
    seen = min(sight.seconds for sight in sights if sight.makespan == best)
    figures = (best, round(min(seen, BUDGET), 2), round(spent, 2), round(monotonic() - began, 2))
    return dict(zip(COLUMNS, (row.name, row.sizes, engine, BUDGET, *figures), strict=True))


def _heard(receiver: Connection, number: int) -> tuple[list[Sight], float]:
    """What an engine says, and its seconds of processor; it is ended where its budget is used up."""
    sights: list[Sight] = []
    spent, is_told = 0.0, False
    while True:
        try:
            if receiver.poll(POLL_SECONDS):
                sights.append(receiver.recv())
            spent = max(spent, processor_seconds(number))
        except (EOFError, psutil.NoSuchProcess):
            return sights, spent
        if spent > BUDGET and not is_told:
            os.kill(number, signal.SIGINT)
            is_told = True
        if spent > BUDGET + GRACE:
            process = psutil.Process(number)
            for each in [*process.children(recursive=True), process]:
                each.kill()


def keep(engine: str, row: BestKnown) -> None:
    """Run an engine on an instance, if it has no row yet, and append its row."""
    if any((done["instance"], done["sizes"], done["engine"]) == (row.name, row.sizes, engine) for done in read()):
        return
    result = measure(engine, row)
    if result is None:
        print(row.name, row.sizes, engine, "came to no schedule", file=sys.stderr)
        return
    with (REPORT / "results.csv").open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(result)


def read() -> Rows:
    """The rows so far; a file with a head is made if there is none."""
    path = REPORT / "results.csv"
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ratios(rows: Rows) -> pd.DataFrame:
    """By engine and instance, the makespan over the best one of all engines and of the library."""
    frame = pd.DataFrame(rows).astype({"makespan_ps": "int64", "seen_s": float, "cpu_s": float})
    known = {(row.name, row.sizes): row.makespan_ps for row in Library().rows}
    by_instance = frame.groupby(["instance", "sizes"])["makespan_ps"].transform("min")
    keys = zip(frame["instance"], frame["sizes"], strict=True)
    best = [min(known[key], least) for key, least in zip(keys, by_instance, strict=True)]
    return frame.assign(ratio=frame["makespan_ps"] / best)


def page(rows: Rows) -> str:
    """The leaderboard: by engine, on which share of the instances it is within each factor of the best."""
    frame = ratios(rows)
    heads = [f"within {format_percent(factor - 1)}" for factor in FACTORS]
    lines = [
        "| engine | instances | mean loss | best seen after | processor | " + " | ".join(heads) + " |",
        "|---" * (5 + len(FACTORS)) + "|",
    ]
    for engine, part in sorted(frame.groupby("engine"), key=lambda pair: pair[1]["ratio"].mean()):
        shares = [f"{100 * (part['ratio'] <= factor).mean():.0f} %" for factor in FACTORS]
        seconds = f"{part['seen_s'].median():.1f} s | {part['cpu_s'].median():.1f} s"
        loss = format_percent(part["ratio"].mean() - 1)
        lines.append(f"| {engine} | {len(part)} | {loss} | {seconds} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


def draw(rows: Rows) -> None:
    """The performance profile as a picture."""
    x = Axis("ratio", "makespan over the best", log=True)
    chart = ecdf(ratios(rows), x, "instances within this ratio", "engine")
    save(chart, REPORT / "profile.svg", f"Performance profile: {BUDGET:g} s of processor for each engine")


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        print(page(read()), end="")
        draw(read())
    else:
        warm_up()
        for known in contest():
            for name in ENGINES:
                keep(name, known)

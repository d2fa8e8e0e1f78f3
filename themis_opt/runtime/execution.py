"""Schedules run side by side by real ranks, and what the model says they take."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.base.documents import file_name, make_folder, write_atomically
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent
from themis_opt.formats.tables import to_csv
from themis_opt.formats.trace import trace_json
from themis_opt.runtime.coordinator import Coordinator, MeasuredRun
from themis_opt.runtime.program import Program, RunOptions, compile_program, prediction
from themis_opt.schedules.schedule import Schedule

RESOLVED = 0.02  # differences of predictions below it are not resolved by measurements on shared machines
SLOWEST_UNPACED_LINK = 20e6
"""Bytes per second that a link is given which nobody paces, before a stage in which no message arrives hangs."""

ReportRun = Callable[[str, int, int], None]  # told what runs, how many runs are done, and how many there are


@dataclass(frozen=True, eq=False)
class Executed:
    """One schedule, run several times."""

    name: str
    predicted: Schedule  # what the model says of the program that was run
    runs: tuple[MeasuredRun, ...]

    @property
    def predicted_seconds(self) -> float:
        """The makespan; with compute, the mean time of an iteration after the first."""
        if self.predicted.has_period:
            return _mean_period(self.predicted.task_start[:, 0] / PICOSECONDS_PER_SECOND)
        return self.predicted.makespan / PICOSECONDS_PER_SECOND

    @cached_property
    def seconds(self) -> tuple[float, ...]:
        """What every run took."""
        if not self.predicted.has_period:
            return tuple(run.seconds for run in self.runs)
        num_operations = len(self.predicted.instance.tasks) + self.predicted.plan.num_stages
        columns = np.arange(self.predicted.num_iterations) * num_operations
        return tuple(_mean_period(run.start[:, columns].mean(axis=0)) for run in self.runs)

    @property
    def measured_seconds(self) -> float:
        """The median over the runs."""
        return median(self.seconds)

    @property
    def error(self) -> float:
        """Measured over predicted, minus 1."""
        return self.measured_seconds / self.predicted_seconds - 1

    @property
    def moved(self) -> tuple[float, ...]:
        """Bytes that the busiest rank moved along each dimension."""
        return tuple(self.runs[0].moved.max(axis=0).tolist())

    @property
    def expected_bytes(self) -> tuple[float, ...]:
        """The same by the cost model."""
        schedule, ran = self.predicted, self.predicted.start.reshape(self.predicted.num_iterations, -1) >= 0
        sent = (ran * schedule.costs.sent).sum(axis=0)
        dimensions = schedule.plan.stage_dimensions
        count = len(schedule.instance.fabric.dimensions)
        return tuple(np.bincount(dimensions, weights=sent, minlength=count).tolist())

    def row(self, first: "Executed") -> dict[str, Any]:
        """Plain values for tables and JSON: times in seconds, exposed ones of iterations, and what was used.

        Speedups are relative to the first.
        """
        row: dict[str, Any] = {
            "policy": self.name,
            "predicted_s": self.predicted_seconds,
            "measured_s": self.measured_seconds,
            "fastest_s": min(self.seconds),
            "slowest_s": max(self.seconds),
            "error": self.error,
            "speedup_predicted": first.predicted_seconds / self.predicted_seconds,
            "speedup_measured": first.measured_seconds / self.measured_seconds,
            "runs": len(self.seconds),
        }
        if self.predicted.has_period:
            compute = self.predicted.instance.compute / PICOSECONDS_PER_SECOND
            row |= {f"exposed_{name}_s": row[f"{name}_s"] - compute for name in ("predicted", "measured")}
        return row | {
            "processors_busy": median(run.cpu / run.seconds for run in self.runs),
            "memory_bytes": max(run.memory for run in self.runs),
            "bytes_per_dimension": list(self.moved),
            "expected_bytes_per_dimension": list(self.expected_bytes),
        }

    @cached_property
    def measured(self) -> Schedule:
        """The median run as a schedule: every time is the mean over the ranks, which keeps all precedences."""
        run = self.runs[int(np.argsort(self.seconds)[len(self.seconds) // 2])]
        tasks = len(self.predicted.instance.tasks)
        start, end = (
            np.round(np.nan_to_num(times.mean(axis=0) * PICOSECONDS_PER_SECOND, nan=-1.0))
            .astype(np.int64)
            .reshape(self.predicted.num_iterations, -1)
            for times in (run.start, run.end)
        )
        stages = end[:, tasks:].ravel()
        return replace(
            self.predicted, start=start[:, tasks:].ravel(), end=stages, ready=stages, task_start=start[:, :tasks]
        )


def _mean_period(starts: FloatArray) -> float:
    """From the begin of the second iteration to that of the last, per iteration."""
    return float(starts[-1] - starts[1]) / (len(starts) - 2)


@dataclass(frozen=True, eq=False)
class ExecutionResult:
    """Schedules of one problem, all run by the same ranks; speedups are relative to the first."""

    executed: tuple[Executed, ...]

    def verdict(self) -> str:
        """The result of the runs in one sentence."""
        executed, rows = self.executed, self.rows()
        exact = f"all {sum(len(one.seconds) for one in executed)} runs exact"
        if len(executed) == 1:
            return f"the time of {executed[0].name} errs by {format_percent(executed[0].error)}; {exact}"
        best = min(rows, key=lambda row: float(row["measured_s"]))
        predicted, measured = best["speedup_predicted"], best["speedup_measured"]
        worst = max(abs(one.error) for one in executed)
        off = max(abs(row["speedup_measured"] / row["speedup_predicted"] - 1) for row in rows)
        factor = 1 + RESOLVED
        apart = [(a, b) for a in executed for b in executed if a.predicted_seconds * factor <= b.predicted_seconds]
        is_kept = all(a.measured_seconds < b.measured_seconds for a, b in apart)
        return (
            f"{best['policy']} is {measured:.3f}x as fast as {executed[0].name}, predicted {predicted:.3f}x; times err "
            f"by at most {format_percent(worst)}, speedups by {format_percent(off)}, "
            f"the order of policies {'is the predicted one' if is_kept else 'differs'}; {exact}"
        )

    def document(self) -> dict[str, Any]:
        """What was run and what came of it, for JSON; of one collective also its kind, bytes and NPUs."""
        instance = self.executed[0].predicted.instance
        document = {"verdict": self.verdict(), "rows": self.rows()}
        if instance.tasks or len(instance.exchanges) > 1:
            return document
        (exchange,) = instance.exchanges
        npus = math.prod(instance.fabric.sizes[k] for k in exchange.span)
        return document | {"collective": {"kind": exchange.kind.value, "bytes": exchange.size, "npus": npus}}

    def rows(self) -> list[dict[str, Any]]:
        """One row per schedule, for tables and JSON."""
        return [executed.row(self.executed[0]) for executed in self.executed]


def execute(
    schedules: Mapping[str, Schedule],
    coordinator: Coordinator,
    options: RunOptions | None = None,
    *,
    repeat: int = 5,
    seed: int = 0,
    progress: ReportRun | None = None,
) -> ExecutionResult:
    """Run schedules of one problem in turn, several times.

    Raises RankFailure if a rank dies, hangs, sends garbage, or ends with a wrong result, and InputError if a schedule
    cannot be run.

    `schedules`: by name; speedups are relative to the first.
    `coordinator`: the ranks, not yet connected.
    `repeat`: runs of each, after one that is not counted.
    `seed`: of the data, which differ in every run.
    """
    options = options or RunOptions()
    programs = {name: compile_program(schedule, options) for name, schedule in schedules.items()}
    predicted = {name: prediction(schedule, options) for name, schedule in schedules.items()}
    coordinator.connect(next(iter(programs.values())))
    for number, (name, program) in enumerate(programs.items()):
        coordinator.load(number, program, name)
    measured: dict[str, list[MeasuredRun]] = {name: [] for name in schedules}
    total = len(schedules) * repeat
    for turn in range(-1, repeat):
        for number, (name, program) in enumerate(programs.items()):
            if progress is not None:
                progress(name, max(turn, 0) * len(schedules) + (number if turn >= 0 else 0), total)
            run = coordinator.run(number, seed + turn + 1, _longest(program, predicted[name]))
            if turn >= 0:
                measured[name].append(run)
    return ExecutionResult(tuple(Executed(name, predicted[name], tuple(runs)) for name, runs in measured.items()))


def _longest(program: Program, predicted: Schedule) -> float:
    costs = predicted.costs
    longest = float((costs.occupancy + costs.lag).max()) / PICOSECONDS_PER_SECOND
    if program.pace is None:  # the network may be slower than the model, in bytes as in latency
        longest += float(costs.sent.max()) / SLOWEST_UNPACED_LINK
    return max([longest, *program.durations])


def write_execution(folder: Path, done: ExecutionResult) -> list[Path]:
    """Write tables and traces of a run into a folder; returns the files written."""
    make_folder(folder)
    rows = [
        {name: ";".join(f"{v:.0f}" for v in value) if isinstance(value, list) else value for name, value in row.items()}
        for row in done.rows()
    ]
    texts = {"execution.json": json.dumps(done.document(), indent=2) + "\n", "execution.csv": to_csv(rows)}
    for executed in done.executed:
        if (trace := trace_json(executed.measured)) is not None:
            texts[f"{file_name(executed.name)}.trace.json"] = trace
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in texts]

"""Everything written about a schedule of iterations, in one folder."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.documents import write_atomically
from themis_opt.formats.bundle import MAX_PICTURED_STAGES, PICTURES
from themis_opt.formats.iteration_json import IterationSummary, iteration_document
from themis_opt.formats.iteration_span import unfolded
from themis_opt.formats.iteration_tables import task_rows
from themis_opt.formats.iteration_trace import iteration_trace
from themis_opt.formats.tables import stage_rows, to_csv
from themis_opt.iterations.schedule import IterationSchedule

if TYPE_CHECKING:
    from themis_opt.iterations.comparison import IterationComparison, IterationResult


def write_iteration_comparison(
    folder: Path, comparison: "IterationComparison", limits: Mapping[str, Any]
) -> list[Path]:
    """Write the table of a comparison and the best schedule; returns the files written."""
    rows = [result.row() for result in comparison.results]
    files = {
        folder / "comparison.json": json.dumps(rows, indent=2) + "\n",
        folder / "comparison.csv": to_csv(rows),
    }
    for path, content in files.items():
        write_atomically(path, content)
    best = comparison.best
    title = f"{comparison.instance.name or 'instance'}, {best.policy}"
    return [*files, *write_iteration_schedule(folder, best.schedule, title, _summary(best, comparison, limits))]


def _summary(
    result: "IterationResult", comparison: "IterationComparison", limits: Mapping[str, Any]
) -> IterationSummary:
    schedule = result.schedule
    return IterationSummary(
        policy=result.policy,
        iteration_ns=result.iteration_time / 1000,
        exposed_ns=schedule.exposed / 1000,
        overlap=schedule.overlap,
        utilisation=schedule.utilisation,
        bounds_ns={name: value / 1000 for name, value in comparison.bounds.items()},
        gap=result.gap,
        exposed_gap=result.exposed_gap,
        status=result.status,
        settings=dict(limits),
    )


def write_iteration_schedule(
    folder: Path, schedule: IterationSchedule, title: str, summary: IterationSummary | None = None
) -> list[Path]:
    """Write schedule, tasks and stages of one iteration, trace and pictures; returns the files written.

    Above :data:`themis_opt.formats.bundle.MAX_PICTURED_STAGES` stages in an iteration there are no pictures, and those
    of an earlier schedule are removed.
    """
    row = schedule.num_iterations - 2
    begin = int(schedule.task_start[row, 0])
    makers: dict[str, Callable[[], str]] = {
        "schedule.json": lambda: json.dumps(iteration_document(schedule, summary)) + "\n",
        "tasks.csv": lambda: to_csv(task_rows(schedule)),
        "stages.csv": lambda: to_csv(stage_rows(unfolded(schedule, range(row, row + 1), begin))),
    }
    pictured = schedule.plan.chunks.num_stages <= MAX_PICTURED_STAGES
    if pictured:
        makers["trace.json"] = lambda: json.dumps(iteration_trace(schedule)) + "\n"
    else:
        for name in PICTURES:
            (folder / name).unlink(missing_ok=True)
    for name, make in makers.items():
        write_atomically(folder / name, make())
    return [folder / name for name in makers] + (_pictures(folder, schedule, title) if pictured else [])


def _pictures(folder: Path, schedule: IterationSchedule, title: str) -> list[Path]:
    from themis_opt.formats.gantt import save_figure
    from themis_opt.formats.iteration_gantt import iteration_gantt

    figure = iteration_gantt(schedule, title)
    files = [folder / name for name in PICTURES[1:]]
    for path in files:
        save_figure(figure, path)
    return files

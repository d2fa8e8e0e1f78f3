"""Schedules as flat tables, one row per stage or per task, and rows as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.base.documents import harmless
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.formats.timeline import last_iterations
from themis_opt.problem.phases import Phase
from themis_opt.schedules.schedule import Schedule

MAX_TABULATED_STAGES = 200_000
"""Stages of an iteration up to which they are written as tables; they would take a hundred megabytes for a million."""


def task_rows(schedule: Schedule) -> list[dict[str, Any]]:
    """One row per task of the last complete iteration, times in ns from its start on."""
    start, end = ((times[0] / PICOSECONDS_PER_NANOSECOND).tolist() for times in last_iterations(schedule).tasks)
    return [
        {"task": task.name, "start_ns": begin, "end_ns": finish}
        for task, begin, finish in zip(schedule.instance.tasks, start, end, strict=True)
    ]


def phase_name(phase: Phase) -> str:
    """How files spell a phase, such as ``reduce_scatter``."""
    return phase.name.lower()


def phase_title(phase: Phase) -> str:
    """How legends spell a phase, such as ``reduce-scatter``."""
    return phase_name(phase).replace("_", "-")


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal fields as CSV (RFC 4180, lines end with a line feed); no rows, no text."""
    if not rows:
        return ""
    text = io.StringIO()
    writer, names = csv.writer(text, lineterminator="\n"), list(rows[0])
    writer.writerow(names)
    writer.writerows(zip(*(_harmless([row[name] for row in rows]) for name in names), strict=True))
    return text.getvalue()


def _harmless(column: list[Any]) -> list[Any]:
    """The cells of a column; its texts are few, and its cells may be many."""
    texts = {cell: harmless(cell) for cell in {cell for cell in column if isinstance(cell, str)}}
    return [texts[cell] if isinstance(cell, str) else cell for cell in column] if texts else column


def stages_csv(schedule: Schedule) -> str | None:
    """The stages as the text of a file, unless there are more than spreadsheets hold."""
    return to_csv(schedule.stage_rows()) if is_tabulated(schedule) else None


def is_tabulated(schedule: Schedule) -> bool:
    """Whether tables of single stages are written beside a schedule; ``export --to csv`` writes any."""
    return schedule.plan.num_stages <= MAX_TABULATED_STAGES


def tasks_csv(schedule: Schedule) -> str | None:
    """The compute tasks as the text of a file, where there are any."""
    return to_csv(task_rows(schedule)) if schedule.has_period else None

"""Schedules as flat tables, one row per stage or per task, and rows as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.base.documents import harmless
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.formats.timeline import last_iterations
from themis_opt.schedules.schedule import Schedule

MAX_TABULATED_STAGES = 200_000
"""Stages of an iteration up to which they are written as tables; they would take a hundred megabytes for a million."""


def task_columns(schedule: Schedule) -> dict[str, list[Any]]:
    """The tasks of the last complete iteration, times in ns from its start on."""
    start, end = ((times[0] / PICOSECONDS_PER_NANOSECOND).tolist() for times in last_iterations(schedule).tasks)
    return {"task": [task.name for task in schedule.instance.tasks], "start_ns": start, "end_ns": end}


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal fields as CSV; no rows, no text."""
    return columns_csv({name: [row[name] for row in rows] for name in rows[0]}) if rows else ""


def columns_csv(columns: Mapping[str, list[Any]]) -> str:
    """Columns as CSV (RFC 4180, lines end with a line feed)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_harmless, columns.values()), strict=True))
    return text.getvalue()


def _harmless(column: list[Any]) -> list[Any]:
    """The cells of a column; its texts are few, and its cells may be many."""
    kinds = set(map(type, column))
    if kinds == {str}:
        texts = {cell: harmless(cell) for cell in set(column)}
        return [texts[cell] for cell in column]
    return column if kinds <= {int, float} else [harmless(cell) for cell in column]


def stages_csv(schedule: Schedule) -> str | None:
    """The stages as the text of a file, unless there are more than spreadsheets hold."""
    return columns_csv(schedule.stage_columns()) if is_tabulated(schedule) else None


def is_tabulated(schedule: Schedule) -> bool:
    """Whether tables of single stages are written beside a schedule; ``export --to csv`` writes any."""
    return schedule.plan.num_stages <= MAX_TABULATED_STAGES


def tasks_csv(schedule: Schedule) -> str | None:
    """The compute tasks as the text of a file, where there are any."""
    return columns_csv(task_columns(schedule)) if schedule.has_period else None

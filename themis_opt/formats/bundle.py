"""Everything written about a schedule, in one folder."""

import json
from pathlib import Path

from themis_opt.base.documents import write_atomically
from themis_opt.base.registries import Registry
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.formats.timeline import is_pictured
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import Summary, schedule_document

PICTURES = ("gantt.png", "gantt.svg")

WRITERS = Registry(
    "themis_opt.writers",
    {
        "order.json": "themis_opt.formats.order_table:order_json",
        "order.csv": "themis_opt.formats.order_table:order_csv",
        "stages.csv": "themis_opt.formats.tables:stages_csv",
        "tasks.csv": "themis_opt.formats.tables:tasks_csv",
        "trace.json": "themis_opt.formats.trace:trace_json",
    },
)
"""Files beside the schedule by name: functions from a schedule to their text, or to None where it has no such file."""


def write_schedule(folder: Path, schedule: Schedule, title: str, summary: Summary | None = None) -> list[Path]:
    """Write the schedule, what :data:`WRITERS` make of it, and Gantt pictures; returns the files written.

    Above :data:`~themis_opt.formats.timeline.MAX_PICTURED_BARS` there are no pictures.  Files of an earlier schedule
    that this one does not have are removed.
    """
    files = [folder / "schedule.json"]
    write_atomically(files[0], json.dumps(schedule_document(schedule, summary)) + "\n")
    for name in WRITERS:
        content = WRITERS.load(name)(schedule)
        if content is not None:
            write_atomically(folder / name, content)
            files.append(folder / name)
    if is_pictured(schedule):
        bounds = summary.bounds_ns.values() if summary else ()
        files += _draw(folder, schedule, title, max(bounds, default=None))
    for name in (*WRITERS, *PICTURES):
        if folder / name not in files:
            (folder / name).unlink(missing_ok=True)
    return files


def _draw(folder: Path, schedule: Schedule, title: str, bound_ns: float | None) -> list[Path]:
    from themis_opt.formats.gantt import gantt, save_figure

    bound = None if bound_ns is None else PICOSECONDS_PER_NANOSECOND * bound_ns
    figure, files = gantt(schedule, title, bound), [folder / name for name in PICTURES]
    for path in files:
        save_figure(figure, path)
    return files

"""Everything written about a schedule, in one folder."""

import json
from pathlib import Path

from themis_opt.base.documents import write_atomically
from themis_opt.base.registries import Registry
from themis_opt.schedules.envelope import Summary
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import schedule_document

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


def write_schedule(folder: Path, schedule: Schedule, summary: Summary | None = None) -> list[Path]:
    """Write the schedule and what :data:`WRITERS` make of it; returns the files written.

    Files of an earlier schedule that this one does not have are removed.
    """
    files = [folder / "schedule.json"]
    write_atomically(files[0], json.dumps(schedule_document(schedule, summary)) + "\n")
    for name in WRITERS:
        content = WRITERS.load(name)(schedule)
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write_atomically(folder / name, content)
            files.append(folder / name)
    return files

"""Everything written about a schedule, in one folder."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.documents import write_atomically
from themis_opt.formats.order_table import order_rows, order_table
from themis_opt.formats.schedule_json import Summary, schedule_document
from themis_opt.formats.tables import stage_rows, to_csv
from themis_opt.formats.trace import chrome_trace
from themis_opt.schedule import Schedule

if TYPE_CHECKING:
    from themis_opt.comparison import Comparison, Result

MAX_PICTURED_STAGES = 100_000
"""Above this many stages, trace and pictures would not be readable and are left out."""

PICTURES = ("trace.json", "gantt.png", "gantt.svg")


def write_comparison(folder: Path, comparison: "Comparison", limits: Mapping[str, Any]) -> list[Path]:
    """Write the table of a comparison and the best schedule; returns the files written."""
    rows = [result.row() for result in comparison.results]
    files = [
        _write(folder / "comparison.json", json.dumps(rows, indent=2) + "\n"),
        _write(folder / "comparison.csv", to_csv(rows)),
    ]
    best = comparison.best
    title = f"{comparison.instance.name or 'instance'}, {best.policy}"
    return files + write_schedule(folder, best.schedule, title, _summary(best, comparison, limits))


def _summary(result: "Result", comparison: "Comparison", limits: Mapping[str, Any]) -> Summary:
    return Summary(
        policy=result.policy,
        makespan_ns=result.makespan / 1000,
        utilisation=result.schedule.utilisation,
        bounds_ns={name: value / 1000 for name, value in comparison.bounds.items()},
        gap=result.gap,
        status=result.status,
        settings=dict(limits),
    )


def write_schedule(folder: Path, schedule: Schedule, title: str, summary: Summary | None = None) -> list[Path]:
    """Write schedule, order table, stages, trace and Gantt pictures; returns the files written.

    Above :data:`MAX_PICTURED_STAGES` there are no pictures, and those of an earlier schedule are removed.
    """
    makers: dict[str, Callable[[], str]] = {
        "schedule.json": lambda: json.dumps(schedule_document(schedule, summary)) + "\n",
        "order.json": lambda: json.dumps(order_table(schedule)) + "\n",
        "order.csv": lambda: to_csv(order_rows(schedule)),
        "stages.csv": lambda: to_csv(stage_rows(schedule)),
    }
    pictured = schedule.plan.num_stages <= MAX_PICTURED_STAGES
    if pictured:
        makers["trace.json"] = lambda: json.dumps(chrome_trace(schedule)) + "\n"
    else:
        for name in PICTURES:
            (folder / name).unlink(missing_ok=True)
    files = [_write(folder / name, make()) for name, make in makers.items()]
    return files + (_pictures(folder, schedule, title) if pictured else [])


def _pictures(folder: Path, schedule: Schedule, title: str) -> list[Path]:
    from themis_opt.formats.gantt import gantt, save_figure

    figure = gantt(schedule, title)
    files = [folder / name for name in PICTURES[1:]]
    for path in files:
        save_figure(figure, path)
    return files


def _write(path: Path, content: str) -> Path:
    write_atomically(path, content)
    return path

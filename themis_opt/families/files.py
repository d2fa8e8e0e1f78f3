"""Files of a comparison that are the same in every family whose schedules are timed operations."""

import json
from pathlib import Path
from typing import Any

from themis_opt.base.documents import write_atomically
from themis_opt.formats import exports
from themis_opt.formats.exports import Exported, make_exporter
from themis_opt.formats.tables import to_csv
from themis_opt.formats.trace import MAX_TRACED_STAGES, operations_trace
from themis_opt.schedules.results import PolicyComparison

SHARED = ("fjsp", "trace")  # formats of every family


def export(schedule: Any, to: str, folder: Path, *, check: bool = False) -> Exported:
    """Write a schedule by the exporter of a specification."""
    exporter = make_exporter(to)
    files = exports.export(schedule, exporter, folder)
    facts = exports.in_sentences(exporter.check(schedule, folder)) if check else []
    return Exported(files, facts, tuple(dict.fromkeys(exporter.notes(schedule))))


def write_operations(folder: Path, compared: PolicyComparison[Any]) -> list[Path]:
    """Write comparison.json and comparison.csv, and of the best schedule trace.json.

    Schedules of more than :data:`~themis_opt.formats.trace.MAX_TRACED_STAGES` operations have no trace, since viewers
    do not load it.
    """
    rows, timed = [result.row() for result in compared.results], compared.best.schedule.timed
    write_atomically(folder / "comparison.json", json.dumps(rows, indent=2) + "\n")
    write_atomically(folder / "comparison.csv", to_csv(rows))
    names = ["comparison.json", "comparison.csv"]
    (folder / "trace.json").unlink(missing_ok=True)
    if len(timed.start) <= MAX_TRACED_STAGES:
        write_atomically(folder / "trace.json", operations_trace(timed, compared.problem.name))
        names.append("trace.json")
    return [folder / one for one in names]

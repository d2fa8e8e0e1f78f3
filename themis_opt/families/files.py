"""Files of a comparison that are the same in every family whose schedules are timed operations."""

import json
from pathlib import Path
from typing import Any

from themis_opt.base.documents import make_folder, write_atomically
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.formats.exports import Exported
from themis_opt.formats.tables import to_csv
from themis_opt.formats.trace import MAX_TRACED_STAGES
from themis_opt.schedules.results import PolicyComparison
from themis_opt.schedules.timed import TimedOperations


def export_trace(timed: TimedOperations, name: str, folder: Path) -> Exported:
    """Write trace.json, which Perfetto shows."""
    make_folder(folder)
    write_atomically(folder / "trace.json", json.dumps(operations_trace(timed, name)) + "\n")
    return Exported([folder / "trace.json"])


def operations_trace(timed: TimedOperations, name: str) -> dict[str, Any]:
    """The operations as a trace in the Chrome JSON format, one track for each resource; times in microseconds."""
    tracks = [
        {"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": resource}}
        for number, resource in enumerate(timed.resources)
    ]
    columns = (map(timed.label, range(len(timed.start))), timed.operations.resource.tolist(), timed.start.tolist())
    durations = timed.operations.duration.tolist()
    slices = [
        {
            "ph": "X",
            "pid": 1,
            "tid": resource,
            "name": label,
            "ts": start / PICOSECONDS_PER_MICROSECOND,
            "dur": duration / PICOSECONDS_PER_MICROSECOND,
        }
        for label, resource, start, duration in zip(*columns, durations, strict=True)
    ]
    return {"traceEvents": [*tracks, *slices], "displayTimeUnit": "ns", "otherData": {"problem": name}}


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
        export_trace(timed, compared.problem.name, folder)
        names.append("trace.json")
    return [folder / one for one in names]

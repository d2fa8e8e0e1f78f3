"""Files of a comparison that are the same in every family whose schedules are timed operations."""

import json
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

from themis_opt.base.documents import make_folder, write_atomically
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.formats import exports
from themis_opt.formats.exports import Exported, make_exporter
from themis_opt.formats.tables import to_csv
from themis_opt.formats.trace import MAX_TRACED_STAGES
from themis_opt.schedules.results import PolicyComparison
from themis_opt.schedules.timed import TimedOperations

JOB_SHOP = "fjsp"


def export(schedule: Any, to: str, folder: Path, *, check: bool = False) -> Exported:
    """Write a schedule by the exporter of a specification."""
    exporter = make_exporter(to)
    files = exports.export(schedule, exporter, folder)
    facts = exports.in_sentences(exporter.check(schedule, folder)) if check else []
    return Exported(files, facts, tuple(dict.fromkeys(exporter.notes(schedule))))


def export_trace(timed: TimedOperations, name: str, folder: Path) -> Exported:
    """Write the operations as trace.json, which Perfetto shows, one track for each resource; times in microseconds.

    Events are written as text at once: as objects, each would take twice as long as its place in the schedule.
    """
    tracks = [
        f'{{"ph": "M", "pid": 1, "tid": {number}, "name": "thread_name", "args": {{"name": {json.dumps(resource)}}}}}'
        for number, resource in enumerate(timed.resources)
    ]
    labels = map(encode_basestring_ascii, map(timed.label, range(len(timed.start))))
    numbers = (timed.operations.resource, timed.start, timed.operations.duration)
    slices = [
        f'{{"ph": "X", "pid": 1, "tid": {resource}, "name": {label}, '
        f'"ts": {start / PICOSECONDS_PER_MICROSECOND}, "dur": {duration / PICOSECONDS_PER_MICROSECOND}}}'
        for label, resource, start, duration in zip(labels, *(column.tolist() for column in numbers), strict=True)
    ]
    events, about = ",\n".join([*tracks, *slices]), json.dumps({"problem": name})
    make_folder(folder)
    text = f'{{"traceEvents": [\n{events}\n], "displayTimeUnit": "ns", "otherData": {about}}}\n'
    write_atomically(folder / "trace.json", text)
    return Exported([folder / "trace.json"])


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

"""Exporters whose files are single views of a schedule: tables, the order table, and a trace with few tracks."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from themis_opt.base.documents import read_json, read_text
from themis_opt.base.errors import InvalidSchedule
from themis_opt.formats.order_table import order_json, order_rows
from themis_opt.formats.tables import task_rows, to_csv
from themis_opt.formats.trace import chrome_trace
from themis_opt.schedules.schedule import Schedule

TableRows = Sequence[Mapping[str, Any]]

EXPORTED_TABLES: Mapping[str, Callable[[Schedule], TableRows]] = {
    "stages": Schedule.stage_rows,
    "order": order_rows,
    "tasks": task_rows,
}

ORDER_SCHEMA = Path(__file__).with_name("order.schema.json")


def order_schema() -> str:
    """The JSON Schema of order tables."""
    return ORDER_SCHEMA.read_text(encoding="utf-8")


def tables(schedule: Schedule) -> Iterator[tuple[str, TableRows]]:
    """The tables that have rows."""
    for name, make in EXPORTED_TABLES.items():
        if name != "tasks" or schedule.has_period:
            yield name, make(schedule)


@dataclass(frozen=True)
class Csv:
    """Tables of stages, issue orders and compute tasks as CSV."""

    endings: ClassVar[tuple[str, ...]] = ("csv",)

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """One file per table."""
        for name, rows in tables(schedule):
            yield f"{name}.csv", to_csv(rows)

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        yield "times are nanoseconds, sizes bytes of one NPU"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[str]:
        """Compare the rows of the files."""
        for name, rows in tables(schedule):
            path = folder / f"{name}.csv"
            written = list(csv.DictReader(io.StringIO(read_text(path, "CSV"), newline="")))
            _same(path, written, [{key: str(value) for key, value in row.items()} for row in rows])
            yield f"{path.name}: {len(rows)} rows"


def _same(path: Path, rows: TableRows, expected: TableRows) -> None:
    for number, (row, expected_row) in enumerate(zip(rows, expected, strict=False)):
        if dict(row) != dict(expected_row):
            raise InvalidSchedule("table", f"row {number} differs from that of the schedule", source=str(path))
    if len(rows) != len(expected):
        raise InvalidSchedule("table", f"has {len(rows)} rows, the schedule {len(expected)}", source=str(path))


@dataclass(frozen=True)
class RowOrder:
    """The order table: what a runtime needs to follow a schedule, as JSON with a documented schema."""

    endings: ClassVar[tuple[str, ...]] = ("json",)

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """The table and its JSON Schema."""
        yield "order.json", order_json(schedule)
        yield ORDER_SCHEMA.name, ORDER_SCHEMA.read_text(encoding="utf-8")

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        yield "issue the stages of each dimension in turn, one in flight, none before the one before it on its path"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[str]:
        """Compare the file."""
        path = folder / "order.json"
        if read_json(path) != json.loads(order_json(schedule)):
            raise InvalidSchedule("table", "differs from that of the schedule", source=str(path))
        yield f"{path.name}: the order table of the schedule"


@dataclass(frozen=True)
class Trace:
    """Trace for Perfetto and chrome://tracing with as few tracks as results are on their way at once."""

    endings: ClassVar[tuple[str, ...]] = ("json",)

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """The file."""
        yield "trace.json", json.dumps(chrome_trace(schedule)) + "\n"

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        yield "open it on ui.perfetto.dev; nothing leaves the browser"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[str]:
        """Check that slices of a track never overlap, which viewers would draw wrong or drop."""
        path = folder / "trace.json"
        tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for event in read_json(path)["traceEvents"]:
            if event["ph"] == "X":
                tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        for place, slices in tracks.items():
            slices.sort()
            for (_, end), (begin, _) in pairwise(slices):
                if begin < end - _EXPORT_ROUNDING:
                    raise InvalidSchedule("trace", f"slices of track {place} overlap at {begin} us", source=str(path))
        yield f"{path.name}: {sum(map(len, tracks.values()))} slices on {len(tracks)} tracks, none overlap"


_EXPORT_ROUNDING = 1e-6  # microseconds, which is one picosecond: sums of decimal numbers in binary

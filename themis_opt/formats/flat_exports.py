"""Exporters whose files are single views of a schedule: tables, the order table, and a trace with few tracks."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InvalidSchedule
from themis_opt.formats.exports import Exporter
from themis_opt.formats.order_table import order_columns, order_json
from themis_opt.formats.tables import columns_csv, tasks_csv
from themis_opt.formats.trace import chrome_trace, operations_trace
from themis_opt.schedules.schedule import Schedule

ORDER_SCHEMA = Path(__file__).with_name("order.schema.json")


def order_schema() -> str:
    """The JSON Schema of order tables."""
    return ORDER_SCHEMA.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Csv(Exporter):
    """Tables of stages, issue orders and compute tasks as CSV."""

    endings: ClassVar[tuple[str, ...]] = ("csv",)
    note: ClassVar[str] = "times are nanoseconds, sizes bytes of one NPU"

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """One file per table that has rows."""
        yield "stages.csv", columns_csv(schedule.stage_columns())
        yield "order.csv", columns_csv(order_columns(schedule))
        if (tasks := tasks_csv(schedule)) is not None:
            yield "tasks.csv", tasks


@dataclass(frozen=True)
class RowOrder(Exporter):
    """The order table: what a runtime needs to follow a schedule, as JSON with a documented schema."""

    endings: ClassVar[tuple[str, ...]] = ("json",)
    note: ClassVar[str] = (
        "issue the stages of each dimension in turn, one in flight, none before the one before it on its path"
    )

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """The table and its JSON Schema."""
        yield "order.json", order_json(schedule)
        yield ORDER_SCHEMA.name, ORDER_SCHEMA.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Trace(Exporter):
    """Trace for Perfetto and chrome://tracing with as few tracks as results are on their way at once."""

    endings: ClassVar[tuple[str, ...]] = ("json",)
    note: ClassVar[str] = "open it on ui.perfetto.dev; nothing leaves the browser"

    def files(self, schedule: Any) -> Iterator[tuple[str, str]]:
        """The file."""
        if isinstance(schedule, Schedule):
            yield "trace.json", json.dumps(chrome_trace(schedule)) + "\n"
        else:
            yield "trace.json", operations_trace(schedule.timed, schedule.problem.name)

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
                if begin < end - 1e-6:  # microseconds, which is one picosecond: sums of decimal numbers in binary
                    raise InvalidSchedule("trace", f"slices of track {place} overlap at {begin} us", source=str(path))
        yield f"{path.name}: {sum(map(len, tracks.values()))} slices on {len(tracks)} tracks, none overlap"

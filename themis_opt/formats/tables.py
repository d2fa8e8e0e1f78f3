"""Schedules as flat tables: one row per stage, and rows as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.formats.labels import phase_name
from themis_opt.schedule import Schedule

PICOSECONDS_PER_NANOSECOND = 1000


def stage_rows(schedule: Schedule) -> list[dict[str, Any]]:
    """One row per stage, by collective, chunk and position along the path of the chunk.

    Returns
    -------
    list of dict
        `collective`, `phase` and `dimension` are names, `chunk` and `position` count from 0.  `start_ns`,
        `end_ns` and `ready_ns` say when the stage takes its dimension, gives it back and has its result;
        `bytes_sent` is what each NPU sends, `bytes_held_before` what it holds of the chunk until then.
    """
    instance, costs = schedule.instance, schedule.costs
    times = (schedule.start, schedule.end, schedule.ready)
    columns = (array / PICOSECONDS_PER_NANOSECOND for array in times)
    numbers = zip(*(array.tolist() for array in (*columns, costs.sent, costs.held_before)), strict=True)
    return [
        {
            "collective": instance.labels[stage.collective],
            "chunk": stage.chunk,
            "position": stage.position,
            "phase": phase_name(stage.phase),
            "dimension": instance.network.dimension_names[stage.dimension],
            "start_ns": start,
            "end_ns": end,
            "ready_ns": ready,
            "bytes_sent": sent,
            "bytes_held_before": held,
        }
        for stage, (start, end, ready, sent, held) in zip(schedule.plan.stages(instance), numbers, strict=True)
    ]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal fields as CSV (RFC 4180, lines end with a line feed); no rows, no text."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

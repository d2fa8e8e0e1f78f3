"""The picture on the page of a comparison: the best schedule above the baseline on one axis of time, to look into."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from themis_opt.base.arrays import IntArray
from themis_opt.base.units import format_short_time, format_size, time_unit
from themis_opt.formats.timeline import Timeline, pictured
from themis_opt.problem.phases import Phase
from themis_opt.reports.pictures import bar_frame
from themis_opt.reports.rendering.charts import Chart, timeline
from themis_opt.reports.rendering.document import Figure, Section
from themis_opt.study.comparison import Comparison, Result

MOST_BARS = 6_000
"""Bars that a browser moves without delay; schedules of more stages and tasks have no picture."""


def schedule_section(comparison: Comparison) -> Section:
    """The best schedule beside the first one, as far as they are two and a browser can show them."""
    shown = _shown(comparison)
    if not shown:
        return Section("Schedule", ("The schedules have too many bars for a picture.",), is_open=True)
    figure = Figure(
        "schedule",
        " and ".join(f"{result.policy}: {format_short_time(result.makespan)}" for result in shown),
        _timeline(comparison, shown),
        "Turn the wheel to zoom, drag to move, double-click to see all again; click a bar to follow its chunk through "
        "the dimensions, and beside the bars to see all chunks.  Bars are fainter while chunks grow.",
    )
    return Section("Schedule", figures=(figure,), is_open=True)


def _shown(comparison: Comparison) -> list[Result]:
    """The best result and the first one, as far as they are two and a browser can show them."""
    chosen = [comparison.best]
    if comparison.results[0] is not comparison.best:
        chosen.append(comparison.results[0])
    bars = [sum(len(b.row) for b in pictured(result.schedule).bars if b.kind != "wait") for result in chosen]
    while chosen and sum(bars[: len(chosen)]) > MOST_BARS:
        chosen.pop()
    return chosen


def _timeline(comparison: Comparison, shown: Sequence[Result]) -> Chart:
    timelines = {result.policy: pictured(result.schedule) for result in shown}
    unit, scale = time_unit(max(one.length for one in timelines.values()))
    frame = pd.concat([_bars(policy, one, scale) for policy, one in timelines.items()], ignore_index=True)
    marks = [(max(comparison.bounds.values()) / scale, "bound")]
    if comparison.best.schedule.has_period:
        marks = [(float(end) / scale, "period") for end in next(iter(timelines.values())).periods[1:]]
    return timeline(frame, f"time ({unit})", pd.DataFrame(marks, columns=["time", "label"]))


def _bars(policy: str, shown: Timeline, scale: int) -> pd.DataFrame:
    schedule, plan, numbers = shown.schedule, shown.schedule.plan, shown.stage_in_plan
    launch, chunk = plan.launch_of_stage[numbers], plan.chunk_of_stage[numbers]
    counts = [len(plan.chunks[number].sizes) for number in launch]
    collectives = [schedule.launched[number].name for number in launch]
    names = [f"{policy} · {name}" for name in (*("compute" for _ in shown.compute_rows), *shown.lane_names)]
    frame = bar_frame(shown, shown.stage_bars, names, scale).assign(
        series=collectives,
        key=[f"{policy} {number} {part}" for number, part in zip(launch, chunk, strict=True)],
        collective=collectives,
        chunk=[f"{part} of {count}" for part, count in zip(chunk, counts, strict=True)],
        phase=[Phase(phase).name.lower().replace("_", "-") for phase in plan.phases(schedule.instance)[numbers]],
        sent=[format_size(round(size)) for size in schedule.costs.sent[numbers]],
        takes=[format_short_time(time) for time in shown.end - shown.start],
        waited=[format_short_time(time) for time in _waits(shown)],
    )
    stages = frame[shown.end > shown.start].sort_values("row", key=lambda row: row.map(names.index), kind="stable")
    if not shown.compute_rows:
        return stages
    tasks = bar_frame(shown, shown.task_bars, names, scale).assign(series="compute", task=shown.task_bars.label)
    return pd.concat([tasks, stages])


def _waits(shown: Timeline) -> IntArray:
    """How long each stage waits for its dimension after its input is there; 0 for the first of a chunk."""
    position = shown.schedule.plan.positions[shown.stage_in_plan]
    waits = np.zeros(len(shown.stages), dtype=np.int64)
    later = np.flatnonzero(position[1:] > position[:-1]) + 1
    waits[later] = np.maximum(shown.start[later] - shown.ready[later - 1], 0)
    return waits

"""Pictures of problems of all families: schedules as bars along time, and what losses leave of the speed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.units import decimal_size_unit, format_link, format_percent, format_short_time, time_unit
from themis_opt.formats.timeline import Bars, Timeline, is_backward, is_pictured, pictured
from themis_opt.graphs.bounds import alike_nodes
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule
from themis_opt.graphs.slots import SlotPlan
from themis_opt.pipelines.problem import TRANSFERS, ActionKind
from themis_opt.pipelines.schedule import PipelineSchedule
from themis_opt.problem.phases import growing
from themis_opt.reports.rendering.charts import (
    BAR_COLUMNS,
    WIDTH,
    Axis,
    Chart,
    StackedChart,
    lines,
    save,
    stacked,
    timeline,
)
from themis_opt.reports.rendering.document import Figure, Section
from themis_opt.schedules.memory import changes_memory, memory_curves
from themis_opt.schedules.schedule import Schedule

ACTION_TITLES = {
    ActionKind.FORWARD: "forward",
    ActionKind.BACKWARD: "backward",
    ActionKind.INPUTS: "gradients of inputs",
    ActionKind.WEIGHTS: "gradients of weights",
    ActionKind.OFFLOAD: "to the host",
    ActionKind.LOAD: "from the host",
}
GANTT = "gantt.svg"
STRIP, MOST_STEPS = 80, 400  # pixels of a curve below a Gantt picture, and its most steps: more would hide it
LATER_PARTS = 0.55  # opacity of actions of the last part of a stage; those between are in between
MOST_LINK_LINES, SHADES = 40, 50  # rows of links, of more the busiest, and shades of chunks that an eye tells apart
MOST_LOSSES = 40  # bars of lost parts


Picture = tuple[str, Chart | StackedChart]  # a title and what stands below it


def pipeline_chart(schedule: PipelineSchedule) -> StackedChart:
    """What each stage does over time, and the activations that it keeps."""
    pipeline, (unit, scale) = schedule.pipeline, time_unit(schedule.makespan)
    sizes, size = decimal_size_unit(max(schedule.peaks()))
    bars, kept = [], []
    for stage, order in enumerate(schedule.orders):
        first, last = pipeline.parts_of[stage][0], pipeline.parts_of[stage][-1]
        kept.append((f"stage {stage}", 0.0, 0.0))
        for action, held in zip(order, schedule.pipeline.held(order), strict=True):
            start, end = schedule.start[action] / scale, schedule.end(action) / scale
            solid = 1 - (1 - LATER_PARTS) * (action.part - first) / max(last - first, 1)
            row = f"host of stage {stage}" if action.kind in TRANSFERS else f"stage {stage}"
            bars.append((row, start, end, ACTION_TITLES[action.kind], 0.0, f"{action.microbatch}", solid))
            kept.append((f"stage {stage}", start, held / size))
        kept.append((f"stage {stage}", schedule.end(order[-1]) / scale, 0.0))
    memory = pd.DataFrame(kept, columns=["stage", "start", "held"])
    limit = None
    if pipeline.memory is not None:
        ends = [("limit", float(time), pipeline.memory / size) for time in (0, schedule.makespan / scale)]
        limit = pd.DataFrame(ends, columns=memory.columns)
    axes = Axis("start", f"time ({unit})"), Axis("held", f"activations kept ({sizes})")
    chart = timeline(pd.DataFrame(bars, columns=BAR_COLUMNS), f"time ({unit})", numbered=True)
    return stacked(chart, lines(memory, *axes, "stage", step=True, guides=limit))


def draw_losses(instance: GraphInstance, losses: Sequence[tuple[str, float, int]], path: Path) -> None:
    """Draw what is kept of the speed without each link, the worst first; alike names with equal values share a bar.

    `losses`: a link, the part of the speed that is kept, and how many other links it stands for.

    Raises InputError if no picture has that ending.
    """
    bars: dict[tuple[str, float], list[tuple[str, int]]] = defaultdict(list)
    for name, kept, alike in sorted(losses, key=lambda one: one[1]):
        bars[re.sub(r"\d+", "*", name), round(kept, 4)].append((name, 1 + alike))
    rows = []
    for (_, kept), links in bars.items():
        others = sum(count for _, count in links) - 1
        name = f"{links[0][0]}{f' and {others} alike' if others else ''}: {format_percent(kept)}"
        rows.append((name, 0.0, 100 * kept, "speed", 0.5, name, 1.0))
    frame = pd.DataFrame(rows[:MOST_LOSSES], columns=BAR_COLUMNS)
    left_out = f", the worst {MOST_LOSSES} of {len(rows)} bars" if len(rows) > MOST_LOSSES else ""
    title = f"{instance.name or 'graph'}: what hurts most{left_out}"
    save(timeline(frame, "speed kept without it (%)"), path, title)


def draw_schedule(schedule: GraphSchedule, path: Path) -> None:
    """Draw :func:`graph_picture`. Raises InputError if no picture has that ending."""
    title, chart = graph_picture(schedule)
    save(chart, path, title)


def write_picture(folder: Path, picture: Picture) -> tuple[Section, list[Path]]:
    """Write schedule.svg; returns a section with the chart, and the file."""
    (title, chart), path = picture, folder / "schedule.svg"
    save(chart, path, title)
    figure = Figure("schedule", title.partition("\n")[0], chart)
    return Section("Schedule", figures=(figure,), is_open=True), [path]


def graph_picture(schedule: GraphSchedule) -> Picture:
    """What links send, a row for the busiest of all that are alike; later chunks are lighter."""
    plan, timed = schedule.plan, schedule.timed
    held = timed.operations.resource
    busy = np.bincount(held, timed.operations.duration, len(timed.resources))
    roles = _roles(schedule, busy)
    names = {link: timed.resources[link] + (f" and {alike} alike" if alike else "") for link, alike in roles.items()}
    unit, scale = time_unit(schedule.makespan)
    rows = [
        (name, start / scale, end / scale, "chunks", chunk / schedule.chunks, f"{chunk}", 1.0)
        for link, name in names.items()
        for start, end, chunk in _joined_bars(schedule, np.flatnonzero(held == link)).tolist()
    ]
    shown = f"{len(names)} of {int((busy > 0).sum())} link directions"
    shown += f", {schedule.chunks} chunks from dark to light" if schedule.chunks > 1 else ""
    title = f"{plan.instance.name or 'graph'}, {plan.name}: {format_short_time(schedule.makespan)}; {shown}"
    return title, timeline(pd.DataFrame(rows, columns=BAR_COLUMNS), f"time ({unit})")


def _joined_bars(schedule: GraphSchedule, numbers: IntArray) -> IntArray:
    """Start, end and first chunk of the messages of a link; those no eye can tell apart are one bar."""
    timed, chunks = schedule.timed, len(schedule.timed.start) // schedule.chunks
    numbers = numbers[np.argsort(timed.start[numbers], kind="stable")]
    start, end, chunk = timed.start[numbers], np.maximum.accumulate(timed.end[numbers]), numbers // chunks
    steps = np.flatnonzero(np.diff(start * MOST_STEPS // schedule.makespan, prepend=-1))
    is_new = np.diff(chunk[steps] * SHADES // schedule.chunks, prepend=-1) != 0
    after_gaps = 1 + np.flatnonzero(start[1:] - end[:-1] > schedule.makespan // MOST_STEPS)
    first = np.union1d(steps[is_new], after_gaps)
    return np.stack([start[first], end[np.r_[first[1:], len(numbers)] - 1], chunk[first]], axis=1)


def _roles(schedule: GraphSchedule, busy: "np.ndarray[Any, Any]") -> dict[int, int]:
    """The busiest direction of links that are alike, and how many others are, by name; of many roles the busiest."""
    network, alike = schedule.problem.network, defaultdict[Any, list[int]](list)
    classes = alike_nodes(network, None)
    looks: Iterable[Any] = ((classes[tail], classes[head], rate) for (tail, head), rate in network.arcs.items())
    if isinstance(schedule.plan, SlotPlan):  # whose links stand for all that are alike
        looks = range(len(busy))
    for number, look in enumerate(looks):
        if busy[number]:
            alike[look].append(number)
    roles = {max(members, key=lambda link: busy[link]): len(members) - 1 for members in alike.values()}
    kept = sorted(roles, key=lambda link: -busy[link])[:MOST_LINK_LINES]
    return {link: roles[link] for link in sorted(kept, key=lambda link: schedule.timed.resources[link])}


def write_gantt(folder: Path, schedule: Schedule, title: str = "", bound: float | None = None) -> list[Path]:
    """Draw a schedule as :data:`GANTT` into a folder; if it has too many bars, remove that of an earlier one."""
    path = folder / GANTT
    path.unlink(missing_ok=True)
    if not is_pictured(schedule):
        return []
    draw_gantt(path, schedule, title, bound)
    return [path]


def draw_gantt(path: Path, schedule: Schedule, title: str = "", bound: float | None = None) -> None:
    """Draw :func:`gantt` below a title. Raises InputError if no picture has that ending."""
    lines = [title or schedule.instance.name or "schedule"]
    if schedule.has_period:
        lines.append(_step_in_words(schedule))
    else:
        proven = "" if bound is None else f", no schedule below {format_short_time(bound)} (dashed)"
        lines.append(f"makespan {format_short_time(schedule.makespan)}, {_busiest(schedule)}{proven}")
        lines += [] if len(schedule.launched) > 1 else ["chunks from dark to light, paler while they gather"]
    save(gantt(schedule, bound), path, "\n".join(lines))


def gantt(schedule: Schedule, bound: float | None = None) -> StackedChart:
    """A schedule or, where there is compute, its last complete iterations, above the bandwidth in use.

    `bound`: picoseconds of a lower bound on the makespan, drawn as a line where there is no compute.
    """
    shown = pictured(schedule)
    unit, scale = time_unit(shown.length)
    marks = [] if bound is None else [(bound / scale, "bound")]
    if schedule.has_period:
        ends = zip(shown.iterations, shown.periods[1:].tolist(), strict=True)
        marks = [(end / scale, f"iteration {number + 1}") for number, end in ends]
    names = _row_names(shown)
    drawn = [bar_frame(shown, bars, names, scale) for bars in shown.bars if bars.kind != "wait"]
    first = {"row": names, "key": "", "series": drawn[0]["series"].iloc[0]}
    empty = pd.DataFrame(dict.fromkeys(BAR_COLUMNS, 0.0) | first)
    frame = pd.concat([empty, *drawn], ignore_index=True)  # all rows in order, unused ones too
    frame = _visible(frame, shown.length / scale)
    axis, (times, shares) = Axis("start", f"time ({unit})"), shown.busy_bandwidth
    if len(times) > MOST_STEPS:
        times, shares = _averaged(times, shares, shown.length)
    busy = pd.DataFrame({"start": times / scale, "share": shares, "what": "bandwidth in use"})
    below = [lines(busy, axis, Axis("share", "share", format="percent"), "what", step=True)]
    if changes_memory(schedule.instance):
        below.insert(0, _memory(schedule, shown.begin, scale, axis))
    chart = timeline(frame, axis.label, pd.DataFrame(marks, columns=["time", "label"]), numbered=True)
    return stacked(chart, *below, height=STRIP)


def _visible(frame: pd.DataFrame, length: float) -> pd.DataFrame:
    """Bars of a pixel at least; narrower ones that look alike and begin in the same become one."""
    width, pixel = frame["end"] - frame["start"], length / WIDTH
    narrow = (width > 0) & (width < pixel)
    keys, bars = ["row", "series", "solid", "pixel"], frame[narrow]
    bars = bars.assign(pixel=bars["start"] // pixel, end=(bars["start"] + pixel).clip(upper=length))
    bars["end"] = bars.groupby(keys, sort=False)["end"].transform("max")
    return pd.concat([frame[~narrow], bars.drop_duplicates(keys)[[*frame.columns]]]).sort_index()


def _row_names(shown: Timeline) -> list[str]:
    """Names of rows with the share of the time in which they are busy, and size and bandwidth of dimensions."""
    network, names = shown.schedule.instance.fabric, []
    links = [f"\n{network.sizes[k]} x {format_link(network.bandwidths[k])}" for k, _ in shown.lanes]
    for row, (name, link) in enumerate(zip(shown.rows, [""] * len(shown.compute_rows) + links, strict=True)):
        time = shown.busy_time(row)
        names.append(name + (", unused" if time is None else f", {format_percent(time / shown.length)} busy") + link)
    return names


def bar_frame(shown: Timeline, bars: Bars, names: Sequence[str], scale: int) -> pd.DataFrame:
    """Stages or tasks as bars; their series are passes and kinds of parallelism, or collectives without compute."""
    schedule, plan = shown.schedule, shown.schedule.plan
    rows, times = [names[row] for row in bars.row], {"start": bars.start / scale, "end": bars.end / scale}
    frame = pd.DataFrame({"row": rows, "key": bars.label} | times)
    if bars.kind == "task":
        passes = [is_backward(name) for name in bars.label]
        forward = "forward" if any(passes) else "compute"
        return frame.assign(series=["backward" if back else forward for back in passes], place=0.0, solid=1.0)
    launch = plan.launch_of_stage[bars.number]
    series = [one.parallelism + " parallel" if schedule.has_period else one.name for one in schedule.launched]
    counts = np.array([len(split.sizes) for split in plan.chunks])[launch]
    return frame.assign(
        series=[series[number] for number in launch],
        place=plan.chunk_of_stage[bars.number] / np.maximum(counts - 1, 1),
        solid=np.where(growing(plan.phases(schedule.instance))[bars.number], LATER_PARTS, 1.0),
    )


def _averaged(times: IntArray, shares: FloatArray, length: int) -> tuple[IntArray, FloatArray]:
    """A step function of many steps as its mean over as many equal parts of the time as are drawn."""
    until = np.append(times[1:], length)
    integral = np.concatenate([[0.0], np.cumsum(shares * (until - times))])
    edges = np.linspace(0, length, MOST_STEPS + 1)
    means = np.diff(np.interp(edges, np.append(times, length), integral)) / np.diff(edges)
    return edges.astype(np.int64), np.append(means, 0.0)


def _memory(schedule: Schedule, begin: int, scale: int, axis: Axis) -> Chart:
    """What an NPU holds, of each stage of a pipeline, and the limit."""
    unit, size = decimal_size_unit(schedule.memory_peak)
    curves = []
    for number, one in enumerate(memory_curves(schedule)):
        first = max(int(np.searchsorted(one.time, begin, side="right")) - 1, 0)
        time, held = np.maximum(one.time[first:], begin), one.held[first:]
        curve = {"start": (time - begin) / scale, "held": held / size, "what": f"stage {number + 1}"}
        curves.append(pd.DataFrame(curve))
    every, limit = pd.concat(curves), schedule.instance.memory
    guides = None if limit is None else every.iloc[[0, -1]].assign(held=limit / size, what="limit")
    return lines(every, axis, Axis("held", f"memory ({unit})"), "what", step=True, guides=guides)


def _busiest(schedule: Schedule) -> str:
    """The dimension that is busy longest; a mean over all would hide that a thin one has nothing left to give."""
    name, share = max(schedule.busy.items(), key=lambda item: item[1])
    return f"{name} busy {format_percent(share)} of the time"


def _step_in_words(schedule: Schedule) -> str:
    times = (schedule.makespan, schedule.period.exposed, schedule.instance.compute)
    time, exposed, compute = (format_short_time(t) for t in times)
    share = schedule.period.exposed / schedule.makespan
    bubble = f", bubble {format_short_time(schedule.period.bubble)}" if schedule.period.bubble else ""
    steady = "" if schedule.period.is_steady else " (iterations do not repeat each other)"
    return (
        f"iteration {time}{steady}, compute {compute}{bubble}, exposed communication {exposed} "
        f"({format_percent(share)}), overlap {format_percent(schedule.period.overlap)}, {_busiest(schedule)}"
    )

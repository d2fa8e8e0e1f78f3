"""Timelines on axes of matplotlib: bars with their labels, names of rows, the curve of the bandwidth in use.

Only matplotlib's object-oriented interface is used, so that drawing neither opens windows nor touches the
state of :mod:`matplotlib.pyplot`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.ticker import PercentFormatter

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.units import decimal_size_unit, format_link, format_short_time
from themis_opt.formats.palette import CURVE, INK, LINE, QUIET, WAIT, is_dark, plain_text, stage_colours, task_colours
from themis_opt.formats.timeline import Bars, Timeline
from themis_opt.problem.phases import growing
from themis_opt.schedules.memory import memory_curves
from themis_opt.schedules.schedule import Schedule

BAR_HEIGHT = 0.84  # height of a bar; rows are 1 apart
NARROWEST_EDGED = 0.006  # width, as a part of the time shown, from which bars get an edge, and a hatch while gathering
# Width, as a part of the time shown, below which bars blend with their neighbours; on whole pixels some are lost
NARROWEST_SHARP = 0.001
# Room, as a part of the time shown, for a digit of the number of a chunk, and for a letter of the name of a task
DIGIT_WIDTH, LETTER_WIDTH = 0.0066, 0.0056

MOST_SHAPES = 10_000  # bars up to which an SVG holds them as shapes; more become an image inside it
MOST_CURVE_STEPS = 400  # most steps of the curve of the bandwidth: the lines of more would hide it
HEADER_OFFSET = 0.62  # rows between the middle of the first row and the text above it


def draw_bars(axes: Axes, timeline: Timeline, bars: Bars, scale: int, *, first: int = 0, edge: float = 0.6) -> None:
    """Draw bars of one kind.

    `scale`: picoseconds in the unit of the axis.
    `first`: the row of the axes in which the timeline begins.
    `edge`: points of the white line around wide bars.
    """
    colours, width = bar_colours(timeline.schedule, bars), (bars.end - bars.start) / timeline.length
    wide, thin, hatched = width > NARROWEST_EDGED, width < NARROWEST_SHARP, _gathers(timeline.schedule, bars)
    edged = {} if bars.kind == "wait" else {"edgecolors": "white", "linewidths": edge}
    for chosen, style in (
        (thin, {"snap": False}),
        (~wide & ~thin, {"antialiaseds": False}),
        (wide & ~hatched, edged),
        (wide & hatched, edged | {"hatch": "////"}),
    ):
        style |= {"facecolors": colours[chosen], "rasterized": len(bars.row) > MOST_SHAPES}
        draw_boxes(axes, bars.start[chosen] / scale, bars.end[chosen] / scale, bars.row[chosen] + first, style)


def draw_boxes(axes: Axes, left: FloatArray, right: FloatArray, rows: IntArray, style: dict[str, Any]) -> None:
    """Draw bars between times on rows, all in one style; colours may be an array of one for each."""
    top, bottom = rows - BAR_HEIGHT / 2, rows + BAR_HEIGHT / 2
    x, y = np.stack([left, right, right, left], axis=1), np.stack([top, top, bottom, bottom], axis=1)
    corners: Any = np.stack([x, y], axis=2)  # an array is a sequence
    axes.add_collection(PolyCollection(corners, zorder=2, **{"linewidths": 0.0} | style), autolim=False)


def bar_colours(schedule: Schedule, bars: Bars) -> FloatArray:
    """Red, green, blue and opacity of every bar, shape (bars, 4)."""
    if bars.kind == "stage":
        return stage_colours(schedule)[bars.number]
    if bars.kind == "task":
        return task_colours([task.name for task in schedule.instance.tasks])[bars.number]
    return np.tile(to_rgba(WAIT), (len(bars.row), 1))


def _gathers(schedule: Schedule, bars: Bars) -> BoolArray:
    if bars.kind != "stage":
        return np.zeros(len(bars.row), dtype=np.bool_)
    return growing(schedule.plan.phases(schedule.instance))[bars.number]


def label_bars(axes: Axes, timeline: Timeline, bars: Bars, scale: int) -> None:
    """Write the label of every bar that has room for it: numbers of chunks, names of tasks, lengths of waits."""
    colours = bar_colours(timeline.schedule, bars)
    width, middle = (bars.end - bars.start) / timeline.length, (bars.start + bars.end) / 2 / scale
    letter, margin = (DIGIT_WIDTH, 1) if bars.kind == "stage" else (LETTER_WIDTH, 2)
    for number in np.flatnonzero(width / letter > margin + 1).tolist():
        label = bars.label[number]
        if bars.kind == "wait":
            label += f"_{format_short_time(int(bars.end[number] - bars.start[number]))}"
        variants = (label.replace("_", " "), label.replace("_", "\n", 1).replace("_", " "))
        fitting = [text for text in variants if max(map(len, text.split("\n"))) <= width[number] / letter - margin]
        if fitting:
            box = {"facecolor": colours[number], "linewidth": 0, "pad": 1.0} if bars.kind == "stage" else None
            axes.text(
                middle[number], bars.row[number], plain_text(fitting[0]), fontsize=8, ha="center", va="center",
                color="white" if is_dark(colours[number]) else INK, bbox=box,
            )  # fmt: skip


def label_rows(axes: Axes, timeline: Timeline) -> None:
    """Name the rows of the timeline, with size and bandwidth of dimensions, and the busy share of each."""
    network, rows = timeline.schedule.instance.fabric, timeline.rows
    links = (f"\n{network.sizes[k]} × {format_link(network.bandwidths[k])}" for k, _ in timeline.lanes)
    second_lines = (*("" for _ in timeline.compute_rows), *links)
    labels = [plain_text(name) + line for name, line in zip(rows, second_lines, strict=True)]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    shares = (timeline.busy_time(row) for row in range(len(rows)))
    notes = ["unused" if time is None else f"{time / timeline.length:.1%}" for time in shares]
    for row, note in ((-HEADER_OFFSET, "busy"), *enumerate(notes)):
        axes.text(1.008, row, note, transform=axes.get_yaxis_transform(), color=QUIET, fontsize=8.5, va="center")
    _quieten(axes)


def draw_busy_bandwidth(axes: Axes, timeline: Timeline, scale: int) -> None:
    """Draw the share of the bandwidth in use, with `scale` picoseconds to the unit of the axis."""
    times, shares = timeline.busy_bandwidth
    if timeline.compute_rows:
        times, shares = _averaged(times, shares, timeline.length)
    axes.fill_between(times / scale, shares, step="post", color=CURVE, alpha=0.3, linewidth=0)
    axes.step(times / scale, shares, where="post", color=CURVE, linewidth=0.9)
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.5, 1])
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    axes.set_ylabel("busy\nbandwidth", color=QUIET, fontsize=8.5, rotation=0, ha="right", va="center")
    _quieten(axes)


def draw_memory(axes: Axes, timeline: Timeline, scale: int) -> None:
    """Draw what an NPU holds, of each stage of a pipeline, and the limit as a dashed line."""
    schedule = timeline.schedule
    unit, scale_of_unit = decimal_size_unit(schedule.memory_peak)
    for curve in memory_curves(schedule):
        times, held = (curve.time - timeline.begin) / scale, curve.held / scale_of_unit
        axes.step(times, held, where="post", color=CURVE, linewidth=0.9)
        axes.fill_between(times, held, step="post", color=CURVE, alpha=0.15, linewidth=0)
    if schedule.instance.memory is not None:
        axes.axhline(schedule.instance.memory / scale_of_unit, color=WAIT, linewidth=1.1, linestyle=(0, (4, 2)))
    axes.set_ylim(0)
    axes.set_ylabel(f"memory\n({unit})", color=QUIET, fontsize=8.5, rotation=0, ha="right", va="center")
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    _quieten(axes)


def _averaged(times: IntArray, shares: FloatArray, length: int) -> tuple[IntArray, FloatArray]:
    """A step function of many steps as its mean over as many equal parts of the time as are drawn."""
    if len(times) <= MOST_CURVE_STEPS:
        return times, shares
    until = np.append(times[1:], length)
    integral = np.concatenate([[0.0], np.cumsum(shares * (until - times))])
    edges = np.linspace(0, length, MOST_CURVE_STEPS + 1)
    means = np.diff(np.interp(edges, np.append(times, length), integral)) / np.diff(edges)
    return edges.astype(np.int64), np.append(means, 0.0)


def draw_periods(timeline_axes: Axes, strips: Sequence[Axes], timeline: Timeline, scale: int, unit: str) -> None:
    """Draw lines between iterations, and write number and length over each of them."""
    edges = timeline.periods.tolist()
    for moment in edges[1:-1]:
        for axes in (timeline_axes, *strips):
            axes.axvline(moment / scale, color=INK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=3)
    for iteration, begin, end in zip(timeline.iterations, edges[:-1], edges[1:], strict=True):
        text, middle = f"iteration {iteration + 1}: {(end - begin) / scale:.4g} {unit}", (begin + end) / 2 / scale
        timeline_axes.text(middle, -HEADER_OFFSET, text, color=QUIET, fontsize=8.5, ha="center", va="center")


def label_time(axes: Axes, length: float, unit: str) -> None:
    """Give the axis of time its unit and its length in it."""
    axes.set_xlabel(f"time ({unit})", color=QUIET, fontsize=9)
    axes.set_xlim(0, length)


def _quieten(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(colors=QUIET, labelsize=8.5, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)

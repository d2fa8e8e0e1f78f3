"""Schedules on one axis of time, small enough for a column of a paper and for given axes."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from themis_opt.base.units import time_unit
from themis_opt.formats.drawing import BAR_HEIGHT, draw_bars
from themis_opt.formats.palette import INK, LINE, plain_text
from themis_opt.formats.timeline import pictured
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.timed import TimedOperations

PAPER_WIDTH = 3.3  # inches: a column of a page with two
PAPER_ROW, PAPER_MARGINS = 0.17, 0.42  # inches of a row, and of the axis of time with its label
MOST_EDGED = 60  # bars of a row that are told apart by white edges
FONT_POINTS = 7.0  # points: a caption in a paper is about as large
PAPER_STYLE: Any = {
    **dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), FONT_POINTS),
    "hatch.linewidth": 0.4, "axes.linewidth": 0.5, "pdf.fonttype": 42, "svg.fonttype": "none",
}  # fmt: skip
"""Settings of matplotlib for papers: small letters, which stay letters in the file."""


def plot(
    schedule: Schedule,
    ax: Axes | None = None,
    *,
    beside: Mapping[str, Schedule] | None = None,
    bound: float | None = None,
) -> Axes:
    """Draw the stages of a schedule, one row per dimension and, where there is compute, one for it.

    Parameters
    ----------
    ax : Axes, optional
        Where to draw; by default axes of a new figure, 3.3 inches wide.
    beside : mapping of str to Schedule, optional
        Schedules to draw below on the same axis of time, by name.
    bound : float, optional
        Picoseconds of a lower bound, drawn as a line.

    Returns
    -------
    Axes
        With everything drawn inside; there is no legend.
    """
    timelines = {name: pictured(one) for name, one in ({"": schedule} | dict(beside or {})).items()}
    rows = [plain_text(f"{name} {row}".strip()) for name, timeline in timelines.items() for row in timeline.rows]
    axes = _new_axes(len(rows)) if ax is None else ax
    length = max(timeline.length for timeline in timelines.values())
    unit, scale = time_unit(length)
    first = 0
    for timeline in timelines.values():
        for bars in timeline.bars:
            if bars.kind != "wait":
                draw_bars(axes, timeline, bars, scale, first=first, edge=0.3)
        first += len(timeline.rows)
    if bound is not None:
        axes.axvline(bound / scale, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    _label(axes, rows, length / scale, unit)
    return axes


def plot_operations(timed: TimedOperations, ax: Axes | None = None, *, bound: float | None = None) -> Axes:
    """Draw timed operations, one row for each resource that is used; arguments as of :func:`plot`."""
    used = sorted(set(timed.operations.resource.tolist()))
    length = int(timed.end.max())
    axes = _new_axes(len(used)) if ax is None else ax
    unit, scale = time_unit(length)
    for row, number in enumerate(used):
        held = timed.operations.resource == number
        spans = list(zip(timed.start[held] / scale, timed.operations.duration[held] / scale, strict=True))
        edge = 0.3 if len(spans) <= MOST_EDGED else 0.0  # edges of many narrow bars would hide these
        place = (row - BAR_HEIGHT / 2, BAR_HEIGHT)
        axes.broken_barh(spans, place, facecolors="#467bb3", edgecolor="white", linewidth=edge)
    if bound is not None:
        axes.axvline(bound / scale, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    _label(axes, [plain_text(timed.resources[number]) for number in used], length / scale, unit)
    return axes


def plot_times(times: Mapping[str, int], bound: float, ax: Axes | None = None) -> Axes:
    """Times in picoseconds as bars across, one per name, and a lower bound as a line."""
    axes = _new_axes(len(times)) if ax is None else ax
    unit, scale = time_unit(max(times.values()))
    axes.barh(
        range(len(times)), [time / scale for time in times.values()], height=BAR_HEIGHT, color="#467bb3", zorder=2
    )
    axes.axvline(bound / scale, color=INK, linewidth=0.9, linestyle=(0, (4, 2)), zorder=3)
    _label(axes, [plain_text(name) for name in times], 1.02 * max(times.values()) / scale, unit)
    return axes


def _new_axes(num_rows: int) -> Axes:
    figure = Figure(figsize=(PAPER_WIDTH, PAPER_ROW * num_rows + PAPER_MARGINS), dpi=300, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.tick_params(labelsize=FONT_POINTS)
    axes.xaxis.label.set_fontsize(FONT_POINTS)
    return axes


def _label(axes: Axes, rows: list[str], length: float, unit: str) -> None:
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 1 + BAR_HEIGHT / 2 + 0.1, -BAR_HEIGHT / 2 - 0.1)
    axes.set_xlim(0, length)
    axes.set_xlabel(f"time ({unit})")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=LINE, linewidth=0.5)
    axes.set_axisbelow(True)

"""Schedules on one axis of time, small enough for a column of a paper and for axes of one's own."""

from base64 import b64encode
from collections.abc import Mapping
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from themis_opt.base.units import time_unit
from themis_opt.formats.gantt import HEIGHT, MICRO, NARROWEST_EDGED, draw_boxes
from themis_opt.formats.palette import INK, LINE, plain_text, stage_colours, task_colours
from themis_opt.formats.window import Window, last_periods
from themis_opt.problem.phases import growing
from themis_opt.schedules.schedule import Schedule

PERIODS = 2
"""Iterations that are shown where there is compute."""

PAPER_WIDTH = 3.3
"""Inches: a column of a page with two."""

ROW, MARGINS = 0.17, 0.42
"""Inches of a row, and of the axis of time with its label."""

FONT = 7.0
"""Points: a caption in a paper is about as large."""

BAR = "#467bb3"

HTML_DPI = 200
"""Dots per inch of pictures in notebooks."""

PAPER: Any = {
    "font.size": FONT, "axes.labelsize": FONT, "xtick.labelsize": FONT, "ytick.labelsize": FONT, "hatch.linewidth": 0.4,
    "axes.linewidth": 0.5, "pdf.fonttype": 42, "svg.fonttype": "none",
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
    named = {"": schedule} | dict(beside or {})
    windows = {name: last_periods(own, PERIODS if own.has_period else 1) for name, own in named.items()}
    rows = [row for name, window in windows.items() for row in _rows(name, window)]
    axes = _new_axes(len(rows)) if ax is None else ax
    unit, scale = time_unit(max(window.length for window in windows.values()), micro=MICRO)
    first = 0
    for name, window in windows.items():
        _draw(axes, window, scale, first)
        first += len(_rows(name, window))
    if bound is not None:
        axes.axvline(bound / scale, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    _label(axes, rows, max(window.length for window in windows.values()) / scale, unit)
    return axes


def as_html(schedule: Schedule) -> str:
    """A schedule for notebooks: what it is, and its picture."""
    content = BytesIO()
    figure: Any = plot(schedule).figure
    figure.savefig(content, format="png", dpi=HTML_DPI)
    picture = b64encode(content.getvalue()).decode()
    return f'<p>{escape(repr(schedule)[1:-1])}</p><img alt="Schedule" src="data:image/png;base64,{picture}">'


def plot_times(times: Mapping[str, int], bound: float, ax: Axes | None = None) -> Axes:
    """Times in picoseconds as bars across, one per name, and a lower bound as a line."""
    axes = _new_axes(len(times)) if ax is None else ax
    unit, scale = time_unit(max(times.values()), micro=MICRO)
    axes.barh(range(len(times)), [time / scale for time in times.values()], height=HEIGHT, color=BAR, zorder=2)
    axes.axvline(bound / scale, color=INK, linewidth=0.9, linestyle=(0, (4, 2)), zorder=3)
    _label(axes, [plain_text(name) for name in times], 1.02 * max(times.values()) / scale, unit)
    return axes


def _new_axes(num_rows: int) -> Axes:
    figure = Figure(figsize=(PAPER_WIDTH, ROW * num_rows + MARGINS), dpi=300, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.tick_params(labelsize=FONT)
    axes.xaxis.label.set_fontsize(FONT)
    return axes


def _rows(name: str, window: Window) -> list[str]:
    """Labels of the rows of one schedule."""
    dimensions = window.schedule.instance.fabric.dimension_names
    labels = ["compute", *dimensions] if window.schedule.has_period else list(dimensions)
    return [plain_text(f"{name} {label}".strip()) for label in labels]


def _draw(axes: Axes, window: Window, scale: int, first: int) -> None:
    """Draw one schedule in the rows from `first` on."""
    schedule, numbers = window.schedule, window.stage_in_plan
    if schedule.has_period:
        start, end = (times.ravel() / scale for times in window.tasks)
        colours = np.tile(task_colours([task.name for task in schedule.instance.tasks]), (len(window.iterations), 1))
        draw_boxes(axes, start, end, np.full(len(start), first), facecolors=colours)
    rows = window.dimensions + first + schedule.has_period
    gathers = growing(schedule.plan.phases(schedule.instance))[numbers]
    wide = (window.end - window.start) / window.length > NARROWEST_EDGED
    colours = stage_colours(schedule)[numbers]
    for chosen, style in (
        (~wide, {"snap": False}),  # on whole pixels some would be lost
        (wide & ~gathers, {"edgecolors": "white", "linewidths": 0.3}),
        (wide & gathers, {"edgecolors": "white", "linewidths": 0.3, "hatch": "////"}),
    ):
        left, right = window.start[chosen] / scale, window.end[chosen] / scale
        draw_boxes(axes, left, right, rows[chosen], facecolors=colours[chosen], **style)


def _label(axes: Axes, rows: list[str], length: float, unit: str) -> None:
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 1 + HEIGHT / 2 + 0.1, -HEIGHT / 2 - 0.1)
    axes.set_xlim(0, length)
    axes.set_xlabel(f"time ({unit})")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=LINE, linewidth=0.5)
    axes.set_axisbelow(True)

"""A run as a picture: what was measured below what was predicted, on one axis of time."""

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from themis_opt.base.units import format_percent, time_unit
from themis_opt.formats.gantt import (
    BOTTOM,
    MICRO,
    ROW,
    TOP,
    WIDTH,
    draw_bars,
    draw_heading,
    draw_rows,
    label_time,
)
from themis_opt.formats.palette import INK
from themis_opt.formats.period_gantt import PERIODS, draw_compute
from themis_opt.formats.window import Window, last_periods
from themis_opt.schedules.schedule import Schedule

BETWEEN = 0.62
"""Inches between the two timelines, for the name of the lower one."""

LEFT, PLOT_WIDTH = 0.1, 0.848


def execution_gantt(predicted: Schedule, measured: Schedule, title: str = "") -> Figure:
    """Draw a prediction and, below it, the run of it; with compute, two periods of each.

    Parameters
    ----------
    predicted, measured : Schedule
        Of one plan.
    title : str
        Headline; the name of the instance by default.
    """
    count = PERIODS if predicted.has_period else 1
    windows = [last_periods(schedule, count) for schedule in (predicted, measured)]
    length = max(window.length for window in windows)
    unit, scale = time_unit(length, micro=MICRO)
    figure, axes = _timelines(len(predicted.instance.fabric.dimensions) + predicted.has_period)
    for own, window, name in zip(axes, windows, ("predicted", "measured"), strict=True):
        _draw(own, window, scale, f"{name}: {window.length / scale:.4g} {unit}")
    label_time(axes[1], length / scale, unit)
    axes[1].tick_params(axis="x", bottom=True, labelbottom=True)
    error = windows[1].length / windows[0].length - 1
    where = "above" if error >= 0 else "below"
    caption = f"what was measured lies {format_percent(abs(error))} {where} what was predicted"
    draw_heading(figure, title or predicted.instance.name, caption)
    return figure


def _timelines(rows: int) -> tuple[Figure, tuple[Axes, Axes]]:
    """A figure with two timelines of so many rows on one axis of time, the first above the second."""
    each = ROW * rows
    height = TOP + 2 * each + BETWEEN + BOTTOM
    figure = Figure(figsize=(WIDTH, height), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    lower = figure.add_axes((LEFT, BOTTOM / height, PLOT_WIDTH, each / height))
    bottom = BOTTOM + each + BETWEEN
    upper = figure.add_axes((LEFT, bottom / height, PLOT_WIDTH, each / height), sharex=lower)
    return figure, (upper, lower)


def _draw(axes: Axes, window: Window, scale: int, name: str) -> None:
    if window.schedule.has_period:
        draw_compute(axes, window, scale)
    draw_bars(axes, window, scale)
    draw_rows(axes, window)
    axes.set_title(name, loc="left", color=INK, fontsize=10)

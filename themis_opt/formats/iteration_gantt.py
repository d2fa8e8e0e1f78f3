"""Iterations as pictures: compute over the dimensions of the network, for two periods of the steady state."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from themis_opt.cost import FloatArray, IntArray
from themis_opt.formats.gantt import (
    ROW,
    busy_share,
    draw_heading,
    draw_strip,
    make_plain,
    note,
    panels,
    row_label,
    time_unit,
)
from themis_opt.formats.gantt_bars import HEIGHT, draw_bars
from themis_opt.formats.iteration_colours import WAIT, span_colours, task_colours
from themis_opt.formats.iteration_legend import draw_iteration_legend
from themis_opt.formats.iteration_span import Span, last_periods
from themis_opt.formats.palette import INK, QUIET, is_dark, plain_text
from themis_opt.iterations.schedule import IterationSchedule

PERIODS = 2

COMPUTE_ROW = -1
"""The row of compute: dimensions stand below it, from 0 on."""

TOP = 1.48
"""Inches of the heading, the legend and the names of the iterations."""

STEPS = 400
"""Most steps of the curve of the bandwidth: the lines of more would hide it."""

LETTER_WIDTH = 0.0056
"""Room, as a part of the span, for a letter of the name of a task; two more for the margins."""

NARROWEST_EDGED = 0.006
"""Width, as a part of the span, from which tasks get an edge."""


def iteration_gantt(schedule: IterationSchedule, title: str = "") -> Figure:
    """Draw the last two complete iterations.

    The upper row is compute, with waits for communication between its tasks; below is one row per dimension, with
    its busy share of the time at the end, and a bar per stage: launches for data parallelism in cool colours, those
    for model parallelism in warm ones, lighter while gathering.  The strip is the share of the bandwidth in use.

    Parameters
    ----------
    title : str
        Headline; the name of the instance by default.
    """
    span = last_periods(schedule, PERIODS)
    unit, scale = time_unit(span.length)
    figure, timeline, strip = panels(ROW * (len(schedule.instance.fabric.dimensions) + 1), TOP)
    _draw_compute(timeline, span, scale)
    draw_bars(timeline, span.network, scale, colours=span_colours(span), span=span.length)
    _draw_rows(timeline, span)
    draw_strip(strip, *_averaged(*span.busy_bandwidth, span.length), scale)
    _draw_periods(timeline, strip, span, scale, unit)
    strip.set_xlabel(f"time ({unit})", color=QUIET, fontsize=9)
    strip.set_xlim(0, span.length / scale)
    draw_heading(figure, title or schedule.instance.name, _caption(schedule))
    draw_iteration_legend(figure, schedule)
    return figure


def _caption(schedule: IterationSchedule) -> str:
    time, exposed, compute = (_time(t) for t in (schedule.iteration_time, schedule.exposed, schedule.instance.compute))
    share = schedule.exposed / schedule.iteration_time
    steady = "" if schedule.is_steady else " (iterations do not repeat each other)"
    return (
        f"iteration {time}{steady}, compute {compute}, exposed communication {exposed} ({share:.1%}), "
        f"overlap {schedule.overlap:.1%}, utilisation {schedule.utilisation:.1%}"
    )


def _time(picoseconds: int) -> str:
    unit, scale = time_unit(picoseconds)
    return f"{picoseconds / scale:.4g} {unit}" if picoseconds else "0"


def _averaged(times: IntArray, shares: FloatArray, length: int) -> tuple[IntArray, FloatArray]:
    """A step function with more than :data:`STEPS` steps as its mean over as many equal parts of the time."""
    if len(times) <= STEPS:
        return times, shares
    until = np.append(times[1:], length)
    integral = np.concatenate([[0.0], np.cumsum(shares * (until - times))])
    edges = np.linspace(0, length, STEPS + 1)
    means = np.diff(np.interp(edges, np.append(times, length), integral)) / np.diff(edges)
    return edges.astype(np.int64), np.append(means, 0.0)


def _draw_compute(axes: Axes, span: Span, scale: int) -> None:
    names = [task.name for task in span.schedule.instance.iteration.tasks]
    start, end = span.tasks
    colours = np.tile(task_colours(names), (len(start), 1))
    wide = (end - start).ravel() > NARROWEST_EDGED * span.length
    for chosen, style in ((wide, {"edgecolors": "white", "linewidths": 0.6}), (~wide, {"linewidths": 0.0})):
        _boxes(axes, start.ravel()[chosen] / scale, end.ravel()[chosen] / scale, facecolors=colours[chosen], **style)
    _boxes(axes, *(times / scale for times in span.waits), facecolors=WAIT, linewidths=0.0)
    _name_tasks(axes, span, names, colours, scale)


def _boxes(axes: Axes, left: FloatArray, right: FloatArray, **style: Any) -> None:
    """Draw bars in the row of compute."""
    top, bottom = (np.full(len(left), COMPUTE_ROW + side * HEIGHT / 2) for side in (-1, 1))
    x, y = np.stack([left, right, right, left], axis=1), np.stack([top, top, bottom, bottom], axis=1)
    corners: Any = np.stack([x, y], axis=2)  # an array is a sequence
    axes.add_collection(PolyCollection(corners, zorder=2, **style), autolim=False)


def _name_tasks(axes: Axes, span: Span, names: list[str], colours: FloatArray, scale: int) -> None:
    """Write names on tasks and lengths on waits, on two lines where that helps, where there is room for them."""
    starts, ends = (times.ravel() for times in span.tasks)
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        dark = is_dark(colours[number])
        _write(axes, span, start, end, scale, names[number % len(names)], "white" if dark else INK)
    for start, end in zip(*(times.tolist() for times in span.waits), strict=True):
        _write(axes, span, start, end, scale, f"waits_{_time(end - start)}", INK)


def _write(axes: Axes, span: Span, start: int, end: int, scale: int, text: str, colour: str) -> None:
    room = (end - start) / span.length / LETTER_WIDTH - 2
    variants = (text.replace("_", " "), text.replace("_", "\n", 1).replace("_", " "))
    for shown in variants:
        if max(len(line) for line in shown.split("\n")) <= room:
            middle = (start + end) / 2 / scale
            axes.text(middle, COMPUTE_ROW, plain_text(shown), fontsize=8, ha="center", va="center", color=colour)
            return


def _draw_rows(axes: Axes, span: Span) -> None:
    network, rows = span.network, range(len(span.network.instance.network.dimensions))
    labels = ["compute", *(row_label(network, k) for k in rows)]
    axes.set_yticks([COMPUTE_ROW, *rows], labels)
    axes.set_ylim(len(rows) - 0.5, COMPUTE_ROW - 0.5)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    note(axes, COMPUTE_ROW - 0.62, "busy")
    note(axes, COMPUTE_ROW, f"{_computing(span.tasks) / span.length:.1%}")
    for k in rows:
        note(axes, k, busy_share(network, k, span.length))
    make_plain(axes)


def _computing(tasks: tuple[IntArray, IntArray]) -> int:
    start, end = tasks
    return int((end - start).sum())


def _draw_periods(timeline: Axes, strip: Axes, span: Span, scale: int, unit: str) -> None:
    """Lines between iterations, and over each of them its number and length."""
    for moment in span.periods[1:-1].tolist():
        for axes in (timeline, strip):
            axes.axvline(moment / scale, color=INK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=3)
    for number, (begin, end) in enumerate(zip(span.periods[:-1].tolist(), span.periods[1:].tolist(), strict=True)):
        text = f"iteration {span.first + number + 1}: {(end - begin) / scale:.4g} {unit}"
        timeline.text(
            (begin + end) / 2 / scale, COMPUTE_ROW - 0.62, text, color=QUIET, fontsize=8.5, ha="center", va="center"
        )

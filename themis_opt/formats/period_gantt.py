"""Training iterations as pictures: compute over the dimensions of the network, for two periods of the steady state."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.units import format_short_time, time_unit
from themis_opt.formats.gantt import (
    COMPUTE_ROW,
    EDGE,
    MICRO,
    NARROWEST_EDGED,
    ROW,
    Entry,
    busiest_in_words,
    draw_bars,
    draw_boxes,
    draw_heading,
    draw_legend,
    draw_rows,
    draw_strip,
    label_time,
    panels,
    phase_patch,
    phase_title,
    ramp_patches,
    shortened,
)
from themis_opt.formats.palette import (
    BACKWARD,
    FORWARD,
    INK,
    QUIET,
    WAIT,
    is_backward,
    is_dark,
    launch_groups,
    launch_ramps,
    plain_text,
    task_colours,
)
from themis_opt.formats.window import Window, last_periods
from themis_opt.problem.exchanges import Parallelism
from themis_opt.problem.phases import Data
from themis_opt.schedules.schedule import Schedule

PERIODS = 2

TOP = 1.48
"""Inches of the heading, the legend and the names of the iterations."""

STEPS = 400
"""Most steps of the curve of the bandwidth: the lines of more would hide it."""

LETTER_WIDTH = 0.0056
"""Room, as a part of the time shown, for a letter of the name of a task; two more for the margins."""

FIRST_ROW, SECOND_ROW = 0.76, 0.98
"""Rows of the legend: inches from the upper edge."""

RAMP_STEPS = 6
MOST_LAUNCHES, MOST_LETTERS = 2, 22
"""Launches of a kind that the legend names, the rest are counted or numbered; and letters of a name."""

CHUNK = "#1d4e89"
"""Stands for any launch where phases are explained."""

_time = partial(format_short_time, micro=MICRO)


def period_gantt(schedule: Schedule, title: str = "") -> Figure:
    """Draw the last two complete iterations.

    The upper row is compute, with waits for communication between its tasks; below is one row per dimension, with
    its busy share of the time at the end, and a bar per stage: launches for data parallelism in cool colours, those
    for model parallelism in warm ones, lighter while gathering.  The strip is the share of the bandwidth in use.

    Parameters
    ----------
    title : str
        Headline; the name of the instance by default.
    """
    window = last_periods(schedule, PERIODS)
    unit, scale = time_unit(window.length, micro=MICRO)
    figure, timeline, strip = panels(
        ROW * (len(schedule.instance.fabric.dimensions) + schedule.instance.num_stages), TOP
    )
    draw_compute(timeline, window, scale)
    draw_bars(timeline, window, scale)
    draw_rows(timeline, window)
    draw_strip(strip, *_averaged(*window.busy_bandwidth, window.length), scale)
    _draw_periods(timeline, strip, window, scale, unit)
    label_time(strip, window.length / scale, unit)
    draw_heading(figure, title or schedule.instance.name, _caption(schedule))
    launches = [entry for kind in ("data", "model") for entry in _launch_entries(schedule, kind)]
    for inches, entries in ((FIRST_ROW, [*_pass_entries(schedule), *_phase_entries(schedule)]), (SECOND_ROW, launches)):
        draw_legend(
            figure, inches, entries, x=0.012, loc="upper left", ncols=len(entries), handlelength=2.4, columnspacing=1.5
        )
    return figure


def _caption(schedule: Schedule) -> str:
    time, exposed, compute = (_time(t) for t in (schedule.makespan, schedule.period.exposed, schedule.instance.compute))
    share = schedule.period.exposed / schedule.makespan
    steady = "" if schedule.period.is_steady else " (iterations do not repeat each other)"
    return (
        f"iteration {time}{steady}, compute {compute}, exposed communication {exposed} ({share:.1%}), "
        f"overlap {schedule.period.overlap:.1%}, {busiest_in_words(schedule)}"
    )


def _averaged(times: IntArray, shares: FloatArray, length: int) -> tuple[IntArray, FloatArray]:
    """A step function with more than :data:`STEPS` steps as its mean over as many equal parts of the time."""
    if len(times) <= STEPS:
        return times, shares
    until = np.append(times[1:], length)
    integral = np.concatenate([[0.0], np.cumsum(shares * (until - times))])
    edges = np.linspace(0, length, STEPS + 1)
    means = np.diff(np.interp(edges, np.append(times, length), integral)) / np.diff(edges)
    return edges.astype(np.int64), np.append(means, 0.0)


def draw_compute(axes: Axes, window: Window, scale: int) -> None:
    """Draw the tasks of all shown iterations in the row of compute, and what lies between them."""
    names = [task.name for task in window.schedule.instance.tasks]
    start, end = (times.ravel() for times in window.tasks)
    colours = np.tile(task_colours(names), (len(window.iterations), 1))
    wide = end - start > NARROWEST_EDGED * window.length
    rows = np.tile(_rows(window.schedule), len(window.iterations))
    for chosen, style in ((wide, EDGE), (~wide, {})):
        draw_boxes(axes, start[chosen] / scale, end[chosen] / scale, rows[chosen], facecolors=colours[chosen], **style)
    waits = _waits(window)
    left, right = waits[:, :2].T / scale
    draw_boxes(axes, left, right, waits[:, 2], facecolors=WAIT)
    for number, box in enumerate(np.stack([start, end, rows], axis=1).tolist()):
        _write(axes, window, box, scale, names[number % len(names)], "white" if is_dark(colours[number]) else INK)
    for box in waits.tolist():
        _write(axes, window, box, scale, f"waits_{_time(box[1] - box[0])}", INK)


def _rows(schedule: Schedule) -> IntArray:
    """The row of every task: those of the stages of a pipeline stand one below the other."""
    last = schedule.instance.num_stages - 1
    return np.array([COMPUTE_ROW - last + task.stage for task in schedule.instance.tasks], dtype=np.int64)


def _waits(window: Window) -> IntArray:
    """Start, end and row of the times in which the NPUs of a stage wait, shape (waits, 3)."""
    waits, rows = [], _rows(window.schedule)
    for chain in window.schedule.instance.chains:
        start, end = (times[:, list(chain)].ravel() for times in window.tasks)
        following = np.append(start[1:], window.length)
        own = np.stack([end, following, np.full_like(end, rows[chain[0]])], axis=1)
        waits.append(own[following > end])
    return np.concatenate(waits)


def _write(axes: Axes, window: Window, box: list[int], scale: int, text: str, colour: str) -> None:
    """Write into a row of compute between two times, on two lines where that helps, if there is room."""
    start, end, row = box
    room = (end - start) / window.length / LETTER_WIDTH - 2
    variants = (text.replace("_", " "), text.replace("_", "\n", 1).replace("_", " "))
    for shown in variants:
        if max(len(line) for line in shown.split("\n")) <= room:
            middle = (start + end) / 2 / scale
            axes.text(middle, row, plain_text(shown), fontsize=8, ha="center", va="center", color=colour)
            return


def _draw_periods(timeline: Axes, strip: Axes, window: Window, scale: int, unit: str) -> None:
    """Lines between iterations, and over each of them its number and length."""
    edges, first = window.periods.tolist(), int(_rows(window.schedule).min())
    for moment in edges[1:-1]:
        for axes in (timeline, strip):
            axes.axvline(moment / scale, color=INK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=3)
    for row, begin, end in zip(window.iterations, edges[:-1], edges[1:], strict=True):
        text = f"iteration {row + 1}: {(end - begin) / scale:.4g} {unit}"
        timeline.text(
            (begin + end) / 2 / scale, first - 0.62, text, color=QUIET, fontsize=8.5, ha="center", va="center"
        )


def _pass_entries(schedule: Schedule) -> list[Entry]:
    backward = any(is_backward(task.name) for task in schedule.instance.tasks)
    passes = (("forward", FORWARD), ("backward", BACKWARD)) if backward else (("compute", FORWARD),)
    shades = [(tuple(Patch(facecolor=shade, linewidth=0) for shade in own), name) for name, own in passes]
    return [*shades, (Patch(facecolor=WAIT, linewidth=0), "waits for communication")]


def _phase_entries(schedule: Schedule) -> list[Entry]:
    """What is drawn in full colour, and what lighter."""
    present = sorted({phase for own in schedule.launched for phase in own.kind.rule.phases})
    titles = {
        gathers: " or ".join(phase_title(p) for p in present if (p.rule.data is Data.GROW) == gathers)
        for gathers in (False, True)
    }
    return [(phase_patch(gathers, CHUNK), title) for gathers, title in titles.items() if title]


def _launch_entries(schedule: Schedule, kind: Parallelism) -> list[Entry]:
    """Where every launch of a kind has its colour, the first by name and how many more; else groups by numbers."""
    ramps, launched, groups = launch_ramps(schedule), schedule.launched, launch_groups(schedule, kind)
    if any(len(members) > 1 for members in groups):
        return _group_entries(ramps, groups, kind)
    entries: list[Entry] = [
        (ramp_patches(ramps[n], RAMP_STEPS), f"{kind} parallel: {shortened(launched[n].name, MOST_LETTERS)}")
        for (n,) in groups[:MOST_LAUNCHES]
    ]
    rest = groups[MOST_LAUNCHES:]
    if rest:
        shades = tuple(Patch(facecolor=ramps[n](0.3), linewidth=0) for (n,) in rest)
        entries.append((shades, f"{len(rest)} more"))
    return entries


def _group_entries(ramps: Sequence[Colormap], groups: Sequence[Sequence[int]], kind: Parallelism) -> list[Entry]:
    """The groups of launches by their places among those of their kind."""
    count, entries, before = sum(map(len, groups)), list[Entry](), 0
    for members in groups:
        last = before + len(members)
        places = f"{last}" if len(members) == 1 else f"{before + 1} to {last}"
        text = places if before else f"{kind} parallel: {places} of {count}"
        entries.append((ramp_patches(ramps[members[0]], RAMP_STEPS), text))
        before = last
    return entries

"""Schedules on axes of matplotlib: small enough for a column of a paper, and for given axes.

Each launch has a ramp of colours along which its chunks lie, lighter and hatched while gathering.  With compute, cool
launches are data parallel, warm ones model parallel, and compute is grey.
"""

from collections.abc import Mapping
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from themis_opt.base.arrays import BoolArray, FloatArray
from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import time_unit
from themis_opt.formats.timeline import Bars, Timeline, is_backward, pictured
from themis_opt.problem.phases import growing
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.timed import TimedOperations

PICTURE_SUFFIXES = (".png", ".svg", ".pdf", ".pgf")
TEXT_COLOR, GRID_COLOR = "#1f2933", "#dfe4ea"
BAR_HEIGHT = 0.84  # height of a bar; rows are 1 apart
NARROWEST_EDGED = 0.006  # width, as a part of the time shown, from which bars get an edge, and a hatch while gathering
# Width, as a part of the time shown, below which bars blend with their neighbours; on whole pixels some are lost
NARROWEST_SHARP = 0.001
MOST_SHAPES = 10_000  # bars up to which a file holds them as shapes; more become an image inside it
LIGHTER = 0.5  # how far a gathering chunk is moved towards white
PAPER_WIDTH = 3.3  # inches: a column of a page with two
PAPER_ROW, PAPER_MARGINS = 0.17, 0.42  # inches of a row, and of the axis of time with its label
MOST_EDGED = 60  # bars of a row that are told apart by white edges
FONT_POINTS = 7.0  # points: a caption in a paper is about as large
PAPER_STYLE: Any = {
    **dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), FONT_POINTS),
    "hatch.linewidth": 0.4, "axes.linewidth": 0.5, "pdf.fonttype": 42, "svg.fonttype": "none",
}  # fmt: skip
"""Settings of matplotlib for papers: small letters, which stay letters in the file."""

# Shades between which the tasks of a pass alternate
FORWARD_SHADES, BACKWARD_SHADES = ("#b4bdc8", "#c6cdd6"), ("#66717f", "#7c8794")
# Ends of the ramps of launches; they repeat after the last, and beside compute those of data parallelism are cool
COOL = (("#1d4e89", "#6fa8dc"), ("#1e6b3a", "#7cc48d"), ("#6a2c8c", "#c39bd8"), ("#0f6b70", "#6fc5c8"))
WARM = (("#a63d00", "#f2a25c"), ("#9b1b4f", "#ee8fb2"), ("#8a6d00", "#dcc04a"))


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
    rows = [f"{name} {row}".strip() for name, timeline in timelines.items() for row in timeline.rows]
    axes = _new_axes(len(rows)) if ax is None else ax
    length = max(timeline.length for timeline in timelines.values())
    _, scale = time_unit(length)
    first = 0
    for timeline in timelines.values():
        for bars in timeline.bars:
            if bars.kind != "wait":
                _draw_bars(axes, timeline, bars, scale, first)
        first += len(timeline.rows)
    return _labelled(axes, rows, length, bound)


def plot_operations(timed: TimedOperations, ax: Axes | None = None, *, bound: float | None = None) -> Axes:
    """Draw timed operations, one row for each resource that is used; arguments as of :func:`plot`."""
    used = sorted(set(timed.operations.resource.tolist()))
    length = int(timed.end.max())
    axes = _new_axes(len(used)) if ax is None else ax
    _, scale = time_unit(length)
    for row, number in enumerate(used):
        held = timed.operations.resource == number
        spans = list(zip(timed.start[held] / scale, timed.operations.duration[held] / scale, strict=True))
        edge = 0.3 if len(spans) <= MOST_EDGED else 0.0  # edges of many narrow bars would hide these
        place = (row - BAR_HEIGHT / 2, BAR_HEIGHT)
        axes.broken_barh(spans, place, facecolors="#467bb3", edgecolor="white", linewidth=edge)
    return _labelled(axes, [timed.resources[number] for number in used], length, bound)


def plot_times(times: Mapping[str, int], bound: float, ax: Axes | None = None) -> Axes:
    """Times in picoseconds as bars across, one per name, and a lower bound as a line."""
    axes = _new_axes(len(times)) if ax is None else ax
    longest = max(times.values())
    widths = [time / time_unit(longest)[1] for time in times.values()]
    axes.barh(range(len(times)), widths, height=BAR_HEIGHT, color="#467bb3", zorder=2)
    return _labelled(axes, list(times), longest, bound, margin=0.02)


def _new_axes(num_rows: int) -> Axes:
    figure = Figure(figsize=(PAPER_WIDTH, PAPER_ROW * num_rows + PAPER_MARGINS), dpi=300, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.tick_params(labelsize=FONT_POINTS)
    axes.xaxis.label.set_fontsize(FONT_POINTS)
    return axes


def _labelled(axes: Axes, rows: list[str], length: float, bound: float | None, margin: float = 0.0) -> Axes:
    """The axes with names of rows, an axis of time of so many picoseconds, and a bound as a line."""
    unit, scale = time_unit(length)
    if bound is not None:
        axes.axvline(bound / scale, color=TEXT_COLOR, linewidth=0.9, linestyle=(0, (4, 2)), zorder=3)
    axes.set_yticks(range(len(rows)), list(map(plain_text, rows)))
    axes.set_ylim(len(rows) - 1 + BAR_HEIGHT / 2 + 0.1, -BAR_HEIGHT / 2 - 0.1)
    axes.set_xlim(0, (1 + margin) * length / scale)
    axes.set_xlabel(f"time ({unit})")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=GRID_COLOR, linewidth=0.5)
    axes.set_axisbelow(True)
    return axes


def save_plot(path: Path, schedule: Schedule, **options: Any) -> None:
    """Write :func:`plot` with its options in the style of papers, as :func:`save_figure` does."""
    with rc_context(PAPER_STYLE):
        figure = plot(schedule, **options).get_figure(root=True)
        assert figure is not None  # it made the axes
        save_figure(figure, path)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG, PDF or, where LaTeX is installed, PGF; equal figures give equal files.

    Raises InputError if the suffix of the path is another one, LaTeX is missing, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        raise InputError(f"pictures end in {', '.join(PICTURE_SUFFIXES)}", field="path", value=str(path))
    content = BytesIO()
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "themis-opt"}):
        try:
            figure.savefig(content, format=suffix[1:], metadata=dates.get(suffix))
        except (RuntimeError, FileNotFoundError):
            if suffix != ".pgf":
                raise
            raise InputError("PGF needs LaTeX, which is not installed", field="path", value=str(path)) from None
    write_atomically(path, content.getvalue())


def _draw_bars(axes: Axes, timeline: Timeline, bars: Bars, scale: int, first: int) -> None:
    """Draw bars of one kind, with `scale` picoseconds in the unit of the axis, from row `first` of the axes on."""
    schedule, width = timeline.schedule, (bars.end - bars.start) / timeline.length
    is_stage = bars.kind == "stage"
    colours = (_stage_colours(schedule) if is_stage else _task_colours(schedule))[bars.number]
    hatched = (
        growing(schedule.plan.phases(schedule.instance))[bars.number] if is_stage else np.zeros(len(width), np.bool_)
    )
    wide, thin = width > NARROWEST_EDGED, width < NARROWEST_SHARP
    edged = {"edgecolors": "white", "linewidths": 0.3}
    styles: tuple[tuple[BoolArray, dict[str, Any]], ...] = (
        (thin, {"snap": False}),
        (~wide & ~thin, {"antialiaseds": False}),
        (wide & ~hatched, edged),
        (wide & hatched, edged | {"hatch": "////"}),
    )
    for chosen, style in styles:
        left, right, rows = bars.start[chosen] / scale, bars.end[chosen] / scale, bars.row[chosen] + first
        top, bottom = rows - BAR_HEIGHT / 2, rows + BAR_HEIGHT / 2
        x, y = np.stack([left, right, right, left], axis=1), np.stack([top, top, bottom, bottom], axis=1)
        corners: Any = np.stack([x, y], axis=2)  # an array is a sequence
        style |= {"facecolors": colours[chosen], "rasterized": len(bars.row) > MOST_SHAPES}
        axes.add_collection(PolyCollection(corners, zorder=2, **{"linewidths": 0.0} | style), autolim=False)


def _stage_colours(schedule: Schedule) -> FloatArray:
    """Red, green, blue and opacity of every stage of the plan, shape (stages, 4)."""
    colours: FloatArray = np.concatenate(
        [
            np.repeat(ramp(np.linspace(0, 1, len(part.sizes))), part.paths.shape[1], axis=0)
            for ramp, part in zip(_launch_ramps(schedule), schedule.plan.chunks, strict=True)
        ]
    )
    gathers = growing(schedule.plan.phases(schedule.instance))
    colours[gathers] = colours[gathers] + LIGHTER * (1 - colours[gathers])
    return colours


def _task_colours(schedule: Schedule) -> FloatArray:
    """Red, green, blue and opacity of every task, shape (tasks, 4)."""
    names = [task.name for task in schedule.instance.tasks]
    shades = [
        (BACKWARD_SHADES if is_backward(name) else FORWARD_SHADES)[number % 2] for number, name in enumerate(names)
    ]
    return np.array([to_rgba(shade) for shade in shades])


def _launch_ramps(schedule: Schedule) -> list[Colormap]:
    """Colours of the chunks of each launch, from the first to the last."""
    if len(schedule.launched) == 1 and not schedule.has_period:
        return [LinearSegmentedColormap.from_list("chunks", colormaps["viridis"](np.linspace(0.08, 0.86, 32)))]
    several = cycle((*COOL, *WARM))
    ramps = {"data": cycle(COOL), "model": cycle(WARM)} if schedule.has_period else {"data": several, "model": several}
    ends = [next(ramps[launch.parallelism]) for launch in schedule.launched]
    return [LinearSegmentedColormap.from_list("chunks", list(both)) for both in ends]


def plain_text(text: str) -> str:
    """A name as matplotlib draws it literally: dollars would start a formula, and XML holds no control characters."""
    text = text.replace("$", r"\$")
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)

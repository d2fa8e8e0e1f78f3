"""Schedules as pictures: a timeline of every dimension over a curve of the bandwidth in use.

Only matplotlib's object-oriented interface is used, so that drawing neither opens windows nor touches the
state of :mod:`matplotlib.pyplot`.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_link, time_unit
from themis_opt.formats.palette import (
    CURVE,
    INK,
    LINE,
    QUIET,
    is_dark,
    launch_ramps,
    lightened,
    plain_text,
    stage_colours,
)
from themis_opt.formats.tables import phase_name
from themis_opt.formats.window import Window, last_periods
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import Data, Phase, growing
from themis_opt.schedules.schedule import Schedule

SUFFIXES = (".png", ".svg", ".pdf", ".pgf")

WIDTH, ROW, STRIP = 12.0, 0.62, 0.8
"""Inches: the figure, the row of a dimension, the curve."""

TOP, BOTTOM, GAP = 1.1, 0.6, 0.12
"""Inches: heading, time axis, and between the timeline and the curve."""

COMPUTE_ROW = -1
"""The row of compute, if there is any: dimensions stand below it, from 0 on."""

HEIGHT = 0.84
"""Height of a bar; rows are 1 apart."""

NARROWEST_EDGED = 0.006
"""Width, as a part of the time shown, from which bars get an edge, and a hatch while gathering."""

NARROWEST_SHARP = 0.001
"""Width, as a part of the time shown, below which bars blend with their neighbours; on whole pixels some are lost."""

DIGIT_WIDTH = 0.0066
"""Room, as a part of the time shown, for a digit of the number of a chunk; one more for the margins."""

MOST_SHAPES = 10_000
"""Bars up to which an SVG holds them as shapes; more become an image inside it."""

MICRO = "µs"
"""What pictures call microseconds."""

EDGE = {"edgecolors": "white", "linewidths": 0.6}

RAMP_STEPS = 8
MOST_COLLECTIVES, MOST_LETTERS = 5, 18
"""Collectives that the legend names, the rest are counted; and letters of a name."""

FIRST_ROW, SECOND_ROW, COLUMNS = 0.42, 0.63, 3
"""Rows of the legend: inches from the upper edge, and entries in each."""

Entry = tuple[Patch | tuple[Patch, ...], str]
"""What a legend shows, and what that means."""


def gantt(schedule: Schedule, title: str = "", bound: float | None = None) -> Figure:
    """Draw a schedule without compute.

    One row per dimension, dim1 on top, with its busy share of the makespan at the end; one bar per stage,
    coloured by collective and chunk, lighter (and hatched where there is room) while gathering.  The strip
    underneath is the share of the bandwidth that belongs to busy dimensions.

    Parameters
    ----------
    title : str
        Headline; the name of the instance by default.
    bound : float, optional
        Picoseconds of a lower bound on the makespan, drawn as a line.
    """
    window = last_periods(schedule, 1)
    unit, scale = time_unit(window.length, micro=MICRO)
    figure, timeline, strip = panels(ROW * len(schedule.instance.fabric.dimensions))
    draw_bars(timeline, window, scale)
    draw_rows(timeline, window)
    draw_strip(strip, *window.busy_bandwidth, scale)
    label_time(strip, window.length / scale, unit)
    caption = f"makespan {schedule.makespan / scale:.4g} {unit}, {busiest_in_words(schedule)}"
    if bound is not None:
        timeline.axvline(bound / scale, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)
        caption += f", no schedule below {bound / scale:.4g} {unit} (dashed)"
    draw_heading(figure, title or schedule.instance.name, caption)
    for inches, entries in ((FIRST_ROW, _phase_entries(schedule)), (SECOND_ROW, _collective_entries(schedule))):
        draw_legend(
            figure, inches, entries, x=0.955, loc="upper right", ncols=min(COLUMNS, len(entries)), handlelength=2.6,
            columnspacing=1.6,
        )  # fmt: skip
    return figure


def busiest_in_words(schedule: Schedule) -> str:
    """The dimension that is busy longest; a mean over all would hide that a thin one has nothing left to give."""
    name, share = max(schedule.busy.items(), key=lambda item: item[1])
    return f"{name} busy {share:.1%} of the time"


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG, PDF or, where LaTeX is installed, PGF; equal figures give equal files.

    Raises
    ------
    InputError
        If the suffix of the path is another one, LaTeX is missing, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"pictures end in {', '.join(SUFFIXES)}", field="path", value=str(path))
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


def panels(rows: float, top: float = TOP) -> tuple[Figure, Axes, Axes]:
    """A figure with the timeline, `rows` inches high, and the strip, below `top` inches for the heading."""
    height = rows + STRIP + GAP + top + BOTTOM
    figure = Figure(figsize=(WIDTH, height), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    left, width = 0.1, 0.848
    strip = figure.add_axes((left, BOTTOM / height, width, STRIP / height))
    timeline = figure.add_axes((left, (BOTTOM + STRIP + GAP) / height, width, rows / height), sharex=strip)
    return figure, timeline, strip


def draw_bars(axes: Axes, window: Window, scale: int) -> None:
    """Draw all shown stages, each in the row of its dimension, with `scale` picoseconds to the unit of the axis."""
    schedule, numbers = window.schedule, window.stage_in_plan
    colours = stage_colours(schedule)[numbers]
    width = (window.end - window.start) / window.length
    wide, thin = width > NARROWEST_EDGED, width < NARROWEST_SHARP
    gathers = growing(schedule.plan.phases(schedule.instance))[numbers]

    def draw(chosen: BoolArray, **style: Any) -> None:
        style |= {"facecolors": colours[chosen], "rasterized": len(numbers) > MOST_SHAPES}
        left, right = window.start[chosen] / scale, window.end[chosen] / scale
        draw_boxes(axes, left, right, window.dimensions[chosen], **style)

    draw(thin, snap=False)
    draw(~wide & ~thin, antialiaseds=False)
    draw(wide & ~gathers, **EDGE)
    draw(wide & gathers, hatch="////", **EDGE)
    _number_chunks(axes, window, colours, scale)


def draw_boxes(axes: Axes, left: FloatArray, right: FloatArray, rows: IntArray, **style: Any) -> None:
    """Draw bars as one collection: all of them share the style."""
    top, bottom = rows - HEIGHT / 2, rows + HEIGHT / 2
    x, y = np.stack([left, right, right, left], axis=1), np.stack([top, top, bottom, bottom], axis=1)
    corners: Any = np.stack([x, y], axis=2)  # an array is a sequence
    axes.add_collection(PolyCollection(corners, zorder=2, **{"linewidths": 0.0} | style), autolim=False)


def _number_chunks(axes: Axes, window: Window, colours: FloatArray, scale: int) -> None:
    """Write the number of the chunk on every bar that has room for it."""
    chunk = window.schedule.plan.chunk_of_stage[window.stage_in_plan]
    middle = (window.start + window.end) / 2 / scale
    room = (window.end - window.start) / window.length / DIGIT_WIDTH
    for stage in np.flatnonzero(room > 2):
        number = str(chunk[stage])
        if room[stage] > len(number) + 1:
            axes.text(
                middle[stage], window.dimensions[stage], number, fontsize=8, ha="center", va="center",
                color="white" if is_dark(colours[stage]) else INK,
                bbox={"facecolor": colours[stage], "linewidth": 0, "pad": 1.0},
            )  # fmt: skip


def draw_rows(axes: Axes, window: Window) -> None:
    """Name the rows of the timeline, that of compute above those of the dimensions, and the busy share of each."""
    instance = window.schedule.instance
    rows = {k: (_row_label(instance, k), _busy_share(window, k)) for k in range(len(instance.fabric.dimensions))}
    if window.schedule.has_period:
        start, end = window.tasks
        computed = (end - start).sum(axis=0)
        stages = {-1 - number: chain for number, chain in enumerate(reversed(instance.chains))}
        for number, chain in stages.items():
            label = "compute" if instance.num_stages == 1 else f"stage {instance.num_stages + number + 1}"
            rows[number] = label, f"{computed[list(chain)].sum() / window.length:.1%}"
        rows = dict(sorted(rows.items()))
    axes.set_yticks(list(rows), [label for label, _ in rows.values()])
    axes.set_ylim(max(rows) + 0.5, min(rows) - 0.5)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    notes = {min(rows) - 0.62: "busy"} | {row: share for row, (_, share) in rows.items()}
    for row, text in notes.items():
        axes.text(1.008, row, text, transform=axes.get_yaxis_transform(), color=QUIET, fontsize=8.5, va="center")
    _make_plain(axes)


def _row_label(instance: Instance, dimension: int) -> str:
    """Name, size and bandwidth of a dimension, on two lines."""
    network = instance.fabric
    name = plain_text(network.dimension_names[dimension])
    return f"{name}\n{network.sizes[dimension]} × {format_link(network.bandwidths[dimension])}"


def _busy_share(window: Window, dimension: int) -> str:
    """Percentage of the time in which a dimension is held, or that it is unused."""
    if dimension not in window.schedule.dimensions_in_use:
        return "unused"
    intervals = window.busy_intervals(dimension)
    return f"{(intervals[:, 1] - intervals[:, 0]).sum() / window.length:.1%}"


def draw_strip(axes: Axes, times: IntArray, shares: FloatArray, scale: int) -> None:
    """Draw the share of the bandwidth in use, a step function of picoseconds, `scale` to the unit of the axis."""
    axes.fill_between(times / scale, shares, step="post", color=CURVE, alpha=0.3, linewidth=0)
    axes.step(times / scale, shares, where="post", color=CURVE, linewidth=0.9)
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.5, 1])
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    axes.set_ylabel("busy\nbandwidth", color=QUIET, fontsize=8.5, rotation=0, ha="right", va="center")
    _make_plain(axes)


def label_time(axes: Axes, length: float, unit: str) -> None:
    """Give the axis of time its unit and its length in it."""
    axes.set_xlabel(f"time ({unit})", color=QUIET, fontsize=9)
    axes.set_xlim(0, length)


def draw_heading(figure: Figure, title: str, caption: str) -> None:
    """Write the headline and a line below it, at the top left."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.25 / height, plain_text(title), color=INK, fontsize=12.5, fontweight="bold", va="center")
    figure.text(0.012, 1 - 0.55 / height, plain_text(caption), color=INK, fontsize=10, va="center")


def _make_plain(axes: Axes) -> None:
    """Take the frame away and quieten what is left."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(colors=QUIET, labelsize=8.5, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(figure: Figure, inches: float, entries: Sequence[Entry], *, x: float, **style: Any) -> None:
    """Draw one row of the legend, or several, from `inches` below the upper edge on."""
    handles, labels = zip(*entries, strict=True)
    figure.legend(
        handles, labels, bbox_to_anchor=(x, 1 - inches / figure.get_figheight()), frameon=False, fontsize=8.5,
        labelcolor=QUIET, borderpad=0, borderaxespad=0, handler_map={tuple: HandlerTuple(ndivide=None, pad=0)}, **style,
    )  # fmt: skip


def _phase_entries(schedule: Schedule) -> list[Entry]:
    present = sorted({phase for own in schedule.launched for phase in own.kind.rule.phases})
    return [(phase_patch(phase.rule.data is Data.GROW, QUIET), phase_title(phase)) for phase in present]


def phase_title(phase: Phase) -> str:
    """How legends spell a phase, such as ``reduce-scatter``."""
    return phase_name(phase).replace("_", "-")


def phase_patch(gathers: bool, colour: str) -> Patch:
    """What bars of a colour look like in a phase that gathers, or in others."""
    if not gathers:
        return Patch(facecolor=colour)
    light = lightened(np.array(to_rgba(colour)))
    return Patch(facecolor=tuple(light), hatch="////", edgecolor="white", linewidth=0)


def _collective_entries(schedule: Schedule) -> list[Entry]:
    ramps, chunks, count = launch_ramps(schedule), schedule.plan.chunks, len(schedule.launched)
    entries: list[Entry] = [
        (
            ramp_patches(ramps[n], RAMP_STEPS),
            f"{_chunk_range(len(chunks[n].sizes))} of {shortened(own.name, MOST_LETTERS)}",
        )
        for n, own in enumerate(schedule.launched[:MOST_COLLECTIVES])
    ]
    if count > MOST_COLLECTIVES:
        entries.append((Patch(visible=False), f"and {count - MOST_COLLECTIVES} more"))
    return entries


def _chunk_range(count: int) -> str:
    return f"chunks 0 to {count - 1}" if count > 1 else "chunk 0"


def shortened(label: str, letters: int) -> str:
    """The first letters of a name."""
    return plain_text(label if len(label) <= letters else f"{label[: letters - 1]}…")


def ramp_patches(ramp: Colormap, count: int) -> tuple[Patch, ...]:
    """Some shades of the chunks of a launch."""
    return tuple(Patch(facecolor=ramp(position), linewidth=0) for position in np.linspace(0, 1, count))

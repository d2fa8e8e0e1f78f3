"""Schedules as pictures: a timeline over a curve of the bandwidth in use."""

from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_short_time, time_unit
from themis_opt.formats import drawing
from themis_opt.formats.palette import (
    BACKWARD,
    FORWARD,
    INK,
    QUIET,
    WAIT,
    fit_screens,
    is_backward,
    launch_ramps,
    lightened,
    plain_text,
)
from themis_opt.formats.tables import phase_title
from themis_opt.formats.timeline import Timeline, pictured
from themis_opt.problem.phases import Data
from themis_opt.schedules.memory import changes_memory
from themis_opt.schedules.schedule import Schedule

PICTURE_SUFFIXES = (".png", ".svg", ".pdf", ".pgf")

FIGURE_WIDTH, ROW_HEIGHT, CURVE_HEIGHT = 12.0, 0.62, 0.8  # inches: the figure, a row of the timeline, the curve
HEADING, PERIOD_HEADING, TIME_AXIS, CURVE_MARGIN = 1.1, 1.48, 0.6, 0.12
"""Inches: heading, the same with names of iterations, time axis, and between the timeline and the curve."""

LEFT_EDGE, AXES_WIDTH = 0.1, 0.848  # shares of the width of the figure


class LegendStyle(NamedTuple):
    """Place of the rows of a legend, and spacing: rows are inches from the upper edge, x is a share of the width."""

    rows: tuple[float, float]
    x: float
    loc: Literal["upper left", "upper right"]
    columns: int
    handlelength: float
    columnspacing: float


LEGEND = LegendStyle((0.42, 0.63), 0.955, "upper right", 3, 2.6, 1.6)
PERIOD_LEGEND = LegendStyle((0.76, 0.98), 0.012, "upper left", 99, 2.4, 1.5)

LAUNCH_LETTERS, LAUNCH_SHADES = 20, 6  # letters of the name of a launch in the legend, shades of its chunks
EXAMPLE_CHUNK = "#1d4e89"
"""Stands for any launch where phases are explained."""

LegendEntry = tuple[Patch | tuple[Patch, ...], str]  # the sample of a legend, and its meaning


def gantt(schedule: Schedule, title: str = "", bound: float | None = None) -> Figure:
    """Draw a schedule or, where there is compute, its last complete iterations.

    One row per dimension, dim1 on top, with its busy share of the time at the end; one bar per stage, coloured by
    collective and chunk, lighter (and hatched where there is room) while gathering.  The strip underneath is the share
    of the bandwidth that belongs to busy dimensions.

    With compute, the upper row has its tasks, with waits for communication between them; launches for data parallelism
    have cool colours, those for model parallelism warm ones.  Where what an NPU holds changes, a strip shows it.

    `title`: headline; the name of the instance by default.
    `bound`: picoseconds of a lower bound on the makespan, drawn as a line where there is no compute.
    """
    timeline = pictured(schedule)
    unit, scale = time_unit(timeline.length)
    figure, upper, strips, lower = _panels(timeline)
    for strip in strips:
        drawing.draw_memory(strip, timeline, scale)
    _draw_timeline(upper, timeline, scale)
    drawing.draw_busy_bandwidth(lower, timeline, scale)
    drawing.label_time(lower, timeline.length / scale, unit)
    if schedule.has_period:
        drawing.draw_periods(upper, [*strips, lower], timeline, scale, unit)
        caption = _period_caption(schedule)
    else:
        caption = f"makespan {schedule.makespan / scale:.4g} {unit}, {_busiest(schedule)}"
        if bound is not None:
            upper.axvline(bound / scale, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)
            caption += f", no schedule below {bound / scale:.4g} {unit} (dashed)"
    _draw_heading(figure, title or schedule.instance.name, caption)
    _draw_legend(figure, schedule)
    return figure


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
    written = content.getvalue()
    write_atomically(path, fit_screens(written.decode()) if suffix == ".svg" else written)


def _draw_timeline(axes: Axes, timeline: Timeline, scale: int) -> None:
    for bars in timeline.bars:
        drawing.draw_bars(axes, timeline, bars, scale)
        drawing.label_bars(axes, timeline, bars, scale)
    drawing.label_rows(axes, timeline)


def _figure(height: float) -> Figure:
    figure = Figure(figsize=(FIGURE_WIDTH, height), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _add_axes(figure: Figure, bottom: float, height: float, shared: Axes | None = None) -> Axes:
    """Axes across the figure; `bottom` and `height` are inches."""
    whole = figure.get_figheight()
    return figure.add_axes((LEFT_EDGE, bottom / whole, AXES_WIDTH, height / whole), sharex=shared)


def _panels(timeline: Timeline) -> tuple[Figure, Axes, list[Axes], Axes]:
    """A figure, the axes of the timeline, those of memory if there is something to show, and those of the curve."""
    rows, heading = ROW_HEIGHT * len(timeline.rows), PERIOD_HEADING if timeline.compute_rows else HEADING
    strips = 1 + changes_memory(timeline.schedule.instance)
    bottoms = [TIME_AXIS + place * (CURVE_HEIGHT + CURVE_MARGIN) for place in range(strips + 1)]
    figure = _figure(rows + heading + bottoms[-1])
    lower = _add_axes(figure, bottoms[0], CURVE_HEIGHT)
    upper = _add_axes(figure, bottoms[-1], rows, lower)
    return figure, upper, [_add_axes(figure, bottom, CURVE_HEIGHT, lower) for bottom in bottoms[1:-1]], lower


def _busiest(schedule: Schedule) -> str:
    """The dimension that is busy longest; a mean over all would hide that a thin one has nothing left to give."""
    name, share = max(schedule.busy.items(), key=lambda item: item[1])
    return f"{name} busy {share:.1%} of the time"


def _period_caption(schedule: Schedule) -> str:
    times = (schedule.makespan, schedule.period.exposed, schedule.instance.compute)
    time, exposed, compute = (format_short_time(t) for t in times)
    share = schedule.period.exposed / schedule.makespan
    bubble = f", bubble {format_short_time(schedule.period.bubble)}" if schedule.period.bubble else ""
    steady = "" if schedule.period.is_steady else " (iterations do not repeat each other)"
    return (
        f"iteration {time}{steady}, compute {compute}{bubble}, exposed communication {exposed} ({share:.1%}), "
        f"overlap {schedule.period.overlap:.1%}, {_busiest(schedule)}"
    )


def _draw_heading(figure: Figure, title: str, caption: str) -> None:
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.25 / height, plain_text(title), color=INK, fontsize=12.5, fontweight="bold", va="center")
    figure.text(0.012, 1 - 0.55 / height, plain_text(caption), color=INK, fontsize=10, va="center")


def _draw_legend(figure: Figure, schedule: Schedule) -> None:
    style = PERIOD_LEGEND if schedule.has_period else LEGEND
    for inches, entries in zip(style.rows, _legend_entries(schedule), strict=True):
        handles, labels = zip(*entries, strict=True)
        figure.legend(
            handles, labels, loc=style.loc, bbox_to_anchor=(style.x, 1 - inches / figure.get_figheight()),
            ncols=min(style.columns, len(entries)), handlelength=style.handlelength,
            columnspacing=style.columnspacing, frameon=False, fontsize=8.5, labelcolor=QUIET, borderpad=0,
            borderaxespad=0, handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        )  # fmt: skip


def _legend_entries(schedule: Schedule) -> tuple[list[LegendEntry], list[LegendEntry]]:
    """Both rows of the legend of a schedule."""
    passes = _pass_entries(schedule) if schedule.has_period else []
    return [*passes, *_phase_entries(schedule)], _launch_entries(schedule)


def _phase_entries(schedule: Schedule) -> list[LegendEntry]:
    """Phases in full colour as one entry, and lighter ones as another."""
    present = sorted({phase for exchange in schedule.launched for phase in exchange.kind.rule.phases})
    titles = {
        gathers: " or ".join(phase_title(p) for p in present if (p.rule.data is Data.GROW) == gathers)
        for gathers in (False, True)
    }
    return [(_phase_patch(gathers), title) for gathers, title in titles.items() if title]


def _phase_patch(gathers: bool) -> Patch:
    if not gathers:
        return Patch(facecolor=EXAMPLE_CHUNK)
    light = lightened(np.array(to_rgba(EXAMPLE_CHUNK)))
    return Patch(facecolor=tuple(light), hatch="////", edgecolor="white", linewidth=0)


def _pass_entries(schedule: Schedule) -> list[LegendEntry]:
    backward = any(is_backward(task.name) for task in schedule.instance.tasks)
    passes = (("forward", FORWARD), ("backward", BACKWARD)) if backward else (("compute", FORWARD),)
    entries = [(tuple(Patch(facecolor=shade, linewidth=0) for shade in shades), name) for name, shades in passes]
    return [*entries, (Patch(facecolor=WAIT, linewidth=0), "waits for communication")]


def _launch_entries(schedule: Schedule) -> list[LegendEntry]:
    """The first launches by name, beside compute those of each kind of parallelism, and the rest counted."""
    ramps, chunks, entries = launch_ramps(schedule), schedule.plan.chunks, list[LegendEntry]()
    for kind, most in (("data", 2), ("model", 2)) if schedule.has_period else (("", 5),):
        numbers = [n for n, launch in enumerate(schedule.launched) if kind in ("", launch.parallelism)]
        for number in numbers[:most]:
            head = f"{kind} parallel: " if kind else f"{_chunk_range(len(chunks[number].sizes))} of "
            name = _shortened(schedule.launched[number].name, LAUNCH_LETTERS)
            entries.append((_ramp_patches(ramps[number], LAUNCH_SHADES), head + name))
        if len(numbers) > most:
            entries.append((Patch(visible=False), f"and {len(numbers) - most} more"))
    return entries


def _chunk_range(count: int) -> str:
    return f"chunks 0 to {count - 1}" if count > 1 else "chunk 0"


def _shortened(name: str, letters: int) -> str:
    return plain_text(name if len(name) <= letters else f"{name[: letters - 1]}…")


def _ramp_patches(ramp: Colormap, count: int) -> tuple[Patch, ...]:
    return tuple(Patch(facecolor=ramp(position), linewidth=0) for position in np.linspace(0, 1, count))

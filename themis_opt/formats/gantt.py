"""Schedules as pictures: a timeline over a curve of the bandwidth in use, or a run below its prediction."""

from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, time_unit
from themis_opt.formats.drawing import (
    PICTURED_MICRO,
    draw_bars,
    draw_busy_bandwidth,
    draw_periods,
    format_pictured_time,
    label_bars,
    label_rows,
    label_time,
)
from themis_opt.formats.legends import legend_entries
from themis_opt.formats.palette import INK, QUIET, plain_text
from themis_opt.formats.timeline import Timeline, pictured
from themis_opt.schedules.schedule import Schedule

PICTURE_SUFFIXES = (".png", ".svg", ".pdf", ".pgf")

FIGURE_WIDTH, ROW_HEIGHT, CURVE_HEIGHT = 12.0, 0.62, 0.8  # inches: the figure, a row of the timeline, the curve
HEADING, PERIOD_HEADING, TIME_AXIS, CURVE_MARGIN = 1.1, 1.48, 0.6, 0.12
"""Inches: heading, the same with names of iterations, time axis, and between the timeline and the curve."""

TITLE_MARGIN = 0.62  # inches between two timelines, for the name of the lower one
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


def gantt(schedule: Schedule, title: str = "", bound: float | None = None) -> Figure:
    """Draw a schedule or, where there is compute, its last complete iterations.

    One row per dimension, dim1 on top, with its busy share of the time at the end; one bar per stage, coloured by
    collective and chunk, lighter (and hatched where there is room) while gathering.  The strip underneath is the share
    of the bandwidth that belongs to busy dimensions.

    With compute, the upper row has its tasks, with waits for communication between them; launches for data parallelism
    have cool colours, those for model parallelism warm ones.

    `title`: headline; the name of the instance by default.
    `bound`: picoseconds of a lower bound on the makespan, drawn as a line where there is no compute.
    """
    timeline = pictured(schedule)
    unit, scale = time_unit(timeline.length, micro=PICTURED_MICRO)
    figure, upper, lower = _panels(timeline)
    _draw_timeline(upper, timeline, scale)
    draw_busy_bandwidth(lower, timeline, scale)
    label_time(lower, timeline.length / scale, unit)
    if schedule.has_period:
        draw_periods(upper, lower, timeline, scale, unit)
        caption = _period_caption(schedule)
    else:
        caption = f"makespan {schedule.makespan / scale:.4g} {unit}, {_busiest(schedule)}"
        if bound is not None:
            upper.axvline(bound / scale, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)
            caption += f", no schedule below {bound / scale:.4g} {unit} (dashed)"
    _draw_heading(figure, title or schedule.instance.name, caption)
    _draw_legend(figure, schedule)
    return figure


def execution_gantt(predicted: Schedule, measured: Schedule, title: str = "") -> Figure:
    """Draw a prediction and, below it, the run of it, on one axis of time.

    `predicted`, `measured`: of one plan.
    `title`: headline; the name of the instance by default.
    """
    timelines = [pictured(schedule) for schedule in (predicted, measured)]
    lengths = [timeline.length for timeline in timelines]
    unit, scale = time_unit(max(lengths), micro=PICTURED_MICRO)
    figure, both = _two_panels(len(timelines[0].rows))
    for axes, timeline, name in zip(both, timelines, ("predicted", "measured"), strict=True):
        _draw_timeline(axes, timeline, scale)
        axes.set_title(f"{name}: {timeline.length / scale:.4g} {unit}", loc="left", color=INK, fontsize=10)
    label_time(both[1], max(lengths) / scale, unit)
    both[1].tick_params(axis="x", bottom=True, labelbottom=True)
    error = lengths[1] / lengths[0] - 1
    where = "above" if error >= 0 else "below"
    caption = f"the measured time is {format_percent(abs(error))} {where} the predicted one"
    _draw_heading(figure, title or predicted.instance.name, caption)
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
    write_atomically(path, content.getvalue())


def _draw_timeline(axes: Axes, timeline: Timeline, scale: int) -> None:
    for bars in timeline.bars:
        draw_bars(axes, timeline, bars, scale)
        label_bars(axes, timeline, bars, scale)
    label_rows(axes, timeline)


def _figure(height: float) -> Figure:
    figure = Figure(figsize=(FIGURE_WIDTH, height), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _add_axes(figure: Figure, bottom: float, height: float, shared: Axes | None = None) -> Axes:
    """Axes across the figure; `bottom` and `height` are inches."""
    whole = figure.get_figheight()
    return figure.add_axes((LEFT_EDGE, bottom / whole, AXES_WIDTH, height / whole), sharex=shared)


def _panels(timeline: Timeline) -> tuple[Figure, Axes, Axes]:
    rows, heading = ROW_HEIGHT * len(timeline.rows), PERIOD_HEADING if timeline.compute_rows else HEADING
    figure = _figure(rows + CURVE_HEIGHT + CURVE_MARGIN + heading + TIME_AXIS)
    lower = _add_axes(figure, TIME_AXIS, CURVE_HEIGHT)
    return figure, _add_axes(figure, TIME_AXIS + CURVE_HEIGHT + CURVE_MARGIN, rows, lower), lower


def _two_panels(num_rows: int) -> tuple[Figure, tuple[Axes, Axes]]:
    rows = ROW_HEIGHT * num_rows
    figure = _figure(HEADING + 2 * rows + TITLE_MARGIN + TIME_AXIS)
    lower = _add_axes(figure, TIME_AXIS, rows)
    return figure, (_add_axes(figure, TIME_AXIS + rows + TITLE_MARGIN, rows, lower), lower)


def _busiest(schedule: Schedule) -> str:
    """The dimension that is busy longest; a mean over all would hide that a thin one has nothing left to give."""
    name, share = max(schedule.busy.items(), key=lambda item: item[1])
    return f"{name} busy {share:.1%} of the time"


def _period_caption(schedule: Schedule) -> str:
    times = (schedule.makespan, schedule.period.exposed, schedule.instance.compute)
    time, exposed, compute = (format_pictured_time(t) for t in times)
    share = schedule.period.exposed / schedule.makespan
    steady = "" if schedule.period.is_steady else " (iterations do not repeat each other)"
    return (
        f"iteration {time}{steady}, compute {compute}, exposed communication {exposed} ({share:.1%}), "
        f"overlap {schedule.period.overlap:.1%}, {_busiest(schedule)}"
    )


def _draw_heading(figure: Figure, title: str, caption: str) -> None:
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.25 / height, plain_text(title), color=INK, fontsize=12.5, fontweight="bold", va="center")
    figure.text(0.012, 1 - 0.55 / height, plain_text(caption), color=INK, fontsize=10, va="center")


def _draw_legend(figure: Figure, schedule: Schedule) -> None:
    style = PERIOD_LEGEND if schedule.has_period else LEGEND
    for inches, entries in zip(style.rows, legend_entries(schedule), strict=True):
        handles, labels = zip(*entries, strict=True)
        figure.legend(
            handles, labels, loc=style.loc, bbox_to_anchor=(style.x, 1 - inches / figure.get_figheight()),
            ncols=min(style.columns, len(entries)), handlelength=style.handlelength,
            columnspacing=style.columnspacing, frameon=False, fontsize=8.5, labelcolor=QUIET, borderpad=0,
            borderaxespad=0, handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        )  # fmt: skip

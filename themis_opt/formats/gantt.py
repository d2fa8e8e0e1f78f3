"""Schedules as pictures: a timeline of every dimension over a curve of the bandwidth in use.

Only matplotlib's object-oriented interface is used, so that drawing neither opens windows nor touches the
state of :mod:`matplotlib.pyplot`.
"""

from io import BytesIO
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from themis_opt.cost import FloatArray, IntArray
from themis_opt.documents import write_atomically
from themis_opt.errors import InputError
from themis_opt.formats.activity import busy_bandwidth, busy_intervals
from themis_opt.formats.gantt_bars import draw_bars
from themis_opt.formats.gantt_legend import draw_legend
from themis_opt.formats.palette import CURVE, INK, LINE, QUIET, plain_text
from themis_opt.schedule import Schedule

SUFFIXES = (".png", ".svg")

WIDTH, ROW, STRIP = 12.0, 0.62, 0.8
"""Inches: the figure, the row of a dimension, the curve."""

TOP, BOTTOM, GAP = 1.1, 0.6, 0.12
"""Inches: heading, time axis, and between the timeline and the curve."""


def gantt(schedule: Schedule, title: str = "") -> Figure:
    """Draw a schedule.

    One row per dimension, dim1 on top, with its busy share of the makespan at the end; one bar per stage,
    coloured by collective and chunk, lighter (and hatched where there is room) while gathering.  The strip
    underneath is the share of the bandwidth that belongs to busy dimensions.

    Parameters
    ----------
    title : str
        Headline; the name of the instance by default.
    """
    unit, scale = time_unit(schedule.makespan)
    figure, timeline, strip = panels(ROW * len(schedule.instance.network.dimensions))
    _draw_timeline(timeline, schedule, scale)
    draw_strip(strip, *busy_bandwidth(schedule), scale)
    strip.set_xlabel(f"time ({unit})", color=QUIET, fontsize=9)
    strip.set_xlim(0, schedule.makespan / scale)
    caption = f"makespan {schedule.makespan / scale:.4g} {unit}, utilisation {schedule.utilisation:.1%}"
    draw_heading(figure, title or schedule.instance.name, caption)
    draw_legend(figure, schedule)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG or SVG; equal figures give equal files.

    Raises
    ------
    InputError
        If the suffix of the path is neither, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"pictures end in {' or '.join(SUFFIXES)}", field="path", value=str(path))
    content = BytesIO()
    with rc_context({"svg.hashsalt": "themis-opt"}):
        figure.savefig(content, format=suffix[1:], metadata={"Date": None} if suffix == ".svg" else None)
    write_atomically(path, content.getvalue())


def time_unit(makespan: int) -> tuple[str, int]:
    """The largest unit in which a makespan is at least 1, and its picoseconds."""
    units = (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3))
    return next((unit for unit in units if makespan >= unit[1]), ("ps", 1))


def panels(rows: float, top: float = TOP) -> tuple[Figure, Axes, Axes]:
    """A figure with the timeline, `rows` inches high, and the strip, below `top` inches for the heading."""
    height = rows + STRIP + GAP + top + BOTTOM
    figure = Figure(figsize=(WIDTH, height), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    left, width = 0.1, 0.848
    strip = figure.add_axes((left, BOTTOM / height, width, STRIP / height))
    timeline = figure.add_axes((left, (BOTTOM + STRIP + GAP) / height, width, rows / height), sharex=strip)
    return figure, timeline, strip


def _draw_timeline(axes: Axes, schedule: Schedule, scale: int) -> None:
    rows = range(len(schedule.instance.network.dimensions))
    draw_bars(axes, schedule, scale)
    axes.set_yticks(list(rows), [row_label(schedule, k) for k in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    note(axes, -0.62, "busy")
    for k in rows:
        note(axes, k, busy_share(schedule, k, schedule.makespan))
    make_plain(axes)


def row_label(schedule: Schedule, dimension: int) -> str:
    """Name, size and bandwidth of a dimension, on two lines."""
    network = schedule.instance.network
    name = plain_text(network.dimension_names[dimension])
    return f"{name}\n{network.sizes[dimension]} × {network.bandwidths[dimension] / 1e9:.4g} GB/s"


def busy_share(schedule: Schedule, dimension: int, span: int) -> str:
    """Percentage of some picoseconds in which a dimension is held, or that it is unused."""
    if dimension not in schedule.dimensions_in_use:
        return "unused"
    intervals = busy_intervals(schedule, dimension)
    return f"{(intervals[:, 1] - intervals[:, 0]).sum() / span:.1%}"


def draw_strip(axes: Axes, times: IntArray, shares: FloatArray, scale: int) -> None:
    """Draw the share of the bandwidth in use, a step function of picoseconds, `scale` to the unit of the axis."""
    axes.fill_between(times / scale, shares, step="post", color=CURVE, alpha=0.3, linewidth=0)
    axes.step(times / scale, shares, where="post", color=CURVE, linewidth=0.9)
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.5, 1])
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    axes.set_ylabel("busy\nbandwidth", color=QUIET, fontsize=8.5, rotation=0, ha="right", va="center")
    make_plain(axes)


def note(axes: Axes, row: float, text: str) -> None:
    """Text at the right edge of a row."""
    axes.text(1.008, row, text, transform=axes.get_yaxis_transform(), color=QUIET, fontsize=8.5, va="center")


def draw_heading(figure: Figure, title: str, caption: str) -> None:
    """Write the headline and a line below it, at the top left."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.25 / height, plain_text(title), color=INK, fontsize=12.5, fontweight="bold", va="center")
    figure.text(0.012, 1 - 0.55 / height, plain_text(caption), color=INK, fontsize=10, va="center")


def make_plain(axes: Axes) -> None:
    """Take the frame away and quieten what is left."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(colors=QUIET, labelsize=8.5, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)

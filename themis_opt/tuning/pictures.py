"""Pictures of a search: how it went on, what mattered, and makespan against chunks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, PercentFormatter, StrMethodFormatter

from themis_opt.formats.palette import CURVE, INK, LINE, QUIET, plain_text
from themis_opt.tuning.history import Trial
from themis_opt.tuning.outcome import Found

WIDTH, HEIGHT = 8.0, 4.5
"""Inches."""

BEST = "#a63d00"
NS_PER_US = 1000


def history_picture(found: Found) -> Figure:
    """Value of every trial that was run to its end, and the best so far."""
    trials = [t for t in found.trials if t.state == "complete" and t.repeats is None]
    numbers, values = [t.number for t in trials], [_value(found, t) for t in trials]
    figure, axes = _empty(found, "trial", _value_name(found))
    best = [min(values[: n + 1]) for n in range(len(values))]
    axes.scatter(numbers, values, s=14, color=CURVE, alpha=0.6, linewidths=0, label="trial")
    axes.plot(numbers, best, drawstyle="steps-post", color=BEST, linewidth=1.6, label="best so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _log_values(axes)
    figure.legend(loc="outside upper right", ncols=2, fontsize=8.5, labelcolor=INK, frameon=False)
    return figure


def importance_picture(found: Found) -> Figure:
    """Share of every parameter in what makes trials good; a note where that cannot be said."""
    figure, axes = _empty(found, "importance (PED-ANOVA)", "")
    ascending = sorted(found.importances.items(), key=lambda item: (item[1], item[0]))
    if not ascending:
        axes.text(0.5, 0.5, "too few different trials to say", ha="center", transform=axes.transAxes, color=QUIET)
        axes.set_yticks([])
        return figure
    bars = axes.barh([name.replace("_", " ") for name, _ in ascending], [share for _, share in ascending], color=CURVE)
    axes.bar_label(bars, fmt=lambda share: f"{100 * share:.1f} %", padding=4, color=INK, fontsize=8.5)
    axes.set_xlim(0, 1.1)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    return figure


def front_picture(found: Found) -> Figure:
    """Every complete trial by chunks and value, and those that no other beats."""
    trials = [t for t in found.trials if t.state == "complete" and t.repeats is None]
    front = found.front
    figure, axes = _empty(found, "chunks", _value_name(found))
    axes.scatter([t.pieces for t in trials], [_value(found, t) for t in trials], s=14, color=CURVE, alpha=0.6,
                 linewidths=0, label="trial")  # fmt: skip
    axes.plot([t.pieces for t in front], [_value(found, t) for t in front], marker="o", markersize=5,
              drawstyle="steps-post", color=BEST, linewidth=1.4, label="no other is better in both")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    _log_values(axes)
    figure.legend(loc="outside upper right", ncols=2, fontsize=8.5, labelcolor=INK, frameon=False)
    return figure


PICTURES: Mapping[str, Callable[[Found], Figure]] = MappingProxyType(
    {"history.svg": history_picture, "importances.svg": importance_picture, "front.svg": front_picture}
)
"""What draws each picture, by file name."""


def _value(found: Found, trial: Trial) -> float:
    return trial.value / NS_PER_US if len(found.space.cases) == 1 else trial.value


def _value_name(found: Found) -> str:
    name = {"iteration": "iteration time"}.get(found.space.measured, found.space.measured)
    return f"{name} in µs" if len(found.space.cases) == 1 else f"{name} over ideal (geometric mean)"


def _log_values(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _empty(found: Found, across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(plain_text(found.space.name), color=INK, fontsize=10, loc="left")
    axes.set_xlabel(across, color=QUIET, fontsize=9)
    axes.set_ylabel(up, color=QUIET, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.tick_params(colors=QUIET, labelsize=8.5)
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes

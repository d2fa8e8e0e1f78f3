"""Figures as SVG, drawn by matplotlib; equal figures give equal files."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, NullLocator

from themis_opt.formats.palette import INK, LINE, QUIET, is_dark, plain_text
from themis_opt.reports.cells import cell, tick
from themis_opt.reports.document import Axis, Figure, Kind, Series
from themis_opt.reports.drawing import MOST_MARKERS, Style, box, heat, heat_texts, heights, places, ticks

WIDTH, HEIGHT, ROW = 8.0, 4.5, 0.34
"""Inches: a picture, and a row of a heatmap."""

_LINES = {"solid": "-", "dash": "--", "dashdot": "-.", "dot": ":"}

_LOOKS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "guide": {"linestyle": ":", "linewidth": 1.2},
        "scatter": {"linestyle": "", "marker": "o", "markersize": 3.5, "alpha": 0.6},
        "line": {"linewidth": 1.6, "markersize": 3.5},
        "step": {"linewidth": 1.6, "drawstyle": "steps-post"},
    }
)
"""How matplotlib draws each kind of curve, apart from colours and dashes."""

_BAND = 0.15
"""Opacity of the range around a line."""


def draw(figure: Figure, styles: Mapping[str, Style]) -> Picture:
    """Draw a figure with the styles of its series."""
    height = 1.4 + ROW * len(figure.series[0].y) if figure.kind == "heatmap" else HEIGHT
    picture = Picture(figsize=(WIDTH, height), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.add_subplot()
    axes.set_title(plain_text(figure.title), color=INK, fontsize=10.5, fontweight="bold", loc="left")
    _DRAW[figure.kind](axes, figure, styles)
    _dress(axes, figure)
    return picture


def _curves(axes: Axes, figure: Figure, styles: Mapping[str, Style]) -> None:
    for series in figure.series:
        style = styles[series.name]
        look = _LOOKS["guide" if series.guide else figure.kind] | {"label": plain_text(series.name)}
        if "linestyle" not in look:
            look |= {"linestyle": _LINES[style.dash]}
        if figure.kind == "line" and len(series.x) <= MOST_MARKERS and not series.guide:
            look |= {"marker": "o"}
        axes.plot(series.x, series.y, color=style.light, **look)
        if series.low:
            _band(axes, series, figure.kind, style.light)
    _scale(axes, figure)


def _band(axes: Axes, series: Series, kind: Kind, colour: str) -> None:
    """The range around a line."""
    step: Literal["post"] | None = "post" if kind == "step" else None
    axes.fill_between(series.x, series.low, series.high, step=step, color=colour, alpha=_BAND, linewidth=0)


def _bars(axes: Axes, figure: Figure, styles: Mapping[str, Style]) -> None:
    names = list(dict.fromkeys(places(figure)))
    width = 0.8 / len(figure.series)
    for number, series in enumerate(figure.series):
        where = [names.index(x) - 0.4 + (number + 0.5) * width for x in series.x]
        axes.bar(where, series.y, width, color=styles[series.name].light, label=plain_text(series.name))
    _name_places(axes, [str(name) for name in names])
    _scale(axes, figure, has_names=True)


def _stacks(axes: Axes, figure: Figure, styles: Mapping[str, Style]) -> None:
    names = list(dict.fromkeys(places(figure)))
    tops = np.zeros(len(names))
    for series in figure.series:
        where = [names.index(x) for x in series.x]
        axes.bar(where, series.y, 0.6, tops[where], color=styles[series.name].light, label=plain_text(series.name))
        tops[where] += np.asarray(series.y, dtype=float)
    _name_places(axes, [str(name) for name in names])
    _scale(axes, figure, has_names=True)


def _boxes(axes: Axes, figure: Figure, styles: Mapping[str, Style]) -> None:
    for number, series in enumerate(figure.series):
        low, lower, median, upper, high = box(series)
        colour = styles[series.name].light
        numbers = {"whislo": low, "q1": lower, "med": median, "q3": upper, "whishi": high}
        axes.bxp(
            [numbers],
            positions=[number],
            widths=0.5,
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": f"{colour}33", "edgecolor": colour},
            medianprops={"color": colour, "linewidth": 2},
            whiskerprops={"color": colour},
            capprops={"color": colour},
        )
    _name_places(axes, [series.name for series in figure.series])
    _scale(axes, figure, has_names=True)


def _heatmap(axes: Axes, figure: Figure, _: Mapping[str, Style]) -> None:
    series = figure.series[0]
    numbers = np.asarray(heat(figure))
    ramp = colormaps["viridis"]
    image = axes.imshow(numbers, aspect="auto", cmap=ramp)
    for i, row in enumerate(heat_texts(figure)):
        for j, text in enumerate(row):
            fill = np.asarray(ramp(image.norm(numbers[i, j]))) if np.isfinite(numbers[i, j]) else np.ones(3)
            ink = "white" if is_dark(fill) else "black"
            axes.text(j, i, plain_text(text), ha="center", va="center", fontsize=7, color=ink)
    _name_places(axes, [_name(x, figure.x) for x in series.x])
    axes.set_yticks(range(len(series.y)), [_name(y, figure.y) for y in series.y])


_DRAW: Mapping[str, Callable[[Axes, Figure, Mapping[str, Style]], None]] = MappingProxyType(
    {
        "line": _curves,
        "step": _curves,
        "scatter": _curves,
        "bar": _bars,
        "stack": _stacks,
        "box": _boxes,
        "heatmap": _heatmap,
    }
)


def _name(place: float | str, axis: Axis) -> str:
    return plain_text(place if isinstance(place, str) else cell(place, axis.format))


def _name_places(axes: Axes, names: list[str]) -> None:
    crowded = sum(len(name) for name in names) > 70
    axes.set_xticks(range(len(names)), [plain_text(name) for name in names], rotation=30 if crowded else 0)
    if crowded:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")


def _scale(axes: Axes, figure: Figure, has_names: bool = False) -> None:
    """Logarithms, ticks and their texts."""
    _scale_axis(axes.yaxis, figure.y, ticks(figure.y, heights(figure)))
    if not has_names:
        _scale_axis(axes.xaxis, figure.x, ticks(figure.x, places(figure)))


def _scale_axis(drawn: XAxis | YAxis, axis: Axis, chosen: list[tuple[float, str]]) -> None:
    if axis.log:
        drawn.axes.set(**{f"{drawn.axis_name}scale": "log"})
    drawn.set_major_formatter(FuncFormatter(lambda value, _: tick(value, axis.format)))
    if not chosen:
        return
    low, high = drawn.get_view_interval()
    inside = [(place, text) for place, text in chosen if low <= place <= high]
    drawn.set_ticks([place for place, _ in inside], labels=[text for _, text in inside])
    drawn.set_minor_locator(NullLocator())


def _dress(axes: Axes, figure: Figure) -> None:
    """Labels, legend, and no more frame than needed."""
    axes.set_xlabel(plain_text(figure.x.label), color=QUIET, fontsize=9)
    axes.set_ylabel(plain_text(figure.y.label), color=QUIET, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.tick_params(colors=QUIET, labelsize=8.5)
    if figure.kind == "heatmap":
        return
    axes.grid(axis="both" if figure.kind in ("line", "step", "scatter") else "y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    if figure.kind != "box":
        axes.legend(fontsize=8, labelcolor=INK, edgecolor=LINE, loc="upper left", bbox_to_anchor=(1.01, 1))

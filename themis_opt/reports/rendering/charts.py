"""Charts as Vega-Lite specifications: one of each, for pictures and for pages.

Data are tidy frames: a column for each axis, and one that tells the series apart.  Where that column is categorical,
the colour of a series is that of its place among the categories, so that a policy keeps its colour in all charts of a
report, whichever of the policies a chart shows.

Equal charts give equal files on any machine: vl-convert brings the font with which it measures texts, and nothing in
a specification counts what was drawn before.  Another version of vl-convert may draw other bytes.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import altair as alt
import pandas as pd
import vl_convert
from altair.utils.schemapi import debug_mode

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, PICOSECONDS_PER_SECOND, TIME_UNITS
from themis_opt.reports.rendering.tables import cell

TAG = re.compile(r"<[^<>]*>")
UNSEEN = re.compile(
    r' (?:(?:aria-\w+|role|class|pointer-events|font-family)="[^"]*"|(?:opacity|stroke-width)="1"|[xy]2="0"'
    r'|transform="translate\(0,0\)")'
)
PLACED = re.compile(r'(?<= )(?:d|transform|[xy]2?|c[xy]|r|width|height)="[^"]*"')
CONTROL = re.compile(r"\\u00[01][0-9a-f]")  # characters that no SVG holds, in JSON
DECIMALS = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def compact(svg: str, font: str) -> str:
    """The same picture with one font for all texts, places in tenths of a pixel, and nothing that is not seen."""

    def rounded(places: re.Match[str]) -> str:
        return DECIMALS.sub(lambda number: f"{round(float(number[0]), 1):g}", places[0])

    shorter = TAG.sub(lambda tag: PLACED.sub(rounded, UNSEEN.sub("", tag[0])), svg)
    return shorter.replace("<svg ", f'<svg font-family="{font}" ', 1)


Chart = alt.LayerChart
StackedChart = alt.VConcatChart
Spec = dict[str, Any]
Place = TypeVar("Place", alt.X, alt.Y)

INK, QUIET, LINE, WHITE = "#1f2933", "#5f6b7a", "#dfe4ea", "#ffffff"

# No wider than a narrow window, and dark where pages are: lightness is inverted, hues stay.  Only of a picture that is
# a document or an image: inside another document `:root` is not `svg`.
SCREEN_STYLE = (
    "<style>svg:root{max-width:100%;height:auto}@media(prefers-color-scheme:dark){"
    "svg:root{color-scheme:dark;filter:invert(.9)hue-rotate(180deg)}}</style>"
)


# Colours of series on light pages, and what stands for each on dark ones; they repeat after the last
PALETTE: Mapping[str, str] = {
    "#1d4e89": "#6fa8dc", "#a63d00": "#f2a25c", "#1e6b3a": "#7cc48d", "#6a2c8c": "#c39bd8",
    "#8a6d00": "#dcc04a", "#9b1b4f": "#ee8fb2", "#0f6b70": "#6fc5c8", "#4d4d4d": "#ababab",
    "#467bb3": "#5b92c7", "#cc702e": "#df8945", "#4d9864": "#65ae78", "#9764b2": "#ad80c5",
    "#b39725": "#c8ab38", "#c55581": "#d9729a", "#3f989c": "#57afb2", "#7c7c7c": "#949494",
}  # fmt: skip
# What stands for every colour of a chart on a dark page
ON_DARK: Mapping[str, str] = {INK: "#e4e9ef", QUIET: "#98a4b3", LINE: "#333d49", WHITE: "#14191f", **PALETTE}
# Styles of lines, so that they can be told apart without colours; they repeat after the last
DASHES = ((1, 0), (6, 3), (8, 3, 2, 3), (2, 2))

GUIDE_DASH, MARK_DASH, CLOUD_DASH = (1, 2), (8, 4), (3, 5)
"""Styles of lines to compare with, of those among them that mean another thing, and of clouds of points in legends."""

ASLANT = -30  # degrees
WIDTH, HEIGHT, ROW = 768, 330, 33  # pixels: a picture across, the inside of its axes, a row of names
SYMBOLS: Mapping[str, float] = {"stroke": 600, "square": 120}  # areas of symbols in legends, in square pixels
PADDING = 12  # pixels between the frame and the outermost points
PNG_SCALE = 1.5  # pixels of a PNG for each of a chart
MOST_MARKED_POINTS = 40  # points of a line that are marked; lines of more points are bare
AXIS_TICKS = 6  # about so many ticks along other axes
MOST_TICKS = 12  # ticks along logarithmic axes of counts or sizes
CROWDED = 70  # characters of the names along an axis from which they are written aslant
BRIGHT = 0.6  # place along the colours of a heatmap from which black reads better than white
MOST_SERIES = 12  # series of bars in a legend
WHISKERS = (0.05, 0.95)  # quantiles at the ends of a box's whiskers
QUANTILES: Mapping[str, float] = {"low": WHISKERS[0], "lower": 0.25, "median": 0.5, "upper": 0.75, "high": WHISKERS[1]}
"""What a box shows, from below."""

TICK_ROUNDING = 1e-9  # relative error of places of ticks
DIGITS = 8  # significant digits of numbers in a chart
CONFIG: Spec = {
    "background": WHITE,
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "aria": False,
    "view": {
        "continuousWidth": WIDTH, "discreteWidth": WIDTH, "continuousHeight": HEIGHT, "discreteHeight": HEIGHT,
        "stroke": None,
    },
    "title": {
        "anchor": "start", "frame": "bounds", "color": INK, "fontSize": 15, "offset": 12, "subtitleColor": INK,
        "subtitleFontSize": 12.5, "subtitlePadding": 5,
    },
    "axis": {
        "gridColor": LINE, "domainColor": LINE, "tickColor": LINE, "labelColor": QUIET, "titleColor": QUIET,
        "labelFontSize": 12, "titleFontSize": 12.5, "titleFontWeight": "normal", "titlePadding": 8, "labelLimit": 320,
    },
    "axisQuantitative": {"labelOverlap": "greedy", "labelSeparation": 8},
    "axisXDiscrete": {"labelAngle": 0},
    "legend": {
        "labelColor": INK, "labelFontSize": 12, "labelLimit": 340, "title": None, "rowPadding": 4, "symbolOpacity": 1,
        "symbolStrokeWidth": 2,
    },
    "locale": {"number": {"decimal": ".", "thousands": " ", "grouping": [3], "currency": ["", ""]}},
}  # fmt: skip
"""Looks of all charts, see https://vega.github.io/vega-lite/docs/config.html."""


@dataclass(frozen=True)
class Axis:
    """A column of a frame along an axis: its label, whether it is logarithmic, and the format of its numbers."""

    field: str
    label: str = ""
    log: bool = False
    format: str = "number"


def _in_unit(name: str, scale: float) -> str:
    return f"format(datum.value / {scale:g}, '.4~r') + ' {name}'"


def _largest_unit(units: Sequence[tuple[str, float]]) -> str:
    """An expression for a value in the first of falling units in which it is at least 1, else in the last."""
    larger = "".join(f"abs(datum.value) >= {scale:g} ? {_in_unit(name, scale)} : " for name, scale in units[:-1])
    return f"datum.value == 0 ? '0' : {larger}{_in_unit(*units[-1])}"


LABELS: Mapping[str, str] = {
    "count": "datum.value < 10000 ? datum.value : format(datum.value, ',')",
    "percent": "format(100 * datum.value, '.6~r') + ' %'",
    "duration": _largest_unit([(name, float(unit) / PICOSECONDS_PER_NANOSECOND) for name, unit in TIME_UNITS.items()]),
    "seconds": _largest_unit([(name, float(unit) / PICOSECONDS_PER_SECOND) for name, unit in TIME_UNITS.items()]),
    "size": "".join(  # in the largest unit of which it is a multiple
        f"datum.value % {size} == 0 ? datum.value / {size} + ' {name}' : "
        for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
    )
    + "''",
}
"""Texts of ticks by format, see https://vega.github.io/vega/docs/expressions/; other formats have those of Vega."""


CLICKED = "shown"  # the series that were clicked in the legend; all while there are none
HOVER = "hover"  # whether places answer to the pointer: on pages they do, pictures do without what nobody sees


def lines(
    frame: pd.DataFrame,
    x: Axis,
    y: Axis,
    by: str,
    *,
    guides: pd.DataFrame | None = None,
    dots: pd.DataFrame | None = None,
    band: Sequence[str] = (),
    step: bool = False,
) -> Chart:
    """Curves, one for each value of the column `by`.

    `frame`: a row for each place.
    `x`, `y`: numbers across and up.
    `by`: column with the names of series.
    `guides`: more of the same, drawn thin and dotted: only there to compare with.  The guide ``a, what`` has the colour
      of the curve ``a``, other guides are grey.
    `dots`: more of the same, drawn as clouds of points behind the curves.
    `band`: columns with the ends of the range around each curve; empty for none.
    `step`: whether a curve keeps its value until the next place.
    """
    given = {"cloud": dots, "curve": frame, "guide": guides}
    parts = {name: part.assign(_part=name) for name, part in given.items() if part is not None}
    whole = pd.concat(parts.values(), ignore_index=True).filter(["_part", by, x.field, y.field, *band])
    base = alt.Chart(_data(whole, x, y)).encode(
        _numbers(alt.X, x, whole[x.field]),
        _numbers(alt.Y, y, whole[[y.field, *band]].stack()),
        tooltip=_texts(by, x, y),
    )
    layers = {name: base.transform_filter(alt.datum._part == name) for name in parts}
    looks = _looks(by, frame, dots, guides)
    drawn = []
    if band:
        area = layers["curve"].encode(alt.Y(field=band[0], type="quantitative"), alt.Y2(band[1]))
        drawn.append(looks.paint(_joined(area, "area", step), 0.15))
    if dots is not None:
        drawn.append(looks.paint(layers["cloud"].mark_circle(size=40), 0.6))
    if guides is not None:
        alone = {"size": 30, "filled": True} if not guides[by].duplicated().any() else False  # no line joins a place
        guide = _joined(layers["guide"], "line", step, strokeWidth=1.4, point=alone)
        drawn.append(looks.paint(guide).encode(looks.dash()))
    is_marked = not step and frame[by].value_counts().max() <= MOST_MARKED_POINTS
    point = {"size": 30, "filled": True} if is_marked else False
    drawn.append(looks.paint(_joined(layers["curve"], "line", step, strokeWidth=2, point=point)).encode(looks.dash()))
    return _sized([*_selectable(drawn, by), base.mark_circle(size=200, opacity=0).transform_filter(HOVER)])


def _joined(layer: alt.Chart, mark: Literal["line", "area"], step: bool, **look: Any) -> alt.Chart:
    """Places joined from the left to the right."""
    return layer.properties(mark=alt.MarkDef(mark, interpolate="step-after" if step else "linear", **look))


def ecdf(frame: pd.DataFrame, x: Axis, label: str, by: str, **others: pd.DataFrame) -> Chart:
    """Empirical distribution functions: the share of the values of each series up to each value.

    `others` are guides and dots as those of lines, with a column ``share``.
    """
    y = Axis("share", label, format="percent")
    return lines(distribution(frame, x.field, by), x, y, by, step=True, **others)


def distribution(frame: pd.DataFrame, field: str, by: str) -> pd.DataFrame:
    """The distinct values of each series in six digits, rising, and the share of values up to each.

    The first value comes twice, with a share of 0 before.
    """
    values = {by: _categorical(frame[by]), field: _rounded(frame[field], 6)}
    counts = frame.assign(**values).groupby([by, field], observed=True).size()
    shares = counts.groupby(level=0, observed=True).transform(lambda series: series.cumsum() / series.sum())
    rising = shares.rename("share").reset_index()
    first = rising.groupby(by, observed=True, as_index=False)[field].first().assign(share=0.0)
    return pd.concat([first, rising], ignore_index=True)


def bars(frame: pd.DataFrame, x: str, y: Axis, by: str, *, stacked: bool = False) -> Chart:
    """Bars over the names in column `x`, those of the series side by side, or stacked in the order of the frame."""
    looks = _looks(by, frame)
    across = _names(alt.X, x, list(frame[x].unique()))
    data = _data(frame[[x, by, y.field]].assign(_order=range(len(frame))), y)
    order = alt.Order(field="_order", type="quantitative")
    beside = alt.XOffset(field=by, type="nominal", sort=list(looks.styles))
    drawn = looks.paint(alt.Chart(data).mark_bar(), symbol="square").encode(
        across, _numbers(alt.Y, y, frame[y.field], zero=True), order if stacked else beside, tooltip=_texts(by, x, y)
    )
    return _sized(_selectable([drawn], by))


def boxes(frame: pd.DataFrame, y: Axis, by: str) -> Chart:
    """Quartiles and median of each series as a box, with whiskers to the quantiles :data:`WHISKERS`."""
    looks, groups = _looks(by, frame), frame.groupby(by, observed=True)[y.field]
    quantiles = pd.DataFrame({name: groups.quantile(share) for name, share in QUANTILES.items()})
    data = _data(quantiles.reset_index(), *(Axis(name, format=y.format) for name in QUANTILES))
    base = alt.Chart(data).encode(
        _names(alt.X, by, list(looks.styles)),
        looks.colour(None),
        tooltip=[alt.Tooltip(field=f"{name}_text", type="nominal", title=name) for name in QUANTILES],
    )
    low = _numbers(alt.Y, Axis("low", y.label, y.log, y.format), quantiles.stack())
    lower, median, upper, high = (alt.Y(field=name, type="quantitative") for name in list(QUANTILES)[1:])
    return _sized(
        [
            base.mark_rule(strokeWidth=1.2).encode(low, alt.Y2("lower")),
            base.mark_rule(strokeWidth=1.2).encode(upper, alt.Y2("high")),
            base.mark_bar(size=50, opacity=0.3).encode(lower, alt.Y2("upper")),
            base.mark_tick(thickness=2.5, width=50).encode(median),
            *(base.mark_tick(thickness=1.2, width=24).encode(end) for end in (low, high)),
        ]
    )


def heatmap(frame: pd.DataFrame, x: Axis, y: Axis, colour: Axis) -> Chart:
    """A cell for every pair of places, with its number as colour and as text; rising along x and down y."""
    heat = frame[colour.field].map(math.log10) if colour.log else frame[colour.field]
    is_bright = (heat - heat.min()) / (heat.max() - heat.min() or 1.0) > BRIGHT
    named = {axis.field: _texts_of(frame[axis.field], axis) for axis in (x, y)}
    names = {axis: _texts_of(sorted(frame[axis.field].unique()), axis) for axis in (x, y)}
    data = _data(frame[[colour.field]].assign(**named, _heat=heat, _is_bright=is_bright), colour)
    base = alt.Chart(data).encode(_names(alt.X, x.field, names[x], x.label), _names(alt.Y, y.field, names[y], y.label))
    scale = alt.Scale(scheme="viridis")
    cells = base.mark_rect().encode(alt.Color(field="_heat", type="quantitative", scale=scale, legend=None))
    ink = alt.when(alt.datum._is_bright).then(alt.value("black")).otherwise(alt.value("white"))
    texts = base.mark_text(fontSize=11).encode(alt.Text(field=f"{colour.field}_text", type="nominal"), color=ink)
    return _sized([cells, texts], ROW * frame[y.field].nunique())


def timeline(frame: pd.DataFrame, label: str, marks: pd.DataFrame | None = None, *, numbered: bool = False) -> Chart:
    """Bars along time in rows, such as stages on dimensions; the wheel zooms, a drag moves, a click follows one key.

    `frame`: bars: ``row``, ``start`` and ``end``, ``series`` (which has the colour) and ``place`` (0..1 within it),
      ``key`` (what a click singles out), ``solid`` (opacity), and in columns of other names what is said under the
      pointer.
    `label`: that of the axis, such as ``time (ms)``.
    `marks`: instants drawn as lines across all rows: ``time`` and ``label``.
    `numbered`: whether keys are written on bars that have room for them.
    """
    others = [name for name in frame.columns if name not in BAR_COLUMNS]
    followed = alt.selection_point(name=CLICKED, fields=["key"])
    moved = alt.selection_interval(name="moved", bind="scales", encodings=["x"])
    x = alt.X(field="start", type="quantitative", title=label, scale=alt.Scale(nice=False, padding=0))
    rows = _names(alt.Y, "row", list(frame["row"].unique()))
    if frame["row"].str.contains("\n").any():
        rows["axis"]["labelExpr"], rows["axis"]["labelOffset"] = "split(datum.label, '\\n')", -LABEL_LINE / 2
    bars = (
        alt.Chart(_data(frame))
        .mark_bar(height=alt.RelativeBandSize(0.84), clip=True)
        .encode(
            x,
            alt.X2("end"),
            rows,
            _bar_colours(frame),
            fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None, legend=None),
            opacity=alt.when(followed).then(alt.value(1)).otherwise(alt.value(0.12)),
            tooltip=[alt.Tooltip(field=name, type="nominal") for name in others],
        )
        .add_params(followed, moved)
    )
    layers = [bars]
    if numbered:
        room = (frame["end"] - frame["start"]) / frame["end"].max() * WIDTH
        wide = frame[room > LETTER_WIDTH * (frame["key"].str.len() + 1)]
        middle = wide[["row", "key", "place", "solid"]].assign(start=(wide["start"] + wide["end"]) / 2)
        keys = alt.Chart(_data(middle)).mark_text(fontSize=9, clip=True)
        ink = alt.when("datum.solid < 0.8 || datum.place > 0.6").then(alt.value(INK)).otherwise(alt.value(WHITE))
        layers.append(keys.encode(x, rows, alt.Text(field="key", type="nominal"), color=ink))
    if marks is None:
        return _sized(layers, ROW * frame["row"].nunique())
    lines = alt.Chart(_data(marks)).encode(alt.X(field="time", type="quantitative"))
    rules = lines.mark_rule(color=INK, strokeDash=[5, 3], clip=True)
    texts = lines.mark_text(align="right", baseline="bottom", dx=-4, dy=-2, y=0, color=QUIET, clip=False)
    labels = texts.encode(alt.Text(field="label", type="nominal"))
    return _sized([*layers, rules, labels], ROW * frame["row"].nunique())


def diagram(links: pd.DataFrame, nodes: pd.DataFrame, bandwidths: Sequence[str]) -> Chart:
    """Nodes with their names, and lines between them.

    `links`: ends ``x``, ``y``, ``x2`` and ``y2``, ``bandwidth`` and ``width``.
    `nodes`: ``x``, ``y``, ``name`` and ``kind``: npu or switch.
    `bandwidths`: all of them, rising.
    """
    x = alt.X(field="x", type="quantitative", axis=None, scale=alt.Scale(zero=False, padding=30))
    y = alt.Y(field="y", type="quantitative", axis=None, scale=alt.Scale(zero=False, padding=30))
    shades = alt.Scale(domain=list(bandwidths), scheme="viridis", reverse=True)
    lines = alt.Chart(_data(links)).mark_rule().encode(x, y, alt.X2("x2"), alt.Y2("y2"))
    kinds = alt.Scale(domain=sorted(set(nodes["kind"])), range=["circle", "square"])
    points = alt.Chart(_data(nodes)).mark_point(filled=True, opacity=1, size=180, color="#467bb3").encode(x, y)
    slant = {"angle": 50, "align": "left", "dx": 12} if len(nodes) > MOST_LEVEL_NAMES else {"dy": 16}
    named = alt.Chart(_data(nodes)).encode(x, y, alt.Text(field="name", type="nominal"))
    return _sized(
        [
            lines.encode(
                alt.Color(field="bandwidth", type="nominal", scale=shades),
                alt.StrokeWidth(field="width", type="quantitative", scale=None, legend=None),
            ),
            points.encode(alt.Shape(field="kind", type="nominal", scale=kinds)),
            named.mark_text(fontSize=12, color=WHITE, stroke=WHITE, strokeWidth=4, **slant),  # clears links away
            named.mark_text(fontSize=12, color=INK, **slant),
        ],
        400,
    )


def stacked(chart: Chart, *below: Chart, height: float = HEIGHT) -> StackedChart:
    """A chart above others of some height along the same axis, for files; each keeps its colours."""
    parts = [part.copy() for part in (chart, *below)]
    for part in parts[1:]:
        part.height = height
        for layer in part.layer:
            layer.encoding["y"]["scale"]["padding"] = 2
    for part in parts:
        part.width, part.params = WIDTH, alt.Undefined
        for layer in part.layer:
            layer.params = alt.Undefined
            layer.encoding.opacity = alt.Undefined
    both: StackedChart = alt.vconcat(*parts).resolve_scale(x="shared", color="independent", strokeDash="independent")
    both.params = [alt.VariableParameter(name=HOVER, value=False)]
    return both


MOST_LEVEL_NAMES = 12  # nodes of a diagram whose names are not aslant
LETTER_WIDTH, LABEL_LINE = 5.5, 14  # pixels of a letter on a bar, and of a line of the name of a row

BAR_COLUMNS = ("row", "start", "end", "series", "place", "key", "solid")
"""Columns of bars that are drawn; others are shown under the pointer."""


def _bar_colours(frame: pd.DataFrame) -> alt.Color:
    """Colours along one series, or one for each of several."""
    if frame["series"].nunique() == 1:
        scale = alt.Scale(scheme="viridis", domain=[0, 1.15])
        return alt.Color(field="place", type="quantitative", scale=scale, legend=None)
    looks = _looks("series", frame)
    return looks.colour("square" if len(looks.styles) <= MOST_SERIES else None)


class _Style(NamedTuple):
    """How a series is drawn."""

    colour: str
    dash: tuple[int, ...]


@dataclass(frozen=True)
class _Looks:
    """The column that tells series apart, and the styles of the series in it."""

    by: str
    styles: Mapping[str, _Style]

    def colour(self, symbol: str | None = "stroke") -> alt.Color:
        """Colours by name, with a legend of such symbols, or without."""
        scale = alt.Scale(domain=list(self.styles), range=[style.colour for style in self.styles.values()])
        legend = alt.Legend(symbolType=symbol, symbolSize=SYMBOLS[symbol]) if symbol else None
        return alt.Color(field=self.by, type="nominal", scale=scale, legend=legend)

    def dash(self) -> alt.StrokeDash:
        scale = alt.Scale(domain=list(self.styles), range=[list(style.dash) for style in self.styles.values()])
        return alt.StrokeDash(field=self.by, type="nominal", scale=scale)

    def paint(self, layer: alt.Chart, opacity: float = 1.0, symbol: str = "stroke") -> alt.Chart:
        """The layer in colours, fainter where other series were clicked in the legend."""
        clicked = alt.when(alt.param(CLICKED)).then(alt.value(opacity)).otherwise(alt.value(opacity / 10))
        return layer.encode(self.colour(symbol), opacity=clicked)


def _looks(
    by: str, curves: pd.DataFrame, dots: pd.DataFrame | None = None, guides: pd.DataFrame | None = None
) -> _Looks:
    """Looks of all series, those of dots first; dots with the name of a curve look like it."""
    known = _places(curves[by])
    clouds = [name for name in _places(dots[by]) if name not in known] if dots is not None else []
    styles = {name: _Style(_style(place).colour, CLOUD_DASH) for place, name in enumerate(clouds)}
    styles |= {name: _style(len(clouds) + place) for name, place in known.items()}
    names = list(_places(guides[by])) if guides is not None else []
    for name in names:
        compared = styles.get(name.rpartition(", ")[0])
        is_alike = name.split(", ")[0] == names[0].split(", ")[0]
        styles[name] = _Style(compared.colour if compared else QUIET, GUIDE_DASH if is_alike or compared else MARK_DASH)
    return _Looks(by, styles)


def _style(place: int) -> _Style:
    return _Style(list(PALETTE)[place % len(PALETTE)], DASHES[(place + place // 8) % len(DASHES)])


def _places(names: pd.Series) -> dict[str, int]:
    """The names in a column, each with its place among the categories, or in order of appearance."""
    present = set(names)
    return {str(name): place for place, name in enumerate(_categorical(names).cat.categories) if name in present}


def _categorical(names: pd.Series) -> pd.Series:
    """The names with categories, where they have none in order of appearance."""
    is_done = isinstance(names.dtype, pd.CategoricalDtype)
    return names if is_done else names.astype(pd.CategoricalDtype(names.unique()))


def _numbers(channel: type[Place], axis: Axis, values: pd.Series, zero: bool = False) -> Place:
    """Numbers along x or y; logarithmic or from `zero` on, or as they come."""
    ticks = _ticks(axis, values)
    start = alt.Undefined if axis.log else zero
    scale = alt.Scale(type="log" if axis.log else "linear", zero=start, nice=False, padding=0 if zero else PADDING)
    text = LABELS.get(axis.format, alt.Undefined)
    drawn = alt.Axis(values=ticks or alt.Undefined, tickCount=AXIS_TICKS, labelExpr=text)
    return channel(field=axis.field, type="quantitative", title=axis.label, scale=scale, axis=drawn)


def _names(channel: type[Place], field: str, names: Sequence[str], label: str = "") -> Place:
    is_crowded = channel is alt.X and sum(map(len, names)) > CROWDED
    axis = alt.Axis(grid=False, labelAngle=ASLANT if is_crowded else alt.Undefined)
    return channel(field=field, type="nominal", title=label, sort=list(names), axis=axis)


def _ticks(axis: Axis, values: Iterable[float]) -> list[float]:
    """Places of ticks: the counts or sizes themselves, round numbers on other logarithmic axes, else none chosen."""
    places = sorted({float(value) for value in values if value > 0})
    if places and axis.format in ("count", "size") and len(places) <= 3 * MOST_TICKS:
        return _spaced(places) if axis.log else places[:: -math.ceil(len(places) / AXIS_TICKS)]
    return _round_numbers(places[0], places[-1]) if axis.log and places else []


def _spaced(places: Sequence[float]) -> list[float]:
    """Those of rising numbers whose ratio to the last one is large enough."""
    kept = list(places[:1])
    for place in places[1:]:
        if place >= kept[-1] * (places[-1] / places[0]) ** (1 / MOST_TICKS) * (1 - TICK_ROUNDING):
            kept.append(place)
    return kept


def _round_numbers(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, with 2 and 5 times these if they are few; none if even then."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5)):
        numbers = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [number for number in numbers if low * (1 - TICK_ROUNDING) <= number <= high * (1 + TICK_ROUNDING)]
        if len(inside) > 2:
            return inside
    return []


def _data(frame: pd.DataFrame, *axes: Axis) -> alt.InlineData:
    """The rows of a frame, with the numbers along the axes as texts besides."""
    texts = {f"{axis.field}_text": _texts_of(frame[axis.field], axis) for axis in axes}
    numbers = {name: _rounded(frame[name], DIGITS) for name in frame.select_dtypes("float")}
    cells = frame.assign(**numbers, **texts).astype(object)
    rows = tuple(cells.where(cells.notna(), None).to_dict("records"))  # tuples are not copied with every chart
    with debug_mode(False):  # plain values need no check
        return alt.InlineData(values=rows)


def _rounded(numbers: pd.Series, digits: int) -> pd.Series:
    return numbers.map(lambda number: float(f"{number:.{digits - 1}e}"))


def _texts_of(values: Iterable[Any], axis: Axis) -> list[str]:
    return [cell(value, axis.format) for value in values]


def _texts(by: str, x: Axis | str, y: Axis) -> list[alt.Tooltip]:
    across = (x, x) if isinstance(x, str) else (f"{x.field}_text", x.label)
    shown = ((by, "series"), across, (f"{y.field}_text", y.label))
    return [alt.Tooltip(field=field, type="nominal", title=title) for field, title in shown]


def _selectable(layers: Sequence[alt.Chart], by: str) -> list[alt.Chart]:
    """Layers in colours whose series can be singled out in the legend."""
    *others, last = layers
    return [*others, last.add_params(alt.selection_point(name=CLICKED, fields=[by], bind="legend"))]


def _sized(layers: Sequence[alt.Chart], height: float | None = None) -> Chart:
    chart = alt.LayerChart(layer=list(layers), width="container", height=alt.Undefined if height is None else height)
    return chart.add_params(alt.param(name=HOVER, value=False))


def specification(chart: Chart | StackedChart) -> Spec:
    """The chart as plain values, without looks."""
    spec: Spec = chart.to_dict(validate=False)  # its parts were when they were made
    return {name: part for name, part in spec.items() if name not in ("config", "$schema")}


def save(chart: Chart | StackedChart, path: Path, title: str = "", mark: str = "") -> None:
    """Write a chart as PNG or SVG, with the lines of a title above, and a mark below in the text of an SVG.

    Raises InputError if the suffix of the path is neither, or the file cannot be written.
    """
    first, *others = title.split("\n")
    heading = {"text": first, "subtitle": others} if others else first
    spec = CONTROL.sub(r"\\ufffd", json.dumps(specification(chart) | {"config": CONFIG, "title": heading}))
    match path.suffix.lower():
        case ".svg":
            picture = compact(vl_convert.vegalite_to_svg(spec), CONFIG["font"])
            fitting = re.sub(r"<svg\b[^>]*>", lambda root: f"{root[0]}{SCREEN_STYLE}", picture, count=1)
            write_atomically(path, f"{fitting}{mark}")
        case ".png":
            write_atomically(path, vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
        case _:
            raise InputError("pictures end in .png or .svg", field="path", value=str(path))

"""Figures for the browser: what plotly draws, without colours, and the colours on a light and a dark page."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from plotly import graph_objects

from themis_opt.reports.cells import cell
from themis_opt.reports.document import Axis, Figure, Series
from themis_opt.reports.drawing import MOST_MARKERS, Style, box, heat, heat_texts, heights, places, ticks

Trace = dict[str, Any]

HEIGHT, ROW = 440, 34
"""Pixels: a figure, and a row of a heatmap."""

STANDOFF = 12
"""Pixels between the ticks and the label of an axis."""

_D3_FORMATS = {"percent": "~%", "seconds": "~s", "count": "~f", "number": "~g"}
"""Formats of the numbers along an axis, by those of cells; see https://d3js.org/d3-format."""

_HOVER_FORMATS = {"percent": ".3~%", "seconds": ".3~s"}


def payload(figure: Figure, styles: Mapping[str, Style]) -> dict[str, Any]:
    """Everything that the script of the page needs to draw a figure.

    Returns
    -------
    dict
        `data` and `layout` for plotly, checked by it; `colours`, one pair of `light` and `dark` per trace.
    """
    traces = _TRACES[figure.kind](figure, styles)
    data = [{key: value for key, value in trace.items() if key != "series"} for trace in traces]
    checked = graph_objects.Figure(data=data, layout=_layout(figure) | {"template": {}})
    found: dict[str, Any] = json.loads(checked.to_json())
    found["colours"] = [_colours(trace["series"], styles) for trace in traces]
    found["layout"].pop("template", None)
    return found


def _colours(name: str, styles: Mapping[str, Style]) -> dict[str, str]:
    return {"light": styles[name].light, "dark": styles[name].dark}


def _curves(figure: Figure, styles: Mapping[str, Style]) -> list[Trace]:
    bands = [_band(series) for series in figure.series if series.low]
    return bands + [_curve(series, figure, styles[series.name]) for series in figure.series]


def _curve(series: Series, figure: Figure, style: Style) -> Trace:
    trace = _trace("scatter", series) | {"x": series.x, "y": series.y, "mode": "lines", "line": {"dash": style.dash}}
    if series.guide:
        return trace | {"line": {"dash": "dot", "width": 1.5}, "hoverinfo": "skip"}
    if figure.kind == "scatter":
        return trace | {"mode": "markers", "marker": {"size": 6, "opacity": 0.6}}
    if figure.kind == "step":
        return trace | {"line": {"dash": style.dash, "shape": "hv"}}
    return trace | {"mode": "lines+markers" if len(series.x) <= MOST_MARKERS else "lines"}


def _band(series: Series) -> Trace:
    """The range around a line, as one closed outline."""
    outline = {"x": series.x + series.x[::-1], "y": series.high + series.low[::-1], "fill": "toself"}
    return (
        _trace("scatter", series)
        | outline
        | {
            "mode": "lines",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )


def _bars(figure: Figure, styles: Mapping[str, Style]) -> list[Trace]:
    return [_trace("bar", series) | {"x": series.x, "y": series.y} for series in figure.series]


def _boxes(figure: Figure, styles: Mapping[str, Style]) -> list[Trace]:
    return [
        _trace("box", series) | {"x": [_plain(series.name)], "showlegend": False} | _box(series)
        for series in figure.series
    ]


def _box(series: Series) -> dict[str, list[float]]:
    names = ("lowerfence", "q1", "median", "q3", "upperfence")
    return {name: [number] for name, number in zip(names, box(series), strict=True)}


def _heatmap(figure: Figure, styles: Mapping[str, Style]) -> list[Trace]:
    series = figure.series[0]
    numbers = [[None if math.isnan(value) else value for value in row] for row in heat(figure)]
    names = {"x": [_name(x, figure.x) for x in series.x], "y": [_name(y, figure.y) for y in series.y]}
    look = {"colorscale": "Viridis", "showscale": False, "xgap": 1, "ygap": 1, "texttemplate": "%{text}"}
    hover = {"hovertemplate": "%{y}, %{x}: %{text}<extra></extra>"}
    return [_trace("heatmap", series) | names | {"z": numbers, "text": heat_texts(figure)} | look | hover]


_TRACES: Mapping[str, Callable[[Figure, Mapping[str, Style]], list[Trace]]] = MappingProxyType(
    {
        "line": _curves,
        "step": _curves,
        "scatter": _curves,
        "bar": _bars,
        "stack": _bars,
        "box": _boxes,
        "heatmap": _heatmap,
    }
)


def _trace(kind: str, series: Series) -> Trace:
    name = _plain(series.name)
    return {"type": kind, "name": name, "legendgroup": name, "series": series.name}


def _layout(figure: Figure) -> dict[str, Any]:
    is_heat = figure.kind == "heatmap"
    has_names = is_heat or figure.kind in ("bar", "stack", "box")
    return {
        "height": 150 + ROW * len(figure.series[0].y) if is_heat else HEIGHT,
        "margin": {"l": 50, "r": 10, "t": 10, "b": 45},
        "xaxis": _names(figure.x) if has_names else _axis(figure.x, places(figure)),
        "yaxis": _names(figure.y) | {"autorange": "reversed"} if is_heat else _axis(figure.y, heights(figure)),
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "barmode": "stack" if figure.kind == "stack" else "group",
        "hovermode": "closest",
    }


def _axis(axis: Axis, values: Iterable[float | str]) -> dict[str, Any]:
    found: dict[str, Any] = {"title": {"text": _plain(axis.label), "standoff": STANDOFF}, "automargin": True}
    form = _D3_FORMATS.get(axis.format)
    if form:
        found |= {"tickformat": form, "hoverformat": _HOVER_FORMATS.get(axis.format, form)}
    if axis.format == "seconds":
        found |= {"ticksuffix": "s"}
    chosen = ticks(axis, values)
    if not chosen:
        return found | ({"type": "log"} if axis.log else {})
    texts = {"tickmode": "array", "tickvals": [place for place, _ in chosen], "ticktext": [text for _, text in chosen]}
    return found | ({"type": "log"} if axis.log else {}) | texts


def _names(axis: Axis) -> dict[str, Any]:
    return {"title": {"text": _plain(axis.label), "standoff": STANDOFF}, "type": "category", "automargin": True}


def _name(place: float | str, axis: Axis) -> str:
    return _plain(place if isinstance(place, str) else cell(place, axis.format))


def _plain(text: str) -> str:
    """A text as plotly shows it literally: it reads some HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

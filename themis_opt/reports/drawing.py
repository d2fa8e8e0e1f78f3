"""What both renderers of figures share: colours of series, ticks, boxes and heat."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from matplotlib.colors import to_hex

from themis_opt.formats.palette import QUIET, chunk_ramp
from themis_opt.reports.cells import cell, tick
from themis_opt.reports.document import Axis, Figure, Report, Series, Value

DASHES = ("solid", "dash", "dashdot", "dot")
"""Styles of lines, so that they can be told apart without colours; they repeat after the last."""

QUIET_ON_DARK = "#98a4b3"
"""Guides and notes on a dark page."""

MOST_TICKS = 12
"""Ticks along an axis."""

MOST_MARKERS = 40
"""Points of a line that are marked; lines of more points are bare."""

DISCRETE = ("count", "size")
"""Formats of axes on which only the values that were measured mean something."""

WHISKERS = (0.05, 0.95)
"""Quantiles at the ends of a box's whiskers."""


@dataclass(frozen=True)
class Style:
    """Colours of a series on a light and on a dark page, and the style of its line."""

    light: str
    dark: str
    dash: str


GUIDE = Style(QUIET, QUIET_ON_DARK, "dot")
"""Of lines that are only there to compare with."""


def styles(report: Report) -> Mapping[str, Style]:
    """Style of every series by name, the same in all figures of a report."""
    series = [part for figure in report.figures for part in figure.series]
    names = dict.fromkeys(part.name for part in series if not part.guide)
    found = {name: _style(number) for number, name in enumerate(names)}
    return found | {part.name: GUIDE for part in series if part.guide}


def _style(number: int) -> Style:
    ramp = chunk_ramp(number, 2)
    again = number // 8  # eight colours repeat, nearer to the middle of their ramps and with other dashes
    shade = 0.5 * (again % 2)
    return Style(to_hex(ramp(shade)), to_hex(ramp(1 - shade / 2)), DASHES[(again + number) % len(DASHES)])


UNIT_OF_STEPS = MappingProxyType({"duration": 1.0, "size": 2.0**20})
"""Of what the ticks of an axis that is not logarithmic are round multiples: nanoseconds, MiB."""


def ticks(axis: Axis, places: Iterable[float | str]) -> list[tuple[float, str]]:
    """Places and texts of the ticks of a logarithmic axis, and of any axis of times or sizes; none for other axes.

    On a logarithmic axis sizes and counts have ticks at the values themselves, as far as there is room; other axes at
    powers of ten, or at 1, 2 and 5 times these if they span little.
    """
    values = sorted({float(place) for place in places if not isinstance(place, str) and place > 0})
    if not values or not (axis.log or axis.format in UNIT_OF_STEPS):
        return []
    if not axis.log:
        return [(value, tick(value, axis.format)) for value in _even_steps(values, UNIT_OF_STEPS[axis.format])]
    is_discrete = axis.format in DISCRETE and len(values) <= 3 * MOST_TICKS
    found = _spaced(values) if is_discrete else _round_numbers(values[0], values[-1])
    return [(value, tick(value, axis.format)) for value in found]


def _even_steps(values: Sequence[float], unit: float) -> list[float]:
    """About six round multiples of a unit, from below the least of rising values to the largest."""
    low, high = values[0] / unit, values[-1] / unit
    span = high - low or high
    step = next(s for s in _round_numbers(span / 10, span) if 6 * s >= span)
    return [number * step * unit for number in range(int(low / step), int(high / step) + 1)]


def _spaced(values: Sequence[float]) -> list[float]:
    """Those of rising values that are not too near to the last one."""
    least = (values[-1] / values[0]) ** (1 / MOST_TICKS) * (1 - 1e-9)
    found = [values[0]]
    for value in values[1:]:
        if value >= least * found[-1]:
            found.append(value)
    return found


def _round_numbers(low: float, high: float) -> list[float]:
    """Round numbers from just below `low` to just above `high`."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    steps = (1,) if last - first > 2 else (1, 2, 5)
    return [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]


def places(figure: Figure) -> list[float | str]:
    """All places of a figure along x, but for guides."""
    return [x for series in figure.series if not series.guide for x in series.x]


def heights(figure: Figure) -> list[float | str]:
    """All places of a figure along y: with the ranges around them, of boxes what is drawn, of stacks their tops."""
    if figure.kind == "box":
        return [number for series in figure.series for number in box(series)]
    if figure.kind == "stack":
        tops: Counter[float | str] = Counter()
        for series in figure.series:
            tops.update({x: float(y) for x, y in zip(series.x, series.y, strict=True)})
        return list(tops.values())
    return [y for series in figure.series for y in (*series.y, *series.low, *series.high)]


def box(series: Series) -> tuple[float, ...]:
    """Low whisker, lower quartile, median, upper quartile and high whisker of a series."""
    low, high = WHISKERS
    found: list[float] = np.quantile(np.asarray(series.y, dtype=float), (low, 0.25, 0.5, 0.75, high)).tolist()
    return tuple(found)


def heat(figure: Figure) -> list[list[float]]:
    """Numbers that the colours of a heatmap stand for: logarithms if its colours are; not a number where empty."""
    return [[_heat(value, figure.colours.log) for value in row] for row in figure.series[0].cells]


def _heat(value: float | None, log: bool) -> float:
    if value is None or (log and value <= 0):
        return math.nan
    return math.log10(value) if log else value


def heat_texts(figure: Figure) -> list[list[str]]:
    """Texts in the cells of a heatmap."""
    return [[_short(value, figure.colours.format) for value in row] for row in figure.series[0].cells]


def _short(value: Value, form: str) -> str:
    return "" if value is None else cell(value, form)

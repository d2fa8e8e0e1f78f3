"""Frames as tables, and values as texts, the same in every table and sentence of a report."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, format_short_time, format_size
from themis_opt.reports.rendering.document import CellValue, Column, Table

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = "–"


def table(frame: "pd.DataFrame", columns: Sequence[Column], caption: str = "") -> Table:
    """The rows of a frame, with one heading and format for each of its columns; what is not a number is empty."""
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return Table(tuple(columns), tuple(rows), caption)


def percent(fraction: float) -> str:
    """A fraction as a percentage, with the more decimals the smaller it is."""
    if fraction == 0:
        return "0 %"
    share = round(100 * fraction, 9)
    text = f"{share:.{3 if abs(share) < 1 else 2 if abs(share) < 10 else 1}f} %"
    return text.lstrip("-") if float(text[:-2]) == 0 else text


def duration(nanoseconds: float) -> str:
    """A time given in nanoseconds, as answers show it."""
    return format_short_time(nanoseconds * PICOSECONDS_PER_NANOSECOND)


def seconds(value: float) -> str:
    """A time given in seconds."""
    return duration(value * 1e9)


def count(value: float) -> str:
    """A whole number, in groups of three digits from five digits on."""
    return f"{int(value):,}".replace(",", " ") if abs(value) >= 10_000 else f"{int(value)}"


CELL_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "count": count,
    "number": lambda value: _digits(value, 4),
    "percent": percent,
    "factor": lambda value: f"{value:.3f}x",
    "duration": duration,
    "seconds": seconds,
    "size": lambda value: format_size(int(value)),
    "bandwidth": lambda value: f"{value / 1e9:.2f} GB/s",
    "amount": str,
}
"""Formats of cells: `amount` takes what is a text already, `duration` nanoseconds, `seconds` seconds, `percent` a
fraction, `size` bytes."""


def cell(value: CellValue, form: str) -> str:
    """A value as text; a dash where there is none or where it is not finite."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NO_VALUE
    return CELL_FORMATS[form](value)


def tick(value: float, form: str) -> str:
    """A value as text along an axis, where digits that say nothing are in the way."""
    return f"{100 * value:.6g} %" if form == "percent" else cell(value, form)


def is_number(form: str) -> bool:
    """Whether the cells of a format are numbers, which stand at the right."""
    return form != "text"


def plural(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun, such as ``1 row`` or ``2 rows``."""
    return f"{count(number)} {noun if number == 1 else nouns or noun + 's'}"


def _digits(value: float, digits: int) -> str:
    """A number with so many significant digits, and all before the point; a power of ten only far from 1."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 <= magnitude < 15:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(digits - 1 - magnitude, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

"""Quantities with units: parsing, exact storage and readable printing.

What is stored or computed with goes through `parse_` and `format_time`, `format_size`, `format_bandwidth`, which lose
nothing; the other `format_` functions round for people.

Times are integer picoseconds, sizes integer bytes, bandwidths bytes per second.  A plain number is read
in the SI unit (seconds, bytes, bytes per second).  Decimal (``GB``) and binary (``GiB``) prefixes are
different units, and ``Gb/s`` counts bits.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from themis_opt.base.errors import suggestion

PICOSECONDS_PER_SECOND = 10**12
PICOSECONDS_PER_MICROSECOND = 10**6
PICOSECONDS_PER_NANOSECOND = 10**3
NANOSECONDS_PER_MICROSECOND = 10**3
MAX_EXPONENT = 30  # powers of ten up to which numbers are read
MAX_CLOCK = 2**61  # largest time, in picoseconds, that the integer clock may have to hold (about 26 days)
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

TIME_UNITS: Mapping[str, Decimal] = {
    "s": Decimal(10**12),
    "ms": Decimal(10**9),
    "us": Decimal(10**6),
    "ns": Decimal(10**3),
    "ps": Decimal(1),
}
SIZE_UNITS: Mapping[str, Decimal] = {f"{prefix}B": Decimal(scale) for prefix, scale in (_DECIMAL | _BINARY).items()}
BANDWIDTH_UNITS: Mapping[str, Decimal] = MappingProxyType(
    {f"{unit}/s": scale for unit, scale in SIZE_UNITS.items()}
    | {f"{prefix}b/s": Decimal(scale) / 8 for prefix, scale in (_DECIMAL | _BINARY).items()}
)

_QUANTITY = re.compile(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*")


def parse_quantity(value: object, units: Mapping[str, Decimal], base: str) -> Decimal:
    """Read a number with a unit, such as ``"1.7 us"``, into the stored unit of `units`.

    Raises ValueError if the text is no number with a known unit, or is not finite.

    `value`: a text with a unit, or a plain number in `base`.
    `base`: the unit of a plain number.
    """
    rule = f"must be a number with a unit, such as '1 {base}'"
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(rule)
    number, unit = (match[1], match[2] or base) if match else (str(value), base)
    if unit.replace("µ", "u") not in units:
        raise ValueError(f"unknown unit '{unit}'{_nearest_unit(unit, units)}")
    try:
        amount = Decimal(number)
    except InvalidOperation:
        raise ValueError(rule) from None
    if not amount.is_finite():
        raise ValueError("must be finite")
    if amount and abs(amount.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"must lie between 1e-{MAX_EXPONENT} and 1e{MAX_EXPONENT}")
    return amount * units[unit.replace("µ", "u")]


SPELLINGS: Mapping[str, str] = {
    "bps": "b/s",
    "Bps": "B/s",
    "bit/s": "b/s",
    "bits/s": "b/s",
    "sec": "s",
    "b": "B",
    "": "iB",
}
"""Endings of units that others write, and what they are here."""


def _nearest_unit(unit: str, units: Mapping[str, Decimal]) -> str:
    """A question for the unit that was meant, or all of them."""
    meant = [unit[: len(unit) - len(end)] + ending for end, ending in SPELLINGS.items() if unit.endswith(end)]
    near = next((spelled for spelled in (*meant, f"{unit}B/s") if spelled in units), None)
    same = [known for known in units if known.lower() == unit.lower()]
    if near is None and not same:
        return suggestion(unit, units) or f"; use one of {', '.join(units)}"
    return f"; did you mean '{near or same[0]}'?"


def parse_time(value: object) -> int:
    """Picoseconds of a time such as ``"700 ns"``; a plain number is in seconds."""
    time = int(parse_quantity(value, TIME_UNITS, "s").to_integral_value())
    if time > MAX_CLOCK:
        raise ValueError(f"must be at most the {format_seconds(MAX_CLOCK)} that the clock holds")
    return time


def parse_size(value: object) -> int:
    """Bytes of a size such as ``"100 MiB"``; a plain number is in bytes, and fractions of a byte are refused."""
    amount = parse_quantity(value, SIZE_UNITS, "B")
    if amount != amount.to_integral_value():
        raise ValueError("must be a whole number of bytes")
    return int(amount)


def parse_bandwidth(value: object) -> float:
    """Bytes per second of a bandwidth such as ``"200 GiB/s"`` or ``"400 Gb/s"``."""
    bandwidth = float(parse_quantity(value, BANDWIDTH_UNITS, "B/s"))
    if not math.isfinite(bandwidth):
        raise ValueError("must be finite")
    return bandwidth


def format_time(picoseconds: int) -> str:
    """The time in the largest unit that holds it exactly."""
    return _format_exact(Decimal(picoseconds), TIME_UNITS, "ps")


def format_size(size: int) -> str:
    """The size in the largest unit that holds it as a whole number, binary units first."""
    return _format_exact(Decimal(size), SIZE_UNITS, "B")


def format_short_size(size: float) -> str:
    """The size: exact where that takes four digits at most, else with four digits in a decimal unit."""
    exact = format_size(round(size))
    if exact.index(" ") <= len("1234"):
        return exact
    unit, scale = decimal_size_unit(size, 1.0)
    return f"{size / scale:.4g} {unit}"


def format_sizes(sizes: Sequence[int]) -> list[str]:
    """Sizes in one unit: exact if all have the same unit and four digits at most, else with two decimals."""
    exact = [format_size(size) for size in sizes if size]
    if len({text.partition(" ")[2] for text in exact}) <= 1 and all(text.index(" ") <= len("1234") for text in exact):
        return [format_size(size) if size else "0" for size in sizes]
    units = decimal_size_unit(max(sizes), 1.0), decimal_size_unit(min(size for size in sizes if size), 0.01)
    unit, scale = min(units, key=lambda pair: pair[1])
    return [f"{size / scale:.2f} {unit}" if size else "0" for size in sizes]


def decimal_size_unit(size: float, least: float = 1.0) -> tuple[str, int]:
    """The largest decimal unit in which a size is at least so much; a byte if there is none."""
    return next((entry for entry in DECIMAL_SIZES if size >= least * entry[1]), DECIMAL_SIZES[-1])


DECIMAL_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


def format_bandwidth(bandwidth: float) -> str:
    """The bandwidth in the largest unit of bytes that holds it as a short exact number."""
    byte_units = {unit: scale for unit, scale in BANDWIDTH_UNITS.items() if "B" in unit}
    return _format_exact(Decimal(repr(bandwidth)), byte_units, "B/s")


def nanoseconds(picoseconds: float) -> float:
    """The time in nanoseconds, as rows and documents hold it."""
    return picoseconds / PICOSECONDS_PER_NANOSECOND


def time_unit(picoseconds: float) -> tuple[str, int]:
    """The largest unit in which a time is at least 1, and its picoseconds; a picosecond if there is none."""
    unit = next((unit for unit, scale in TIME_UNITS.items() if abs(picoseconds) >= scale), "ps")
    return unit, int(TIME_UNITS[unit])


def format_short_time(picoseconds: float) -> str:
    """The time as sentences, tables and pictures show it: with four digits, in the unit of :func:`time_unit`."""
    rounded = float(f"{picoseconds:.4g}")
    unit, scale = time_unit(rounded)
    return f"{rounded / scale:.12g} {unit}" if rounded else "0"


def format_seconds(picoseconds: float) -> str:
    """The time in seconds, with three digits."""
    return f"{picoseconds / PICOSECONDS_PER_SECOND:.3g} s"


def format_clock(seconds: float) -> str:
    """Hours, minutes and seconds of a time given in seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def format_rate(bandwidth: float, form: str = ".2f") -> str:
    """The bandwidth in GB/s, by default with two decimals, as nccl-tests print it."""
    return f"{bandwidth / 10**9:{form}} GB/s"


def format_link(bandwidth: float) -> str:
    """The bandwidth of a link: exact where that takes six digits at most, else with four digits in GB/s or MB/s."""
    exact = format_bandwidth(bandwidth)
    number, _, unit = exact.partition(" ")
    is_short = len(number.replace(".", "")) <= 6
    if is_short and unit == "MB/s" and bandwidth >= 10**9:
        return format_rate(bandwidth, ".6g")
    if is_short and unit not in ("B/s", "kB/s", "KB/s", "KiB/s"):  # nobody gives that of a network in those
        return exact
    return format_rate(bandwidth, ".4g") if bandwidth >= 10**9 else f"{bandwidth / 10**6:.4g} MB/s"


def format_megabytes(size: float) -> str:
    """The size with four digits, in MB where it has some."""
    unit, scale = ("MB", 10**6) if 10**2 <= size < 10**10 else decimal_size_unit(size, 1.0)
    return f"{size / scale:.4g} {unit}"


def format_percent(fraction: float) -> str:
    """The fraction as a percentage with two decimals."""
    return f"{100 * fraction:z.2f} %"


def format_shares(fractions: str) -> str:
    """Fractions with spaces between as whole percentages, such as ``61/97/12 %``; of many the least and the most."""
    percents = [f"{100 * float(part):.0f}" for part in fractions.split()]
    if len(percents) > 6:  # as one cell shows
        return f"{min(percents, key=int)}..{max(percents, key=int)} %"
    return f"{'/'.join(percents)} %"


# How a cell of a table is shown: times are in nanoseconds, bandwidths in bytes per second
Form = Literal["text", "time", "share", "shares", "bandwidth", "ratio", "count"]
# How single values are shown, by the form of their column
FORMS: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "time": lambda value: format_short_time(PICOSECONDS_PER_NANOSECOND * value),
    "share": format_percent,
    "shares": format_shares,
    "bandwidth": format_rate,
    "ratio": "{:.3f}x".format,
    "count": str,
}


def cells(form: Form, values: Sequence[Any]) -> list[str]:
    """The values of a column as a person reads them."""
    return [FORMS[form](value) for value in values]


_EXACTLY = Context(prec=400)
"""Arithmetic with all digits of any float; the default refuses remainders of 28 digits and more."""


def _format_exact(amount: Decimal, units: Mapping[str, Decimal], base: str) -> str:
    largest_first = sorted(units.items(), key=lambda item: -item[1])
    for unit, scale in largest_first:
        if amount and _EXACTLY.remainder(amount, scale) == 0:
            return f"{_EXACTLY.divide(amount, scale).normalize(_EXACTLY):f} {unit}"
    return f"{amount:f} {base}"


def _quantity_schema(example: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}], "examples": [example]})


Picoseconds = Annotated[int, BeforeValidator(parse_time), PlainSerializer(format_time), _quantity_schema("700 ns")]
Bytes = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size), _quantity_schema("100 MiB")]
BytesPerSecond = Annotated[
    float, BeforeValidator(parse_bandwidth), PlainSerializer(format_bandwidth), _quantity_schema("200 GiB/s")
]

"""What-if questions: policies and bounds over message sizes, chunk counts, and figures of single dimensions."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from pydantic import ValidationError

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.units import (
    BANDWIDTH_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    format_bandwidth,
    format_size,
    format_time,
    parse_bandwidth,
    parse_quantity,
    parse_size,
    parse_time,
)
from themis_opt.policies.registry import usual_policies
from themis_opt.problem.cost import check_clock
from themis_opt.problem.fields import located
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension
from themis_opt.study.columns import Value, result_row
from themis_opt.study.comparison import compare

OF_ALL = ("size", "chunks")
"""What is varied of every collective."""

OF_DIMENSION = ("bandwidth", "latency", "launch_overhead", "size")
"""What is varied of one dimension; its name and a dot stand before."""

MOST_POINTS = 10_000
DEFAULT_FACTOR = 2

_READERS = {"size": parse_size, "bandwidth": parse_bandwidth, "latency": parse_time, "launch_overhead": parse_time}
_UNITS = {
    "size": (SIZE_UNITS, "B", format_size),
    "bandwidth": (BANDWIDTH_UNITS, "B/s", lambda value: format_bandwidth(float(value))),
    "latency": (TIME_UNITS, "s", format_time),
    "launch_overhead": (TIME_UNITS, "s", format_time),
}


def sweep(
    instance: Instance, over: Mapping[str, Sequence[Any]], policies: Sequence[str] | None = None, **limits: Any
) -> list[dict[str, Value]]:
    """Run policies on every combination of varied values.

    Parameters
    ----------
    over : mapping
        Values by what is varied: ``size`` and ``chunks`` of every collective, and ``NAME.bandwidth``,
        ``NAME.latency``, ``NAME.launch_overhead`` and ``NAME.size`` (NPUs) of the dimension of a name; quantities as
        texts with units or plain numbers in SI units.  The bandwidth of a dimension with rails is that of all of them,
        in the proportions that they have; ``NAME.RAIL.bandwidth`` is that of one.
    policies : sequence of str, optional
        Specifications; the usual ones without the reference by default.
    **limits
        As of :func:`themis_opt.compare`, for each combination.

    Returns
    -------
    list of dict
        One row per combination and policy, policies inside: the varied values as plain numbers (bytes, bytes per
        second, picoseconds), then the columns of a result.

    Raises
    ------
    InputError
        If what is varied is unknown, a value breaks a rule, or there are too many combinations.
    """
    names = list(over)
    if not names or not all(over.values()):
        raise InputError("must vary something, with one or more values", field="over")
    points = math.prod(len(values) for values in over.values())
    if points > MOST_POINTS:
        raise InputError(f"must have at most {MOST_POINTS} combinations, has {points}", field="over")
    rows: list[dict[str, Value]] = []
    for values in product(*(over[name] for name in names)):
        point = dict(zip(names, values, strict=True))
        changed = varied(instance, point)
        place = {name: plain(name, value) for name, value in point.items()}
        results = compare(changed, policies or usual_policies(changed), **limits).results
        rows += [place | result_row(result) for result in results]
    return rows


def varied(instance: Instance, point: Mapping[str, Any]) -> Instance:
    """An instance with some values changed.

    Raises
    ------
    InputError
        If a name is unknown, or the instance breaks a rule then.
    """
    try:
        for name, value in point.items():
            instance = _changed(instance, name, value)
        check_clock(instance)
    except ValidationError as error:
        where = ", ".join(f"{name}={value}" for name, value in point.items())
        raise located(error).within(where) from None
    return instance


def plain(name: str, value: Any) -> Value:
    """A varied value as a number."""
    kind = _kind(name)
    return int(value) if kind is None else _READERS[kind](value)


def in_words(name: str, value: Any) -> str:
    """A varied value, as a number, in words."""
    kind = _kind(name)
    return str(value) if kind is None else _UNITS[kind][2](value)


def read_values(name: str, text: str) -> list[Any]:
    """Values in a text: with commas between, and ranges such as ``64KiB..1GiB`` or ``64KiB..1GiB:4``.

    A range goes up by factors of two, or of what stands behind the colon, to its end at most.

    Raises
    ------
    InputError
        If a range has no end in reach.
    """
    values: list[Any] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        if ".." not in part:
            values.append(part if _kind(name) else _whole(name, part))
            continue
        ends, _, factor = part.partition(":")
        low, high = ends.split("..", 1)
        values += _range(name, low, high, factor or str(DEFAULT_FACTOR))
    return values


def _range(name: str, low: str, high: str, factor: str) -> list[Any]:
    kind = _kind(name)
    try:
        start, end = (_amount(kind, text) for text in (low, high))
        step = float(factor)
    except (ValueError, InputError) as error:
        rule = error.rule if isinstance(error, InputError) else str(error)
        raise InputError(rule, field=name, value=f"{low}..{high}") from None
    if not 0 < start <= end or not 1.001 <= step < math.inf:
        raise InputError("must rise from more than 0 by a factor above 1", field=name, value=f"{low}..{high}:{factor}")
    values, value = [], start
    while value <= end * (1 + 1e-12):
        values.append(round(value) if kind is None else _UNITS[kind][2](round(value)))
        value *= step
    return values


def _amount(kind: str | None, text: str) -> float:
    return float(_whole("", text)) if kind is None else float(parse_quantity(text.strip(), *_UNITS[kind][:2]))


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError("must be a whole number", field=name, value=text) from None


def _kind(name: str) -> str | None:
    """The quantity that a name stands for; None for whole numbers."""
    own = name.rpartition(".")[2]
    return None if own == "chunks" or name.endswith(".size") else own if own in _UNITS else None


def _changed(instance: Instance, name: str, value: Any) -> Instance:
    if name in OF_ALL:
        return instance.overridden(**{name: value})
    figures = _figures(instance)
    if name not in figures:
        known = [*OF_ALL, *figures]
        raise InputError(f"must be one of {', '.join(known)}{suggestion(name, known)}", field="over", value=name)
    number, field, rail = figures[name]
    dimensions = list(instance.network.dimensions)
    try:
        dimensions[number] = _dimension(dimensions[number], field, rail, value)
    except ValidationError as error:
        raise InputError(located(error).rule, field=name, value=value) from None
    return instance.replace(network=instance.network.replace(dimensions=tuple(dimensions)))


def _figures(instance: Instance) -> dict[str, tuple[int, str, str | None]]:
    """Number of the dimension, field and perhaps rail of every figure that can be varied, by name."""
    figures: dict[str, tuple[int, str, str | None]] = {}
    for number, own in enumerate(instance.network.dimensions):
        name = instance.network.dimension_names[number]
        figures |= {f"{name}.{field}": (number, field, None) for field in OF_DIMENSION}
        figures |= {f"{name}.{rail.name}.bandwidth": (number, "bandwidth", rail.name) for rail in own.rails}
    return figures


def _dimension(dimension: Dimension, field: str, rail: str | None, value: Any) -> Dimension:
    """A dimension with one figure changed; the bandwidth of one with rails is that of all, in the same proportions."""
    if field != "bandwidth" or not dimension.rails:
        return dimension.replace(**{field: value})
    if rail is None:
        factor = dimension.rails[0].replace(bandwidth=value).bandwidth / dimension.bandwidth
        rails = [own.replace(bandwidth=own.bandwidth * factor) for own in dimension.rails]
    else:
        rails = [own.replace(bandwidth=value) if own.name == rail else own for own in dimension.rails]
    others = dimension.model_dump(mode="json", exclude_unset=True, exclude={"bandwidth", "rails"})
    return Dimension(**others, rails=tuple(rails))

"""The network that a run has in the place of the one that an instance describes."""

from collections.abc import Callable
from typing import Any

from themis_opt.base.errors import InputError, reading
from themis_opt.base.units import parse_bandwidth
from themis_opt.problem.documents import errors_of
from themis_opt.problem.instance import Instance

MAX_LOCAL_RANKS = 64  # processes that are started at most
AS_IN_INSTANCE = "instance"

_FREE: dict[str, Any] = {
    "latency": 0,
    "launch_overhead": 0,
    "packet": None,
    "reduction": None,
    "compression": 1.0,
    "in_network": False,
    "rails": (),
}
"""Costs of a dimension that is paced by its bandwidth alone."""


def on_network(instance: Instance, sizes: str | None, rates: str | None) -> Instance:
    """The instance with other sizes and bandwidths of its dimensions.

    Raises InputError if there is not one for each dimension, or there would be too many ranks.

    `sizes`: NPUs along each dimension, such as ``4x2``.
    `rates`: bandwidth of each dimension, such as ``100Mb/s,50Mb/s``; other costs are none then.
    """
    if (sizes or rates) and instance.iteration is not None and instance.iteration.splits:
        raise InputError("dimensions that are split keep their sizes and bandwidths", field="iteration.splits")
    changes: list[dict[str, Any]] = [{} for _ in instance.network.dimensions]
    for change, size in zip(changes, _sizes(instance, sizes), strict=True):
        change["size"] = size
    if rates is not None and rates != AS_IN_INSTANCE:
        speeds = read_each(rates, len(changes), "bandwidths", parse_bandwidth, "--pace")
        for change, rate in zip(changes, speeds, strict=True):
            change |= _FREE | {"bandwidth": rate}
    with errors_of("command line"):
        dimensions = tuple(d.replace(**change) for d, change in zip(instance.network.dimensions, changes, strict=True))
        changed = instance.replace(network=instance.network.replace(dimensions=dimensions))
    if changed.fabric.num_npus > MAX_LOCAL_RANKS:
        rule = f"would start {changed.fabric.num_npus} processes, at most {MAX_LOCAL_RANKS} are allowed; use --local"
        raise InputError(rule, field="--local", value=sizes)
    return changed


def _sizes(instance: Instance, text: str | None) -> tuple[int, ...]:
    if text is None:
        return instance.network.sizes
    parts = text.lower().split("x")
    if len(parts) != len(instance.network.sizes) or not all(part.isdecimal() for part in parts):
        rule = f"must be {len(instance.network.sizes)} sizes, one for each dimension, with x between them"
        raise InputError(rule, field="--local", value=text)
    return tuple(map(int, parts))


def read_each(text: str, count: int, what: str, read: Callable[[str], float], field: str) -> list[float]:
    """A quantity for each of so many dimensions. Raises InputError if they are not so many, or one cannot be read."""
    parts = text.split(",")
    if len(parts) != count:
        rule = f"must be {count} {what}, one for each dimension, with commas between them"
        raise InputError(rule, field=field, value=text)
    with reading(field, text):
        return [read(part.strip()) for part in parts]

"""Costs of a dimension that can be set for a whole network at once.

``tune`` has an option, a batch an override and a column for each of them.  They are fields of
:class:`~themis_opt.problem.network.Dimension`, which says what values they take.  Nothing here loads a library, so
that the command line shows its help at once.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from themis_opt.base.errors import InputError
from themis_opt.problem.cost import check_clock
from themis_opt.problem.fields import located
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import cost_type

NONE = "none"  # takes a cost away where it may be missing


def _packet(text: str) -> dict[str, str]:
    payload, slash, header = text.partition("/")
    if not slash:
        raise ValueError(f"must be payload and header, such as 4096B/30B, or '{NONE}'")
    return {"payload": payload, "header": header}


class CostTerm(NamedTuple):
    """A cost."""

    meaning: str  # for the help of an option
    words: str  # what its value stands behind in a description
    column: str  # of rows; in nanoseconds where the name says so, else in words
    read: Callable[[str], Any] = str  # from a text to what the field of the dimension takes; raises ValueError


COST_TERMS: Mapping[str, CostTerm] = {
    "launch_overhead": CostTerm(
        "Time a stage holds its dimension before it sends, such as 2us.", "launch", "launch_overhead_ns"
    ),
    "packet": CostTerm("Payload and header of a packet, such as 4096B/30B.", "packets", "packet", _packet),
    "reduction": CostTerm("Bytes per second at which an NPU sums, such as 200GB/s.", "sums at", "reduction"),
}
"""The costs by the name of their field."""


def with_costs(instance: Instance, *, latency: str | None = None, **costs: str | float | None) -> Instance:
    """The instance with other costs on all its dimensions.

    Raises InputError if one of them breaks a rule, or the clock cannot hold the times.

    `latency`: whether step latencies occupy the dimension.
    `**costs`: values of :data:`~themis_opt.problem.cost_terms.COST_TERMS`; a number is in SI units.
    """
    given = {name: _read(name, value) for name, value in costs.items() if value is not None}
    result: Instance = _checked("--latency", latency, lambda: instance.overridden(latency=latency))
    if given:
        result = result.replace(network=instance.network.with_costs(given))
    check_clock(result)
    return result


def _read(name: str, value: str | float) -> Any:
    """The value of a cost term, checked."""
    if name not in COST_TERMS:
        raise InputError(f"must be one of {', '.join(COST_TERMS)}", field="cost", value=name)
    option = f"--{name.replace('_', '-')}"
    return _checked(option, value, lambda: TypeAdapter(cost_type(name)).validate_python(value))


def is_free_to_cut(instance: Instance) -> bool:
    """Whether nothing makes a small chunk dearer, so that more chunks always look better."""
    dimensions = instance.fabric.dimensions
    headers = any(d.packet is not None and d.packet.header for d in dimensions)
    return instance.latency == "lag" and not headers and not any(d.launch_overhead or d.rails for d in dimensions)


def _checked(option: str, value: object, make: Callable[[], Any]) -> Any:
    """What `make` makes; an error names the option."""
    try:
        return make()
    except ValidationError as error:
        raise InputError(located(error).rule, field=option, value=value) from None

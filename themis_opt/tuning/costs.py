"""The costs that make small chunks dear, in place of those of an instance."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from themis_opt.cost import check_clock
from themis_opt.errors import InputError
from themis_opt.instance import Instance, Packet, located
from themis_opt.iteration_instance import IterationInstance

Problem = TypeVar("Problem", Instance, IterationInstance)


def with_costs(
    instance: Problem,
    *,
    launch_overhead: str | float | None = None,
    packet: str | None = None,
    latency: str | None = None,
) -> Problem:
    """The instance with other costs on all its dimensions.

    Parameters
    ----------
    launch_overhead : str or number, optional
        Time for which a stage holds its dimension before it sends; a number is in seconds.
    packet : str, optional
        Payload and header of a packet, such as ``4096B/30B``.
    latency : {"lag", "occupy"}, optional
        Whether step latencies occupy the dimension.

    Raises
    ------
    InputError
        If one of them breaks a rule, or the clock cannot hold the times.
    """
    changes: dict[str, Any] = {}
    if packet is not None:
        changes["packet"] = parse_packet(packet).model_dump(mode="json")
    if launch_overhead is not None:
        changes["launch_overhead"] = launch_overhead
    network = instance.network
    changed = _checked(
        "--launch-overhead", launch_overhead, lambda: tuple(d.replace(**changes) for d in network.dimensions)
    )
    result: Problem = _checked("--latency", latency, lambda: instance.overridden(latency=latency))
    result = result.replace(network=network.replace(dimensions=changed))
    check_clock(result if isinstance(result, Instance) else result.one_by_one())
    return result


def parse_packet(text: str) -> Packet:
    """Payload and header of a packet, with a slash between them.

    Raises
    ------
    InputError
        If they are no sizes, or out of range.
    """
    payload, slash, header = text.partition("/")
    if not slash:
        raise InputError("must be payload and header, such as 4096B/30B", field="--packet", value=text)
    packet: Packet = _checked("--packet", text, lambda: Packet.model_validate({"payload": payload, "header": header}))
    return packet


def is_free_to_cut(instance: Instance | IterationInstance) -> bool:
    """Whether nothing makes a small chunk dearer, so that more chunks always look better."""
    dimensions = instance.network.dimensions
    headers = any(d.packet is not None and d.packet.header for d in dimensions)
    return instance.latency == "lag" and not headers and not any(d.launch_overhead for d in dimensions)


def _checked(option: str, value: object, make: Callable[[], Any]) -> Any:
    """What `make` makes; an error names the option."""
    try:
        return make()
    except ValidationError as error:
        raise InputError(located(error).rule, field=option, value=value) from None

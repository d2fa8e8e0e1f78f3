"""Instances of an experiment with other sizes, chunk counts and rules than their own, and the columns that tell."""

from typing import Any, NamedTuple

from pydantic import ValidationError

from themis_opt.batches.experiment import NO_PACKET, Block, Framing
from themis_opt.batches.measuring import PICOSECONDS_PER_NANOSECOND, Columns
from themis_opt.cost import check_clock
from themis_opt.errors import InputError
from themis_opt.instance import Instance, Network, Packet, located
from themis_opt.iteration_instance import IterationInstance
from themis_opt.units import format_size

AnyInstance = Instance | IterationInstance

ITERATION = "iteration"
"""What the column `kind` says of training iterations."""


class Overrides(NamedTuple):
    """Values in the place of those of an instance, in the order of the cross product."""

    size: int | None
    chunks: int | None
    latency: str | None
    ag_order: str | None
    launch_overhead: int | None
    packet: Framing | None


def varied(instance: AnyInstance, name: str, overrides: Overrides, block: Block) -> AnyInstance:
    """The instance `name` with some of the overrides of a block.

    The clock is asked about the largest sizes and numbers of chunks alone, because these last longest.

    Raises
    ------
    InputError
        If the overrides do not fit the instance.
    """
    if overrides.size is not None and isinstance(instance, IterationInstance):
        rule = "is not for training iterations, whose tensors have sizes of their own"
        raise InputError(rule, field="sizes_of_collectives", value=name)
    try:
        changed = _overridden(instance, overrides)
        if changed is not instance and (overrides.size, overrides.chunks) == block.largest:
            check_clock(changed if isinstance(changed, Instance) else changed.one_by_one())
    except ValidationError as error:
        found = located(error)
        raise InputError(found.rule, field=f"instance {name}") from None
    except InputError as error:
        raise InputError(error.rule, field=f"instance {name}") from None
    return changed


def _overridden(instance: AnyInstance, overrides: Overrides) -> AnyInstance:
    """The instance with the values that are given; its rules were checked with the block, collectives are here."""
    changes: dict[str, Any] = {}
    per_collective = {k: v for k, v in (("size", overrides.size), ("chunks", overrides.chunks)) if v is not None}
    if isinstance(instance, IterationInstance):
        changes |= per_collective
    elif per_collective:
        changes["collectives"] = tuple(c.replace(**per_collective) for c in instance.collectives)
    if overrides.launch_overhead is not None or overrides.packet is not None:
        changes["network"] = _with_dimensions(instance.network, overrides.launch_overhead, overrides.packet)
    rules = (("latency", overrides.latency), ("ag_order", overrides.ag_order))
    changes |= {name: value for name, value in rules if value is not None}
    if not changes:
        return instance
    kind = type(instance)
    return kind.model_construct(**({f: getattr(instance, f) for f in kind.model_fields} | changes))


def _with_dimensions(network: Network, launch_overhead: int | None, packet: Framing | None) -> Network:
    """The network with a launch overhead in picoseconds, and packets, of every dimension."""
    changes: dict[str, Any] = {}
    if launch_overhead is not None:
        changes["launch_overhead"] = launch_overhead
    if packet is not None:
        changes["packet"] = None if packet == NO_PACKET else packet
    dimensions = tuple(d.model_copy(update=changes) for d in network.dimensions)
    return Network(name=network.name, dimensions=dimensions, source=network.source)


def instance_columns(instance: AnyInstance) -> Columns:
    """Columns that describe an instance; sizes and chunks are summed over its collectives, sizes over its tensors.

    Launch overhead and packets are empty where they differ between dimensions.
    """
    dimensions = instance.network.dimensions
    overheads = {d.launch_overhead for d in dimensions}
    packets = {d.packet for d in dimensions}
    return {
        "fingerprint": instance.fingerprint,
        "network": instance.network.name,
        "dimensions": len(dimensions),
        "npus": instance.network.num_npus,
        **_exchanged(instance),
        "latency": instance.latency,
        "ag_order": instance.ag_order,
        "launch_overhead_ns": overheads.pop() / PICOSECONDS_PER_NANOSECOND if len(overheads) == 1 else None,
        "packet": _packet_text(packets.pop()) if len(packets) == 1 else None,
    }


def _exchanged(instance: AnyInstance) -> Columns:
    if isinstance(instance, IterationInstance):
        size = sum(tensor.size for tensor in instance.iteration.tensors)
        return {"kind": ITERATION, "size_bytes": size, "chunks": instance.chunks}
    return {
        "kind": instance.collectives[0].kind.value,
        "size_bytes": sum(c.size for c in instance.collectives),
        "chunks": sum(c.chunks for c in instance.collectives),
    }


def identity(instance: AnyInstance) -> list[Any]:
    """What decides about the rows of an instance; of an iteration also what only policies and columns look at."""
    if isinstance(instance, Instance):
        return [instance.fingerprint]
    parallelisms = [tensor.parallelism for tensor in instance.iteration.tensors]
    return [instance.fingerprint, instance.iteration.steps, instance.memory, parallelisms]


def _packet_text(packet: Packet | None) -> str:
    return f"{format_size(packet.payload)}/{format_size(packet.header)}" if packet else NO_PACKET

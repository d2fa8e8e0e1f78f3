"""An instance in words."""

from themis_opt.cost import PHASES, steps
from themis_opt.instance import Dimension, Instance
from themis_opt.units import format_bandwidth, format_size, format_time


def headline(instance: Instance) -> str:
    """One line (two with a description) about the whole."""
    network = instance.network
    shape = "x".join(str(size) for size in network.sizes)
    latency = "delays the chunk" if instance.latency == "lag" else "occupies the dimension"
    gather = "in any order" if instance.ag_order == "free" else "in the reverse of the scatter order"
    line = (
        f"{instance.name or 'instance'}: {network.num_npus} NPUs ({shape}), "
        f"{format_bandwidth(sum(network.bandwidths))} per NPU; latency {latency}; all-reduce gathers {gather}"
    )
    return f"{line}\n{instance.description}" if instance.description else line


def dimension_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per dimension, innermost first."""
    return [
        {
            "dimension": name,
            "kind": d.kind.value,
            "size": str(d.size),
            "bandwidth": format_bandwidth(d.bandwidth),
            "algorithm": "in-network" if d.in_network else d.basic_algorithm.value,
            "latency": f"{_steps(instance, k)} x {format_time(d.latency)}",
            "extras": _extras(d),
        }
        for k, (name, d) in enumerate(zip(instance.network.dimension_names, instance.network.dimensions, strict=True))
    ]


def _steps(instance: Instance, dimension: int) -> str:
    """Steps of a stage on the dimension, for the phases that use it."""
    counts = {
        steps(instance.network.dimensions[dimension], phase)
        for collective, span in zip(instance.collectives, instance.spans, strict=True)
        for phase in PHASES[collective.kind]
        if dimension in span
    }
    return " or ".join(str(count) for count in sorted(counts)) or "0"


def _extras(dimension: Dimension) -> str:
    extras = []
    if dimension.packet:
        extras.append(f"packets {format_size(dimension.packet.payload)} + {format_size(dimension.packet.header)}")
    if dimension.launch_overhead:
        extras.append(f"launch {format_time(dimension.launch_overhead)}")
    if dimension.compression > 1:
        extras.append(f"compressed {dimension.compression:g}x")
    return ", ".join(extras) or "-"


def collective_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per collective."""
    names = instance.network.dimension_names
    return [
        {
            "collective": label,
            "kind": c.kind.value,
            "size": format_size(c.size),
            "chunks": str(c.chunks),
            "dimensions": " ".join(names[k] for k in span),
            "release": format_time(c.release),
            "stages": str(c.chunks * len(span) * len(PHASES[c.kind])),
        }
        for c, label, span in zip(instance.collectives, instance.labels, instance.spans, strict=True)
    ]

"""An instance in words."""

from themis_opt.cost import PHASES, steps
from themis_opt.instance import Dimension, Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.units import format_bandwidth, format_size, format_time


def headline(instance: Instance | IterationInstance) -> str:
    """One line about the whole, with one more for a description and for an iteration."""
    network = instance.network
    shape = "x".join(str(size) for size in network.sizes)
    latency = "delays the chunk" if instance.latency == "lag" else "occupies the dimension"
    gather = "in any order" if instance.ag_order == "free" else "in the reverse of the scatter order"
    line = (
        f"{instance.name or 'instance'}: {network.num_npus} NPUs ({shape}), "
        f"{format_bandwidth(sum(network.bandwidths))} per NPU; latency {latency}; all-reduce gathers {gather}"
    )
    lines = [line, instance.description, "" if isinstance(instance, Instance) else _in_short(instance)]
    return "\n".join(line for line in lines if line)


def _in_short(instance: IterationInstance) -> str:
    iteration = instance.iteration
    steps = f" for {iteration.steps} steps" if iteration.steps > 1 else ""
    sizes = {kind: sum(t.size for t in iteration.tensors if t.parallelism == kind) for kind in ("data", "model")}
    bytes_of = [f"{format_size(size)} {kind} parallel" for kind, size in sizes.items() if size]
    memory = f"; {format_size(instance.memory)} of parameters" if instance.memory else ""
    return (
        f"iteration{steps}: {len(iteration.tasks)} tasks, compute {_rounded(instance.compute)}; "
        f"{len(iteration.tensors)} tensors{''.join(f', {part}' for part in bytes_of)}, "
        f"in {instance.chunks} chunks per launch{memory}"
    )


def tables(instance: Instance | IterationInstance) -> dict[str, list[dict[str, str]]]:
    """The rows of every part of an instance by its title."""
    if isinstance(instance, Instance):
        return {"network": dimension_rows(instance), "collectives": collective_rows(instance)}
    return {
        "network": dimension_rows(instance.one_by_one()),
        "tasks": task_rows(instance),
        "tensors": tensor_rows(instance),
    }


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


def task_rows(instance: IterationInstance) -> list[dict[str, str]]:
    """One row per task of an iteration, in the order they run."""
    return [
        {
            "task": task.name,
            "duration": _rounded(task.duration),
            "after": " ".join(task.after) or "-",
            "parameters": format_size(task.parameter_bytes) if task.parameter_bytes else "-",
        }
        for task in instance.iteration.tasks
    ]


def _rounded(picoseconds: int) -> str:
    """A time to four digits: those of tasks are estimates."""
    units = (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3))
    unit, scale = next((unit for unit in units if picoseconds >= unit[1]), ("ps", 1))
    return f"{picoseconds / scale:.4g} {unit}" if picoseconds else "0"


def tensor_rows(instance: IterationInstance) -> list[dict[str, str]]:
    """One row per tensor of an iteration."""
    names, places = instance.fabric.dimension_names, zip(instance.spans, instance.needed_later, strict=True)
    return [
        {
            "tensor": tensor.name,
            "kind": tensor.kind.value,
            "size": format_size(tensor.size),
            "dimensions": " ".join(names[k] for k in span),
            "ready after": tensor.ready_after,
            "needed before": tensor.needed_before + (" of the next iteration" if later else ""),
            "parallelism": tensor.parallelism,
        }
        for tensor, (span, later) in zip(instance.iteration.tensors, places, strict=True)
    ]

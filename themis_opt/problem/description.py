"""An instance in words."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from themis_opt.base.units import (
    format_link,
    format_megabytes,
    format_short_size,
    format_short_time,
    format_sizes,
    format_time,
)
from themis_opt.problem.cost_terms import COST_TERMS, NONE
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Packet
from themis_opt.problem.phases import Phase
from themis_opt.problem.rails import used_from
from themis_opt.problem.wiring import steps


def in_short(instance: Instance) -> str:
    """NPUs and what they exchange, such as ``1024 NPUs (16x8x8), all_reduce of 100 MiB``."""
    network = instance.network
    if instance.tasks:
        load = f"training iteration, compute {format_short_time(instance.compute)}"
    else:
        load = ", ".join(
            f"{exchange.kind.value} of {format_short_size(exchange.size)}" for exchange in instance.exchanges
        )
    return f"{network.num_npus} NPUs ({_shape(instance)}), {load}"


def _shape(instance: Instance) -> str:
    return "x".join(str(size) for size in instance.network.sizes)


def headline(instance: Instance) -> str:
    """One line about the whole, with one more for a description and for an iteration."""
    network = instance.network
    latency = "delays the chunk" if instance.latency == "lag" else "occupies the dimension"
    gather = "in any order" if instance.ag_order == "free" else "in the reverse of the scatter order"
    line = (
        f"{instance.name or 'instance'}: {network.num_npus} NPUs ({_shape(instance)}), "
        f"{format_link(sum(network.bandwidths))} per NPU; latency {latency}; gathers {gather}"
    )
    lines = [line, instance.description, _iteration_in_short(instance) if instance.tasks else ""]
    return "\n".join(line for line in lines if line)


def _iteration_in_short(instance: Instance) -> str:
    rounds = instance.iteration.steps if instance.iteration else 1
    steps = f" for {rounds} steps" if rounds > 1 else ""
    sizes = {kind: sum(t.size for t in instance.exchanges if t.parallelism == kind) for kind in ("data", "model")}
    bytes_of = [f"{format_short_size(size)} {kind} parallel" for kind, size in sizes.items() if size]
    memory = f"; {format_short_size(instance.parameter_bytes)} of parameters" if instance.parameter_bytes else ""
    return (
        f"iteration{steps}: {len(instance.tasks)} tasks, compute {format_short_time(instance.compute)}; "
        f"{len(instance.exchanges)} tensors{''.join(f', {part}' for part in bytes_of)}, "
        f"in {instance.chunks} chunks per launch{memory}"
    )


def tables(instance: Instance, *, whole: bool = False) -> dict[str, list[dict[str, str]]]:
    """The rows of every part of an instance by its title; every task and tensor has one if the `whole` is asked for."""
    network = {"network": dimension_rows(instance)}
    rails = rail_rows(instance)
    if rails:
        network["rails"] = rails
    if instance.iteration is None:
        return network | {"collectives": collective_rows(instance)}
    if whole or max(len(instance.tasks), len(instance.exchanges)) <= 24:  # of more, kinds are summed up
        return network | {"tasks": task_rows(instance), "tensors": tensor_rows(instance, instance.iteration)}
    return network | {"kinds of tensors": tensor_kind_rows(instance), "kinds of tasks": task_kind_rows(instance)}


def dimension_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per dimension, innermost first."""
    return [
        {
            "dimension": name,
            "kind": d.kind.value,
            "size": str(d.size),
            "bandwidth": format_link(d.bandwidth),
            "algorithm": "in-network" if d.in_network else d.basic_algorithm.value,
            "latency": f"{_steps(instance, k)} x {format_short_time(d.latency)}",
            "extras": ", ".join(_extras(instance, k)) or "-",
        }
        for k, (name, d) in enumerate(zip(instance.fabric.dimension_names, instance.fabric.dimensions, strict=True))
    ]


def rail_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per rail of every dimension that has some, with the bytes of a stage from which on it is used."""
    return [
        {
            "rail": rail.name,
            "dimension": name,
            "bandwidth": format_link(rail.bandwidth),
            "extra latency": format_short_time(rail.extra_latency),
            "extra launch": format_short_time(rail.extra_launch_overhead),
            "parts of stages from": _used_from(instance, k, number),
        }
        for k, (name, d) in enumerate(zip(instance.fabric.dimension_names, instance.fabric.dimensions, strict=True))
        for number, rail in enumerate(d.rails)
    ]


def _used_from(instance: Instance, dimension: int, rail: int) -> str:
    dimension_used = instance.fabric.dimensions[dimension]
    least = {math.ceil(used_from(dimension_used, phase)[rail]) for phase in _phases(instance, dimension)}
    return " or ".join(format_megabytes(size) if size else "any size" for size in sorted(least)) or "-"


def _steps(instance: Instance, dimension: int) -> str:
    counts = {steps(instance.fabric.dimensions[dimension], phase) for phase in _phases(instance, dimension)}
    return " or ".join(str(count) for count in sorted(counts)) or "0"


def _phases(instance: Instance, dimension: int) -> set[Phase]:
    spanning = (exchange for exchange in instance.exchanges if dimension in exchange.span)
    return {phase for exchange in spanning for phase in exchange.kind.rule.phases}


def _extras(instance: Instance, k: int) -> list[str]:
    dimension = instance.fabric.dimensions[k]
    values = ((term.words, getattr(dimension, name)) for name, term in COST_TERMS.items())
    extras = [f"{words} {cost_in_words(value)}" for words, value in values if value]
    if dimension.compression > 1:
        extras.append(f"compressed {dimension.compression:g}x")
    names, links = instance.fabric.dimension_names, instance.links
    others = [name for j, name in enumerate(names) if j != k and links[j] == links[k]]
    return extras + ([f"on the link of {' and '.join(others)}"] if others else [])


def cost_in_words(value: int | float | Packet | None) -> str:
    """The value of a cost term: picoseconds, bytes per second, or a packet."""
    if isinstance(value, int):
        return format_time(value)
    if isinstance(value, float):
        return format_link(value)
    return NONE if value is None else str(value)


def collective_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per collective."""
    sizes = format_sizes([exchange.size for exchange in instance.exchanges])
    releases = [format_short_time(exchange.release) for exchange in instance.exchanges]
    return [
        {
            "collective": exchange.name,
            "kind": exchange.kind.value,
            "size": size,
            "chunks": str(exchange.chunks),
            "dimensions": _span(instance, exchange),
            "release": release,
            "stages": str(exchange.num_stages),
        }
        for exchange, size, release in zip(instance.exchanges, sizes, releases, strict=True)
    ]


def _span(instance: Instance, exchange: Exchange) -> str:
    return " ".join(instance.fabric.dimension_names[k] for k in exchange.span)


def task_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per task of an iteration, in the order they run."""
    durations = [format_short_time(task.duration) for task in instance.tasks]
    parameters = format_sizes([task.parameter_bytes for task in instance.tasks])
    return [
        {"task": task.name, "duration": duration, "after": " ".join(task.after) or "-", "parameters": size}
        for task, duration, size in zip(instance.tasks, durations, parameters, strict=True)
    ]


def _kind(name: str) -> str:
    """What a name says when its numbers are left out, such as ``layer*.mlp.forward``."""
    return re.sub(r"\d+(_\d+)*", "*", name)


def task_kind_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per kind of tasks, in the order in which they first run."""
    kinds: dict[tuple[str, ...], list[ComputeTask]] = defaultdict(list)
    for task in instance.tasks:
        kinds[(_kind(task.name),)].append(task)
    durations = [[task.duration for task in members] for members in kinds.values()]
    columns = {
        "duration of all": [format_short_time(sum(times)) for times in durations],
        "shortest": [format_short_time(min(times)) for times in durations],
        "longest": [format_short_time(max(times)) for times in durations],
        "parameters": format_sizes([sum(task.parameter_bytes for task in members) for members in kinds.values()]),
    }
    return _rows_of_kinds(("tasks",), kinds, columns)


def tensor_kind_rows(instance: Instance) -> list[dict[str, str]]:
    """One row per kind of tensors that are alike in collective, parallelism and dimensions."""
    kinds: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for exchange in instance.exchanges:
        kind = _kind(exchange.name), exchange.kind.value, exchange.parallelism, _span(instance, exchange)
        kinds[kind].append(exchange.size)
    figures: dict[str, Callable[[list[int]], int]] = {"size of all": sum, "smallest": min, "largest": max}
    columns = {name: format_sizes([figure(sizes) for sizes in kinds.values()]) for name, figure in figures.items()}
    return _rows_of_kinds(("tensors", "kind", "parallelism", "dimensions"), kinds, columns)


def _rows_of_kinds(
    heads: tuple[str, ...], kinds: Mapping[tuple[str, ...], Sequence[object]], columns: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    return [
        dict(zip((*heads, "count", *columns), (*kind, str(len(members)), *texts), strict=True))
        for (kind, members), texts in zip(kinds.items(), zip(*columns.values(), strict=True), strict=True)
    ]


def tensor_rows(instance: Instance, iteration: Iteration) -> list[dict[str, str]]:
    """One row per tensor of an iteration."""
    sizes = format_sizes([tensor.size for tensor in iteration.tensors])
    return [
        {
            "tensor": tensor.name,
            "kind": tensor.kind.value,
            "size": size,
            "dimensions": _span(instance, exchange),
            "ready after": tensor.ready_after,
            "needed before": tensor.needed_before + (" of the next iteration" if exchange.needed_later else ""),
            "parallelism": tensor.parallelism,
        }
        for tensor, exchange, size in zip(iteration.tensors, instance.exchanges, sizes, strict=True)
    ]

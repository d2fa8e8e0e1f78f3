"""What an iteration consists of, in numbers: for tables and for JSON."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from themis_opt.base.units import nanoseconds
from themis_opt.problem.instance import Instance
from themis_opt.workloads.layers import Layer, count, macs
from themis_opt.workloads.models import MODELS


def workload_summary(instance: Instance, layers: Iterable[Layer]) -> dict[str, Any]:
    """Tasks, compute, memory, and bytes by kind of collective and by parallelism.

    Returns values for JSON; times in nanoseconds, sizes in bytes as the tensors count them.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for tensor in instance.exchanges:
        groups[tensor.kind.value, tensor.parallelism].append(tensor.size)
    return {
        "name": instance.name,
        "npus": instance.network.num_npus,
        "parameters": count(layers),
        "steps": instance.iteration.steps if instance.iteration else 1,
        "tasks": len(instance.tasks),
        "compute_ns": nanoseconds(instance.compute),
        "memory_bytes": instance.parameter_bytes,
        "tensors": len(instance.exchanges),
        "exchanges": [
            {"kind": kind, "parallelism": parallelism, "tensors": len(sizes), "bytes": sum(sizes)}
            for (kind, parallelism), sizes in sorted(groups.items())
        ],
        "fingerprint": instance.fingerprint,
    }


def model_rows() -> list[dict[str, Any]]:
    """One row for each model: layers, parameters, operations of the forward pass of one sample, source."""
    rows = []
    for name, model in MODELS.items():
        layers = model.layers()
        rows.append(
            {
                "model": name,
                "layers": len(layers),
                "parameters": count(layers),
                "weights": count(layers, ("weight",)),
                "gmacs": macs(layers) / 1e9,
                "tokens": model.sequence,
                "source": model.source,
            }
        )
    return rows

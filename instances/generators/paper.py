"""The training workloads of the Themis paper (ISCA 2022, section 5 and figure 12), on its six networks.

Published are the time of each pass and the sizes of the collectives.  The passes of ResNet-152 are final figures, the
others are multiplied by :data:`COMPUTE_SCALE`, the factor between the published times and the bars of the figure.
Gradients that are fused in one collective are one tensor, made by the last task of the backward pass.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

from themis_opt.problem.catalog import load
from themis_opt.problem.documents import INSTANCE_FORMAT
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration, Split
from themis_opt.problem.network import Network
from themis_opt.problem.phases import CollectiveKind

NETWORKS = (
    "2d-sw_sw",
    "3d-sw_sw_sw_homo",
    "3d-sw_sw_sw_hetero",
    "3d-fc_ring_sw",
    "4d-ring_sw_sw_sw",
    "4d-ring_fc_ring_sw",
)
"""Names of the networks, as in the files of ``instances/paper``."""

COMPUTE_SCALE = 26  # hundredths of the published nanoseconds that a task takes
MODEL_PARALLEL_NPUS = 128  # NPUs that share one copy of Transformer-1T; 8 such groups are data parallel


def _task(name: str, nanoseconds: int) -> ComputeTask:
    """A task of published duration, scaled, exact to the picosecond."""
    return ComputeTask(name=name, duration=f"{nanoseconds * COMPUTE_SCALE * 10} ps")


def _tensor(name: str, size: int, ready: str, needed: str) -> Tensor:
    return Tensor(name=name, kind=CollectiveKind.ALL_REDUCE, size=size, ready_after=ready, needed_before=needed)


def resnet_152(network: Network) -> Iteration:
    """Data parallel, gradients of 60,040,384 weights in FP16; batch of 32 on each NPU."""
    tasks = (ComputeTask(name="forward", duration="105 us"), ComputeTask(name="backward", duration="182400 ns"))
    return Iteration(tasks=tasks, tensors=(_tensor("gradients", 120_080_768, "backward", "forward"),))


def resnet_50(network: Network) -> Iteration:
    """Data parallel, gradients of 25,502,912 weights in FP16; backward is input gradients and weight gradients."""
    tasks = (_task("forward", 380_038), _task("backward", 364_599 + 337_813))
    return Iteration(tasks=tasks, tensors=(_tensor("gradients", 51_005_824, "backward", "forward"),))


def gnmt(network: Network) -> Iteration:
    """Data parallel; the optimizer, whose time is not scaled, needs the gradients of the iteration before."""
    update = ComputeTask(name="update", duration="33554 ns")
    tasks = (update, _task("forward", 2_930_768), _task("backward", 2_794_594 + 2_039_233))
    return Iteration(tasks=tasks, tensors=(_tensor("gradients", 267_788_288, "backward", "update"),))


def dlrm(network: Network) -> Iteration:
    """Embedding tables spread over all NPUs (layer 0), perceptrons data parallel (bottom 1 to 7, top 8 to 19).

    An all-to-all brings looked-up rows to the top perceptron while the bottom one computes, and their gradients back.
    The gradients of the perceptrons are one collective after the backward pass, needed before the next iteration.
    """
    tasks = (
        _task("embedding_forward", 419_431),
        _task("bottom_forward", 118_560),
        _task("top_forward", 861_268),
        _task("top_backward", 2 * 861_268),
        _task("bottom_backward", 2 * 118_560),
        _task("embedding_backward", 10),
    )
    exchanges = [
        ("rows", "embedding_forward", "top_forward"),
        ("row_gradients", "top_backward", "embedding_backward"),
    ]
    tensors = [
        Tensor(
            name=name,
            kind=CollectiveKind.ALL_TO_ALL,
            size=4_194_304,
            ready_after=ready,
            needed_before=needed,
            parallelism="model",
        )
        for name, ready, needed in exchanges
    ]
    gradients = _tensor("gradients", 114_823_168, "embedding_backward", "embedding_forward")
    return Iteration(tasks=tasks, tensors=(*tensors, gradients))


def transformer_1t(network: Network) -> Iteration:
    """Model parallel over the first 128 NPUs, data parallel over groups of them, ZeRO-2, activations recomputed.

    The published time of forward passes is spread evenly over nine tasks (four forward, one that ends in an
    all-gather, four recomputed), that of the backward pass over six; each task but the last ends in a collective
    that the next one waits for, the last one in the gradients of the data-parallel groups.
    """
    splits, model, data = _groups(network)
    forward = [
        f"{name}{number}" for name, count in (("forward", 5), ("recompute", 4)) for number in range(1, count + 1)
    ]
    backward = [f"backward{number}" for number in range(1, 7)]
    tasks = (*_even(forward, 113_305_662), *_even(backward, 113_330_076))
    names = forward + backward
    tensors = [_blocking(before, after, model) for before, after in pairwise(names)]
    gradients = _tensor("gradients", 240_316_416, names[-1], names[0]).replace(dimensions=data)
    return Iteration(tasks=tasks, tensors=(*tensors, gradients), splits=splits)


def _even(names: list[str], nanoseconds: int) -> list[ComputeTask]:
    """Tasks of equal duration, the first ones a picosecond longer where it does not divide."""
    total, count = nanoseconds * COMPUTE_SCALE * 10, len(names)
    durations = [total // count + (number < total % count) for number in range(count)]
    return [ComputeTask(name=name, duration=f"{time} ps") for name, time in zip(names, durations, strict=True)]


def _blocking(before: str, after: str, dimensions: tuple[str, ...]) -> Tensor:
    """A collective among model-parallel NPUs that the next task waits for.

    The all-gathers of 6,291,456 B on each NPU have an output as large as the all-reduces: 128 times that.
    """
    gathers = before in ("forward5", "backward5")
    return Tensor(
        name=f"{before}_output",
        kind=CollectiveKind.ALL_GATHER if gathers else CollectiveKind.ALL_REDUCE,
        size=6_291_456 * MODEL_PARALLEL_NPUS,
        ready_after=before,
        needed_before=after,
        dimensions=dimensions,
        parallelism="model",
    )


def _groups(network: Network) -> tuple[tuple[Split, ...], tuple[str, ...], tuple[str, ...]]:
    """Splits, model-parallel dimensions, data-parallel dimensions: the last dimension, or its outer part."""
    *inner, last = network.dimension_names
    outer = network.num_npus // MODEL_PARALLEL_NPUS
    if network.sizes[-1] == outer:
        return (), tuple(inner), (last,)
    parts = (f"{last}_model", f"{last}_data")
    inside = MODEL_PARALLEL_NPUS // math.prod(network.sizes[:-1])
    return (Split(dimension=last, sizes=(inside, outer), names=parts),), (*inner, parts[0]), (parts[1],)


WORKLOADS: Mapping[str, tuple[str, Callable[[Network], Iteration]]] = MappingProxyType(
    {
        "resnet-152": ("ResNet-152", resnet_152),
        "resnet-50": ("ResNet-50", resnet_50),
        "gnmt": ("GNMT", gnmt),
        "dlrm": ("DLRM", dlrm),
        "transformer-1t": ("Transformer-1T", transformer_1t),
    }
)
"""Title and maker of the iteration of each workload."""


def paper_iteration(network: str, workload: str) -> Instance:
    """A workload of the paper on one of its networks.

    Parameters
    ----------
    network : str
        One of :data:`NETWORKS`.
    workload : str
        One of :data:`WORKLOADS`.
    """
    title, make = WORKLOADS[workload]
    fabric = load(f"{network}.all_reduce.1000MiB").network
    return Instance(
        format=INSTANCE_FORMAT,
        name=f"{fabric.name} {title}",
        description=" ".join((inspect.getdoc(make) or "").split()),
        network=fabric,
        iteration=make(fabric),
        chunks=64,
    )

"""A training iteration in which it matters what is launched when, for the tests of tuning."""

from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network

MIB = 2**20
SIZES = (1, 8, 4, 16, 2, 32)  # MiB of the gradients of the layers, in the order of the forward pass


def iteration(sizes=SIZES, chunks=4, **fields):
    layers = range(len(sizes))
    tasks = [ComputeTask(name=f"forward {n}", duration="200 us") for n in layers]
    tasks += [ComputeTask(name=f"backward {n}", duration="400 us") for n in reversed(layers)]
    tensors = [
        Tensor(name=f"gradient {n}", size=sizes[n] * MIB, ready_after=f"backward {n}", needed_before=f"forward {n}")
        for n in layers
    ]
    dimensions = (
        Dimension(kind="switch", size=4, bandwidth="100 GB/s", latency="1 us", name="node"),
        Dimension(kind="ring", size=4, bandwidth="25 GB/s", latency="2 us", name="pod"),
    )
    return Instance(
        name="six layers",
        network=Network(dimensions=dimensions),
        iteration=Iteration(tasks=tuple(tasks), tensors=tuple(tensors)),
        chunks=chunks,
        **fields,
    )

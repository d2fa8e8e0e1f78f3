"""Iterations of layers whose gradients are all-reduced, of any number and size."""

from typing import Any

from planning import schedule_of

from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule


def layers(number: int, *, task: int = 100, size: int = 4 * 2**20, **rules: Any) -> Instance:
    """As many layers on 4 x 4 NPUs, with backward tasks twice as long as forward ones."""
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="1 us") for bandwidth in ("200 GB/s", "100 GB/s")
    )
    forward = [ComputeTask(name=f"forward{n}", duration=f"{task} us") for n in range(number)]
    backward = [ComputeTask(name=f"backward{n}", duration=f"{2 * task} us") for n in reversed(range(number))]
    tensors = [
        Tensor(name=f"layer{n}", size=size * (n + 1), ready_after=f"backward{n}", needed_before=f"forward{n}")
        for n in range(number)
    ]
    iteration = Iteration(tasks=(*forward, *backward), tensors=tuple(tensors))
    rules = {"chunks": 2} | rules
    return Instance(network=Network(dimensions=dimensions), iteration=iteration, **rules)


def scheduled(instance: Instance, launching: str) -> Schedule:
    """What a launching policy with the chunks of hourglass does."""
    return schedule_of(instance, f"{launching}/hourglass")

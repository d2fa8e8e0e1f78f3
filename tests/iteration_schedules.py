"""Small training iterations that the tests of formats start from."""

from themis_opt.instance import Dimension, Network
from themis_opt.iteration import ComputeTask, Iteration, Split, Tensor
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.registry import make_iteration_policy
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations


def layers(count: int = 3, **rules: object) -> IterationInstance:
    """Layers with a gradient each, one activation exchanged in the forward pass, on two dimensions."""
    forward = [ComputeTask(name=f"layer{n}_forward", duration="40 us") for n in range(count)]
    backward = [ComputeTask(name=f"layer{n}_backward", duration="60 us") for n in reversed(range(count))]
    gradients = [
        Tensor(name=f"w{n}", size="4 MB", ready_after=f"layer{n}_backward", needed_before=f"layer{n}_forward")
        for n in range(count)
    ]
    rows = Tensor(
        name="rows", kind="all_to_all", size="1 MB", ready_after="layer0_forward", needed_before="layer1_forward",
        dimensions=("dim1",), parallelism="model",
    )  # fmt: skip
    iteration = Iteration(tasks=(*forward, *backward), tensors=(rows, *gradients), **rules.pop("iteration", {}))
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="1 us") for bandwidth in ("100 GB/s", "50 GB/s")
    )
    rules = {"network": Network(dimensions=dimensions), "chunks": 2, "name": "layers"} | rules
    return IterationInstance(iteration=iteration, **rules)


def scheduled(policy: str = "wait_free/themis+scf", instance: IterationInstance | None = None) -> IterationSchedule:
    """The schedule of a policy."""
    instance = instance or layers()
    return simulate_iterations(instance, make_iteration_policy(policy)(instance))


SHARED = {"iteration": {"splits": (Split(dimension="dim2", sizes=(2, 2), names=("near", "far"), shared=True),)}}
"""The second dimension as two that are one resource."""

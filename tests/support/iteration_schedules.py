"""Small schedules, with compute and without, that the tests of formats start from."""

import pytest
from matplotlib.figure import Figure
from planning import schedule_of

from themis_opt.problem.exchanges import Collective, Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration, Split
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule

POLICIES = ("fused/baseline", "wait_free/themis+scf", "ddp:cap=4MB/hourglass", "dear:threshold=6MB/themis", "priority")

DIMENSIONS = tuple(
    Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="1 us") for bandwidth in ("100 GB/s", "50 GB/s")
)


def layers(count: int = 3, **rules: object) -> Instance:
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
    rules = {"network": Network(dimensions=DIMENSIONS), "chunks": 2, "name": "layers"} | rules
    return Instance(iteration=iteration, **rules)


def scheduled(policy: str = "wait_free/themis+scf", instance: Instance | None = None) -> Schedule:
    """The schedule of a policy."""
    instance = instance or layers()
    return schedule_of(instance, policy)


def collectives() -> Schedule:
    """A schedule without compute."""
    gradients = Collective(kind="all_reduce", size="4 MB", chunks=2, name="gradients")
    rows = Collective(kind="all_to_all", size="1 MB", chunks=2, name="rows", dimensions=("dim1",), release="3 us")
    return scheduled("themis+scf", Instance(network=Network(dimensions=DIMENSIONS), collectives=(gradients, rows)))


SHARED = {"iteration": {"splits": (Split(dimension="dim2", sizes=(2, 2), names=("near", "far"), shared=True),)}}
"""The second dimension as two that are one resource."""

WITH_COMPUTE = {policy: scheduled(policy) for policy in POLICIES} | {"shared": scheduled(instance=layers(**SHARED))}

with_compute = pytest.mark.parametrize("schedule", WITH_COMPUTE.values(), ids=WITH_COMPUTE)
"""Runs a test for schedules with compute."""

with_and_without_compute = pytest.mark.parametrize(
    "schedule", [collectives(), *WITH_COMPUTE.values()], ids=["collectives", *WITH_COMPUTE]
)
"""Runs a test for schedules of both kinds."""


def texts(figure: Figure) -> str:
    """Everything that is written in a picture."""
    figure.draw_without_rendering()
    labels = [t for axes in figure.axes for t in (*axes.texts, *axes.get_yticklabels(), axes.xaxis.label)]
    legends = [t for legend in figure.legends for t in legend.get_texts()]
    return "\n".join(t.get_text() for t in (*figure.texts, *labels, *legends))

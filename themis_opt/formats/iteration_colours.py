"""Colours of pictures of iterations: cool launches are data parallel, warm ones model parallel, compute is grey."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgba

from themis_opt.cost import FloatArray, Phase
from themis_opt.formats.iteration_span import Span
from themis_opt.formats.palette import lightened
from themis_opt.iteration import Parallelism
from themis_opt.iterations.schedule import IterationSchedule

WAIT = "#f3c6c0"

FORWARD, BACKWARD = ("#b4bdc8", "#c6cdd6"), ("#66717f", "#7c8794")
"""Shades between which the tasks of a pass alternate."""

RAMPS: Mapping[Parallelism, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "data": (("#1d4e89", "#6fa8dc"), ("#1e6b3a", "#7cc48d"), ("#4b3f9e", "#a8a0e0"), ("#0f6b70", "#6fc5c8")),
        "model": (("#a63d00", "#f2a25c"), ("#9b1b4f", "#ee8fb2"), ("#8a6d00", "#dcc04a")),
    }
)
"""Ends of the ramps along which the chunks of a launch lie; launches take them in turn."""


def parallelism_of(schedule: IterationSchedule, launch: int) -> Parallelism:
    """Why a launch is there, by its first tensor."""
    return schedule.instance.iteration.tensors[schedule.plan.launches[launch].tensors[0]].parallelism


def launch_ramps(schedule: IterationSchedule) -> list[Colormap]:
    """Colours of the chunks of each launch, from the first to the last."""
    met: dict[Parallelism, int] = {"data": 0, "model": 0}
    ramps: list[Colormap] = []
    for number in range(len(schedule.plan.launches)):
        kind = parallelism_of(schedule, number)
        ramps.append(LinearSegmentedColormap.from_list("chunks", list(RAMPS[kind][met[kind] % len(RAMPS[kind])])))
        met[kind] += 1
    return ramps


def span_colours(span: Span) -> FloatArray:
    """Red, green, blue and opacity of every stage of :attr:`Span.network`, shape (stages, 4); gathers are lighter."""
    chunks = span.schedule.plan.chunks.chunks
    one = np.concatenate(
        [
            np.repeat(ramp(np.linspace(0, 1, len(own.sizes))), own.paths.shape[1], axis=0)
            for ramp, own in zip(launch_ramps(span.schedule), chunks, strict=True)
        ]
    )
    network = span.network
    colours: FloatArray = np.tile(one, (network.plan.num_stages // len(one), 1))
    gathers = network.plan.phases(network.instance) == Phase.ALL_GATHER
    colours[gathers] = lightened(colours[gathers])
    return colours


def is_backward(task: str) -> bool:
    """Whether the name of a task says that it belongs to the backward pass."""
    return any(word in task.lower() for word in ("backward", "bwd", "gradient"))


def task_colours(names: list[str]) -> FloatArray:
    """Red, green, blue and opacity of every task, shape (tasks, 4)."""
    shades = [(BACKWARD if is_backward(name) else FORWARD)[number % 2] for number, name in enumerate(names)]
    return np.array([to_rgba(shade) for shade in shades])

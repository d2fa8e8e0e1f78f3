"""Ways to share a model among NPUs, by name, and the instance that each makes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from themis_opt.base.errors import InputError
from themis_opt.problem.instance import FORMAT, Instance
from themis_opt.problem.iteration import Iteration
from themis_opt.workloads.hybrid import data, hybrid, tensor
from themis_opt.workloads.layers import Layer, TrainingModel
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.splitbrain import splitbrain
from themis_opt.workloads.transformations import transformed

PARALLELISMS: Mapping[str, Callable[[tuple[Layer, ...], Setup], Iteration]] = MappingProxyType(
    {"data": data, "tensor": tensor, "hybrid": hybrid, "splitbrain": splitbrain}
)


def make_workload(
    model: TrainingModel, layers: tuple[Layer, ...], setup: Setup, *, parallelism: str = "data", chunks: int = 64
) -> Instance:
    """The training iteration of a model on a network.

    Parameters
    ----------
    model : TrainingModel
        What is trained; gives the name of the instance.
    layers : tuple of Layer
        Its layers.
    setup : Setup
        Network, times, batch and the other choices.
    parallelism : str
        One of :data:`PARALLELISMS`.
    chunks : int
        Chunks of each collective.

    Raises
    ------
    InputError
        If there is no such parallelism, or the choices do not fit together.
    """
    if parallelism not in PARALLELISMS:
        rule = f"unknown parallelism; use one of {', '.join(PARALLELISMS)}"
        raise InputError(rule, field="--parallelism", value=parallelism)
    iteration = PARALLELISMS[parallelism](layers, setup)
    return Instance(
        format=FORMAT,
        name=f"{setup.network.name or 'network'} {model.title} {parallelism}",
        description=f"Layers: {model.source}. {setup}",
        network=setup.network,
        iteration=transformed(iteration, setup.compression, setup.refresh, setup.tolerance),
        chunks=chunks,
    )

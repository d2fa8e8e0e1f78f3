"""Ways to share a model among NPUs, by name, and the instance that each makes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from themis_opt.base.errors import InputError, suggestion
from themis_opt.problem.documents import INSTANCE_FORMAT
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import Iteration
from themis_opt.workloads.convolutional import divided, splitbrain
from themis_opt.workloads.daso import daso
from themis_opt.workloads.experts import expert
from themis_opt.workloads.hybrid import data, hybrid, sequence, tensor, zero1
from themis_opt.workloads.layers import Layer, TrainingModel
from themis_opt.workloads.memory import MemoryUse, check_memory, memory_use
from themis_opt.workloads.out_of_core import out_of_core
from themis_opt.workloads.pipeline import pipeline
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.sharded import fully_sharded, hybrid_sharded
from themis_opt.workloads.transformations import adapted, transformed


class Maker(NamedTuple):
    """A way to share a model."""

    make: Callable[[tuple[Layer, ...], Setup], Iteration]  # makes the iteration from the layers
    options: tuple[str, ...]  # those of SOMETIMES that it knows


PIPELINE_OPTIONS = (
    *("group", "experts", "data", "context", "stages", "layers_per_stage", "virtual_stages", "microbatches"),
    *("schedule", "zero", "gathers", "granularity", "recompute", "update", "host_link"),
)
STEP_OPTIONS = ("accumulate", "zero", "granularity", "recompute", "update", "local_blocks")

PARALLELISMS: Mapping[str, Maker] = {
    "data": Maker(data, STEP_OPTIONS),
    "tensor": Maker(tensor, ("group", *STEP_OPTIONS)),
    "hybrid": Maker(hybrid, ("group", *STEP_OPTIONS)),
    "splitbrain": Maker(splitbrain, ("group",)),
    "expert": Maker(expert, ("group", "experts", "recompute", "update")),
    "sequence": Maker(sequence, ("group", *STEP_OPTIONS)),
    "zero1": Maker(zero1, STEP_OPTIONS),
    "fsdp": Maker(fully_sharded, ("accumulate", "gathers", "recompute", "update")),
    "hsdp": Maker(hybrid_sharded, ("group", "accumulate", "gathers", "recompute", "update")),
    "daso": Maker(daso, ("group", "granularity", "recompute", "update", "skip", "wait")),
    "pipeline": Maker(pipeline, PIPELINE_OPTIONS),
    "out-of-core": Maker(out_of_core, ("host_link", "granularity", "update")),
    "filter": Maker(partial(divided, by="filter"), ("granularity", "update")),
    "channel": Maker(partial(divided, by="channel"), ("granularity", "update")),
    "spatial": Maker(partial(divided, by="spatial"), ("granularity", "update")),
    "data+filter": Maker(partial(divided, by="filter", copies=True), ("group", "granularity", "update")),
    "data+channel": Maker(partial(divided, by="channel", copies=True), ("group", "granularity", "update")),
    "data+spatial": Maker(partial(divided, by="spatial", copies=True), ("group", "granularity", "update")),
}


def make_workload(
    model: TrainingModel,
    layers: tuple[Layer, ...],
    setup: Setup,
    *,
    parallelism: str = "data",
    chunks: int = 64,
    latency: str = "lag",
) -> Instance:
    """The training iteration of a model on a network.

    Raises InputError if there is no such parallelism, or the choices do not fit together.

    `model`: what is trained; gives the name of the instance.
    `setup`: network, times, batch and the other choices.
    `latency`: what the start-up of a stage does, ``lag`` or ``occupy``.
    """
    if parallelism not in PARALLELISMS:
        rule = f"unknown parallelism; use one of {', '.join(PARALLELISMS)}{suggestion(parallelism, PARALLELISMS)}"
        raise InputError(rule, field="--parallelism", value=parallelism)
    iteration = _iteration(layers, parallelism, setup)
    check_memory(layers, setup, parallelism, partial(_iteration, layers))
    start_up: dict[str, Any] = {} if latency == "lag" else {"latency": latency}  # documents hold what was chosen
    instance = Instance(
        format=INSTANCE_FORMAT,
        name=f"{setup.network.name or 'network'} {model.title} {parallelism}",
        description=f"Layers: {model.source}. {setup}",
        network=setup.network,
        iteration=transformed(iteration, setup.compression, setup.refresh, setup.tolerance),
        chunks=chunks,
        **start_up,
    )
    return instance if setup.adaptive == 1 else adapted(instance, setup.adaptive)


def memory_of(layers: tuple[Layer, ...], setup: Setup, parallelism: str) -> MemoryUse:
    """What the NPU holds that holds most."""
    return memory_use(layers, setup, parallelism, partial(_iteration, layers))


def _iteration(layers: tuple[Layer, ...], parallelism: str, setup: Setup) -> Iteration:
    setup.check_only(parallelism, PARALLELISMS[parallelism].options)
    if setup.zero == 3 and parallelism != "pipeline":
        raise InputError("must be 0, 1 or 2; stage 3 is --parallelism fsdp", field="--zero", value=setup.zero)
    try:
        return PARALLELISMS[parallelism].make(layers, setup)
    except InputError as error:
        if error.field != "--parallelism":
            raise
        raise InputError(error.rule, field=error.field, value=parallelism) from None  # not what it is made of

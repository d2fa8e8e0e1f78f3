"""The pipeline of a model: its stages, what microbatches take on them, and what they keep."""

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.pipelines.problem import Pipeline
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.memory import use_by_stage
from themis_opt.workloads.pipeline import layer_times, pipeline_stages, sharing
from themis_opt.workloads.setup import Setup


def transfer_time(num_bytes: int, bandwidth: float) -> int:
    """Picoseconds of a transfer."""
    return round(PICOSECONDS_PER_SECOND * num_bytes / bandwidth)


def pipeline_of(name: str, layers: tuple[Layer, ...], setup: Setup) -> Pipeline:
    """The order of microbatches of a model as a problem, with as many parts of it on each stage as the setup says.

    A part keeps what the backward passes of its layers need, or with recomputation the inputs of its first layer; that
    with the most bytes counts for all.  What an NPU has beside parameters, gradients and Adam is for activations.
    Messages cross the slowest dimension that stages lie on, and a link of each NPU to its host takes activations.

    Raises InputError if the setup states no stages, or some that the network or the model cannot have.
    """
    cut = pipeline_stages(layers, setup)
    stages, used = cut.layers, cut.placement.dimensions["stages"]
    if (setup.stages or 1) == 1:
        raise InputError("must be 2 or more for an order of microbatches", field="--stages", value=1)
    placement = "v" if setup.schedule == "v" else "interleaved"
    samples = setup.batch // setup.microbatches
    near = [link for link in setup.network.dimensions if any(name.startswith(link.name) for name in used)]
    link = min(near or setup.network.dimensions[-1:], key=lambda one: one.bandwidth)
    bytes_of_sample = -(-setup.element_bytes * samples // sharing(setup))
    sent = bytes_of_sample * max(stage[-1].outputs for stage in stages[:-1])
    kept = [stage[0].inputs if setup.repeats else sum(map(setup.kept, stage)) for stage in stages]
    memory = setup.memory and setup.memory - max(use.states for use in use_by_stage(layers, setup))
    times = [[layer_times(layer, setup, setup.microbatches) for layer in stage] for stage in stages]
    times[0][0] = times[0][0].model_copy(update={"input_gradient": 0})  # nobody needs those of the data
    again = [sum(t.forward for t in stage) if setup.repeats else 0 for stage in times]
    passes = {
        "forward": [sum(t.forward for t in stage) for stage in times],
        "inputs": [extra + sum(t.input_gradient for t in stage) for extra, stage in zip(again, times, strict=True)],
        "weights": [sum(t.weight_gradient for t in stage) for stage in times],
    }
    if not all(time for row in passes.values() for time in row):
        raise InputError("must leave some time for every stage", field="--flops")
    activation = bytes_of_sample * max(kept)
    host = {} if setup.host_link is None else {"offload": f"{transfer_time(activation, setup.host_link)} ps"}
    return Pipeline(
        name=name,
        description=f"{name} in {setup.stages} stages. {setup}",
        stages=setup.stages,
        **({"parts": setup.virtual_stages, "placement": placement} if setup.virtual_stages > 1 else {}),
        microbatches=setup.microbatches,
        **{kind: [f"{time} ps" for time in row] for kind, row in passes.items()},
        message=f"{link.latency + transfer_time(sent, link.bandwidth)} ps",
        activation=activation,
        **host,
        **({"memory": max(memory, 1)} if memory else {}),
    )

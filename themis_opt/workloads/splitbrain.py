"""SplitBrain: convolutions data parallel over all N machines, fully connected layers sharded in groups of K.

After F. Lai et al., https://arxiv.org/abs/2112.15317.  The paper states the principle; the exchanges follow from it.  A
machine has a batch of B samples.  In each of K rounds every member of a group gives B/K of its samples: an all-gather
brings the B activations of the round to all members, each computes 1/K of the outputs of every fully connected layer,
and all-gathers join the outputs between layers.  Backward, gradients of the inputs are partial sums: a reduce-scatter
returns to each member the outputs that it computed, and at the boundary the samples that it gave.  The next round
begins when the last one is through, the convolutions' backward pass after all rounds.  Gradients of convolutions are
all-reduced over all machines, those of the shards over the N/K that hold the same one.
"""

from fractions import Fraction

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, groups_of
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup


def splitbrain(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """The iteration of a model that is convolutions first and fully connected layers after them."""
    convolutions, connected = _parts(layers)
    setup.check_only("splitbrain", ("group",))
    groups = groups_of(setup)
    passes = Passes(setup.element_bytes)
    for layer in convolutions:
        passes.compute(f"{layer.name}.forward", setup.times(layer).forward, layer.elements())
    boundary = passes.tasks[-1].name
    for number in range(groups.size):
        _round(passes, connected, setup, groups, number, boundary)
    passes.backward(convolutions, setup)
    _boundary_gradients(passes, convolutions, connected, setup, groups)
    _gradients(passes, connected, groups)
    passes.gradients(convolutions, setup)
    return passes.iteration(groups.splits)


def memory_fraction(convolutions: int, connected: int, group: int) -> Fraction:
    """Part of the parameters that one machine holds, from those of the convolutions and of the connected layers."""
    return (convolutions + Fraction(connected, group)) / (convolutions + connected)


def _parts(layers: tuple[Layer, ...]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Convolutions, and the fully connected layers after them."""
    first = next((k for k, layer in enumerate(layers) if layer.kind == "linear"), 0)
    convolutions, connected = layers[:first], layers[first:]
    fits = all(layer.kind == "convolution" for layer in convolutions) and all(x.kind == "linear" for x in connected)
    if not (convolutions and connected and fits):
        rule = "needs a model of convolutions and then fully connected layers"
        raise InputError(rule, field="--parallelism", value="splitbrain")
    return convolutions, connected


def _round(
    passes: Passes, connected: tuple[Layer, ...], setup: Setup, groups: NpuGroups, number: int, boundary: str
) -> None:
    """Forward and backward pass of the fully connected layers for one batch, 1/K of it from each member."""
    suffix = f"round{number + 1}"
    for layer in connected:
        name, shard = f"{layer.name}.{suffix}", -(-layer.elements() // groups.size)
        passes.compute(f"{name}.forward", setup.times(layer, groups.size).forward, shard if number == 0 else 0)
        passes.block(f"{name}.output", CollectiveKind.ALL_GATHER, setup.batch * layer.outputs, groups.inside)
        if layer is connected[0]:
            activations, elements = f"{suffix}.activations", setup.batch * layer.inputs
            kind, user = CollectiveKind.ALL_GATHER, f"{name}.forward"
            passes.exchange(activations, kind, elements, boundary, user, groups.inside, model=True)
    for layer in reversed(connected):
        name, times = f"{layer.name}.{suffix}", setup.times(layer, groups.size)
        passes.compute(f"{name}.weight_gradient", times.weight_gradient)
        passes.compute(f"{name}.input_gradient", times.input_gradient)
        if layer is not connected[0]:
            passes.block(f"{name}.error", CollectiveKind.REDUCE_SCATTER, setup.batch * layer.inputs, groups.inside)


def _boundary_gradients(
    passes: Passes, convolutions: tuple[Layer, ...], connected: tuple[Layer, ...], setup: Setup, groups: NpuGroups
) -> None:
    """Gradients of the activations of all rounds, needed before the backward pass of the last convolution."""
    needed = f"{convolutions[-1].name}.weight_gradient"
    elements = setup.batch * connected[0].inputs
    for number in range(1, groups.size + 1):
        name, ready = f"round{number}.error", f"{connected[0].name}.round{number}.input_gradient"
        passes.exchange(name, CollectiveKind.REDUCE_SCATTER, elements, ready, needed, groups.inside, model=True)


def _gradients(passes: Passes, connected: tuple[Layer, ...], groups: NpuGroups) -> None:
    """Shards of the fully connected layers, between the groups."""
    for layer in reversed(connected):
        shard, needed = -(-layer.elements() // groups.size), f"{layer.name}.round1.forward"
        name, ready = f"{layer.name}.gradients", f"{layer.name}.round{groups.size}.weight_gradient"
        passes.exchange(name, CollectiveKind.ALL_REDUCE, shard, ready, needed, groups.replicas)

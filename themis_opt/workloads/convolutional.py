"""Convolutional networks divided by filters, by channels or by rows of the image, alone or with copies across groups.

The strategies of ParaDL (A. Kahira et al., *An Oracle for Guiding Large-Scale Model/Hybrid Parallel Training of
Convolutional Neural Networks*, https://arxiv.org/abs/2104.09075), with the exchanges that follow from them, on p NPUs
of a group with a batch of B samples together:

- *filter*: every NPU has 1/p of the filters of each layer.  Forward, its outputs are all-gathered for the next layer;
  backward, gradients of the inputs are partial sums, which are all-reduced.
- *channel*: every NPU has 1/p of the input channels.  Forward, outputs are partial sums, which are all-reduced;
  backward, gradients of the inputs are all-gathered.
- *spatial*: every NPU has 1/p of the rows of each image.  Before a convolution, rows at the borders are sent to both
  neighbours, forward those of the input, backward those of the gradients of the output.  Where images end, an
  all-to-all brings whole samples to each NPU, and their gradients back.  Weights are copied, and gradients all-reduced.

Filters and channels need no exchange of gradients inside a group; with copies their parts are all-reduced across.

*SplitBrain* (F. Lai et al., https://arxiv.org/abs/2112.15317) has convolutions data parallel over all N machines, and
fully connected layers sharded in groups of K.  The paper states the principle; the exchanges follow from it.  A machine
has a batch of B samples.  In each of K rounds every member of a group gives B/K of its samples: an all-gather brings
the B activations of the round to all members, each computes 1/K of the outputs of every fully connected layer, and all-
gathers join the outputs between layers.  Backward, gradients of the inputs are partial sums: a reduce-scatter returns
to each member the outputs that it computed, and at the boundary the samples that it gave.  The next round begins when
the last one is through, the convolutions' backward pass after all rounds.  Gradients of convolutions are all-reduced
over all machines, those of the shards over the N/K that hold the same one.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, divide, groups_of, groups_with_copies
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup

DividedBy = Literal["filter", "channel", "spatial"]


def divided(layers: tuple[Layer, ...], setup: Setup, *, by: DividedBy, copies: bool = False) -> Iteration:
    """Each NPU has a part of the filters, of the input channels, or of the rows of every image.

    All NPUs are one group, or with copies those of the innermost dimension by default.
    """
    network = setup.network
    groups = groups_with_copies(setup, f"data+{by}") if copies else divide(network, network.num_npus)
    return _Divided(by, layers, setup, groups).iteration()


@dataclass(frozen=True)
class _Divided:
    by: DividedBy
    layers: tuple[Layer, ...]
    setup: Setup
    groups: NpuGroups

    def iteration(self) -> Iteration:
        if {layer.kind for layer in self.layers} - {"convolution", "linear"} or not self.layers[0].rows:
            rule = "needs a model of convolutions and fully connected layers"
            raise InputError(rule, field="--parallelism", value=self.by)
        rows = min(layer.rows for layer in self.layers if layer.rows)
        if self.by == "spatial" and rows < self.groups.size:
            rule = f"cannot divide images of {rows} rows among {self.groups.size} NPUs"
            raise InputError(rule, field="--parallelism", value=self.by)
        passes = Passes(self.setup.element_bytes)
        if self.setup.update:
            passes.compute("update", self.setup.optimizer)
        for layer in self.layers:
            self._forward(passes, layer)
        for layer in reversed(self.layers):
            self._backward(passes, layer)
        replicas = None if self.by == "spatial" else self.groups.across  # other NPUs of a group have other parts
        passes.gradients(self.layers, self.setup, self._parameters, replicas)
        return passes.iteration(self.groups.splits)

    def _parameters(self, layer: Layer) -> int:
        return layer.elements() if self.by == "spatial" else -(-layer.elements() // self.groups.size)

    def _forward(self, passes: Passes, layer: Layer) -> None:
        if self.by == "spatial":
            self._borders(passes, f"{layer.name}.input_border", layer.halos[0])
            if self._leaves_image(layer):
                self._redistribute(passes, layer, "samples")
        passes.compute(
            f"{layer.name}.forward", self.setup.times(layer, self.groups.size).forward, self._parameters(layer)
        )
        if self.by != "spatial" and layer is not self.layers[-1]:
            kind = CollectiveKind.ALL_GATHER if self.by == "filter" else CollectiveKind.ALL_REDUCE
            passes.block(f"{layer.name}.output", kind, self.setup.batch * layer.outputs, self.groups.inside)

    def _backward(self, passes: Passes, layer: Layer) -> None:
        times = self.setup.times(layer, self.groups.size)
        if self.by == "spatial":
            following = self.layers[self.layers.index(layer) + 1 :][:1]
            rows = tuple(f"{layer.name}.rows" for layer in following if self._leaves_image(layer))
            self._borders(passes, f"{layer.name}.output_border", layer.halos[1], rows)
        passes.compute(f"{layer.name}.weight_gradient", times.weight_gradient)
        if layer is self.layers[0]:
            return
        passes.compute(f"{layer.name}.input_gradient", times.input_gradient)
        if self.by != "spatial":
            kind = CollectiveKind.ALL_REDUCE if self.by == "filter" else CollectiveKind.ALL_GATHER
            passes.block(f"{layer.name}.error", kind, self.setup.batch * layer.inputs, self.groups.inside)
        elif self._leaves_image(layer):
            self._redistribute(passes, layer, "rows")

    def _leaves_image(self, layer: Layer) -> bool:
        """Whether the layer before is the last one that sees images."""
        place = self.layers.index(layer)
        return place > 0 and bool(self.layers[place - 1].rows) and not layer.rows

    def _borders(self, passes: Passes, name: str, elements: int, after: tuple[str, ...] = ()) -> None:
        """Rows at the border, to both neighbours, along all dimensions at once by the NPUs with neighbours there."""
        if not passes.tasks:
            return  # images are read with the rows around them
        for side, dimension in product(("above", "below"), self.groups.inside):
            where = f"_{dimension}" if len(self.groups.inside) > 1 else ""
            passes.block(f"{name}_{side}{where}", CollectiveKind.SEND, self.setup.batch * elements, (dimension,), after)

    def _redistribute(self, passes: Passes, layer: Layer, name: str) -> None:
        elements = -(-self.setup.batch * layer.inputs // self.groups.size)
        passes.block(f"{layer.name}.{name}", CollectiveKind.ALL_TO_ALL, elements, self.groups.inside)


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
    elements, needed = setup.batch * connected[0].inputs, f"{convolutions[-1].name}.weight_gradient"
    for number in range(1, groups.size + 1):
        name, ready = f"round{number}.error", f"{connected[0].name}.round{number}.input_gradient"
        passes.exchange(name, CollectiveKind.REDUCE_SCATTER, elements, ready, needed, groups.inside, model=True)
    for layer in reversed(connected):
        shard, needed = -(-layer.elements() // groups.size), f"{layer.name}.round1.forward"
        name, ready = f"{layer.name}.gradients", f"{layer.name}.round{groups.size}.weight_gradient"
        passes.exchange(name, CollectiveKind.ALL_REDUCE, shard, ready, needed, groups.replicas)
    passes.gradients(convolutions, setup)
    return passes.iteration(groups.splits)


def memory_fraction(convolutions: int, connected: int, group: int) -> Fraction:
    """Part of the parameters that one machine holds, from those of the convolutions and of the connected layers."""
    return (convolutions + Fraction(connected, group)) / (convolutions + connected)


def _parts(layers: tuple[Layer, ...]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
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

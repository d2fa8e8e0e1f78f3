r"""Convolutional networks divided by filters, by channels or by rows of the image, alone or with copies across groups.

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
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, divide
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup

CONVOLUTIONAL_KINDS = ("convolution", "linear")


def by_filters(layers: tuple[Layer, ...], setup: Setup, *, copies: bool = False) -> Iteration:
    """Each NPU of a group has a part of the filters."""
    return _Divided("filter", layers, setup, _groups(setup, copies)).iteration()


def by_channels(layers: tuple[Layer, ...], setup: Setup, *, copies: bool = False) -> Iteration:
    """Each NPU of a group has a part of the input channels."""
    return _Divided("channel", layers, setup, _groups(setup, copies)).iteration()


def by_space(layers: tuple[Layer, ...], setup: Setup, *, copies: bool = False) -> Iteration:
    """Each NPU of a group has a part of the rows of every image."""
    return _Divided("spatial", layers, setup, _groups(setup, copies)).iteration()


def _groups(setup: Setup, copies: bool) -> NpuGroups:
    """All NPUs as one group, or those of the innermost dimension by default."""
    network = setup.network
    groups = divide(network, (setup.group or network.sizes[0]) if copies else network.num_npus, shared=setup.shared)
    if copies and (groups.size == 1 or groups.copies == 1):
        rule = f"must be more than 1 and less than all {network.num_npus} NPUs, for there to be groups and copies"
        raise InputError(rule, field="--tensor-group", value=groups.size)
    return groups


@dataclass(frozen=True)
class _Divided:
    by: Literal["filter", "channel", "spatial"]
    layers: tuple[Layer, ...]
    setup: Setup
    groups: NpuGroups

    def iteration(self) -> Iteration:
        self._check()
        passes = Passes(self.setup.element_bytes)
        if self.setup.update:
            passes.compute("update", self.setup.optimizer)
        for layer in self.layers:
            self._forward(passes, layer)
        for layer in reversed(self.layers):
            self._backward(passes, layer)
        self._gradients(passes)
        return passes.iteration(self.groups.splits)

    def _check(self) -> None:
        if any(layer.kind not in CONVOLUTIONAL_KINDS for layer in self.layers) or not self.layers[0].rows:
            rule = "needs a model of convolutions and fully connected layers"
            raise InputError(rule, field="--parallelism", value=self.by)
        if self.by == "spatial":
            rows = min(layer.rows for layer in self.layers if layer.rows)
            if rows < self.groups.size:
                rule = f"cannot divide images of {rows} rows among {self.groups.size} NPUs"
                raise InputError(rule, field="--parallelism", value=self.by)

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
            self._borders(passes, f"{layer.name}.output_border", layer.halos[1], self._rows_before(layer))
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

    def _rows_before(self, layer: Layer) -> tuple[str, ...]:
        """The all-to-all that brings back the rows of the layer's outputs, if there is one."""
        following = self.layers[self.layers.index(layer) + 1 :][:1]
        return tuple(f"{layer.name}.rows" for layer in following if self._leaves_image(layer))

    def _borders(self, passes: Passes, name: str, elements: int, after: tuple[str, ...] = ()) -> None:
        """Rows at the border, to both neighbours, along all dimensions at once by the NPUs with neighbours there."""
        if not passes.has_tasks:
            return  # images are read with the rows around them
        for side, dimension in product(("above", "below"), self.groups.inside):
            where = f"_{dimension}" if len(self.groups.inside) > 1 else ""
            passes.block(f"{name}_{side}{where}", CollectiveKind.SEND, self.setup.batch * elements, (dimension,), after)

    def _redistribute(self, passes: Passes, layer: Layer, name: str) -> None:
        elements = -(-self.setup.batch * layer.inputs // self.groups.size)
        passes.block(f"{layer.name}.{name}", CollectiveKind.ALL_TO_ALL, elements, self.groups.inside)

    def _gradients(self, passes: Passes) -> None:
        """All-reduces of what several NPUs have copies of."""
        replicas = None if self.by == "spatial" else self.groups.across
        needed = "update" if self.setup.update else ""
        parts = {f"{layer.name}.gradients": (layer, self._parameters(layer)) for layer in reversed(self.layers)}
        if self.setup.granularity == "fused":
            parts = {"gradients": (self.layers[0], sum(elements for _, elements in parts.values()))}
        for name, (layer, elements) in parts.items():
            ready = f"{layer.name}.weight_gradient"
            passes.exchange(
                name, CollectiveKind.ALL_REDUCE, elements, ready, needed or f"{layer.name}.forward", replicas
            )

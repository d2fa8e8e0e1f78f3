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
from themis_opt.workloads.groups import NpuGroups, divide, groups_with_copies
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
        self._check()
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

    def _check(self) -> None:
        if {layer.kind for layer in self.layers} - {"convolution", "linear"} or not self.layers[0].rows:
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
        if not passes.tasks:
            return  # images are read with the rows around them
        for side, dimension in product(("above", "below"), self.groups.inside):
            where = f"_{dimension}" if len(self.groups.inside) > 1 else ""
            passes.block(f"{name}_{side}{where}", CollectiveKind.SEND, self.setup.batch * elements, (dimension,), after)

    def _redistribute(self, passes: Passes, layer: Layer, name: str) -> None:
        elements = -(-self.setup.batch * layer.inputs // self.groups.size)
        passes.block(f"{layer.name}.{name}", CollectiveKind.ALL_TO_ALL, elements, self.groups.inside)

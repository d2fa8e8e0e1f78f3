"""Fully sharded data parallelism: parameters, gradients and optimizer states in shards, whole only where they are used.

Each layer's parameters are all-gathered before its forward pass, at the earliest once they are updated, given up after
it, and gathered again before its backward pass, but for the last layer, whose backward pass follows at once.  When they
are gathered belongs to the plan.  Gradients are reduce-scattered when they are made, and each NPU updates its shard
(S. Rajbhandari et al., ZeRO stage 3, https://arxiv.org/abs/1910.02054; Y. Zhao et al., PyTorch FSDP, https://arxiv.org/abs/2304.11277).

What a layer keeps for its backward pass is held until that ends; with recomputation only its inputs, and the rest from
when it is computed again.

With hybrid sharding (section 3.2.2 of the latter) shards are spread over a group of NPUs alone, by default those of the
innermost dimension, and shards of gradients are all-reduced between the groups after the reduce-scatter inside.  Both
use different dimensions, so that those of one layer can overlap those of another.
"""

from dataclasses import dataclass

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, divide, groups_with_copies
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes, last_use
from themis_opt.workloads.setup import Setup


def fully_sharded(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Shards over all NPUs."""
    return _Sharded(layers, setup, divide(setup.network, setup.network.num_npus)).iteration("fsdp")


def hybrid_sharded(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Shards over the NPUs of a group, copies of them between groups."""
    return _Sharded(layers, setup, groups_with_copies(setup, "hsdp")).iteration("hsdp")


@dataclass(frozen=True)
class _Sharded:
    layers: tuple[Layer, ...]
    setup: Setup
    groups: NpuGroups

    def iteration(self, parallelism: str) -> Iteration:
        if any(layer.kind == "table" for layer in self.layers):
            raise InputError("is not for models with tables", field="--parallelism", value=parallelism)
        passes = Passes(self.setup.element_bytes)
        owning = [layer for layer in self.layers if layer.parameters]
        self._compute(passes, owning)
        for layer in self.layers:
            if layer.parameters:
                self._gathered(passes, layer)
                self._reduced(passes, layer)
        return passes.iteration(self.groups.splits)

    def _compute(self, passes: Passes, owning: list[Layer]) -> None:
        setup, total = self.setup, sum(layer.elements() for layer in owning)
        for layer in self.layers:
            shard = -(-layer.elements() // self.groups.size)
            kept = setup.batch * (layer.inputs if setup.recompute else layer.kept)
            until = last_use(layer, self.layers)
            passes.compute(f"{layer.name}.forward", setup.times(layer).forward, shard, kept=kept, until=until)
        passes.backward(self.layers, setup, keeps=True)
        for layer in reversed(owning):
            passes.compute(f"{layer.name}.update", setup.optimizer * layer.elements() // total)

    def _gathered(self, passes: Passes, layer: Layer) -> None:
        """Parameters before the forward pass and before the backward pass."""
        elements, inside, last = layer.elements(), self.groups.inside, layer is self.layers[-1]
        name, gather, forward = f"{layer.name}.parameters", CollectiveKind.ALL_GATHER, f"{layer.name}.forward"
        used = last_use(layer, self.layers)
        freed = used if last else forward
        passes.exchange(name, gather, elements, f"{layer.name}.update", forward, inside, freed_after=freed)
        if not last:
            needed = f"{layer.name}.{'recompute' if self.setup.recompute else 'weight_gradient'}"
            passes.exchange(f"{name}_again", gather, elements, forward, needed, inside, freed_after=used)

    def _reduced(self, passes: Passes, layer: Layer) -> None:
        """Gradients to the NPUs that update them, and between the groups."""
        elements, ready, needed = layer.elements(), f"{layer.name}.weight_gradient", f"{layer.name}.update"
        name, shard = f"{layer.name}.gradients", -(-elements // self.groups.size)
        passes.exchange(name, CollectiveKind.REDUCE_SCATTER, elements, ready, needed, self.groups.inside)
        again = f"{layer.name}.gradients_of_groups"
        passes.exchange(again, CollectiveKind.ALL_REDUCE, shard, ready, needed, self.groups.across, after=(name,))

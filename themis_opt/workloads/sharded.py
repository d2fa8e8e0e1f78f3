"""Fully sharded data parallelism: parameters, gradients and optimizer states in shards, whole only where they are used.

Each layer's parameters are all-gathered before its forward pass, at the earliest once they are updated, given up after
it, and gathered again before its backward pass, but for the last layer, whose backward pass follows at once.  When they
are gathered belongs to the plan.  Gradients are reduce-scattered when they are made, and each NPU updates its shard
(S. Rajbhandari et al., ZeRO stage 3, https://arxiv.org/abs/1910.02054; Y. Zhao et al., PyTorch FSDP, https://arxiv.org/abs/2304.11277).

What a layer keeps for its backward pass is held until that ends; with recomputation only its inputs, and the rest from
when it is computed again.

With accumulation several steps run one after the other, and only the last reduces gradients, which are kept whole until
then (``no_sync``).  Each gathers what it uses, or parameters are gathered once and stay until the last step used them
(``set_reshard_after_forward`` and ``set_reshard_after_backward`` of FSDP2).

With hybrid sharding (section 3.2.2 of the latter) shards are spread over a group of NPUs alone, by default those of the
innermost dimension, and shards of gradients are all-reduced between the groups after the reduce-scatter inside.  Both
use different dimensions, so that those of one layer can overlap those of another.
"""

from collections.abc import Sequence
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
        passes, steps = Passes(self.setup.element_bytes), self.setup.accumulate
        prefixes = [f"step{step + 1}/" if steps > 1 else "" for step in range(steps)]
        owning = [layer for layer in self.layers if layer.parameters]
        for prefix in prefixes:
            self._compute(passes, prefix, owns=prefix == prefixes[0])
        total = sum(layer.elements() for layer in owning)
        for layer in reversed(owning):
            passes.compute(f"{layer.name}.update", self.setup.optimizer * layer.elements() // total)
        for layer in owning:
            self._gathered(passes, layer, prefixes)
            self._reduced(passes, layer, prefixes[-1])
        return passes.iteration(self.groups.splits, steps)

    def _compute(self, passes: Passes, prefix: str, *, owns: bool) -> None:
        """One step, the first of which owns the shards."""
        for layer in self.layers:
            shard = -(-layer.elements() // self.groups.size) if owns else 0
            kept, until = self.setup.batch * self.setup.kept(layer), last_use(layer, self.layers, prefix)
            passes.compute(f"{prefix}{layer.name}.forward", self.setup.times(layer).forward, shard, 0, kept, until)
        passes.backward(self.layers, self.setup, prefix, keeps=True)

    def _gathered(self, passes: Passes, layer: Layer, prefixes: Sequence[str]) -> None:
        """Parameters before forward and backward passes, or once for all steps."""
        elements, inside, last = layer.elements(), self.groups.inside, layer is self.layers[-1]
        once, gather, ready = self.setup.gathers == "step", CollectiveKind.ALL_GATHER, f"{layer.name}.update"
        for prefix in prefixes[:1] if once else prefixes:
            name, forward = f"{prefix}{layer.name}.parameters", f"{prefix}{layer.name}.forward"
            used = last_use(layer, self.layers, prefixes[-1] if once else prefix)
            freed = used if last or once else forward
            passes.exchange(name, gather, elements, ready, forward, inside, freed_after=freed)
            if freed == forward:
                needed = f"{prefix}{layer.name}.{'recompute' if self.setup.repeats else 'weight_gradient'}"
                passes.exchange(f"{name}_again", gather, elements, forward, needed, inside, freed_after=used)
            ready = used

    def _reduced(self, passes: Passes, layer: Layer, prefix: str) -> None:
        """Gradients to the NPUs that update them, and between the groups."""
        elements, ready, needed = layer.elements(), f"{prefix}{layer.name}.weight_gradient", f"{layer.name}.update"
        name, shard = f"{layer.name}.gradients", -(-elements // self.groups.size)
        passes.exchange(name, CollectiveKind.REDUCE_SCATTER, elements, ready, needed, self.groups.inside)
        again = f"{layer.name}.gradients_of_groups"
        passes.exchange(again, CollectiveKind.ALL_REDUCE, shard, ready, needed, self.groups.across, after=(name,))

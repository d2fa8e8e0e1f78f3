"""Expert parallelism: the NPUs of a group share the experts of a mixture, and everything else is data parallel.

Each NPU has separate samples.  Before a layer of experts every token travels to the NPUs of the experts that the
router chose for it, and its results travel back after it: two all-to-alls in the forward pass, and two in the backward
pass for the gradients, each of ``batch * tokens * active * hidden`` elements from every NPU (D. Lepikhin et al.,
*GShard*, https://arxiv.org/abs/2006.16668, section 3; S. Rajbhandari et al., *DeepSpeed-MoE*,
https://arxiv.org/abs/2201.05596, section 4).  Experts are taken to be equally busy, so that no token is dropped and a
layer computes as long as on one NPU that has all experts.

Gradients of experts are all-reduced between the groups, all others between all NPUs.
"""

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, groups_of
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup


def expert(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Groups share the experts, those of the innermost dimension by default."""
    groups = groups_of(setup)
    _check(layers, groups)
    passes = Passes(setup.element_bytes)
    if setup.update:
        passes.compute("update", setup.optimizer)
    for layer in layers:
        kept = layer.elements() - layer.expert_elements + -(-layer.expert_elements // groups.size)
        _routed(passes, layer, setup, groups, "dispatch")
        passes.compute(f"{layer.name}.forward", setup.times(layer).forward, kept)
        _routed(passes, layer, setup, groups, "combine")
    for layer in reversed(layers):
        _backward(passes, layer, setup, groups, is_first=layer is layers[0])
    for layer in reversed(layers):
        _gradients(passes, layer, setup, groups)
    return passes.iteration(groups.splits)


def _check(layers: tuple[Layer, ...], groups: NpuGroups) -> None:
    counts = {layer.experts for layer in layers if layer.experts}
    if not counts:
        raise InputError("needs layers with experts, the model has none", field="--parallelism", value="expert")
    if groups.size == 1 or any(count % groups.size for count in counts):
        rule = f"must be 2 or more and divide the {', '.join(map(str, sorted(counts)))} experts"
        raise InputError(rule, field="--tensor-group", value=groups.size)


def _routed(passes: Passes, layer: Layer, setup: Setup, groups: NpuGroups, what: str) -> None:
    """The tokens of a layer with experts on their way to them or back."""
    if layer.experts:
        passes.block(f"{layer.name}.{what}", CollectiveKind.ALL_TO_ALL, setup.batch * layer.routed, groups.inside)


def _backward(passes: Passes, layer: Layer, setup: Setup, groups: NpuGroups, *, is_first: bool) -> None:
    times, name = setup.times(layer), layer.name
    if setup.recompute:
        _routed(passes, layer, setup, groups, "dispatch_again")
        passes.compute(f"{name}.recompute", times.forward)
    _routed(passes, layer, setup, groups, "combine_gradient")
    passes.compute(f"{name}.weight_gradient", times.weight_gradient)
    if not is_first:
        passes.compute(f"{name}.input_gradient", times.input_gradient)
    _routed(passes, layer, setup, groups, "dispatch_gradient")


def _gradients(passes: Passes, layer: Layer, setup: Setup, groups: NpuGroups) -> None:
    """All-reduces of a layer's gradients, needed before the update or before its next forward pass."""
    ready, needed = f"{layer.name}.weight_gradient", "update" if setup.update else f"{layer.name}.forward"
    shared = layer.elements() - layer.expert_elements
    passes.exchange(f"{layer.name}.gradients", CollectiveKind.ALL_REDUCE, shared, ready, needed)
    sharded = -(-layer.expert_elements // groups.size)
    passes.exchange(f"{layer.name}.expert_gradients", CollectiveKind.ALL_REDUCE, sharded, ready, needed, groups.across)

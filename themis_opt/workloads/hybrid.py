"""Tensor parallelism inside groups of NPUs, data parallelism across them; either may be all there is.

The forward pass runs the layers in order.  The backward pass runs them in reverse: gradients of the weights, from which
on they can be exchanged, then gradients of the inputs, which the first layer does not need.  Inside groups each sharded
layer ends its forward pass, and its gradients of the inputs, with an all-reduce that the next task waits for
(M. Shoeybi et al., https://arxiv.org/abs/1909.08053, section 3); with recomputation there is one more.

With local losses (`local_blocks`) the backward pass of a block of layers follows its forward pass at once, and no
gradient flows from a block to the one before it.

With accumulation (PyTorch's ``no_sync``) several steps run one after another and only the last exchanges gradients.
With ZeRO stage 2 (S. Rajbhandari et al., https://arxiv.org/abs/1910.02054) gradients are reduce-scattered, each NPU
updates its shard after the backward pass, in the order in which gradients come, and parameters are all-gathered.  With
stage 1 (section 5.1; ``ZeroRedundancyOptimizer`` of PyTorch) optimizer states alone are sharded: gradients are
all-reduced, and parameters all-gathered after the update of the shards.

With sequence parallelism what lies between sharded layers is divided along the sequence.  Each all-reduce of hybrid
parallelism becomes a reduce-scatter, after which every NPU of a group holds its part of the sequence, and an all-gather
before the next sharded layer: as many bytes.  The backward pass gathers the inputs of every sharded layer once more,
since only parts of them are kept (V. Korthikanti et al., *Reducing Activation Recomputation in Large Transformer
Models*, https://arxiv.org/abs/2205.05198, section 4.2.2); with recomputation they are there anyway.  The gradients of
the few parameters of normalisation, which each NPU has for its part of the sequence alone, are left out.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from themis_opt.base.errors import InputError
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, divide, groups_of
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup


def data(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Every NPU holds the model; gradients are exchanged between all."""
    return _iteration(layers, setup, divide(setup.network, 1))


def zero1(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Data parallelism whose optimizer states are sharded, ZeRO stage 1."""
    if setup.zero not in (0, 1):
        raise InputError("must be 1 for zero1", field="--zero", value=setup.zero)
    return data(layers, replace(setup, zero=1))


def tensor(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Groups share the model, all NPUs by default; copies that smaller groups make do not exchange gradients."""
    check_sharded(layers, "tensor")
    if setup.group == 1:
        raise InputError("must be 2 or more for tensor", field="--tensor-group", value=1)
    groups = divide(setup.network, setup.group or setup.network.num_npus)
    alone = NpuGroups(groups.size, 1, groups.inside, (), groups.splits)
    return _iteration(layers, setup, alone)


def hybrid(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Groups share the model, those of the innermost dimension by default; gradients are exchanged across them."""
    check_sharded(layers, "hybrid")
    return _iteration(layers, setup, groups_of(setup))


def check_sharded(layers: tuple[Layer, ...], parallelism: str) -> None:
    """Refuse models that tensor groups cannot divide. Raises InputError if no layer can be."""
    if not any(layer.sharded for layer in layers):
        rule = "needs attention and feed-forward layers, the model has none"
        raise InputError(rule, field="--parallelism", value=parallelism)


def _iteration(layers: tuple[Layer, ...], setup: Setup, groups: NpuGroups) -> Iteration:
    passes = Passes(setup.element_bytes)
    blocks = _blocks(layers, setup)
    if setup.update and not setup.zero:
        passes.compute("update", setup.optimizer)
    for step in range(setup.accumulate):
        prefix = f"step{step + 1}/" if setup.accumulate > 1 else ""
        for block in blocks:
            _forward(passes, block, setup, groups, prefix, keep=step == 0)
            _backward(passes, block, setup, groups, prefix)
        _look_up(passes, layers, setup, prefix)
    last = prefix
    first = "step1/" if setup.accumulate > 1 else ""
    copied = [layer for block in blocks for layer in reversed(block) if layer.kind != "table"]
    if setup.zero:
        _sharded_update(passes, copied, setup, groups, last, first)
    else:
        _gradients(passes, copied, setup, groups, last, first)
    return passes.iteration(groups.splits, setup.accumulate)


def _blocks(layers: tuple[Layer, ...], setup: Setup) -> list[tuple[Layer, ...]]:
    """Layers in as many blocks as there are losses, as equal in their number as can be."""
    count = setup.local_blocks
    if count > len(layers):
        rule = f"must be at most the number of layers, {len(layers)}"
        raise InputError(rule, field="--local-blocks", value=count)
    if count > 1 and any(layer.kind == "table" for layer in layers):
        raise InputError("is not for models with tables", field="--local-blocks", value=count)
    edges = [len(layers) * number // count for number in range(count + 1)]
    return [layers[begin:end] for begin, end in pairwise(edges)]


def _forward(
    passes: Passes, layers: tuple[Layer, ...], setup: Setup, groups: NpuGroups, prefix: str, *, keep: bool
) -> None:
    for layer in layers:
        elements = layer.elements(groups.size)
        if layer.kind == "table":
            elements = -(-elements // setup.network.num_npus)
        time = setup.times(layer, groups.size if layer.sharded else 1).forward
        passes.compute(f"{prefix}{layer.name}.forward", time, elements if keep else 0)
        _reduce_output(passes, layer, setup, groups, f"{prefix}{layer.name}.output")


def _reduce_output(passes: Passes, layer: Layer, setup: Setup, groups: NpuGroups, name: str) -> None:
    if layer.sharded:
        passes.block(name, CollectiveKind.ALL_REDUCE, setup.batch * layer.outputs, groups.inside)


def _backward(passes: Passes, layers: tuple[Layer, ...], setup: Setup, groups: NpuGroups, prefix: str) -> None:
    for layer in reversed(layers):
        times, name = setup.times(layer, groups.size if layer.sharded else 1), f"{prefix}{layer.name}"
        if setup.repeats:
            passes.compute(f"{name}.recompute", times.forward)
            _reduce_output(passes, layer, setup, groups, f"{name}.recomputed")
        passes.compute(f"{name}.weight_gradient", times.weight_gradient)
        if layer is not layers[0]:
            passes.compute(f"{name}.input_gradient", times.input_gradient)
            if layer.sharded:
                passes.block(f"{name}.error", CollectiveKind.ALL_REDUCE, setup.batch * layer.inputs, groups.inside)


def _look_up(passes: Passes, layers: tuple[Layer, ...], setup: Setup, prefix: str) -> None:
    """Rows of tables travel to the NPUs of their samples, and their gradients back."""
    for layer in layers:
        if layer.kind != "table":
            continue
        elements, table, user = setup.batch * layer.outputs, f"{prefix}{layer.name}", f"{prefix}{layer.joins}"
        kind = CollectiveKind.ALL_TO_ALL
        passes.exchange(f"{table}.rows", kind, elements, f"{table}.forward", f"{user}.forward", model=True)
        ready, needed = f"{user}.input_gradient", f"{table}.weight_gradient"
        passes.exchange(f"{table}.row_gradients", kind, elements, ready, needed, model=True)


def _gradients(passes: Passes, copied: list[Layer], setup: Setup, groups: NpuGroups, last: str, first: str) -> None:
    """All-reduces of gradients of copied layers, needed before the update or before the layer's next forward pass."""
    if setup.granularity == "fused":
        total = sum(layer.elements(groups.size) for layer in copied)
        ready, needed = passes.tasks[-1].name, passes.tasks[0].name
        passes.exchange("gradients", CollectiveKind.ALL_REDUCE, total, ready, needed, groups.replicas)
        return
    for layer in copied:
        ready = f"{last}{layer.name}.weight_gradient"
        needed = "update" if setup.update else f"{first}{layer.name}.forward"
        parts = {f"{layer.name}.gradients": layer.elements(groups.size)}
        if setup.granularity == "parameter":
            parts = {f"{layer.name}.{p.name}.gradients": p.share(groups.size) for p in reversed(layer.parameters)}
        for name, elements in parts.items():
            passes.exchange(name, CollectiveKind.ALL_REDUCE, elements, ready, needed, groups.replicas)


def _sharded_update(
    passes: Passes, copied: list[Layer], setup: Setup, groups: NpuGroups, last: str, first: str
) -> None:
    """Reduce-scatter of gradients (stage 1: all-reduce), update of a shard, all-gather of parameters, by layer."""
    copied = [layer for layer in copied if layer.parameters]
    total = sum(layer.elements(groups.size) for layer in copied)
    for layer in copied:
        elements, name = layer.elements(groups.size), layer.name
        passes.compute(f"{name}.update", setup.optimizer * elements // total)
        ready = f"{last}{name}.weight_gradient"
        gather, update = CollectiveKind.ALL_GATHER, f"{name}.update"
        reduce = CollectiveKind.REDUCE_SCATTER if setup.zero > 1 else CollectiveKind.ALL_REDUCE
        passes.exchange(f"{name}.gradients", reduce, elements, ready, update, groups.replicas)
        passes.exchange(f"{name}.parameters", gather, elements, update, f"{first}{name}.forward", groups.replicas)


def sequence(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Groups share the model and the sequence, those of the innermost dimension by default."""
    groups = groups_of(setup)
    if groups.size == 1:
        raise InputError("must be 2 or more for sequence", field="--tensor-group", value=1)
    iteration = hybrid(layers, setup)
    tensors = [part for tensor in iteration.tensors for part in _halves(tensor)]
    if not setup.repeats:
        tensors += _gathered_again(iteration, layers, setup, groups.inside)
    return iteration.varied(tensors=tuple(tensors))


def _halves(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor, or in the place of an all-reduce between the NPUs of a group its two halves, one after the other."""
    if tensor.parallelism != "model" or tensor.kind is not CollectiveKind.ALL_REDUCE:
        yield tensor
        return
    scattered = f"{tensor.name}.scattered"
    yield tensor.varied(name=scattered, kind=CollectiveKind.REDUCE_SCATTER)
    yield tensor.varied(kind=CollectiveKind.ALL_GATHER, after=(scattered,))


def _gathered_again(
    iteration: Iteration, layers: tuple[Layer, ...], setup: Setup, inside: tuple[str, ...]
) -> Iterator[Tensor]:
    """The inputs of every sharded layer, gathered between the task before its gradients and those."""
    sharded = {layer.name: layer for layer in layers if layer.sharded}
    tasks = [task.name for task in iteration.tasks]
    for before, name in pairwise(tasks):
        prefix, _, layer = name.removesuffix(".weight_gradient").rpartition("/")
        if layer in sharded and name.endswith(".weight_gradient"):
            yield Tensor(
                name=f"{prefix}/{layer}.input_again" if prefix else f"{layer}.input_again",
                kind=CollectiveKind.ALL_GATHER,
                size=setup.batch * sharded[layer].inputs * setup.element_bytes,
                ready_after=before,
                needed_before=name,
                dimensions=inside,
                parallelism="model",
                element_bytes=setup.element_bytes,
            )

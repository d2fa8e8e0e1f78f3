"""Sequence parallelism beside tensor parallelism: what lies between sharded layers is divided along the sequence.

Each all-reduce of hybrid parallelism (:mod:`themis_opt.workloads.hybrid`) becomes a reduce-scatter, after which every
NPU of a group holds its part of the sequence, and an all-gather before the next sharded layer: as many bytes.  The
backward pass gathers the inputs of every sharded layer once more, since only parts of them are kept (V. Korthikanti et
al., *Reducing Activation Recomputation in Large Transformer Models*, https://arxiv.org/abs/2205.05198, section 4.2.2);
with recomputation they are there anyway.  The gradients of the few parameters of normalisation, which each NPU has for
its part of the sequence alone, are left out.
"""

from collections.abc import Iterator
from itertools import pairwise

from themis_opt.base.errors import InputError
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import groups_of
from themis_opt.workloads.hybrid import hybrid
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.setup import Setup


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

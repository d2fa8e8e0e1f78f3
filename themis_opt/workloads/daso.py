"""Data parallelism that synchronises nodes often and all of them seldom, without waiting for it.

Inside a group of NPUs, by default those of the innermost dimension, gradients are all-reduced after every batch and
each NPU updates its parameters.  Every `skip` batches parameters are averaged between the groups: every NPU exchanges
the shard of its rank with those of other groups, and an all-gather inside spreads the average, which is needed `wait`
batches later (D. Coquelin et al., *Accelerating neural network training with distributed asynchronous and selective
optimization*, https://arxiv.org/abs/2104.05588, as https://github.com/helmholtz-analytics/heat has it).  There one
GPU of each node exchanges all parameters over the whole adapter of the node, which takes as long.  With `skip` 1 and
`wait` 0 this is hierarchical data parallelism that blocks, as in the first and last epochs there; what waiting does to
convergence, and the change of `skip` and `wait` during training, is outside of the model.

One iteration is `skip` batches.
"""

from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, groups_with_copies
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup


def daso(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """The iteration of `setup.skip` batches."""
    groups = groups_with_copies(setup, "daso")
    if not 0 <= setup.wait <= setup.skip:
        raise InputError(f"must be at least 0 and at most --skip, {setup.skip}", field="--wait", value=setup.wait)
    if any(layer.kind == "table" for layer in layers):
        raise InputError("is not for models with tables", field="--parallelism", value="daso")
    passes = Passes(setup.element_bytes)
    for batch in range(1, setup.skip + 1):
        passes.compute(f"batch{batch}/update", setup.optimizer)  # with the gradients of the batch before
        for layer in layers:
            kept = layer.elements() if batch == 1 else 0
            passes.compute(f"batch{batch}/{layer.name}.forward", setup.times(layer).forward, kept)
        passes.backward(layers, setup, f"batch{batch}/")
    for batch in range(1, setup.skip + 1):
        prefix, needed = f"batch{batch}/", f"batch{batch % setup.skip + 1}/update"
        passes.gradients(layers, setup, dimensions=groups.inside, prefix=prefix, needed=needed)
    _average(passes, layers, setup, groups)
    return passes.iteration(groups.splits, setup.skip)


def _average(passes: Passes, layers: tuple[Layer, ...], setup: Setup, groups: NpuGroups) -> None:
    """Shards of parameters between groups, then inside, from the first update on; needed `wait` batches later."""
    elements = sum(layer.elements() for layer in layers)
    ready, later = "batch1/update", setup.wait == setup.skip
    needed = f"batch{1 if later else setup.wait + 1}/{layers[0].name}.forward"
    given: dict[str, Any] = {"needed_in": "next"} if later else {}
    shard, reduce = -(-elements // groups.size), CollectiveKind.ALL_REDUCE
    passes.exchange("average", reduce, shard, ready, needed, groups.across, **given)
    gather = CollectiveKind.ALL_GATHER
    passes.exchange("average_inside", gather, elements, ready, needed, groups.inside, after=("average",), **given)

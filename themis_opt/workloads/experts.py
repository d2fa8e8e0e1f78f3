r"""Expert parallelism: the NPUs of a group share the experts of a mixture, and everything else is data parallel.

Each NPU has separate samples.  Before a layer of experts every token travels to the NPUs of the experts that the
router chose for it, and its results travel back after it: dispatch and combine in the forward pass, and both again in
the backward pass for the gradients (D. Lepikhin et al., *GShard*, https://arxiv.org/abs/2006.16668, section 3; S.
Rajbhandari et al., *DeepSpeed-MoE*, https://arxiv.org/abs/2201.05596, section 4).  Where a group spans dimensions a
token crosses the outermost one once for each node that it goes to, and is spread inside
(https://github.com/deepseek-ai/DeepEP); results are summed inside first.  How many nodes these are is the closed form
of :meth:`themis_opt.workloads.layers.Routing.places`.  Experts are equally busy, so that no token is dropped and a
layer computes as long as on one NPU that has all experts.

Gradients of experts are all-reduced between the groups, all others between all NPUs.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import gcd
from operator import mul

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Iteration
from themis_opt.problem.network import Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.groups import NpuGroups, divide, place
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup

RETURNING = ("combine", "dispatch_gradient")  # exchanges from the experts to the NPUs of the tokens


def expert(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """Groups share the experts, by default as many NPUs as the experts allow."""
    groups = _groups(layers, setup)
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
        ready, needed = f"{layer.name}.weight_gradient", "update" if setup.update else f"{layer.name}.forward"
        shared, reduce = layer.elements() - layer.expert_elements, CollectiveKind.ALL_REDUCE
        passes.exchange(f"{layer.name}.gradients", reduce, shared, ready, needed)
        sharded = -(-layer.expert_elements // groups.size)
        passes.exchange(f"{layer.name}.expert_gradients", reduce, sharded, ready, needed, groups.across)
    return passes.iteration(groups.splits)


def tokens_sent(layer: Layer, sizes: Sequence[int]) -> Iterator[int]:
    """Elements per sample that travel along each dimension of a group, in the order of `sizes`, innermost first.

    Each is the size of an all-to-all: copies for all places along the dimension, that of the sender included.
    """
    if layer.routing is None:
        yield from (0 for _ in sizes)
        return
    outer = reversed(list(accumulate(reversed(sizes), mul)))  # places that dimensions from here outwards tell apart
    yield from (round(layer.routing.elements * layer.routing.places(places)) for places in outer)


def check_experts(layers: Sequence[Layer], size: int, field: str) -> None:
    """Refuse groups that cannot share the experts. Raises InputError if they are not equally many at each NPU."""
    counts = expert_counts(layers)
    if size == 1 or any(count % size for count in counts):
        rule = f"must be 2 or more and divide the {', '.join(map(str, sorted(counts)))} experts"
        raise InputError(rule, field=field, value=size)


def expert_counts(layers: Sequence[Layer]) -> set[int]:
    """Experts of the layers that have some. Raises InputError if none has."""
    counts = {layer.routing.experts for layer in layers if layer.routing}
    if not counts:
        raise InputError("needs layers with experts, the model has none", field="--parallelism", value="expert")
    return counts


def _groups(layers: Sequence[Layer], setup: Setup) -> NpuGroups:
    if setup.experts and setup.group:
        rule = "takes --experts alone; --parallelism pipeline takes tensor groups, too"
        raise InputError(rule, field="--parallelism", value="expert")
    size, field = setup.experts or setup.group, "--experts" if setup.experts else "--tensor-group"
    groups = divide(setup.network, size or _most_npus(setup.network, gcd(*expert_counts(layers))), field=field)
    check_experts(layers, groups.size, field)
    return groups


def _most_npus(network: Network, experts: int) -> int:
    """NPUs of the largest group that has equally many experts at each, and fills dimensions; 1 where none does."""
    sizes = [size for size in range(1, experts + 1) if experts % size == 0 and network.num_npus % size == 0]
    return max(size for size in sizes if place(network, (("model", size), ("data", network.num_npus // size))))


def _routed(passes: Passes, layer: Layer, setup: Setup, groups: NpuGroups, what: str) -> None:
    """The tokens of a layer with experts on their way, to the experts by the outermost dimension first."""
    if layer.routing is None:
        return
    legs = list(zip(groups.inside, tokens_sent(layer, groups.sizes), strict=True))
    after: tuple[str, ...] = ()
    for dimension, elements in legs if what in RETURNING else reversed(legs):
        name = f"{layer.name}.{what}" if len(legs) == 1 else f"{layer.name}.{what}_{dimension}"
        passes.block(name, CollectiveKind.ALL_TO_ALL, setup.batch * elements, (dimension,), after)
        after = (name,)


def _backward(passes: Passes, layer: Layer, setup: Setup, groups: NpuGroups, *, is_first: bool) -> None:
    times, name = setup.times(layer), layer.name
    if setup.repeats:
        _routed(passes, layer, setup, groups, "dispatch_again")
        passes.compute(f"{name}.recompute", times.forward)
    _routed(passes, layer, setup, groups, "combine_gradient")
    passes.compute(f"{name}.weight_gradient", times.weight_gradient)
    if not is_first:
        passes.compute(f"{name}.input_gradient", times.input_gradient)
    _routed(passes, layer, setup, groups, "dispatch_gradient")

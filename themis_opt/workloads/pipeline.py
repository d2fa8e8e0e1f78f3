r"""Pipelines, alone or with tensor, expert and data parallelism together: who holds what, and what is exchanged when.

A copy of the model lies on tensor groups of `group` NPUs, one for each of `stages` contiguous cuts of the layers that
make the longest stage as short as can be, by dynamic programming over layers and stages, :math:`O(L^2 s)`, or of as
many blocks as the setup says.  Embeddings and the output are part of the first and last stage.  `context` tensor groups
divide each sequence: they gather keys and values of each attention, and reduce-scatter their gradients (Llama 3,
https://arxiv.org/abs/2407.21783, section 3.3.2).  There are `data` copies, of which `experts` share the experts of each
layer.  From the innermost dimension outwards lie tensor groups, those that share a sequence, copies that share experts,
other copies and stages, or where that does not fit stages before copies.  A message between stages on several
dimensions takes the outermost one in which their places differ.

An iteration has m microbatches, forward and backward through s stages, in an order of
:mod:`themis_opt.workloads.microbatch_orders`.  With several parts on each stage the cut makes the longest part as short
as can be, and tasks count parts as stages: part q of s stages lies on stage q mod s, or runs back with ``v``.
Activations and their gradients are sent between neighbouring parts; gradients of the weights are all-reduced between
the copies of a part after its last microbatch and needed before its first one of the next iteration, with ZeRO
reduce-scattered, and parameters gathered; with stage 3 before each pass, unless they stay for a whole step.

A pass of a stage is one task, and what its layers exchange between the NPUs of a tensor group and with experts follows
as one collective of each kind and dimension: as many bytes, and the start-up of one.  The next pass waits for it, or
with ``dualpipe`` the one after the next.
Tensor groups divide all weights, those of embeddings and the output by words, where only a scalar for each token is
exchanged.

With equal stages that take t for a microbatch in both directions and messages that take no time, an iteration takes
:math:`(m + s - 1) t` with one part on each, and :math:`(m + (s - 1) / v) t` with v parts in turn; with stages that are
not equal it is at least :math:`m t_k` and one pass in both directions of the stages before, for every stage k.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import MAX_PIPELINE_STAGES, MAX_TENSORS, Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.experts import check_experts, tokens_sent
from themis_opt.workloads.groups import Placement, place
from themis_opt.workloads.hybrid import check_sharded
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.microbatch_orders import MicrobatchPass, in_order, stage_of_parts
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import LayerTimes


@dataclass(frozen=True)
class PipelineStages:
    """A pipeline on a network: the layers of each part of the model, and the stage of each."""

    layers: tuple[tuple[Layer, ...], ...]
    stage_of: tuple[int, ...]
    placement: Placement

    def replicas(self, *axes: str) -> tuple[str, ...]:
        """Dimensions of the exchange of gradients between copies of a stage."""
        return tuple(name for axis in ("context", *axes) for name in self.placement.dimensions[axis])

    def link(self, one: int, other: int) -> tuple[str, ...]:
        """The outermost dimension in which two stages differ."""
        link: tuple[str, ...] = ()
        placement = self.placement
        for name, size in zip(placement.dimensions["stages"], placement.sizes["stages"], strict=True):
            link = (name,) if one % size != other % size else link
            one, other = one // size, other // size
        return link


@dataclass(frozen=True)
class PassExchange:
    """What one pass of a stage exchanges of a kind: elements along dimensions."""

    name: str
    kind: CollectiveKind
    elements: int
    dimensions: tuple[str, ...]


def pipeline(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """The iteration of a model in stages; `setup.batch` samples of each copy, in `setup.microbatches` parts."""
    stages = pipeline_stages(layers, setup)
    passes, count = Passes(setup.element_bytes), setup.stages or 1
    for stage in range(count if setup.update else 0):
        passes.compute(f"update{stage + 1}", setup.optimizer, stage=stage)
    order = list(in_order(count, setup.virtual_stages, setup.microbatches, setup.schedule))
    for stage, one in order:
        _compute(passes, stages, setup, stage, one)
    for stage in range(count):
        _inside(passes, stages, setup, stage, [one for other, one in order if other == stage])
    _messages(passes, stages, setup)
    of_microbatches = len(passes.tensors)
    _gradients(passes, stages, setup)
    for stage in range(count):
        _parameters(passes, stages, setup, [one for other, one in order if other == stage])
    room = MAX_TENSORS - (len(passes.tensors) - of_microbatches)
    most = room * setup.microbatches // max(of_microbatches, 1)
    return passes.iteration(stages.placement.splits, remedy=f"at most {most} microbatches fit")


def balanced(weights: Sequence[int], parts: int) -> tuple[int, ...]:
    """Ends of contiguous parts, at least one item each, of which the heaviest weighs least."""
    total = np.cumsum([0, *weights])
    last = np.where(np.tri(len(total), k=-1), total[:, None] - total, total[-1] + 1)  # weights by end and begin
    heaviest, cuts = last[:, 0], list[IntArray]()
    for _ in range(parts - 1):
        candidates = np.maximum(heaviest, last)
        cuts.append(candidates.argmin(axis=1))
        heaviest = candidates.min(axis=1)
    ends = [len(weights)]
    for cut in reversed(cuts):
        ends.append(int(cut[ends[-1]]))
    return tuple(reversed(ends))


def _check(layers: tuple[Layer, ...], setup: Setup) -> None:
    if setup.stages is None and setup.data is None and setup.experts is None and setup.context is None:
        raise InputError("is required for pipeline", field="--stages")
    stages, most = setup.stages or 1, min(len(layers), MAX_PIPELINE_STAGES)
    if stages > most:
        raise InputError(f"must be at most the {most} that the layers make", field="--stages", value=stages)
    if stages * setup.virtual_stages > len(layers):
        rule = f"must be at most {len(layers) // stages}, for {len(layers)} layers on {setup.stages} stages"
        raise InputError(rule, field="--virtual-stages", value=setup.virtual_stages)
    if setup.batch % setup.microbatches:
        rule = f"must divide the batch of {setup.batch}"
        raise InputError(rule, field="--microbatches", value=setup.microbatches)
    if any(layer.kind == "table" for layer in layers):
        raise InputError("is not for models with tables", field="--parallelism", value="pipeline")
    if setup.context and not any(layer.context for layer in layers):
        raise InputError("needs layers of attention, the model has none", field="--context", value=setup.context)
    if setup.group not in (None, 1):
        check_sharded(layers, "pipeline")
    if setup.experts is not None:
        check_experts(layers, setup.experts, "--experts")


def pipeline_stages(layers: tuple[Layer, ...], setup: Setup) -> PipelineStages:
    """Stages of nearly equal time, or of as many blocks as stated. Raises InputError where there can be none."""
    _check(layers, setup)
    stage_of = tuple(stage_of_parts(setup.stages or 1, setup.virtual_stages, setup.schedule))
    if setup.layers_per_stage:
        ends = (0, *_stated(layers, setup.layers_per_stage, len(stage_of)))
    else:
        ends = (0, *balanced([sum(time for _, time in layer_times(layer, setup)) for layer in layers], len(stage_of)))
    return PipelineStages(tuple(layers[begin:end] for begin, end in pairwise(ends)), stage_of, _placement(setup))


def _stated(layers: tuple[Layer, ...], counts: Sequence[int], parts: int) -> Iterator[int]:
    """Ends of parts with so many blocks each; layers before the first block and behind the last one come along."""
    ends = ends_of_blocks(layers)
    if len(counts) != parts or sum(counts) != len(ends) or 0 in counts:
        rule = f"must be {parts} numbers from 1 on, {len(ends)} blocks in all"
        raise InputError(rule, field="--layers-per-stage", value=",".join(map(str, counts)))
    yield from (ends[last - 1] for last in accumulate(counts))


LAYER_NAME = re.compile(r"[a-z_.]*\b(layers|block|h)\.\d+|[a-z_.]*\.(embed\w+|wte|lm_head)$|[^.]+")
"""The beginning of a name that layers of a block have in common; modules of Transformers count their blocks."""


def ends_of_blocks(layers: Sequence[Layer]) -> list[int]:
    """Ends of blocks, layers whose names begin alike; the first one has what comes before, the last what follows."""
    names = [match[0] for layer in layers if (match := LAYER_NAME.match(layer.name))]
    blocks = list(dict.fromkeys(name for name, layer in zip(names, layers, strict=True) if name != layer.name))
    return [*(names.index(block) for block in (blocks or names)[1:]), len(layers)]


def layer_times(layer: Layer, setup: Setup, parts: int = 1) -> LayerTimes:
    """Times of a layer on an NPU for its part of the weights and the sequence, for one of equal parts of the batch."""
    return setup.times(layer, parts * sharing(setup))


def sharing(setup: Setup) -> int:
    """NPUs that divide the tokens and the weights of a stage."""
    return (setup.group or 1) * (setup.context or 1)


def _placement(setup: Setup) -> Placement:
    network, group, experts, stages = setup.network, setup.group or 1, setup.experts or 1, setup.stages or 1
    context = setup.context or 1
    copies = setup.data or network.num_npus // (group * context * stages) or 1
    product, npus = group * context * copies * stages, network.num_npus
    divided = f" x {context} parts of a sequence" if context > 1 else ""
    if product != npus:
        parts = f"tensor groups of {group}{divided} x {copies} copies x {stages} stages"
        rule = f"must leave no NPU: {parts} are {product} of {npus}"
        field, value = ("--data", setup.data) if setup.data else ("--stages", stages)
        raise InputError(rule, field=field, value=value)
    if copies % experts:
        rule = f"must divide the {copies} copies: {npus} NPUs in tensor groups of {group}{divided} x {stages} stages"
        raise InputError(rule, field="--experts", value=experts)
    inner = (("model", group), ("context", context), ("experts", experts))
    across, outer = ("data", copies // experts), ("stages", stages)
    for axes in ((*inner, across, outer), (*inner, outer, across)):
        placement = place(network, axes)
        if placement is not None:
            return placement
    sizes = " x ".join(map(str, network.sizes))
    rule = f"does not fit dimensions of {sizes} with tensor groups of {group}{divided} and {copies} copies"
    raise InputError(rule, field="--stages", value=stages)


def _name(one: MicrobatchPass) -> str:
    return f"stage{one.part + 1}.{'backward' if one.backward else 'forward'}{one.microbatch + 1}"


def _compute(passes: Passes, stages: PipelineStages, setup: Setup, stage: int, one: MicrobatchPass) -> None:
    """One task for all layers of a part in one direction; the first layer of all needs no gradient of its inputs."""
    time = 0
    for layer in stages.layers[one.part]:
        times = layer_times(layer, setup)
        if not one.backward:
            time += times.forward
            continue
        time += times.weight_gradient + (times.forward if setup.repeats else 0)
        if layer is not stages.layers[0][0]:
            time += times.input_gradient
    kept = sum(sum(elements_of(layer, setup)) for layer in stages.layers[one.part])
    first = (one.microbatch, one.backward) == (0, False)
    passes.compute(_name(one), round(Fraction(time, setup.microbatches)), kept if first else 0, stage)


def elements_of(layer: Layer, setup: Setup) -> tuple[int, int]:
    """Parameters of a layer on each NPU: of its experts, and all others."""
    group, experts = setup.group or 1, layer.expert_elements
    return -(-experts // (group * (setup.experts or 1))), -(-(layer.elements() - experts) // group)


def _inside(passes: Passes, stages: PipelineStages, setup: Setup, stage: int, order: Sequence[MicrobatchPass]) -> None:
    """What the passes of a stage exchange within tensor groups and with experts, before one of the next passes."""
    first = f"update{stage + 1}" if setup.update else _name(order[0])
    hidden = 1 + (setup.schedule == "dualpipe")
    for one, following in zip(order, (*map(_name, order[hidden:]), first, first), strict=False):
        name = _name(one)
        after: tuple[str, ...] = ()
        for exchange in _exchanges(stages, setup, one.part, one.backward):
            passes.exchange(
                f"{name}.{exchange.name}",
                exchange.kind, exchange.elements, name, following, exchange.dimensions, model=True, after=after,
            )  # fmt: skip
            after = (f"{name}.{exchange.name}",)


def _exchanges(stages: PipelineStages, setup: Setup, part: int, backward: bool) -> list[PassExchange]:
    """In this order; without those that are empty."""
    layers, first, placement = stages.layers[part], stages.layers[0][0], stages.placement
    samples, again = Fraction(setup.batch // setup.microbatches, setup.context or 1), int(backward and setup.repeats)
    summed = sum(layer.outputs * (again or not backward) for layer in layers if layer.sharded)
    summed += sum(layer.inputs for layer in layers if layer.sharded and backward and layer is not first)
    kind = CollectiveKind.ALL_TO_ALL
    exchanges = [
        PassExchange("summed", CollectiveKind.ALL_REDUCE, ceil(samples * summed), placement.dimensions["model"]),
        *_context(stages, setup, part, backward),
    ]
    sent = [tokens_sent(layer, placement.sizes["experts"]) for layer in layers]
    for dimension, elements in zip(placement.dimensions["experts"], map(sum, zip(*sent, strict=True)), strict=True):
        share = ceil(samples * elements * (2 + again) / (setup.group or 1))  # there, back, and there again
        exchanges.append(PassExchange(f"tokens_{dimension}", kind, share, (dimension,)))
    return [one for one in exchanges if one.elements and one.dimensions]


def _context(stages: PipelineStages, setup: Setup, part: int, backward: bool) -> Iterator[PassExchange]:
    """Keys and values of all tokens before both passes, and their gradients behind the backward one."""
    samples, along = setup.batch // setup.microbatches, stages.placement.dimensions["context"]
    elements = -(-samples * sum(layer.context for layer in stages.layers[part]) // (setup.group or 1))
    yield PassExchange("keys", CollectiveKind.ALL_GATHER, elements, along)
    if backward:
        yield PassExchange("key_gradients", CollectiveKind.REDUCE_SCATTER, elements, along)


def _parameters(passes: Passes, stages: PipelineStages, setup: Setup, order: Sequence[MicrobatchPass]) -> None:
    """With ZeRO stage 3 the parameters of a part before each of its passes, while the pass before that runs.

    Those of the first passes are there once the gradients of the iteration before are reduced.
    """
    if setup.zero != 3 or setup.gathers == "step":
        return
    stage = stages.stage_of[order[0].part]
    for number, one in enumerate(order):
        ready, after = _name(order[number - 2]), tuple[str, ...]()
        if number < 2 or (one.microbatch, one.backward) == (0, False):
            last = _name(MicrobatchPass(one.part, setup.microbatches - 1, True))
            ready = f"update{stage + 1}" if setup.update else last
            names = [tensor.name for tensor in passes.tensors if tensor.name.startswith(f"stage{one.part + 1}.")]
            after = () if setup.update else tuple(name for name in names if name.endswith("gradients"))
        sums = map(sum, zip(*(elements_of(layer, setup) for layer in stages.layers[one.part]), strict=True))
        for what, elements, axes in zip(("expert_", ""), sums, (("data",), ("experts", "data")), strict=True):
            name, along = f"{_name(one)}.{what}parameters", stages.replicas(*axes)
            passes.exchange(
                name, CollectiveKind.ALL_GATHER, elements, ready, _name(one), along, after=after, freed_after=_name(one)
            )


def _messages(passes: Passes, stages: PipelineStages, setup: Setup) -> None:
    """Activations to the next part, and their gradients back, divided among the NPUs of a tensor group.

    Parts that follow each other on one stage send nothing.
    """
    hops = [part for part, (one, other) in enumerate(pairwise(stages.stage_of)) if one != other]
    for microbatch in range(setup.microbatches):
        for part in hops:
            outputs = -(-stages.layers[part][-1].outputs // sharing(setup))
            elements = setup.batch // setup.microbatches * outputs
            for backward in (False, True):
                ends = [_name(MicrobatchPass(number, microbatch, backward)) for number in (part, part + 1)]
                ready, needed = reversed(ends) if backward else ends
                name = f"{ready}.{'error' if backward else 'output'}"
                inside = _exchanges(stages, setup, part + backward, backward)
                after = tuple(f"{ready}.{exchange.name}" for exchange in inside[-1:])
                along = stages.link(*stages.stage_of[part : part + 2])
                passes.exchange(name, CollectiveKind.SEND, elements, ready, needed, along, model=True, after=after)


def _gradients(passes: Passes, stages: PipelineStages, setup: Setup) -> None:
    for part, layers_of_part in enumerate(stages.layers):
        parts = {"": layers_of_part}
        if setup.granularity != "fused":
            parts = {f".{layer.name}": (layer,) for layer in reversed(layers_of_part)}
        for name, layers in parts.items():
            experts, others = (sum(part) for part in zip(*(elements_of(layer, setup) for layer in layers), strict=True))
            prefix = f"stage{part + 1}{name}"
            _reduced(passes, stages, setup, part, f"{prefix}.gradients", others, stages.replicas("experts", "data"))
            _reduced(passes, stages, setup, part, f"{prefix}.expert_gradients", experts, stages.replicas("data"))


def _reduced(
    passes: Passes,
    stages: PipelineStages,
    setup: Setup,
    part: int,
    name: str,
    elements: int,
    dimensions: tuple[str, ...],
) -> None:
    """An all-reduce of gradients; with ZeRO a reduce-scatter, and an all-gather of the parameters after it."""
    ready, needed = _name(MicrobatchPass(part, setup.microbatches - 1, True)), _name(MicrobatchPass(part, 0, False))
    updated = f"update{stages.stage_of[part] + 1}" if setup.update else needed
    kind = CollectiveKind.REDUCE_SCATTER if setup.zero else CollectiveKind.ALL_REDUCE
    passes.exchange(name, kind, elements, ready, updated, dimensions)
    if setup.zero and (setup.zero < 3 or setup.gathers == "step"):
        gathered, after = name.replace("gradients", "parameters"), () if setup.update else (name,)
        ready = updated if setup.update else ready
        passes.exchange(gathered, CollectiveKind.ALL_GATHER, elements, ready, needed, dimensions, after=after)

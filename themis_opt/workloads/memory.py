"""What training holds on one NPU at least, and what would fit where that is too much.

Parameters and gradients have the type of the training.  Adam keeps momentum and variance in FP32, beside a copy of the
parameters in mixed precision (S. Rajbhandari et al., *ZeRO*, https://arxiv.org/abs/1910.02054, section 3.1).
Activations are the inputs of all layers, which the backward pass needs with and without recomputation.  More is kept:
where parameters are fully sharded, all that layers say, less what selective recomputation makes again, or with
recomputation that of one.
Tensor groups keep them whole on each NPU (M. Shoeybi et al., https://arxiv.org/abs/1909.08053); with sequence
parallelism, and beside pipelines, the NPUs of a group divide them, and those that divide a sequence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_short_size
from themis_opt.problem.iteration import Iteration
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.microbatch_orders import most_kept, passes_by_stage
from themis_opt.workloads.pipeline import PipelineStages, elements_of, pipeline_stages
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import memory_of

MakeIteration = Callable[[str, Setup], Iteration]  # makes the iteration of a parallelism


@dataclass(frozen=True)
class MemoryUse:
    """Bytes on one NPU: of parameters, gradients and the states of Adam, and of activations at least.

    `divided`: NPUs that divide the activations of the same tokens.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int = 0
    divided: int = 1

    @property
    def states(self) -> int:
        """Bytes of all but activations."""
        return self.parameters + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        """All bytes."""
        return self.states + self.activations

    def rows(self, setup: Setup) -> list[dict[str, Any]]:
        """Each part in bytes, with what it holds."""
        kind = "FP32" if setup.element_bytes == 4 else "16 bits"
        share = f", divided by {self.divided} NPUs" if self.divided > 1 else ", whole on each NPU"
        parts = {
            "parameters": (self.parameters, kind),
            "gradients": (self.gradients, f"{kind}, as they are exchanged and accumulated"),
            "Adam": (self.optimizer, "momentum and variance in FP32" + (", FP32 parameters" * (kind != "FP32"))),
            "activations": (self.activations, f"{kind}, at least{share}"),
        }
        return [{"part": part, "bytes": size, "content": content} for part, (size, content) in parts.items()]


def memory_use(layers: Sequence[Layer], setup: Setup, parallelism: str, make: MakeIteration) -> MemoryUse:
    """What the NPU holds that holds most; `make` makes the iteration."""
    if parallelism == "pipeline":
        return max(use_by_stage(tuple(layers), setup), key=lambda use: use.total)
    elements = sum(task.parameter_bytes for task in make(parallelism, setup).tasks) // setup.element_bytes
    zero = 1 if parallelism == "zero1" else setup.zero
    all_npus = setup.network.num_npus  # a group of them holds a copy of the model together, each all samples
    usual = {"hybrid": setup.network.sizes[0], "sequence": setup.network.sizes[0], "tensor": all_npus}
    group = (setup.group or usual[parallelism]) if parallelism in usual else 1
    kept = sum(layer.inputs for layer in layers) if setup.local_blocks == 1 and parallelism in WHOLE_SAMPLES else 0
    if parallelism in ("fsdp", "hsdp"):
        every = sum(map(setup.kept, layers))
        kept = every + max(layer.kept for layer in layers) if setup.recompute else every
    shares = group if parallelism == "sequence" else 1
    use = _states(elements, all_npus // group, setup, zero)
    whole = setup.element_bytes * sum(layer.elements() for layer in layers)
    if setup.accumulate > 1 and parallelism in ("fsdp", "hsdp"):  # gradients stay whole until the last step
        use = replace(use, gradients=whole, parameters=whole if setup.gathers == "step" else use.parameters)
    return replace(use, activations=setup.batch * kept * setup.element_bytes // shares, divided=shares)


WHOLE_SAMPLES = ("data", "tensor", "hybrid", "expert", "sequence", "zero1", "fsdp", "hsdp", "daso")
"""Parallelisms in which the NPUs of a copy of the model keep the inputs of all layers for the whole batch."""


def check_memory(layers: Sequence[Layer], setup: Setup, parallelism: str, make: MakeIteration) -> None:
    """Refuse a training that does not fit.

    Raises InputError if one NPU holds more than `setup.memory`; it says what would fit.
    """
    if setup.memory is None or parallelism == "out-of-core":  # which chooses what stays
        return
    use = memory_use(layers, setup, parallelism, make)
    goes_to_host = parallelism == "pipeline" and setup.host_link is not None  # as the order of microbatches decides
    if (use.states if goes_to_host else use.total) <= setup.memory:
        return
    fits = list(_what_fits(layers, setup, parallelism, make))
    advice = f"use {', or '.join(fits)}" if fits else "no stages, tensor groups or shards on this network are enough"
    rule = (
        f"parameters, gradients and Adam states of one NPU take {format_short_size(use.states)}, "
        f"activations {format_short_size(use.activations)} at least: {advice}"
    )
    usual = setup.memory == memory_of(setup.device)
    value = format_short_size(setup.memory) + (f" of a {setup.device}" if usual else "")
    raise InputError(rule, field="--memory", value=value)


def _states(elements: int, copies: int, setup: Setup, zero: int) -> MemoryUse:
    bytes_of_adam = 8 if setup.element_bytes == 4 else 12
    shares = [copies if zero > stage else 1 for stage in (2, 1, 0)]
    sizes = (setup.element_bytes, setup.element_bytes, bytes_of_adam)
    return MemoryUse(*(elements * size // share for size, share in zip(sizes, shares, strict=True)))


def use_by_stage(layers: tuple[Layer, ...], setup: Setup) -> Iterator[MemoryUse]:
    """What an NPU of each stage of a pipeline holds."""
    parts, count = pipeline_stages(layers, setup), setup.stages or 1
    group, context, experts = setup.group or 1, setup.context or 1, setup.experts or 1
    copies = setup.network.num_npus // (group * count)
    samples, divided = setup.batch // setup.microbatches, group * context
    inputs = [samples * sum(layer.inputs for layer in part) * setup.element_bytes // divided for part in parts.layers]
    orders = passes_by_stage(count, setup.virtual_stages, setup.microbatches, setup.schedule)
    for stage, order in enumerate(orders):
        held = [layer for part in _parts_of(parts, stage) for layer in part]
        elements = [sum(part) for part in zip(*(elements_of(layer, setup) for layer in held), strict=True)]
        shares = zip(elements, (copies // experts, copies), strict=True)
        uses = [_states(number, least, setup, setup.zero) for number, least in shares]
        whole = 0
        if setup.zero == 3:  # while they are used, or for the whole step
            sums = (sum(map(sum, (elements_of(layer, setup) for layer in part))) for part in _parts_of(parts, stage))
            whole = setup.element_bytes * (sum if setup.gathers == "step" else max)(sums)
        yield MemoryUse(
            whole + sum(use.parameters for use in uses), sum(use.gradients for use in uses),
            sum(use.optimizer for use in uses), most_kept(order, inputs), divided,
        )  # fmt: skip


def _parts_of(parts: PipelineStages, stage: int) -> Iterator[tuple[Layer, ...]]:
    return (part for part, place in zip(parts.layers, parts.stage_of, strict=True) if place == stage)


def _what_fits(layers: Sequence[Layer], setup: Setup, parallelism: str, make: MakeIteration) -> Iterator[str]:
    """Options that make it fit, the smallest numbers of each kind."""
    powers = [2**power for power in range(1, setup.network.num_npus.bit_length())]
    grouped = parallelism if parallelism in ("pipeline", "sequence", "hsdp") else "hybrid"
    inside = setup.network.sizes[0]
    ungrouped = " without --tensor-group" if setup.group else ""
    again: dict[str, Any] = {"recompute": True, "group": None}
    families: list[list[tuple[str, str, dict[str, Any]]]] = [
        [(f"--zero {zero}", parallelism, {"zero": zero}) for zero in (1, 2) if zero > setup.zero],
        [(f"--stages {stages}", "pipeline", {"stages": stages}) for stages in powers],
        [(f"--tensor-group {group}", grouped, {"group": group}) for group in powers],
        [(ungrouped, "fsdp", {"group": None}), (f"--recompute{ungrouped}", "fsdp", again)],
    ]
    smaller = (2**power for power in reversed(range((setup.batch - 1).bit_length())))
    families.append([(f"--batch {batch}", parallelism, {"batch": batch}) for batch in smaller])
    if parallelism == "hsdp":
        families.append([("--recompute", parallelism, {"recompute": True})])
    for option, name in (("--tensor-group", "group"), ("--experts", "experts")):
        if getattr(setup, name) != inside:  # else the stages above have it
            sizes = {name: inside}
            families.append([(f"{option} {inside} --stages {s}", "pipeline", sizes | {"stages": s}) for s in powers])
    for choices in families:
        for words, kind, changes in choices:
            if _fits(layers, kind, setup, changes, make):
                yield f"{'' if kind == parallelism else f'--parallelism {kind} '}{words.strip()}".strip()
                break


def _fits(
    layers: Sequence[Layer], parallelism: str, setup: Setup, changes: dict[str, Any], make: MakeIteration
) -> bool:
    try:
        return memory_use(layers, replace(setup, **changes), parallelism, make).total <= (setup.memory or 0)
    except InputError:  # a choice that the network, the model or the parallelism does not have
        return False

r"""Pipeline parallelism: stages of layers on separate NPUs, microbatches that go through them, and copies beside.

The stages are contiguous cuts of the layers that make the longest stage as short as can be, by dynamic programming over
layers and stages, :math:`O(L^2 s)`.  They lie along the outermost dimension: a group of NPUs holds each, and
data-parallel copies lie along what is left.  An iteration has m microbatches, forward and backward through s stages.
``gpipe`` runs all forward passes of a stage and then the backward ones (Y. Huang et al.,
https://arxiv.org/abs/1811.06965), ``1f1b`` one backward pass after every forward pass as soon as it can, with at most
s - k microbatches under way in stage k = 0, 1, ... (D. Narayanan et al., https://arxiv.org/abs/2104.04473).
Activations and their gradients are sent between neighbouring stages; gradients of the weights are all-reduced between
the copies of a stage after its last microbatch and needed before its first one of the next iteration.

With equal stages that take t for a microbatch in both directions and messages that take no time, an iteration takes
:math:`(m + s - 1) t` with both schedules; with stages that are not equal it is at least :math:`m t_k` and one pass in
both directions of the stages before, for every stage k.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import MAX_PIPELINE_STAGES, Iteration, Split
from themis_opt.problem.phases import CollectiveKind
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.passes import Passes
from themis_opt.workloads.setup import MicrobatchSchedule, Setup


@dataclass(frozen=True)
class PipelineStages:
    """A pipeline on a network."""

    layers: tuple[tuple[Layer, ...], ...]
    along: str  # dimension of the messages between stages
    across: tuple[str, ...]  # dimensions of the exchange of gradients between copies of a stage
    splits: tuple[Split, ...]  # the outermost dimension, where it is divided between stages and copies


def pipeline(layers: tuple[Layer, ...], setup: Setup) -> Iteration:
    """The iteration of a model in stages; `setup.batch` samples of each copy, in `setup.microbatches` parts."""
    stages = pipeline_stages(layers, setup)
    passes = Passes(setup.element_bytes)
    for stage in range(len(stages.layers) if setup.update else 0):
        passes.compute(f"update{stage + 1}", setup.optimizer, stage=stage)
    for stage, microbatch, backward in in_order(len(stages.layers), setup.microbatches, setup.schedule):
        _compute(passes, stages, setup, stage, microbatch, backward)
    _messages(passes, stages, setup)
    _gradients(passes, stages, setup)
    return passes.iteration(stages.splits)


def balanced(weights: Sequence[int], parts: int) -> tuple[int, ...]:
    """Ends of contiguous parts, at least one item each, of which the heaviest weighs least."""
    total = [0]
    for weight in weights:
        total.append(total[-1] + weight)
    count = len(weights)
    best = [[max(total) + 1] * (count + 1) for _ in range(parts + 1)]
    cut = [[0] * (count + 1) for _ in range(parts + 1)]
    best[0][0] = 0
    for part in range(1, parts + 1):
        for end in range(part, count + 1):
            for begin in range(part - 1, end):
                heaviest = max(best[part - 1][begin], total[end] - total[begin])
                if heaviest < best[part][end]:
                    best[part][end], cut[part][end] = heaviest, begin
    ends = [count]
    for part in range(parts, 1, -1):
        ends.append(cut[part][ends[-1]])
    return tuple(reversed(ends))


def in_order(stages: int, microbatches: int, schedule: MicrobatchSchedule) -> Iterator[tuple[int, int, bool]]:
    """Stage, microbatch and direction of all passes, each after those that it waits for.

    The third value is true for a backward pass.
    """
    passes = [list(_passes_of(stages - stage, microbatches, schedule)) for stage in range(stages)]
    done: set[tuple[int, int, bool]] = set()
    while any(passes):
        for stage, waiting in enumerate(passes):
            while waiting:
                microbatch, backward = waiting[0]
                before = (stage + 1, microbatch, True) if backward else (stage - 1, microbatch, False)
                if 0 <= before[0] < stages and before not in done:
                    break
                done.add((stage, microbatch, backward))
                yield stage, *waiting.pop(0)


def _passes_of(depth: int, microbatches: int, schedule: MicrobatchSchedule) -> Iterator[tuple[int, bool]]:
    """Passes of the stage that is `depth` - 1 stages before the last one."""
    ahead = min(depth, microbatches) if schedule == "1f1b" else microbatches
    yield from ((microbatch, False) for microbatch in range(ahead))
    for microbatch in range(microbatches):
        yield microbatch, True
        if microbatch + ahead < microbatches:
            yield microbatch + ahead, False


def _check(layers: tuple[Layer, ...], setup: Setup) -> None:
    if setup.stages is None:
        raise InputError("is required for pipeline", field="--stages")
    if not 2 <= setup.stages <= min(len(layers), MAX_PIPELINE_STAGES):
        rule = f"must be 2 or more, and at most the {min(len(layers), MAX_PIPELINE_STAGES)} that the layers make"
        raise InputError(rule, field="--stages", value=setup.stages)
    if setup.batch % setup.microbatches:
        rule = f"must divide the batch of {setup.batch}"
        raise InputError(rule, field="--microbatches", value=setup.microbatches)
    if any(layer.kind == "table" for layer in layers):
        raise InputError("is not for models with tables", field="--parallelism", value="pipeline")


def pipeline_stages(layers: tuple[Layer, ...], setup: Setup) -> PipelineStages:
    """Stages of nearly equal time along the outermost dimension. Raises InputError where there can be none."""
    _check(layers, setup)
    count, network = setup.stages or 1, setup.network
    outermost, size = network.dimension_names[-1], network.sizes[-1]
    if size % count:
        rule = f"must divide the size of the outermost dimension, {size}"
        raise InputError(rule, field="--stages", value=count)
    weights = [sum(time for _, time in setup.times(layer)) for layer in layers]
    ends = (0, *balanced(weights, count))
    parts = tuple(layers[begin:end] for begin, end in pairwise(ends))
    inside = network.dimension_names[:-1]
    if size == count:
        return PipelineStages(parts, outermost, inside, ())
    halves = (f"{outermost}_data", f"{outermost}_stages")
    split = Split(dimension=outermost, sizes=(size // count, count), names=halves, shared=setup.shared)
    return PipelineStages(parts, halves[1], (*inside, halves[0]), (split,))


def _name(stage: int, microbatch: int, backward: bool) -> str:
    return f"stage{stage + 1}.{'backward' if backward else 'forward'}{microbatch + 1}"


def _compute(passes: Passes, stages: PipelineStages, setup: Setup, stage: int, microbatch: int, backward: bool) -> None:
    """One task for all layers of a stage in one direction; the first layer of all needs no gradient of its inputs."""
    time = 0
    for layer in stages.layers[stage]:
        times = setup.times(layer)
        if not backward:
            time += times.forward
            continue
        time += times.weight_gradient + (times.forward if setup.recompute else 0)
        if layer is not stages.layers[0][0]:
            time += times.input_gradient
    kept = sum(layer.elements() for layer in stages.layers[stage]) if (microbatch, backward) == (0, False) else 0
    passes.compute(_name(stage, microbatch, backward), round(Fraction(time, setup.microbatches)), kept, stage)


def _messages(passes: Passes, stages: PipelineStages, setup: Setup) -> None:
    """Activations to the next stage, and their gradients back."""
    for microbatch in range(setup.microbatches):
        for stage in range(len(stages.layers) - 1):
            elements = setup.batch // setup.microbatches * stages.layers[stage][-1].outputs
            for backward in (False, True):
                ends = [_name(number, microbatch, backward) for number in (stage, stage + 1)]
                ready, needed = reversed(ends) if backward else ends
                name = f"{ready}.{'error' if backward else 'output'}"
                passes.exchange(name, CollectiveKind.SEND, elements, ready, needed, (stages.along,), model=True)


def _gradients(passes: Passes, stages: PipelineStages, setup: Setup) -> None:
    """All-reduces of the gradients of each stage between its copies."""
    for stage, layers_of_stage in enumerate(stages.layers):
        ready = _name(stage, setup.microbatches - 1, backward=True)
        needed = f"update{stage + 1}" if setup.update else _name(stage, 0, backward=False)
        parts = {"": layers_of_stage}
        if setup.granularity != "fused":
            parts = {f".{layer.name}": (layer,) for layer in reversed(layers_of_stage)}
        for name, layers in parts.items():
            elements = sum(layer.elements() for layer in layers)
            passes.exchange(
                f"stage{stage + 1}{name}.gradients", CollectiveKind.ALL_REDUCE, elements, ready, needed, stages.across
            )

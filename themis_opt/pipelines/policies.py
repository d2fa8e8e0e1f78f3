"""Orders that are in use: GPipe, 1F1B, interleaved 1F1B, and schedules with hardly a bubble.

GPipe: Y. Huang et al. (https://arxiv.org/abs/1811.06965).  1F1B: D. Narayanan et al., PipeDream
(https://arxiv.org/abs/1806.03377).  Interleaved: D. Narayanan et al., Megatron-LM (https://arxiv.org/abs/2104.04473,
section 2.2).  Zero bubble: P. Qi et al. (https://arxiv.org/abs/2401.10241) and, for two parts in a V,
https://arxiv.org/abs/2405.15362; theirs are made by rules for each network, these by one rule: a stage that is free
prefers gradients of inputs, then forward passes while microbatches are few, then gradients of weights.  The reference
also tries that with the microbatch first that has the longest way to go, less some patience for each one before it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from themis_opt.base.errors import InputError
from themis_opt.base.registries import Registry
from themis_opt.pipelines.priorities import greedy
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders
from themis_opt.workloads.microbatch_orders import in_turn, numbered, passes_by_stage, v_steps

PipelinePolicy = Callable[[Pipeline], StageOrders]


def gpipe(pipeline: Pipeline) -> StageOrders:
    """All forward passes, then all backward ones; the last part first where a stage has several."""
    return tuple(
        (
            *(Action(ActionKind.FORWARD, part, i) for part in parts for i in range(pipeline.microbatches)),
            *(Action(ActionKind.BACKWARD, q, i) for q in reversed(parts) for i in range(pipeline.microbatches)),
        )
        for parts in pipeline.parts_of
    )


def one_forward_one_backward(pipeline: Pipeline) -> StageOrders:
    """As many forward passes as stages follow, then one backward and one forward in turn."""
    _expect(pipeline, pipeline.parts == 1, "1f1b", "one part on each stage")
    return _whole_passes(pipeline)


def interleaved(pipeline: Pipeline) -> StageOrders:
    """1F1B over groups of as many microbatches as stages, which pass all parts of a stage in turn."""
    _expect(
        pipeline,
        pipeline.placement == "interleaved" and pipeline.parts > 1,
        "interleaved",
        "several parts on each stage",
    )
    _expect(
        pipeline, pipeline.microbatches % pipeline.stages == 0, "interleaved", "microbatches in multiples of the stages"
    )
    return _whole_passes(pipeline)


def _whole_passes(pipeline: Pipeline) -> StageOrders:
    orders = passes_by_stage(pipeline.stages, pipeline.parts, pipeline.microbatches, "1f1b")
    kinds = (ActionKind.FORWARD, ActionKind.BACKWARD)
    return tuple(tuple(Action(kinds[one.backward], one.part, one.microbatch) for one in order) for order in orders)


def _expect(pipeline: Pipeline, holds: bool, policy: str, rule: str) -> None:
    if not holds:
        raise InputError(f"is for pipelines with {rule}", field="policy", value=policy)


def zb1p(pipeline: Pipeline) -> StageOrders:
    """1F1B whose stages put gradients of weights off by as many microbatches as stages come before: ZB-H1."""
    _expect(pipeline, pipeline.parts == 1, "zb1p", "one part on each stage")
    orders = []
    for stage in range(pipeline.stages):
        forward, backward = (
            [Action(kind, stage, i) for i in range(pipeline.microbatches)]
            for kind in (ActionKind.FORWARD, ActionKind.BACKWARD)
        )
        orders.append(tuple(_halved(pipeline, in_turn(forward, backward, pipeline.stages - stage - 1), stage)))
    return tuple(orders)


def _halved(pipeline: Pipeline, order: Iterable[Action], delay: int) -> Iterator[Action]:
    """Run only the first half of backward passes, and the second one so many of them later."""
    if not pipeline.split:
        yield from order
        return
    waiting: deque[Action] = deque()
    for action in order:
        if action.kind is ActionKind.FORWARD:
            yield action
            continue
        yield action._replace(kind=ActionKind.INPUTS)
        waiting.append(action._replace(kind=ActionKind.WEIGHTS))
        if len(waiting) > delay:
            yield waiting.popleft()
    yield from waiting


def zb2p(pipeline: Pipeline) -> StageOrders:
    """Twice as many microbatches: hardly a bubble."""
    return greedy(pipeline, 2 * pipeline.stages - 1)


def zbv(pipeline: Pipeline) -> StageOrders:
    """Two parts of each stage in a V: the memory of 1F1B and no bubble where passes take equally long."""
    return _in_a_v(pipeline, "zbv", v_steps)


def dualpipe(pipeline: Pipeline) -> StageOrders:
    """Forward passes down the V beside backward ones up, and the other way round: DualPipe with one copy of the model.

    The order is that of DualPipeV (https://github.com/deepseek-ai/DualPipe, ``dualpipev.py``), whose stages exchange
    for one pass while they run the other.
    """
    return _in_a_v(pipeline, "dualpipe", _dualpipe_steps)


def _in_a_v(
    pipeline: Pipeline, policy: str, steps: Callable[[int, int, int], Iterator[tuple[str, int]]]
) -> StageOrders:
    _expect(pipeline, pipeline.placement == "v" and pipeline.parts == 2, policy, "two parts on each stage in a v")
    kinds, microbatches = dict(zip("FIW", pipeline.kinds, strict=False)), pipeline.microbatches
    return tuple(
        tuple(
            Action(kinds[kind], parts[turn], i)
            for kind, turn, i in numbered(steps(stage, pipeline.stages, microbatches), microbatches)
            if kind in kinds
        )
        for stage, parts in enumerate(pipeline.parts_of)
    )


def _dualpipe_steps(stage: int, stages: int, microbatches: int) -> Iterator[tuple[str, int]]:
    """As :func:`themis_opt.workloads.microbatch_orders.v_steps`."""
    ahead, behind = stage + 1, stages - stage - 1
    down, up = ((("I", turn), ("W", turn)) for turn in (0, 1))
    yield from [("F", 0)] * (2 * behind)
    yield from [("F", 0), ("F", 1)] * ahead
    yield from [*up, ("F", 1)] * behind
    yield from [("F", 0), *up, ("F", 1), *down] * (max(microbatches - 2 * stages, 0) + ahead)
    yield from [*up, ("F", 1), *down] * behind
    for number in range(2 * ahead):  # the second half puts its gradients of weights off
        yield from (down if number % 2 else up)[: None if number < ahead else 1]
    late = [("W", 1 - number % 2) for number in range(ahead, 2 * ahead)] + [("W", 0)] * behind
    for number in range(behind):
        yield from (late[number], ("I", 0))
    yield from late[behind:]


PIPELINE_POLICIES: Mapping[str, PipelinePolicy] = Registry(
    "themis_opt.pipeline_policies",
    {
        "gpipe": gpipe,
        "1f1b": one_forward_one_backward,
        "interleaved": interleaved,
        "zb1p": zb1p,
        "zb2p": zb2p,
        "zbv": zbv,
        "dualpipe": dualpipe,
    },
)
"""The orders that are compared; other packages add to them by entry points."""

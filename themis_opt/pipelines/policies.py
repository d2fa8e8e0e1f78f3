"""Orders that are in use: GPipe, 1F1B, interleaved 1F1B, and schedules with hardly a bubble.

GPipe: Y. Huang et al. (https://arxiv.org/abs/1811.06965).  1F1B: D. Narayanan et al., PipeDream
(https://arxiv.org/abs/1806.03377).  Interleaved: D. Narayanan et al., Megatron-LM (https://arxiv.org/abs/2104.04473,
section 2.2).  Zero bubble: P. Qi et al. (https://arxiv.org/abs/2401.10241) and, for two parts in a V,
https://arxiv.org/abs/2405.15362; theirs are made by rules for each network, these by one rule: a stage that is free
prefers gradients of inputs, then forward passes while microbatches are few, then gradients of weights.  The reference
also tries that with the microbatch first that has the longest way to go, less some patience for each one before it.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from themis_opt.base.errors import InputError
from themis_opt.base.registries import Functions
from themis_opt.pipelines.priorities import greedy
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders
from themis_opt.workloads.microbatch_orders import in_turn, passes_by_stage

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
    return put_off(pipeline, 1.0)


def put_off(pipeline: Pipeline, ahead: float, most: int | None = None) -> StageOrders:
    """1F1B with `ahead` times as many forward passes before the first backward one, of `most` microbatches at most.

    Gradients of weights wait as long as a stage may keep a microbatch more.
    """
    most = pipeline.stages if most is None else most
    orders = []
    for stage in range(pipeline.stages):
        forward, backward = (
            [Action(kind, stage, i) for i in range(pipeline.microbatches)]
            for kind in (ActionKind.FORWARD, ActionKind.BACKWARD)
        )
        early = min(round(ahead * (pipeline.stages - stage - 1)), most - 1)
        orders.append(tuple(_halved(pipeline, in_turn(forward, backward, early), most - early - 1)))
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
    """Two parts of each stage in a V: the memory of 1F1B and no bubble where passes take equally long.

    The order is that of the paper.  Microbatches that it needs to fill a short pipeline are left out at the end.
    """
    _expect(pipeline, pipeline.placement == "v" and pipeline.parts == 2, "zbv", "two parts on each stage in a v")
    return tuple(tuple(_numbered(pipeline, stage, _zbv_steps(pipeline, stage))) for stage in range(pipeline.stages))


def _zbv_steps(pipeline: Pipeline, stage: int) -> Iterator[tuple[ActionKind, int]]:
    """Kinds and rounds (0 down the V, 1 up) of a stage in the order of the paper, counts of microbatches apart."""
    forward, back, *weights = pipeline.kinds
    behind, whole = pipeline.stages - stage, (back, *weights)
    down, up = (tuple((kind, turn) for kind in whole) for turn in (0, 1))
    microbatches = max(pipeline.microbatches, 2 * pipeline.stages - 1)
    yield from [(forward, 0)] * (2 * behind - 1)
    yield from [(forward, 1), (forward, 0)] * stage
    yield from [(forward, 1), *up] * behind
    for number in range(pipeline.stages, microbatches):
        if number + behind <= microbatches:
            yield forward, 0
        yield from (*down, (forward, 1), *up)
    yield from [(back, 0), (back, 1)] * stage
    yield from down * behind
    yield from [(kind, turn) for turn in (1, 0) for kind in weights] * stage


def _numbered(pipeline: Pipeline, stage: int, steps: Iterable[tuple[ActionKind, int]]) -> Iterator[Action]:
    """The i-th of equal steps is that of microbatch i, as far as there are microbatches."""
    numbers = Counter[tuple[ActionKind, int]]()
    for kind, turn in steps:
        if numbers[kind, turn] < pipeline.microbatches:
            yield Action(kind, pipeline.parts_of[stage][turn], numbers[kind, turn])
        numbers[kind, turn] += 1


PIPELINE_POLICIES: Mapping[str, PipelinePolicy] = Functions(
    "themis_opt.pipeline_policies",
    {
        "gpipe": gpipe,
        "1f1b": one_forward_one_backward,
        "interleaved": interleaved,
        "zb1p": zb1p,
        "zb2p": zb2p,
        "zbv": zbv,
    },
)
"""The orders that are compared; other packages add to them by entry points."""

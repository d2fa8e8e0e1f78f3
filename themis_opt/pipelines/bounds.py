r"""What no order of a pipeline can beat: heads and tails of all passes, and what a stage does between.

Steps and microbatches
    A step is a pass through one part: forward, backward for inputs, for weights.  Let microbatch i of a step be the
    i-th that begins it, as in :mod:`formulations.microbatch_order`; results still come before they are needed.  A
    *head* is a time from the first pass of a stage s, or from the first one of all if the objective is the makespan,
    within which a pass cannot begin.  A *tail* is the same backward in time: what still goes by from the end of a
    pass to the end of s, or of all.  Steps that may come before the begin, or after the end, have none.

Rules for heads
    1. *path*: a pass begins after the one whose result it needs, and the message; messages to a part follow each other;
    2. *stage*: let x come before y on the way of a microbatch, both on one stage.  Before y begins with i, all steps
       from x to y have run for microbatches j to i, but for y with i itself.  None of them began before x did with j,
       and they share the stage: y begins with i no earlier than x with j, and the time of all these.  With x = y,
       this says that microbatches follow each other;
    3. *memory*: where only k microbatches fit, the n-th forward pass of a stage, of whatever part, begins after n - k
       passes have ended that give memory back.  Sorted heads bound the n-th of these from below, since if n of them
       had begun before the n-th smallest head, one would have begun before its own.  Microbatch i of the t-th part of
       a stage is at least the (t i)-th forward pass there.  Activations that go to the host give memory back as well,
       one after the other from the end of the first forward pass on: n - k of all these times have to come before.

Tails follow the same rules, in which passes that give memory back wait for forward passes.

Bound
    A stage needs at least what one machine needs for its passes with their heads and tails that may interrupt its
    work (J. Carlier, 1982, https://doi.org/10.1016/S0377-2217(82)80007-6): it always runs the pass of the longest
    tail which is ready.  It is computed for passes as they are, and for the n-th pass of each kind, of whatever part,
    with the heads and tails of (3) and the shortest duration; what longer ones take beyond it may run at any time.
    Between the first and the last pass of a stage lie passes of other stages, too: those with a head and a tail.  The
    same machine of any of these stages bounds the period: one stage may fill late, and another one drain last.  So does
    a link on which messages wait for each other, each between the passes that send and receive it.

Where parts of a stage take unequally long, that beyond is much, and a sum says more:

*Filling and draining.*  Let :math:`q_0` be the first and :math:`q_1` the last part of a stage, :math:`P` its
work.  No backward pass of the stage begins before a microbatch has gone to the end of the model and back to
:math:`q_1`, in :math:`D` at least (:meth:`~themis_opt.pipelines.problem.Pipeline.round_trip`).  Until then it runs
forward passes that fit into its memory, for :math:`u` at most, and waits for :math:`(D - u)^+`.  After the last
forward pass of :math:`q_1` that microbatch goes to the end and back, and through both halves of the backward pass, in
:math:`D' + b`.  Meanwhile the stage has backward passes of what it keeps, for :math:`v` at most, and waits for
:math:`(D' + b - v)^+`.  If not all forward passes fit into the memory, the last one begins after a backward pass has
ended, so that both waits add up; otherwise the larger one counts.  Before the first pass of a stage a microbatch
passes all parts before :math:`q_0`, which a makespan holds too.

*Memory over time.*  An activation that stays takes its bytes from its forward pass until it is back there, and one that
leaves takes them in both of these passes and both transfers of a time :math:`o`, at least; both keep gradients for
those of weights.  The sum of bytes times time is at most M T, the memory times the period.  If x of them leave, each of
which saves bytes times time of s at most, :math:`M T \ge A - x s`.  Transfers to the host take x o, between the first
forward pass and the return of the last one with its backward pass, c in all: :math:`x o \le T - c`.  So
:math:`T \ge (A o + s c) / (M o + s)`, or no activation leaves and :math:`T \ge A / M`.

So a stage waits until its first microbatch is back, but for forward passes that fit into its memory, and behind the
last one likewise; and a microbatch comes back no faster than all stages on its way can work.  With all passes of one
unit, S stages of one part and memory for S microbatches, the first stage waits :math:`S - 1` units, which is what
ZB-H1 of P. Qi et al., *Zero Bubble Pipeline Parallelism* (https://arxiv.org/abs/2401.10241, section 2) reaches.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.pipelines.problem import ActionKind, Pipeline

PartStep = tuple[ActionKind, int]  # a kind of action, and a part
RULE_ROUNDS = 3  # how often all rules are applied: the first round does not know yet what memory makes wait

MOST_STAGES = 16
"""Stages for which bounds of a period are computed, those with the most work; of equal ones the first wait longest."""

NEVER_BEFORE = -(1 << 60)  # head of a pass that may come before the begin


def bound(pipeline: Pipeline) -> int:
    """Picoseconds that any plan needs by the objective of the pipeline."""
    return max(bounds(pipeline))


def bounds(pipeline: Pipeline) -> Iterator[int]:
    """Bounds in picoseconds: that of filling and draining at once, then those of the stages with the most work."""
    stages = sorted(range(pipeline.stages), key=lambda stage: (-pipeline.work(stage), stage))
    yield max(bound(pipeline, stage) for bound in (_filling_and_draining, _memory_over_time) for stage in stages)
    if pipeline.objective == "period":
        for stage in stages[:MOST_STAGES]:
            heads, tails = _heads(pipeline, stage), _tails(pipeline, stage)
            others = (_one_machine(pipeline, other, heads, tails, inside=True) for other in stages if other != stage)
            yield max(_one_machine(pipeline, stage, heads, tails), _links(pipeline, heads, tails), *others)
        return
    heads, tails = _heads(pipeline), _tails(pipeline)
    yield _links(pipeline, heads, tails)
    yield from (_one_machine(pipeline, stage, heads, tails) for stage in stages)


@dataclass
class _Times:
    """Heads of all steps by microbatch, or tails from the last microbatch to the first.

    `pooled`: those of the n-th pass of a kind on a stage.
    """

    by_step: Mapping[PartStep, IntArray]
    pooled: dict[tuple[ActionKind, int], IntArray]


def _heads(pipeline: Pipeline, stage: int | None = None) -> _Times:
    """Heads from the first pass of a stage, or of all."""
    way = _way(pipeline, stage)
    before: dict[PartStep, list[PartStep]] = {step: [] for step in way}
    for one, following in pairwise(way):
        before[following].append(one)
    if pipeline.split:
        before |= {(ActionKind.WEIGHTS, part): [(ActionKind.INPUTS, part)] for part in range(pipeline.num_parts)}
    waiting = [(ActionKind.FORWARD, kind, fit) for kind, fit in _room(pipeline)]
    return _least_times(pipeline, before, waiting)


def _tails(pipeline: Pipeline, stage: int | None = None) -> _Times:
    """Tails to the end of the last pass of a stage, or of all."""
    first = 0 if stage is None else pipeline.parts_of[stage][0]
    way = [step for step in _way(pipeline)[::-1] if step[0] is ActionKind.FORWARD or step[1] >= first]
    ends = range(pipeline.num_parts) if stage is None else pipeline.parts_of[stage]
    before: dict[PartStep, list[PartStep]] = {}
    if pipeline.split:
        before |= {(ActionKind.WEIGHTS, part): [] for part in ends}
    before |= {step: [] for step in way}
    for one, following in pairwise(way):
        before[following].append(one)
    if pipeline.split:
        for part in ends:
            before[ActionKind.INPUTS, part].append((ActionKind.WEIGHTS, part))
    waiting = [(kind, ActionKind.FORWARD, fit) for kind, fit in _room(pipeline)]
    return _least_times(pipeline, before, waiting)


def _way(pipeline: Pipeline, stage: int | None = None) -> list[PartStep]:
    """The steps of a microbatch but for gradients of weights, from the first part of a stage on."""
    forward, back = pipeline.kinds[:2]
    first = 0 if stage is None else pipeline.parts_of[stage][0]
    parts = range(pipeline.num_parts)
    return [*((forward, part) for part in parts[first:]), *((back, part) for part in reversed(parts))]


def _room(pipeline: Pipeline) -> Iterator[tuple[ActionKind, int]]:
    """How many passes later a forward pass of a stage has to wait for the end of another one."""
    if pipeline.memory is None:
        return
    yield pipeline.kinds[1], pipeline.memory // pipeline.activation
    kept = -pipeline.change_of_memory(pipeline.kinds[-1])
    if pipeline.split and kept:
        yield ActionKind.WEIGHTS, pipeline.memory // kept


def _least_times(
    pipeline: Pipeline,
    before: Mapping[PartStep, Sequence[PartStep]],
    waiting: Sequence[tuple[ActionKind, ActionKind, int]],
) -> _Times:
    """Apply the rules to steps in an order in which none needs a later one; passes of a kind wait for another kind."""
    times = _Times({step: np.zeros(pipeline.microbatches, dtype=np.int64) for step in before}, {})
    links = {
        step: [(times.by_step[need], pipeline.duration(*need), _message(pipeline, need, step)) for need in needs]
        for step, needs in before.items()
    }
    blocks = {step: list(_blocks(pipeline, before, step)) for step in before}
    for _ in range(RULE_ROUNDS if waiting else 1):
        for step, row in times.by_step.items():
            for need, duration, message in links[step]:
                np.maximum(row, _in_turn(need + duration + message, message), out=row)
            for first, work in blocks[step]:
                whole = work + pipeline.duration(*step)
                np.maximum(row, _in_turn(times.by_step[first], whole) + work, out=row)
        for stage in range(pipeline.stages):
            _pool(pipeline, stage, times, waiting)
    return times


def _message(pipeline: Pipeline, one: PartStep, other: PartStep) -> int:
    return pipeline.message if pipeline.stage_of[one[1]] != pipeline.stage_of[other[1]] else 0


def _blocks(
    pipeline: Pipeline, before: Mapping[PartStep, Sequence[PartStep]], step: PartStep
) -> Iterator[tuple[PartStep, int]]:
    """Steps of the same stage on the way to a step, itself first, and the work from each to it."""
    stage = pipeline.stage_of[step[1]]
    yield step, 0
    needs = [(need, 0) for need in before[step]]
    for need, work in needs:  # which grow on the way
        if pipeline.stage_of[need[1]] == stage:
            work += pipeline.duration(*need)
            yield need, work
        needs += [(earlier, work) for earlier in before[need]]


def _in_turn(row: IntArray, duration: int) -> IntArray:
    """Times of passes that take a while and follow each other."""
    offsets = duration * np.arange(len(row))
    return np.maximum.accumulate(row - offsets) + offsets


def _pool(pipeline: Pipeline, stage: int, times: _Times, waiting: Iterable[tuple[ActionKind, ActionKind, int]]) -> None:
    """Sort the times of each kind on a stage, and let those wait that need memory."""
    parts = pipeline.parts_of[stage]
    unknown = np.full(pipeline.microbatches, NEVER_BEFORE)
    for kind in pipeline.kinds:
        rows = [times.by_step.get((kind, part), unknown) for part in parts]
        pooled = _in_turn(np.sort(np.concatenate(rows)), _shortest(pipeline, kind, stage))
        times.pooled[kind, stage] = np.maximum(pooled, times.pooled.get((kind, stage), pooled))
    for kind, need, fit in waiting:
        pooled, duration = times.pooled[kind, stage], _shortest(pipeline, kind, stage)
        ended = times.pooled[need, stage] + _shortest(pipeline, need, stage)
        if pipeline.offload is not None:
            away = pooled[0] + duration + pipeline.offload * np.arange(1, len(pooled) + 1)
            ended = np.sort(np.concatenate([ended, away]))[: len(pooled)]
        for part in parts if pipeline.offload is None else ():
            if (kind, part) in times.by_step and (need, part) in times.by_step:
                row, other = times.by_step[kind, part], times.by_step[need, part] + pipeline.duration(need, part)
                np.maximum(row[fit:], other[: max(len(other) - fit, 0)], out=row[fit:])
        np.maximum(pooled[fit:], ended[: max(len(ended) - fit, 0)], out=pooled[fit:])
        times.pooled[kind, stage] = pooled = _in_turn(pooled, duration)
        for turn, part in enumerate(parts, 1):
            step, behind = (kind, part), 1 if kind is ActionKind.WEIGHTS else turn
            if step in times.by_step:
                np.maximum(
                    times.by_step[step], pooled[behind - 1 :: behind][: pipeline.microbatches], out=times.by_step[step]
                )


def _shortest(pipeline: Pipeline, kind: ActionKind, stage: int) -> int:
    return min(pipeline.duration(kind, part) for part in pipeline.parts_of[stage])


def _one_machine(pipeline: Pipeline, stage: int, heads: _Times, tails: _Times, inside: bool = False) -> int:
    """What the passes of a stage take between their heads and tails, as they are and pooled, if interrupted.

    `inside`: those that lie between the first and the last pass of another stage alone.
    """
    passes, pooled, rest = list[tuple[int, int, int]](), list[tuple[int, int, int]](), pipeline.work(stage)
    for kind in pipeline.kinds:
        for step in ((kind, part) for part in pipeline.parts_of[stage]):
            if step in heads.by_step and step in tails.by_step:
                passes += _jobs(heads.by_step[step], tails.by_step[step], pipeline.duration(*step), inside)
        pooled += _jobs(heads.pooled[kind, stage], tails.pooled[kind, stage], _shortest(pipeline, kind, stage), inside)
    rest -= sum(work for _, _, work in pooled)
    return max(_interrupted(passes), _interrupted(pooled if inside else [*pooled, (0, 0, rest)]))


def _links(pipeline: Pipeline, heads: _Times, tails: _Times) -> int:
    """What messages take that wait for each other on a link, between the passes that send and receive them."""
    messages: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for one, other in pairwise(_way(pipeline)) if pipeline.messages_queue else ():
        if _message(pipeline, one, other) and one in heads.by_step and other in tails.by_step:
            sent = heads.by_step[one] + pipeline.duration(*one)
            left = tails.by_step[other] + pipeline.duration(*other)
            link = pipeline.stage_of[one[1]], pipeline.stage_of[other[1]]
            messages.setdefault(link, []).extend(_jobs(sent, left, pipeline.message, inside=True))
    return max(map(_interrupted, messages.values()), default=0)


def _jobs(heads: IntArray, tails: IntArray, work: int, inside: bool) -> list[tuple[int, int, int]]:
    """Head, tail and work of passes in a row, of those alone that have both if they are to lie inside."""
    pairs = zip(heads.tolist(), tails[::-1].tolist(), strict=True)
    return [(max(h, 0), max(t, 0), work) for h, t in pairs if not inside or (h >= 0 and t >= 0)]


def _interrupted(waiting: list[tuple[int, int, int]]) -> int:
    """The least time of one machine for work with heads and tails, if it may be interrupted."""
    waiting.sort(reverse=True)
    now = longest = 0
    ready: list[tuple[int, int]] = []
    while waiting or ready:
        now = now if ready else max(now, waiting[-1][0])
        while waiting and waiting[-1][0] <= now:
            _, tail, work = waiting.pop()
            heappush(ready, (-tail, work))
        negative, work = heappop(ready)
        done = min(work, waiting[-1][0] - now) if waiting else work
        now += done
        if done < work:
            heappush(ready, (negative, work - done))
        longest = max(longest, now - negative)
    return longest


def _filling_and_draining(pipeline: Pipeline, stage: int) -> int:
    """What a stage works, and waits while its memory fills and empties."""
    first, last = pipeline.parts_of[stage][0], pipeline.parts_of[stage][-1]
    there = pipeline.round_trip(first, last)
    filling = max(there - _most_work(pipeline, stage, pipeline.kinds[:1]), 0)
    return_trip = pipeline.round_trip(last, last) - pipeline.duration(ActionKind.FORWARD, last)
    back = return_trip + sum(pipeline.duration(kind, last) for kind in pipeline.kinds[1:])
    draining = max(back - _most_work(pipeline, stage, pipeline.kinds[1:]), 0)
    activations = pipeline.microbatches * pipeline.parts * pipeline.activation
    apart = pipeline.offload is None and (pipeline.memory or math.inf) < activations
    before = pipeline.round_trip(0, last) - pipeline.round_trip(first, last) if pipeline.objective == "makespan" else 0
    return before + pipeline.work(stage) + (filling + draining if apart else max(filling, draining))


def _memory_over_time(pipeline: Pipeline, stage: int) -> int:
    """What activations take of the memory of a stage, as long as each stays, or without the time on its host."""
    if pipeline.memory is None:
        return 0
    parts, out, count = pipeline.parts_of[stage], pipeline.offload or 0, pipeline.microbatches
    forward, back = ([pipeline.duration(kind, part) for part in parts] for kind in pipeline.kinds[:2])
    weights = [pipeline.duration(ActionKind.WEIGHTS, part) if pipeline.split else 0 for part in parts]
    kept = -pipeline.change_of_memory(ActionKind.WEIGHTS)
    between = [pipeline.round_trip(part, part) - there for part, there in zip(parts, forward, strict=True)]
    saved = [pipeline.activation * max(time - 2 * out, 0) for time in between]
    area = pipeline.activation * sum(forward + between + back) + kept * sum(weights)
    memory = pipeline.memory - pipeline.memory % math.gcd(pipeline.activation, kept)
    least = -(-count * area // memory)
    if pipeline.offload is not None:
        first_to_last = min(forward) + out + min(map(sum, zip(back, weights, strict=True)))
        work, rate = count * area * out + max(saved) * first_to_last, memory * out + max(saved)
        least = min(least, max(-(-count * (area - sum(saved)) // memory), -(-work // max(rate, 1))))
    return least + (pipeline.begin_alone(ActionKind.FORWARD, parts[0]) if pipeline.objective == "makespan" else 0)


def _most_work(pipeline: Pipeline, stage: int, kinds: tuple[ActionKind, ...]) -> int:
    """The most time of some kinds of actions on a stage of microbatches whose activations fit into its memory.

    Where gradients keep less than activations, more of them fit, and each counts with the kind that takes longest for
    its bytes.
    """
    parts = pipeline.parts_of[stage]
    longest = max(sum(pipeline.duration(kind, part) for kind in kinds) for part in parts)
    everything = pipeline.microbatches * sum(pipeline.duration(kind, part) for part in parts for kind in kinds)
    if pipeline.memory is None or pipeline.offload is not None:
        return everything
    most = (pipeline.memory // pipeline.activation) * longest
    kept = -pipeline.change_of_memory(ActionKind.WEIGHTS)
    if pipeline.split and kept < pipeline.activation and ActionKind.WEIGHTS in kinds:
        weights = max(pipeline.duration(ActionKind.WEIGHTS, part) for part in parts)
        most += everything if kept == 0 else (pipeline.memory // kept) * weights
    return min(most, everything)

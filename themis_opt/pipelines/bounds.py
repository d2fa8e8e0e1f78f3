r"""What no order of a pipeline can beat.

Let :math:`q_0` be the first and :math:`q_1` the last part of a stage, :math:`P` its work, and :math:`K` the memory.

*Filling.*  The first action of a stage is a forward pass of :math:`q_0`, since all others of a microbatch follow one.
No backward pass of the stage can begin before a microbatch has gone to the end of the model and back to :math:`q_1`,
which takes the round trip :math:`D` (:meth:`~themis_opt.pipelines.problem.Pipeline.round_trip`) at least.  Until then
the stage runs forward passes alone, and gives no memory back, so that it works for :math:`u` at most: the most time of
forward passes whose activations fit into :math:`K`.  So it waits for :math:`(D - u)^+` there.

*Draining.*  After the last forward pass of :math:`q_1` no forward pass is left on the stage.  That microbatch still
goes to the end and back, and through both halves of the backward pass, which takes :math:`D' + b`.  Meanwhile the
stage has the backward passes of microbatches alone whose activations it keeps, which take :math:`v` at most.  So it
waits for :math:`(D' + b - v)^+` there.

If not all forward passes fit into the memory, the last one begins after a backward pass has ended, so that these times
do not overlap, and a stage takes at least :math:`P + (D - u)^+ + (D' + b - v)^+`; otherwise the larger of both is
waited for.  Before the first action of a stage a microbatch passes all parts before :math:`q_0`, which a makespan
holds too.  The bound holds for any order, and any choice of when weights are differentiated.

*Heads and tails.*  Let microbatch i be the i-th that begins a step, as in
:mod:`formulations.microbatch_order`.  On a stage it begins :math:`q_0` not before i - 1 others have, and, where only k
microbatches fit, not before the last step of :math:`q_0` of microbatch i - k has ended.  Every later step of the stage
follows at the least time of the way between.  So each action has a head from the first action of the stage to its
start, and likewise a tail from its end to that of the last action.  A stage needs at least what one machine needs for
them that may interrupt its work (J. Carlier, 1982, https://doi.org/10.1016/S0377-2217(82)80007-6): it always runs that
action of the longest tail which is ready.  Where a stage has several parts, this says what the sum above misses: until
a microbatch comes to :math:`q_1`, only forward passes of :math:`q_0` are there.

With forward and both halves of backward passes of one unit, S stages of one part and memory for S microbatches, the
first stage waits :math:`S - 1` units, which is what ZB-H1 of P. Qi et al., *Zero Bubble Pipeline Parallelism*
(https://arxiv.org/abs/2401.10241, section 2) reaches.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from themis_opt.pipelines.problem import ActionKind, Pipeline

PartStep = tuple[ActionKind, int]
"""A kind of action, and a part."""

TimesByStep = dict[PartStep, list[int]]
"""Picoseconds by step and microbatch."""


def bound(pipeline: Pipeline) -> int:
    """Picoseconds that any plan needs by the objective of the pipeline."""
    stages = range(pipeline.stages)
    return max(max(_filling_and_draining(pipeline, stage), _one_machine(pipeline, stage)) for stage in stages)


def _one_machine(pipeline: Pipeline, stage: int) -> int:
    """What the actions of a stage take between their heads and tails, if they may be interrupted."""
    heads, tails = _heads(pipeline, stage), _tails(pipeline, stage)
    waiting = [
        (head, tail, pipeline.duration(*step))
        for step, row in heads.items()
        for head, tail in zip(row, tails[step], strict=True)
    ]
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


def _heads(pipeline: Pipeline, stage: int) -> TimesByStep:
    """The least times from the first action of a stage to the starts of all, or from the first one of all stages."""
    heads: TimesByStep = {(kind, part): [] for part in pipeline.parts_of[stage] for kind in pipeline.kinds}
    way, room = _way(pipeline, stage), list(_room(pipeline))
    for i in range(pipeline.microbatches):
        earliest = 0
        for number, (step, distance) in enumerate(way):
            begin = earliest + (distance if number or pipeline.objective == "makespan" else 0)
            if i:
                begin = max(begin, heads[step][-1] + pipeline.duration(*step))
            if step[0] is ActionKind.FORWARD:
                for kind, fit in room:
                    if i >= fit:
                        begin = max(begin, heads[kind, step[1]][i - fit] + pipeline.duration(kind, step[1]))
            heads[step].append(begin)
            earliest = begin + pipeline.duration(*step)
            for weights in _weights(pipeline, step):
                after = heads[weights][-1] + pipeline.duration(*weights) if i else 0
                heads[weights].append(max(earliest, after))
    return heads


def _tails(pipeline: Pipeline, stage: int) -> TimesByStep:
    """The least times from the ends of all actions of a stage to that of its last, or of the last one of all stages."""
    count = pipeline.microbatches
    tails: TimesByStep = {(kind, part): [0] * count for part in pipeline.parts_of[stage] for kind in pipeline.kinds}
    way, room = _way(pipeline, stage), list(_room(pipeline))

    def after(step: PartStep, i: int) -> int:
        """What follows a step because the next microbatch has to run it, or waits for its memory."""
        least = tails[step][i + 1] + pipeline.duration(*step) if i + 1 < count else 0
        for kind, fit in room:
            if step[0] is kind and i + fit < count:
                forward = (ActionKind.FORWARD, step[1])
                least = max(least, pipeline.duration(*forward) + tails[forward][i + fit])
        return least

    for i in reversed(range(count)):
        latest = _way_out(pipeline, stage) if pipeline.objective == "makespan" else 0
        for step, distance in reversed(way):
            for weights in _weights(pipeline, step):
                tails[weights][i] = after(weights, i)
                latest = max(latest, pipeline.duration(*weights) + tails[weights][i])
            tails[step][i] = max(latest, after(step, i))
            latest = distance + pipeline.duration(*step) + tails[step][i]
    return tails


def _way(pipeline: Pipeline, stage: int) -> list[tuple[PartStep, int]]:
    """The steps of a microbatch on a stage but for gradients of weights, and the least time before each.

    It counts from the end of the step before, and for the first one from the first action of all.
    """
    forward, back = pipeline.kinds[:2]
    parts = pipeline.parts_of[stage]
    order = [*((forward, part) for part in parts), *((back, part) for part in reversed(parts))]
    starts = [pipeline.begin_alone(*step) for step in order]
    ends = [start + pipeline.duration(*step) for start, step in zip(starts, order, strict=True)]
    return [(step, start - end) for step, start, end in zip(order, starts, [0, *ends], strict=False)]


def _way_out(pipeline: Pipeline, stage: int) -> int:
    """The least time from the gradients of a stage's first inputs to the end of the microbatch."""
    back, first = pipeline.kinds[1], pipeline.parts_of[stage][0]
    end = pipeline.begin_alone(back, 0) + sum(pipeline.duration(kind, 0) for kind in pipeline.kinds[1:])
    return end - pipeline.begin_alone(back, first) - pipeline.duration(back, first)


def _weights(pipeline: Pipeline, step: PartStep) -> Iterator[PartStep]:
    """The other half of a backward pass."""
    if step[0] is ActionKind.INPUTS:
        yield ActionKind.WEIGHTS, step[1]


def _room(pipeline: Pipeline) -> Iterator[tuple[ActionKind, int]]:
    """How many microbatches later a forward pass of a part has to wait for the end of another step."""
    if pipeline.memory is None:
        return
    yield pipeline.kinds[1], pipeline.memory // pipeline.activation
    kept = -pipeline.change_of_memory(pipeline.kinds[-1])
    if pipeline.split and kept:
        yield ActionKind.WEIGHTS, pipeline.memory // kept


def _filling_and_draining(pipeline: Pipeline, stage: int) -> int:
    """What a stage works, and waits while its memory fills and empties."""
    first, last = pipeline.parts_of[stage][0], pipeline.parts_of[stage][-1]
    filling = max(pipeline.round_trip(first, last) - _most_work(pipeline, stage, pipeline.kinds[:1]), 0)
    return_trip = pipeline.round_trip(last, last) - pipeline.duration(ActionKind.FORWARD, last)
    back = sum(pipeline.duration(kind, last) for kind in pipeline.kinds[1:])
    draining = max(return_trip + back - _most_work(pipeline, stage, pipeline.kinds[1:]), 0)
    apart = pipeline.memory is not None and pipeline.memory < _all_activations(pipeline)
    before = pipeline.round_trip(0, last) - pipeline.round_trip(first, last) if pipeline.objective == "makespan" else 0
    return before + pipeline.work(stage) + (filling + draining if apart else max(filling, draining))


def _all_activations(pipeline: Pipeline) -> int:
    return pipeline.microbatches * pipeline.parts * pipeline.activation


def _most_work(pipeline: Pipeline, stage: int, kinds: tuple[ActionKind, ...]) -> int:
    """The most time of some kinds of actions on a stage of microbatches whose activations fit into its memory.

    Where gradients keep less than activations, more of them fit, and each counts with the kind that takes longest for
    its bytes.
    """
    parts = pipeline.parts_of[stage]
    longest = max(sum(pipeline.duration(kind, part) for kind in kinds) for part in parts)
    everything = pipeline.microbatches * sum(pipeline.duration(kind, part) for part in parts for kind in kinds)
    if pipeline.memory is None:
        return everything
    most = (pipeline.memory // pipeline.activation) * longest
    kept = -pipeline.change_of_memory(ActionKind.WEIGHTS)
    if pipeline.split and kept < pipeline.activation and ActionKind.WEIGHTS in kinds:
        weights = max(pipeline.duration(ActionKind.WEIGHTS, part) for part in parts)
        most += everything if kept == 0 else (pipeline.memory // kept) * weights
    return min(most, everything)

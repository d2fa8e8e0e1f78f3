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

With forward and both halves of backward passes of one unit, S stages of one part and memory for S microbatches, the
first stage waits :math:`S - 1` units, which is what ZB-H1 of P. Qi et al., *Zero Bubble Pipeline Parallelism*
(https://arxiv.org/abs/2401.10241, section 2) reaches.
"""

from themis_opt.pipelines.problem import ActionKind, Pipeline


def bound(pipeline: Pipeline) -> int:
    """Picoseconds that any plan needs by the objective of the pipeline."""
    return max(_bound_of(pipeline, stage) for stage in range(pipeline.stages))


def _bound_of(pipeline: Pipeline, stage: int) -> int:
    """The bound of one stage."""
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

"""Pipelines and their orders as the arrays of compiled loops (:mod:`themis_opt.pipelines.order_loop`)."""

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.pipelines.order_loop import OrderSpace, PassTable
from themis_opt.pipelines.problem import Action, Pipeline, StageOrders


def pass_table(pipeline: Pipeline) -> PassTable:
    """What the passes of a pipeline take."""
    parts = range(pipeline.num_parts)
    memory = pipeline.parts * pipeline.microbatches * pipeline.activation
    return PassTable(
        duration=np.array([[pipeline.duration(kind, part) for part in parts] for kind in pipeline.kinds]),
        change=np.array([[pipeline.change_of_memory(kind)] * len(parts) for kind in pipeline.kinds]),
        stage_of=np.array(pipeline.stage_of),
        message=pipeline.message,
        memory=memory if pipeline.memory is None else pipeline.memory,
        from_first=pipeline.objective == "period",
    )


def order_space(pipeline: Pipeline, order: IntArray, value: int) -> OrderSpace:
    """Arrays to time orders in, of which the best takes `value` picoseconds."""
    stages, places = order.shape
    steps = (len(pipeline.kinds), pipeline.num_parts, pipeline.microbatches)
    return OrderSpace(
        start=np.zeros(steps, dtype=np.int64),
        arrival=np.zeros(steps, dtype=np.int64),
        place=np.zeros(steps, dtype=np.int64),
        microbatch_at=np.zeros_like(order),
        num_run=np.zeros(steps[:2], dtype=np.int64),
        next_place=np.zeros(stages, dtype=np.int64),
        free=np.zeros(stages, dtype=np.int64),
        link_free=np.zeros((stages, stages), dtype=np.int64),
        queue=np.zeros(stages + 1, dtype=np.int64),
        is_queued=np.zeros(stages, dtype=np.bool_),
        row=np.zeros(places, dtype=np.int64),
        critical=np.zeros((2, order.size), dtype=np.int64),
        longest=np.array([0, value, value]),
        value=np.array([float(value)]),
    )


def orders_of(pipeline: Pipeline, order: IntArray) -> StageOrders:
    """Actions of the rows of steps, the i-th of equal ones being that of microbatch i."""
    rows = []
    for row in order.tolist():
        counts = dict.fromkeys(row, 0)
        actions = []
        for step in row:
            kind, part = divmod(step, pipeline.num_parts)
            actions.append(Action(pipeline.kinds[kind], part, counts[step]))
            counts[step] += 1
        rows.append(tuple(actions))
    return tuple(rows)

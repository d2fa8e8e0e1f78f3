"""Orders by priorities: of the passes that are ready, a stage runs that with the least number.

A number is that of a kind of passes on a part, and of the microbatch times a slope.  All microbatches are alike,
so that few numbers make long orders, which annealing of single passes (:mod:`themis_opt.pipelines.order_search`)
reaches slowly.  A stage may wait for a moment: where a message is about to come, a gradient of weights that is begun
before it delays a whole microbatch.
"""

from collections.abc import Iterator

import numpy as np

from themis_opt.base.compiled import FirstUse
from themis_opt.pipelines.order_arrays import order_space, orders_of, pass_table
from themis_opt.pipelines.priority_loop import PRIORITY_LOOP, Priorities, StageState
from themis_opt.pipelines.problem import Pipeline, StageOrders

QUARTERS = (2, 3, 4, 5, 6, 7, 8, 12)  # microbatches on a stage that are tried, in quarters of its number of stages

LEADS = (0.5, 1.0, 2.0, 3.0, 5.0)
"""Passes that an action waits for each microbatch before it, where the longest way to go is first."""

WAITS = (0.1, 0.25, 0.5)  # parts of a pass that a stage waits for a better one, beside a message
FAR = 1e15  # a number above all others, for passes that come last


class PriorityOrders:
    """Orders of a pipeline by priorities."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        places = pipeline.parts * pipeline.microbatches * len(pipeline.kinds)
        self._table, self._order = pass_table(pipeline), np.zeros((pipeline.stages, places), dtype=np.int64)
        self._space = order_space(pipeline, self._order, 0)
        held, begin, chosen = np.zeros((3, pipeline.stages), dtype=np.int64)
        ready = np.zeros((len(pipeline.kinds), pipeline.parts), dtype=np.int64)
        self._state = StageState(np.array(pipeline.parts_of), held, begin, chosen, ready)

    @property
    def _patience(self) -> tuple[int, ...]:
        """A message and a part of a pass of average length."""
        pass_time = float(self._table.duration.mean())
        return tuple(int(self.pipeline.message + share * pass_time) for share in WAITS)

    def value(self, rule: Priorities) -> float:
        """What the orders take, in picoseconds, and a little of the mean of all stages."""
        interprets = PRIORITY_LOOP.interprets(self._order.size) or not is_ready(None)
        loop = PRIORITY_LOOP.function if interprets else PRIORITY_LOOP.compiled
        value: float = loop(self._table, rule, self._order, self._space, self._state)
        return value

    def orders(self, rule: Priorities) -> StageOrders:
        """The orders themselves."""
        self.value(rule)
        return orders_of(self.pipeline, self._order)

    def rules(self) -> Iterator[Priorities]:
        """Rules of zero-bubble schedules with other numbers of microbatches, and with some patience."""
        pipeline = self.pipeline
        fit = pipeline.microbatches if pipeline.memory is None else pipeline.memory // pipeline.activation
        counts = {min(pipeline.stages * quarters // 4, fit, pipeline.microbatches) for quarters in QUARTERS}
        for rule in (by_kind(pipeline), *(by_way_to_go(pipeline, wait) for wait in LEADS)):
            for most in sorted({max(count, 1) for count in counts}):
                for patience in sorted({0, pipeline.message, *self._patience}):
                    for fills in (False, True)[: 1 + (most < pipeline.microbatches)]:
                        yield rule._replace(most=most, patience=patience, fills=fills)

    def best_rule(self) -> Priorities:
        """The fastest of the rules."""
        return min(self.rules(), key=self.value)

    def best_orders(self) -> StageOrders:
        """The orders of the fastest rule."""
        return self.orders(self.best_rule())


def by_kind(pipeline: Pipeline) -> Priorities:
    """Gradients of inputs first, then forward passes of later parts, then gradients of weights."""
    parts, far = np.arange(pipeline.num_parts), float(pipeline.num_parts)
    base, slope = _nothing(pipeline), _nothing(pipeline)
    base[0], slope[0] = FAR / 4 - parts * pipeline.microbatches, 1.0
    base[1:], slope[1:] = parts, far
    base[2:] += FAR
    return Priorities(base, slope, pipeline.microbatches, 0)


def by_way_to_go(pipeline: Pipeline, wait: float) -> Priorities:
    """The longest way to the end of the microbatch first, gradients of weights last.

    Each microbatch before lets an action wait for so many passes of average length.
    """
    parts, kinds = range(pipeline.num_parts), pipeline.kinds[:2]
    base, slope = _nothing(pipeline), _nothing(pipeline)
    base[:2] = [[pipeline.begin_alone(kind, part) for part in parts] for kind in kinds]
    slope[:2] = wait * np.mean([[pipeline.duration(kind, part) for part in parts] for kind in kinds])
    base[2:], slope[2:] = FAR + np.arange(pipeline.num_parts), float(pipeline.num_parts)
    return Priorities(base, slope, pipeline.microbatches, 0)


def _nothing(pipeline: Pipeline) -> np.ndarray:
    return np.zeros((len(pipeline.kinds), pipeline.num_parts))


def greedy(pipeline: Pipeline, microbatches: int) -> StageOrders:
    """Let every stage that is free run the most urgent action that is ready, with so many microbatches at most."""
    return PriorityOrders(pipeline).orders(by_kind(pipeline)._replace(most=microbatches))


def _compile() -> None:
    """Order passes for a moment."""
    pipeline = Pipeline(stages=2, microbatches=1, forward=["1 ps"], inputs=["1 ps"], weights=["1 ps"])
    orders = PriorityOrders(pipeline)
    PRIORITY_LOOP.compiled(orders._table, by_kind(pipeline), orders._order, orders._space, orders._state)


is_ready = FirstUse(_compile).is_over  # whether the loop can begin within some seconds (None: however long it takes)

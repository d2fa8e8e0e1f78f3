"""A better order of every stage by simulated annealing, from a schedule.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, *Optimization by Simulated Annealing*, Science 220 (1983).
"""

import numpy as np

from themis_opt.base.allowance import Allowance
from themis_opt.base.compiled import FirstUse
from themis_opt.pipelines.order_arrays import order_space, orders_of, pass_table
from themis_opt.pipelines.order_loop import ORDER_LOOP
from themis_opt.pipelines.policies import one_forward_one_backward
from themis_opt.pipelines.problem import Pipeline
from themis_opt.pipelines.schedule import PipelineSchedule, simulate, steps_of

HOT_PASSES, COLD_PASSES = 0.4, 0.04  # temperatures at first and at last, in passes of average length
FIRST_MOVES, LONGER = 50_000, 3  # moves of the first annealing, and how much longer each one is than the one before
IDLE_ROUNDS = 3  # annealings in a row that gain nothing, with which the search ends
PASSES_PER_SECOND = 60e6  # passes that a core times, for limits that count work
PASSES_AT_ONCE = 3e6  # passes that are timed without a look at the clock: a tenth of a second


def anneal(start: PipelineSchedule, allowance: Allowance, enough: int, seed: int = 0) -> PipelineSchedule:
    """Move passes within the orders of stages until a value is enough, the turn is over, or nothing is gained.

    Each annealing begins with the best orders so far, and takes longer than the one before.
    """
    search, steps, idle = _OrderSearch(start), FIRST_MOVES, 0
    seeds = map(int, np.random.default_rng(seed).integers(2**32, size=2**16))
    while idle < IDLE_ROUNDS and search.value > enough and allowance.left > 0 and is_ready(None):
        before, begin, done = search.value, allowance.left, 0
        search.restart()
        while done < steps and allowance.left > 0 and search.value > enough:
            progress = max(done / steps, 1 - allowance.left / begin)
            done += search.run(HOT_PASSES * (COLD_PASSES / HOT_PASSES) ** progress, next(seeds))
            allowance.charge(PASSES_AT_ONCE / PASSES_PER_SECOND)
        steps *= LONGER
        idle = 0 if search.value < before else idle + 1
    return search.best()


class _OrderSearch:
    """The orders of a schedule, and the best so far."""

    def __init__(self, start: PipelineSchedule) -> None:
        pipeline = self._pipeline = start.pipeline
        self._start, self._table = start, pass_table(pipeline)
        kinds = {kind: number for number, kind in enumerate(pipeline.kinds)}
        parts = pipeline.num_parts
        orders = [
            [kinds[step.kind] * parts + step.part for action in order for step in steps_of(pipeline, action)]
            for order in start.orders
        ]
        self._order = np.array(orders, dtype=np.int64)
        self._best, self._space = self._order.copy(), order_space(pipeline, self._order, start.value)

    @property
    def value(self) -> int:
        """The best value so far, in picoseconds."""
        return int(self._space.longest[2])

    def restart(self) -> None:
        """Begin with the best orders."""
        self._order[:] = self._best

    def run(self, temperature: float, seed: int) -> int:
        """Try some moves at a temperature in passes of average length; how many."""
        steps = max(int(PASSES_AT_ONCE) // self._order.size, 1)
        heat = temperature * float(self._table.duration.mean())
        ORDER_LOOP.compiled(self._table, self._order, self._best, self._space, steps, heat, seed)
        return steps

    def best(self) -> PipelineSchedule:
        """The best schedule, the first one if none is better."""
        better = simulate(self._pipeline, orders_of(self._pipeline, self._best))
        return min(self._start, better, key=lambda schedule: schedule.value)


def _compile() -> None:
    """Search for a moment."""
    pipeline = Pipeline(stages=2, microbatches=1, forward=["1 ps"], inputs=["1 ps"], weights=["1 ps"])
    _OrderSearch(simulate(pipeline, one_forward_one_backward(pipeline))).run(1.0, 0)


is_ready = FirstUse(_compile).is_over  # whether the search can begin within some seconds (None: however long it takes)

"""Orders of stages by priorities, in functions that are compiled; see :mod:`themis_opt.pipelines.priorities`."""

from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.pipelines import order_loop
from themis_opt.pipelines.order_loop import FORWARD_STEP, NOT_RUN, OrderSpace, PassTable, clear, measure, run_next


class Priorities(NamedTuple):
    """Which of the passes that are ready a stage runs: that with the least ``base + slope * microbatch``.

    `base`, `slope`, shape (kinds, parts).
    `most`: microbatches on a stage at once; `fills`: whether only until the first one has left it, while it fills.
    `patience`: picoseconds for which a stage lets a pass that is ready wait for one with a lesser number.
    """

    base: FloatArray
    slope: FloatArray
    most: int
    patience: int
    fills: bool = False


class StageState(NamedTuple):
    """By stage its parts in the order of the model, the bytes that it keeps, and the next pass with its begin.

    `ready`: of one stage, when the next pass of each kind on each part can begin.
    """

    parts: IntArray
    held: IntArray
    begin: IntArray
    chosen: IntArray
    ready: IntArray


def order_by_priority(
    table: PassTable, rule: Priorities, order: IntArray, space: OrderSpace, state: StageState
) -> float:
    """Write the orders of all stages into `order`; what they take, infinite where no pass fits into the memory."""
    clear(table, space)
    state.held[:] = 0
    for stage in range(len(order)):
        choose(table, rule, stage, space, state)
    num_parts = table.duration.shape[1]
    for _ in range(order.size):
        stage = 0
        for other in range(len(order)):
            if state.begin[other] < state.begin[stage]:
                stage = other
        if state.begin[stage] == NOT_RUN:
            return float(np.inf)
        step = state.chosen[stage]
        order[stage, space.next_place[stage]] = step
        state.held[stage] += table.change[step // num_parts, step % num_parts]
        to = run_next(table, order[stage], stage, space)
        choose(table, rule, stage, space, state)
        if to != stage:
            choose(table, rule, to, space, state)
    return measure(table, order, space)


def choose(table: PassTable, rule: Priorities, stage: int, space: OrderSpace, state: StageState) -> None:
    """Note the next pass of a stage, and when the first one can begin."""
    num_parts, earliest, least = table.duration.shape[1], NOT_RUN, float(np.inf)
    for kind in range(len(state.ready)):
        for turn in range(state.parts.shape[1]):
            ready = ready_at(table, rule, stage, kind, turn, space, state)
            state.ready[kind, turn], earliest = ready, min(earliest, ready)
    state.begin[stage] = earliest
    if earliest == NOT_RUN:
        return
    for kind in range(len(state.ready)):
        for turn in range(state.parts.shape[1]):
            if state.ready[kind, turn] <= earliest + rule.patience:
                part = state.parts[stage, turn]
                number = rule.base[kind, part] + rule.slope[kind, part] * space.num_run[kind, part]
                if number < least:
                    least, state.chosen[stage] = number, kind * num_parts + part


def ready_at(
    table: PassTable, rule: Priorities, stage: int, kind: int, turn: int, space: OrderSpace, state: StageState
) -> int:
    """When the next pass of a kind on a part of a stage can begin, as far as that is known.

    Forward passes leave memory for those of later parts, so that the microbatch that is farthest can always go on.
    """
    part, num_parts = state.parts[stage, turn], state.parts.shape[1]
    i = space.num_run[kind, part]
    if i == space.arrival.shape[2] or space.arrival[kind, part, i] == NOT_RUN:
        return NOT_RUN
    if kind == FORWARD_STEP and state.held[stage] + (num_parts - turn) * table.change[kind, part] > table.memory:
        return NOT_RUN
    if kind == FORWARD_STEP and turn == 0:
        gone = i
        for other in range(num_parts):
            gone = min(gone, space.num_run[-1, state.parts[stage, other]])
        if i - gone >= rule.most and not (rule.fills and gone):
            return NOT_RUN
    ready: int = max(space.free[stage], space.arrival[kind, part, i])
    return ready


PRIORITY_LOOP = Compilable(order_by_priority, order_loop, patience=2_000)

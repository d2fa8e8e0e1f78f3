"""Annealing of the orders of stages, in functions that are compiled: one pass is moved, and all are timed again.

A step is ``kind * parts + part``; the i-th of equal ones of a stage is that of microbatch i, so that an order of steps
says all.
"""

from math import log
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.compiled import Compilable

NOT_RUN = 1 << 60  # a time that is not known yet
MEAN_SHARE = 0.02  # what the mean of all stages counts beside the longest: orders with slack go on better
CRITICAL_SHARE = 0.8  # share of moves of passes that the longest stage waits for; others make room for these
MEAN_DISTANCE = 6.0  # places by which a pass is moved on average, in every other move; in the rest it is one
FORWARD_STEP, BACKWARD_STEP, WEIGHTS_STEP = range(3)


class PassTable(NamedTuple):
    """What steps take: duration and change of memory by kind and part."""

    duration: IntArray
    change: IntArray
    stage_of: IntArray
    message: int
    memory: int
    from_first: bool


class OrderSpace(NamedTuple):
    """Arrays to work in.

    `start`, `arrival` and `place` by kind, part and microbatch; `microbatch_at` by stage and place; `critical` stages
    and places; `longest` the stage that takes longest and its time, and below it the best so far.
    """

    start: IntArray
    arrival: IntArray
    place: IntArray
    microbatch_at: IntArray
    num_run: IntArray
    next_place: IntArray
    free: IntArray
    link_free: IntArray
    queue: IntArray
    is_queued: BoolArray
    row: IntArray
    critical: IntArray
    longest: IntArray
    value: FloatArray


def anneal_orders(
    table: PassTable, order: IntArray, best: IntArray, space: OrderSpace, steps: int, temperature: float, seed: int
) -> None:
    """Move passes in `order` at a temperature in picoseconds, and keep the best orders in `best`."""
    np.random.seed(seed)
    space.value[0] = value_of(table, order, space)
    num_critical = trace(table, order, space)
    for _ in range(steps):
        stage, place = np.random.randint(len(order)), np.random.randint(order.shape[1])
        if np.random.random() < CRITICAL_SHARE:
            number = np.random.randint(num_critical)
            stage, place = space.critical[0, number], space.critical[1, number]
        if not move(order[stage], place, space.row) or not fits(table, order[stage]):
            copy_row(space.row, order[stage])
            continue
        value = value_of(table, order, space)
        if value > space.value[0] - temperature * log(1.0 - np.random.random()):
            copy_row(space.row, order[stage])
            continue
        space.value[0] = value
        num_critical = trace(table, order, space)
        if space.longest[1] < space.longest[2]:
            space.longest[2] = space.longest[1]
            for other in range(len(order)):
                copy_row(order[other], best[other])


def move(row: IntArray, place: int, before: IntArray) -> bool:
    """Move a step by some places, after a copy of the row; whether that makes a difference."""
    copy_row(row, before)
    distance = 1
    if np.random.random() < 0.5:
        distance -= int(log(1.0 - np.random.random()) * MEAN_DISTANCE)
    if np.random.random() < 0.5:
        distance = -distance
    to = min(max(place + distance, 0), len(row) - 1)
    towards = 1 if to > place else -1
    differs = False
    for i in range(place, to, towards):
        row[i] = row[i + towards]
        differs = differs or row[i] != before[place]
    row[to] = before[place]
    return differs


def copy_row(row: IntArray, to: IntArray) -> None:
    """Compiled code may assign no array to another."""
    for i in range(len(row)):
        to[i] = row[i]


def fits(table: PassTable, row: IntArray) -> bool:
    """Whether a stage has the memory for its order."""
    num_parts, held = table.duration.shape[1], 0
    for step in row:
        held += table.change[step // num_parts, step % num_parts]
        if held > table.memory:
            return False
    return True


def value_of(table: PassTable, order: IntArray, space: OrderSpace) -> float:
    """Time all passes as early as they can begin: the time of the longest stage, and a little of the mean.

    Infinite where passes wait for each other.
    """
    num_stages = len(order)
    clear(table, space)
    ahead, behind, num_done = 0, num_stages, 0
    for stage in range(num_stages):
        space.queue[stage], space.is_queued[stage] = stage, True
    while ahead != behind:
        stage = space.queue[ahead]
        ahead, space.is_queued[stage] = (ahead + 1) % len(space.queue), False
        while space.next_place[stage] < order.shape[1]:
            to = run_next(table, order[stage], stage, space)
            if to < 0:
                break
            num_done += 1
            if to != stage and not space.is_queued[to]:
                space.queue[behind], space.is_queued[to] = to, True
                behind = (behind + 1) % len(space.queue)
    return float(np.inf) if num_done < order.size else measure(table, order, space)


def clear(table: PassTable, space: OrderSpace) -> None:
    """Nothing has run, and the first passes of all microbatches may."""
    space.arrival[:, :, :] = NOT_RUN
    space.arrival[0, 0, :] = 0
    space.num_run[:, :] = 0
    space.next_place[:] = 0
    space.free[:] = 0
    space.link_free[:, :] = 0


def run_next(table: PassTable, row: IntArray, stage: int, space: OrderSpace) -> int:
    """Run the next pass of a stage; the stage that gets its result, this one if none does, -1 if it has to wait."""
    num_kinds, num_parts = table.duration.shape
    kind, part = row[space.next_place[stage]] // num_parts, row[space.next_place[stage]] % num_parts
    i = space.num_run[kind, part]
    if space.arrival[kind, part, i] == NOT_RUN:
        return -1
    begin = max(space.free[stage], space.arrival[kind, part, i])
    end = begin + table.duration[kind, part]
    space.start[kind, part, i], space.free[stage] = begin, end
    space.num_run[kind, part] += 1
    space.next_place[stage] += 1
    if kind == BACKWARD_STEP and num_kinds > WEIGHTS_STEP:
        space.arrival[WEIGHTS_STEP, part, i] = end
    if kind == WEIGHTS_STEP or (kind == BACKWARD_STEP and part == 0):
        return stage
    to_kind, to_part = kind, part + 1
    if kind == BACKWARD_STEP:
        to_part = part - 1
    elif to_part == num_parts:
        to_kind, to_part = BACKWARD_STEP, part
    to: int = table.stage_of[to_part]
    if to != stage:
        end = max(end, space.link_free[stage, to]) + table.message
        space.link_free[stage, to] = end
    space.arrival[to_kind, to_part, i] = end
    return to


def measure(table: PassTable, order: IntArray, space: OrderSpace) -> float:
    """Note the longest stage and its time; this time, and a little of the mean."""
    num_parts, total = table.duration.shape[1], 0
    space.longest[1] = 0
    for stage in range(len(order)):
        time = space.free[stage]
        if table.from_first:
            time -= space.start[order[stage, 0] // num_parts, order[stage, 0] % num_parts, 0]
        total += time
        if time > space.longest[1]:
            space.longest[0], space.longest[1] = stage, time
    return float(space.longest[1] + MEAN_SHARE * total / len(order))


def trace(table: PassTable, order: IntArray, space: OrderSpace) -> int:
    """Write down a chain of passes without a wait that ends with the longest stage; how many there are."""
    num_parts = table.duration.shape[1]
    number_places(order, num_parts, space)
    stage, place, number = space.longest[0], order.shape[1] - 1, 0
    while True:
        space.critical[0, number], space.critical[1, number] = stage, place
        number += 1
        kind, part = order[stage, place] // num_parts, order[stage, place] % num_parts
        i = space.microbatch_at[stage, place]
        begin = space.start[kind, part, i]
        follows = place > 0 and end_at(table, order, space, stage, place - 1) == begin
        from_kind, from_part = kind - 1 if kind == WEIGHTS_STEP else kind, part
        if kind == FORWARD_STEP:
            from_part = part - 1
        elif kind == BACKWARD_STEP and part + 1 == num_parts:
            from_kind = FORWARD_STEP
        elif kind == BACKWARD_STEP:
            from_part = part + 1
        waits = from_part >= 0 and begin > 0 and begin == space.arrival[kind, part, i]
        if not follows and not waits:
            return number
        if follows and (not waits or np.random.random() < 0.5):
            place -= 1
        else:
            stage, place = table.stage_of[from_part], space.place[from_kind, from_part, i]


def number_places(order: IntArray, num_parts: int, space: OrderSpace) -> None:
    """Note where each pass stands."""
    space.num_run[:, :] = 0
    for stage in range(len(order)):
        for place in range(order.shape[1]):
            kind, part = order[stage, place] // num_parts, order[stage, place] % num_parts
            i = space.num_run[kind, part]
            space.num_run[kind, part] += 1
            space.place[kind, part, i], space.microbatch_at[stage, place] = place, i


def end_at(table: PassTable, order: IntArray, space: OrderSpace, stage: int, place: int) -> int:
    """When the pass at a place of a stage ends."""
    num_parts = table.duration.shape[1]
    kind, part = order[stage, place] // num_parts, order[stage, place] % num_parts
    end: int = space.start[kind, part, space.microbatch_at[stage, place]] + table.duration[kind, part]
    return end


ORDER_LOOP = Compilable(anneal_orders)

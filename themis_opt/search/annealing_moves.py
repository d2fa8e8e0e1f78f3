"""What one step of :mod:`themis_opt.search.annealing` changes: paths, priorities, sizes, launches.  Always compiled."""

from math import ceil

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.schedules.event_loop import NEVER
from themis_opt.search.annealing_insertion import insert
from themis_opt.search.annealing_state import Problem, State


def change_one(problem: Problem, state: State, num_touched: int) -> int:
    """Change a path, priorities or the size of a random chunk; returns the number of chunks touched so far."""
    chunk = np.random.randint(len(problem.first_stage))
    # Not for one makespan alone: there each stage counts more than the order of launches.
    if num_touched == 0 and problem.iterations > 1 and np.random.random() < problem.moves.launch_share:
        return move_launch(problem, state, chunk)
    if problem.resizes and np.random.random() < problem.moves.size_share:
        return num_touched + move_bytes(problem, state, chunk, num_touched)
    leg = np.random.randint(1 if problem.partner[chunk] >= 0 else problem.num_legs[chunk])
    state.touched[num_touched] = chunk
    is_known = num_touched == 0 and state.known[0] != NEVER
    if is_known and not problem.pinned[chunk] and np.random.random() < problem.moves.insertion_share:
        insert(problem, state, chunk, leg)
        return 1
    if np.random.random() < problem.moves.exchange_share:
        return num_touched + exchange(problem, state, chunk, leg, num_touched)
    if np.random.random() < problem.moves.path_share:
        if problem.pinned[chunk]:
            return num_touched
        change_path(problem, state, chunk, leg)
        return num_touched + 1
    other = np.random.randint(len(problem.first_stage))
    state.touched[num_touched + 1] = other
    leg = np.random.randint(problem.num_legs[chunk])
    return num_touched + change_priority(problem, state, chunk, leg, other)


def move_launch(problem: Problem, state: State, chunk: int) -> int:
    """Serve the launch of a chunk earlier or later, a stage of it just before or after a stage of another chunk.

    Returns how many chunks are touched.
    """
    stage = problem.first_stage[chunk] + np.random.randint(problem.num_legs[chunk] * problem.num_dimensions[chunk])
    other = np.random.randint(len(problem.first_stage))
    beside = problem.first_stage[other] + np.random.randint(problem.num_legs[other] * problem.num_dimensions[other])
    shift = state.key[beside] - state.key[stage] + (1 if np.random.random() < 0.5 else -1)
    launch = problem.launch[chunk]
    first = problem.first_chunk[launch]
    num_touched: int = problem.first_chunk[launch + 1] - first
    for i in range(num_touched):
        state.touched[i] = first + i
    begin = problem.first_stage[first]
    for i in range(begin, begin + num_touched * problem.num_legs[chunk] * problem.num_dimensions[chunk]):
        state.key[i] += shift
    return num_touched


def move_bytes(problem: Problem, state: State, chunk: int, num_touched: int) -> int:
    """Move a part of the bytes of a chunk to another one of its launch, small parts more often, or all of them.

    Parts are whole multiples, for rounding at the end would cost what the last steps gained.  Returns how many chunks
    are touched.
    """
    other = np.random.randint(len(problem.first_stage))
    if other == chunk or problem.launch[other] != problem.launch[chunk]:
        return 0
    merges = np.random.random() < problem.moves.merge_share
    one, two, launch = problem.partner[chunk], problem.partner[other], problem.launch[chunk]
    unit = problem.granule[launch] * (2 if one in (-1, chunk) and two not in (-1, other) else 1)
    part = state.size[chunk] if merges else ceil(state.size[chunk] * np.random.random() ** 3 / unit) * unit
    largest = problem.moves.largest * state.size[problem.first_chunk[launch] : problem.first_chunk[launch + 1]].mean()
    if one == other or part > state.size[chunk] or state.size[other] + part > largest:
        return 0
    state.size[chunk] -= part
    state.size[other] += part * (1 if one in (-1, chunk) else 2) / (1 if two in (-1, other) else 2)
    if one >= 0:
        state.size[one], state.size[two] = state.size[chunk], state.size[other]
    state.touched[num_touched], state.touched[num_touched + 1] = chunk, other
    return 2


def touch_partners(problem: Problem, state: State, num_touched: int) -> int:
    """Let partners of the chunks touched gather along their paths backwards; returns how many chunks are touched then.

    At first all are, because the kernel does not know yet that paths mirror each other.
    """
    if state.known[0] == NEVER and len(problem.mirror) > 0:
        num_touched = len(problem.first_stage)
        for chunk in range(num_touched):
            state.touched[chunk] = chunk
    for number in range(num_touched):
        chunk = state.touched[number]
        partner, size = problem.partner[chunk], problem.num_dimensions[chunk]
        if partner < 0:
            continue
        first, back = problem.first_stage[chunk], problem.first_stage[partner] + size
        for i in range(size):
            state.path[back + i] = state.path[first + size - 1 - i]
        if partner != chunk:
            state.touched[num_touched] = partner
            num_touched += 1
    return num_touched


def change_path(problem: Problem, state: State, chunk: int, leg: int) -> None:
    """Swap two neighbours of a path, two random dimensions, or take the path of another chunk."""
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + leg * size
    draw = np.random.random()
    if draw < problem.moves.copy_share:
        other = np.random.randint(len(problem.first_stage))
        if problem.launch[other] == problem.launch[chunk]:
            from_first = problem.first_stage[other] + leg * size
            for i in range(size):
                state.path[first + i] = state.path[from_first + i]
    else:
        one = np.random.randint(size)
        near = draw < problem.moves.copy_share + problem.moves.neighbour_share
        two = (one + 1) % size if near else np.random.randint(size)
        swap(state.path, first + one, first + two)
        if np.random.random() < problem.moves.moment_share:
            swap(state.key, first + state.path[first + one], first + state.path[first + two])
            if problem.partner[chunk] >= 0:
                back = problem.first_stage[problem.partner[chunk]] + size
                swap(state.key, back + state.path[first + one], back + state.path[first + two])


def swap(values: IntArray | FloatArray, one: int, two: int) -> None:
    """Swap two elements."""
    kept = values[one]
    values[one] = values[two]
    values[two] = kept


def exchange(problem: Problem, state: State, chunk: int, leg: int, num_touched: int) -> int:
    """Let two chunks of a launch exchange a leg, its path and its places; returns how many are touched.

    Their partners exchange the other leg, and chunks whose partners are they themselves exchange none.
    """
    other = np.random.randint(len(problem.first_stage))
    one, two, size = problem.partner[chunk], problem.partner[other], problem.num_dimensions[chunk]
    if problem.launch[other] != problem.launch[chunk] or problem.pinned[chunk]:
        return 0
    if other in (chunk, one) or one == chunk or two == other:
        return 0
    first, other_first = problem.first_stage[chunk] + leg * size, problem.first_stage[other] + leg * size
    for i in range(size):
        swap(state.path, first + i, other_first + i)
        swap(state.key, first + i, other_first + i)
        if one >= 0:
            swap(state.key, problem.first_stage[one] + size + i, problem.first_stage[two] + size + i)
    state.touched[num_touched], state.touched[num_touched + 1] = chunk, other
    return 2


def change_priority(problem: Problem, state: State, chunk: int, leg: int, other: int) -> int:
    """Serve a stage just before or after one of another chunk on its dimension, or swap the places of both chunks.

    Returns how many chunks are touched, both or the first or none: a stage that is served as before is left alone.
    """
    size = problem.num_dimensions[chunk]
    first, other_first = problem.first_stage[chunk], problem.first_stage[other]
    if np.random.random() < problem.moves.swap_share:
        if problem.launch[other] != problem.launch[chunk]:
            return 0
        for i in range(size * problem.num_legs[chunk]):
            swap(state.key, first + i, other_first + i)
        return 2
    own = np.random.randint(size)
    dimension = problem.span[problem.launch[chunk], own]
    other_leg = np.random.randint(problem.num_legs[other])
    for i in range(problem.num_dimensions[other]):
        if problem.span[problem.launch[other], i] == dimension:
            # Keys are start times in whole picoseconds, so that one more or less is next to the other stage.
            place_of_other = state.key[other_first + other_leg * problem.num_dimensions[other] + i]
            key = place_of_other + (1 if np.random.random() < 0.5 else -1)
            if matters(problem, state, chunk, leg, own, key):
                state.key[first + leg * size + own] = key
                return 1
    return 0


def matters(problem: Problem, state: State, chunk: int, leg: int, own: int, key: float) -> bool:
    """Whether a stage of the current plan, on its local dimension `own`, would be served at another time.

    One that goes earlier has to overtake a stage that is served while it waits; one that goes later has to let one pass
    that waits by then.
    """
    if problem.iterations > 1 or state.known[0] == NEVER:
        return True
    stage = problem.first_stage[chunk] + leg * problem.num_dimensions[chunk]
    while state.path[stage] != own:
        stage += 1
    resource, begin, ready = state.operations.resource, state.known[stage], state.known_ready[stage]
    for other in range(len(state.known)):
        if other != stage and resource[other] == resource[stage]:
            moment = state.known[other]
            if max(ready, key) <= moment <= begin or (begin <= moment <= key and state.known_ready[other] <= begin):
                return True
    return False

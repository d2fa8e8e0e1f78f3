"""What one step of :mod:`themis_opt.search.annealing` changes: paths, priorities, sizes, launches.  Always compiled."""

from math import ceil

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.schedules.event_loop import NEVER
from themis_opt.search.annealing_state import AnnealingProblem, State


def change_one(problem: AnnealingProblem, state: State, num_touched: int) -> int:
    """Change a path, priorities or the size of a random chunk; returns the number of chunks touched so far."""
    chunk = np.random.randint(len(problem.first_stage))
    # Not for one makespan alone: there each stage counts more than the order of launches.
    if num_touched == 0 and problem.iterations > 1 and np.random.random() < problem.moves.launch:
        return move_launch(problem, state, chunk)
    if problem.resizes and np.random.random() < problem.moves.exchange:
        return num_touched + move_bytes(problem, state, chunk, num_touched)
    phase = np.random.randint(1 if problem.retraces[chunk] else problem.num_phases[chunk])
    state.touched[num_touched] = chunk
    if np.random.random() < problem.moves.exchange:
        return num_touched + exchange(problem, state, chunk, phase, num_touched)
    if np.random.random() < 0.5:
        if problem.pinned[chunk]:
            return num_touched
        change_path(problem, state, chunk, phase)
        return num_touched + 1
    other = np.random.randint(len(problem.first_stage))
    state.touched[num_touched + 1] = other
    phase = np.random.randint(problem.num_phases[chunk])
    return num_touched + change_priority(problem, state, chunk, phase, other)


def move_launch(problem: AnnealingProblem, state: State, chunk: int) -> int:
    """Serve the launch of a chunk earlier or later, a stage of it just before or after a stage of another chunk.

    Returns how many chunks are touched.
    """
    stage = problem.first_stage[chunk] + np.random.randint(problem.num_phases[chunk] * problem.num_dimensions[chunk])
    other = np.random.randint(len(problem.first_stage))
    beside = problem.first_stage[other] + np.random.randint(problem.num_phases[other] * problem.num_dimensions[other])
    shift = state.candidate.key[beside] - state.candidate.key[stage] + (1 if np.random.random() < 0.5 else -1)
    launch = problem.launch[chunk]
    first = problem.first_chunk[launch]
    num_touched: int = problem.first_chunk[launch + 1] - first
    for i in range(num_touched):
        state.touched[i] = first + i
    begin = problem.first_stage[first]
    for i in range(begin, begin + num_touched * problem.num_phases[chunk] * problem.num_dimensions[chunk]):
        state.candidate.key[i] += shift
    return num_touched


def move_bytes(problem: AnnealingProblem, state: State, chunk: int, num_touched: int) -> int:
    """Move a part of the bytes of a chunk to another one of its launch, small parts more often.

    Parts are whole multiples, for rounding at the end would cost what the last steps gained.  Returns how many chunks
    are touched.
    """
    other = np.random.randint(len(problem.first_stage))
    if other == chunk or problem.launch[other] != problem.launch[chunk]:
        return 0
    unit = problem.granule[problem.launch[chunk]]
    part = ceil(state.candidate.size[chunk] * np.random.random() ** 3 / unit) * unit
    if part > state.candidate.size[chunk]:
        return 0
    state.candidate.size[chunk] -= part
    state.candidate.size[other] += part
    state.touched[num_touched], state.touched[num_touched + 1] = chunk, other
    return 2


def retrace(problem: AnnealingProblem, state: State, num_touched: int) -> None:
    """Let chunks that must gather along their path backwards do so."""
    for number in range(num_touched):
        chunk = state.touched[number]
        if problem.retraces[chunk]:
            first, size = problem.first_stage[chunk], problem.num_dimensions[chunk]
            for i in range(size):
                state.candidate.path[first + size + i] = state.candidate.path[first + size - 1 - i]


def change_path(problem: AnnealingProblem, state: State, chunk: int, phase: int) -> None:
    """Take the path of another chunk, or swap two dimensions of a path, as often each."""
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + phase * size
    if np.random.random() < 0.5:
        other = np.random.randint(len(problem.first_stage))
        if problem.launch[other] == problem.launch[chunk]:
            from_first = problem.first_stage[other] + phase * size
            for i in range(size):
                state.candidate.path[first + i] = state.candidate.path[from_first + i]
        return
    one, two = np.random.randint(size), np.random.randint(size)
    swap(state.candidate.path, first + one, first + two)
    if np.random.random() < 0.5:  # each place in the path keeps its moment
        swap(state.candidate.key, first + state.candidate.path[first + one], first + state.candidate.path[first + two])
        if problem.retraces[chunk]:
            back = first + size
            swap(
                state.candidate.key, back + state.candidate.path[first + one], back + state.candidate.path[first + two]
            )


def swap(values: IntArray | FloatArray, one: int, two: int) -> None:
    """Swap two elements."""
    kept = values[one]
    values[one] = values[two]
    values[two] = kept


def exchange(problem: AnnealingProblem, state: State, chunk: int, phase: int, num_touched: int) -> int:
    """Let two chunks of a launch exchange a phase, its path and its places; returns how many are touched."""
    other = np.random.randint(len(problem.first_stage))
    size = problem.num_dimensions[chunk]
    may_not = problem.pinned[chunk] or problem.retraces[chunk]
    if may_not or other == chunk or problem.launch[other] != problem.launch[chunk]:
        return 0
    first, other_first = problem.first_stage[chunk] + phase * size, problem.first_stage[other] + phase * size
    for i in range(size):
        swap(state.candidate.path, first + i, other_first + i)
        swap(state.candidate.key, first + i, other_first + i)
    state.touched[num_touched], state.touched[num_touched + 1] = chunk, other
    return 2


def change_priority(problem: AnnealingProblem, state: State, chunk: int, phase: int, other: int) -> int:
    """Swap the places of two chunks, or serve a stage just before or after one of the other chunk on its resource.

    Returns how many chunks are touched, both or the first or none: a stage that is served as before is left alone.
    """
    size = problem.num_dimensions[chunk]
    first, other_first = problem.first_stage[chunk], problem.first_stage[other]
    kind = np.random.randint(3)
    if kind == 0:
        if problem.launch[other] != problem.launch[chunk]:
            return 0
        for i in range(size * problem.num_phases[chunk]):
            swap(state.candidate.key, first + i, other_first + i)
        return 2
    local = np.random.randint(size)
    resource = problem.resource[problem.launch[chunk], phase, local]
    other_phase = np.random.randint(problem.num_phases[other])
    for i in range(problem.num_dimensions[other]):
        if problem.resource[problem.launch[other], other_phase, i] == resource:
            # Keys are start times in whole picoseconds, so that one more or less is next to the other stage.
            place_of_other = state.candidate.key[other_first + other_phase * problem.num_dimensions[other] + i]
            key = place_of_other + (1 if kind == 1 else -1)
            if matters(problem, state, chunk, phase, local, key):
                state.candidate.key[first + phase * size + local] = key
                return 1
    return 0


def matters(problem: AnnealingProblem, state: State, chunk: int, phase: int, local: int, key: float) -> bool:
    """Whether a stage of the current plan, on its local dimension `local`, would be served at another time.

    One that goes earlier has to overtake a stage that is served while it waits; one that goes later has to let one pass
    that waits by then.
    """
    if problem.iterations > 1 or state.known[0] == NEVER:
        return True
    stage = problem.first_stage[chunk] + phase * problem.num_dimensions[chunk]
    while state.candidate.path[stage] != local:
        stage += 1
    resource, begin, ready = state.operations.resource, state.known[stage], state.known_ready[stage]
    for other in range(len(state.known)):
        if other != stage and resource[other] == resource[stage]:
            moment = state.known[other]
            if max(ready, key) <= moment <= begin or (begin <= moment <= key and state.known_ready[other] <= begin):
                return True
    return False

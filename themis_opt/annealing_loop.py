"""The inner loop of :mod:`themis_opt.annealing`: moves, simulation by the kernel, acceptance.  Always compiled."""

from functools import cache
from hashlib import sha256
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from themis_opt import event_loop
from themis_opt.cost import FloatArray, IntArray

CURRENT, BEST = 0, 1
"""Where `State.makespans` holds the makespan of the current and of the best plan."""

START = -1
"""Where `State.workspace` holds the start times."""

MAX_TOUCHED = 4
"""Most chunks that one step changes."""

AGAIN = 0.25
"""Chance of one more change in the same step."""

PATH_SHARE, COPY_SHARE, NEIGHBOUR_SHARE, SWAP_SHARE = 0.42, 0.17, 0.6, 0.17
"""Share of changes that are of paths; of these, of copied paths and swapped neighbours; of the others, of swaps."""


class Problem(NamedTuple):
    """What does not change during the search.

    Attributes
    ----------
    first_stage, num_legs, num_dimensions, mirrored : shape (chunks,)
        The stages of a chunk are numbered ``first_stage + leg * num_dimensions + position``.
    collective, size_class : int64, shape (chunks,)
        Where a chunk finds its part of the tables.
    span : int64, shape (collectives, dimensions)
        The dimension that each *local* dimension of a collective stands for.
    duration : int64, shape (size classes, legs, 2**dimensions, dimensions)
        Picoseconds a stage holds its dimension, by mask of the local dimensions visited in the leg, and its own.
    lag : int64, shape (collectives, legs, dimensions)
        Picoseconds from then to the result.
    release, successor_start, successor, num_predecessors, zeros, enforced
        As in :class:`themis_opt.kernel.Operations`; `zeros` serves as `minor` and `time_sign`.
    """

    first_stage: IntArray
    collective: IntArray
    size_class: IntArray
    num_legs: IntArray
    num_dimensions: IntArray
    mirrored: IntArray
    span: IntArray
    duration: IntArray
    lag: IntArray
    release: IntArray
    successor_start: IntArray
    successor: IntArray
    num_predecessors: IntArray
    zeros: IntArray
    enforced: IntArray


class State(NamedTuple):
    """What the search changes, arrays of shape (stages,) unless stated.

    Attributes
    ----------
    path, current_path, best_path : int64
        Local dimension of every stage, in the candidate, the current and the best plan.
    key, current_key, best_key : float64
        Priority of a chunk on a local dimension, numbered ``first_stage + leg * num_dimensions + local dimension``.
    resource, duration, lag, major
        The candidate as the kernel sees it.
    load : int64, shape (dimensions,)
        Total duration on each dimension in the candidate.
    touched : int64, shape (MAX_TOUCHED,)
        Chunks in which the candidate differs from the current plan.
    makespans : int64, shape (2,)
        Of the current and the best plan, picoseconds.
    workspace : tuple of int64 arrays
        What :func:`themis_opt.event_loop.event_loop` works on.
    """

    path: IntArray
    current_path: IntArray
    best_path: IntArray
    key: FloatArray
    current_key: FloatArray
    best_key: FloatArray
    resource: IntArray
    duration: IntArray
    lag: IntArray
    major: FloatArray
    load: IntArray
    touched: IntArray
    makespans: IntArray
    workspace: tuple[IntArray, ...]


@cache
def compiled() -> Any:
    """:func:`anneal` compiled to machine code that lets other threads run, from the cache on disk if there is one."""
    import numba
    from numba.extending import register_jitable

    kernel_functions: list[Any] = list(event_loop.COMPILED)
    for helper in (*kernel_functions, place, restore, keep, evaluate, change_path, change_priority, change_one, anneal):
        register_jitable(helper)
    edition = sha256(Path(event_loop.__file__).read_bytes()).hexdigest()

    # The cache only looks at this file and at what the function encloses, so that it has to enclose the kernel's.
    def anneal_of_edition(problem: Any, state: Any, steps: Any, hot: Any, cold: Any, seed: Any) -> None:
        if edition:
            anneal(problem, state, steps, hot, cold, seed)

    # Without reference counting: nothing is allocated inside.
    try:
        return numba.njit(cache=True, nogil=True, _nrt=False)(anneal_of_edition)
    except RuntimeError:  # no folder to cache in is writable
        return numba.njit(nogil=True, _nrt=False)(anneal_of_edition)


def anneal(problem: Any, state: Any, steps: Any, hot: Any, cold: Any, seed: Any) -> None:
    """Take `steps` steps while the temperature falls from `hot` to `cold` picoseconds.

    A candidate is accepted if its makespan exceeds the current one by no more than an exponentially distributed
    allowance of mean temperature.  The allowance is drawn first, so that a candidate whose load on one dimension
    already exceeds it need not be simulated.
    """
    np.random.seed(seed)
    for number in range(steps):
        temperature = hot * exp(log(cold / hot) * number / steps)
        limit = state.makespans[CURRENT] - temperature * log(1.0 - np.random.random())
        num_touched = change_one(problem, state, 0)
        while num_touched < MAX_TOUCHED - 1 and np.random.random() < AGAIN:
            num_touched = change_one(problem, state, num_touched)
        for i in range(num_touched):
            place(problem, state, state.touched[i])
        overloaded = False
        for load in state.load:
            overloaded = overloaded or load > limit
        makespan = -1
        if not overloaded:
            makespan = evaluate(problem, state)
        if not overloaded and makespan <= limit:
            state.makespans[CURRENT] = makespan
            keep(problem, state, num_touched)
        else:
            restore(problem, state, num_touched)


def change_one(problem: Any, state: Any, num_touched: Any) -> Any:
    """Change the path or a priority of a random chunk; returns the number of chunks touched so far."""
    chunk = np.random.randint(len(problem.first_stage))
    leg = np.random.randint(1 if problem.mirrored[chunk] else problem.num_legs[chunk])
    state.touched[num_touched] = chunk
    if np.random.random() < PATH_SHARE:
        change_path(problem, state, chunk, leg)
        return num_touched + 1
    other = np.random.randint(len(problem.first_stage))
    state.touched[num_touched + 1] = other
    leg = np.random.randint(problem.num_legs[chunk])
    return num_touched + 1 + change_priority(problem, state, chunk, leg, other)


def change_path(problem: Any, state: Any, chunk: Any, leg: Any) -> None:
    """Swap two neighbours of a path, two random dimensions, or take the path of another chunk."""
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + leg * size
    draw = np.random.random()
    if draw < COPY_SHARE:
        other = np.random.randint(len(problem.first_stage))
        if problem.collective[other] == problem.collective[chunk]:
            from_first = problem.first_stage[other] + leg * size
            for i in range(size):
                state.path[first + i] = state.path[from_first + i]
    else:
        one = np.random.randint(size)
        two = (one + 1) % size if draw < COPY_SHARE + NEIGHBOUR_SHARE else np.random.randint(size)
        swapped = state.path[first + one]
        state.path[first + one] = state.path[first + two]
        state.path[first + two] = swapped
    if problem.mirrored[chunk]:
        for i in range(size):
            state.path[first + size + i] = state.path[first + size - 1 - i]


def change_priority(problem: Any, state: Any, chunk: Any, leg: Any, other: Any) -> Any:
    """Serve a stage just before or after one of another chunk on its dimension, or swap the places of both chunks.

    Returns how many more chunks are touched: 1 if the other chunk changes too.
    """
    size = problem.num_dimensions[chunk]
    first, other_first = problem.first_stage[chunk], problem.first_stage[other]
    if np.random.random() < SWAP_SHARE:
        if problem.collective[other] != problem.collective[chunk]:
            return 0
        for i in range(size * problem.num_legs[chunk]):
            swapped = state.key[first + i]
            state.key[first + i] = state.key[other_first + i]
            state.key[other_first + i] = swapped
        return 1
    own = np.random.randint(size)
    dimension = problem.span[problem.collective[chunk], own]
    other_leg = np.random.randint(problem.num_legs[other])
    for i in range(problem.num_dimensions[other]):
        if problem.span[problem.collective[other], i] == dimension:
            place_of_other = state.key[other_first + other_leg * problem.num_dimensions[other] + i]
            shift = 1 if np.random.random() < 0.5 else -1
            state.key[first + leg * size + own] = place_of_other + shift
    return 0


def place(problem: Any, state: Any, chunk: Any) -> None:
    """Tell the kernel's arrays the path and the priorities of a chunk."""
    size, first = problem.num_dimensions[chunk], problem.first_stage[chunk]
    for leg in range(problem.num_legs[chunk]):
        visited = 0
        for stage in range(first + leg * size, first + (leg + 1) * size):
            local = state.path[stage]
            state.load[state.resource[stage]] -= state.duration[stage]
            state.resource[stage] = problem.span[problem.collective[chunk], local]
            state.duration[stage] = problem.duration[problem.size_class[chunk], leg, visited, local]
            state.load[state.resource[stage]] += state.duration[stage]
            state.lag[stage] = problem.lag[problem.collective[chunk], leg, local]
            state.major[stage] = state.key[first + leg * size + local]
            visited |= 1 << local


def evaluate(problem: Any, state: Any) -> Any:
    """Simulate the candidate; returns its makespan."""
    return event_loop.makespan_of_run(
        state.resource,
        state.duration,
        state.lag,
        problem.release,
        problem.successor_start,
        problem.successor,
        problem.num_predecessors,
        state.major,
        problem.zeros,
        problem.zeros,
        problem.enforced,
        state.workspace,
    )


def keep(problem: Any, state: Any, num_touched: Any) -> None:
    """Make the candidate the current plan, and the best one if it is; its priorities become its start times."""
    for i in range(num_touched):
        chunk = state.touched[i]
        first = problem.first_stage[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * problem.num_dimensions[chunk]):
            state.current_path[stage] = state.path[stage]
    start = state.workspace[START]
    for chunk in range(len(problem.first_stage)):
        size, first = problem.num_dimensions[chunk], problem.first_stage[chunk]
        for i in range(problem.num_legs[chunk] * size):
            place_of_stage = first + i // size * size + state.path[first + i]
            state.key[place_of_stage] = start[first + i]
            state.current_key[place_of_stage] = start[first + i]
            state.major[first + i] = start[first + i]
    if state.makespans[CURRENT] < state.makespans[BEST]:
        state.makespans[BEST] = state.makespans[CURRENT]
        for stage in range(len(start)):
            state.best_path[stage] = state.path[stage]
            state.best_key[stage] = state.key[stage]


def restore(problem: Any, state: Any, num_touched: Any) -> None:
    """Go back to the current plan."""
    for i in range(num_touched):
        chunk = state.touched[i]
        first = problem.first_stage[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * problem.num_dimensions[chunk]):
            state.path[stage] = state.current_path[stage]
            state.key[stage] = state.current_key[stage]
        place(problem, state, chunk)

"""The inner loop of :mod:`themis_opt.search.annealing`: moves, simulation, acceptance.  Always compiled."""

from math import exp, log
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.schedules import event_loop
from themis_opt.schedules.event_loop import Operations, Workspace, makespan_of

CURRENT, BEST = 0, 1
"""Where `State.makespans` holds the makespan of the current and of the best plan."""

MAX_TOUCHED = 4
"""Most chunks that one step changes."""


class MoveParams(NamedTuple):
    """What one step changes; a named tuple, because compiled code takes no dataclass.

    Half and double change the mean makespan by 0.3 % or less, which may be chance (``reports/parameters``).

    Attributes
    ----------
    again : float
        Chance of one more change in the same step.
    path_share : float
        Share of changes that are of paths; the others are of priorities.
    copy_share, neighbour_share : float
        Shares of changes of paths that copy the path of another chunk, and that swap neighbours; the others swap any
        two dimensions.
    swap_share : float
        Share of changes of priorities that swap the places of two chunks; the others move one stage beside another.
    """

    again: float = 0.25
    path_share: float = 0.42
    copy_share: float = 0.17
    neighbour_share: float = 0.6
    swap_share: float = 0.17


USUAL = MoveParams()


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
    moves : MoveParams
        What one step changes.
    """

    first_stage: IntArray
    collective: IntArray
    size_class: IntArray
    num_legs: IntArray
    num_dimensions: IntArray
    mirrored: BoolArray
    span: IntArray
    duration: IntArray
    lag: IntArray
    moves: MoveParams


class State(NamedTuple):
    """What the search changes, arrays of shape (stages,) unless stated.

    Attributes
    ----------
    path, current_path, best_path : int64
        Local dimension of every stage, in the candidate, the current and the best plan.
    key, current_key, best_key : float64
        Priority of a chunk on a local dimension, numbered ``first_stage + leg * num_dimensions + local dimension``.
    operations : Operations
        The candidate as the kernel sees it; keys are its `major`, and no resource enforces a sequence.
    load : int64, shape (dimensions,)
        Total duration on each dimension in the candidate.
    touched : int64, shape (MAX_TOUCHED,)
        Chunks in which the candidate differs from the current plan.
    makespans : int64, shape (2,)
        Of the current and the best plan, picoseconds.
    workspace : Workspace
        The start times of the candidate, once it is simulated.
    """

    path: IntArray
    current_path: IntArray
    best_path: IntArray
    key: FloatArray
    current_key: FloatArray
    best_key: FloatArray
    operations: Operations
    load: IntArray
    touched: IntArray
    makespans: IntArray
    workspace: Workspace


def anneal(problem: Problem, state: State, steps: int, hot: float, cold: float, seed: int) -> None:
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
        # One change may touch two chunks.
        while num_touched < MAX_TOUCHED - 1 and np.random.random() < problem.moves.again:
            num_touched = change_one(problem, state, num_touched)
        for i in range(num_touched):
            place(problem, state, state.touched[i])
        if not is_overloaded(state, limit):
            makespan = makespan_of(state.operations, state.workspace)
            if makespan <= limit:
                state.makespans[CURRENT] = makespan
                keep(problem, state, num_touched)
                continue
        restore(problem, state, num_touched)


def is_overloaded(state: State, limit: float) -> bool:
    """Whether a dimension has more to carry than fits before the limit."""
    overloaded = False
    for load in state.load:
        overloaded = overloaded or load > limit
    return overloaded


def change_one(problem: Problem, state: State, num_touched: int) -> int:
    """Change the path or a priority of a random chunk; returns the number of chunks touched so far."""
    chunk = np.random.randint(len(problem.first_stage))
    leg = np.random.randint(1 if problem.mirrored[chunk] else problem.num_legs[chunk])
    state.touched[num_touched] = chunk
    if np.random.random() < problem.moves.path_share:
        change_path(problem, state, chunk, leg)
        return num_touched + 1
    other = np.random.randint(len(problem.first_stage))
    state.touched[num_touched + 1] = other
    leg = np.random.randint(problem.num_legs[chunk])
    return num_touched + 1 + change_priority(problem, state, chunk, leg, other)


def change_path(problem: Problem, state: State, chunk: int, leg: int) -> None:
    """Swap two neighbours of a path, two random dimensions, or take the path of another chunk."""
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + leg * size
    draw = np.random.random()
    if draw < problem.moves.copy_share:
        other = np.random.randint(len(problem.first_stage))
        if problem.collective[other] == problem.collective[chunk]:
            from_first = problem.first_stage[other] + leg * size
            for i in range(size):
                state.path[first + i] = state.path[from_first + i]
    else:
        one = np.random.randint(size)
        near = draw < problem.moves.copy_share + problem.moves.neighbour_share
        two = (one + 1) % size if near else np.random.randint(size)
        swapped = state.path[first + one]
        state.path[first + one] = state.path[first + two]
        state.path[first + two] = swapped
    if problem.mirrored[chunk]:
        for i in range(size):
            state.path[first + size + i] = state.path[first + size - 1 - i]


def change_priority(problem: Problem, state: State, chunk: int, leg: int, other: int) -> int:
    """Serve a stage just before or after one of another chunk on its dimension, or swap the places of both chunks.

    Returns how many more chunks are touched: 1 if the other chunk changes too.
    """
    size = problem.num_dimensions[chunk]
    first, other_first = problem.first_stage[chunk], problem.first_stage[other]
    if np.random.random() < problem.moves.swap_share:
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
            # Keys are start times in whole picoseconds, so that one more or less is next to the other stage.
            place_of_other = state.key[other_first + other_leg * problem.num_dimensions[other] + i]
            shift = 1 if np.random.random() < 0.5 else -1
            state.key[first + leg * size + own] = place_of_other + shift
    return 0


def place(problem: Problem, state: State, chunk: int) -> None:
    """Tell the kernel's arrays the path and the priorities of a chunk."""
    size, first, operations = problem.num_dimensions[chunk], problem.first_stage[chunk], state.operations
    for leg in range(problem.num_legs[chunk]):
        visited = 0
        for stage in range(first + leg * size, first + (leg + 1) * size):
            local = state.path[stage]
            state.load[operations.resource[stage]] -= operations.duration[stage]
            operations.resource[stage] = problem.span[problem.collective[chunk], local]
            operations.duration[stage] = problem.duration[problem.size_class[chunk], leg, visited, local]
            state.load[operations.resource[stage]] += operations.duration[stage]
            operations.lag[stage] = problem.lag[problem.collective[chunk], leg, local]
            # Keys belong to dimensions and not to positions, so a chunk keeps them when its path changes.
            operations.major[stage] = state.key[first + leg * size + local]
            visited |= 1 << local


def keep(problem: Problem, state: State, num_touched: int) -> None:
    """Make the candidate the current plan, and the best one if it is; its priorities become its start times."""
    for i in range(num_touched):
        chunk = state.touched[i]
        first = problem.first_stage[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * problem.num_dimensions[chunk]):
            state.current_path[stage] = state.path[stage]
    start = state.workspace.start
    for chunk in range(len(problem.first_stage)):
        size, first = problem.num_dimensions[chunk], problem.first_stage[chunk]
        for i in range(problem.num_legs[chunk] * size):
            place_of_stage = first + i // size * size + state.path[first + i]
            state.key[place_of_stage] = start[first + i]
            state.current_key[place_of_stage] = start[first + i]
            state.operations.major[first + i] = start[first + i]
    if state.makespans[CURRENT] < state.makespans[BEST]:
        state.makespans[BEST] = state.makespans[CURRENT]
        for stage in range(len(start)):
            state.best_path[stage] = state.path[stage]
            state.best_key[stage] = state.key[stage]


def restore(problem: Problem, state: State, num_touched: int) -> None:
    """Go back to the current plan."""
    for i in range(num_touched):
        chunk = state.touched[i]
        first = problem.first_stage[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * problem.num_dimensions[chunk]):
            state.path[stage] = state.current_path[stage]
            state.key[stage] = state.current_key[stage]
        place(problem, state, chunk)


ANNEAL = Compilable(anneal, event_loop, nogil=True)
"""Always compiled; other threads run meanwhile."""

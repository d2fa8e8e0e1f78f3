"""The inner loop of :mod:`themis_opt.search.annealing`: moves, simulation, acceptance.  Always compiled."""

from math import ceil, exp, log
from typing import NamedTuple

import numpy as np

from themis_opt.base.arrays import BoolArray, FloatArray, IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.schedules import event_loop
from themis_opt.schedules.event_loop import Operations, Workspace, makespan_of, serve_all

CURRENT, BEST = 0, 1
"""Where `State.makespans` holds the makespan of the current and of the best plan."""

MAX_TOUCHED = 4
"""Most chunks that one step changes, besides those of one launch."""


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
    launch_share : float
        Where iterations are repeated, share of steps that begin with moving all stages of a launch, one of them beside
        a stage of another launch.
    size_share, merge_share : float
        Where sizes are free, share of changes that move bytes from one chunk to another, and of these the ones that
        move all of them, so that a chunk is gone; a chunk that is gone may come back.  Half and double of the first
        lengthen the mean makespan by 0.4 and 0.8 %, of the second they are chance.
    """

    again: float = 0.25
    path_share: float = 0.42
    copy_share: float = 0.17
    neighbour_share: float = 0.6
    swap_share: float = 0.17
    launch_share: float = 0.6
    size_share: float = 0.3
    merge_share: float = 0.1


USUAL = MoveParams()


class Problem(NamedTuple):
    """What does not change during the search.

    Attributes
    ----------
    iterations : int
        How many are simulated in a row, all alike; one where nothing is repeated.
    num_tasks, num_operations : int
        Tasks, which come first among the operations of an iteration, and all operations of an iteration.
    first_stage, num_legs, num_dimensions, mirrored : shape (chunks,)
        The stages of a chunk are numbered ``first_stage + leg * num_dimensions + position``.
    pinned : bool, shape (chunks,)
        Whether the path of a chunk stays, because chunks of another launch must reverse it.
    launch, size_class : int64, shape (chunks,)
        Where a chunk finds its part of the tables.
    first_chunk : int64, shape (launches + 1,)
        The chunks of each launch are numbered one after the other.
    span : int64, shape (launches, dimensions)
        The resource that each *local* dimension of a launch occupies.
    duration : int64, shape (size classes, legs, 2**dimensions, dimensions)
        Picoseconds a stage holds its dimension, by mask of the local dimensions visited in the leg, and its own.
    lag : int64, shape (launches, legs, dimensions)
        Picoseconds from then to the result.
    resizes : bool
        Whether steps move bytes between chunks too; then the following decide how long stages are, not `duration`.
    rate, packets : float64, shape (launches, legs, 2**dimensions, dimensions)
        Picoseconds without headers, and packets, for each byte of a chunk; indexed as `duration`.
    fixed, header : int64 and float64, shapes (launches, legs, 2**dimensions, dimensions) and (launches, dimensions)
        Picoseconds whatever a stage sends, and for each packet.
    moves : MoveParams
        What one step changes.
    """

    iterations: int
    num_tasks: int
    num_operations: int
    first_stage: IntArray
    launch: IntArray
    size_class: IntArray
    num_legs: IntArray
    num_dimensions: IntArray
    mirrored: BoolArray
    pinned: BoolArray
    first_chunk: IntArray
    span: IntArray
    duration: IntArray
    lag: IntArray
    resizes: bool
    rate: FloatArray
    packets: FloatArray
    fixed: IntArray
    header: FloatArray
    moves: MoveParams


class State(NamedTuple):
    """What the search changes, arrays of shape (stages,), those of one iteration, unless stated.

    Attributes
    ----------
    path, current_path, best_path : int64
        Local dimension of every stage, in the candidate, the current and the best plan.
    key, current_key, best_key : float64
        Priority of a chunk on a local dimension, numbered ``first_stage + leg * num_dimensions + local dimension``; the
        time when it is served, counted from the begin of its iteration.
    size, current_size, best_size : float64, shape (chunks,)
        Bytes of every chunk; a chunk without any takes no time.
    operations : Operations
        The candidate as the kernel sees it; its `major` are the keys, from one iteration to the next as much later as
        an iteration takes, and no resource enforces a sequence.
    load : int64, shape (resources,)
        Total duration on each resource in one iteration of the candidate.
    touched : int64, shape (MAX_TOUCHED + most chunks of a launch,)
        Chunks in which the candidate differs from the current plan.
    makespans : int64, shape (2,)
        Of the current and the best plan, picoseconds; where iterations are repeated, the time of one.
    workspace : Workspace
        The start times of the candidate, once it is simulated.
    """

    path: IntArray
    current_path: IntArray
    best_path: IntArray
    key: FloatArray
    current_key: FloatArray
    best_key: FloatArray
    size: FloatArray
    current_size: FloatArray
    best_size: FloatArray
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
            makespan = time_of(problem, state)
            if makespan <= limit:
                state.makespans[CURRENT] = makespan
                keep(problem, state, num_touched)
                continue
        restore(problem, state, num_touched)


def time_of(problem: Problem, state: State) -> int:
    """Simulate the candidate; returns its makespan or, where iterations are repeated, the time of one of them."""
    if problem.iterations == 1:
        return makespan_of(state.operations, state.workspace)
    serve_all(state.operations, state.workspace)
    start, count = state.workspace.start, problem.num_operations
    last = (problem.iterations - 1) * count  # the first operation of the last iteration
    period: int = start[last] - start[last - count]
    for i in range(last - count, last):
        if start[i] - start[i - count] != period:
            return max(period, drained(problem, state))
    return period


def drained(problem: Problem, state: State) -> int:
    """Picoseconds from the first start in the last whole iteration until all of it is done and has arrived.

    A plan in the order of that iteration repeats in no more: the next one may begin then.  A mean over several unequal
    ones may be less than any plan that repeats each of them takes.
    """
    operations, start = state.operations, state.workspace.start
    first = (problem.iterations - 2) * problem.num_operations
    begin, end = start[first], start[first]
    for i in range(first, first + problem.num_operations):
        begin = min(begin, start[i])
        end = max(end, start[i] + operations.duration[i] + operations.lag[i])
    length: int = end - begin
    return length


def is_overloaded(state: State, limit: float) -> bool:
    """Whether a resource has more to serve in an iteration than fits before the limit."""
    overloaded = False
    for load in state.load:
        overloaded = overloaded or load > limit
    return overloaded


def change_one(problem: Problem, state: State, num_touched: int) -> int:
    """Change the path or a priority of a random chunk; returns the number of chunks touched so far."""
    chunk = np.random.randint(len(problem.first_stage))
    # Not for one makespan alone: there each stage counts more than the order of launches.
    if num_touched == 0 and problem.iterations > 1 and np.random.random() < problem.moves.launch_share:
        return move_launch(problem, state, chunk)
    if problem.resizes and np.random.random() < problem.moves.size_share:
        return num_touched + move_bytes(problem, state, chunk, num_touched)
    leg = np.random.randint(1 if problem.mirrored[chunk] else problem.num_legs[chunk])
    state.touched[num_touched] = chunk
    if np.random.random() < problem.moves.path_share:
        if problem.pinned[chunk]:
            return num_touched
        change_path(problem, state, chunk, leg)
        return num_touched + 1
    other = np.random.randint(len(problem.first_stage))
    state.touched[num_touched + 1] = other
    leg = np.random.randint(problem.num_legs[chunk])
    return num_touched + 1 + change_priority(problem, state, chunk, leg, other)


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

    Returns how many chunks are touched.
    """
    other = np.random.randint(len(problem.first_stage))
    if other == chunk or problem.launch[other] != problem.launch[chunk]:
        return 0
    merges = np.random.random() < problem.moves.merge_share
    part = state.size[chunk] * (1.0 if merges else np.random.random() ** 3)
    state.size[chunk] -= part
    state.size[other] += part
    state.touched[num_touched], state.touched[num_touched + 1] = chunk, other
    return 2


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
        if problem.launch[other] != problem.launch[chunk]:
            return 0
        for i in range(size * problem.num_legs[chunk]):
            swapped = state.key[first + i]
            state.key[first + i] = state.key[other_first + i]
            state.key[other_first + i] = swapped
        return 1
    own = np.random.randint(size)
    dimension = problem.span[problem.launch[chunk], own]
    other_leg = np.random.randint(problem.num_legs[other])
    for i in range(problem.num_dimensions[other]):
        if problem.span[problem.launch[other], i] == dimension:
            # Keys are start times in whole picoseconds, so that one more or less is next to the other stage.
            place_of_other = state.key[other_first + other_leg * problem.num_dimensions[other] + i]
            shift = 1 if np.random.random() < 0.5 else -1
            state.key[first + leg * size + own] = place_of_other + shift
    return 0


def place(problem: Problem, state: State, chunk: int) -> None:
    """Tell the kernel's arrays the path and the priorities of a chunk, in all iterations."""
    size, first, operations = problem.num_dimensions[chunk], problem.first_stage[chunk], state.operations
    launch, size_class = problem.launch[chunk], problem.size_class[chunk]
    for leg in range(problem.num_legs[chunk]):
        visited = 0
        for stage in range(first + leg * size, first + (leg + 1) * size):
            local = state.path[stage]
            resource = problem.span[launch, local]
            duration, lag = problem.duration[size_class, leg, visited, local], problem.lag[launch, leg, local]
            if problem.resizes:
                duration = duration_of(problem, launch, leg, visited, local, state.size[chunk])
                lag = lag if state.size[chunk] > 0 else 0
            i = problem.num_tasks + stage
            state.load[operations.resource[i]] -= operations.duration[i]
            state.load[resource] += duration
            # Keys belong to dimensions and not to positions, so a chunk keeps them when its path changes.
            key = state.key[first + leg * size + local]
            for iteration in range(problem.iterations):
                operations.resource[i] = resource
                operations.duration[i] = duration
                operations.lag[i] = lag
                operations.major[i] = key + iteration * state.makespans[CURRENT]
                i += problem.num_operations
            visited |= 1 << local


def duration_of(problem: Problem, launch: int, leg: int, visited: int, local: int, size: float) -> int:
    """Picoseconds for which a stage of a chunk of so many bytes holds its dimension."""
    if size <= 0:
        return 0
    packets = ceil(problem.packets[launch, leg, visited, local] * size)
    variable = problem.rate[launch, leg, visited, local] * size + packets * problem.header[launch, local]
    duration: int = problem.fixed[launch, leg, visited, local] + ceil(variable)
    return duration


def keep(problem: Problem, state: State, num_touched: int) -> None:
    """Make the candidate the current plan, and the best one if it is; its priorities become its start times."""
    for i in range(num_touched):
        chunk = state.touched[i]
        first = problem.first_stage[chunk]
        state.current_size[chunk] = state.size[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * problem.num_dimensions[chunk]):
            state.current_path[stage] = state.path[stage]
    # Of the last iteration that is whole.
    begin = max(problem.iterations - 2, 0) * problem.num_operations
    begin_time = state.workspace.start[begin] if problem.iterations > 1 else 0
    for chunk in range(len(problem.first_stage)):
        size, first = problem.num_dimensions[chunk], problem.first_stage[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * size):
            i = problem.num_tasks + stage
            key = state.workspace.start[begin + i] - begin_time
            place_of_stage = first + (stage - first) // size * size + state.path[stage]
            state.key[place_of_stage] = key
            state.current_key[place_of_stage] = key
            for iteration in range(problem.iterations):
                state.operations.major[i] = key + iteration * state.makespans[CURRENT]
                i += problem.num_operations
    if state.makespans[CURRENT] < state.makespans[BEST]:
        state.makespans[BEST] = state.makespans[CURRENT]
        for stage in range(len(state.path)):
            state.best_path[stage] = state.path[stage]
            state.best_key[stage] = state.key[stage]
        for chunk in range(len(state.size)):
            state.best_size[chunk] = state.size[chunk]


def restore(problem: Problem, state: State, num_touched: int) -> None:
    """Go back to the current plan."""
    for i in range(num_touched):
        chunk = state.touched[i]
        first = problem.first_stage[chunk]
        state.size[chunk] = state.current_size[chunk]
        for stage in range(first, first + problem.num_legs[chunk] * problem.num_dimensions[chunk]):
            state.path[stage] = state.current_path[stage]
            state.key[stage] = state.current_key[stage]
        place(problem, state, chunk)


ANNEAL = Compilable(anneal, event_loop, nogil=True)
"""Always compiled; other threads run meanwhile."""

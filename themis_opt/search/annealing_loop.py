"""The inner loop of :mod:`themis_opt.search.annealing`: simulates and accepts changed plans.  Always compiled."""

from math import exp, log

import numpy as np

from themis_opt.base.compiled import Compilable
from themis_opt.schedules import event_loop
from themis_opt.schedules.event_loop import NEVER, serve_all
from themis_opt.search import annealing_moves, annealing_state, resumed_loop
from themis_opt.search.annealing_moves import change_one, retrace
from themis_opt.search.annealing_state import BEST, CURRENT, AnnealingProblem, ChunkLayout, State, duration_of
from themis_opt.search.resumed_loop import makespan_within


def anneal(problem: AnnealingProblem, state: State, steps: int, hot: float, cold: float, seed: int) -> None:
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
        if np.random.random() < problem.moves.again:
            num_touched = change_one(problem, state, num_touched)
        if num_touched == 0:
            continue
        retrace(problem, state, num_touched)
        since = first_difference(problem, state, num_touched)
        for i in range(num_touched):
            place(problem, state, state.touched[i])
        makespan = NEVER if is_overloaded(state, limit) else time_of(problem, state, since, limit)
        if makespan <= limit:
            state.makespans[CURRENT] = makespan
            keep(problem, state, num_touched)
        else:
            restore(problem, state, num_touched)


def time_of(problem: AnnealingProblem, state: State, since: int, limit: float) -> int:
    """Simulate the candidate; returns its makespan or, where iterations are repeated, the time of one of them.

    It is served as the current plan before `since`, and given up where it exceeds the limit.
    """
    operations, space = state.operations, state.workspace
    if problem.iterations == 1:
        for r in range(len(state.load)):
            state.remaining[r] = state.load[r]
        return makespan_within(
            operations, space, state.known, since, state.remaining, state.tail, limit, state.arriving
        )
    serve_all(operations, space)
    start, count = space.start, problem.num_operations
    last = (problem.iterations - 1) * count  # the first operation of the last iteration
    period: int = start[last] - start[last - count]
    for i in range(last - count, last):
        if start[i] - start[i - count] != period:
            return max(period, drained(problem, state))
    return period


def first_difference(problem: AnnealingProblem, state: State, num_touched: int) -> int:
    """Picoseconds before which the candidate is served as the current plan, whose priorities are its start times.

    A stage that is served earlier or later makes a difference at the earlier of both times, if it waits by then; one on
    another dimension as soon as it waits; a size as soon as the first stage of the chunk is served.
    """
    if state.known[0] == NEVER:
        return 0
    since: int = state.makespans[CURRENT]
    for number in range(num_touched):
        chunk = state.touched[number]
        first, size = problem.first_stage[chunk], problem.num_dimensions[chunk]
        if state.candidate.size[chunk] != state.current.size[chunk]:
            since = min(since, state.known[first])
        for stage in range(first, first + problem.num_phases[chunk] * size):
            local = state.candidate.path[stage]
            if local != state.current.path[stage]:
                since = min(since, state.known_ready[stage])
            else:
                key = (stage - first) // size * size + first + local
                if state.candidate.key[key] != state.current.key[key]:
                    earlier = min(state.candidate.key[key], state.current.key[key]) - 1
                    since = min(since, max(state.known_ready[stage], int(earlier)))
    return since


def drained(problem: AnnealingProblem, state: State) -> int:
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


def place(problem: AnnealingProblem, state: State, chunk: int) -> None:
    """Tell the kernel's arrays the path and the priorities of a chunk, in all iterations."""
    size, first, operations = problem.num_dimensions[chunk], problem.first_stage[chunk], state.operations
    launch = problem.launch[chunk]
    for phase in range(problem.num_phases[chunk]):
        visited = 0
        for stage in range(first + phase * size, first + (phase + 1) * size):
            local = state.candidate.path[stage]
            resource = problem.resource[launch, phase, local]
            duration = duration_of(problem, chunk, phase, visited, local, state.candidate.size[chunk])
            lag = 0 if problem.resizes and state.candidate.size[chunk] <= 0 else problem.lag[launch, phase, local]
            i = problem.num_tasks + stage
            state.load[operations.resource[i]] -= operations.duration[i]
            state.load[resource] += duration
            # Keys belong to dimensions and not to positions, so a chunk keeps them when its path changes.
            key = state.candidate.key[first + phase * size + local]
            for iteration in range(problem.iterations):
                operations.resource[i] = resource
                operations.duration[i] = duration
                operations.lag[i] = lag
                operations.major[i] = key + iteration * state.makespans[CURRENT]
                i += problem.num_operations
            visited |= 1 << local
    if problem.iterations == 1:
        measure_tails(problem, state, chunk)


def measure_tails(problem: AnnealingProblem, state: State, chunk: int) -> None:
    """Note what comes after each stage of a chunk."""
    operations, after = state.operations, 0
    first = problem.num_tasks + problem.first_stage[chunk]
    for i in range(first + problem.num_phases[chunk] * problem.num_dimensions[chunk] - 1, first - 1, -1):
        after += operations.lag[i]
        state.tail[i] = after
        after += operations.duration[i]


def keep(problem: AnnealingProblem, state: State, num_touched: int) -> None:
    """Make the candidate the current plan, and the best one if it is; its priorities become its start times."""
    for i in range(num_touched):
        copy_chunk(problem, state.candidate, state.current, state.touched[i])
    if problem.iterations == 1:
        for i in range(len(state.known)):
            state.known[i], state.known_ready[i] = state.workspace.start[i], state.workspace.ready[i]
    # Of the last iteration that is whole.
    begin = max(problem.iterations - 2, 0) * problem.num_operations
    begin_time = state.workspace.start[begin] if problem.iterations > 1 else 0
    is_best = state.makespans[CURRENT] < state.makespans[BEST]
    for chunk in range(len(problem.first_stage)):
        size, first = problem.num_dimensions[chunk], problem.first_stage[chunk]
        for stage in range(first, first + problem.num_phases[chunk] * size):
            i = problem.num_tasks + stage
            key = state.workspace.start[begin + i] - begin_time
            place_of_stage = first + (stage - first) // size * size + state.current.path[stage]
            state.candidate.key[place_of_stage] = key
            state.current.key[place_of_stage] = key
            for iteration in range(problem.iterations):
                state.operations.major[i] = key + iteration * state.makespans[CURRENT]
                i += problem.num_operations
        if is_best:
            copy_chunk(problem, state.current, state.best, chunk)
    if is_best:
        state.makespans[BEST] = state.makespans[CURRENT]


def restore(problem: AnnealingProblem, state: State, num_touched: int) -> None:
    """Go back to the current plan."""
    for i in range(num_touched):
        copy_chunk(problem, state.current, state.candidate, state.touched[i])
        place(problem, state, state.touched[i])


def copy_chunk(problem: AnnealingProblem, origin: ChunkLayout, target: ChunkLayout, chunk: int) -> None:
    """Make a chunk in one plan what it is in another one."""
    first = problem.first_stage[chunk]
    target.size[chunk] = origin.size[chunk]
    for stage in range(first, first + problem.num_phases[chunk] * problem.num_dimensions[chunk]):
        target.path[stage], target.key[stage] = origin.path[stage], origin.key[stage]


ANNEAL = Compilable(anneal, event_loop, resumed_loop, annealing_moves, annealing_state, nogil=True)
"""Always compiled; other threads run meanwhile."""

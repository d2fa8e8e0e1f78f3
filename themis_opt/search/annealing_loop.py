"""The inner loop of :mod:`themis_opt.search.annealing`: changes a plan, simulates it from where it differs, accepts.

Always compiled.
"""

from math import ceil, exp, log

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.compiled import Compilable
from themis_opt.schedules import event_loop
from themis_opt.schedules.event_loop import NEVER, Operations, Workspace, clear, pop, push, serve_all
from themis_opt.search import annealing_state
from themis_opt.search.annealing_state import BEST, CURRENT, AnnealingProblem, ChunkLayout, State, duration_of


def makespan_within(
    operations: Operations,
    workspace: Workspace,
    known: IntArray,
    since: int,
    remaining: IntArray,
    tail: IntArray,
    limit: float,
    arriving: IntArray,
) -> int:
    """The makespan, or ``NEVER`` where it cannot be within a limit: then not all operations are served.

    `operations`: without enforced sequences.
    `workspace`: is filled; as far as operations are served.
    `known`, shape (operations,): start times of another plan, of which those before `since` are also those of this one.
    `since`: picoseconds until which both plans are alike.
    `remaining`, shape (resources,): total duration on each resource; changed.
    `tail`, shape (operations,): picoseconds from the end of each operation to the results of those that wait for it, at
      least.
    `limit`: picoseconds.
    `arriving`, shape (resources, 2): changed: where those on their way to each resource are in ``workspace.arrivals``,
      the first and after the last.
    """
    makespan = take_over(operations, workspace, known, since, remaining)
    note_the_others(operations, workspace, arriving)
    begin, free, duration = workspace.begin, workspace.free, operations.duration
    while True:
        now, first = NEVER, 0
        for r in range(len(begin)):
            if begin[r] < now:
                now, first = begin[r], r
        if now == NEVER:
            return makespan
        let_wait(operations, workspace, arriving, first, now)
        i = pop(operations, workspace, first)
        end = now + duration[i]
        if now + remaining[first] > limit or end + tail[i] > limit:
            return NEVER
        workspace.start[i], free[first] = now, end
        remaining[first] -= duration[i]
        result = end + operations.lag[i]
        makespan = max(makespan, result)
        for edge in range(operations.successor_start[i], operations.successor_start[i + 1]):
            j = operations.successor[edge]
            workspace.ready[j] = max(workspace.ready[j], result)
            workspace.missing[j] -= 1
            if workspace.missing[j] == 0:
                arrive(operations, workspace, arriving, j)
        set_begin(workspace, arriving, first)


def arrive(operations: Operations, workspace: Workspace, arriving: IntArray, i: int) -> None:
    """Note an operation among those on their way to its resource, by time: it is mostly one of the last to be there."""
    r, arrivals, ready = operations.resource[i], workspace.arrivals, workspace.ready
    place = arriving[r, 1]
    while place > arriving[r, 0] and ready[arrivals[place - 1]] > ready[i]:
        arrivals[place] = arrivals[place - 1]
        place -= 1
    arrivals[place] = i
    arriving[r, 1] += 1
    if workspace.waiting[r] == 0:
        workspace.begin[r] = min(workspace.begin[r], max(workspace.free[r], ready[i]))


def let_wait(operations: Operations, workspace: Workspace, arriving: IntArray, r: int, now: int) -> None:
    """Let operations wait for their resource that have arrived by now."""
    while arriving[r, 0] < arriving[r, 1] and workspace.ready[workspace.arrivals[arriving[r, 0]]] <= now:
        i = workspace.arrivals[arriving[r, 0]]
        arriving[r, 0] += 1
        push(operations, workspace, r, i)


def set_begin(workspace: Workspace, arriving: IntArray, r: int) -> None:
    """Tell when a resource serves next."""
    workspace.begin[r] = NEVER
    if workspace.waiting[r] > 0:
        workspace.begin[r] = workspace.free[r]
    elif arriving[r, 0] < arriving[r, 1]:
        workspace.begin[r] = max(workspace.free[r], workspace.ready[workspace.arrivals[arriving[r, 0]]])


def take_over(operations: Operations, workspace: Workspace, known: IntArray, since: int, remaining: IntArray) -> int:
    """Prepare the workspace, with what is served before `since`; returns when the last result of that is there."""
    clear(operations, workspace)
    ready, missing, start = workspace.ready, workspace.missing, workspace.start
    resource, duration = operations.resource, operations.duration
    makespan = 0
    for i in range(len(ready)):
        if known[i] >= since:
            continue
        start[i], r = known[i], resource[i]
        end = known[i] + duration[i]
        workspace.free[r] = max(workspace.free[r], end)
        remaining[r] -= duration[i]
        result = end + operations.lag[i]
        makespan = max(makespan, result)
        for edge in range(operations.successor_start[i], operations.successor_start[i + 1]):
            j = operations.successor[edge]
            ready[j] = max(ready[j], result)
            missing[j] -= 1
    return makespan


def note_the_others(operations: Operations, workspace: Workspace, arriving: IntArray) -> None:
    """Let the operations that are not served arrive."""
    for r in range(len(arriving)):
        arriving[r, 0] = arriving[r, 1] = workspace.queue_start[r]
    for i in range(len(workspace.start)):
        if workspace.start[i] < 0 and workspace.missing[i] == 0:
            arrive(operations, workspace, arriving, i)


def change_one(problem: AnnealingProblem, state: State) -> int:
    """Change a path, a priority or the size of a random chunk; returns the number of chunks touched."""
    chunk = np.random.randint(len(problem.first_stage))
    # Not for one makespan alone: there each stage counts more than the order of launches.
    if problem.iterations > 1 and np.random.random() < problem.moves.launch:
        return move_launch(problem, state, chunk)
    if problem.resizes and np.random.random() < problem.moves.resize:
        return move_bytes(problem, state, chunk)
    state.touched[0] = chunk
    if np.random.random() < 0.5:
        return change_priority(problem, state, chunk)
    if problem.pinned[chunk]:
        return 0
    change_path(problem, state, chunk, np.random.randint(1 if problem.retraces[chunk] else problem.num_phases[chunk]))
    return 1


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


def move_bytes(problem: AnnealingProblem, state: State, chunk: int) -> int:
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
    state.touched[0], state.touched[1] = chunk, other
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
    path, one, two = state.candidate.path, first + np.random.randint(size), first + np.random.randint(size)
    path[one], path[two] = path[two], path[one]


def change_priority(problem: AnnealingProblem, state: State, chunk: int) -> int:
    """Serve a stage just before or after one of a random chunk on its resource.

    Returns how many chunks are touched, one or none: a stage that is served as before is left alone.
    """
    size, other = problem.num_dimensions[chunk], np.random.randint(len(problem.first_stage))
    phase, local = np.random.randint(problem.num_phases[chunk]), np.random.randint(size)
    resource = problem.resource[problem.launch[chunk], phase, local]
    other_phase = np.random.randint(problem.num_phases[other])
    for i in range(problem.num_dimensions[other]):
        if problem.resource[problem.launch[other], other_phase, i] == resource:
            # Keys are start times in whole picoseconds, so that one more or less is next to the other stage.
            place = problem.first_stage[other] + other_phase * problem.num_dimensions[other] + i
            key = state.candidate.key[place] + (1 if np.random.random() < 0.5 else -1)
            if matters(problem, state, chunk, phase, local, key):
                state.candidate.key[problem.first_stage[chunk] + phase * size + local] = key
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
        num_touched = change_one(problem, state)
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


ANNEAL = Compilable(anneal, event_loop, annealing_state, nogil=True)  # always compiled; other threads run meanwhile

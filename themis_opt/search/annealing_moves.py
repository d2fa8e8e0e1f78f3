"""What one step of :mod:`themis_opt.search.annealing` changes: paths, priorities, sizes, launches.  Always compiled.

Where a phase of a chunk is put back, it is taken out of the current plan, whose other stages stay where they are, and
passes anew along the path on which its result is there first: a shortest path over the sets of visited dimensions,
which say how long each stage is, where to arrive earlier is never worse.  Most bytes are sent in the first stage of a
scatter and in the last one of a gather, so that these are what loads the dimensions: they stay, or are those of another
chunk.

R. Ruiz, T. Stützle, *A Simple and Effective Iterated Greedy Algorithm for the Permutation Flowshop Scheduling Problem*,
European Journal of Operational Research 177 (2007), for taking jobs out and putting them back.
"""

from math import ceil

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.schedules.event_loop import NEVER
from themis_opt.search.annealing_state import Problem, State, duration_of


def change_one(problem: Problem, state: State, num_touched: int) -> int:
    """Change a path, priorities or the size of a random chunk; returns the number of chunks touched so far."""
    chunk = np.random.randint(len(problem.first_stage))
    # Not for one makespan alone: there each stage counts more than the order of launches.
    if num_touched == 0 and problem.iterations > 1 and np.random.random() < problem.moves.large:
        return move_launch(problem, state, chunk)
    if problem.resizes and np.random.random() < problem.moves.exchange:
        return num_touched + move_bytes(problem, state, chunk, num_touched)
    phase = np.random.randint(1 if problem.retraces[chunk] else problem.num_phases[chunk])
    state.touched[num_touched] = chunk
    is_known = num_touched == 0 and state.known[0] != NEVER
    if is_known and not problem.pinned[chunk] and np.random.random() < problem.moves.large:
        insert(problem, state, chunk, phase)
        return 1
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


def move_launch(problem: Problem, state: State, chunk: int) -> int:
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


def move_bytes(problem: Problem, state: State, chunk: int, num_touched: int) -> int:
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


def retrace(problem: Problem, state: State, num_touched: int) -> None:
    """Let chunks that must gather along their path backwards do so."""
    for number in range(num_touched):
        chunk = state.touched[number]
        if problem.retraces[chunk]:
            first, size = problem.first_stage[chunk], problem.num_dimensions[chunk]
            for i in range(size):
                state.candidate.path[first + size + i] = state.candidate.path[first + size - 1 - i]


def change_path(problem: Problem, state: State, chunk: int, phase: int) -> None:
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


def exchange(problem: Problem, state: State, chunk: int, phase: int, num_touched: int) -> int:
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


def change_priority(problem: Problem, state: State, chunk: int, phase: int, other: int) -> int:
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


def matters(problem: Problem, state: State, chunk: int, phase: int, local: int, key: float) -> bool:
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


def insert(problem: Problem, state: State, chunk: int, phase: int) -> None:
    """Put a phase of a chunk back into the current plan, O(n + 2**D D log n) for n stages on D dimensions.

    Its stages wait until a dimension is idle for long enough or, as often, put those off that follow.
    """
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + phase * size
    head = stays_or_follows(problem, state, chunk, first)
    tail = stays_or_follows(problem, state, chunk, first + size - 1)
    waits = np.random.random() < 0.5
    lay_out(state)
    visited = shortest_paths(problem, state, chunk, phase, head, tail, waits)
    for stage in range(first + size - 1, first - 1, -1):
        local = state.came_by[visited]
        state.candidate.path[stage] = local
        state.candidate.key[first + local] = state.moment[visited] - 1  # before what begins then
        visited ^= 1 << local


def shortest_paths(
    problem: Problem, state: State, chunk: int, phase: int, head_stage: int, tail_stage: int, waits: bool
) -> int:
    """Fill in when and how a chunk may have visited each set of dimensions; returns the set of all.

    `head_stage` has the dimension that is the first of a first phase, `tail_stage` that which is the last of a last
    one.  Where the chunk `waits`, stages begin in gaps that are long enough.
    """
    size, launch = problem.num_dimensions[chunk], problem.launch[chunk]
    first, last = problem.first_stage[chunk] + phase * size, problem.first_stage[chunk] + (phase + 1) * size - 1
    head, tail, begin = -1, -1, 0
    if phase == 0:
        head, begin = state.current.path[head_stage], state.known[head_stage]
    if phase == problem.num_phases[chunk] - 1:
        tail = state.current.path[tail_stage]
    if head == tail and size > 1:
        tail = -1
    full: int = (1 << size) - 1
    for visited in range(1, full + 1):
        state.arrival[visited] = NEVER
    state.arrival[0] = state.known_ready[first]
    for visited in range(full):
        ready = state.arrival[visited]
        for local in range(size):
            after = visited | 1 << local
            ends_otherwise = local == tail and after != full
            if ready == NEVER or after == visited or ends_otherwise or (visited == 0 and head not in (-1, local)):
                continue
            duration = duration_of(problem, chunk, phase, visited, local, state.candidate.size[chunk])
            if visited == 0 and head >= 0:
                moment = max(ready, begin)
            else:
                gap, resource = duration if waits else 0, problem.resource[launch, phase, local]
                moment = idle_from(state, resource, ready, gap, first, last)
            arrival = moment + duration + problem.lag[launch, phase, local]
            if arrival < state.arrival[after]:
                state.arrival[after], state.moment[after], state.came_by[after] = arrival, moment, local
    return full


def stays_or_follows(problem: Problem, state: State, chunk: int, stage: int) -> int:
    """A stage of a chunk, or that of another one of its launch at the same place."""
    if np.random.random() < 0.5:
        other = np.random.randint(len(problem.first_stage))
        if problem.launch[other] == problem.launch[chunk]:
            stage += problem.first_stage[other] - problem.first_stage[chunk]
    return stage


def lay_out(state: State) -> None:
    """Note all stages of the current plan by resource and time, if they are not noted."""
    if state.laid_out[0]:
        return
    state.laid_out[0] = True
    known, resource, order, place = state.known, state.operations.resource, state.order, state.place
    for k in range(1, len(order)):  # by insertion, since few have changed their places
        i, place_of_i = order[k], k
        while place_of_i > 0 and known[order[place_of_i - 1]] > known[i]:
            order[place_of_i] = order[place_of_i - 1]
            place_of_i -= 1
        order[place_of_i] = i
    for r in range(len(place)):
        place[r] = 0
    for i in order:
        place[resource[i] + 2] += 1
    for r in range(2, len(place)):
        place[r] += place[r - 1]
    for i in order:  # a place moves on to where the next resource begins, which is why counts stand two behind
        state.stage[place[resource[i] + 1]] = i
        place[resource[i] + 1] += 1


def idle_from(state: State, resource: int, ready: int, length: int, first: int, last: int) -> int:
    """The first moment from `ready` on at which a resource is idle for some time, in picoseconds.

    Where no time is asked for it is when a stage ends: those after it are put off.  Stages `first` to `last`, a phase,
    are as good as gone.
    """
    known, duration = state.known, state.operations.duration
    low, past = state.place[resource], state.place[resource + 1]
    high = past
    while low < high:
        middle = (low + high) // 2
        if known[state.stage[middle]] + duration[state.stage[middle]] > ready:
            high = middle
        else:
            low = middle + 1
    moment: int = ready
    for k in range(low, past):
        stage = state.stage[k]
        if not first <= stage <= last:
            if known[stage] - moment >= length:
                return moment
            moment = max(moment, known[stage] + duration[stage])
    return moment

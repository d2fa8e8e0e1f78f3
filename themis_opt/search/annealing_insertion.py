"""A move of :mod:`themis_opt.search.annealing_moves`: a chunk passes a phase anew between all others.  Always compiled.

The phase is taken out of the current plan, whose other stages stay where they are, and is put back along the path on
which its result is there first: a shortest path over the sets of visited dimensions, which say how long each stage is,
where to arrive earlier is never worse.  Most bytes are sent in the first stage of a scatter and in the last one of a
gather, so that these are what loads the dimensions: they stay, or are those of another chunk.

R. Ruiz, T. Stützle, *A Simple and Effective Iterated Greedy Algorithm for the Permutation Flowshop Scheduling Problem*,
European Journal of Operational Research 177 (2007), for taking jobs out and putting them back.
"""

import numpy as np

from themis_opt.schedules.event_loop import NEVER
from themis_opt.search.annealing_state import Problem, State, duration_of


def insert(problem: Problem, state: State, chunk: int, phase: int) -> None:
    """Put a phase of a chunk back into the current plan, O(n + 2**D D log n) for n stages on D dimensions."""
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + phase * size
    head = stays_or_follows(problem, state, chunk, first)
    tail = stays_or_follows(problem, state, chunk, first + size - 1)
    put_back(problem, state, chunk, phase, head, tail, np.random.random() < 0.5)


def put_back(
    problem: Problem, state: State, chunk: int, phase: int, head_stage: int, tail_stage: int, waits: bool
) -> None:
    """Put a phase back along the path on which its result is there first.

    Parameters
    ----------
    head_stage, tail_stage : int
        The stages whose dimensions are the first of the first phase, and the last of the last phase.
    waits : bool
        Whether stages wait until a dimension is idle for long enough; else those that follow are put off.
    """
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + phase * size
    lay_out(state)
    full = shortest_paths(problem, state, chunk, phase, head_stage, tail_stage, waits)
    visited = full
    for stage in range(first + size - 1, first - 1, -1):
        local = state.came_by[visited]
        state.path[stage] = local
        state.key[first + local] = state.moment[visited] - 1  # before what begins then
        visited ^= 1 << local


def shortest_paths(
    problem: Problem, state: State, chunk: int, phase: int, head_stage: int, tail_stage: int, waits: bool
) -> int:
    """Fill in when and how a chunk may have visited each set of dimensions; returns the set of all."""
    size, launch = problem.num_dimensions[chunk], problem.launch[chunk]
    first, last = problem.first_stage[chunk] + phase * size, problem.first_stage[chunk] + (phase + 1) * size - 1
    head, tail, begin = -1, -1, 0
    if phase == 0:
        head, begin = state.current_path[head_stage], state.known[head_stage]
    if phase == problem.num_phases[chunk] - 1:
        tail = state.current_path[tail_stage]
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
            duration = duration_of(problem, chunk, phase, visited, local, state.size[chunk])
            if visited == 0 and head >= 0:
                moment = max(ready, begin)
            else:
                moment = idle_from(
                    state, problem.resource[launch, phase, local], ready, duration if waits else 0, first, last
                )
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
    """Note begins and ends of all stages of the current plan, by resource and time, if they are not noted."""
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
        state.served[r] = 0
    for i in range(len(known)):
        state.served[resource[i]] += 1
    total = 0
    for r in range(len(place)):
        place[r] = total
        total += state.served[r]
        state.served[r] = 0
    for i in order:
        r = resource[i]
        k = place[r] + state.served[r]
        state.stage[k], state.begin[k], state.end[k] = i, known[i], known[i] + state.operations.duration[i]
        state.served[r] += 1


def idle_from(state: State, resource: int, ready: int, length: int, first: int, last: int) -> int:
    """The first moment from `ready` on at which a resource is idle for some time, in picoseconds.

    Where no time is asked for it is when a stage ends: those after it are put off.  Stages `first` to `last`, a phase,
    are as good as gone.
    """
    begin, end = state.begin, state.end
    low = state.place[resource]
    past = low + state.served[resource]
    high = past
    while low < high:
        middle = (low + high) // 2
        if end[middle] > ready:
            high = middle
        else:
            low = middle + 1
    moment: int = ready
    for k in range(low, past):
        if not first <= state.stage[k] <= last:
            if begin[k] - moment >= length:
                return moment
            moment = max(moment, end[k])
    return moment

"""A phase of a chunk that is put back between all others."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import schedules

import themis_opt
from themis_opt.schedules.event_loop import NEVER
from themis_opt.schedules.schedule import Schedule
from themis_opt.search import annealing_insertion
from themis_opt.search.annealing import Annealing
from themis_opt.search.annealing_loop import anneal
from themis_opt.search.annealing_state import MoveParams
from themis_opt.search.start import usual_schedule

Drawn = tuple[Annealing, int, int]
"""An annealing with a current plan, a chunk and one of its phases."""


@st.composite
def annealings(draw: st.DrawFn) -> Drawn:
    """Only chunks at whose paths nothing else hangs."""
    annealing = Annealing(draw(schedules()))
    problem, state = annealing._problem, annealing._state
    seed = 0
    while state.known[0] == NEVER:  # until the first plan is accepted
        anneal(problem, state, 20, 1e12, 1e12, seed)
        seed += 1
    chunk = draw(st.integers(0, len(problem.first_stage) - 1))
    return annealing, chunk, draw(st.integers(0, int(problem.num_phases[chunk]) - 1))


def others(annealing: Annealing, resource: int, first: int, last: int) -> list[tuple[int, int]]:
    """Begin and end of the stages on a resource but those from the first to before the last."""
    state = annealing._state
    stages = [i for i in np.flatnonzero(state.operations.resource == resource) if not first <= i < last]
    return sorted((int(state.known[i]), int(state.known[i] + state.operations.duration[i])) for i in stages)


def naive_idle_from(served: list[tuple[int, int]], ready: int, length: int) -> int:
    for moment in sorted({ready, *(end for _, end in served if end > ready)}):
        is_free = not any(begin < moment < end for begin, end in served)
        if is_free and not any(begin < moment + length and moment < end for begin, end in served):
            return moment
    raise AssertionError("a resource is idle at the end")


@settings(max_examples=50)
@given(annealings())
def test_stages_of_others_are_laid_out_by_resource_and_time(drawn: Drawn) -> None:
    annealing, chunk, phase = drawn
    state, size = annealing._state, annealing._problem.num_dimensions[chunk]
    first = annealing._problem.first_stage[chunk] + phase * size
    annealing_insertion.lay_out(state)
    for r, (place, number) in enumerate(zip(state.place, state.served, strict=True)):
        served = [k for k in range(place, place + number) if not first <= state.stage[k] < first + size]
        laid_out = list(zip(state.begin[served].tolist(), state.end[served].tolist(), strict=True))
        assert sorted(laid_out) == others(annealing, r, first, first + size)
        assert (np.diff(state.begin[served]) >= 0).all()


@settings(max_examples=50)
@given(
    drawn=annealings(),
    ready=st.floats(0, 1.2),
    length=st.floats(0, 0.5),
)
def test_a_moment_is_the_first_of_an_idle_time_that_is_long_enough(drawn: Drawn, ready: float, length: float) -> None:
    annealing, chunk, phase = drawn
    state, size = annealing._state, annealing._problem.num_dimensions[chunk]
    first = annealing._problem.first_stage[chunk] + phase * size
    annealing_insertion.lay_out(state)
    begin, least = int(ready * annealing.makespan), 1 + int(length * annealing.makespan)
    for r in range(len(state.place)):
        expected = naive_idle_from(others(annealing, r, first, first + size), begin, least)
        assert annealing_insertion.idle_from(state, r, begin, least, first, first + size - 1) == expected


def arrival_along(annealing: Annealing, chunk: int, phase: int, path: tuple[int, ...], waits: bool) -> int:
    """When the result of a phase is there that begins no earlier than it does now."""
    problem, state = annealing._problem, annealing._state
    first = problem.first_stage[chunk] + phase * len(path)
    size_class, launch, visited, ready = problem.size_class[chunk], problem.launch[chunk], 0, state.known_ready[first]
    for local in path:
        duration = problem.duration[size_class, phase, visited, local]
        resource = problem.span[launch, local]
        if visited == 0 and phase == 0:
            ready = max(ready, state.known[first])
        else:
            length = duration if waits else 0
            ready = annealing_insertion.idle_from(state, resource, ready, length, first, first + len(path) - 1)
        ready += duration + problem.lag[launch, phase, local]
        visited |= 1 << local
    return int(ready)


@settings(max_examples=50)
@given(annealings(), st.booleans())
def test_no_path_between_the_same_ends_is_faster(drawn: Drawn, waits: bool) -> None:
    annealing, chunk, phase = drawn
    problem, state = annealing._problem, annealing._state
    size = problem.num_dimensions[chunk]
    first = problem.first_stage[chunk] + phase * size
    before = state.current_path[first : first + size].copy()
    annealing_insertion.put_back(problem, state, chunk, phase, first, first + size - 1, waits)
    path = tuple(state.path[first : first + size].tolist())
    begins, ends = phase == 0, phase == problem.num_phases[chunk] - 1
    arrivals = [
        arrival_along(annealing, chunk, phase, candidate, waits)
        for candidate in permutations(range(size))
        if (not begins or candidate[0] == before[0]) and (not ends or candidate[-1] == before[-1])
    ]
    assert arrival_along(annealing, chunk, phase, path, waits) == min(arrivals) == state.arrival[(1 << size) - 1]


@settings(max_examples=50)
@given(annealings())
def test_chunks_begin_and_end_as_others_of_their_launch_do(drawn: Drawn) -> None:
    annealing, chunk, phase = drawn
    problem, state = annealing._problem, annealing._state
    launch = np.flatnonzero(problem.launch == problem.launch[chunk])
    begins = problem.first_stage[launch]
    ends = begins + problem.num_phases[launch] * problem.num_dimensions[launch] - 1
    annealing_insertion.insert(problem, state, chunk, phase)
    begin = problem.first_stage[chunk]
    end = begin + problem.num_phases[chunk] * problem.num_dimensions[chunk] - 1
    assert state.path[begin] in state.current_path[begins]
    assert state.path[end] in state.current_path[ends] or problem.num_phases[chunk] == 1  # where both would be one


def start_of(network: str, chunks: int) -> Schedule:
    return usual_schedule(themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=chunks))


@pytest.mark.parametrize(("network", "chunks"), [("3d-fc_ring_sw", 32), ("4d-ring_fc_ring_sw", 12)])
def test_putting_back_alone_shortens_schedules(network: str, chunks: int) -> None:
    start = start_of(network, chunks)
    annealing = Annealing(start, moves=MoveParams(insertion=1.0, again=0.0))
    annealing.run(3000, 5e-3, 2e-5)
    assert annealing.makespan < 0.99 * start.makespan
    assert annealing.makespan == annealing.best().makespan

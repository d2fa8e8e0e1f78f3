"""Plans of :mod:`themis_opt.policies.hourglass` laid out for the kernel, and timed by it.

The functions from :func:`place_all` on are compiled with the search that uses them.
"""

from typing import Any, NamedTuple

import numpy as np

from themis_opt import event_loop, kernel
from themis_opt.cost import FloatArray, IntArray
from themis_opt.instance import Instance
from themis_opt.plan import Chunks, Plan, equal_sizes
from themis_opt.policies.hourglass_tables import FIRST, LAST, MIDDLE, Tables, dimension_at

START = -1
"""Where `State.workspace` holds the start times."""


class State(NamedTuple):
    """Candidates, and the plan in hand as the kernel sees it; shape (stages,) unless stated.

    Attributes
    ----------
    collective, first_stage : int64, shape (chunks,)
        The collective of each chunk, and its first stage.
    path : int64, shape (chunks, 2)
        Path of each chunk in each layer of the plan in hand.
    candidate_path : int64, shape (candidates, chunks, 2)
        Paths of the candidates.
    candidate_makespan : int64, shape (candidates, RULES)
        Makespans of the candidates, in picoseconds.
    best_path : int64, shape (chunks, 2)
    best : int64, shape (2,)
        The best plan: its paths, makespan and rule.
    resource, duration, lag, release, successor_start, successor, num_predecessors, major, minor, time_sign, enforced
        As in :class:`themis_opt.kernel.Operations`.
    workspace : tuple of int64 arrays
        As in :func:`themis_opt.kernel.workspace`.
    """

    collective: IntArray
    first_stage: IntArray
    path: IntArray
    candidate_path: IntArray
    candidate_makespan: IntArray
    best_path: IntArray
    best: IntArray
    resource: IntArray
    duration: IntArray
    lag: IntArray
    release: IntArray
    successor_start: IntArray
    successor: IntArray
    num_predecessors: IntArray
    major: FloatArray
    minor: IntArray
    time_sign: IntArray
    enforced: IntArray
    workspace: tuple[IntArray, ...]


def empty_state(tables: Tables, num_dimensions: int, num_candidates: int, num_rules: int) -> State:
    """Arrays for plans of the tables."""
    collective = np.repeat(np.arange(len(tables.width)), tables.chunks)
    stages = (tables.legs * tables.width)[collective]
    last = np.cumsum(stages) - 1
    continues = np.ones(last[-1] + 1, dtype=np.int64)
    continues[last] = 0
    zeros = np.zeros_like(continues)
    return State(
        collective=collective,
        first_stage=last + 1 - stages,
        path=np.zeros((len(collective), 2), dtype=np.int64),
        candidate_path=np.zeros((num_candidates, len(collective), 2), dtype=np.int64),
        candidate_makespan=np.zeros((num_candidates, num_rules), dtype=np.int64),
        best_path=np.zeros((len(collective), 2), dtype=np.int64),
        best=np.zeros(2, dtype=np.int64),
        resource=zeros.copy(),
        duration=zeros.copy(),
        lag=zeros.copy(),
        release=np.repeat(tables.release[collective], stages),
        successor_start=np.concatenate([[0], np.cumsum(continues)]),
        successor=np.flatnonzero(continues) + 1,
        num_predecessors=np.concatenate([[0], continues[:-1]]),
        major=np.zeros(len(zeros)),
        minor=zeros.copy(),
        time_sign=zeros,
        enforced=np.zeros(num_dimensions, dtype=np.bool_),
        workspace=kernel.workspace(len(zeros), num_dimensions),
    )


def plan_of(instance: Instance, tables: Tables, state: State) -> Plan:
    """The plan in hand with its sequences enforced, once it is timed."""
    chunks = []
    for number, (collective, span) in enumerate(zip(instance.collectives, instance.spans, strict=True)):
        own = state.path[state.collective == number]
        legs = [dimension_at(own[:, :1], np.arange(len(span))), dimension_at(own[:, 1:], np.arange(len(span)))]
        if tables.mirrored[number]:
            legs[1] = legs[0][:, ::-1]
        local = np.concatenate(legs[: tables.legs[number]], axis=1)
        chunks.append(Chunks(equal_sizes(collective), np.array(span)[local]))
    return Plan(tuple(chunks)).in_order_of(state.workspace[START], len(instance.network.dimensions))


def place_all(tables: Any, state: Any, candidate: Any, rule: Any) -> None:
    """Take a candidate in hand."""
    for chunk in range(len(state.collective)):
        for layer in range(2):
            state.path[chunk, layer] = state.candidate_path[candidate, chunk, layer]
        place(tables, state, chunk, rule)


def place(tables: Any, state: Any, chunk: Any, rule: Any) -> None:
    """Tell the kernel's arrays the path of a chunk and its places in the order."""
    collective, first = state.collective[chunk], state.first_stage[chunk]
    width, legs = tables.width[collective], tables.legs[collective]
    to_scatter = 0
    for leg in range(legs):
        visited = 0
        for position in range(width):
            if tables.mirrored[collective] and leg == 1:
                local = dimension_at(state.path[chunk, 0], width - 1 - position)
            else:
                local = dimension_at(state.path[chunk, leg], position)
            stage = first + leg * width + position
            state.resource[stage] = tables.span[collective, local]
            state.duration[stage] = tables.duration[collective, leg, visited, local]
            state.lag[stage] = tables.lag[collective, leg, local]
            if leg == 0 and position > 0:
                to_scatter += state.duration[stage]
            visited |= 1 << local
    for number in range(legs * width):
        column = LAST if number == legs * width - 1 else FIRST if number == 0 else MIDDLE
        rank = tables.rank[collective, column]
        state.major[first + number] = rank
        state.minor[first + number] = order_of(rule, rank, column, number, state.duration[first + number], to_scatter)


def order_of(rule: Any, rank: Any, column: Any, number: Any, duration: Any, to_scatter: Any) -> Any:
    """Place of a stage among those of its rank; the smallest goes first.

    Rule 0 goes by the position along the path.  Rule 1 serves the shortest middle stage first, and among first stages
    the one whose chunk has the longest scatter stages to come.
    """
    if rule == 0 or rank == 2:
        return number
    return -to_scatter if column == FIRST else duration


def evaluate(state: Any) -> Any:
    """Simulate the plan in hand; returns its makespan."""
    return event_loop.makespan_of_run(
        state.resource,
        state.duration,
        state.lag,
        state.release,
        state.successor_start,
        state.successor,
        state.num_predecessors,
        state.major,
        state.minor,
        state.time_sign,
        state.enforced,
        state.workspace,
    )


COMPILED = (*event_loop.COMPILED, place_all, place, order_of, evaluate)
"""What the search compiles with itself."""

"""Chunk routing: optima that are known, and what the solver proves."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from formulations.chunk_routing import ChunkRouting, RoutedChunk, RoutingProblem
from formulations.limits import Limits

LIMITS = Limits(seconds=5, workers=1)


def all_gather(size: int, routes: Sequence[tuple[int, ...]], hold: int, latency: int) -> RoutingProblem:
    """One chunk of each terminal."""
    arcs = {arc for route in routes for arc in pairwise(route)}
    nodes = frozenset(range(size))
    chunks = [RoutedChunk(node, nodes - {node}) for node in range(size)]
    num_nodes = 1 + max(node for arc in arcs for node in arc)
    return RoutingProblem(num_nodes, chunks, routes, dict.fromkeys(arcs, hold), dict.fromkeys(arcs, latency))


def ring(size: int) -> list[tuple[int, ...]]:
    return [(a, b % size) for a in range(size) for b in (a + 1, a + size - 1)]


STAR = [(a, 4, b) for a in range(4) for b in range(4) if a != b]
"""Four terminals around a switch."""


@pytest.mark.parametrize(
    ("problem", "makespan"),
    [
        (all_gather(4, ring(4), 10, 0), 20),  # three chunks over two links
        (all_gather(4, ring(4), 10, 100), 220),  # two steps
        (all_gather(4, STAR, 10, 5), 3 * 10 + 10 + 2 * 5),  # three chunks over one link, after one hop to the switch
    ],
)
def test_small_optima_are_proven(problem: RoutingProblem, makespan: int) -> None:
    outcome = ChunkRouting(problem, problem.least(), 10 * makespan).solve(LIMITS, lambda *_: None)
    assert outcome.steps is not None
    ends = [step.starts[-1] + problem.lengths[step.route[-2], step.route[-1]] for step in outcome.steps]
    assert max(ends) == makespan == outcome.bound
    assert sorted((step.chunk, step.route[-1]) for step in outcome.steps) == [
        (source, target) for source in range(4) for target in range(4) if source != target
    ]


def test_what_another_passes_on_has_come_there() -> None:
    """A chunk on a line of four of which the last alone wants it, and another of the second, which shares a link."""
    routes = [(0, 1), (1, 2), (2, 3)]
    chunks = [RoutedChunk(0, frozenset({3})), RoutedChunk(1, frozenset({3}))]
    both = [*routes, *(route[::-1] for route in routes)]
    problem = RoutingProblem(4, chunks, both, dict.fromkeys(both, 10), dict.fromkeys(both, 5))
    outcome = ChunkRouting(problem, problem.least(), 200).solve(LIMITS, lambda *_: None)
    assert outcome.bound == 3 * (10 + 5)
    steps = {(step.chunk, step.route): step.starts[0] for step in outcome.steps or []}
    assert [steps[0, route] for route in routes] == [0, 15, 30]
    assert set(steps) == {(0, route) for route in routes} | {(1, route) for route in routes[1:]}

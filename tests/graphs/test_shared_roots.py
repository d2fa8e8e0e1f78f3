"""Shares of roots: what capacities are worth, and shares in whole units."""

from dataclasses import replace
from itertools import pairwise

import networkx
import pytest
from graph_samples import random_graph

from formulations.flow_network import CapacityGraph
from formulations.shared_roots import FINE_UNITS, SharedRoots, WholeShares, share_roots, whole_shares


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_capacities_are_worth_the_throughput(seed: int, symmetric: bool) -> None:
    """Strong duality, on graphs with and without switches."""
    graph = random_graph(seed, symmetric=symmetric, switches=seed % 2, most=7)
    solution = share_roots(graph)
    assert min(solution.lengths.values()) >= 0
    worth = sum(graph.arcs[arc] * length for arc, length in solution.lengths.items())
    assert worth == pytest.approx(solution.throughput, rel=1e-6)


def reach(side: CapacityGraph, units: dict[int, int], *, towards: bool) -> bool:
    """Whether the units of all roots come to every terminal, or go from there to their roots."""
    network = networkx.DiGraph()
    for (tail, head), capacity in side.arcs.items():
        network.add_edge(*((head, tail) if towards else (tail, head)), capacity=capacity)
    for root, count in units.items():
        network.add_edge("source", root, capacity=count)
    return all(
        networkx.maximum_flow_value(network, "source", terminal) >= sum(units.values()) for terminal in side.terminals
    )


def fits(whole: WholeShares) -> bool:
    return reach(whole.reduce, whole.units, towards=True) and reach(whole.broadcast, whole.units, towards=False)


def solution_of(seed: int) -> tuple[CapacityGraph, SharedRoots]:
    graph = random_graph(seed, symmetric=bool(seed % 2), most=6)
    return graph, share_roots(graph)


@pytest.mark.parametrize("seed", range(6))
def test_whole_units_are_the_solution_where_they_can_be(seed: int) -> None:
    graph, solution = solution_of(seed)
    whole = whole_shares(graph, solution, graph.terminals)
    assert sum(whole.units.values()) == pytest.approx(solution.throughput * whole.per_unit, rel=1e-6)
    assert whole.per_unit.denominator == 1
    assert fits(whole)


@pytest.mark.parametrize("share", [1.0, 1.3])
@pytest.mark.parametrize("seed", range(6))
def test_shares_that_are_not_whole_or_too_large_become_less(seed: int, share: float) -> None:
    graph, solution = solution_of(seed)
    more = {root: count * share * (1 + 1e-5 * 2**0.5) for root, count in solution.shares.items()}
    whole = whole_shares(graph, replace(solution, shares=more), graph.terminals)
    assert float(whole.per_unit) == pytest.approx(FINE_UNITS / max(graph.arcs.values()))
    assert fits(whole)
    total = sum(whole.units.values()) / float(whole.per_unit)
    assert 0.998 * solution.throughput < total <= solution.throughput * (1 + 1e-6)
    parts = [count / more[root] for root, count in whole.units.items() if more[root] > 1e-3]
    assert all(one == pytest.approx(other, rel=0.01) for one, other in pairwise(parts))

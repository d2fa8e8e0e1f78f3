"""All-to-all on rings and tori against flows: the model is as fast as the best routing."""

from itertools import product

import networkx
import pytest
from ortools.linear_solver import pywraplp

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.bounds import bounds

BANDWIDTH = 100.0  # gigabytes per second of an NPU in each dimension


def torus(sizes: tuple[int, ...]) -> networkx.DiGraph:
    """Every NPU with a link of half the bandwidth to both neighbours along each dimension."""
    links = networkx.DiGraph()
    for place, axis, hop in product(product(*map(range, sizes)), range(len(sizes)), (1, -1)):
        neighbour = tuple((x + hop * (k == axis)) % sizes[k] for k, x in enumerate(place))
        links.add_edge(place, neighbour)
    return links


def concurrent_flow(links: networkx.DiGraph) -> float:
    """Gigabytes per second that every NPU can send to all NPUs, as much to each: a linear programme over all routings.

    Flows from one NPU are taken together; what comes to each other NPU and does not go on is what is for it.
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    rate = solver.NumVar(0, solver.infinity(), "rate")
    flow = {(origin, *link): solver.NumVar(0, BANDWIDTH / 2, "") for origin in links for link in links.edges}
    for origin, npu in product(links, links):
        if origin != npu:
            arrives = sum(flow[origin, source, npu] for source in links.predecessors(npu))
            solver.Add(arrives - sum(flow[origin, npu, target] for target in links.successors(npu)) == rate)
    for link in links.edges:
        solver.Add(sum(flow[origin, *link] for origin in links) <= BANDWIDTH / 2)
    solver.Maximize(rate)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return rate.solution_value() * len(links)


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.DIRECT, Algorithm.HALVING_DOUBLING])
@pytest.mark.parametrize(
    ("sizes", "expected"), [((3,), 150), ((4,), 100), ((5,), 250 / 3), ((6,), 200 / 3), ((8,), 50), ((4, 4), 100)]
)
def test_an_all_to_all_on_a_torus_is_as_fast_as_the_best_flow(
    sizes: tuple[int, ...], expected: float, algorithm: Algorithm
) -> None:
    ring = {"kind": Kind.RING, "algorithm": algorithm, "bandwidth": f"{BANDWIDTH} GB/s"}
    instance = Instance(
        network=Network(dimensions=tuple(Dimension(size=size, **ring) for size in sizes)),
        collectives=(Collective(kind=CollectiveKind.ALL_TO_ALL, size="60 GB", chunks=8),),
    )
    assert concurrent_flow(torus(sizes)) == pytest.approx(expected)
    assert 60 / (max(bounds(instance).values()) / 1e12) == pytest.approx(expected, rel=1e-3)

"""Whether bounds on classes of alike nodes are those of all nodes: 500 random graphs, regular and nearly symmetric.

``python -m pytest -m benchmarks benchmarks/test_folding.py -s`` prints how many are equal.  A folded bound may be
weaker where colour refinement does not tell nodes apart that differ, but never stronger than that of all nodes.
"""

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import networkx as nx
import pytest

from formulations.concurrent_flow import concurrent_flow, length_time, node_classes
from formulations.flow_network import CapacityGraph
from formulations.shared_roots import share_roots
from formulations.tree_lengths import tree_throughput
from formulations.worst_cut import worst_cut

pytestmark = pytest.mark.benchmarks

GRAPHS, NEAR = 500, 1e-6


def graph_of(seed: int) -> CapacityGraph:
    """By turns a regular graph, boxes on leaves with one slow NIC, a torus without a link, and any graph."""
    chance = random.Random(seed)
    kind = seed % 4
    if kind == 0:
        regular = (nx.random_regular_graph(3, 2 * chance.randint(4, 6), chance) for _ in range(GRAPHS))
        links = dict.fromkeys(next(filter(nx.is_connected, regular)).edges, 1)
    elif kind == 1:
        boxes, gpus = chance.randint(2, 4), chance.randint(2, 3)
        npus = boxes * gpus
        ends = [(b * gpus + g, npus + b, npus + boxes + g) for b in range(boxes) for g in range(gpus)]
        links = {(npu, hub): 9 for npu, hub, _ in ends} | {(npu, leaf): 2 for npu, _, leaf in ends}
        links |= {(npus + boxes + g, npus + boxes + gpus): boxes for g in range(gpus)}
        if chance.random() < 0.5:
            links[ends[0][0], ends[0][2]] = 1
        return _both_ways(links, npus)
    elif kind == 2:
        torus = nx.grid_2d_graph(3, chance.randint(3, 4), periodic=True)
        links = dict.fromkeys(nx.convert_node_labels_to_integers(torus).edges, 1)
        if chance.random() < 0.5:
            del links[chance.choice(sorted(links))]
    else:
        count = chance.randint(4, 8)
        links = {(node - 1, node): chance.randint(1, 3) for node in range(1, count)}
        links |= {pair: chance.randint(1, 3) for pair in combinations(range(count), 2) if chance.random() < 0.4}
    return _both_ways(links, 1 + max(map(max, links)))


def _both_ways(links: dict[tuple[int, int], int], npus: int) -> CapacityGraph:
    arcs = links | {(head, tail): capacity for (tail, head), capacity in links.items()}
    return CapacityGraph(1 + max(map(max, arcs)), tuple(range(npus)), arcs)


def flow_time(graph: CapacityGraph, *, fold: bool) -> float:
    """Time of a unit from each terminal to each other one that the lengths of links prove."""
    lengths = concurrent_flow(graph, fold=fold).lengths
    return float(length_time(graph, lengths, dict.fromkeys(graph.arcs, 0), dict.fromkeys(graph.terminals, Fraction(1))))


def test_folded_bounds_are_those_of_all_nodes() -> None:
    equal, weaker = Counter[str](), list[tuple[int, str, float]]()
    for seed in range(GRAPHS):
        graph = graph_of(seed)
        classes = node_classes(graph)
        receivers = tuple({classes[npu]: npu for npu in reversed(graph.terminals)}.values())
        pairs = {
            "trees": (tree_throughput(graph, classes), share_roots(graph).throughput),
            "cut": (worst_cut(graph, receivers).ratio, worst_cut(graph).ratio),
            "flow": tuple(1 / flow_time(graph, fold=fold) for fold in (True, False)),
        }
        for name, (folded, whole) in pairs.items():
            assert float(folded) >= float(whole) * (1 - NEAR), f"{name} of graph {seed} is no bound"
            if abs(float(folded) / float(whole) - 1) <= NEAR:
                equal[name] += 1
            else:
                weaker.append((seed, name, float(folded) / float(whole)))
    print(dict(equal), weaker)

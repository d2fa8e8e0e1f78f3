"""Lengths of alike links: the optimum of shared roots on clusters, and never less than it."""

import random
from fractions import Fraction
from itertools import product

import networkx
import pytest

from formulations.concurrent_flow import node_classes
from formulations.flow_network import CapacityGraph
from formulations.shared_roots import share_roots
from formulations.tree_lengths import has_few_classes, tree_throughput


def symmetric(num_nodes: int, terminals: int, links: dict[tuple[int, int], int]) -> CapacityGraph:
    return CapacityGraph(num_nodes, tuple(range(terminals)), links | {link[::-1]: b for link, b in links.items()})


def rails(boxes: int, gpus: int, lost: int = 0, spines: int = 2) -> CapacityGraph:
    """Boxes with a switch, a leaf for each GPU of a box, and spines; the first NICs are lost."""
    npus = boxes * gpus
    links = {}
    for box, gpu in product(range(boxes), range(gpus)):
        npu, leaf = box * gpus + gpu, npus + boxes + gpu
        links[npu, npus + box] = 9
        if npu >= lost:
            links[npu, leaf] = 1
    leaves, last = npus + boxes, npus + boxes + gpus
    links |= {(leaves + gpu, last + spine): boxes for gpu in range(gpus) for spine in range(spines)}
    return symmetric(last + spines, npus, links)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_with_switches_have_the_optimum_of_shared_roots(seed: int) -> None:
    chance = random.Random(seed)
    switches = chance.randint(0, 3)
    count = chance.randint(3 + switches, 8)
    pairs = {(node, (node + 1) % count) for node in range(count)}
    pairs |= {(a, b) for a in range(count) for b in range(a) if chance.random() < 0.4 and (b, a) not in pairs}
    graph = symmetric(count, count - switches, {pair: chance.randint(1, 6) for pair in sorted(pairs)})
    every = tree_throughput(graph, range(count))
    assert float(every) == pytest.approx(share_roots(graph).throughput, rel=1e-6)
    assert tree_throughput(graph, node_classes(graph)) == pytest.approx(every, rel=1e-6)


@pytest.mark.parametrize(("boxes", "gpus", "lost"), [(2, 4, 0), (4, 3, 0), (4, 3, 1), (3, 4, 2), (8, 3, 2)])
def test_clusters_have_the_optimum_of_shared_roots(boxes: int, gpus: int, lost: int) -> None:
    graph = rails(boxes, gpus, lost)
    folded = tree_throughput(graph, node_classes(graph))
    assert float(folded) == pytest.approx(share_roots(graph).throughput, rel=1e-6)
    assert folded >= Fraction(share_roots(graph).throughput) * (1 - Fraction(1, 10**6))


def test_a_thousand_npus_are_as_fast_as_their_boxes() -> None:
    graph = rails(128, 8)
    classes = node_classes(graph)
    assert has_few_classes(graph, classes)
    assert tree_throughput(graph, classes) == pytest.approx(Fraction(128 * 8, 2 * 127), rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_any_classes_give_a_bound(seed: int) -> None:
    """On regular graphs colour refinement has one class of nodes that are no images of each other."""
    size = 6 + seed % 5 * 2
    pairs = {(min(edge), max(edge)): 1 for edge in networkx.random_regular_graph(3, size, seed=seed).edges}
    if networkx.is_connected(networkx.Graph(list(pairs))):
        graph = symmetric(size, size, pairs)
        optimum = share_roots(graph).throughput
        for classes in ([0] * size, [node % 3 for node in range(size)]):
            assert float(tree_throughput(graph, classes)) >= optimum * (1 - 1e-7)


def test_terminals_that_are_not_connected_are_refused() -> None:
    with pytest.raises(ValueError, match="not connected"):
        tree_throughput(rails(2, 2, lost=2), [0] * 10)


def test_graphs_with_other_capacities_each_way_or_many_classes_are_for_shared_roots() -> None:
    graph = CapacityGraph(3, (0, 1, 2), {(0, 1): 3, (1, 0): 2, (1, 2): 2, (2, 1): 2})
    assert not has_few_classes(graph, [0, 1, 2])
    line = symmetric(70, 70, {(node, node + 1): 1 + node % 7 for node in range(69)})
    assert not has_few_classes(line, range(70))

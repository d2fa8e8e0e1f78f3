"""The search on small graphs: legal, no slower than rules, and bounded in its class."""

import pytest
from graph_samples import instance_of, network_of

from formulations.flow_network import CapacityGraph
from formulations.limits import Limits
from themis_opt.base.errors import InputError
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.network import GraphInstance

SMALL = Limits(seconds=1.5, workers=1)


def torus(kind: str, size: str = "12 KB") -> GraphInstance:
    """Two rows of three, with links around."""
    pairs = {(a, b) for row in (0, 3) for a, b in ((row, row + 1), (row + 1, row + 2), (row, row + 2))}
    pairs |= {(column, column + 3) for column in range(3)}
    arcs = dict.fromkeys((arc for pair in sorted(pairs) for arc in (pair, pair[::-1])), 1)
    return instance_of(network_of(CapacityGraph(6, tuple(range(6)), arcs), latency="1 us"), kind, size)


@pytest.mark.parametrize(("kind", "gap"), [("all_gather", 0.05), ("all_to_all", 0.2)])
def test_the_search_beats_rules_and_is_proven_in_its_class(kind: str, gap: float) -> None:
    best = compare_graph(torus(kind), limits=SMALL).best
    assert best.policy == "exact"
    assert best.gap <= gap
    assert best.class_bound is not None
    assert best.schedule.makespan >= best.class_bound.picoseconds >= best.bound.picoseconds


def test_the_search_is_only_for_small_graphs_and_can_be_asked_for() -> None:
    assert [r.policy for r in compare_graph(torus("all_reduce"), ["ring", "exact"], SMALL).results][-1] == "ring"
    large = CapacityGraph(17, tuple(range(17)), {(a, b % 17): 1 for a in range(17) for b in (a + 1, a + 16)})
    with pytest.raises(InputError, match="few nodes"):
        compare_graph(instance_of(network_of(large), "all_gather"), ["exact"], SMALL)

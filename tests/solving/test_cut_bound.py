"""The bound on what any algorithm can do, on cases that can be solved by hand."""

from typing import Any

import pytest
from planning import schedule_of
from small_iterations import two_layers

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.cut import cut, worst_across

SIZE = 24 * 10**9
SECOND = 10**12


def two_levels(nodes: int, *kinds: str, **outer: Any) -> Instance:
    """Nodes of 8 NPUs at 300 GB/s, and 25 GB/s per NPU between them."""
    inner = Dimension(kind=Kind.SWITCH, size=8, bandwidth="300 GB/s", name="in")
    dimensions = (inner, Dimension(kind=Kind.SWITCH, size=nodes, bandwidth="25 GB/s", name="out", **outer))
    collectives = tuple(
        Collective(kind=CollectiveKind(kind), name=str(number), size=SIZE) for number, kind in enumerate(kinds)
    )
    return Instance(network=Network(dimensions=dimensions), collectives=collectives)


def seconds(instance: Instance) -> float:
    return cut(instance) / SECOND


@pytest.mark.parametrize(("nodes", "algorithm_bandwidth"), [(2, 346.667e9), (3, 300e9)])
def test_all_gather_on_two_levels_is_that_of_forestcoll(nodes: int, algorithm_bandwidth: float) -> None:
    """The optimum of ForestColl (2024) on A100 systems."""
    assert SIZE / seconds(two_levels(nodes, "all_gather")) == pytest.approx(algorithm_bandwidth, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "in_network", "expected"),
    [
        ("reduce_scatter", False, SIZE * 2 / 3 / 8 / 25e9),  # of 3 nodes two thirds leave, over 8 NPUs
        ("all_reduce", False, 2 * SIZE * 2 / 3 / 8 / 25e9),
        ("all_to_all", False, SIZE * 2 / 3 / 25e9),
        ("broadcast", False, SIZE / 8 / 25e9),  # all bytes leave the node of the root
        ("reduce", False, SIZE / 8 / 25e9),  # or every node without it
        ("all_reduce", True, SIZE / 8 / 25e9),  # every node contributes once, switches sum and copy
        ("all_gather", True, SIZE * 2 / 3 / 8 / 25e9),  # every NPU receives the bytes of others
        ("broadcast", True, SIZE / 8 / 25e9),
        ("reduce_scatter", True, SIZE * 2 / 3 / 8 / 25e9),
    ],
)
def test_each_kind_between_three_nodes(kind: str, in_network: bool, expected: float) -> None:
    """Also by switches that sum and copy."""
    assert seconds(two_levels(3, kind, in_network=in_network)) == pytest.approx(expected)


@pytest.mark.parametrize(("kind", "times"), [("all_reduce", 5 / 3), ("reduce_scatter", 4 / 3), ("all_gather", 1)])
def test_what_switches_sum_and_copy_goes_both_ways_at_once(kind: str, times: float) -> None:
    """Beside a reduce-scatter, which sends 2/3 and receives 1/3."""
    assert seconds(two_levels(3, "reduce_scatter", kind, in_network=True)) == pytest.approx(times * SIZE / 8 / 25e9)


@pytest.mark.parametrize(
    ("kind", "in_network"),
    [
        ("all_reduce", False),
        ("reduce_scatter", False),
        ("all_gather", False),
        ("all_gather", True),
        ("all_to_all", False),
    ],
)
def test_it_is_reached_on_one_dimension(kind: str, in_network: bool) -> None:
    only = Dimension(kind=Kind.SWITCH, size=4, bandwidth="1 GB/s", in_network=in_network)
    collective = Collective(kind=CollectiveKind(kind), size=4000, chunks=1)
    one = Instance(network=Network(dimensions=(only,)), collectives=(collective,))
    assert cut(one) == pytest.approx(schedule_of(one, "baseline").makespan)


@pytest.mark.parametrize(("kind", "expected"), [("all_gather", 3 / 4), ("all_reduce", 1), ("broadcast", 1)])
def test_the_end_of_a_line_has_one_link(kind: str, expected: float) -> None:
    """A line of 4 NPUs: an all-reduce of S sends 6 S in all over 6 links, as much as its end alone sends."""
    line = Dimension(kind=Kind.LINE, size=4, bandwidth="1 GB/s")
    collective = Collective(kind=CollectiveKind(kind), size=4 * 10**9)
    assert seconds(Instance(network=Network(dimensions=(line,)), collectives=(collective,))) == 4 * expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("all_gather", 8 / 9), ("all_reduce", 16 / 12), ("all_to_all", 8 / 9), ("broadcast", 1)]
)
def test_the_corner_of_a_grid_has_two_links(kind: str, expected: float) -> None:
    """3 x 3 NPUs, 24 links of half the bandwidth: an all-reduce of S sends 16 S in all, a corner S over two."""
    grid = Dimension(kind=Kind.MESH2D, size=9, bandwidth="1 GB/s")
    collective = Collective(kind=CollectiveKind(kind), size=9 * 10**9, element_bytes=1)
    made = Instance(network=Network(dimensions=(grid,)), collectives=(collective.replace(chunks=1),))
    assert seconds(made) == pytest.approx(9 * expected)
    assert cut(made) <= schedule_of(made, "baseline").makespan


def test_compressed_data_and_headers_count_as_on_the_wire() -> None:
    wire = {"compression": 2.0, "packet": {"payload": "4000 B", "header": "400 B"}}
    assert seconds(two_levels(3, "all_to_all", **wire)) == pytest.approx(SIZE * 2 / 3 / 25e9 / 2 * 1.1)


def test_collectives_add_up_from_their_releases() -> None:
    both = two_levels(3, "all_gather", "all_reduce")
    late = both.replace(collectives=tuple(collective.replace(release="1 s") for collective in both.collectives))
    assert seconds(both) == pytest.approx(3 * seconds(two_levels(3, "all_gather")))
    assert seconds(late) == pytest.approx(1 + seconds(both))


def test_two_broadcasts_count_in_the_mean_over_the_nodes() -> None:
    assert seconds(two_levels(3, "broadcast", "broadcast")) == pytest.approx(2 * SIZE * 2 / 3 / 8 / 25e9)


@pytest.mark.parametrize("sizes", [(4, 2), (2, 4)])
def test_parts_of_a_shared_dimension_have_its_links_once(sizes: tuple[int, int]) -> None:
    """Two tensors on a line in two parts, of which the part of 4 NPUs uses the most links: 1.5 in the mean."""
    line = {"kind": "line", "size": 8, "bandwidth": "1 GB/s", "name": "line"}
    parts = {"dimension": "line", "sizes": sizes, "names": ("near", "far"), "shared": True}
    made = two_layers(8, 8, network={"dimensions": [line]}, splits=[parts], kind="all_gather")
    assert worst_across(made, made.exchanges).time == pytest.approx(16_000 * 7 / 8 / 1.5e9 * SECOND)


def test_a_collective_within_nodes_sends_nothing_between_them() -> None:
    inside = two_levels(3, "all_gather")
    inside = inside.replace(collectives=(inside.collectives[0].replace(dimensions=("in",)),))
    assert seconds(inside) == pytest.approx(SIZE * 7 / 8 / 300e9)

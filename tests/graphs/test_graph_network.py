"""Graphs as documents: what is refused, what is lost, and networks of dimensions as graphs."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from generators.graphs import documents, text_of
from graph_samples import shipped

from themis_opt.base.errors import InputError
from themis_opt.graphs.conversion import as_graph, to_graph
from themis_opt.graphs.degraded import called, change_in_words, degraded
from themis_opt.graphs.problem import load_graph
from themis_opt.problem.catalog import GRAPHS, load, shipped_graphs
from themis_opt.problem.catalog import shipped as shipped_products
from themis_opt.problem.network import Network

LINK = {"ends": ["a", "b"], "bandwidth": "1 GB/s"}
PAIR: dict[str, Any] = {
    "format": "themis-opt/instance/1",
    "network": {"nodes": [{"name": "a"}, {"name": "b"}], "links": [LINK]},
    "collectives": [{"kind": "all_gather", "size": "1 MB"}],
}


def written(folder: Path, **network: object) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps(PAIR | {"network": PAIR["network"] | network}))
    return path


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"links": [LINK | {"bandwidth": "-5 GB/s"}]}, "network.links[0].bandwidth = '-5 GB/s': input should be gr"),
        ({"links": [{"ends": ["a", "b"]}]}, "network.links[0].bandwidth: required field is missing"),
        ({"links": []}, "network.links: must be connected: 'b' and 'a' do not reach each other"),
        ({"links": [LINK | {"back": 0}]}, "network.links: must be connected: 'b' and 'a' do not reach each other"),
        ({"links": [LINK, LINK | {"ends": ["b", "a"]}]}, "network.links[1].ends: are joined already"),
        ({"links": [LINK | {"ends": ["a", "bb"]}]}, "network.links[0].ends: 'bb' is no node"),
        ({"links": [LINK | {"ends": ["a", "a"]}]}, "network.links[0].ends: must be two nodes"),
        ({"links": [LINK | {"latency": "-1 us"}]}, "network.links[0].latency = '-1 us': input should be gr"),
        ({"nodes": [{"name": "a", "kind": "switch"}, {"name": "b", "kind": "switch"}]}, "network.nodes: must have at"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "network.nodes: names must differ, 'a' stands twice"),
        ({"nodes": [{"name": "a", "sums": True}, {"name": "b"}]}, "network.nodes[0].sums: only switches say so"),
        ({"nodes": [{"name": "a,b"}, {"name": "b"}]}, "network.nodes[0].name = 'a,b': "),
        ({"nodes": [{"name": "a"}, {"name": "b", "kind": "switch"}]}, "network.nodes: must have two NPUs at least"),
    ],
)
def test_bad_graphs_are_refused_in_one_line(tmp_path: Path, network: dict[str, object], message: str) -> None:
    path = written(tmp_path, **network)
    with pytest.raises(InputError) as refusal:
        load_graph(path)
    assert str(refusal.value).startswith(f"{path}: {message}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("change", [{"kind": "send"}, {"dimensions": ["dim1"]}])
def test_collectives_along_dimensions_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(PAIR | {"collectives": [PAIR["collectives"][0] | change]}))
    with pytest.raises(InputError, match="a graph has no"):
        load_graph(path)


def test_directions_may_differ(tmp_path: Path) -> None:
    network = load_graph(written(tmp_path, links=[LINK | {"back": "2 GB/s", "latency": "1 us"}])).network
    assert network.arcs == {(0, 1): 10**9, (1, 0): 2 * 10**9}
    assert network.latencies == {(0, 1): 10**6, (1, 0): 10**6}
    assert network.capacities.arcs == {(0, 1): 1, (1, 0): 2}
    assert network.graph.edges["b", "a"]["bandwidth"] == 2e9


def test_only_graphs_are_taken_for_graphs() -> None:
    assert not set(shipped_graphs()) & set(shipped_products())


def test_what_is_lost_is_named_by_node_or_link() -> None:
    network = shipped("a100_x2").network
    for name in ("box0.nic3", "box0.gpu3-ib", "ib-box0.gpu3"):
        assert len(network.without([name]).links) == len(network.links) - 1
    assert network.without(["box0.gpu3"]).num_npus == 15
    with pytest.raises(InputError, match=r"did you mean 'box0.nic3'"):
        network.without(["box0.nic33"])
    with pytest.raises(InputError, match="the network without ib must be connected"):
        network.without(["ib"])


def test_short_names_stand_for_the_first_part_that_is_left() -> None:
    instance = shipped("a100_x2")
    names = ["nic", "nic", "box", "gpu3", "box1.nic2"]
    assert [*called(instance.network, names, "--lost")] == ["box0.nic0", "box0.nic1", "box0", "box0.gpu3", "box1.nic2"]
    assert degraded(instance, "box1").network.num_npus == 8
    slow = degraded(instance, slow="box0=0.5,nic=0.2").network
    rates = sorted({rate / 1e9 for link in slow.links for rate in link.bandwidths.values()})
    assert rates == [5, 12.5, 25, 150, 300]
    assert change_in_words(instance.network, "nic,ib", "gpu=0.5") == "Without box0.nic0, ib, with box0.gpu0=0.5"


def test_slow_links_have_a_part_of_their_bandwidth() -> None:
    network = shipped("a100_x2").network
    slow = network.slowed({"box0.nic0": 0.5})
    place = network.index["box0.gpu0"], network.index["ib"]
    assert slow.arcs[place] * 2 == network.arcs[place]
    assert sum(slow.arcs.values()) * 2 == sum(network.arcs.values()) * 2 - network.arcs[place] * 2
    for name, factor in (("box0.nic0", 0.0), ("box0.nic0", 1.5), ("box0.gpu0", 0.5)):
        with pytest.raises(InputError, match="--slow"):
            network.slowed({name: factor})


def test_networks_with_other_bandwidths_keep_nothing_of_the_old_ones() -> None:
    network = shipped("a100_x2").network
    place = network.index["box0.gpu0"], network.index["ib"]
    assert (network.arcs[place], network.unit) == (25 * 10**9, 25 * 10**9)
    assert network.with_bandwidth("box0.nic0", 5e9).arcs[place] == 5 * 10**9


@pytest.mark.parametrize(
    ("dimension", "links", "bandwidth"),
    [
        ({"kind": "ring", "size": 4}, 4, 6e9),
        ({"kind": "ring", "size": 2}, 1, 12e9),
        ({"kind": "line", "size": 4}, 3, 12e9),
        ({"kind": "fully_connected", "size": 4}, 6, 4e9),
        ({"kind": "switch", "size": 4}, 4, 12e9),
        ({"kind": "mesh2d", "size": 6}, 7, 6e9),
    ],
)
def test_every_kind_of_dimension_has_its_wires(dimension: dict[str, object], links: int, bandwidth: float) -> None:
    network = Network.model_validate({"dimensions": [dimension | {"bandwidth": "12 GB/s"}]})
    graph = to_graph(network)
    assert {link.bandwidth for link in graph.links} == {bandwidth}
    assert (len(graph.links), graph.num_npus) == (links, dimension["size"])


def test_products_multiply_their_wires() -> None:
    graph = as_graph(load("forestcoll.a100_2x8.all_gather.1200MB")).network
    same = shipped("a100_x2").network
    assert graph.num_npus == same.num_npus
    degrees = [sorted(dict(network.graph.degree()).values()) for network in (graph, same)]
    assert degrees[0][:16] == degrees[1][:16]
    assert nx.is_strongly_connected(graph.graph)


def test_dimensions_that_share_a_link_have_no_graph() -> None:
    shared = {"kind": "switch", "size": 2, "bandwidth": "1 GB/s"}
    network = Network.model_validate({"dimensions": [shared | {"name": "a"}, shared | {"shares": "a"}]})
    with pytest.raises(InputError, match="has no graph"):
        to_graph(network)


def test_shipped_graphs_are_what_the_generator_writes() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in GRAPHS.glob("*.json")}
    assert texts == {name: text_of(document) for name, document in documents().items()}

"""Files of other tools whose networks are no product of dimensions: graphs."""

import json

import networkx as nx
import pytest
from reader_samples import GRAPHML, INFRAGRAPH, MATRIX, NODE_LINK, TOPOLOGY

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files, load
from themis_opt.graphs.bounds import graph_bounds
from themis_opt.graphs.problem import load_graph
from themis_opt.problem.catalog import shipped_graphs

INSIDE = Request(bandwidths={"inside": 1e12})


def links(imported):
    """Ends, GB/s each way and microseconds of every link."""
    return {
        "-".join(link.ends): (*(rate / 1e9 for rate in link.bandwidths.values()), link.latency / 1e6)
        for link in imported.instance.network.links
    }


def test_components_between_npus_are_one_link(write):
    imported = import_files(write(hosts__yaml=INFRAGRAPH), request=INSIDE)
    assert imported.files[0]["format"] == "infragraph"
    ways = {ends: way for ends, way in links(imported).items() if ends.startswith("host.1")}
    assert ways == {
        "host.1.xpu.0-host.1.xpu.1": (200, 200, 0),
        "host.1.pciesw.0-host.1.xpu.0": (32, 32, 0),
        "host.1.pciesw.0-host.1.xpu.1": (32, 32, 0),
        "host.1.pciesw.0-leaf.0.asic.0": (25, 25, 2),
        "host.1.card.0.nic.0-host.1.pciesw.0": (32, 32, 0),
        "host.1.card.0.nic.0-leaf.0.asic.0": (25, 25, 2),
    }
    assert imported.instance.network.num_npus == 4


def test_adapters_can_fail_by_their_name(write):
    network = import_files(write(hosts__yaml=INFRAGRAPH), request=INSIDE).instance.network
    whole = sum(bandwidth for bandwidth in network.arcs.values())
    assert sum(network.without(["host.1.card.1.nic.0"]).arcs.values()) < whole


UNEQUAL = MATRIX.replace("NV12", "NV8").replace("GPU0\t X \tNV8", "GPU0\t X \tNV4").replace("GPU1\tNV8", "GPU1\tNV4")
SOME_BY_PCI = MATRIX.replace("NV12\tPXB\t0", "PHB\tPXB\t0").replace("GPU2\tNV12\tNV12", "GPU2\tPHB\tPHB")
TO_PCI = {f"gpu{number}-phb0": (32, 32, 2.85) for number in range(3)}
LINKS = {
    "edges between the same nodes add up": ("one_way__graphml", GRAPHML, {"a-sw": (50, 50, 1), "b-sw": (60, 60, 0)}),
    "directed edges": ("net__json", json.dumps(NODE_LINK), {"a-b": (10, 5, 2), "b-c": (10, 0), "c-a": (10, 0)}),
    "unequal links": (
        "topo__txt", UNEQUAL,
        {"gpu0-gpu1": (100, 100, 3.4), "gpu0-gpu2": (200, 200, 3.4), "gpu1-gpu2": (200, 200, 3.4)},
    ),
    "GPUs without NVLinks": ("topo__txt", SOME_BY_PCI, {"gpu0-gpu1": (300, 300, 3.4)} | TO_PCI),
}  # fmt: skip


@pytest.mark.parametrize("case", LINKS)
def test_files_become_links(write, case):
    name, text, expected = LINKS[case]
    imported = import_files(write(**{name: text}))
    assert links(imported) == expected
    if "__json" in name or "__graphml" in name:
        assert imported.instance.network.name == "one_way"
        assert imported.instance.network.npus == ("a", "b", "c")[: 3 if name == "net__json" else 2]


def test_graphs_of_networkx_are_read_back(tmp_path):
    network = load_graph(shipped_graphs()["mi250_8_8.all_gather.1GB"]).network
    nx.write_graphml(network.graph, tmp_path / "net.graphml")
    (tmp_path / "net.json").write_text(json.dumps(nx.node_link_data(network.graph, edges="links")), encoding="utf-8")
    for file in ("net.graphml", "net.json"):
        read = import_files([tmp_path / file]).instance.network
        names = [node.name for node in read.nodes]
        arcs = {(names[tail], names[head]): rate for (tail, head), rate in read.arcs.items()}
        assert arcs == {
            (network.nodes[tail].name, network.nodes[head].name): rate for (tail, head), rate in network.arcs.items()
        }


def test_gpus_with_different_nvlinks_are_a_graph(write):
    imported = import_files(write(topology__xml=TOPOLOGY.replace('count="12"', 'count="8"', 1)))
    assert imported.instance.network.num_npus == 4
    assert links(imported)["box0.gpu0-box0.gpu1"] == (160, 160, 3.4)
    assert links(imported)["box0.gpu0-box0.pci0000:0b:00.0"] == (24, 24, 2.85)
    assert "a graph, since GPUs have 160 to 240 GB/s of links" in imported.notes[0]


def test_files_of_several_nodes_are_boxes(write):
    smaller = TOPOLOGY.replace('speed="200000"', 'speed="100000"')
    imported = import_files(write(first__xml=TOPOLOGY, second__xml=smaller))
    assert imported.instance.network.npus == ("box0.gpu0", "box0.gpu1", "box1.gpu0", "box1.gpu1")
    assert min(rate for _, rate, *_ in links(imported).values()) == 12.5
    assert graph_bounds(imported.instance)["latency"].picoseconds == 14_000_000  # that of NCCL's model between nodes


@pytest.mark.parametrize(("multigraph", "rate"), [(False, 25e9), (True, 50e9)])
def test_edges_that_stand_both_ways_count_once_unless_it_is_a_multigraph(write, multigraph, rate):
    ends = [("a", "b"), ("b", "a")]
    edges = [{"source": tail, "target": head, "bandwidth": "25 GB/s"} for tail, head in ends]
    document = {"directed": False, "multigraph": multigraph, "nodes": [{"id": "a"}, {"id": "b"}], "edges": edges}
    imported = import_files(write(net__json=json.dumps(document)))
    (link,) = imported.instance.network.links
    assert link.bandwidth == rate
    assert ("joins the same two nodes: 1." in imported.notes[0]) is not multigraph


BROKEN = [
    ("x__yaml", INFRAGRAPH.replace("component: xpu", "component: xpv"), "ep1 = 'xpv': must be one of xpu, nvsw"),
    ("x__yaml", INFRAGRAPH.replace('"host[0]"', '"host[2]"'), "ep1.instance = 'host\\[2\\]': must be less than 2"),
    ("x__yaml", INFRAGRAPH.replace("name: card, choice", "name: host, choice"), "must be nested at most 8 deep"),
    ("x__yaml", INFRAGRAPH.replace("one2one", "ring"), "scheme = 'ring': must be one of many2many, one2one"),
    ("x__graphml", GRAPHML.replace("50 GB/s", "fast"), "edges\\[0\\].bandwidth = 'fast'"),
    ("x__graphml", GRAPHML.replace('target="sw"', 'target="sx"', 1), "'sx' is no node"),
    ("x__json", json.dumps(NODE_LINK | {"links": [{}]}), "edges\\[0\\].bandwidth: required field is missing"),
]


@pytest.mark.parametrize(("name", "text", "rule"), BROKEN)
def test_graphs_that_break_a_rule_are_refused(write, name, text, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(**{name: text}), request=INSIDE)


def test_graphs_are_imported_with_what_files_leave_out(write):
    (path,), whole = write(net__graphml=GRAPHML), write(hosts__yaml=INFRAGRAPH)
    with pytest.raises(InputError, match="links = 'inside': has links without a bandwidth: state it by --bandwidths"):
        import_files(whole)
    with pytest.raises(InputError, match="is a graph: 'themis-opt import' makes a document of it"):
        load(path)
    with pytest.raises(InputError, match="--chunks = 4: is not for graphs"):
        import_files([path], request=Request(chunks=4))

"""Topologies and graphs of NCCL, and the matrix of nvidia-smi."""

import re

import pytest
from reader_samples import GRAPH, MATRIX, TOPOLOGY

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.registry import import_files


def rows(imported):
    return [
        (d.name, d.kind.value, d.size, d.bandwidth / 1e9, d.latency // 1000)
        for d in imported.instance.network.dimensions
    ]


def test_a_topology_is_a_node_and_the_network_between_two(write):
    imported = import_files(write(topology__xml=TOPOLOGY))
    assert rows(imported) == [("node", "switch", 2, 240, 3400), ("net", "switch", 2, 12.5, 14_000)]
    assert "2 nodes, since its name says no number such as 16nodes" in imported.notes[0]


def test_the_name_of_the_file_says_the_number_of_nodes(write):
    imported = import_files(write(topology__16nodes__xml=TOPOLOGY))
    assert [row[2] for row in rows(imported)] == [2, 16]


def test_links_between_gpus_without_a_switch_connect_all(write):
    links = TOPOLOGY.replace('"0x068000"', '"0x030200"')
    assert rows(import_files(write(topology__xml=links)))[0][:3] == ("node", "fully_connected", 2)


def test_a_node_without_nvlinks_is_as_fast_as_its_pci_links(write):
    lines = [line for line in TOPOLOGY.splitlines() if "nvlink" not in line]
    assert rows(import_files(write(topology__xml="\n".join(lines))))[0] == ("node", "switch", 2, 32, 5700)


def test_hopper_and_blackwell_have_faster_links(write):
    first_rows = [rows(import_files(write(t__xml=TOPOLOGY.replace('sm="80"', f'sm="{sm}"'))))[0][3] for sm in (90, 100)]
    assert first_rows == pytest.approx([247.2, 481.2])


@pytest.mark.parametrize(("gcn", "gigabytes"), [("gfx942", 48), ("940", 48), ("gfx90a", 36), ("910", 36), ("906", 24)])
def test_links_of_rccl_are_read(write, gcn, gigabytes):
    links = TOPOLOGY.replace("nvlink", "xgmi").replace('sm="80"', f'sm="304" gcn="{gcn}"')
    counts = [int(count) for count in re.findall(r'xgmi [^>]*count="(\d+)"', links)]
    assert rows(import_files(write(t__xml=links)))[0][3] == gigabytes * counts[0]


def test_a_graph_has_channels_times_their_speed(write):
    assert rows(import_files(write(graph__4nodes__xml=GRAPH))) == [
        ("node", "ring", 2, 40, 3400),
        ("net", "switch", 4, 12.5, 14_000),
    ]


def test_a_matrix_of_equal_links_is_a_node(write):
    assert rows(import_files(write(topo__txt=MATRIX))) == [("node", "switch", 3, 300, 3400)]
    assert rows(import_files(write(topo__txt=MATRIX.replace("NV12", "PIX"))))[0][3:] == (32, 5700)


BROKEN = [
    ("x__xml", TOPOLOGY.replace('sm="80"', 'sm="61"'), "gpu.sm = '61': must be one of 7x"),
    ("x__xml", TOPOLOGY.replace('version="1"', 'version="9"'), "system.version = '9': must be 1 or 2"),
    (
        "x__xml",
        re.sub(r' speed="[0-9]+"', ' speed="200000000"', TOPOLOGY),
        "net.speed = 200000000: must be at most 10000000",
    ),
    ("x__xml", TOPOLOGY.replace("<net ", "<nett "), "must describe a network adapter"),
    ("x__xml", "<!DOCTYPE system [<!ENTITY a 'b'>]>" + TOPOLOGY, "must not declare a document type or entities"),
    ("x__xml", TOPOLOGY[:-12], "not XML: unclosed token at line"),
    ("x__xml", "<system>" * 80, "must have at most 64 levels"),
    ("x__xml", GRAPH.replace('pattern="4"', 'pattern="1"'), "graph = 'balanced tree': must hold a ring, pattern 4"),
    ("x__txt", MATRIX.replace("NV12", "NV4", 1), "GPU0 and GPU1 = 'NV4, NV12': must be the same both ways"),
    ("x__txt", MATRIX.replace("NV12", "NVX", 1), "line 2 = 'NVX': must be NV and a number"),
    ("x__txt", MATRIX.replace("GPU2\tNV12", "GPU7\tNV12"), "GPUs = 2: must be a matrix of two GPUs or more"),
]


@pytest.mark.parametrize(("name", "text", "rule"), BROKEN)
def test_files_that_break_a_rule_are_refused(write, name, text, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(**{name: text}))

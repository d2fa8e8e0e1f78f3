"""``themis-opt import`` and ``themis-opt list formats``."""

import json

import pytest
from reader_samples import INFRAGRAPH, LINEAR, RING_16, SYSTEM, nccl_table

from themis_opt.formats.readers.registry import READERS, load
from themis_opt.graphs.problem import load_graph


@pytest.fixture
def files(save):
    """A network and a system of ASTRA-sim."""
    return save(RING_16, "net.yml"), save(SYSTEM, "system.json")


def test_what_was_read_is_printed_with_notes(invoke, files):
    result = invoke("import", *files, "--collective", "all_gather", "--size", "16MiB")
    assert result.exit_code == 0
    assert f"{files[0]}\tastra-sim-network" in result.stdout.splitlines()
    assert "note: ASTRA-sim: GB/s are 2^30 bytes" in result.stderr


def test_the_instance_that_is_written_is_the_one_that_is_printed(succeed, files, tmp_path):
    path = tmp_path / "instance.json"
    printed = json.loads(succeed("import", *files, "--chunks", 7, "-o", path, "--json"))
    assert load(path).fingerprint == printed["fingerprint"]
    assert load(path).collectives[0].chunks == 7
    assert [row["format"] for row in printed["formats"]] == ["astra-sim-network", "astra-sim-system"]


def test_a_format_can_be_named(refuse, save):
    path = save("topologies: none\n", "net.yml")
    assert "is of no format that is known" in refuse("import", path)
    assert "topologies: unknown field" in refuse("import", f"astra-sim-network:{path}")


def test_an_instance_of_our_own_is_imported_as_it_is(succeed):
    printed = json.loads(succeed("import", "fig5.all_reduce.256MB", "--json"))
    assert printed["fingerprint"] == load("fig5.all_reduce.256MB").fingerprint


def test_an_unknown_collective_is_refused(refuse, files):
    assert "command line: kind = 'all_reduces'" in refuse("import", *files, "--collective", "all_reduces")


def test_errors_in_a_file_name_it(refuse, save):
    nodes = [{"id": name} for name in "abc"]
    network = {"nodes": nodes, "links": [{"source": "a", "target": "b", "bandwidth": "1 GB/s"}]}
    assert "net.json: links: must be connected" in refuse("import", save(json.dumps(network), "net.json"))


def test_every_format_is_listed_with_its_files_and_meaning(succeed):
    rows = [row for row in json.loads(succeed("list", "formats", "--json")) if row["way"] == "in"]
    assert [row["name"] for row in rows] == list(READERS)
    assert all(row["files"].startswith("*") and row["meaning"] for row in rows)


def test_a_graph_is_written_as_an_instance(succeed, save, tmp_path):
    path = save(INFRAGRAPH, "hosts.yaml")
    output = tmp_path / "hosts.json"
    given = ("--collective", "all_gather", "--size", "1 MB", "--bandwidths", "inside=1TB/s")
    printed = succeed("import", path, *given, "-o", output)
    assert "two_hosts all_gather: 4 NPUs" in printed
    assert load_graph(output).network.num_npus == 4


def test_many_rows_of_measurements_are_shown_where_they_are_asked_for(succeed, save):
    log = save(nccl_table(LINEAR), "all_reduce.txt")
    first, second, *_ = succeed("import", log).splitlines()
    assert "as measured" in first
    assert second.startswith("One dimension has no order: ")
    assert "measured against fitted" not in succeed("import", log)
    assert "# dim1: measured against fitted" in succeed("import", log, "--all")


def test_one_log_of_many_hosts_is_said_to_become_one_ring(invoke, save):
    lines = nccl_table(LINEAR).replace("on  node0 device  7", "on  node1 device  7")
    assert "becomes one ring" not in invoke("import", save(nccl_table(LINEAR), "all_reduce.txt")).stderr
    result = invoke("import", save(lines, "all_reduce.txt"))
    assert "is of 8 GPUs on 2 hosts, and becomes one ring" in result.stderr

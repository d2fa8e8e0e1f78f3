"""Tables of rocm-smi and amd-smi: XGMI cables, and pairs that have none."""

import json

import pytest
from reader_samples import JSON_OF_AMD, TOPOLOGY_OF_AMD

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.registry import import_files

FASTER = TOPOLOGY_OF_AMD.replace("50000-50000", "60000-60000", 1)
TITLES = {"type": "Link Type between two GPUs", "hops": "Hops between two GPUs"}


def tables(size, **other):
    """The tables of rocm-smi; `other`: words of pairs, by the table."""
    text = ""
    for kind, usual, mine in (("type", "XGMI", "0"), ("hops", "1", "0")):
        if kind in other:
            words = {frozenset(pair): word for pair, word in other[kind].items()}
            rows = [[words.get(frozenset((i, j)), mine if i == j else usual) for j in range(size)] for i in range(size)]
            text += f"{TITLES[kind]:=^80}\n" + " ".join(["      ", *(f"GPU{i}   " for i in range(size))]) + "\n"
            text += "".join(f"GPU{i}   " + "   ".join(row) + "\n" for i, row in enumerate(rows)) + "\n"
    return text


def cables(imported):
    network = imported.instance.network
    return {"-".join(link.ends): link.bandwidth / 1e9 for link in network.links}


@pytest.mark.parametrize("size", [2, 4, 8])
def test_pairs_that_are_alike_are_fully_connected(write, size):
    (dimension,) = import_files(write(t__txt=tables(size, type={}, hops={}))).instance.network.dimensions
    assert (dimension.kind, dimension.size) == ("fully_connected", size)
    assert dimension.bandwidth == 48e9 * (size - 1)


@pytest.mark.parametrize(
    ("name", "text", "gigabytes"),
    [
        ("t__txt", tables(4, type={}, hops={(0, 2): "2", (1, 3): "2"}),
         {"gpu0-gpu1": 48, "gpu1-gpu2": 48, "gpu2-gpu3": 48, "gpu0-gpu3": 48}),
        ("t__txt", tables(3, type={(0, 1): "PCIE"}), {"gpu0-gpu2": 48, "gpu1-gpu2": 48}),
        ("t__txt", tables(3, type={(0, 2): "PCIE", (1, 2): "PCIE"}),
         {"gpu0-gpu1": 48, "gpu0-sys0": 32, "gpu1-sys0": 32, "gpu2-sys0": 32}),
        ("t__json", json.dumps(JSON_OF_AMD), {"gpu0-gpu1": 50, "gpu0-gpu2": 100, "gpu1-gpu2": 50}),
    ],
    ids=["several hops", "a lost cable", "PCI", "JSON"],
)  # fmt: skip
def test_pairs_with_cables_are_joined_directly(write, name, text, gigabytes):
    assert cables(import_files(write(**{name: text}))) == gigabytes


def test_bandwidths_say_the_links_of_a_pair_and_the_slowest_are_those_of_all(write):
    imported, faster = (import_files(write(t__txt=text)) for text in (TOPOLOGY_OF_AMD, FASTER))
    assert sorted(cables(imported).values()) == [50, 50, 100]
    assert "50 GB/s per XGMI link" in faster.notes[0]
    assert "50 GB/s per XGMI link and direction and 32 GB/s of PCI are read and assumed" in imported.notes[0]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (tables(2, hops={}), "link type: must hold the table of link types"),
        (tables(2, type={}) * 2, "must hold one matrix: import the one of each host alone"),
        (tables(2, type={(0, 1): "UNKNOWN"}), "line 3 = 'UNKNOWN': must be XGMI or PCIE"),
        (tables(2, type={}).replace("XGMI", "PCIE", 1), "must be the same both ways"),
        (tables(3, type={})[:-30], "must be a matrix of two GPUs or more, with a row for each"),
    ],
)
def test_tables_that_break_a_rule_are_refused(write, text, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(t__txt=text))

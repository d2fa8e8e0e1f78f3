"""Matrices of nvidia-smi, rocm-smi and amd-smi: cables, switches, boxes that lost links, and pairs that have none."""

import json
import random

import pytest
from reader_samples import JSON_OF_AMD, TOPOLOGY_OF_AMD

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.formats.readers.gpu_matrix import Matrix
from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files


def matrix(size, words, head=""):
    """The text of a matrix; `words` has the word of each pair that is no NV18."""
    names = [f"GPU{number}" for number in range(size)]
    rows = [
        "\t".join([names[i], *(" X " if i == j else words.get((min(i, j), max(i, j)), "NV18") for j in range(size))])
        for i in range(size)
    ]
    return head + "\t" + "\t".join(names) + "\n" + "\n".join(rows) + "\n"


@pytest.fixture
def least_us(write):
    """Microseconds that an all-gather of 1 GB takes at least."""

    def least(text, **rates):
        request = Request(kind="all_gather", size="1 GB", bandwidths=rates)
        return max(themis_opt.bounds(import_files(write(topo__txt=text), request=request).instance).values()) / 1e6

    return least


def all_pairs(size, word):
    return {(i, j): word for i in range(size) for j in range(i + 1, size)}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (matrix(8, {(i, j): "NV17" for i in range(8) for j in range(8) if 3 in (i, j)}), 7 / 8 * 1e6 / 425),
        (matrix(4, {(i, j): "NV9" for i in range(4) for j in range(4) if 2 in (i, j)}), 3 / 4 * 1e6 / 225),
        (matrix(4, all_pairs(4, "NV4")), 3 / 4 * 1e6 / 300),
        (matrix(4, all_pairs(4, "NV6")), 3 / 4 * 1e6 / 450),
        (matrix(8, {}), 7 / 8 * 1e6 / 450),
        (matrix(2, {}, head="GPU 0: NVIDIA B200\nGPU 1: NVIDIA B200\n"), 1 / 2 * 1e6 / 900),
    ],
)
def test_boxes_take_what_their_slowest_gpu_takes(least_us, text, right):
    assert right <= least_us(text) <= right + 30  # and latencies


def test_rates_can_be_stated(least_us):
    assert least_us(matrix(8, {}), nvlink=50e9) < 0.52 * least_us(matrix(8, {}))


@pytest.mark.parametrize("seed", range(24))
def test_taking_links_away_makes_nothing_faster(least_us, seed):
    draw = random.Random(seed)
    size, usual = draw.randint(3, 8), draw.choice([4, 6, 12, 18])
    whole = all_pairs(size, f"NV{usual}")
    broken = draw.randrange(size)
    word = draw.choice([f"NV{draw.randint(1, usual)}", "SYS", "PIX"])
    less = {pair: word if broken in pair else links for pair, links in whole.items()}
    assert least_us(matrix(size, less)) >= 0.9999 * least_us(matrix(size, whole))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (matrix(2, {}) + "\n" + matrix(4, {}), "must hold one matrix: import the one of each host alone"),
        (matrix(3, {(0, 1): "X"}), "must be NV and a number"),
        (matrix(3, {}) + matrix(3, {}).splitlines()[-1], "line 5 = 'GPU2': rows must be .* once"),
    ],
)
def test_matrices_that_are_not_one_are_refused(write, text, said):
    with pytest.raises(InputError, match=said):
        import_files(write(topo__txt=text))


def test_files_of_power_shell_are_read(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(2, {}), encoding="utf-16")
    assert import_files([tmp_path / "topo.txt"]).instance.network.num_npus == 2


def test_gpus_keep_their_names(write):
    text = matrix(3, all_pairs(3, "NV4") | {(0, 1): "NV2"}).replace("GPU2", "GPU3")
    network = import_files(write(topo__txt=text)).instance.network
    assert network.npus == ("gpu0", "gpu1", "gpu3")


@pytest.mark.parametrize(
    ("names", "said"), [("0 1 3", "3 GPUs, without GPU2"), ("0 1 2 3 4 5", "6 GPUs, no power of two"), ("0 1 2 3", "")]
)
def test_gpus_that_seem_to_be_off_are_named(names, said):
    gpus = [f"GPU{number}" for number in names.split()]
    assert said in "".join(notes := Matrix(gpus, (), ()).missing())
    assert bool(notes) == bool(said)


@pytest.mark.parametrize("slow", [{}, {(0, 1): "NV2"}])
def test_hosts_and_their_gpus_are_told(write, slow):
    (row,) = import_files(write(topo__txt=matrix(6, all_pairs(6, "NV3") | slow))).tables["hosts"]
    assert row == {"file": "topo.txt", "hosts": "1", "GPUs per host": "6"}


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

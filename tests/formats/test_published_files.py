"""Files that ASTRA-sim publishes, read as what they mean; networks and systems are written here from their values."""

import pytest

from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files
from themis_opt.policies.registry import make_policy
from themis_opt.schedules.simulator import simulate


def topology(kinds, sizes, bandwidths, latencies):
    columns = {"topology": kinds, "npus_count": sizes, "bandwidth": bandwidths, "latency": latencies}
    return "".join(f"{name}: [ {', '.join(map(str, values))} ]\n" for name, values in columns.items())


def system(*algorithms, memory=50, delay=1, splits=1, active=1):
    """The fields that the published systems share."""
    names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    values = {"scheduling-policy": "LIFO", "endpoint-delay": delay, "active-chunks-per-dimension": active}
    values |= {"preferred-dataset-splits": splits, "collective-optimization": "localBWAware", "local-mem-bw": memory}
    return values | {f"{name}-implementation": list(algorithms) for name in names} | {"boost-mode": 0}


def ring(npus, bandwidth=50.0, latency=500.0):
    return topology(["Ring"], [npus], [bandwidth], [latency])


KINDS = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter")
SLOW_SUMS = {"delay": 10, "splits": 4}
RING_SYSTEM, RING_4_CHUNKS = system("ring", **SLOW_SUMS), system("ring", **SLOW_SUMS, memory=1600)
CYCLES_OF_ASTRA_SIM = {
    "Ring_4npus + Ring_4chunks": (ring(4), RING_4_CHUNKS, (43_000, 64_744, 41_560, 22_240)),
    "Ring_8npus + Ring_4chunks": (ring(8), RING_4_CHUNKS, (64_440, 151_016, 125_480, 33_080)),
    "Ring_16npus + Ring_4chunks": (ring(16), RING_4_CHUNKS, (99_640, 323_560, 391_240, 50_740)),
    "dgx_v100_4gpu": (ring(4, 3.125, 3.39), system("ring"), (515_953, 937_513, 468_775, 281_566)),
    "tpu_v3_8": (ring(8, 80.0, 1000.0), system("ring"), (90_406, 92_457, 70_729, 72_724)),
    "tpu_v3_32_ring": (ring(32, 80.0, 2000.0), system("ring"), (208_600, 440_449, 1_181_473, 134_758)),
    "tpu_v3_32_2dtorus": (
        topology(["Ring"] * 2, [4, 8], [80.0] * 2, [1000.0] * 2),
        system("ring", "ring"),
        (104_596, 388_429, 95_042, 82_765),
    ),
    "hgx_h100_2gpu": (
        topology(["Switch"], [2], [741.34], [936.25]),
        system("ring"),
        (36_520, 3_191, 2_533, 33_988),
    ),
    "hgx_h100_4gpu": (
        topology(["Switch"], [4], [741.34], [936.25]),
        system("ring"),
        (60_391, 9_571, 13_213, 53_785),
    ),
    "Ring_8 + Ring_sys": (ring(8), RING_SYSTEM, (117_780, 151_016, 125_480, 86_420)),
    "FullyConnected_2 + Ring_sys": (
        topology(["FullyConnected"], [2], [50.0], [500.0]),
        RING_SYSTEM,
        (55_100, 21_608, 11_844, 43_296),
    ),
    "FullyConnected_8 + Direct_sys": (
        topology(["FullyConnected"], [8], [50.0], [500.0]),
        system("direct", **SLOW_SUMS),
        (16_860, 21_608, 4_520, 12_380),
    ),
    "DGX_H100-32 + DGX_H100": (
        topology(["Switch"] * 2, [8, 4], [450.0, 50.0], [500.0] * 2),
        system("halvingDoubling", "halvingDoubling", **SLOW_SUMS),
        (51_684, 89_597, None, 40_608),  # it has no all-to-all by halvingDoubling
    ),
    "TPUv4-32 + TPUv4": (
        topology(["Ring"] * 3, [2, 4, 4], [50.0] * 3, [500.0, 500.0, 50.0]),
        system("ring", "ring", "ring", **SLOW_SUMS),
        (65_884, 389_549, 52_211, 54_674),
    ),
}
"""Networks, systems, and the cycles of ASTRA-sim 2's congestion-unaware back end for 1 MiB in the order of `KINDS`.

The simulator is astra-sim/astra-sim at 518bd51, whose ``examples`` and ``inputs`` hold the files with dgx, hgx, tpu_v3
and npus in their names; the others are in astra-sim/tutorials at ead2d5d, ``hoti2024`` and ``micro2024``.
"""


@pytest.mark.parametrize("name", CYCLES_OF_ASTRA_SIM)
def test_imports_take_as_long_as_the_simulator_itself(write, name):
    network, system, figures = CYCLES_OF_ASTRA_SIM[name]
    files = write(net__yml=network, sys__json=system)
    for kind, cycles in zip(KINDS, figures, strict=True):
        npus = import_files(files).instance.network.num_npus
        size = 2**20 * (npus if kind == "all_gather" else 1)
        imported = import_files(files, request=Request(kind, size))
        if cycles is None:
            assert any("has no all-to-all by halvingDoubling" in note for note in imported.notes)
            continue
        time = simulate(imported.instance, make_policy("baseline")(imported.instance)).makespan / 1000
        assert time == pytest.approx(cycles, rel=0.003), kind


OUTSIDE = {
    "several active chunks": (ring(8), system("ring", active=2), "Several active chunks per dimension"),
    "direct on a ring": (ring(8), system("direct"), "share the links of an NPU on a switch or ring"),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_imports_outside_of_what_is_exact_say_so(write, what):
    network, system, note = OUTSIDE[what]
    imported = import_files(write(net__yml=network, sys__json=system))
    assert any(note in line for line in imported.notes)
    assert note in imported.instance.description


def rows(network):
    return [
        (dimension.kind.value, dimension.size, dimension.bandwidth / 2**30, dimension.latency)
        for dimension in network.dimensions
    ]


def test_the_validated_network_of_eight_h100_is_read(write):
    text = "topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 400.0 ]  # GB/s\nlatency: [ 936.25 ]  # ns\n"
    system = {"preferred-dataset-splits": 4, "active-chunks-per-dimension": 2, "local-mem-bw": 3350}
    system |= {"all-reduce-implementation": ["ring"], "endpoint-delay": 10, "boost-mode": 0}
    instance = import_files(write(hgx__yml=text, sys__json=system)).instance
    (dimension,) = instance.network.dimensions
    assert rows(instance.network) == [("switch", 8, 400, 2 * 936_250 + 10_000)]
    assert (dimension.algorithm.value, dimension.launch_overhead) == ("ring", 10_000)
    assert dimension.reduction == pytest.approx(3350e9 / 3)
    assert (instance.collectives[0].chunks, instance.latency) == (4, "lag")

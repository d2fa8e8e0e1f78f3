"""Files that ASTRA-sim publishes, read as what they mean.

The workloads in ``files/astra_sim`` are ASTRA-sim's (``inputs/workload``), under the MIT licence beside them; the
networks are written here from their values.
"""

from collections import Counter
from pathlib import Path

import pytest

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files
from themis_opt.policies.registry import make_policy, usual_policies
from themis_opt.schedules.simulator import simulate
from themis_opt.study.verdict import on_step

FILES = Path(__file__).parent / "files" / "astra_sim"


def tutorial(kind, units, links, latency, bandwidth):
    count = len(units)
    return {
        "dimensions-count": count,
        "topologies-per-dim": [kind] * count,
        "units-count": units,
        "links-count": links,
        "link-latency": [latency] * count,
        "link-bandwidth": bandwidth,
    }


TUTORIALS = {
    "3d_switch": tutorial("Switch", [8, 8, 8], [1, 1, 1], 1, [50, 50, 50]),
    "dgx2": tutorial("Switch", [16, 16], [6, 1], 500, [25, 6.25]),
    "tpu": tutorial("Ring", [16, 16], [2, 2], 500, [62, 62]),
}
"""Of the tutorials at ASPLOS 2023 and MLSys 2022."""

MEANT = {
    "3d_switch": [("switch", 8, 50, 2_000)] * 3,
    "dgx2": [("switch", 16, 150, 1_000_000), ("switch", 16, 6.25, 1_000_000)],
    "tpu": [("ring", 16, 124, 500_000)] * 2,
}
"""Kind, NPUs, GB/s (2^30) of an NPU and picoseconds of a step, which crosses two links through a switch."""


def topology(kind, npus, bandwidth, latency):
    return f"topology: [ {kind} ]\nnpus_count: [ {npus} ]\nbandwidth: [ {bandwidth} ]\nlatency: [ {latency} ]\n"


def system(algorithm, *, memory, active=1):
    """The fields that the published systems share."""
    names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    values = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": active}
    values |= {"preferred-dataset-splits": 4, "collective-optimization": "localBWAware", "local-mem-bw": memory}
    return values | {f"{name}-implementation": [algorithm] for name in names} | {"boost-mode": 0}


RING_8 = topology("Ring", 8, 50.0, 500.0)
MIB = 2**20
CYCLES_OF_ASTRA_SIM = {
    "Ring_sys": (RING_8, system("ring", memory=50), "all_reduce", MIB, 117_780),
    "Direct_sys": (topology("FullyConnected", 8, 50.0, 500.0), system("direct", memory=50), "all_reduce", MIB, 16_860),
    "Ring_4chunks": (RING_8, system("ring", memory=1600), "all_to_all", MIB, 125_480),
    "Ring_16npus": (topology("Ring", 16, 50.0, 500.0), system("ring", memory=1600), "all_gather", 16 * MIB, 323_560),
}
"""Networks, systems, collectives, bytes and the cycles of ASTRA-sim 2's congestion-unaware back end, by its files.

``Ring_sys.json`` and ``Direct_sys.json`` are in astra-sim/tutorials, ``micro2024/astra-sim-demo/demo1``; the others in
astra-sim/astra-sim at 518bd51, ``examples/system/native_collectives`` and ``examples/network/analytical``.
"""


@pytest.mark.parametrize("name", CYCLES_OF_ASTRA_SIM)
def test_imports_take_as_long_as_the_simulator_itself(write, name):
    network, system, kind, size, cycles = CYCLES_OF_ASTRA_SIM[name]
    instance = import_files(write(net__yml=network, sys__json=system), request=Request(kind, size)).instance
    assert simulate(instance, make_policy("baseline")(instance)).makespan / 1000 == pytest.approx(cycles, rel=0.005)


OUTSIDE = {
    "several active chunks": (RING_8, system("ring", memory=50, active=2), "Several active chunks per dimension"),
    "direct on a ring": (RING_8, system("direct", memory=50), "share the links of an NPU on a switch or ring"),
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


@pytest.mark.parametrize("name", TUTORIALS)
def test_networks_of_the_tutorials_are_read(write, name):
    assert rows(import_files(write(**{f"{name}__json": TUTORIALS[name]})).instance.network) == MEANT[name]


def test_an_all_reduce_on_the_network_of_tpus_takes_what_its_rings_take(write):
    files = write(tpu__json=TUTORIALS["tpu"])
    instance = import_files(files, request=Request("all_reduce", "16 MiB", 1)).instance
    steps = 4 * 15 * 500  # two rings, out and back
    sent = 2 * (15 / 16) * (2**24 + 2**20) / (124 * 2**30 / 1e9)  # the outer ring has a sixteenth
    assert simulate(instance, make_policy("baseline")(instance)).makespan / 1000 == pytest.approx(steps + sent)


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


WORKLOADS = {
    "Resnet50_DataParallel": (215, 1_116_239, {("all_reduce", (0, 1)): 54}, {"all_reduce": 102_011_648}),
    "DLRM_HybridParallel": (
        31,
        54_666,
        {("all_reduce", (0, 1)): 7, ("all_to_all", (0, 1)): 2},
        {"all_reduce": 3_191_808, "all_to_all": 196_608},
    ),
    "Transformer_HybridParallel": (
        228,
        548_943_154,
        {("all_reduce", (1, 2)): 37, ("all_reduce", (0,)): 25, ("all_gather", (0,)): 8},
        {"all_reduce": 2_644_066_304, "all_gather": 4 * 887_422_976},
    ),
}
"""Tasks, nanoseconds of compute, collectives by kind and dimensions, and bytes by kind.

They are sums over the columns of the files; layer 0 has no input gradient where it needs none, and the bytes of an
all-gather are what each of four model-parallel NPUs puts in.  The dimension of 16 is split in four times four for them.
"""


@pytest.mark.parametrize("name", WORKLOADS)
def test_published_workloads_are_read(write, name):
    instance = import_files([*write(tpu__json=TUTORIALS["tpu"]), FILES / f"{name}.txt"]).instance
    tasks, compute, collectives, sizes = WORKLOADS[name]
    assert (len(instance.tasks), instance.compute) == (tasks, compute * 1000)
    assert Counter((exchange.kind.value, exchange.span) for exchange in instance.exchanges) == collectives
    for kind, size in sizes.items():
        assert sum(exchange.size for exchange in instance.exchanges if exchange.kind.value == kind) == size


def test_an_imported_workload_is_first_launched_as_its_source_does(write):
    instance = import_files([*write(tpu__json=TUTORIALS["tpu"]), FILES / "Resnet50_DataParallel.txt"]).instance
    assert usual_policies(instance)[0] == instance.iteration.launching == "wait_free/baseline"
    assert on_step(instance)[0].startswith("Communication costs")
    assert "wait_free/baseline, as its source launches," in on_step(instance)[0]


def test_times_of_workloads_are_in_the_unit_that_is_asked_for(write):
    files = [*write(tpu__json=TUTORIALS["tpu"]), FILES / "Resnet50_DataParallel.txt"]
    nanoseconds, microseconds = (import_files(files, time_unit=unit) for unit in (None, "us"))
    assert microseconds.instance.compute == 1000 * nanoseconds.instance.compute
    assert any("1000 times as long" in note for note in nanoseconds.notes)


@pytest.mark.parametrize(("unit", "rule"), [("weeks", "use one of s, ms, us, ns, ps"), ("us", "is for workloads")])
def test_units_that_mean_nothing_are_refused(write, unit, rule):
    files = write(tpu__json=TUTORIALS["tpu"]) + ([FILES / "Resnet50_DataParallel.txt"] if unit == "weeks" else [])
    with pytest.raises(InputError, match=rule):
        import_files(files, time_unit=unit)

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
    "Resnet50_DataParallel": (162, 1_085_679, {("all_reduce", (0, 1)): 54}, {"all_reduce": 102_011_648}),
    "DLRM_HybridParallel": (
        23,
        51_378,
        {("all_reduce", (0, 1)): 7, ("all_to_all", (0, 1)): 2},
        {"all_reduce": 3_191_808, "all_to_all": 196_608},
    ),
    "Transformer_HybridParallel": (
        204,
        548_942_872,
        {("all_reduce", (1, 2)): 37, ("all_reduce", (0,)): 25, ("all_gather", (0,)): 8},
        {"all_reduce": 2_644_066_304, "all_gather": 4 * 887_422_976},
    ),
}
"""Tasks, nanoseconds of compute, collectives by kind and dimensions, and bytes by kind.

They are sums over the columns of the files; layer 0 has no input gradient where it needs none, its update is
exposed, and passes that block are followed by that of their layer.  The bytes of an
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


def system_1(algorithm, *, delay=10, splits=4, scheduling="baseline"):
    """A system of the tutorials, which all sum at once."""
    lines = {"scheduling-policy": "LIFO", "endpoint-delay": delay, "active-chunks-per-dimension": 1}
    lines |= {"preferred-dataset-splits": splits, "boost-mode": 1, "collective-optimization": "localBWAware"}
    lines |= {f"{name}-implementation": algorithm for name in ("all-reduce", "all-gather", "reduce-scatter")}
    lines |= {"all-to-all-implementation": algorithm, "inter-dimension-scheduling": scheduling}
    return "".join(f"{name}: {value}\n" for name, value in lines.items())


MICRO = "MICRO\n1\nallreduce -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1048576 1\n"
CYCLES_OF_ASTRA_SIM_1 = {
    "ring": (tutorial("Ring", [8], [2], 500, [50]), "ring", 4, 45_681),
    "fullyconnected": (tutorial("FullyConnected", [8], [7], 500, [50]), "direct", 4, 9_001),
    "switch": (tutorial("Switch", [8], [1], 500, [50]), "halvingDoubling", 4, 58_449),
    "3d_switch_baseline": (TUTORIALS["3d_switch"], "_".join(["halvingDoubling"] * 3), 64, 39_937),
}
"""Networks, algorithms, splits and the cycles of ASTRA-sim 1 for an all-reduce of 1 MiB.

Files of astra-sim/tutorials at ead2d5d, ``asplos2022``, ``asplos2023`` and ``isca2022``; the simulator is that of the
tag ``tutorial-asplos2023`` with its analytical back end.
"""


@pytest.mark.parametrize("name", CYCLES_OF_ASTRA_SIM_1)
def test_imports_take_as_long_as_the_first_simulator(write, name):
    network, algorithm, splits, cycles = CYCLES_OF_ASTRA_SIM_1[name]
    instance = import_files(
        write(net__json=network, sys__txt=system_1(algorithm, splits=splits), work__txt=MICRO)
    ).instance
    assert simulate(instance, make_policy("baseline")(instance)).makespan / 1000 == pytest.approx(cycles, rel=0.005)


TRANSFORMER_BLOCK = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 16 checkpoints: 1 0 checkpoint_initiates: 1 1\n2\n"
    "Q1 -1 9072581 NONE 0 9072581 ALLREDUCE 805306368 9072581 ALLREDUCE 18874368 1\n"
    "X1W2b2 -1 36290323 ALLREDUCE 805306368 36290323 NONE 0 36290323 ALLREDUCE 75497472 1\n"
)


def test_weight_gradients_of_transformers_wait_for_the_error_as_in_the_simulator(write):
    instance = import_files(write(tpu__json=TUTORIALS["tpu"], work__txt=TRANSFORMER_BLOCK)).instance
    names = [task.name for task in instance.iteration.tasks]
    assert names.index("Q1.error.delay") == names.index("Q1.weight_gradient") - 1
    (error,) = (each for each in instance.iteration.tensors if each.name == "Q1.error")
    assert error.needed_before == "Q1.error.delay"
    assert instance.iteration.launching == "wait_free/baseline"


def test_the_newest_gradient_goes_first_where_the_system_says_so(write):
    files = [*write(tpu__json=TUTORIALS["tpu"], sys__txt=system_1("ring_ring")), FILES / "Resnet50_DataParallel.txt"]
    assert import_files(files).instance.iteration.launching == "wait_free:order=newest/baseline"


@pytest.mark.parametrize(
    ("algorithm", "scheduling", "note"),
    [("ring_ring", "themis", "orders chunks by themis"), ("direct_direct", "baseline", "share the links of an NPU")],
)
def test_systems_of_the_first_simulator_outside_of_what_is_exact_say_so(write, algorithm, scheduling, note):
    files = write(tpu__json=TUTORIALS["tpu"], sys__txt=system_1(algorithm, scheduling=scheduling), work__txt=MICRO)
    assert any(note in line for line in import_files(files).notes)


TORUS = {**tutorial("Ring", [4, 4, 4], [2, 2, 2], 1, [32, 16, 16]), "topology-name": "Hierarchical"}
CYCLES_OF_ITERATIONS = {
    "MLP_HybridParallel_Data_Model": 269_127,
    "MLP_HybridParallel_Model_Data": 414_776,
    "MLP_ModelParallel": 564_501,
}
"""Cycles of a pass of ASTRA-sim 1 on ``sample_Torus3D`` with ``sample_torus_sys``: half of what 5 take more than 3.

Files of its branch ASTRA-sim-1.0 (``inputs``).
"""


@pytest.mark.parametrize("name", CYCLES_OF_ITERATIONS)
def test_iterations_take_as_long_as_those_of_the_first_simulator(write, name):
    files = write(torus__json=TORUS, sys__txt=system_1("ring_ring_ring", delay=1))
    instance = import_files([*files, FILES / f"{name}.txt"]).instance
    time = simulate(instance, make_policy(usual_policies(instance)[0])(instance)).makespan / 1000
    assert time == pytest.approx(CYCLES_OF_ITERATIONS[name], rel=0.0005)


def test_an_all_to_all_of_the_first_simulator_goes_one_way_round(write):
    work = "MICRO\n1\nexchange -1 1 NONE 0 1 NONE 0 1 ALLTOALL 1048576 1\n"
    files = write(torus__json=TORUS, sys__txt=system_1("ring_ring_ring", delay=1), work__txt=work)
    instance = import_files(files).instance
    assert simulate(instance, make_policy("baseline")(instance)).makespan / 1000 == pytest.approx(63_011, rel=0.001)

"""Network and system files of ASTRA-sim 2, against the figures of the simulator."""

import math

import pytest
from planning import schedule_of
from reader_samples import RING_16, SYSTEM, THREE_LEVELS

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files, load


def rows(network):
    return [(d.kind.value, d.size, d.bandwidth / 2**30, d.latency) for d in network.dimensions]


def test_bandwidth_is_of_all_links_and_a_switch_is_two_hops(write):
    network = import_files(write(net__yml=THREE_LEVELS)).instance.network
    assert rows(network) == [
        ("ring", 4, 400, 20_000),
        ("fully_connected", 8, 175, 100_000),
        ("switch", 2, 12.5, 1_001_000),
    ]


def test_switches_of_the_congestion_aware_back_end_are_noted(write):
    noted = [import_files(write(net__yml=text)).notes for text in (THREE_LEVELS, RING_16)]
    assert [any("up to twice as long" in note for note in notes) for notes in noted] == [True, False]


def test_a_ring_of_two_npus_has_one_link(write):
    network = import_files(write(net__yml=RING_16.replace("16", "2"))).instance.network
    assert rows(network) == [("ring", 2, 50, 500_000)]


def cycles(instance, kind):
    """What ASTRA-sim's formula for a ring gives from what was read, in nanoseconds: every step is rounded down."""
    (ring,) = instance.network.dimensions
    (collective,) = instance.collectives
    message = collective.size / collective.chunks / ring.size
    delay = ring.launch_overhead // 1000
    bare_latency = ring.latency / 1000 - delay
    phases = 2 if kind == "all_reduce" else 1
    sent = math.floor(bare_latency + message / (ring.bandwidth / 1e9)) + delay
    summed = 3 * math.floor(message / (3 * ring.reduction / 1e9)) if kind == "all_reduce" else 0
    return collective.chunks * ((ring.size - 1) * (phases * sent + summed) + delay)


GOLDEN = [("16", "all_gather", "16 MiB", 323_560, 2e-4), ("8", "all_reduce", "1 MiB", 117_780, 8e-4)]
"""NPUs, collective, size, cycles that ASTRA-sim publishes for it, and how far rounding and delays may lead away."""


@pytest.mark.parametrize(("npus", "kind", "size", "golden", "deviation"), GOLDEN)
def test_golden_cycles_of_rings_follow_from_what_was_read(write, npus, kind, size, golden, deviation):
    files = write(net__yml=RING_16.replace("16", npus), sys__json=SYSTEM)
    instance = import_files(files, request=Request(kind, size)).instance
    assert cycles(instance, kind) == golden
    makespan = schedule_of(instance, "baseline").makespan / 1000
    assert golden <= makespan <= golden * (1 + deviation)


def test_one_chunk_at_a_time_holds_the_dimension_and_more_do_not(write):
    latencies = [
        import_files(write(net__yml=RING_16, sys__json=SYSTEM | {"active-chunks-per-dimension": n})).instance.latency
        for n in (1, 2)
    ]
    assert latencies == ["occupy", "lag"]


def test_direct_uses_all_links_and_the_others_one(write):
    names = ["ring", "direct4", "halvingDoubling"]
    system = {"all-reduce-implementation": names, "preferred-dataset-splits": 16}
    instance = import_files(write(net__yml=THREE_LEVELS, sys__json=system)).instance
    assert [d.bandwidth / 2**30 for d in instance.network.dimensions] == [200, 175, 12.5]
    assert [d.algorithm.value for d in instance.network.dimensions] == ["ring", "direct", "halving_doubling"]
    assert instance.collectives[0].chunks == 16


def test_notes_say_the_unit_and_stand_in_the_instance(write):
    imported = import_files(write(net__yml=RING_16))
    assert "2^30 bytes" in imported.notes[0]
    assert imported.notes[0] in imported.instance.description


BROKEN = [
    (RING_16.replace("topology", "topologi"), {}, "topologi: unknown field; did you mean 'topology'"),
    (RING_16.replace("Ring", "ring"), {}, "topology[0] = 'ring': must be one of Ring, FullyConnected, Switch"),
    (RING_16.replace("[ 16 ]", "[ 16, 2 ]"), {}, "npus_count = '2 entries': must have as many entries as topology"),
    (RING_16.replace("16", "1"), {}, "npus_count[0] = 1: must be at least 2"),
    (RING_16.replace("50.0", "fast"), {}, "bandwidth[0] = 'fast': must be a number"),
    (RING_16 + "latency: [ 1 ]\n", {}, "names must be single words, each once (line 5)"),
    (RING_16.replace("[ 16 ]", "&a [ 16 ]"), {}, "must not use anchors, aliases or tags"),
    (RING_16.replace("[ 16 ]", "[ 16"), {}, "not YAML: "),
    (RING_16, {"endpoint-dealy": 10}, "endpoint-dealy: unknown field; did you mean 'endpoint-delay'"),
    (RING_16, {"all-reduce-implementation": ["rings"]}, "all-reduce-implementation[0] = 'rings': must be one of ring,"),
    (
        RING_16,
        {"all-reduce-implementation": ["ring"] * 2, "all-gather-implementation": ["ring"] * 2},
        "one algorithm for each of the 1 dim",
    ),
    (RING_16, {"all-gather-implementation": ["direct"]}, "must be that of all-reduce-implementation"),
    (RING_16, {"preferred-dataset-splits": 0}, "preferred-dataset-splits = 0: must be at least 1"),
    (RING_16, {"scheduling-policy": "SCF"}, "scheduling-policy = 'SCF': must be one of LIFO, FIFO, EXPLICIT"),
]


@pytest.mark.parametrize(("network", "system", "rule"), BROKEN)
def test_what_breaks_a_rule_is_refused_with_file_field_value_and_rule(write, network, system, rule):
    files = write(net__yml=network, sys__json=SYSTEM | system)
    with pytest.raises(InputError) as refused:
        import_files(files)
    assert rule in str(refused.value)
    assert str(refused.value).startswith(str(files[0] if not system else files[1]))


def test_two_networks_are_refused(write):
    with pytest.raises(InputError, match=r"a problem has one network, and .*a\.yml is one already"):
        import_files(write(a__yml=RING_16, b__yml=RING_16))


def test_a_network_alone_is_no_problem_to_solve(write):
    with pytest.raises(InputError, match="is no whole problem: 'themis-opt import' puts one together"):
        load(write(net__yml=RING_16)[0])


def test_a_shipped_instance_can_be_the_network(write):
    system = {name: value for name, value in SYSTEM.items() if "implementation" not in name}
    instance = import_files(["fig5.all_reduce.256MB", *write(sys__json=system)]).instance
    assert instance.network.sizes == load("fig5.all_reduce.256MB").network.sizes
    assert instance.collectives[0].chunks == 4


def test_a_value_that_no_network_can_have_is_refused_with_its_field(write):
    with pytest.raises(InputError, match=r"reduction = .*: must lie between"):
        import_files(write(net__yml=RING_16, sys__json=SYSTEM | {"local-mem-bw": 5e-299}))

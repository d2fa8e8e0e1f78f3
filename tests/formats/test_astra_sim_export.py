"""ASTRA-sim 2 out: traces replayed by the rules of the simulator take the times of the schedule."""

import json
from dataclasses import replace

import pytest
import yaml
from planning import schedule_of
from reader_samples import RING_16, SYSTEM, THREE_LEVELS

import themis_opt
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.astra_sim.interpreter import LinkNetwork, replay
from themis_opt.formats.chakra import Node, NodeType, read_trace, write_trace
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.readers.registry import import_files, load
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind

LEVELS = ("stage", "step")
DIMENSIONS = (
    Dimension(kind="ring", size=3, bandwidth="300 GiB/s", latency="700 ns"),
    Dimension(kind="fully_connected", size=3, bandwidth="100 GiB/s", latency="500 ns"),
    Dimension(kind="switch", size=4, bandwidth="50 GiB/s", latency="1700 ns"),
)


def instance(*collectives, dimensions=DIMENSIONS, latency="occupy"):
    collectives = collectives or (Collective(kind="all_reduce", size="24 MiB", chunks=4),)
    return Instance(network=Network(dimensions=dimensions), collectives=collectives, latency=latency)


def schedule(made, policy="themis+scf"):
    return schedule_of(made, policy)


def replayed(made, folder, level):
    """What the check says of an export."""
    export(made, f"astra-sim:level={level}", folder)
    return list(make_exporter(f"astra-sim:level={level}").check(made, folder))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("policy", ["themis+scf", "hourglass"])
def test_schedules_that_occupy_take_their_time_stage_by_stage(tmp_path, level, policy):
    made = schedule(instance(), policy)
    (_, said, time) = replayed(made, tmp_path, level)
    assert "each stage takes its time" in said
    assert abs(time.took - made.makespan) < 4000 * made.plan.num_stages


@pytest.mark.parametrize("level", LEVELS)
def test_schedules_that_lag_are_bounded_from_above(tmp_path, level):
    made = schedule(instance(latency="lag"))
    (_, said, time) = replayed(made, tmp_path, level)
    assert "an upper bound" in said
    assert time.took > made.makespan
    assert any("upper bounds" in note for note in make_exporter("astra-sim").notes(made))


SIMULATED = [
    ("all_reduce", "baseline", "stage", 161_200), ("all_reduce", "themis+scf", "stage", 261_570),
    ("all_reduce", "themis+scf", "step", 261_568), ("all_gather", "themis+scf", "step", 130_784),
    ("all_to_all", "baseline", "stage", 411_642),
]  # fmt: skip
"""Nanoseconds that ASTRA-sim (5f07824, congestion-unaware) took, as ``benchmarks/test_astra_sim.py`` prints them."""


@pytest.mark.parametrize(("kind", "policy", "level", "nanoseconds"), SIMULATED)
def test_the_check_takes_as_long_as_the_simulator(tmp_path, kind, policy, level, nanoseconds):
    made = schedule(instance(Collective(kind=kind, size="24 MiB", chunks=4)), policy)
    assert replayed(made, tmp_path, level)[-1].took == 1000 * nanoseconds


@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_is_replayed_by_stage(tmp_path, kind):
    made = schedule(instance(Collective(kind=kind, size="12 MiB", chunks=3)))
    assert "each stage takes its time, to 0." in replayed(made, tmp_path, "stage")[1]


def test_reference_schedules_with_free_sizes_are_replayed(tmp_path):
    made = instance(Collective(kind="all_reduce", size="24 MiB", chunks=4), dimensions=DIMENSIONS[:2])
    best = themis_opt.solve(made, time_limit=2, sizes="free", workers=1).best.schedule
    for level in LEVELS:
        assert "each stage takes its time" in replayed(best, tmp_path, level)[1]


def test_collectives_together_with_releases_overheads_and_packets(tmp_path):
    costs = {"launch_overhead": "3 us", "packet": {"payload": "4 KiB", "header": "64 B"}, "compression": 2.0}
    parts = (
        Collective(kind="all_reduce", size="6 MiB", chunks=2, name="a", dimensions=("dim1", "dim2")),
        Collective(kind="reduce_scatter", size="6 MiB", chunks=2, name="b", dimensions=("dim3",), release="5 us"),
    )
    made = schedule(instance(*parts, dimensions=tuple(dimension.replace(**costs) for dimension in DIMENSIONS)))
    assert "each stage takes its time, to 0." in replayed(made, tmp_path, "stage")[1]
    nodes = read_trace(tmp_path / "collective.0.et")
    assert [(n.type, n.duration_micros) for n in nodes if n.name == "release"] == [(NodeType.COMP, 5)]


def test_files_say_what_the_simulator_wants(tmp_path):
    made = schedule(instance(Collective(kind="all_gather", size="36 MiB", chunks=2)))
    export(made, "astra-sim:level=step", tmp_path)
    network = yaml.safe_load((tmp_path / "network.yml").read_text())
    assert network["topology"] == ["Ring", "FullyConnected", "Switch"]
    assert network["npus_count"] == [3, 3, 4]
    assert network["bandwidth"] == [150, 50, 50]  # of one link
    assert network["latency"] == [700, 500, 850]  # of one link
    system = json.loads((tmp_path / "system.json").read_text())
    assert system["all-gather-implementation-custom"] == ["collective"]
    assert system["preferred-dataset-splits"] == 1
    (node,) = read_trace(tmp_path / "workload.35.et")
    assert node.type == NodeType.COMM_COLL
    assert (node.attributes["comm_size"], node.attributes["is_cpu_op"]) == (2**20, False)
    assert len(list(tmp_path.iterdir())) == 2 + 2 * 36


def test_by_step_an_npu_sends_what_the_cost_model_says(tmp_path):
    made = schedule(instance())
    export(made, "astra-sim:level=step", tmp_path)
    sent = sum(n.attributes["comm_size"] for n in read_trace(tmp_path / "collective.5.et") if n.name == "send")
    assert sent == pytest.approx(made.costs.sent.sum(), rel=1e-6)
    neighbours = {n.attributes["comm_dst"] for n in read_trace(tmp_path / "collective.5.et") if n.name == "send"}
    assert neighbours == {3, 4, 2, 8, 14, 23}  # two along each dimension


def test_no_two_messages_can_be_mistaken_for_each_other(tmp_path):
    made = schedule(instance(latency="lag"))
    export(made, "astra-sim:level=step", tmp_path)
    seen = set()
    for npu in range(made.instance.fabric.num_npus):
        for node in read_trace(tmp_path / f"collective.{npu}.et"):
            if node.type == NodeType.COMM_SEND:
                key = node.attributes["comm_tag"], npu, node.attributes["comm_dst"]
                assert key not in seen
                seen.add(key)


NO_PLACE = {
    "kind": (DIMENSIONS[0].replace(kind="line"), "stage", r"dimensions\[0\].kind = .*: must be ring"),
    "sums": (DIMENSIONS[0].replace(reduction="10 GB/s"), "stage", r"dimensions\[0\].reduction .*must be none"),
    "overhead": (DIMENSIONS[0].replace(launch_overhead="1 us"), "step", r"launch_overhead .*use level=stage"),
    "algorithm": (DIMENSIONS[0].replace(algorithm="direct"), "step", "does not use all links at once; use level=stage"),
    "switch": (DIMENSIONS[2].replace(in_network=True), "step", "a switch that sums and copies sends no messages"),
}


@pytest.mark.parametrize("what", NO_PLACE)
def test_what_the_simulator_has_no_place_for_is_refused(tmp_path, what):
    dimension, level, rule = NO_PLACE[what]
    with pytest.raises(InputError, match=rule):
        export(schedule(instance(dimensions=(dimension, DIMENSIONS[1]))), f"astra-sim:level={level}", tmp_path)
    assert not any(tmp_path.iterdir())


def test_latencies_of_one_link_must_agree(tmp_path):
    kinds = (Collective(kind="all_reduce", size="1 MiB"), Collective(kind="all_to_all", size="1 MiB"))
    with pytest.raises(InputError, match="stages on dim1 have latencies of"):
        export(schedule(instance(*kinds, dimensions=DIMENSIONS[2:])), "astra-sim", tmp_path)


def test_a_release_must_be_whole_microseconds(tmp_path):
    part = Collective(kind="all_reduce", size="1 MiB", release="1500 ns")
    with pytest.raises(InputError, match="must be whole microseconds"):
        export(schedule(instance(part)), "astra-sim", tmp_path)


def changed(folder, npu, number, **fields):
    path = folder / f"collective.{npu}.et"
    nodes = read_trace(path)
    nodes[number] = replace(nodes[number], **fields)
    path.write_bytes(write_trace(nodes))


def test_a_trace_that_differs_does_not_pass(tmp_path):
    made = schedule(instance())
    exporter = make_exporter("astra-sim")
    export(made, "astra-sim", tmp_path)
    changed(tmp_path, 3, -1, data_deps=(10**6,))
    with pytest.raises(InvalidSchedule, match=r"1 nodes wait for ever, such as node \d+ of NPU 3"):
        list(exporter.check(made, tmp_path))
    export(made, "astra-sim", tmp_path)
    for npu in range(36):
        changed(tmp_path, npu, -1, data_deps=())
        changed(tmp_path, npu, -2, data_deps=())
    with pytest.raises(InvalidSchedule, match=r"runs from \d+ to \d+ ns, planned"):
        list(exporter.check(made, tmp_path))


def message(number, kind, peer, size=1000, deps=()):
    name = "comm_dst" if kind == NodeType.COMM_SEND else "comm_src"
    return Node(number, "m", kind, deps, attributes={name: peer, "comm_size": size, "comm_tag": 0})


RING = LinkNetwork([(Kind.RING, 4, 1.0, 10.0)])


def test_the_rules_of_the_interpreter_by_hand():
    """Two messages on one link wait for each other; far away on a ring is two hops; compute lasts at least 1 ns."""
    send, receive = NodeType.COMM_SEND, NodeType.COMM_RECV
    traces = [
        [message(0, send, 1), message(1, send, 1), Node(2, "c", NodeType.COMP, (1,)), message(3, send, 2, 5)],
        [message(0, receive, 0), message(1, receive, 0, deps=(0,))],
        [Node(0, "c", NodeType.COMP, duration_micros=3), message(1, receive, 0, 5, (0,))],
        [],
    ]
    first, second, third, _ = replay(RING.send, traces)
    assert first == {0: (0, 1010), 1: (0, 2020), 2: (2020, 2021), 3: (0, 25)}
    assert second == {0: (0, 1010), 1: (1010, 2020)}
    assert third == {0: (0, 3000), 1: (3000, 3000)}


def test_a_switch_is_two_hops_and_dimensions_are_told_by_coordinates():
    network = LinkNetwork([(Kind.RING, 4, 1.0, 10.0), (Kind.SWITCH, 2, 0.5, 100.0)])
    assert network.send(1, 5, 30)[1] == 260
    assert network.send(5, 4, 30)[1] == 40


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

"""Measured times beside schedules and bounds: what could be won, and networks that are described too slow."""

import json
import pickle
from dataclasses import replace
from unittest.mock import Mock

import pytest
from reader_samples import OVERLAPPED, collective_arguments, inspector_line, kernel, nccl_table, pytorch_trace

import themis_opt
import themis_opt.study.measured as study
from themis_opt.base.errors import InputError
from themis_opt.formats.measured_times import read_steps, read_times
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.cut import cut
from themis_opt.study.measured import Measured, beside_times, measured
from themis_opt.study.parts import parse_part

MB = 10**6


def beside(*arguments, **options):
    return list(beside_times(*arguments, **options))


def cluster(node="100 GB/s", rail="10 GB/s"):
    """Four nodes of two NPUs, without latency."""
    document = {
        "network": {
            "dimensions": [
                {"kind": "switch", "size": 2, "bandwidth": node, "name": "node"},
                {"kind": "switch", "size": 4, "bandwidth": rail, "name": "rail"},
            ]
        },
        "collectives": [{"kind": "all_reduce", "size": "8 MB", "chunks": 4}],
    }
    return themis_opt.Instance.model_validate(document)


@pytest.fixture
def write(tmp_path):
    def write(text, name="all_reduce.log"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def judge(write):
    """Rows of a log of one all-reduce of 8 MB that took some times the bound."""

    def judge(ratio, instance):
        log = write(nccl_table([(8 * MB, *[ratio * cut(instance) / MB] * 2)], ranks=instance.network.num_npus))
        return beside(instance, read_times(log))

    return judge


def test_what_a_library_loses_is_told_in_a_sentence(judge):
    row, _ = judge(1.5, cluster())
    sentence, ceiling = Measured((row,)).verdict
    assert sentence.startswith("At 8 MB NCCL takes ")
    assert ", 50.00 % above what any algorithm needs; " in sentence
    assert ceiling.startswith(
        "It reaches 77.78 % of the ceiling of flat rings (20.00 GB/s busbw) and 66.67 % of that of"
    )
    assert not Measured((row,), gap=0.49).is_met
    assert Measured((row,), gap=0.51).is_met
    assert row.too_slow() == ""
    assert row.bus_bandwidth(row.time) == pytest.approx(8 * MB * 1.75 / row.time * 1e12)


def test_order_wins_what_it_wins_in_the_model(judge):
    """Two equal dimensions: the fixed order leaves one of them idle for some of the time."""
    row, _ = judge(3.0, cluster(rail="100 GB/s"))
    assert row.won == pytest.approx(1 - row.best / row.today)
    assert row.won > 0.05
    assert f"; {100 * row.won:.2f} % of it can be won by order." in row.sentence()


def test_small_messages_stand_beside_the_best_schedule(judge):
    """The bound of any algorithm is of bandwidth alone: no factor of it says anything where latency counts."""
    slow = cluster().model_dump(mode="json")
    for dimension in slow["network"]["dimensions"]:
        dimension["latency"] = "10 ms"
    row, _ = judge(200, themis_opt.Instance.model_validate(slow))
    assert not row.is_telling
    assert "the best schedule " in row.sentence()
    assert "any algorithm" not in row.sentence()


@pytest.mark.parametrize(("instance", "name"), [(cluster(), "rail"), (cluster(node="1 GB/s", rail="90 GB/s"), "node")])
def test_a_time_below_the_bound_says_that_the_network_is_described_too_slow(judge, instance, name):
    (sentence,) = Measured(tuple(judge(0.5, instance))).verdict
    assert sentence.endswith(f": the description of the network is too slow by at least 2.00x: check {name}.bandwidth.")


def test_groups_of_fewer_npus_span_the_dimension_that_they_fill(write):
    row, _ = beside(cluster(), read_times(write(nccl_table([(8 * MB, 900, 900)], ranks=2))))
    assert row.instance.exchanges[0].span == (0,)
    rule = "= 6: NPUs on 1 host fill no part of the network of 2 node x 4 rail, or several: state it by --part"
    with pytest.raises(InputError, match=rule):
        beside(cluster(), read_times(write(nccl_table([(8 * MB, 900, 900)], ranks=6))))


def on_hosts(gpus, hosts, groups=1, times=(900, 900), **options):
    """A log of groups of GPUs on hosts, the ranks of each host one after the other."""
    text = nccl_table([(8 * MB, *times)], ranks=gpus * hosts, **options)
    for rank in range(gpus * hosts):
        before = f"Rank {rank:2} Group  0 Pid {100 + rank} on  node0 "
        after = f"Rank {rank:2} Group {rank % groups:2} Pid {100 + rank} on  node{rank // gpus} "
        text = text.replace(before, after)
    return text


def network(*sizes, kind="switch"):
    dimensions = [{"kind": kind, "size": size, "bandwidth": "90 GB/s", "name": f"d{k}"} for k, size in enumerate(sizes)]
    collectives = [{"kind": "all_reduce", "size": "8 MB", "chunks": 4}]
    return themis_opt.Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": collectives})


@pytest.mark.parametrize(
    ("sizes", "log", "part"),
    [
        ((8, 32), on_hosts(8, 4), "8 d0 x 4 of 32 d1"),
        ((8, 32), on_hosts(8, 1), "8 d0"),
        ((8, 8), on_hosts(8, 1), "8 d0"),
        ((8, 8), on_hosts(1, 8), "8 d1"),
        ((8, 8), on_hosts(8, 8, groups=8), "8 d1"),  # MOD 8
        ((8, 8), on_hosts(4, 2), "4 of 8 d0 x 2 of 8 d1"),
        ((8, 4), on_hosts(1, 2), "2 of 4 d1"),
        ((4, 2, 8), on_hosts(8, 8), ""),
        ((4, 2, 8), on_hosts(8, 2), "4 d0 x 2 d1 x 2 of 8 d2"),
        ((8,), on_hosts(1, 8), ""),
        ((8, 2), on_hosts(4, 4), None),  # more hosts than there are
        ((8, 2), on_hosts(1, 8), None),
        ((4, 4, 4), on_hosts(4, 2), None),  # which two of sixteen hosts is not known
        ((4, 4), on_hosts(8, 1), None),  # no host has as many
    ],
)
def test_hosts_of_a_log_tell_the_part_of_the_network(write, sizes, log, part):
    if part is None:
        with pytest.raises(InputError, match="state it by --part"):
            beside(network(*sizes), read_times(write(log)))
    else:
        row, _ = beside(network(*sizes), read_times(write(log)))
        assert row.part == part


def test_a_part_of_all_pairs_has_the_links_between_its_npus(write):
    row, _ = beside(network(8, kind="fully_connected"), read_times(write(on_hosts(4, 1))))
    assert row.instance.network.dimensions[0].bandwidth == pytest.approx(90e9 * 3 / 7)
    with pytest.raises(InputError, match="state it by --part"):
        beside(network(8, kind="ring"), read_times(write(on_hosts(4, 1))))


def test_a_part_can_be_stated(write):
    times, whole = read_times(write(on_hosts(4, 2))), network(4, 4, 4)
    row, _ = beside(whole, times, part=parse_part("d1=1,d2=2", whole.network))
    assert row.part == "4 d0 x 2 of 4 d2"
    assert row.sentence().startswith("At 8 MB NCCL on 4 d0 x 2 of 4 d2 takes ")
    with pytest.raises(InputError, match="4 d0 x 4 d1 x 4 d2 are not the 8 NPUs of the log"):
        beside(whole, times, part=parse_part("d1=4", whole.network))
    with pytest.raises(InputError, match=r"d3=2.*must name dimensions with NPUs: d0=1\.\.4, d1=1\.\.4"):
        parse_part("d3=2", whole.network)


def test_sends_across_hosts_are_refused(write):
    row, _ = beside(network(8), read_times(write(on_hosts(8, 1, program="sendrecv_perf"))))
    assert row.instance.exchanges[0].kind is CollectiveKind.SEND
    with pytest.raises(InputError, match="'send': sends between hosts use one NPU of each"):
        beside(network(4, 2), read_times(write(on_hosts(4, 2, program="sendrecv_perf"))))


def test_files_places_and_groups_have_rows_of_times_that_were_measured(write):
    times = {"a.log": (900, 2700), "b.log": (500, 501)}
    logs = [write(on_hosts(8, 1, times=pair), name) for name, pair in times.items()]
    rows = measured(network(8), *logs).rows
    assert {(row.by, round(row.time / 1e6)) for row in rows} == {
        ("NCCL (a.log)", 900), ("NCCL in place (a.log)", 2700), ("NCCL (b.log)", 500), ("NCCL in place (b.log)", 501),
    }  # fmt: skip
    assert [sentence.split(" takes")[0] for sentence in Measured(tuple(rows)).verdict if "reaches" not in sentence] == [
        "At 8 MB NCCL (a.log)", "At 8 MB NCCL (b.log)", "At 8 MB NCCL in place (a.log)",
    ]  # fmt: skip
    (time, *_) = read_times(logs[0])
    repeated = [time._replace(measurement=time.measurement._replace(time=taken)) for taken in (4e9, 2e9)]
    assert [row.time for row in beside(network(8), repeated)] == [2e9]


def test_groups_of_a_recorder_fill_the_dimensions_of_their_ranks(write):
    groups = {"0": {"ranks": "[0, 1, 2, 3]"}, "1": {"ranks": [0, 4]}, "2": {"ranks": "[0, 3]"}}
    entries = [RECORDER["entries"][0] | {"pg_id": int(name)} for name in groups]
    log = write({"version": "2.4", "pg_config": groups, "entries": entries})
    rows = beside(network(4, 2), read_times(log))
    assert sorted(row.part for row in rows) == ["2 d1", "2 of 4 d0", "4 d0"]
    gather = RECORDER["entries"][0] | {"profiling_name": "nccl:all_gather", "input_sizes": [[1000]]}
    (time,) = read_times(write(RECORDER | {"entries": [gather]}))
    assert time.measurement.size == 4 * 1000 * 2000
    with pytest.raises(InputError, match=r"pg_config\.ranks = 'a': must list ranks"):
        read_times(write({"version": "2.4", "pg_config": {"0": {"ranks": "a"}}, "entries": entries}))


def test_a_time_that_needs_sums_in_the_switch_says_so(write):
    sizes = [(8 * MB, *[0.9 * cut(network(8)) / MB] * 2)]
    row, _ = beside(network(8), read_times(write(nccl_table(sizes))))
    assert row.too_slow() == ""
    needs = "with NVLS it needs 88.89 us; in_network of d0 says that its switch sums."
    assert row.sentence().endswith(f"if switches do not sum: {needs}")
    sizes = [(8 * MB, *[0.5 * cut(network(8)) / MB] * 2)]
    row, _ = beside(network(8), read_times(write(nccl_table(sizes))))
    assert "too slow by at least 2.00x" in row.too_slow()


def test_a_library_that_is_faster_than_all_schedules_is_said_so(write):
    instance = network(2, 2)
    row, _ = beside(instance, read_times(write(on_hosts(2, 2, program="broadcast_perf"))))
    fast = replace(row, time=row.best * 0.95)
    assert row.policy == "trees"
    assert fast.won < 0
    assert ", 5.00 % less than trees, the best schedule known here, and " in fast.sentence()
    assert "can be won" not in fast.sentence()
    assert "nothing of it can be won" in replace(row, time=row.best * (1 - 1e-9)).sentence()


def test_a_small_size_that_is_faster_than_all_schedules_is_said_first(write):
    row, _ = beside(instance := network(2, 2), read_times(write(on_hosts(2, 2, program="broadcast_perf"))))
    small = replace(row, instance=instance.overridden(size=row.size // 4), time=row.best * 0.95)
    first, second, *_ = Measured((small, row)).verdict
    assert "5.00 % less than trees, the best schedule known here" in first
    assert second == row.sentence()


def test_a_bandwidth_stands_beside_the_ceilings_of_libraries():
    """Four boxes of eight: rings send 31/32 of the bytes twice over the NICs, trees all of them twice."""
    nodes = network(8, 4).replace(network=network(8, 4).network.varied(dimensions=(
        network(8, 4).network.dimensions[0].replace(bandwidth="450 GB/s"),
        network(8, 4).network.dimensions[1].replace(bandwidth="50 GB/s"),
    )))  # fmt: skip
    answer = measured(nodes, "310 GB/s")
    rates = {row["ceiling"]: row["busbw_bytes_per_s"] / 1e9 for row in answer.at_largest}
    expected = {"double trees": 387.5, "flat rings": 400, "hierarchical": 400 * 31 / 24, "any algorithm": 400 * 31 / 24}
    assert rates == pytest.approx({name: min(rate, 500) for name, rate in expected.items()}, rel=0.04)
    assert answer.at_largest[1]["your 310 GB/s"] == pytest.approx(310 / 400)
    assert "77.50 % of the ceiling of flat rings" in answer.verdict[1]
    assert "check NICs, channels and protocol" in answer.verdict[1]
    assert "only another algorithm is faster, hierarchical" in measured(nodes, "390 GB/s").verdict[1]
    with pytest.raises(InputError, match="was not measured, but 8 MB"):
        measured(nodes, "310 GB/s", size="1 GiB")


RECORDER = {
    "version": "2.4",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"}},
    "entries": [
        {"pg_id": 0, "profiling_name": "nccl:all_reduce", "duration_ms": 2.5, "input_sizes": [[1000, 2000]],
         "input_dtypes": ["Float"], "output_sizes": [[1000, 2000]], "output_dtypes": ["Float"], "state": "completed"},
        {"pg_id": 0, "profiling_name": "nccl:barrier", "duration_ms": 1.0, "input_sizes": [], "input_dtypes": []},
    ],
}  # fmt: skip
RUN = {
    "verdict": "exact",
    "collective": {"kind": "all_reduce", "bytes": 8 * MB, "npus": 8},
    "rows": [{"policy": "themis+scf", "measured_s": 0.0025}],
}
TRACE = pytorch_trace([kernel(0, 100), kernel(100, 2600, 20, **collective_arguments(elements=2 * MB))])
LOGS = {
    "nccl-tests": nccl_table([(8 * MB, 2500, 2500)]),
    "mpirun": "".join(f"[1,0]<stdout>:  {line}\n" for line in nccl_table([(8 * MB, 2500, 2500)]).splitlines()),
    "inspector": inspector_line("AllReduce", 8 * MB, 2500),
    "recorder": RECORDER,
    "trace": TRACE,
    "run": RUN,
}


@pytest.mark.parametrize("name", LOGS)
def test_every_log_tells_kind_size_group_and_time(write, name):
    times = [measurement for _, measurement, _ in read_times(write(LOGS[name]))]
    assert {(m.kind, m.size, m.num_npus) for m in times} == {(CollectiveKind.ALL_REDUCE, 8 * MB, 8)}
    assert times[0].time == pytest.approx(2.5e9)


def write_pickle(folder):
    path = folder / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": []}))
    return path


def test_other_files_are_refused_by_name(write, tmp_path):
    with pytest.raises(InputError, match="must be a log of nccl-tests"):
        read_times(write("hello"))
    with pytest.raises(InputError, match="is a pickle: write a dump of the flight recorder as JSON"):
        read_times(write_pickle(tmp_path))
    with pytest.raises(InputError, match="must be a trace of the PyTorch profiler"):
        read_steps(write(LOGS["nccl-tests"]))


def test_steps_stand_beside_the_best_launches(write):
    trace = write(pytorch_trace(OVERLAPPED), "trace.json")
    (row,) = measured(themis_opt.load(trace), trace, policies=["wait_free/baseline"]).rows
    assert row.time == 1_300_000_000
    assert row.sentence().startswith("Your step takes 1.3 ms, 30.00 % above what any algorithm needs; ")
    fast = replace(row, time=row.needed / 2)
    assert fast.sentence().endswith("is too slow by at least 2.00x: check the times of compute.")


def test_a_step_that_moves_other_bytes_is_not_the_iteration(write):
    instance = themis_opt.load(write(pytorch_trace(OVERLAPPED), "trace.json"))
    half = write(pytorch_trace(OVERLAPPED[:-1]), "half.json")
    (row,) = measured(instance, half, policies=["wait_free/baseline"]).rows
    assert row.sentence().startswith(
        "Your step moves 4 MB in 1.3 ms, the iteration 8 MB in 1.3 ms: these are two steps"
    )


def test_sizes_of_a_log_share_the_time_and_the_largest_has_most(write, monkeypatch):
    compared, limits_of, notes = study.compare_graph, {}, []

    def watched(instance, names, limits):
        limits_of[instance.size] = limits
        return compared(instance, names, limits)

    monkeypatch.setattr(study, "compare_graph", watched)
    log = write(nccl_table([(MB << power, 1000.0 * 2**power, 1001.0 * 2**power) for power in range(4)], ranks=8))
    answer = measured(graph := themis_opt.load("boxes_5_3.all_reduce.1GB"), log)
    first, *others = (limits.seconds for limits in limits_of.values())
    assert list(limits_of) == [8 * MB, 4 * MB, 2 * MB, MB]
    assert first + sum(others) == pytest.approx(study.PLAN_SECONDS)
    assert first >= 2 * sum(others) > 0
    assert {row["ceiling"] for row in answer.at_largest} > {"flat rings", "hierarchical"}
    rows = measured(graph, log, policies=["ring"], time_limit=0, seed=7, note=notes.append).rows
    assert {row.size for row in rows} == {8 * MB}
    assert (limits_of[8 * MB].seconds, limits_of[8 * MB].seed) == (study.MIN_SECONDS, 7)
    assert notes == ["left out: 1 MB, 2 MB, 4 MB: longer than --time-limit"]


def test_searches_beside_what_was_measured_have_its_time(write, monkeypatch):
    monkeypatch.setattr(study, "compare", spied := Mock(wraps=study.compare))
    measured(network(8), write(nccl_table([(8 * MB, 900, 900)])), policies=["exact"], time_limit=0.5, sizes="free")
    assert {0 < call.kwargs["time_limit"] <= 0.5 for call in spied.call_args_list} == {True}
    assert spied.call_args.kwargs["sizes"] == "free"
    assert not spied.call_args.kwargs["slow_bounds"]  # a second for each size of a log

"""Measured times beside schedules and bounds: what could be won, and networks that are described too slow."""

import json
import pickle

import pytest
from reader_samples import OVERLAPPED, collective_arguments, inspector_line, kernel, nccl_table, pytorch_trace

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.formats.measured_times import read_steps, read_times
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.cut import cut
from themis_opt.study.measured import beside_steps, beside_times, verdict

MB = 10**6


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
        return beside_times(instance, read_times(log))

    return judge


def test_what_a_library_loses_is_told_in_a_sentence(judge):
    (row,) = judge(1.5, cluster())
    (sentence,) = verdict([row])
    assert sentence.startswith("At 8 MB NCCL takes ")
    assert ", 50.00 % above what any algorithm needs; " in sentence
    assert row.too_slow() == ""
    assert row.bus_bandwidth(row.time) == pytest.approx(8 * MB * 1.75 / row.time * 1e12)


def test_order_wins_what_it_wins_in_the_model(judge):
    """Two equal dimensions: the fixed order leaves one of them idle for some of the time."""
    (row,) = judge(3.0, cluster(rail="100 GB/s"))
    assert row.won == pytest.approx(1 - row.best / row.today)
    assert row.won > 0.05
    assert f"; {100 * row.won:.2f} % of it can be won by order." in row.sentence()


def test_small_messages_stand_beside_the_best_schedule(judge):
    """The bound of any algorithm is of bandwidth alone: no factor of it says anything where latency counts."""
    slow = cluster().model_dump(mode="json")
    for dimension in slow["network"]["dimensions"]:
        dimension["latency"] = "10 ms"
    (row,) = judge(200, themis_opt.Instance.model_validate(slow))
    assert not row.is_telling
    assert "the best schedule " in row.sentence()
    assert "any algorithm" not in row.sentence()


@pytest.mark.parametrize(("instance", "name"), [(cluster(), "rail"), (cluster(node="1 GB/s", rail="90 GB/s"), "node")])
def test_a_time_below_the_bound_says_that_the_network_is_described_too_slow(judge, instance, name):
    (sentence,) = verdict(judge(0.5, instance))
    assert sentence.endswith(f": the description of the network is too slow by at least 2.00x: check {name}.bandwidth.")


def test_groups_of_fewer_npus_span_the_dimension_that_they_fill(write):
    (row,) = beside_times(cluster(), read_times(write(nccl_table([(8 * MB, 900, 900)], ranks=2))))
    assert row.instance.exchanges[0].span == (0,)
    with pytest.raises(InputError, match="6 NPUs fill no dimensions of the network of 2 x 4"):
        beside_times(cluster(), read_times(write(nccl_table([(8 * MB, 900, 900)], ranks=6))))


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
    times = [measurement for _, measurement in read_times(write(LOGS[name]))]
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
    instance = themis_opt.load(write(pytorch_trace(OVERLAPPED), "trace.json"))
    (step,) = read_steps(write(pytorch_trace(OVERLAPPED), "trace.json"))
    (row,) = beside_steps(instance, [step], ["wait_free/baseline"])
    assert row.time == 1_300_000_000
    assert row.sentence().startswith("Your step takes 1.3 ms, 30.00 % above what any algorithm needs; ")
    (fast,) = beside_steps(instance, [step._replace(time=row.needed / 2)], ["wait_free/baseline"])
    assert fast.sentence().endswith("is too slow by at least 2.00x: check the times of compute.")

"""Advice for NCCL from measured times."""

from itertools import product

import numpy as np
import pytest
from planning import schedule_of
from reader_samples import nccl_table

from themis_opt.base.errors import InputError
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.nccl_tuner import TUNER_DIALECTS, fewest_ranges
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network

TUNER_FILE = TUNER_DIALECTS["nccl"].file

SIZES = tuple(2**k for k in range(10, 31, 2))

COSTS = {"tree.ll": (9, 0.06), "ring.ll128": (40, 0.27), "ring.simple": (60, 0.3)}
"""Microseconds of a call, and bytes per microsecond of its bandwidth in millions."""


def times(algorithm, program="all_reduce_perf", ranks=8, sizes=SIZES):
    alpha, beta = COSTS[algorithm]
    rows = [(size, alpha + size / beta / 1e6, alpha + size / beta / 1e6) for size in sizes]
    return nccl_table(rows, program=program, ranks=ranks)


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for algorithm in COSTS:
        (folder / f"all_reduce.{algorithm}.txt").write_text(times(algorithm))
    return folder


@pytest.fixture(scope="module")
def schedule():
    dimensions = tuple(Dimension(kind="switch", size=size, bandwidth="200 GB/s", latency="1 us") for size in (4, 2))
    collective = {"kind": "all_reduce", "size": "1 MiB", "chunks": 4}
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    return schedule_of(instance, "baseline")


def test_each_size_gets_what_was_measured_fastest(tmp_path, logs, schedule):
    to = f"nccl-tuner:logs={logs}:channels=8"
    assert export(schedule, to, tmp_path / "out") == [tmp_path / "out" / TUNER_FILE]
    lines = (tmp_path / "out" / TUNER_FILE).read_text().splitlines()
    assert lines[0].startswith("# collective_type,min_bytes")
    assert lines[1:4] == [
        f"allreduce,0,{2**22 - 1},tree,ll,8,2,8,-1,-1",
        f"allreduce,{2**22},{2**28 - 1},ring,ll128,8,2,8,-1,-1",
        f"allreduce,{2**28},{2**64 - 1},ring,simple,8,2,8,-1,-1",
    ]  # at 64 MiB, ring with ll128 is 1.7 % slower than with simple
    said, time = make_exporter(to).check(schedule, tmp_path / "out")
    assert (round(time.took), time.planned) == (26_480_000, schedule.makespan)
    assert said == "allreduce: 11 measured sizes in 3 ranges"
    others = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")
    assert lines[4:] == [f"{name},0,{2**64 - 1},ring,simple,8,-1,-1,-1,-1" for name in others]


def test_rccl_and_ncclx_keep_their_choice_of_all_other_calls(tmp_path, logs, schedule):
    expected = {
        "rccl": [
            f"allreduce,0,{2**22 - 1},tree,ll,-1,2,8,-1,-1",
            f"allreduce,{2**22},{2**28 - 1},ring,ll128,-1,2,8,-1,-1",
            f"allreduce,{2**28},{2**64 - 1},ring,simple,-1,2,8,-1,-1",
        ],
        "ncclx": [
            f"allreduce,[0,{2**19}),tree,ll,-1,2,4",
            f"allreduce,[{2**19},{2**25}),ring,ll128,-1,2,4",
            f"allreduce,[{2**25},),ring,simple,-1,2,4",
        ],
    }
    for dialect, lines in expected.items():
        to = f"nccl-tuner:logs={logs}:dialect={dialect}"
        (path,) = export(schedule, to, tmp_path)
        assert path.name == f"{dialect}_tuner.csv"
        assert path.read_text().splitlines()[1:] == lines
        assert len(list(make_exporter(to).check(schedule, tmp_path))) == 2
        assert any(f"keep the choice of {dialect.upper()}" in note for note in make_exporter(to).notes(schedule))


@pytest.mark.parametrize(
    ("dialect", "old", "new", "rule"),
    [
        ("ncclx", f"[0,{2**19})", f"(128,{2**19})", "allreduce of 1024 bytes.*: must choose what was measured fastest"),
        (
            "ncclx",
            f"[0,{2**19})",
            f"[0,{2**19}]",
            "allreduce of 4194304 bytes.*: must choose what was measured fastest",
        ),
        ("ncclx", ",2,4\n", ",2,8\n", "must choose what was measured fastest"),
        ("ncclx", "[0,", "[zero,", r"sizes must be an interval such as \[0,4096\)"),
        ("ncclx", ",2,4\n", "\n", "must have 7 to 7 fields"),
        ("rccl", ",2,8,-1,-1", ",4,8,-1,-1", "must choose what was measured fastest"),
        ("rccl", "tree,ll", "trees,ll", "line 2 = 'trees': must be one of tree, ring"),
        ("rccl", "# ", "#" + 300 * " ", "must have at most 255 characters"),
        ("nccl:channels=8", "ring,ll128", "ring,ll", "must choose what was measured fastest, within 2"),
        ("nccl:channels=8", "allreduce,0", "allreduce,2048", "must choose what was measured fastest"),
        ("nccl:channels=8", "tree,ll", "trees,ll", "line 2 = 'trees': must be one of tree, ring"),
        ("nccl:channels=8", "tree,ll,8", "tree,ll,many", "must be whole numbers"),
        (
            "nccl:channels=8",
            "tree,ll,8",
            "tree,ll,-1",
            "allreduce of 0 bytes on 8 ranks: must have a line with channels",
        ),
        (
            "nccl:channels=8",
            "allgather,0",
            "allgather,9",
            "allgather of 0 bytes on 8 ranks: must have a line with channels",
        ),
        ("nccl:channels=8", ",2,8,-1,-1", "", "must have 8 to 10 fields"),
    ],
)
def test_lines_are_looked_up_as_their_reader_does_and_must_be_the_advice(
    tmp_path, logs, schedule, dialect, old, new, rule
):
    to = f"nccl-tuner:logs={logs}:dialect={dialect}"
    (path,) = export(schedule, to, tmp_path / "out")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=rule):
        list(make_exporter(to).check(schedule, tmp_path / "out"))


def test_the_model_stands_beside_the_measured_time(logs, schedule):
    notes = list(make_exporter(f"nccl-tuner:logs={logs}:channels=8").notes(schedule))
    assert any("run ring/simple on 8 channels" in note for note in notes)
    assert any(note.startswith("allreduce of 1 MiB: 26.48 us measured at best, ") for note in notes)


def test_times_that_no_algorithm_reaches_are_said_to_need_another_description(logs, schedule):
    narrow = tuple(d.faster(0.01) for d in schedule.instance.network.dimensions)
    instance = schedule.instance.replace(network=schedule.instance.network.varied(dimensions=narrow))
    slow = schedule_of(instance, "baseline")
    (sentence,) = (n for n in make_exporter(f"nccl-tuner:logs={logs}:channels=8").notes(slow) if "description" in n)
    assert sentence.startswith("the description of the network is too slow by at least ")
    assert sentence.endswith("x: check dim1.bandwidth")


def test_a_tolerance_spares_ranges(tmp_path, logs, schedule):
    export(schedule, f"nccl-tuner:logs={logs}:channels=8:tolerance=1", tmp_path / "out")
    assert len((tmp_path / "out" / TUNER_FILE).read_text().splitlines()) == 3 + 5


def test_collectives_have_lines_of_their_own(tmp_path, logs, schedule):
    for algorithm in ("ring.ll128", "ring.simple"):
        text = times(algorithm, "all_gather_perf")
        (logs / f"all_gather.{algorithm}.txt").write_text(text)
    export(schedule, f"nccl-tuner:logs={logs}:channels=8", tmp_path / "out")
    lines = (tmp_path / "out" / TUNER_FILE).read_text().splitlines()[1:-5]
    assert [line.split(",")[0] for line in lines] == ["allgather", "allgather", *["allreduce"] * 3]


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("all_reduce.txt", times("ring.simple"), "its name must say the one algorithm"),
        ("all_reduce.ring.tree.ll.txt", times("ring.simple"), "its name must say the one algorithm"),
        ("all_reduce.ring.ll.txt", times("tree.ll", ranks=4), "ranks = 4: must be measured on all 8 ranks"),
        ("all_reduce.ring.ll.txt", times("tree.ll") + times("tree.ll", ranks=4), "ranks = 4: must be measured on all"),
        ("alltoall.ring.ll.txt", times("tree.ll", "alltoall_perf"), "NCCL has one way alone for it"),
        ("all_gather.ring.ll.txt", times("tree.ll", "all_gather_perf"), "there is nothing to choose from"),
        ("all_reduce.ring.ll.txt", "nothing\n", "holds no measured time"),
    ],
)
def test_logs_that_tell_no_choice_are_refused(tmp_path, logs, schedule, name, text, rule):
    (logs / name).write_text(text)
    with pytest.raises(InputError, match=rule):
        export(schedule, f"nccl-tuner:logs={logs}:channels=8", tmp_path / "out")


@pytest.mark.parametrize(
    ("to", "rule"),
    [
        ("logs={}/logs", "channels = 0: must be stated"),
        ("channels=8", "needs measured times: logs=FOLDER with outputs of nccl-tests"),
        ("logs={}:channels=8", "holds no output of nccl-tests"),
        ("logs={}/none:channels=8", "cannot be read: No such file"),
    ],
)
def test_a_model_alone_is_no_advice(tmp_path, logs, schedule, to, rule):
    with pytest.raises(InputError, match=rule):
        export(schedule, f"nccl-tuner:{to.format(tmp_path)}", tmp_path / "out")


@pytest.mark.parametrize(
    ("times", "tolerance", "ranges"),
    [
        ([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0], [9.0, 6.0]], 0.02, [(0, 0), (2, 1)]),
        ([[1.0, 1.015], [1.015, 1.0], [2.0, 1.0]], 0.02, [(0, 1)]),
        ([[1.0, 1.015], [1.015, 1.0], [2.0, 1.0]], 0.01, [(0, 0), (1, 1)]),
        ([[1.0, 1.01, 5.0], [1.01, 1.0, 5.0], [1.02, 1.0, 5.0]], 0.05, [(0, 1)]),
        ([[np.inf, 7.0], [1.0, 9.0]], 0.02, [(0, 1), (1, 0)]),
    ],
)
def test_choices_within_the_tolerance_spare_ranges_and_the_fastest_on_the_whole_is_taken(times, tolerance, ranges):
    assert fewest_ranges(np.array(times), tolerance) == ranges


@pytest.mark.parametrize("seed", range(20))
def test_no_fewer_ranges_would_do(seed):
    times = 1 + np.random.default_rng(seed).integers(0, 3, (6, 3)) * 0.015
    good = times <= times.min(axis=1, keepdims=True) * 1.02
    ranges = fewest_ranges(times)
    firsts, choices = zip(*ranges, strict=True)
    assert all(good[first:end, k].all() for first, end, k in zip(firsts, (*firsts[1:], 6), choices, strict=True))
    assigned = (every for every in product(range(3), repeat=6) if all(good[k, c] for k, c in enumerate(every)))
    assert len(ranges) == min(1 + int(np.count_nonzero(np.diff(every))) for every in assigned)

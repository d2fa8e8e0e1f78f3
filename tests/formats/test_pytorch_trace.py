"""Traces of the PyTorch profiler."""

import gzip
import json
from pathlib import Path
from random import Random

import pytest
from reader_samples import OVERLAPPED, collective_arguments, kernel, pytorch_trace

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source, watched_reading
from themis_opt.formats.readers.kineto import read_trace
from themis_opt.formats.readers.registry import import_files, load
from themis_opt.formats.readers.traced_step import TrainingStep, gpu_shares
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import instance_text
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds

US = 10**6


def shares(imported):
    return {row["quantity"]: (row["time"], row["share"]) for row in imported.tables["trace"]}


def rows_of(imported):
    return {row["iteration"]: row["time"] for row in imported.tables["what the best launch would gain"]}


def test_it_says_how_much_communication_is_exposed(write):
    imported = import_files(write(t__json=pytorch_trace(OVERLAPPED)))
    assert shares(imported)["step"] == ("1.3 ms", "100.00 %")
    assert shares(imported)["communication"] == ("600 us", "46.15 %")
    assert shares(imported)["communication exposed"] == ("300 us", "23.08 %")
    assert shares(imported)["communication is the bottleneck"][0] == "partly"


def test_tasks_lie_between_collectives_and_gradients_are_needed_after_the_gap(write):
    instance = import_files(write(t__json=pytorch_trace(OVERLAPPED))).instance
    assert [task.duration for task in instance.tasks] == [0, 400 * US, 500 * US, 0, 100 * US]
    ends = [(t.size, t.ready_after, t.needed_before) for t in instance.iteration.tensors]
    assert ends == [(4_000_000, "compute 1", "compute 4"), (4_000_000, "compute 2", "compute 4")]


def test_parameters_are_needed_by_the_next_kernel(write):
    gather = kernel(0, 100, 20, **collective_arguments("_allgather_base"))
    imported = import_files(write(t__json=pytorch_trace([kernel(0, 50), gather, kernel(90, 150), kernel(150, 300)])))
    (tensor,) = imported.instance.iteration.tensors
    assert (tensor.kind.value, tensor.needed_before) == ("all_gather", "compute 2")
    assert [task.duration for task in imported.instance.tasks] == [0, 150 * US, 150 * US]  # no kernel waited for it
    assert rows_of(imported)["as traced, in the model (wait_free/baseline)"] == "300 us"


def test_a_collective_that_ends_last_is_needed_in_the_next_iteration(write):
    events = [kernel(0, 100), kernel(100, 300, 20, **collective_arguments())]
    assert import_files(write(t__json=pytorch_trace(events))).instance.exchanges[0].needed_later == 1


def test_a_packed_trace_is_a_whole_problem(tmp_path):
    path = tmp_path / "trace.pt.trace.json.gz"
    path.write_bytes(gzip.compress(pytorch_trace(OVERLAPPED).encode()))
    assert load(path).network.sizes == (8,)


def test_groups_are_dimensions(write):
    inner, outer = collective_arguments(ranks=4), collective_arguments(ranks=2, stride=4)
    events = [kernel(0, 10), kernel(10, 30, 20, **inner), kernel(30, 90, 20, **outer), kernel(90, 100)]
    instance = import_files(write(t__json=pytorch_trace(events))).instance
    assert instance.network.sizes == (4, 2)
    assert [t.dimensions for t in instance.iteration.tensors] == [("dim1",), ("dim2",)]
    assert instance.network.bandwidths == pytest.approx([2 * 4e6 * 0.75 / 20e-6, 2 * 4e6 * 0.5 / 60e-6])


def test_a_network_of_ones_own_takes_the_place_of_the_fitted_one_and_is_said_to_be_too_slow(write):
    slow = Network(dimensions=(Dimension(kind="ring", size=8, bandwidth="1 GB/s"),))
    instance = Instance(network=slow, collectives=(Collective(kind="all_reduce", size="1 MB"),))
    imported = import_files(write(t__json=pytorch_trace(OVERLAPPED), net__json=instance_text(instance)))
    assert imported.instance.network.bandwidths == (1e9,)
    *_, last = imported.tables["what the best launch would gain"]
    assert last["iteration"].startswith("the description of the network is too slow by at least ")


def test_the_median_step_is_read(write):
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "ts": 1000 * k, "dur": 10 + k}
        for k in range(3)
    ]
    kernels = [kernel(1000 * k, 1000 * k + 5 + k, 20, **collective_arguments(elements=10 + k)) for k in range(3)]
    imported = import_files(write(t__json=pytorch_trace([*steps, *kernels])))
    assert imported.instance.iteration.tensors[0].size == 44
    assert "ProfilerStep#1" in imported.notes[0]


def mark(number, start, end, category="user_annotation", stream=1):
    name = f"ProfilerStep#{number}"
    return {"ph": "X", "cat": category, "name": name, "tid": stream, "ts": start, "dur": end - start}


def steps(period=100, count=3, parts=((0, 10), (10, 60, 20)), **arguments):
    """Kernels of some steps; those on stream 20 are collectives."""
    for k in range(count):
        for start, end, *stream in parts:
            collective = collective_arguments(**arguments) if stream else {}
            yield kernel(k * period + start, k * period + end, *stream, **collective)


GPU = "gpu_user_annotation"


@pytest.mark.parametrize(
    "marks",
    [
        [mark(k, 100 * k, 100 * k + 100) for k in range(3)],
        [mark(k, 100 * k, 100 * k + 60, GPU) for k in range(3)],  # the host waits from 60 to 100
        [mark(k, 100 * k + a, 100 * k + b, GPU, s) for k in range(3) for s, a, b in ((20, 10, 60), (7, 0, 10))],
        [mark(k, 100 * k + a, 100 * k + 95, *on) for k in range(3) for a, *on in ((90, GPU), (0,))],
        [mark(1, 0, 60, GPU), mark(1, 5, 105)],
    ],
    ids=["cpu", "gpu", "a mark for each stream", "marks of the GPU around nothing", "one step"],
)
def test_a_step_lasts_from_mark_to_mark(write, marks):
    imported = import_files(write(t__json=pytorch_trace([*steps(), *marks])))
    assert shares(imported)["step"] == ("100 us", "100.00 %")
    assert shares(imported)["communication exposed"] == ("50 us", "50.00 %")
    assert [tensor.size for tensor in imported.instance.iteration.tensors] == [4_000_000]
    assert rows_of(imported)["as traced, in the model (wait_free/baseline)"] == "100 us"


def test_steps_with_kernels_of_unknown_size_are_left_out_and_counted(write):
    marks = [mark(k, 100 * k, 100 * k + 100) for k in range(3)]
    unknown = kernel(110, 150, 20, Rank=0)
    imported = import_files(write(t__json=pytorch_trace([*steps(), *marks, unknown])))
    assert "ProfilerStep#0" in imported.notes[0]
    assert shares(imported)["left out: NCCL without sizes"] == ("40 us", "40.00 %")
    with pytest.raises(InputError, match="holds 1 kernels of NCCL without their sizes"):
        import_files(write(t__json=pytorch_trace([*steps(count=1), unknown])))


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("void deep_ep::internode_ll::combine<true, 7168>(void*)", "DeepEP"),
        ("nvshmemi_transfer_kernel", "NVSHMEM"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", "symmetric memory"),
        ("two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>", "symmetric memory"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>", "custom all-reduce"),
        ("userbuffers_fp16_sum_inplace_gpu_rr_ag", "user buffers"),
        ("hcclAicpuKernel", "HCCL"),
        ("Memcpy PtoP (Device -> Device)", "copies between GPUs"),
        ("ncclDevKernel_AllReduce_Sum_u32_RING_LL", "NCCL without bytes"),
    ],
)
def test_communication_without_sizes_is_no_compute(write, name, library):
    arguments = collective_arguments("barrier") if name.startswith("nccl") else {}
    other = kernel(70, 90, 25) | {"name": name, "args": arguments}
    imported = import_files(write(t__json=pytorch_trace([*steps(count=1), other])))
    assert shares(imported)[f"of it {library}"] == ("20 us", "22.22 %")
    assert shares(imported)["communication exposed"] == ("70 us", "77.78 %")
    assert f"{library} communicates for 20 us of the step" in imported.notes[1]
    assert rows_of(imported)["as traced, in the model (wait_free/baseline)"] == "90 us"
    assert imported.sentences[0].endswith(
        " The other 20 us are waiting, or kernels without sizes, and stay as they are."
    )


def test_compute_with_names_like_collectives_is_named(write):
    others = [kernel(70, 90) | {"name": "triton_allgather_gemm"}, kernel(90, 95) | {"name": "scatter_reduce_kernel"}]
    imported = import_files(write(t__json=pytorch_trace([*steps(count=1), *others])))
    assert [note.split(" looks like")[0] for note in imported.notes[1:]] == ["triton_allgather_gemm"]


def test_long_lists_of_ranks_tell_the_stride_where_they_are_equally_far_apart(write):
    def imported(ranks):
        shown = collective_arguments(ranks=64, stride=8) | {"Process Group Ranks": ranks}
        events = [kernel(0, 10), kernel(10, 30, 20, **collective_arguments()), kernel(30, 90, 20, **shown)]
        return import_files(write(t__json=pytorch_trace(events)))

    assert imported(str([*range(0, 240, 8)])[:-1] + ", ...]").instance.network.sizes == (8, 64)
    with pytest.raises(InputError, match="64 at steps of 1"):
        imported("[0, 8, 17, ...]")


GATHER = {"name": "_allgather_base"}
AS_MEASURED = {
    "a collective that reaches into the next step": (((0, 40), (50, 100), (90, 145, 20)), {}),
    "two at once on one dimension": (((0, 10), (10, 60, 20), (30, 60, 20), (60, 100)), {}),
    "a gap in which compute waits for nothing": (((0, 10), (5, 50, 20), (20, 60), (60, 100)), GATHER),
}


@pytest.mark.parametrize("case", AS_MEASURED)
def test_the_model_takes_what_was_measured(write, case):
    parts, arguments = AS_MEASURED[case]
    marks = [mark(k, 100 * k, 100 * k + 100) for k in range(4)]
    imported = import_files(write(t__json=pytorch_trace([*steps(100, 4, parts, **arguments), *marks])))
    assert rows_of(imported)["as traced, in the model (wait_free/baseline)"] == "100 us"


def test_collectives_of_all_dimensions_take_no_longer_than_was_measured(write):
    inner, outer = collective_arguments(ranks=4), collective_arguments(ranks=2, stride=4)
    events = [kernel(0, 10), kernel(10, 30, 20, **inner), kernel(30, 90, 20, **outer)]
    events += [kernel(90, 100), kernel(100, 110, 20, **collective_arguments()), kernel(110, 120)]
    (path,) = write(t__json=pytorch_trace(events))
    assert max(bounds(import_files([path]).instance).values()) <= TrainingStep(Source(path)).length


@pytest.mark.parametrize("seed", range(8))
def test_the_model_never_needs_more_than_was_measured(write, seed):
    """Collectives of unequal rates, waits and sizes, one after the other, beside compute or exposed."""
    draw = Random(seed)
    events, clock = [], 0
    for _ in range(12):
        size, compute = 10 ** draw.randint(1, 6), draw.randint(20, 2000)
        kind = draw.choice(["allreduce", "_allgather_base", "broadcast", "all_to_all"])
        taken = 5 + size * draw.uniform(0.5, 3) / 2000
        arguments = collective_arguments(kind, size)
        events += [kernel(clock, clock + compute), kernel(clock + 10, clock + 10 + taken, 20, **arguments)]
        clock += max(compute, 10 + taken) + draw.choice([0, 50])
    (path,) = write(t__json=pytorch_trace(events))
    imported, length = import_files([path]), TrainingStep(Source(path)).length
    assert max(bounds(imported.instance).values()) <= length * (1 + 1e-9)
    plan = make_policy("wait_free/baseline")(imported.instance)
    assert simulate(imported.instance, plan).makespan == pytest.approx(length)


def call(number, start, thread=3):
    ends = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": thread, "ts": start}
    return ends | {"dur": 2, "args": {"correlation": number}}


def annotated(name, start, *shapes, of_type="float"):
    """The annotation of a call, as PyTorch before 2.3 has them."""
    event = {"ph": "X", "cat": "user_annotation", "name": f"nccl:{name}", "pid": 1, "tid": 3, "ts": start, "dur": 9}
    return event | {"args": {"Input Dims": [*map(list, shapes)], "Input type": [of_type] * len(shapes)}}


def earlier_trace(*parts, world=8):
    """A trace whose kernels name no collective."""
    document = json.loads(pytorch_trace([kernel(0, 5), *parts, kernel(95, 99)]))
    return json.dumps({"distributedInfo": {"backend": "nccl", "world_size": world}} | document)


def test_sizes_that_kernels_do_not_say_are_those_of_annotations(write):
    calls = [call(1, 2), call(2, 22), call(3, 42, thread=4)]
    around = [
        annotated("_all_gather_base", 20, (1000,), of_type="c10::Half"),
        annotated("all_reduce", 0, (10, 20), (7,)),
    ]
    kernels = [kernel(10, 20, 20, correlation=1), kernel(30, 40, 20, correlation=2)]
    instance = import_files(write(t__json=earlier_trace(*kernels, *around, *calls))).instance
    sizes = [(exchange.kind.value, exchange.size) for exchange in instance.exchanges]
    assert sizes == [("all_reduce", 828), ("all_gather", 16_000)]
    assert "sizes are those of annotations" in instance.description


def test_one_kernel_of_unknown_size_in_the_step_is_refused(write):
    parts = [kernel(10, 20, 20, correlation=1), kernel(30, 40, 20, correlation=2), call(1, 2), call(2, 50)]
    with pytest.raises(InputError, match="holds 1 kernels of NCCL without their sizes"):
        import_files(write(t__json=earlier_trace(*parts, annotated("all_reduce", 0, (10,)))))


def test_a_collective_costs_in_the_model_what_its_kernel_took(write):
    """Costs that fit single kernels are paid once each, not once for every chunk."""
    sizes = [10**4, 10**5, 10**6, 10**7]
    events = [kernel(0, 1)]
    for number, size in enumerate(sizes):
        begin = 1000 * (number + 1)
        end = begin + 50 + 100 * size / 10**6
        events += [kernel(begin, end, 20, **collective_arguments(elements=size)), kernel(end, end + 1)]
    imported = import_files(write(t__json=pytorch_trace(events)))
    rows = rows_of(imported)
    assert rows["as traced, in the model (wait_free/baseline)"] == rows["measured"]


def changed(**arguments):
    return pytorch_trace(
        [kernel(0, 10, 20, **(collective_arguments() | {k.replace("_", " "): v for k, v in arguments.items()}))]
    )


BROKEN = [
    (changed(Collective_name="allreduces"), "Collective name = 'allreduces': must be one of allreduce"),
    (changed(dtype="Floats"), "dtype = 'Floats': must be one of .*; did you mean 'Float'"),
    (changed(In_msg_nelems=-1), "In msg nelems = -1: must be at least 0"),
    (pytorch_trace([kernel(0, 10)]), "holds no kernel of NCCL"),
    (pytorch_trace([kernel(0, 10, Rank=0)]), "holds 1 kernels of NCCL without their sizes"),
    (json.dumps({"schema": "1.1.1", "nodes": [{"id": 1}]}), "is an execution trace of PyTorch"),
    ('{"schema": "1.1.1", "pid": 1, "nodes": [' + " " * 2**24, "is an execution trace of PyTorch"),
    ('{"version": "2.5", "pg_config": {}, "entries": []}', "'compare NETWORK --measured FILE' reads it"),
    ('{"workload_graph": [{"Id": 1, "ctrlDeps": []}]}', r"is a Chakra trace as JSON: import the \.et files"),
    ('{"Type": 48, "CudaEvent": {"startNs": "1"}}', "is an export of Nsight Systems"),
    (pytorch_trace(OVERLAPPED)[:-60], "not JSON at character"),
    (json.dumps({"traceEvents": {}}), "must hold a list 'traceEvents'"),
    (changed(Process_Group_Ranks="[0, 3, 6, 9, 12, 15, 18, 21]"), "groups must be dimensions, each the next one"),
]


@pytest.mark.parametrize(("text", "rule"), BROKEN)
def test_traces_that_break_a_rule_are_refused(write, text, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(t__json=text))


def test_how_far_a_long_trace_is_read_is_told(write):
    events = [kernel(k, k + 1) | {"pad": "x" * 2**17} for k in range(24)] + [
        kernel(30, 40, 20, **collective_arguments())
    ]
    (path,) = write(t__json=pytorch_trace(events))
    told = []
    with watched_reading(lambda path, done, total: told.append((path, done / total))):
        load(path)
    shares = [share for _, share in told]
    assert {name for name, _ in told} == {path}
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def trace_of(rank, events):
    document = json.loads(pytorch_trace(events))
    return json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}} | document)


def rank_that_is_ready(rank, ready):
    """A rank whose all-reduce begins when it is ready, and ends at 500 us with that of the others."""
    mark = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 600}
    reduce = kernel(ready, 500, 20, **collective_arguments(ranks=2))
    return trace_of(rank, [mark, kernel(0, ready), reduce, kernel(500, 600)])


def test_the_rank_that_others_wait_for_is_late(write):
    imported = import_files(write(a__json=rank_that_is_ready(0, 300), b__json=rank_that_is_ready(1, 450)))
    assert "Rank 1 is late: collectives of other ranks wait for it; those of rank 0 wait the longest, 150 us" in str(
        imported.notes
    )
    steps = [row for row in imported.tables["shares"] if row["part"] == "step"]
    assert [(row["rank"], row["waits"]) for row in steps] == [("0", "150 us"), ("1", "0")]
    assert imported.instance.network.bandwidths == pytest.approx([4e6 / 50e-6])  # as fast as without waits


def test_no_rank_is_late_where_all_are_ready_at_once(write):
    imported = import_files(write(a__json=rank_that_is_ready(0, 449), b__json=rank_that_is_ready(1, 450)))
    assert "No rank is late" in str(imported.notes)


def test_ranks_are_different_and_hold_the_same_step(write):
    first, other = rank_that_is_ready(0, 300), rank_that_is_ready(1, 300).replace("ProfilerStep#3", "ProfilerStep#4")
    for second, rule in ((first, "must be of another rank"), (other, "must hold the step of the other traces")):
        with pytest.raises(InputError, match=rule):
            import_files(write(a__json=first, b__json=second))


def test_sends_of_a_pipeline_are_exchanges_and_receives_wait(write):
    send, receive = (collective_arguments(name, ranks=4) for name in ("send", "recv"))
    events = [kernel(0, 40, 20, **receive), kernel(40, 100), kernel(100, 120, 20, **send), kernel(100, 160)]
    imported = import_files(write(t__json=pytorch_trace(events)))
    (sent,) = imported.instance.exchanges
    assert (sent.kind.value, sent.size) == ("send", 4_000_000)
    rows = {row["quantity"]: row["time"] for row in imported.tables["trace"]}
    assert rows["of it receiving from other stages"] == "40 us"


def test_shares_are_those_of_holistic_trace_analysis():
    """Its version 0.5.0 gives 52.89, 22.09, 25.02 and 19.93 % for the kernels of this trace.

    They are those of its ``tests/data/trace_filter/sampled_rank-1.json.gz``, under the MIT licence beside the file.
    """
    trace = read_trace(Source(Path(__file__).parent / "files/holistic_trace_analysis/rank1_kernels.json.gz"))
    shares = {name: round(100 * share, 2) for name, share in gpu_shares(trace).items()}
    assert shares == {"idle": 52.89, "compute": 22.09, "other": 25.02, "overlap": 19.93}
    assert (trace.rank, trace.npus) == (1, 128)


def test_copies_are_neither_compute_nor_communication(write):
    copy = kernel(1350, 1400) | {"cat": "gpu_memcpy", "name": "Memcpy DtoH"}
    imported = import_files(write(t__json=pytorch_trace([*OVERLAPPED, copy])))
    (shares,) = [row for row in imported.tables["shares"] if row["part"] == "all of the trace"]
    assert [shares[name] for name in ("idle", "compute", "other")] == ["3.57 %", "71.43 %", "25.00 %"]

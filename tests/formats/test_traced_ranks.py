"""Traces of several ranks: who is late, what stages send to each other, and shares of the GPU's time."""

import json
from pathlib import Path

import pytest
from reader_samples import OVERLAPPED, collective_arguments, kernel, pytorch_trace

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.formats.readers.kineto import read_trace
from themis_opt.formats.readers.registry import import_files
from themis_opt.formats.readers.traced_step import gpu_shares


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

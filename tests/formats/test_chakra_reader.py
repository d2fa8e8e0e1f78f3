"""Execution traces of Chakra."""

import gzip

import pytest
from planning import schedule_of
from reader_samples import RING_16, SYSTEM

from themis_opt.base.documents import read_unpacked
from themis_opt.base.errors import InputError
from themis_opt.formats.chakra import Node, NodeType, read_trace, write_trace
from themis_opt.formats.readers.registry import import_files
from themis_opt.schedules.validation import validate

NET = RING_16.replace("16", "4")
TWO_LEVELS = NET.replace("[ Ring ]", "[ Ring, Switch ]").replace("[ 4 ]", "[ 4, 2 ]").replace(".0 ]", ".0, 9 ]")


@pytest.fixture
def trace(tmp_path):
    """Write the trace of a rank."""

    def save(nodes, rank=0):
        path = tmp_path / f"work.{rank}.et"
        path.write_bytes(nodes if isinstance(nodes, bytes) else write_trace(nodes))
        return path

    return save


def comm(number, deps=(), ctrl=(), kind=0, size=4096, **more):
    attributes = {"is_cpu_op": False, "comm_type": kind, "comm_size": size} | more
    return Node(number, f"comm{number}", NodeType.COMM_COLL, deps, ctrl, attributes=attributes)


def comp(number, deps=(), duration=5, **attributes):
    return Node(number, f"comp{number}", NodeType.COMP, deps, duration_micros=duration, attributes=attributes)


def test_collectives_alone_are_a_problem_without_compute(write, trace):
    ranks = [trace([comm(rank, kind=2, size=1000)], rank) for rank in range(4)]
    imported = import_files([*write(net__yml=NET), *ranks])
    (collective,) = imported.instance.collectives
    assert (collective.kind.value, collective.size) == ("all_gather", 4000)
    assert "4 equal NPUs are folded into one" in imported.notes[1]


def test_compute_and_collectives_become_an_iteration(write, trace):
    nodes = [comp(0), comp(1, (0,)), comm(2, (0,)), comp(3, (1,)), comm(4, (3,), (2,)), comp(5, (2, 4))]
    instance = import_files([*write(net__yml=NET), trace(nodes)]).instance
    assert [(task.name, task.duration) for task in instance.tasks] == [(f"comp{k}", 5_000_000) for k in (0, 1, 3, 5)]
    ends = {t.name: (t.ready_after, t.needed_before, t.after) for t in instance.iteration.tensors}
    assert ends == {"comm2": ("comp0", "comp5", ()), "comm4": ("comp3", "comp5", ())}
    schedule = schedule_of(instance, "wait_free/baseline")
    validate(schedule)


def test_collectives_that_need_each_others_data_come_one_after_the_other(write, trace):
    nodes = [comp(0), comm(1, (0,), kind=7), comm(2, (1,)), Node(3, "m", NodeType.METADATA, (2,)), comp(4, (3,))]
    instance = import_files([*write(net__yml=NET), trace(nodes)]).instance
    tensors = {t.name: (t.after, t.needed_before) for t in instance.iteration.tensors}
    assert tensors["comm2"] == (("comm1",), "comp4")


def test_a_result_that_no_compute_needs_is_needed_in_the_next_iteration(write, trace):
    instance = import_files([*write(net__yml=NET), trace([comp(0), comm(1, (0,))])]).instance
    assert instance.exchanges[0].needed_later == 1


def test_involved_dimensions_and_groups_are_spans(write, trace):
    files = write(net__yml=TWO_LEVELS, groups__json={"1": [0, 4], "2": [1, 5]})
    nodes = [comp(0), comm(1, (0,), involved_dim=(True, False, False, False)), comm(2, (0,), pg_name="1")]
    instance = import_files([*files, trace(nodes)]).instance
    assert [t.dimensions for t in instance.iteration.tensors] == [("dim1",), ("dim2",)]


def test_ranks_of_different_groups_of_one_shape_are_equal(write, trace):
    files = write(net__yml=TWO_LEVELS, groups__json={"1": [0, 4], "2": [1, 5]})
    ranks = [trace([comp(0), comm(1, (0,), pg_name=str(rank + 1))], rank) for rank in range(2)]
    assert import_files([*files, *ranks]).instance.iteration.tensors[0].dimensions == ("dim2",)


def test_operations_take_what_the_system_says(write, trace):
    files = write(net__yml=NET, sys__json=SYSTEM | {"peak-perf": 2, "local-mem-bw": 100})
    nodes = [
        comp(0, duration=0, num_ops=2 * 10**9),
        comp(1, (0,), duration=0, num_ops=1, tensor_size=10**9),
        comm(2, (1,)),
    ]
    instance = import_files([*files, trace(nodes)]).instance
    assert [task.duration for task in instance.tasks] == [10**9, 10**10]  # at 2 TFLOP/s, and at 100 GB/s


BROKEN = [
    ([comp(0), comm(1, (9,))], "nodes[1] = 9: waits for a node that there is not"),
    ([comp(0, (1,)), comp(1, (0,)), comm(2)], "nodes[0]: waits for itself in a circle"),
    ([comp(0), comp(0)], "id = 0: stands twice"),
    ([comm(0, kind=3)], "nodes[0].comm_type = 3: gather is not among the collectives here"),
    ([comm(0, kind=77)], "nodes[0].comm_type = 77: must be the number of a collective"),
    ([comm(0, size=-1)], "nodes[0].comm_size = -1: must be at least 0"),
    ([Node(0, "s", NodeType.COMM_SEND)], "sends between two NPUs"),
    ([Node(0, "s", NodeType.INVALID)], "nodes of type INVALID are not part of a problem"),
    ([comm(0, pg_name="3")], "names no known communicator"),
    ([comp(0, duration=0, num_ops=9), comm(1)], "name a system file with peak-perf too"),
    (b"", "the file is empty"),
]


@pytest.mark.parametrize(("nodes", "rule"), BROKEN)
def test_traces_that_break_a_rule_are_refused(write, trace, nodes, rule):
    path = trace(nodes)
    with pytest.raises(InputError) as refused:
        import_files([*write(net__yml=NET), path])
    assert rule in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_ranks_that_differ_are_refused_with_the_difference(write, trace):
    ranks = [trace([comp(0, duration=5 + rank), comm(1, (0,))], rank) for rank in range(2)]
    with pytest.raises(InputError) as refused:
        import_files([*write(net__yml=NET), *ranks])
    assert "nodes[0].duration_micros = 6: rank 1 differs from rank 0, where it is 5" in str(refused.value)


NODES = [
    Node(0, "wait", NodeType.COMP, duration_micros=3, attributes={"is_cpu_op": False, "num_ops": 12}),
    Node(
        1,
        "send",
        NodeType.COMM_SEND,
        data_deps=(0,),
        attributes={"comm_size": 1 << 40, "comm_dst": 300, "comm_tag": 7, "ratio": 0.5, "involved_dim": (True, False)},
    ),
    Node(2, "all", NodeType.COMM_COLL, (0, 1), (1,), attributes={"pg_name": "0", "comm_priority": -1}),
]


def save(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_trace_reads_back(tmp_path, pack):
    assert read_trace(save(tmp_path / "t.0.et", pack(write_trace(NODES)))) == NODES


WRITTEN = bytes.fromhex(
    "070a05302e302e3429080012047761697418043803520e0a0969735f6370755f6f70d80100520b0a076e756d5f6f7073480c670801120473"
    "656e6418052a010052120a09636f6d6d5f73697a6548808080808020520d0a08636f6d6d5f64737438ac02520c0a08636f6d6d5f74616738"
    "0752100a05726174696f19000000000000e03f52150a0c696e766f6c7665645f64696de201040a0201003b08021203616c6c180722010"
    "12a020001520d0a0770675f6e616d65ea010130521a0a0d636f6d6d5f7072696f7269747938ffffffffffffffffff01"
)
"""The nodes as a writer without the protobuf library spelled them."""


def test_fields_have_the_numbers_of_the_schema(tmp_path):
    assert read_trace(save(tmp_path / "t.0.et", WRITTEN)) == NODES


@pytest.mark.parametrize(
    ("number", "value", "written"),
    [
        *((3, 0.25, "19000000000000d03f"), (5, 0.25, "2d0000803e"), (11, 9, "5809"), (15, -5, "7809")),
        *((17, 7, "88010e"), (19, 8, "9d0108000000"), (25, -1, "c901ffffffffffffffff"), (27, False, "d80100")),
    ],
)
def test_every_kind_of_value_is_read(tmp_path, number, value, written):
    attribute = bytes.fromhex("0a04736f6d65" + written)
    node = bytes([0x08, 4, 0x18, 5, 0x52, len(attribute)]) + attribute
    (read,) = read_trace(save(tmp_path / "t.0.et", b"\0" + bytes([len(node)]) + node))
    assert (read.id, read.type, read.attributes) == (4, NodeType.COMM_SEND, {"some": value})


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "the file is empty"),
        (b"\0\x02\x60\x01", "unknown field 12 of a node"),
        (b"\0\x02\x08", "2 bytes are promised at byte 2, 1 are left"),
        (b"\0\x01\x08", "no message at byte 1"),
        (b"\0\x81\x80\x40" + bytes(2**20 + 1), "the message at byte 1 has 1048577 bytes, more than 1048576"),
        (b"\xff" * 11, "no varint at byte 0"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, data, rule):
    with pytest.raises(InputError, match=f"not a Chakra trace: {rule}"):
        read_trace(save(tmp_path / "t.0.et", data))


def test_a_small_file_cannot_claim_much_memory(tmp_path):
    path = save(tmp_path / "t.0.et", gzip.compress(bytes(5000)))
    assert read_unpacked(path, "regular", 5000) == bytes(5000)
    with pytest.raises(InputError, match=r"must be at most .*, unpacked"):
        read_unpacked(path, "regular", 4999)

"""Chakra traces: read back as written, and as the protobuf library writes and reads them."""

import gzip

import pytest

from themis_opt.base.documents import read_unpacked
from themis_opt.base.errors import InputError
from themis_opt.formats.chakra import Node, NodeType, read_trace, write_trace

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


@pytest.fixture(scope="module")
def schema():
    """The messages of the schema that are needed here, made by the protobuf library."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="trial.proto", package="trial", syntax="proto3")
    attribute = file.message_type.add(name="Attribute")
    scalars = {1: "string", 3: "double", 5: "float", 7: "int32", 9: "int64", 11: "uint32", 13: "uint64", 15: "sint32"}
    scalars |= {17: "sint64", 19: "fixed32", 21: "fixed64", 23: "sfixed32", 25: "sfixed64", 27: "bool", 29: "string"}
    for number, kind in scalars.items():
        kind = getattr(kinds, f"TYPE_{kind.upper()}")
        attribute.field.add(name=f"f{number}", number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    node = file.message_type.add(name="Node")
    for number, kind in {1: "uint64", 2: "string", 3: "int32", 7: "uint64"}.items():
        kind = getattr(kinds, f"TYPE_{kind.upper()}")
        node.field.add(name=f"f{number}", number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    for number in (4, 5):
        node.field.add(name=f"f{number}", number=number, type=kinds.TYPE_UINT64, label=kinds.LABEL_REPEATED)
    many = {"type": kinds.TYPE_MESSAGE, "type_name": ".trial.Attribute", "label": kinds.LABEL_REPEATED}
    node.field.add(name="f10", number=10, **many)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("trial.Node"))


def behind_its_length(message):
    data = message.SerializeToString()
    assert len(data) < 128
    return bytes([len(data)]) + data


def test_the_protobuf_library_reads_what_is_written(schema):
    data = write_trace(NODES[:1])
    message = data[1 + data[0] :]
    message_read = schema.FromString(message[1:])
    assert (message_read.f1, message_read.f2, message_read.f3, message_read.f7) == (0, "wait", 4, 3)
    assert [(a.f1, a.f9) for a in message_read.f10] == [("is_cpu_op", 0), ("num_ops", 12)]


@pytest.mark.parametrize(
    ("number", "value"),
    [
        *((3, 0.25), (5, 0.25), (7, -3), (9, -(1 << 60)), (11, 9), (13, 1 << 62), (15, -5), (17, 7), (19, 8)),
        *((21, 9), (23, -4), (25, -(1 << 40)), (27, True), (29, "0")),
    ],
)
def test_every_kind_of_value_of_the_protobuf_library_is_read(tmp_path, schema, number, value):
    trace_node = schema(f1=4, f3=5, f4=[3], f5=[1, 300])
    trace_node.f10.add(f1="some", **{f"f{number}": value})
    (node,) = read_trace(save(tmp_path / "t.0.et", b"\0" + behind_its_length(trace_node)))
    assert (node.id, node.type, node.ctrl_deps, node.data_deps) == (4, NodeType.COMM_SEND, (3,), (1, 300))
    assert node.attributes == {"some": value}


def test_a_small_file_cannot_claim_much_memory(tmp_path):
    path = save(tmp_path / "t.0.et", gzip.compress(bytes(5000)))
    assert read_unpacked(path, "regular", 5000) == bytes(5000)
    with pytest.raises(InputError, match=r"must be at most .*, unpacked"):
        read_unpacked(path, "regular", 4999)

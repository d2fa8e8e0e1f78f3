"""Chakra traces: read back as written, and by the field numbers of the schema."""

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

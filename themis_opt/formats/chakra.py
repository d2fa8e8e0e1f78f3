"""Chakra execution traces: the tasks of one rank as a stream of protobuf messages.

A file holds the length and the bytes of one ``GlobalMetadata``, then those of every ``Node``, and may be compressed
with gzip.  Field numbers are those of the schema, https://github.com/mlcommons/chakra/blob/main/schema/protobuf/et_def.proto.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from pathlib import Path

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.formats import protobuf
from themis_opt.formats.protobuf import Field, MalformedMessage

VERSION = "0.0.4"
MAX_NODES = 200_000
MAX_TRACE_BYTES = 32 * 2**20
"""Largest trace that is read: lists of its small numbers take up to sixteen times as much memory."""

NODE_FIELDS = range(1, 12)  # numbers of the fields of a node; others are of a schema that is not known here
AttributeValue = bool | int | float | str | tuple[bool, ...]
Attributes = Mapping[str, AttributeValue]


class NodeType(IntEnum):
    """The type of a node."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CommType(IntEnum):
    """Which collective a ``COMM_COLL`` node runs."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


@dataclass(frozen=True)
class Node:
    """A task of a trace."""

    id: int
    name: str
    type: NodeType
    data_deps: tuple[int, ...] = ()  # nodes that must have ended before it begins
    ctrl_deps: tuple[int, ...] = ()  # more of them
    duration_micros: int = 0  # how long it takes, where that is known
    attributes: Attributes = field(default_factory=dict)


SIGNED_FIELDS = {"comm_src": 7, "comm_dst": 7, "comm_tag": 7, "comm_priority": 7}
"""Numbers written as int32, since the readers of ASTRA-sim expect that of them; all others are int64."""

DOUBLE, FLOAT, INT64, BOOL, BOOLS, TEXT = 3, 5, 9, 27, 28, 29
VARINTS, ZIGZAGS = (7, 9, 11, 13), (15, 17)
FIXED: Mapping[int, str] = {DOUBLE: "<d", FLOAT: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
"""Fields of ``AttributeProto`` by how they hold a value; of its lists only that of booleans is read."""


def attribute(name: str, value: AttributeValue) -> bytes:
    """An attribute as the field of a node."""
    if isinstance(value, bool):
        kind = protobuf.number_field(BOOL, value)
    elif isinstance(value, int):
        kind = protobuf.number_field(SIGNED_FIELDS.get(name, INT64), value)
    elif isinstance(value, tuple):
        kind = protobuf.bytes_field(BOOLS, protobuf.packed_field(1, value))
    else:
        kind = protobuf.bytes_field(TEXT, value) if isinstance(value, str) else protobuf.double_field(DOUBLE, value)
    return protobuf.bytes_field(10, protobuf.bytes_field(1, name) + kind)


def node_bytes(id: int, name: str, type: int, deps: bytes, attributes: bytes, duration_micros: int = 0) -> bytes:  # noqa: A002
    """A node behind its length; `deps` and `attributes` are fields of it, so that many nodes share their bytes."""
    head = protobuf.number_field(1, id) + protobuf.bytes_field(2, name) + protobuf.number_field(3, type)
    length = protobuf.number_field(7, duration_micros) if duration_micros else b""
    return protobuf.delimited(head + deps + length + attributes)


def data_deps(nodes: Iterable[int]) -> bytes:
    """Dependencies as the field of a node."""
    return protobuf.packed_field(5, nodes)


def trace_head() -> bytes:
    """The bytes before the nodes of a trace."""
    return protobuf.delimited(protobuf.bytes_field(1, VERSION))


def write_trace(nodes: Iterable[Node]) -> bytes:
    """A trace as the bytes of a file."""
    parts = [trace_head()]
    for node in nodes:
        deps = protobuf.packed_field(4, node.ctrl_deps) + data_deps(node.data_deps)
        attributes = b"".join(attribute(name, value) for name, value in node.attributes.items())
        parts.append(node_bytes(node.id, node.name, node.type, deps, attributes, node.duration_micros))
    return b"".join(parts)


def read_trace(path: Path) -> list[Node]:
    """Read a trace.

    Raises InputError if the file cannot be read, is too large or is no trace; the message says at which byte.
    """
    try:
        source = Source(path)
        source.check_size(MAX_TRACE_BYTES)
        trace = list(islice(_nodes(source.data), MAX_NODES + 1))
    except (MalformedMessage, struct.error, ValueError) as error:
        raise InputError(f"not a Chakra trace: {error}", source=str(path)) from None
    if len(trace) > MAX_NODES:
        raise source.error(f"must have at most {MAX_NODES} nodes")
    return trace


def _nodes(data: bytes) -> Iterator[Node]:
    messages = _messages(data)
    metadata = next(messages, None)
    if metadata is None:
        raise ValueError("the file is empty")
    for _ in protobuf.read_fields(metadata):
        pass
    for message in messages:
        yield _node(message)


def _messages(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        length, place = protobuf.read_varint(data, place)
        if place + length > len(data):
            raise MalformedMessage(f"{length} bytes are promised at byte {place}, {len(data) - place} are left")
        yield data[place : place + length]
        place += length


def _node(message: bytes) -> Node:
    numbers, deps = {1: 0, 3: 0, 7: 0}, {4: list[int](), 5: list[int]()}
    name, attributes = "", dict[str, AttributeValue]()
    for item in protobuf.read_fields(message):
        if item.number not in NODE_FIELDS:
            raise ValueError(f"unknown field {item.number} of a node")
        if item.number in numbers and isinstance(item.value, int):
            numbers[item.number] = item.value
        elif item.number in deps and item.wire_type in (protobuf.VARINT, protobuf.LENGTH_DELIMITED):
            deps[item.number] += protobuf.read_packed(item.value)
        elif item.number == 2 and isinstance(item.value, bytes):
            name = item.value.decode()
        elif item.number == 10 and isinstance(item.value, bytes):
            attributes.update(_attribute(item.value))
    kind = NodeType(numbers[3])
    return Node(numbers[1], name, kind, tuple(deps[5]), tuple(deps[4]), numbers[7], attributes)


def _attribute(message: bytes) -> dict[str, AttributeValue]:
    """Name and value of an attribute; nothing where it holds a list."""
    name, value = "", None
    for item in protobuf.read_fields(message):
        if item.number == 1 and isinstance(item.value, bytes):
            name = item.value.decode()
        else:
            known = _value(item)
            value = value if known is None else known
    return {} if value is None else {name: value}


def _value(item: Field) -> AttributeValue | None:
    """The content of a field of an attribute, if that is one value or a list of booleans."""
    data = item.value
    if isinstance(data, int):
        return _number(item.number, data)
    if item.number == TEXT:
        return data.decode()
    if item.number == BOOLS:
        return tuple(bool(value) for flags in protobuf.read_fields(data) for value in protobuf.read_packed(flags.value))
    form = FIXED.get(item.number)
    if form is None or struct.calcsize(form) != protobuf.FIXED_WIDTHS.get(item.wire_type):
        return None
    value: int | float = struct.unpack(form, data)[0]
    return value


def _number(field: int, value: int) -> bool | int | None:
    if field == BOOL:
        return bool(value)
    if field in VARINTS:
        return protobuf.signed(value)
    return value >> 1 ^ -(value & 1) if field in ZIGZAGS else None

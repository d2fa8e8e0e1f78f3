"""Chakra execution traces: the tasks of one rank as a stream of protobuf messages.

A file holds the length and the bytes of one ``GlobalMetadata``, then those of every ``Node``, and may be compressed
with gzip.  Field numbers are those of the schema, https://github.com/mlcommons/chakra/blob/main/schema/protobuf/et_def.proto.
"""

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.proto import serialize_length_prefixed
from google.protobuf.unknown_fields import UnknownFieldSet

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source

VERSION = "0.0.4"
MAX_NODES = 200_000  # nodes of a trace
MAX_TRACE_BYTES = 32 * 2**20  # bytes of a trace
MAX_NODE_BYTES = 2**20  # largest node that is read: attributes of two bytes take about a hundred times as much memory

MAX_VARINT_BYTES = 10  # bytes of a 64-bit number, by the format
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


SCALARS = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64")
FIXED_SCALARS = ("fixed32", "fixed64", "sfixed32", "sfixed64", "bool")
VALUES = {3 + 2 * place: (f"{kind}_value", kind) for place, kind in enumerate((*SCALARS, *FIXED_SCALARS))}
"""The one value of an attribute, by the number of its field; of lists only that of booleans is read."""

SCHEMA: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "Metadata": {1: ("version", "string")},
    "Flags": {1: ("values", "bool*")},
    "Attribute": {1: ("name", "string"), **VALUES, 28: ("flags_value", "Flags"), 29: ("string_value", "string")},
    "Node": {
        1: ("id", "uint64"),
        2: ("name", "string"),
        3: ("type", "int32"),
        4: ("ctrl_deps", "uint64*"),
        5: ("data_deps", "uint64*"),
        7: ("duration_micros", "uint64"),
        10: ("attributes", "Attribute*"),
    },
}
"""Names and types of the fields of messages, by their numbers; repeated ones have a star."""

SIGNED = ("comm_src", "comm_dst", "comm_tag", "comm_priority")
"""Numbers written as int32, since the readers of ASTRA-sim expect that of them; all others are int64."""


@cache
def _message(name: str) -> Any:
    """The class of a message of the schema."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"chakra.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package="chakra", syntax="proto3")
    for message, fields in SCHEMA.items():
        described = file.message_type.add(name=message)
        if message == "Attribute":
            described.oneof_decl.add(name="value")
        for number, (name, kind) in fields.items():
            part, one = described.field.add(name=name, number=number), kind.removesuffix("*")
            part.label = types.LABEL_OPTIONAL if one == kind else types.LABEL_REPEATED
            part.type = types.TYPE_MESSAGE if one in SCHEMA else types.Type.Value(f"TYPE_{one.upper()}")
            if one in SCHEMA:
                part.type_name = f".chakra.{one}"
            if name.endswith("_value"):
                part.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def write_trace(nodes: Iterable[Node]) -> bytes:
    """A trace as the bytes of a file."""
    out = io.BytesIO()
    serialize_length_prefixed(_message("Metadata")(version=VERSION), out)
    for node in nodes:
        fields = {name: value for name, value in vars(node).items() if name != "attributes"}
        message = _message("Node")(**fields)
        for name, value in node.attributes.items():
            message.attributes.append(_attribute(name, value))
        serialize_length_prefixed(message, out)
    return out.getvalue()


@lru_cache(maxsize=2**14, typed=True)
def _attribute(name: str, value: AttributeValue) -> Any:
    whole = "int32" if name in SIGNED else "int64"
    kind = {bool: "bool", int: whole, float: "double", str: "string", tuple: "flags"}[type(value)]
    content = {"values": value} if kind == "flags" else value
    return _message("Attribute")(name=name, **{f"{kind}_value": content})


def read_trace(path: Path) -> list[Node]:
    """Read a trace.

    Raises InputError if the file cannot be read, is too large or is no trace; the message says at which byte.
    """
    source = Source(path)
    source.check_size(MAX_TRACE_BYTES)
    try:
        trace = list(islice(_nodes(source.data), MAX_NODES + 1))
    except ValueError as error:
        raise InputError(f"not a Chakra trace: {error}", source=str(path)) from None
    if len(trace) > MAX_NODES:
        raise source.error(f"must have at most {MAX_NODES} nodes")
    return trace


def _nodes(data: bytes) -> Iterator[Node]:
    if not data:
        raise ValueError("the file is empty")
    kind, place = _message("Metadata"), 0
    while place < len(data):
        begin, (length, place) = place, _length(data, place)
        if place + length > len(data):
            raise ValueError(f"{length} bytes are promised at byte {place}, {len(data) - place} are left")
        if length > MAX_NODE_BYTES:
            raise ValueError(f"the message at byte {begin} has {length} bytes, more than {MAX_NODE_BYTES}")
        try:
            message = kind.FromString(data[place : place + length])
        except DecodeError:
            raise ValueError(f"no message at byte {begin}") from None
        if kind is _message("Node"):
            yield _node(message)
        kind, place = _message("Node"), place + length


def _length(data: bytes, place: int) -> tuple[int, int]:
    """The length of a message, seven bits in each byte, the lowest first; and the place behind it."""
    value = 0
    for count, byte in enumerate(data[place : place + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, place + count + 1
    raise ValueError(f"no varint at byte {place}")


def _node(message: Any) -> Node:
    for unknown in UnknownFieldSet(message):
        if unknown.field_number not in NODE_FIELDS:
            raise ValueError(f"unknown field {unknown.field_number} of a node")
    attributes: dict[str, AttributeValue] = {}
    for one in message.attributes:
        if kind := one.WhichOneof("value"):
            value = getattr(one, kind)
            attributes[one.name] = tuple(value.values) if kind == "flags_value" else value
    return Node(
        message.id,
        message.name,
        NodeType(message.type),
        tuple(message.data_deps),
        tuple(message.ctrl_deps),
        message.duration_micros,
        attributes,
    )

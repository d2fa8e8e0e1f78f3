"""Execution traces of Chakra (``.et``): one file per NPU, a stream of messages with their lengths before them.

The first message is the metadata, every other one a node: compute, memory, or communication, with the nodes it waits
for and attributes.  The messages are described here field by field and parsed by the protobuf library, without code
made by others.  Source: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto`` and ``protolib.py``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from themis_opt.base.sources import Source

MAX_NODES = 200_000
MAX_MESSAGE_BYTES = 2**24


class NodeType(IntEnum):
    """What a node does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class Scalar(NamedTuple):
    """A kind of scalar of protobuf: the number of its type, and of its attribute and that of its lists."""

    type: int
    number: int


SCALARS: Mapping[str, Scalar] = MappingProxyType(
    {
        "double": Scalar(1, 3),
        "float": Scalar(2, 5),
        "int32": Scalar(5, 7),
        "int64": Scalar(3, 9),
        "uint32": Scalar(13, 11),
        "uint64": Scalar(4, 13),
        "sint32": Scalar(17, 15),
        "sint64": Scalar(18, 17),
        "fixed32": Scalar(7, 19),
        "fixed64": Scalar(6, 21),
        "sfixed32": Scalar(15, 23),
        "sfixed64": Scalar(16, 25),
        "bool": Scalar(8, 27),
        "string": Scalar(9, 29),
        "bytes": Scalar(12, 31),
    }
)
"""Kinds of attributes; the list of a kind has the next number."""

Attribute = bool | int | float | str | bytes | tuple[Any, ...]


@dataclass(frozen=True)
class Node:
    """A node.

    Attributes
    ----------
    id : int
    name : str
    type : NodeType
    data_deps, ctrl_deps : tuple of int
        The nodes whose data it needs, and those that only come before it.
    duration : int
        Microseconds.
    attributes : mapping
        Values by name.
    kinds : mapping of str
        Kinds of :data:`SCALARS` in which to write attributes, by their name; ``int64`` and so on if not given.
    """

    id: int
    name: str
    type: NodeType
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    duration: int = 0
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """The nodes of one NPU, and the version of the schema."""

    version: str
    nodes: tuple[Node, ...]


@lru_cache(maxsize=1)
def _messages() -> Mapping[str, Any]:
    """Classes of the messages, in a pool of their own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package="chakra", syntax="proto3")
    repeated, single = 3, 1

    def add(message: Any, name: str, number: int, kind: int | str, label: int = single, **more: int) -> None:
        added = message.field.add(name=name, number=number, label=label, **more)
        if isinstance(kind, int):
            added.type = kind
        else:
            added.type, added.type_name = 11, f".chakra.{kind}"

    attribute = file.message_type.add(name="Attribute")
    add(attribute, "name", 1, SCALARS["string"].type)
    add(attribute, "doc_string", 2, SCALARS["string"].type)
    attribute.oneof_decl.add(name="value")
    for kind, (number_of_type, number) in SCALARS.items():
        add(file.message_type.add(name=f"{kind}_list"), "values", 1, number_of_type, repeated)
        add(attribute, f"{kind}_val", number, number_of_type, oneof_index=0)
        add(attribute, f"{kind}_list", number + 1, f"{kind}_list", oneof_index=0)
    metadata = file.message_type.add(name="Metadata")
    add(metadata, "version", 1, SCALARS["string"].type)
    add(metadata, "attr", 2, "Attribute", repeated)
    shapes = file.message_type.add(name="Shapes")
    for number, name in enumerate(("values", "shapes", "types"), start=1):
        add(shapes, name, number, SCALARS["string"].type)
    node = file.message_type.add(name="Node")
    add(node, "id", 1, SCALARS["uint64"].type)
    add(node, "name", 2, SCALARS["string"].type)
    add(node, "type", 3, SCALARS["int32"].type)
    add(node, "ctrl_deps", 4, SCALARS["uint64"].type, repeated)
    add(node, "data_deps", 5, SCALARS["uint64"].type, repeated)
    add(node, "start_time_micros", 6, SCALARS["uint64"].type)
    add(node, "duration_micros", 7, SCALARS["uint64"].type)
    add(node, "inputs", 8, "Shapes")
    add(node, "outputs", 9, "Shapes")
    add(node, "attr", 10, "Attribute", repeated)
    add(node, "storage", 11, SCALARS["bytes"].type)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"chakra.{name}") for name in ("Metadata", "Node")}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


def read_trace(source: Source) -> Trace:
    """Read the trace of one NPU.

    Raises
    ------
    InputError
        If it is none, has too many nodes, repeats the id of one, or holds a field or type that is unknown.
    """
    stream = _split(source)
    first = next(stream, None)
    if first is None:
        raise source.error("the file is empty")
    metadata = _parsed(source, "Metadata", *first)
    nodes: list[Node] = []
    seen: set[int] = set()
    for place, data in stream:
        if len(nodes) == MAX_NODES:
            raise source.error(f"must have at most {MAX_NODES} nodes")
        nodes.append(_node(source, place, _parsed(source, "Node", place, data)))
        if nodes[-1].id in seen:
            raise source.error("stands twice", "id", nodes[-1].id)
        seen.add(nodes[-1].id)
    return Trace(metadata.version, tuple(nodes))


def _split(source: Source) -> Iterator[tuple[int, bytes]]:
    """The messages and where they begin."""
    data, place = source.data, 0
    while place < len(data):
        start, length, shift = place, 0, 0
        while True:
            if place == len(data) or shift > 28:
                raise source.error(f"is no stream of messages: no length at byte {start}")
            length |= (data[place] & 0x7F) << shift
            shift += 7
            place += 1
            if not data[place - 1] & 0x80:
                break
        if length > MAX_MESSAGE_BYTES or place + length > len(data):
            raise source.error(f"is no stream of messages: {length} bytes announced at byte {start}")
        yield start, data[place : place + length]
        place += length


def _parsed(source: Source, name: str, place: int, data: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    message = _messages()[name]()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise source.error(f"is no {name.lower()} of Chakra at byte {place}") from None
    unknown = [own.field_number for own in UnknownFieldSet(message)]
    if unknown:
        raise source.error(f"unknown field {unknown[0]} of a {name.lower()} at byte {place}")
    return message


def _node(source: Source, place: int, message: Any) -> Node:
    if message.type not in NodeType.__members__.values():
        raise source.error(f"must be from 0 to {max(NodeType)} (byte {place})", "type", message.type)
    attributes: dict[str, Attribute] = {}
    for attribute in message.attr:
        kind = attribute.WhichOneof("value")
        if kind is None:
            raise source.error(f"has no value of a known kind (node {message.id})", attribute.name)
        value = getattr(attribute, kind)
        attributes[attribute.name] = tuple(value.values) if kind.endswith("_list") else value
    return Node(
        id=message.id,
        name=message.name,
        type=NodeType(message.type),
        data_deps=tuple(message.data_deps),
        ctrl_deps=tuple(message.ctrl_deps),
        duration=message.duration_micros,
        attributes=attributes,
    )


def encoded(nodes: Iterable[Node], version: str = "0.0.4") -> Iterator[bytes]:
    """The bytes of a trace, message by message."""
    yield _delimited(_messages()["Metadata"](version=version))
    for own in nodes:
        message = _messages()["Node"](
            id=own.id,
            name=own.name,
            type=int(own.type),
            data_deps=own.data_deps,
            ctrl_deps=own.ctrl_deps,
            duration_micros=own.duration,
        )
        for name, value in own.attributes.items():
            attribute = message.attr.add(name=name)
            kind = own.kinds.get(name) or _usual_kind(value)
            if isinstance(value, tuple):
                getattr(attribute, f"{kind}_list").values.extend(value)
            else:
                setattr(attribute, f"{kind}_val", value)
        yield _delimited(message)


def _usual_kind(value: Attribute) -> str:
    """The kind in which a value is written unless another is asked for."""
    one = value[0] if isinstance(value, tuple) and value else value
    names = {bool: "bool", int: "int64", float: "double", str: "string", bytes: "bytes"}
    return names.get(type(one), "int64")


def _delimited(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    length, head = len(data), bytearray()
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*head, length]) + data

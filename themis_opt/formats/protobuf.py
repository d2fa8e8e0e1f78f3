"""The wire format of Protocol Buffers: messages as bytes, and bytes as fields.

A message is a row of fields, each a key (number and wire type) and a value; only two wire types hold more than numbers
of fixed width: varints and lengths followed by bytes.  https://protobuf.dev/programming-guides/encoding

That is little enough to write out here: generated classes would bind us to one version of the compiler, and OR-Tools,
which brings its version of protobuf, to another; and a reader of untrusted files wants limits.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5  # wire types
MAX_VARINT_BYTES = 10
FIXED_WIDTHS = {FIXED64: 8, FIXED32: 4}


class MalformedMessage(ValueError):
    """Bytes that are no message."""


class Field(NamedTuple):
    """One field of a message."""

    number: int
    wire_type: int
    value: int | bytes  # a varint as it stands, without a sign; else the bytes


def varint(value: int) -> bytes:
    """A number of 64 bits, seven bits per byte, the lowest first; negative ones as their two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """A field with a varint."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """A field with a text, bytes or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(data)) + data


def double_field(number: int, value: float) -> bytes:
    """A field with a float of 64 bits."""
    return varint(number << 3 | FIXED64) + struct.pack("<d", value)


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """A field with several varints; nothing where there are none."""
    data = b"".join(map(varint, values))
    return bytes_field(number, data) if data else b""


def delimited(message: bytes) -> bytes:
    """A message behind its length, as in a stream of messages."""
    return varint(len(message)) + message


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """A varint and the place behind it.

    Raises MalformedMessage if it has no end within the data, or more than 64 bits.
    """
    value = 0
    for count, byte in enumerate(data[place : place + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if value >> 64:
                break
            return value, place + count + 1
    raise MalformedMessage(f"no varint at byte {place}")


def signed(value: int) -> int:
    """The signed number that a varint stands for."""
    return value - (1 << 64) if value >> 63 else value


def read_packed(value: int | bytes) -> list[int]:
    """The varints of a repeated field, packed in one or alone. Raises MalformedMessage if the bytes are none."""
    if isinstance(value, int):
        return [value]
    values, place = [], 0
    while place < len(value):
        number, place = read_varint(value, place)
        values.append(number)
    return values


def read_fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, in the order they stand. Raises MalformedMessage if the bytes are no message."""
    place = 0
    while place < len(data):
        key, place = read_varint(data, place)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise MalformedMessage(f"field number 0 before byte {place}")
        if wire_type == VARINT:
            value, place = read_varint(data, place)
            yield Field(number, wire_type, value)
            continue
        if wire_type == LENGTH_DELIMITED:
            length, place = read_varint(data, place)
        elif wire_type in FIXED_WIDTHS:
            length = FIXED_WIDTHS[wire_type]
        else:
            raise MalformedMessage(f"unknown wire type {wire_type} before byte {place}")
        if place + length > len(data):
            raise MalformedMessage(f"{length} bytes are promised at byte {place}, {len(data) - place} are left")
        yield Field(number, wire_type, data[place : place + length])
        place += length

"""The small encodings that everything else is made of: variable-length integers.

Reading functions take a buffer and an offset and return the value and the offset behind it. They
raise `ProtocolError` where a number is too long and `IndexError` where the buffer ends; a
caller with a peer's bytes turns the latter into the former, once, at the edge.
"""

import mmap

from protocol.errors import ProtocolError
from protocol.schema import INT16_MAX, Buffer

MAX_STRING_BYTES = INT16_MAX
"""Longer strings cannot be written in any version: Kafka refuses them in compact form, too."""


def read_uvarint(data: Buffer, offset: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits (KIP-482 lengths, counts and tags)."""
    value = data[offset] & 0x7F
    shift = 0
    while data[offset] > 0x7F:
        offset += 1
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than five bytes")
        value |= (data[offset] & 0x7F) << shift
    if value > 0xFFFFFFFF:
        raise ProtocolError("a varint does not fit 32 bits")
    return value, offset + 1


def append_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varlong(data: Buffer | mmap.mmap, offset: int) -> tuple[int, int]:
    """A zig-zag varint of at most 64 bits (the numbers inside a record)."""
    value = data[offset] & 0x7F
    shift = 0
    while data[offset] > 0x7F:
        offset += 1
        shift += 7
        if shift > 63:
            raise ProtocolError("a varlong is longer than ten bytes")
        value |= (data[offset] & 0x7F) << shift
    if value > 0xFFFFFFFFFFFFFFFF:
        raise ProtocolError("a varlong does not fit 64 bits")
    return (value >> 1) ^ -(value & 1), offset + 1


def as_int64(value: int) -> int:
    """As a sum of Java's longs, which is what Kafka writes."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def append_varlong(out: bytearray, value: int) -> None:
    """Append a zig-zag varint; small numbers of either sign are short."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)

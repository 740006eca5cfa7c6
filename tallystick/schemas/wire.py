"""What a Schema Registry's serialisers put in front of a value.

     0      1           5
    +------+-----------+------------------------------------------+------------
    | 0    | schema id | Protobuf only: which message of the file | the value
    +------+-----------+------------------------------------------+------------

The message is a path of indexes, counted from outside in: their number and each of them as zig-zag varints; the path
[0], the first message of the file, is one byte 0.
"""

import struct
from collections.abc import Sequence

_FRAME = struct.Struct(">bI")
_DEEPEST = 100


class BadFrame(ValueError):
    """This is not what those serialisers write."""


def opened(value: bytes) -> tuple[int, memoryview]:
    """The schema's id, and what comes behind it. Raises `BadFrame`."""
    if len(value) < _FRAME.size or value[0]:
        raise BadFrame(
            "this was not written with a Schema Registry's serialiser: it does not begin with a byte 0 and a schema id"
        )
    return _FRAME.unpack_from(value)[1], memoryview(value)[_FRAME.size :]


def framed(schema_id: int, payload: bytes, message: Sequence[int] | None = None) -> bytes:
    """The opposite. `message` is for Protobuf."""
    if message is None:
        path = b""
    elif tuple(message) == (0,):
        path = b"\0"
    else:
        path = b"".join(_zigzag(number) for number in (len(message), *message))
    return _FRAME.pack(0, schema_id) + path + payload


def message_path(payload: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """The path of a Protobuf message, and the message. Raises `BadFrame`."""
    count, at = _read_zigzag(payload, 0)
    if not 0 <= count <= _DEEPEST:
        raise BadFrame(f"a message {count} levels deep")
    if count == 0:
        return (0,), payload[at:]
    path = []
    for _ in range(count):
        index, at = _read_zigzag(payload, at)
        path.append(index)
    return tuple(path), payload[at:]


def _zigzag(number: int) -> bytes:
    value = number << 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _read_zigzag(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise BadFrame("the path of the message has no end")

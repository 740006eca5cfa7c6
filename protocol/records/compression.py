"""The four codecs of record batches, through `cramjam`; only used where the broker must look inside.

Decompression is bounded: a few kilobytes of zstd can stand for gigabytes. What is larger than the limit is
`TooManyBytes`, what is not what it claims to be is `Undecodable`; both are `CorruptRecords`.

snappy comes in two shapes: Java writes the framing of snappy-java ("xerial"), librdkafka one bare block. Both are
read; the framing is written. lz4 frames are written with independent blocks, for Java refuses linked ones
(`lz4_frames`).
gzip and zstd may consist of several members one after the other.
"""

import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import cramjam

from protocol.records.batch import CorruptRecords
from protocol.records.lz4_frames import compress_frame, compress_frame_at, decompress_frame_into
from protocol.schema import Buffer

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""By code, as Kafka's `compression.type` has them."""
DEFAULT_LIMIT = 128 << 20
"""What the records of one batch may come to, uncompressed."""
ALWAYS_ALLOWED_BYTES = 4 << 20
"""What the records of one batch may come to whatever the ratio: a constant, many times over, compresses very well."""
SMALLEST_RECORD: Final = 7
"""The bytes of a record without key, value and headers."""
_FIRST_GUESS = 64 << 10
_GROWTH = 4
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_LENGTH: Final = struct.Struct(">i")

Body = bytes | mmap.mmap
"""The records of one batch, uncompressed. Both give a number for an index and `bytes` for a slice."""
_Room = bytearray | mmap.mmap
DecompressInto = Callable[[Buffer, _Room], int]
_INTO: dict[int, DecompressInto] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
_FULL = "whole buffer"
"""Only the library's message distinguishes a full buffer from bad input; a test checks these messages."""


class Undecodable(CorruptRecords):
    """This is nothing that the codec has written."""


class TooManyBytes(CorruptRecords):
    """The records come to more than they may."""


class Bounds(NamedTuple):
    """How far the records of one batch may grow when they are decompressed."""

    max_bytes: int = 64 << 20
    max_ratio: int = 1_000

    def limit_of(self, compressed_bytes: int) -> int:
        """What so many bytes may come to."""
        return min(self.max_bytes, max(ALWAYS_ALLOWED_BYTES, self.max_ratio * compressed_bytes))


DEFAULT_BOUNDS = Bounds()


def compress(codec: int, data: Buffer | mmap.mmap, level: int | None = None) -> bytes:
    """Compress the records of a batch; None is the codec's usual level. Snappy has none."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec == SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec == LZ4:
        return compress_frame(memoryview(data)) if level is None else compress_frame_at(level, data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    raise ValueError(f"no codec has the code {codec}")


def decompress(codec: int, data: Buffer, limit: int = DEFAULT_LIMIT) -> bytes:
    """`decompress_body`, as bytes."""
    body = decompress_body(codec, data, limit)
    return body if isinstance(body, bytes) else body[:]


def decompress_body(codec: int, data: Buffer, limit: int = DEFAULT_LIMIT) -> Body:
    """Decompress the records of a batch. Raises `CorruptRecords`; `TooManyBytes` where they come to more than `limit`.

    May be called on any thread: the codecs let go of the interpreter while they work.
    """
    if codec == NONE:
        return bytes(data)
    try:
        if codec == SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        if codec in _INTO:
            return _grow(_INTO[codec], data, limit)
    except (cramjam.DecompressionError, struct.error) as error:
        raise Undecodable(f"{NAMES[codec]}: {error}") from error
    raise Undecodable(f"no codec has the code {codec}")


def decompress_into(codec: int, data: Buffer, room: bytearray) -> int:
    """Decompress the records of a batch to the beginning of `room`; how many bytes they are. Raises `CorruptRecords`;
    `TooManyBytes` where they do not fit."""
    if codec == LZ4 and (size := decompress_frame_into(data, room)) is not None:
        return size
    try:
        if codec == SNAPPY:
            blocks, sizes = _snappy_blocks(memoryview(data), len(room))
            return _fill(room, blocks, sizes)
        return _INTO[codec](data, room)
    except (cramjam.DecompressionError, struct.error) as error:
        if _FULL in str(error):
            raise TooManyBytes(f"the records come to more than {len(room)} bytes") from None
        raise Undecodable(f"{NAMES[codec]}: {error}") from error


def _grow(decompress_into: DecompressInto, data: Buffer, limit: int) -> Body:
    """Decompress into a buffer that grows until it is large enough or as large as allowed."""
    room = min(limit, max(_FIRST_GUESS, _GROWTH * len(data)))
    while True:
        out = _room_for(room)
        try:
            return _cut(out, decompress_into(data, out))
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise
        del out  # Before the next one comes, and before an error remembers this frame.
        if room >= limit:
            raise TooManyBytes(f"the records come to more than {limit} bytes")
        room = min(limit, room * _GROWTH)


def _room_for(size: int) -> _Room:
    """Fresh memory. A large `bytearray` is filled with zeros first, while no other thread can work: 10 ms for 16 MB.
    Pages of the kernel's are zero when they are first touched."""
    return bytearray(size) if size <= _FIRST_GUESS else mmap.mmap(-1, size)


def _cut(out: _Room, size: int) -> Body:
    """The first `size` bytes, without copying many."""
    if isinstance(out, bytearray) or size <= _FIRST_GUESS:
        return bytes(memoryview(out)[:size])
    try:
        out.resize(size)
    except (SystemError, OSError):  # Only Linux moves the end of such memory.
        return out[:size]
    return out


def _compress_xerial(data: memoryview) -> bytes:
    """snappy-java's stream: a header, then blocks with their lengths."""
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += _LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, limit: int) -> Body:
    blocks, sizes = _snappy_blocks(data, limit)
    out = _room_for(sum(sizes))
    return _cut(out, _fill(out, blocks, sizes))


def _snappy_blocks(data: memoryview, limit: int) -> tuple[list[memoryview], list[int]]:
    """The blocks of a stream, and how many bytes each comes to."""
    blocks = list(_xerial_blocks(data)) if data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC else [data]
    sizes: list[int] = []
    for block in blocks:
        sizes.append(cramjam.snappy.decompress_raw_len(block))
        limit -= sizes[-1]
        if limit < 0:  # The length that a block claims is believed only up to the limit.
            raise TooManyBytes("snappy: the records come to more than the limit")
    return blocks, sizes


def _fill(out: _Room, blocks: Sequence[memoryview], sizes: Sequence[int]) -> int:
    at = 0
    with memoryview(out) as room:
        for block, size in zip(blocks, sizes, strict=True):
            with room[at : at + size] as place:
                at += cramjam.snappy.decompress_raw_into(block, place)
    return at


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise Undecodable(f"snappy: impossible block length {length}")
        yield data[position : position + length]
        position += length

"""The four codecs of record batches, through `cramjam`; only used where the broker must look inside.

Decompression is bounded: a few kilobytes of zstd can stand for gigabytes. What is larger than the limit, or is not
what it claims to be, is `CorruptRecords`.

snappy comes in two shapes: Java writes the framing of snappy-java ("xerial"), librdkafka one bare block. Both are
read; the framing is written. lz4 frames are written with independent blocks, for Java refuses linked ones.
gzip and zstd may consist of several members one after the other.
"""

import struct
from collections.abc import Callable

import cramjam

from protocol.records.batch import CorruptRecords
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
_FIRST_GUESS = 64 << 10
_GROWTH = 4
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_LENGTH = struct.Struct(">i")

DecompressInto = Callable[[Buffer, bytearray], int]


def compress(codec: int, data: Buffer) -> bytes:
    """Compress the records of a batch."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec == SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec == LZ4:
        compressor = cramjam.lz4.Compressor(block_linked=False)
        compressor.compress(bytes(data))  # This one takes nothing but bytes.
        return bytes(compressor.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"no codec has the code {codec}")


def decompress(codec: int, data: Buffer, limit: int = DEFAULT_LIMIT) -> bytes:
    """Decompress the records of a batch. Raises `CorruptRecords`, also where they come to more than `limit`."""
    if codec == NONE:
        return bytes(data)
    try:
        if codec == GZIP:
            return _grow(cramjam.gzip.decompress_into, data, limit)
        if codec == SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        if codec == LZ4:
            return _grow(cramjam.lz4.decompress_into, data, limit)
        if codec == ZSTD:
            return _grow(cramjam.zstd.decompress_into, data, limit)
    except (cramjam.DecompressionError, struct.error) as error:
        raise CorruptRecords(f"{NAMES[codec]}: {error}") from error
    raise CorruptRecords(f"no codec has the code {codec}")


def _grow(decompress_into: DecompressInto, data: Buffer, limit: int) -> bytes:
    """Decompress into a buffer that grows until it is large enough or as large as allowed."""
    room = min(limit, max(_FIRST_GUESS, _GROWTH * len(data)))
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: decompress_into(data, out)])
        except cramjam.DecompressionError as error:
            # The library tells a full buffer from bad input only by its words; a test holds it to them.
            if "whole buffer" not in str(error):
                raise
        if room >= limit:
            raise CorruptRecords(f"the records come to more than {limit} bytes")
        room = min(limit, room * _GROWTH)


def _compress_xerial(data: memoryview) -> bytes:
    """snappy-java's stream: a header, then blocks with their lengths."""
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += _LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_block(data, limit)
    blocks: list[bytes] = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise CorruptRecords(f"snappy: impossible block length {length}")
        block = _decompress_block(data[position : position + length], limit)
        limit -= len(block)
        blocks.append(block)
        position += length
    return b"".join(blocks)


def _decompress_block(block: memoryview, limit: int) -> bytes:
    """A bare snappy block; its own length field is believed only up to the limit."""
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise CorruptRecords("the records come to more than the limit")
    out = bytearray(size)
    return bytes(memoryview(out)[: cramjam.snappy.decompress_raw_into(block, out)])

"""Frames of lz4 as Kafka writes them: independent blocks, and no checksum but that of the frame's head.

    magic 4 | flags 1 | block size 1 | checksum of these two 1 | blocks: size u32, bytes | 0 u32

The library makes a context for each frame, which takes longer than the few blocks of a batch. So these frames, which
Java and librdkafka write, are taken apart here, block by block. There are four heads, one for each size of blocks; of
any other frame, and of whatever is not as it should be, the library is to say what it is.
"""

import mmap
import struct

import cramjam

from protocol.schema import Buffer

HEADS = {
    bytes.fromhex("04224d18604082"): 64 << 10,
    bytes.fromhex("04224d186050fb"): 256 << 10,
    bytes.fromhex("04224d18606051"): 1 << 20,
    bytes.fromhex("04224d18607073"): 4 << 20,
}
"""The first bytes of a frame → what its blocks come to at most."""
_HEAD_BYTES = 7
_WRITTEN, _BLOCK_BYTES = next(iter(HEADS.items()))
_SIZE = struct.Struct("<I")
_AS_IT_IS = 1 << 31
"""Set in the size of a block that is not compressed."""


def compress_frame(data: memoryview) -> bytes:
    """One frame."""
    out = bytearray(_WRITTEN)
    for start in range(0, len(data), _BLOCK_BYTES):
        raw = data[start : start + _BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            out += _SIZE.pack(len(block))
            out += block
        else:
            out += _SIZE.pack(len(raw) | _AS_IT_IS)
            out += raw
    out += _SIZE.pack(0)
    return bytes(out)


def compress_frame_at(level: int, data: Buffer | mmap.mmap) -> bytes:
    """One frame, of smaller blocks: the library's own, with checksums, for it has levels in no other way."""
    compressor = cramjam.lz4.Compressor(level=level, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def decompress_frame_into(data: Buffer, room: bytearray) -> int | None:
    """Decompress one frame to the beginning of `room`; how many bytes that were. None where the frame is another, is
    damaged, does not fit or has something behind it: the library says which."""
    most = HEADS.get(bytes(data[:_HEAD_BYTES]))
    if most is None:
        return None
    frame, view, end_of_frame, room_bytes = memoryview(data), memoryview(room), len(data), len(room)
    at, filled = _HEAD_BYTES, 0
    try:
        while size := _SIZE.unpack_from(frame, at)[0]:
            begin = at + 4
            at = begin + (size & ~_AS_IT_IS)
            left = min(most, room_bytes - filled)
            if at - begin > (left if size & _AS_IT_IS else most) or at > end_of_frame:
                return None
            if size & _AS_IT_IS:
                view[filled : filled + at - begin] = frame[begin:at]
                filled += at - begin
            else:
                place = view[filled : filled + left]
                filled += cramjam.lz4.decompress_block_into(frame[begin:at], place, output_len=left)
    except (cramjam.DecompressionError, struct.error):
        return None
    return filled if at + 4 == end_of_frame else None

"""Frames of lz4 that are taken apart here: what is read of them is what the library reads of them."""

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.lz4_frames import HEADS, compress_frame, decompress_frame_into

DATA = [b"", b"x", bytes(range(256)), b"Kafka " * 20_000, bytes(range(256)) * 600, bytes((65 << 10) - 1)]


def of_the_library(frame: bytes, room_bytes: int) -> bytes | None:
    room = bytearray(room_bytes)
    try:
        return bytes(room[: cramjam.lz4.decompress_into(frame, room)])
    except cramjam.DecompressionError:
        return None


def taken_apart(frame: bytes, room_bytes: int) -> bytes | None:
    room = bytearray(b"\x55" * room_bytes)
    size = decompress_frame_into(memoryview(frame), room)
    assert len(room) == room_bytes
    return None if size is None else bytes(room[:size])


@pytest.mark.parametrize("data", DATA, ids=len)
def test_compressed_bytes_are_restored_into_exactly_their_room(data: bytes) -> None:
    frame = compress_frame(memoryview(data))
    assert taken_apart(frame, len(data)) == of_the_library(frame, len(data) or 1) == data
    if data:
        assert taken_apart(frame, len(data) - 1) is None


@pytest.mark.parametrize("head", HEADS, ids=bytes.hex)
def test_blocks_of_every_size_are_read_and_no_larger_ones(head: bytes) -> None:
    """The head is that of the library's own frames with such blocks."""
    most = HEADS[head]
    for size in (most, most + 1):
        block = bytes(cramjam.lz4.compress_block(bytes(size), store_size=False))
        whole = head + len(block).to_bytes(4, "little") + block + bytes(4)
        expected = bytes(size) if size == most else None
        assert taken_apart(whole, most + 1) == of_the_library(whole, most + 1) == expected
        stored = head + (size | 1 << 31).to_bytes(4, "little") + bytes(size) + bytes(4)
        assert taken_apart(stored, most + 1) == of_the_library(stored, most + 1) == expected


def test_an_unusual_frame_header_is_left_to_the_library() -> None:
    frame = compress_frame(memoryview(b"x" * 100))
    for at in range(4, 7):
        assert taken_apart(frame[:at] + bytes([frame[at] ^ 4]) + frame[at + 1 :], 100) is None
    compressor = cramjam.lz4.Compressor(block_linked=False)
    compressor.compress(b"x" * 100)
    assert taken_apart(bytes(compressor.finish()), 100) is None


@given(
    data=st.binary(max_size=400) | st.binary(min_size=1, max_size=9).map(lambda one: one * 9_000),
    cut=st.integers(0, 12),
    behind=st.binary(max_size=6),
    flips=st.lists(st.tuples(st.integers(0, 1 << 17), st.integers(1, 255)), max_size=3),
    room_bytes=st.sampled_from([0, 100, 65_536, 65_537, 131_072]),
)
def test_nothing_is_read_that_the_library_does_not_read(
    data: bytes, cut: int, behind: bytes, flips: list[tuple[int, int]], room_bytes: int
) -> None:
    whole = compress_frame(memoryview(data))
    frame = bytearray(whole[: len(whole) - cut] + behind)
    for at, bits in flips:
        if frame:
            frame[at % len(frame)] ^= bits
    found = taken_apart(bytes(frame), room_bytes)
    assert found is None or found == of_the_library(bytes(frame), room_bytes)

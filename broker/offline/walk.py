"""The batches of a log file one after the other, by their headers, with the checksum of each; and what is no batch."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from broker.offline.untouched import ReadFile
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header

_READ_BYTES = 1 << 20
_LARGEST_BATCH = 1 << 30
_LOOKED_THROUGH_BYTES = 16 << 20
_MAY_BEGIN = re.compile(rb"(?s)(?=\x00.{15}\x02)")
"""Offsets are far from 2^56; the magic byte is the seventeenth."""


class Batch(NamedTuple):
    """A batch that is as long as its header says."""

    position: int
    header: BatchHeader
    data: bytes
    crc_is_right: bool


class Rest(NamedTuple):
    """The bytes from a position on that are no batch."""

    position: int
    size_bytes: int
    why: str


def batches_in(file: ReadFile, size_bytes: int) -> Iterator[Batch | Rest]:
    """At most one `Rest`, the last. A batch with a wrong checksum does not end the walk: its length is believed."""
    position, block, start = 0, b"", 0
    while position < size_bytes:
        at = position - start
        if at + HEADER_SIZE > len(block):
            block, start, at = file.read(position, _READ_BYTES), position, 0
        if len(block) - at < HEADER_SIZE:
            yield Rest(position, size_bytes - position, "the file ends within a header")
            return
        header = read_header(block, at)
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= _LARGEST_BATCH or header.last_offset_delta < 0:
            yield Rest(position, size_bytes - position, "no batch has such a header")
            return
        if position + header.size > size_bytes:
            yield Rest(position, size_bytes - position, "the file ends within a batch")
            return
        if at + header.size > len(block):
            block, start, at = file.read(position, max(_READ_BYTES, header.size)), position, 0
        data = block[at : at + header.size]
        yield Batch(position, header, data, check_crc(data, 0, header))
        position += header.size


def whole_batch_behind(file: ReadFile, rest: Rest, least_offset: int) -> int | None:
    """Where a batch with the right checksum begins in what is none; None where there is not one, or far away."""
    data = file.read(rest.position, min(rest.size_bytes, _LOOKED_THROUGH_BYTES))
    for found in _MAY_BEGIN.finditer(data, 1):
        at = found.start()
        if at + HEADER_SIZE > len(data):
            return None
        header = read_header(data, at)
        if (
            header.base_offset >= least_offset
            and HEADER_SIZE <= header.size <= len(data) - at
            and check_crc(data[at : at + header.size], 0, header)
        ):
            return rest.position + at
    return None

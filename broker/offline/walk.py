"""The batches of a log file one after the other, by their headers, with the checksum of each; and what is no batch."""

from collections.abc import Iterator
from typing import NamedTuple

from broker.offline.untouched import ReadFile
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header

_READ_BYTES = 1 << 20
_LARGEST_BATCH = 1 << 30


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

"""How a write-ahead log lies in its file.

file: two copies of where to begin, a block each | two halves, which are written in turn
where to begin: magic 8 bytes | crc32c u32 of what follows | 8 u32 | sequence of the first commit that is needed u64 |
    bytes of the file u64
commit: magic 8 bytes | crc32c u32 of what follows, records included | bytes of the records u32 | sequence u64 | records
record: kind u8 | length of the path u16 | position u64 | length of the data u32 | path | data

A commit begins with a block, and the blocks that it takes are written whole. Sequences begin with 1 and leave none out.
What was written over or never written is no commit: its checksum, or its sequence, says so.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from protocol.schema import Buffer

BLOCK = 4096
HALVES_AT = 2 * BLOCK
APPENDED, SETTLED = 1, 2
"""Bytes at a position of a file; or: what was said of that file so far is not needed any more."""

_COMMIT, _BEGIN = b"TSAHEAD\x01", b"TSBEGIN\x01"
_HEAD = struct.Struct(">8sIIQ")
_CHECKED_FROM = 12
_RECORD = struct.Struct(">BHQI")
_FILE_BYTES = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Commit:
    """One that is whole."""

    sequence: int
    records: memoryview


@dataclass(frozen=True, slots=True)
class Record:
    """One of a commit."""

    kind: int
    path: str
    position: int
    data: memoryview


def put_record(into: bytearray, kind: int, path: bytes, position: int, parts: Sequence[Buffer], size: int) -> None:
    """`size`: of all parts."""
    into += _RECORD.pack(kind, len(path), position, size)
    into += path
    for part in parts:
        into += part


def blocks_of(record_bytes: int) -> int:
    """Bytes that a commit of so many bytes of records takes."""
    return -(-(_HEAD.size + record_bytes) // BLOCK) * BLOCK


def sealed(sequence: int, records: bytearray) -> bytes:
    """A commit, as it is written."""
    return _sealed(_COMMIT, sequence, records)


def begin_with(sequence: int, file_bytes: int) -> bytes:
    """A copy of where to begin, in a file that is so long."""
    return _sealed(_BEGIN, sequence, _FILE_BYTES.pack(file_bytes))


def _sealed(magic: bytes, sequence: int, records: Buffer) -> bytes:
    head = _HEAD.pack(magic, 0, len(records), sequence)
    crc = crc32c(records, crc32c(head[_CHECKED_FROM:]))
    padding = bytes(blocks_of(len(records)) - _HEAD.size - len(records))
    return b"".join((_HEAD.pack(magic, crc, len(records), sequence), records, padding))


def first_needed(contents: Buffer) -> int | None:
    """The later of both copies; None where neither can be read."""
    view = memoryview(contents)
    found = [commit for at in (0, BLOCK) if (commit := _read(view, at, _BEGIN)) is not None]
    return max((one.sequence for one in found), default=None)


def bytes_of_file(contents: Buffer) -> int | None:
    """How long the file was made; None where nothing says so."""
    view = memoryview(contents)
    found = next((one for at in (0, BLOCK) if (one := _read(view, at, _BEGIN)) is not None), None)
    return None if found is None else int(_FILE_BYTES.unpack(found.records)[0])


def commits(contents: Buffer) -> Iterator[Commit]:
    """Every commit that is whole, in no order, those included that are not needed any more."""
    view = memoryview(contents)
    at = HALVES_AT
    while at < len(view):
        found = _read(view, at, _COMMIT)
        if found is None:
            at += BLOCK
            continue
        yield found
        at += blocks_of(len(found.records))


def records(commit: Commit) -> Iterator[Record]:
    """In the order in which they were put there."""
    rest = commit.records
    while rest:
        kind, path_bytes, position, size = _RECORD.unpack_from(rest)
        data_at = _RECORD.size + path_bytes
        path = bytes(rest[_RECORD.size : data_at]).decode()
        yield Record(kind, path, position, rest[data_at : data_at + size])
        rest = rest[data_at + size :]


def _read(view: memoryview, at: int, magic: bytes) -> Commit | None:
    if len(view) - at < _HEAD.size:
        return None
    found, crc, size, sequence = _HEAD.unpack_from(view, at)
    if found != magic or size > len(view) - at - _HEAD.size:
        return None
    if crc32c(view[at + _CHECKED_FROM : at + _HEAD.size + size]) != crc:
        return None
    return Commit(sequence, view[at + _HEAD.size : at + _HEAD.size + size])

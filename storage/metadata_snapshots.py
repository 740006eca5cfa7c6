"""Snapshots of the metadata log on disk (KIP-630), beside its segments: `<end offset>-<epoch>.checkpoint`, as Kafka's.

    00000000000000000250-0000000003.checkpoint      all that was said before offset 250, whose last record is of epoch 3

A file of batches: a control batch that begins it, data, a control batch that ends it; offsets count from 0 without a
gap. It is whole where all of that holds and every checksum is right. It is written whole (temporary name, sync, rename,
sync of the folder), so that one that is not is damaged, and not cut short by a crash.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from protocol.records.batch import (
    BEFORE_LENGTH_COUNTS,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    CorruptRecords,
    check_crc,
    read_header,
)
from protocol.records.control import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, read_control_type
from protocol.records.record import records_of
from protocol.schema import Buffer
from storage.files import TEMPORARY, Files
from storage.segments.segment_format import DAMAGED
from storage.steps import Spent, Steps

SUFFIX = ".checkpoint"
_NAME = re.compile(rf"^(?P<end_offset>\d{{20}})-(?P<epoch>\d{{10}}){re.escape(SUFFIX)}$")
_LEFT_OVER = re.compile(rf"^\d{{20}}-\d{{10}}{re.escape(SUFFIX + TEMPORARY)}$")
READ_BYTES = 256 << 10


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """What a snapshot holds: everything before an offset, the last of it of an epoch."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


@dataclass(slots=True)
class SnapshotContents:
    """The batches of a snapshot, those before a damage if there is one."""

    batches: list[Buffer] = field(default_factory=list[Buffer])
    damage: str | None = None
    """Where and what it is."""


class SnapshotFolder:
    """The snapshots in the folder of a log. `write`, `delete` and `ids` may be called on any thread."""

    def __init__(self, files: Files, folder: str, *, repair: bool = False) -> None:
        """`repair`: an operator wants what is left without what is damaged."""
        self._files = files
        self.folder = folder
        self.repair = repair

    def path(self, one: SnapshotId) -> str:
        return f"{self.folder}/{one.file_name}"

    def ids(self) -> list[SnapshotId]:
        """Of the snapshots there are, the oldest first."""
        found = (_NAME.match(name) for name in self._files.list(self.folder))
        return sorted(SnapshotId(int(one["end_offset"]), int(one["epoch"])) for one in found if one is not None)

    def read(self, one: SnapshotId, spent: Spent) -> Steps[SnapshotContents]:
        """All of a snapshot, checked."""
        data = bytearray()
        try:
            file = self._files.open(self.path(one))
            try:
                while piece := file.read(len(data), READ_BYTES):
                    data += piece
                    if spent():
                        yield None
            finally:
                file.close()
        except OSError as error:
            return SnapshotContents(damage=f"it cannot be read: {error}")
        return (yield from checked(bytes(data), spent))

    def size_and_time(self, one: SnapshotId) -> tuple[int, int]:
        """(bytes, time of the last record it holds in milliseconds); the time of a damaged one is 0."""
        try:
            file = self._files.open(self.path(one))
            try:
                head = file.read(0, HEADER_SIZE)
                return file.size(), read_header(head).max_timestamp if len(head) == HEADER_SIZE else 0
            finally:
                file.close()
        except OSError:
            return 0, 0

    def write(self, one: SnapshotId, batches: Sequence[Buffer]) -> None:
        """Durable when it returns, and so is what was renamed in the data folder before. Raises `OSError`."""
        self._files.sync_folder("")  # A snapshot forgets topics whose folders are out of the way: for good.
        self._files.write_whole(self.path(one), *batches)

    def delete(self, which: Iterable[SnapshotId]) -> None:
        for one in which:
            self._files.delete(self.path(one))

    def set_aside(self, which: Iterable[SnapshotId]) -> None:
        """Damaged ones are kept under another name: an operator may recover something from them."""
        for one in which:
            self._files.rename(self.path(one), self.path(one) + DAMAGED)

    def tidy(self) -> None:
        """Delete what a crash left of one that was being written."""
        for name in self._files.list(self.folder):
            if _LEFT_OVER.match(name):
                self._files.delete(f"{self.folder}/{name}")


def checked(data: bytes, spent: Spent) -> Steps[SnapshotContents]:
    """What a file holds, up to its first damage."""
    view, position, offset, contents, kind = memoryview(data), 0, 0, SnapshotContents(), -1
    while kind != SNAPSHOT_FOOTER:
        header = _header_at(view, position, offset)
        kind = -1 if header is None else _control_type(view, position, header)
        if header is None or (kind == SNAPSHOT_HEADER) != (position == 0):
            contents.damage = f"there is no whole batch of it at byte {position}"
            return contents
        contents.batches.append(view[position : position + header.size])
        position, offset = position + header.size, header.next_offset
        if spent():
            yield None
    if position != len(view):
        contents.damage = f"something follows its end at byte {position}"
    return contents


def _header_at(view: memoryview, position: int, offset: int) -> BatchHeader | None:
    """That of the whole batch which begins there; None where there is none."""
    if len(view) - position < HEADER_SIZE:
        return None
    header = read_header(view, position)
    fits = HEADER_SIZE - BEFORE_LENGTH_COUNTS <= header.batch_length <= len(view) - position - BEFORE_LENGTH_COUNTS
    if not fits or header.magic != MAGIC or header.base_offset != offset or not check_crc(view, position, header):
        return None
    return header


def _control_type(view: memoryview, position: int, header: BatchHeader) -> int:
    """-1 for a batch of data, and for a control batch without a type."""
    try:
        return read_control_type(next(records_of(view, position)).key) if header.is_control else -1
    except (CorruptRecords, StopIteration):
        return -1

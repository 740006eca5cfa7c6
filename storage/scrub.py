"""Looking for damage before a reader meets it: every batch of the older segments is read, its checksum compared.

Rule. Only what is known to be on the disk is looked at: final segments below the recovery point. What is damaged is
entered into its segment (`Segment.damaged`), which keeps readers from it: they get what lies before, and an error where
it begins. Nothing is written, cut or skipped. Reading and checksums are another thread's, a block at a time.

A file that is missing between two others is damage, too, of the segment behind it.

A damage ends where a sound batch begins that its own header does not reach over; where there is none, with its segment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crc32c import crc32c

from protocol.records.batch import ATTRIBUTES_AT, HEADER_SIZE, BatchHeader, read_header
from storage.files import File
from storage.log import BEYOND_ALL_OFFSETS, LogDamaged
from storage.segment_ends import enter_gap, look_at_end
from storage.segments.segment import Segment
from storage.steps import Blocking, Steps

if TYPE_CHECKING:
    from storage.segment_log import SegmentLog

READ_BYTES = 64 << 10


@dataclass(slots=True)
class Scrub:
    """One walk over a log: whom to tell of damage, and how much was read."""

    report: Callable[[LogDamaged], object]
    read_bytes: int = 0


@dataclass(slots=True)
class _Walk:
    """Where the walk over one segment is."""

    position: int
    offset: int
    """What the next batch begins with at least."""
    wrong: tuple[int, int, int] | None = None
    """(position, offset, next offset as its header says) of a batch that is not sound, until a sound one is found."""


def scrub(log: "SegmentLog", work: Scrub) -> Steps[None]:
    """Look at all of a log that is old; gives up where the log is closed meanwhile. Raises `OSError`."""
    for segment in list(log.segments[:-1]):
        end_offset = _end_of(log, segment)
        if log.failed:
            return
        if end_offset is None or not log.start_offset < end_offset <= log.recovery_point:
            continue
        yield from _scrub_segment(log, segment, end_offset, work)


def _end_of(log: "SegmentLog", segment: Segment) -> int | None:
    """Where the offsets of a final segment end; None where it is no longer one of the log's."""
    following = zip(log.segments, log.segments[1:], strict=False)
    return next((later.base_offset for one, later in following if one is segment), None)


def _stands(log: "SegmentLog", segment: Segment) -> bool:
    """Whether a segment may still be read: its topic may be deleted meanwhile, or the segment be replaced."""
    return not log.failed and _end_of(log, segment) is not None


def _scrub_segment(log: "SegmentLog", segment: Segment, end_offset: int, work: Scrub) -> Steps[None]:
    look_at_end(log, segment, end_offset)
    walk = _Walk(0, segment.base_offset)
    while walk.position < segment.size_bytes:
        piece = _Piece(segment.log, walk.position, walk.offset, segment.size_bytes, end_offset, work)
        if not (yield from _stands_after(log, segment, piece.look)):
            return
        for header, crc in piece.checked:
            _looked_at(segment, header, walk, crc, work)
        if piece.first is None:
            _enter(segment, walk.wrong or (walk.position, walk.offset, 0), BEYOND_ALL_OFFSETS, work)
            return
        if not piece.checked:
            crc = yield from _large_batch(log, segment, piece.first, piece.block, walk.position, work)
            if not _stands(log, segment):
                return
            _looked_at(segment, piece.first, walk, crc, work)
    if walk.wrong is not None:
        _enter(segment, walk.wrong, end_offset, work)
    elif walk.offset < end_offset and not log.config.cleanup_compact:
        work.report(enter_gap(log, segment, walk.offset, end_offset))


def _stands_after(log: "SegmentLog", segment: Segment, look: Blocking) -> Steps[bool]:
    """Look on another thread. False where the segment has gone meanwhile: what was seen, or failed, means nothing."""
    try:
        yield look
    except OSError:
        if _stands(log, segment):
            raise
    return _stands(log, segment)


def _large_batch(
    log: "SegmentLog", segment: Segment, header: BatchHeader, block: bytes, position: int, work: Scrub
) -> Steps[int]:
    """The checksum of a batch that is larger than a block."""
    rest = _Rest(segment.log, position + len(block), position + header.size, crc32c(block[ATTRIBUTES_AT:]), work)
    while rest.position < rest.end:
        if not (yield from _stands_after(log, segment, rest.look)):
            break
    return rest.crc


@dataclass(slots=True)
class _Piece:
    """A block of a segment, read and checked on another thread, which touches nothing but this and the count."""

    file: File
    position: int
    offset: int
    size_bytes: int
    end_offset: int
    work: Scrub
    block: bytes = b""
    first: BatchHeader | None = None
    """The header that the block begins with, if there can be such a batch."""
    checked: list[tuple[BatchHeader, int]] = field(default_factory=list)
    """The whole batches of the block, and what their bytes come to."""

    def look(self) -> None:
        block = self.block = self.file.read_apart(self.position, min(READ_BYTES, self.size_bytes - self.position))
        self.work.read_bytes += len(block)
        at, offset = 0, self.offset
        while at + HEADER_SIZE <= len(block):
            header = read_header(block, at)
            if not _is_plausible(header, offset, self.end_offset, self.size_bytes - self.position - at):
                break
            if at == 0:
                self.first = header
            if at + header.size > len(block):
                break
            crc = crc32c(memoryview(block)[at + ATTRIBUTES_AT : at + header.size])
            self.checked.append((header, crc))
            offset = _behind(header, crc)
            at += header.size


@dataclass(slots=True)
class _Rest:
    """The part of a large batch that is still to be read, on another thread."""

    file: File
    position: int
    end: int
    crc: int
    work: Scrub

    def look(self) -> None:
        block = self.file.read_apart(self.position, min(READ_BYTES, self.end - self.position))
        self.work.read_bytes += len(block)
        self.crc = crc32c(block, self.crc)
        self.position = self.position + len(block) if block else self.end


def _behind(header: BatchHeader, crc: int) -> int:
    """What the batch behind begins with at least. How far one reaches is among the bytes that its checksum covers."""
    return header.next_offset if crc == header.crc else header.base_offset + 1


def _is_plausible(header: BatchHeader, offset: int, end_offset: int, room: int) -> bool:
    """Whether there can be such a batch where the next one is to begin with `offset` at least."""
    return (
        header.magic == 2
        and offset <= header.base_offset < end_offset
        and header.last_offset_delta >= 0
        and HEADER_SIZE <= header.size <= room
    )


def _looked_at(segment: Segment, header: BatchHeader, walk: _Walk, crc: int, work: Scrub) -> None:
    """Go on behind a batch whose bytes come to this checksum."""
    if crc != header.crc:
        if walk.wrong is None:
            walk.wrong = (walk.position, walk.offset, header.next_offset)
    else:
        if walk.wrong is not None:
            reaches_over = walk.wrong[2] > header.base_offset
            _enter(segment, walk.wrong, BEYOND_ALL_OFFSETS if reaches_over else header.base_offset, work)
            walk.wrong = None
    walk.offset = _behind(header, crc)
    walk.position += header.size


def _enter(segment: Segment, wrong: tuple[int, int, int], next_offset: int, work: Scrub) -> None:
    work.report(segment.damaged(wrong[0], wrong[1], "a checksum is wrong, or there is no whole batch", next_offset))

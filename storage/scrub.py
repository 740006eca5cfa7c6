"""Looking for damage before a reader meets it: every batch of the older segments is read, its checksum compared.

Rule. Only what is known to be on the disk is looked at: final segments below the recovery point. What is damaged is
entered into its segment (`Segment.damaged`), which keeps readers from it: they get what lies before, and an error where
it begins. Nothing is written, cut or skipped.

A file that is missing between two others is damage, too, of the segment behind it.

A damage ends where a sound batch begins that its own header does not reach over; where there is none, with its segment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crc32c import crc32c

from protocol.records.batch import ATTRIBUTES_AT, HEADER_SIZE, BatchHeader, read_header
from storage.log import BEYOND_ALL_OFFSETS, LogDamaged
from storage.segment_ends import enter_gap, look_at_end
from storage.segments.segment import Segment
from storage.steps import Steps

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
        block = segment.log.read(walk.position, min(READ_BYTES, segment.size_bytes - walk.position))
        work.read_bytes += len(block)
        at = 0
        while at + HEADER_SIZE <= len(block):
            header = read_header(block, at)
            if not _is_plausible(segment, header, walk, end_offset) or at + header.size > len(block):
                break
            _looked_at(segment, header, walk, crc32c(memoryview(block)[at + ATTRIBUTES_AT : at + header.size]), work)
            at += header.size
        if at == 0:
            if len(block) < HEADER_SIZE or not _is_plausible(segment, header := read_header(block), walk, end_offset):
                _enter(segment, walk.wrong or (walk.position, walk.offset, 0), BEYOND_ALL_OFFSETS, work)
                return
            crc = yield from _large_batch(log, segment, header, block, walk.position, work)
            if not _stands(log, segment):
                return
            _looked_at(segment, header, walk, crc, work)
        yield None
        if not _stands(log, segment):
            return
    if walk.wrong is not None:
        _enter(segment, walk.wrong, end_offset, work)
    elif walk.offset < end_offset and not log.config.cleanup_compact:
        gap = enter_gap(log, segment, walk.offset, end_offset)
        if gap is not None:
            work.report(gap)


def _large_batch(
    log: "SegmentLog", segment: Segment, header: BatchHeader, block: bytes, position: int, work: Scrub
) -> Steps[int]:
    """The checksum of a batch that is larger than a block."""
    crc, end = crc32c(memoryview(block)[ATTRIBUTES_AT:]), position + header.size
    position += len(block)
    while block and position < end:
        yield None
        if not _stands(log, segment):
            break
        block = segment.log.read(position, min(READ_BYTES, end - position))
        work.read_bytes += len(block)
        crc = crc32c(block, crc)
        position += len(block)
    return crc


def _is_plausible(segment: Segment, header: BatchHeader, walk: _Walk, end_offset: int) -> bool:
    """Whether there can be such a batch at this place."""
    return (
        header.magic == 2
        and header.base_offset >= walk.offset
        and header.last_offset_delta >= 0
        and header.base_offset < end_offset
        and HEADER_SIZE <= header.size <= segment.size_bytes - walk.position
    )


def _looked_at(segment: Segment, header: BatchHeader, walk: _Walk, crc: int, work: Scrub) -> None:
    """Go on behind a batch whose bytes come to this checksum."""
    if crc != header.crc:
        if walk.wrong is None:
            walk.wrong = (walk.position, walk.offset, header.next_offset)
        walk.offset = header.base_offset + 1  # how far it reaches is among the bytes that the checksum covers
    else:
        if walk.wrong is not None:
            reaches_over = walk.wrong[2] > header.base_offset
            _enter(segment, walk.wrong, BEYOND_ALL_OFFSETS if reaches_over else header.base_offset, work)
            walk.wrong = None
        walk.offset = header.next_offset
    walk.position += header.size


def _enter(segment: Segment, wrong: tuple[int, int, int], next_offset: int, work: Scrub) -> None:
    work.report(segment.damaged(wrong[0], wrong[1], "a checksum is wrong, or there is no whole batch", next_offset))

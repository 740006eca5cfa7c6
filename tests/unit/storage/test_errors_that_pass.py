"""A read or an open that fails once takes nothing away: whoever comes later finds all that was there."""

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from protocol.records.batch import read_header
from storage.log import LogDamaged
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch
from tests.unit.storage.test_damage import CONFIG, again_after, disk_of, filled, open_log

COUNT = 40
CLOSELY_INDEXED = replace(CONFIG, index_interval_bytes=1)


def flip_offsets(content: bytearray) -> None:
    for last in range(7, len(content), 8):
        content[last] ^= 4


def flip_times(content: bytearray) -> None:
    for last in range(11, len(content), 12):
        content[last] ^= 4


def tear(content: bytearray) -> None:
    del content[-1:]


def nothing(content: bytearray) -> None:
    pass


def read_all(log: SegmentLog) -> list[int]:
    """Base offsets of all that a reader is given, one look after the other."""
    found, offset = list[int](), 0
    while offset < log.end_offset:
        read = log.read_slice(offset, 1 << 20, end_offset=log.end_offset)
        for block in map(bytes, read.batches):
            at = 0
            while at < len(block):
                header = read_header(block, at)
                found.append(header.base_offset)
                at += header.size
        assert read.next_offset > offset
        offset = read.next_offset
    return found


def by_time(log: SegmentLog) -> list[object]:
    return [finish(log.offset_for_timestamp(time_ms, end_offset=COUNT)) for time_ms in (9, 10, 14, 19, 20)]


def ages(log: SegmentLog) -> None:
    """What retention goes by."""
    for segment in log.segments:
        assert segment.largest_timestamp[0] >= segment.first_timestamp_ms


def known_of(log: SegmentLog) -> object:
    sizes = [(segment.size_bytes, segment.largest_timestamp[0]) for segment in log.segments]
    return read_all(log), by_time(log), sizes, log.size_bytes


@pytest.mark.parametrize("spoil", [nothing, flip_offsets, flip_times, tear, bytearray.clear])
@pytest.mark.parametrize("use", [read_all, by_time, ages])
@pytest.mark.parametrize("operation", ["read", "open"])
def test_an_error_that_passes_takes_nothing_away(
    operation: str, use: Callable[[SegmentLog], object], spoil: Callable[[bytearray], None]
) -> None:
    """An index that is wrong or torn is made anew while somebody reads, and that may fail half way."""
    log = filled(CLOSELY_INDEXED, COUNT)
    suffix = ".timeindex" if spoil is flip_times else ".index"
    known = known_of(again_after(log, spoil, suffix=suffix))
    met = True
    for at in range(1000):
        again = again_after(log, spoil, suffix=suffix)
        met, files = False, again.files
        assert isinstance(files, SimulatedFiles)
        left = at

        def fault(what: str, path: str) -> OSError | None:
            nonlocal left, met
            if what != operation or met or (left := left - 1) >= 0:
                return None
            met = True
            return OSError(errno.EIO, "bad sector", path)

        files.fault = fault
        with contextlib.suppress(OSError, LogDamaged):
            use(again)
        files.fault = None
        if not met:
            break
        assert known_of(again) == known, f"the {at}th {operation}"
    assert not met and at > 0


def test_an_age_that_cannot_be_read_refuses_no_write() -> None:
    """After a start, of the active segment: it rolls by its age when that can be read."""
    config = replace(CONFIG, segment_bytes=1 << 20, segment_ms=50)
    log = open_log(disk_of(filled(config, 3)), Recovery(recovery_point=3, clean=True), config)
    files = log.files
    assert isinstance(files, SimulatedFiles)
    files.fault = lambda operation, path: OSError(errno.EIO, "bad sector", path) if operation == "read" else None
    assert log.append(batch(100), leader_epoch=9) == 3
    assert len(log.segments) == 1
    files.fault = None
    assert log.append(batch(101), leader_epoch=9) == 4
    assert log.segment_bases() == [0, 4]

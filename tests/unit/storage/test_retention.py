"""Which segments go, when, and what they take along."""

import dataclasses

from storage.log import LogConfig
from storage.recovery import Recovery
from storage.retention import SEGMENTS_PER_SLICE, enforce_retention
from storage.segment_log import SegmentLog
from storage.segments.segment import Segment
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

FOUR_PER_SEGMENT = 4 * len(batch(1))


def open_log(files: SimulatedFiles, count: int, **config: int | bool) -> SegmentLog:
    """`count` batches of one record, record n at time n; four to a segment."""
    settings = LogConfig(segment_bytes=FOUR_PER_SEGMENT, **config)  # type: ignore[arg-type]
    log = SegmentLog.open(files, "t-0", settings, now_ms=lambda: 0, recovery=Recovery())
    for index in range(count):
        log.append(batch(index), leader_epoch=index // 10)
    return log


def freed(log: SegmentLog, now_ms: int) -> None:
    """What is due at that time is unlinked."""
    steps = log.free_space(now_ms)
    assert steps is not None
    finish(steps)


def test_segments_leave_when_their_newest_record_is_too_old() -> None:
    log = open_log(SimulatedFiles(), 14, retention_ms=100)
    assert enforce_retention(log, 103, 14) is False
    assert log.start_offset == 0
    assert enforce_retention(log, 104, 14) is False
    assert (log.start_offset, [segment.base_offset for segment in log.segments]) == (4, [4, 8, 12])
    assert log.epoch_end(0) == (0, 10)


def test_the_active_segment_is_deleted_when_fully_expired() -> None:
    log = open_log(SimulatedFiles(), 14, retention_ms=100)
    enforce_retention(log, 1_000, 14)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (14, 14, 0)
    assert log.append(batch(1), leader_epoch=2) == 14


def test_the_oldest_segments_are_deleted_down_to_the_size_limit() -> None:
    log = open_log(SimulatedFiles(), 14, retention_ms=-1, retention_bytes=FOUR_PER_SEGMENT * 2)
    enforce_retention(log, 10**12, 14)
    assert log.start_offset == 4
    assert log.size_bytes >= FOUR_PER_SEGMENT * 2


def test_nothing_leaves_that_is_not_committed() -> None:
    log = open_log(SimulatedFiles(), 14, retention_ms=0)
    enforce_retention(log, 10**6, 9)
    assert log.start_offset == 8


def test_a_compacted_topic_keeps_all_but_deleted_records() -> None:
    log = open_log(SimulatedFiles(), 14, retention_ms=0, retention_bytes=0, cleanup_delete=False, cleanup_compact=True)
    enforce_retention(log, 10**6, 14)
    assert len(log.segments) == 4
    log.trim(9)
    enforce_retention(log, 10**6, 14)
    assert [segment.base_offset for segment in log.segments] == [8, 12]
    assert log.start_offset == 9


def test_a_large_backlog_leaves_in_slices() -> None:
    log = open_log(SimulatedFiles(), 4 * 40, retention_ms=0)
    more, slices = True, 0
    while more:
        before = len(log.segments)
        more = enforce_retention(log, 10**6, 160)
        assert before - len(log.segments) <= SEGMENTS_PER_SLICE
        slices += 1
    assert (slices, log.start_offset) == (3, 160)


def test_files_are_renamed_first_and_unlinked_after_the_delay() -> None:
    """With everything that bears the segment's name: aborted index and producer snapshot go along."""
    files = SimulatedFiles()
    log = open_log(files, 8, retention_ms=3, file_delete_delay_ms=60_000)
    for suffix in (".txnindex", ".snapshot"):
        files.open(f"t-0/00000000000000000000{suffix}", create=True)
    enforce_retention(log, 7, 8)
    renamed = [name for name in files.list("t-0") if name.startswith("00000000000000000000")]
    suffixes = [".index", ".log", ".snapshot", ".timeindex", ".txnindex"]
    assert renamed == [f"00000000000000000000{suffix}.deleted" for suffix in suffixes]
    assert log.free_space(8) is None and len(log.disposal) == 1
    freed(log, 60_000)
    assert not [name for name in files.list("t-0") if name.endswith(".deleted")]


def test_a_file_is_not_unlinked_during_a_flush() -> None:
    files = SimulatedFiles()
    log = open_log(files, 8, retention_ms=3, file_delete_delay_ms=0)
    flush = log.begin_flush()
    assert flush is not None
    enforce_retention(log, 7, 8)
    assert any(name.endswith(".deleted") for name in files.list("t-0"))
    flush.run()
    log.finish_flush(flush)
    freed(log, 7)
    assert not any(name.endswith(".deleted") for name in files.list("t-0"))


def test_what_retention_deleted_stays_deleted_over_a_restart() -> None:
    files = SimulatedFiles()
    log = open_log(files, 14, retention_ms=100)
    enforce_retention(log, 106, 14)
    again = open_log(files.kill(), 0)
    assert (again.start_offset, again.end_offset) == (4, 14)


def test_a_replacement_takes_the_place_of_its_source_segments() -> None:
    """And a kill between its two steps is finished at the next start."""
    files = SimulatedFiles()
    log = open_log(files, 14)
    kept = b"".join(log.read(offset, 1, end_offset=14)[0] for offset in (1, 7))
    swap = "t-0/00000000000000000000.log.swap"
    files.open(swap, create=True).append([kept])
    killed = files.kill()

    def install(now_ms: int) -> Segment:
        files.rename(swap, swap.removesuffix(".swap"))
        return Segment(files, "t-0", 0, log.config, created_ms=now_ms).open_indexes()

    log.replace_segments(range(0, 2), install)
    again = open_log(killed, 0)
    for compacted in (log, again):
        assert [segment.base_offset for segment in compacted.segments] == [0, 8, 12]
        assert b"".join(compacted.read(0, len(kept), end_offset=14)) == kept
        assert [header.base_offset for header, _ in compacted.replay(0)] == [1, 7, *range(8, 14)]
        found = finish(compacted.offset_for_timestamp(5, end_offset=14))
        assert found is not None and found.offset == 7


def test_due_files_are_not_unlinked_during_a_flush() -> None:
    """Its delay may end, and a round of retention come, in the middle of a sync: that would find no file."""
    files = SimulatedFiles()
    log = open_log(files, 20, retention_ms=10, file_delete_delay_ms=5)
    log.flush_now()
    enforce_retention(log, 1_000_000, log.end_offset)
    log.append(batch(1_000_000), leader_epoch=0)
    waiting = len(log.disposal)
    flush = log.begin_flush()
    assert waiting and flush is not None
    freed(log, 2_000_000)
    assert len(log.disposal) == waiting
    flush.run()
    log.finish_flush(flush)
    freed(log, 2_000_000)
    assert len(log.disposal) == 0


def test_without_a_delay_files_go_at_once() -> None:
    files = SimulatedFiles()
    log = open_log(files, 14, retention_ms=100, file_delete_delay_ms=0)
    enforce_retention(log, 104, 14)
    assert log.start_offset == 4
    assert not [name for name in files.list("t-0") if name.startswith("0" * 20) or name.endswith(".deleted")]


def test_a_deleted_log_gives_up_nothing() -> None:
    """Its folder has another name, and another topic may have its old one."""
    files = SimulatedFiles()
    log = open_log(files, 14, retention_ms=0)
    log.abandon()
    names = files.list("t-0")
    assert enforce_retention(log, 10**6, 14) is False
    assert files.list("t-0") == names


def test_a_long_delay_of_one_file_holds_up_no_other() -> None:
    """The delay may be shortened by a setting, or the clock be set back."""
    files = SimulatedFiles()
    log = open_log(files, 14, retention_ms=-1, file_delete_delay_ms=1 << 60)
    log.remove_oldest(1)
    log.configure(dataclasses.replace(log.config, file_delete_delay_ms=50))
    log.remove_oldest(1)
    assert log.free_space(49) is None
    freed(log, 50)
    left = [name for name in files.list("t-0") if name.endswith(".log.deleted")]
    assert left == [f"{0:020d}.log.deleted"] and log.free_space(50) is None
    freed(log, 1 << 60)
    assert not [name for name in files.list("t-0") if name.endswith(".deleted")]

"""The log on disk, one behaviour at a time."""

import errno

import pytest

from protocol.records.batch import read_header
from storage.epochs import EpochCache
from storage.log import LogClosed, LogConfig, OffsetOutOfRange, StorageFailed
from storage.memory_log import MemoryLog
from storage.read_hints import HINTS, ReadHints
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment import INDEX_BEHIND_BYTES
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch, batches_of
from tests.unit.storage.exact_appends import append_exactly

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)
NOTHING_KNOWN = Recovery()


def open_log(files: SimulatedFiles, config: LogConfig = SMALL, recovery: Recovery = NOTHING_KNOWN) -> SegmentLog:
    return SegmentLog.open(files, "t-0", config, now_ms=lambda: 1_000, recovery=recovery)


class Heard:
    """An observer that writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def segment_rolled(self, base_offset: int) -> None:
        self.events.append(("rolled", base_offset))

    def truncated(self, end_offset: int) -> None:
        self.events.append(("truncated", end_offset))

    def trimmed(self, start_offset: int) -> None:
        self.events.append(("trimmed", start_offset))

    def checkpoint_due(self, offset: int) -> None:
        self.events.append(("checkpoint", offset))

    def checkpoint_begins(self, *, closing: bool) -> None:
        return None

    def checkpoint_ended(self) -> None:
        return None


def test_an_append_sets_only_offset_and_epoch_of_each_batch() -> None:
    log = open_log(SimulatedFiles())
    written = batch(1, 2, 3) + batch(4)
    assert log.append(written, leader_epoch=7) == 0
    assert log.append(batch(5, 6), leader_epoch=8) == 4
    read = b"".join(log.read(0, 1 << 20, end_offset=6))
    first, second, third = read_header(read), read_header(read, len(batch(1, 2, 3))), read_header(read, len(written))
    assert [h.base_offset for h in (first, second, third)] == [0, 3, 4]
    assert [h.leader_epoch for h in (first, second, third)] == [7, 7, 8]
    assert read[16 : first.size] == written[16 : first.size]
    assert (log.end_offset, log.latest_epoch()) == (6, 8)


def test_a_read_inside_a_batch_returns_the_whole_batch() -> None:
    log = open_log(SimulatedFiles())
    log.append(batch(1, 2, 3) + batch(4, 5), leader_epoch=0)
    found = log.read(1, 1 << 20, end_offset=3)
    assert [read_header(part).base_offset for part in found] == [0]
    assert log.read(4, 10, end_offset=5, at_least_one=False) == []
    assert read_header(log.read(4, 10, end_offset=5)[0]).base_offset == 3


def test_reads_outside_the_log_fail_and_end_reads_are_empty() -> None:
    log = open_log(SimulatedFiles())
    log.append(batches_of(5), leader_epoch=0)
    log.trim(2)
    for offset in (1, 6):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, end_offset=5)
    assert log.read(5, 100, end_offset=5) == []
    assert log.read(3, 100, end_offset=2) == []


def test_a_segment_rolls_by_size_time_and_full_index() -> None:
    by_size = open_log(SimulatedFiles())
    for _ in range(12):
        by_size.append(batch(1), leader_epoch=0)
    assert len(by_size.segments) > 1
    assert all(segment.size_bytes <= 500 for segment in by_size.segments)

    by_time = open_log(SimulatedFiles(), LogConfig(segment_ms=100))
    heard = Heard()
    by_time.observe(heard)
    for timestamp_ms in (1_000, 1_100, 1_101, 1_150):
        by_time.append(batch(timestamp_ms), leader_epoch=0)
    assert heard.events == [("rolled", 2)]

    by_index = open_log(SimulatedFiles(), LogConfig(segment_index_bytes=24, index_interval_bytes=1))
    for timestamp_ms in range(10):
        by_index.append(batch(timestamp_ms), leader_epoch=0)
    assert [segment.base_offset for segment in by_index.segments] == [0, 3, 6, 9]


def test_a_segment_rolls_before_a_relative_offset_no_longer_fits() -> None:
    log = open_log(SimulatedFiles(), LogConfig())
    log.append(batch(1), leader_epoch=0)
    far = bytearray(batch(1))
    far[0:8] = (1 << 31).to_bytes(8, "big")
    append_exactly(log, far)
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


def test_only_a_flush_makes_earlier_writes_durable() -> None:
    log = open_log(SimulatedFiles())
    log.append(batch(1), leader_epoch=0)
    assert log.durable_offset == 0
    flush = log.begin_flush()
    assert flush is not None
    log.append(batch(2), leader_epoch=0)
    flush.run()
    assert log.durable_offset == 0
    log.finish_flush(flush)
    assert (log.durable_offset, log.end_offset) == (1, 2)
    assert log.flush_now() == 2
    assert log.begin_flush() is None


def test_rewrites_during_a_flush_are_not_durable_by_it() -> None:
    log = open_log(SimulatedFiles())
    log.append(batches_of(4), leader_epoch=0)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate(1)
    log.append(batches_of(3), leader_epoch=1)
    flush.run()
    log.finish_flush(flush)
    assert log.durable_offset == 1


def test_a_flush_syncs_logs_before_folders() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(1), leader_epoch=0)
    log.flush_now()
    assert files.syncs == ["t-0/00000000000000000000.log", "", "t-0"]


def test_a_full_disk_truncates_the_log_and_stops_writes() -> None:
    """A short write: what was half written goes, what was there stays, and the failure is final."""
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(1), leader_epoch=0)
    size = log.segments[0].log.size()
    files.capacity_bytes = sum(files.open(f"t-0/{name}").size() for name in files.list("t-0")) + 30
    with pytest.raises(StorageFailed):
        log.append(batch(2), leader_epoch=0)
    assert log.segments[0].log.size() == size
    assert log.end_offset == 1
    files.capacity_bytes = None
    for refused in (lambda: log.append(batch(3), leader_epoch=0), log.flush_now, lambda: log.truncate(0)):
        with pytest.raises(StorageFailed):
            refused()
    log.close()
    again = open_log(files.kill(), recovery=Recovery(same_boot=True))
    assert again.end_offset == 1


def test_a_failed_sync_is_final() -> None:
    """fsync reports an error once: going on would acknowledge what is lost."""
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(1), leader_epoch=0)
    files.fault = lambda operation, _: OSError(errno.EIO, "broken") if operation == "sync" else None
    flush = log.begin_flush()
    assert flush is not None
    with pytest.raises(OSError, match="broken"):
        flush.run()
    files.fault = None
    with pytest.raises(StorageFailed):
        log.begin_flush()
    with pytest.raises(StorageFailed):
        log.append(batch(2), leader_epoch=0)
    assert log.durable_offset == 0


@pytest.mark.parametrize("name", [".log", ".index", ".timeindex"])
def test_a_failed_roll_is_final(name: str) -> None:
    files = SimulatedFiles()
    log = open_log(files)

    def no_more(operation: str, path: str) -> OSError | None:
        return OSError(errno.EMFILE, "no more files") if operation == "open" and path.endswith(name) else None

    files.fault = no_more
    with pytest.raises(StorageFailed, match="no more files"):
        for _ in range(20):
            log.append(batch(1), leader_epoch=-1)
    assert log.failed


def test_checkpoints_come_by_batches_and_rolls() -> None:
    log = open_log(SimulatedFiles(), LogConfig())
    heard = Heard()
    log.observe(heard)
    thousand = batches_of(1_000)
    for _ in range(51):
        log.append(thousand, leader_epoch=0)
    assert heard.events == [("checkpoint", 50_000)]
    assert log.checkpoint_wanted
    log.flush_now()
    assert log.recovery_point == 51_000
    log.append(batch(1), leader_epoch=0)
    log.flush_now()
    assert (log.recovery_point, log.durable_offset) == (51_000, 51_001)


def test_epochs_answer_as_kafka_does() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    assert log.epoch_end(0) == (-1, -1)
    for epoch in (2, 2, 5):
        log.append(batches_of(2), leader_epoch=epoch)
    expected = {0: (0, 0), 1: (1, 0), 2: (2, 4), 3: (2, 4), 4: (2, 4), 5: (5, 6), 6: (-1, -1), -1: (-1, -1)}
    assert {epoch: log.epoch_end(epoch) for epoch in expected} == expected
    written = files.open("t-0/leader-epoch-checkpoint").read(0, 100)
    assert written == b"0\n2\n2 0\n5 4\n"
    log.truncate(4)
    assert (log.latest_epoch(), log.epoch_end(2)) == (2, (2, 4))
    log.trim(3)
    assert files.open("t-0/leader-epoch-checkpoint").read(0, 100) == b"0\n1\n2 3\n"


def test_a_lookup_by_time_finds_the_record_within_its_batch() -> None:
    log = open_log(SimulatedFiles())
    log.append(batch(10, 30, 20), leader_epoch=1)
    log.append(batch(25, 40), leader_epoch=2)
    for timestamp_ms in range(50, 90):
        log.append(batch(timestamp_ms), leader_epoch=3)
    found = {ms: finish(log.offset_for_timestamp(ms, end_offset=45)) for ms in (0, 11, 30, 31, 50, 77, 90)}
    offsets = {ms: None if answer is None else (answer.offset, answer.timestamp_ms) for ms, answer in found.items()}
    assert offsets == {0: (0, 10), 11: (1, 30), 30: (1, 30), 31: (4, 40), 50: (5, 50), 77: (32, 77), 90: None}
    assert finish(log.offset_for_timestamp(77, end_offset=32)) is None
    log.trim(2)
    trimmed = finish(log.offset_for_timestamp(0, end_offset=45))
    assert trimmed is not None and (trimmed.offset, trimmed.leader_epoch) == (2, 1)


def test_the_largest_timestamp_belongs_to_its_first_record() -> None:
    """KIP-734; a record that was deleted from the beginning no longer counts."""
    log = open_log(SimulatedFiles())
    assert finish(log.max_timestamp()) is None
    log.append(batch(5, 99, 7) + batch(99, 1), leader_epoch=0)
    for timestamp_ms in range(60, 80):
        log.append(batch(timestamp_ms), leader_epoch=0)
    newest = finish(log.max_timestamp())
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (1, 99)
    log.trim(4)
    newest = finish(log.max_timestamp())
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (24, 79)


def test_a_log_deleted_during_a_flush_is_no_failure() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(1), leader_epoch=0)
    flush = log.begin_flush()
    assert flush is not None
    log.abandon()
    files.rename("t-0", "t-0.0123-delete")
    flush.run()
    log.finish_flush(flush)
    assert not flush.failed


def test_a_deleted_log_leaves_no_open_business() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(1), leader_epoch=0)
    log.abandon()
    with pytest.raises(LogClosed):
        log.append(batch(1), leader_epoch=0)
    files.rename("t-0", "t-0.0123-delete")
    files.delete_folder("t-0.0123-delete")
    assert files.list("") == []


@pytest.mark.parametrize("name", [".index", ".timeindex"])
def test_records_are_read_though_their_index_found_no_room(name: str) -> None:
    """The log takes no more; what was acknowledged before is still served, wherever a reader begins."""
    files = SimulatedFiles()
    log = open_log(files)

    def full(operation: str, path: str) -> None:
        if operation == "append" and path.endswith(name):
            raise OSError(errno.ENOSPC, "no room")

    files.watcher = full
    with pytest.raises(StorageFailed):
        for index in range(50):
            log.append(batch(index), leader_epoch=0)
    kept = log.end_offset
    assert kept > 3
    for offset in range(kept):
        (first, *_) = log.read(offset, 1 << 20, end_offset=kept)
        assert read_header(first).base_offset == offset


def test_an_index_is_written_now_and_then() -> None:
    """What is behind is made anew at a start: it must not be much, and each time costs a call of the system."""
    files = SimulatedFiles()
    log = open_log(files, LogConfig(index_interval_bytes=100))
    written: list[str] = []

    def watch(_: str, path: str) -> None:
        if path.endswith(".index"):
            written.append(path)

    files.watcher = watch
    for index in range(100):
        log.append(batch(index), leader_epoch=0)
    assert written == []
    log.append(batch(1, value=bytes(INDEX_BEHIND_BYTES)), leader_epoch=0)
    assert written


@pytest.mark.parametrize("window", [28, 61, 100, 150])
def test_what_is_sent_from_the_file_ends_where_what_is_read_does(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers are looked at in windows, whose ends lie anywhere within one."""
    monkeypatch.setattr("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 1)
    monkeypatch.setattr("storage.segments.segment_reading.LOCATE_BYTES", window)
    log = open_log(SimulatedFiles(), LogConfig(index_interval_bytes=1 << 20))
    for index in range(12):
        log.append(batch(*[1] * (index % 3 + 1), value=b"v" * (7 * index)), leader_epoch=0)
    for offset in range(log.end_offset):
        for max_bytes in range(1, 700, 23):
            for end_offset in (log.end_offset, log.end_offset - 2):
                read, sent = (
                    log.read_slice(offset, max_bytes, end_offset=end_offset, to_send=to_send)
                    for to_send in (False, True)
                )
                assert sent.next_offset == read.next_offset


@pytest.mark.parametrize("read_bytes", [61, 100, 150, 400, 1 << 20])
def test_batches_are_whole_wherever_a_read_of_the_file_ends(read_bytes: int) -> None:
    log = open_log(SimulatedFiles(), LogConfig())
    for index in range(12):
        log.append(batch(1, value=b"v" * (17 * index)), leader_epoch=0)
    found = [*log.active.batches(0, check=True, read_bytes=read_bytes)]
    assert [header.base_offset for _, header, _ in found] == list(range(12))
    assert b"".join(raw for _, _, raw in found) == b"".join(log.read(0, 1 << 20, end_offset=12))


@pytest.mark.parametrize("left", [0, 30])
def test_batches_end_where_the_file_was_cut_meanwhile(left: int) -> None:
    """Compaction reads in steps."""
    log = open_log(SimulatedFiles(), LogConfig())
    log.append(batches_of(4), leader_epoch=0)
    found = log.active.batches(0, read_bytes=len(batches_of(1)))
    position, header, _ = next(found)
    log.active.log.truncate(position + header.size + left)
    assert [*found] == []


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_log_is_not_trimmed_beyond_its_end(in_memory: bool) -> None:
    log = MemoryLog() if in_memory else open_log(SimulatedFiles())
    log.append(batches_of(4), leader_epoch=0)
    with pytest.raises(OffsetOutOfRange):
        log.trim(5)
    log.trim(2)
    log.trim(1)
    assert (log.start_offset, log.end_offset) == (2, 4)


def test_places_to_go_on_at_are_kept_of_a_bounded_number_of_readers() -> None:
    hints = ReadHints()
    for offset in range(3 * HINTS):
        hints.keep(offset, 0, 10 * offset)
        assert hints.get(offset) == (0, 10 * offset)
    assert sum(hints.get(offset) is not None for offset in range(3 * HINTS)) <= HINTS


def test_batches_without_an_epoch_make_none() -> None:
    """KIP-101: -1 says that it is not known. A start that reads all headers finds no epoch, either."""
    files = SimulatedFiles()
    open_log(files).append(batches_of(4), leader_epoch=-1)
    log = open_log(files.kill())
    assert (log.end_offset, log.latest_epoch(), log.epoch_end(-1)) == (4, -1, (-1, -1))
    assert EpochCache().assign(-1, 0) is False

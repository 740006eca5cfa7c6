"""What a disk refuses while something is being changed: who asked is told, and nothing goes on as if it were done."""

import errno
from random import Random

import pytest

from storage.data_folder import DataFolder
from storage.log import LogConfig, StorageFailed
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment import roll_age_ms
from storage.segments.segment_format import OFFSET_ENTRY
from storage.segments.sparse_index import SparseIndex
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch, batches_of

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def open_log(files: SimulatedFiles, config: LogConfig = SMALL) -> SegmentLog:
    return SegmentLog.open(files, "t-0", config, now_ms=lambda: 1_000, recovery=Recovery())


def refuse(files: SimulatedFiles, operation: str, ending: str) -> None:
    files.fault = lambda what, path: (
        OSError(errno.EIO, "bad sector", path) if what == operation and path.endswith(ending) else None
    )


@pytest.mark.parametrize(
    ("operation", "name"), [("open", ".log"), ("open", ".index"), ("rename", ""), ("sync", ".log")]
)
def test_a_truncation_that_fails_is_final(operation: str, name: str) -> None:
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batches_of(4), leader_epoch=0)
    refuse(files, operation, name)
    with pytest.raises(StorageFailed, match="bad sector"):
        log.truncate(0)
    files.fault = None
    with pytest.raises(StorageFailed):
        log.append(batch(1), leader_epoch=0)


def test_what_could_not_be_cut_off_is_still_read() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batches_of(4), leader_epoch=0)
    before = log.read(0, 1 << 20, end_offset=4)
    refuse(files, "truncate", ".log")
    with pytest.raises(StorageFailed, match="bad sector"):
        log.truncate(2)
    files.fault = None
    assert (log.end_offset, log.size_bytes, log.active.largest_timestamp) == (4, sum(map(len, before)), (4, 3))
    assert log.read(0, 1 << 20, end_offset=4) == before
    assert log.read(3, 1, end_offset=4) == [before[0][-len(batch(1)) :]]


def test_epochs_that_cannot_be_written_end_the_log() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    refuse(files, "append", "leader-epoch-checkpoint.new")
    with pytest.raises(StorageFailed, match="bad sector"):
        log.append(batch(1), leader_epoch=3)
    files.fault = None
    with pytest.raises(StorageFailed):
        log.append(batch(1), leader_epoch=3)


def test_a_flush_that_cannot_begin_is_final() -> None:
    """What waits of the indexes is written on the loop's thread, when a checkpoint is taken."""
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batches_of(4, 100), leader_epoch=0)
    refuse(files, "append", ".index")
    with pytest.raises(StorageFailed, match="bad sector"):
        log.flush_now(closing=True)
    files.fault = None
    with pytest.raises(StorageFailed):
        log.begin_flush()
    assert log.durable_offset == 0


def test_segments_that_cannot_be_moved_away_end_the_log() -> None:
    """Retention: half of the files of a segment may have another name by then."""
    files = SimulatedFiles()
    log = open_log(files)
    while len(log.segments) < 4:
        log.append(batch(1), leader_epoch=0)
    refuse(files, "rename", ".index")
    with pytest.raises(StorageFailed, match="bad sector"):
        log.remove_oldest(2)
    assert log.failed


def test_an_index_that_cannot_be_cut_counts_what_its_file_has() -> None:
    files = SimulatedFiles()
    index = SparseIndex(files.open("index", create=True), OFFSET_ENTRY, max_bytes=1 << 10)
    for number in range(10):
        index.append(number, number)
    index.write_out()
    index.append(10, 10)
    refuse(files, "truncate", "index")
    with pytest.raises(OSError, match="bad sector"):
        index.keep_below(0, 4)
    assert len(index) == 10 and index.floor(0, 20) == (9, 9)


@pytest.mark.parametrize("seed", range(3))
def test_a_refused_word_of_distrust_is_said(seed: int) -> None:
    """The caller then leaves the mark of the clean shutdown away, and says that a power cut may take records."""
    files = SimulatedFiles()
    DataFolder(files, boot_id="b").recovered()
    folder = DataFolder(files := files.kill(), boot_id="b")
    refuse(files, "write_at", "tallystick.trust")
    assert folder.distrust() is False
    files.fault = None
    assert folder.distrust() is True
    folder.recovered()
    folder.close_cleanly()
    assert DataFolder(files.crash(Random(seed)), boot_id="b").clean is False
    assert DataFolder(files.kill(), boot_id="b").distrusted is True


def test_trust_that_cannot_be_written_down_is_none() -> None:
    files = SimulatedFiles()
    DataFolder(files, boot_id="b").distrust()
    folder = DataFolder(files := files.kill(), boot_id="b")
    refuse(files, "write_at", "tallystick.trust")
    with pytest.raises(OSError, match="bad sector"):
        folder.recovered()
    assert folder.distrusted


def test_every_segment_rolls_with_a_share_of_its_own() -> None:
    config = LogConfig(segment_ms=1_000, segment_jitter_ms=900)
    log = open_log(SimulatedFiles(), config)
    began, expected = 0, [0]
    for timestamp_ms in range(0, 6_000, 10):
        if timestamp_ms - began > roll_age_ms(config, "t-0", expected[-1]):
            began = timestamp_ms
            expected.append(log.end_offset)
        log.append(batch(timestamp_ms), leader_epoch=0)
    assert log.segment_bases() == expected
    log.configure(LogConfig(segment_ms=1))
    log.append(batch(began + 2), leader_epoch=0)
    assert log.segment_bases() == [*expected, log.end_offset - 1], "from now on"
    assert len({roll_age_ms(config, "t-0", base) for base in expected}) > 3


@pytest.mark.parametrize("stays", [False, True])
def test_of_an_append_that_failed_nothing_counts(stays: bool) -> None:
    """The second of its batches found no room for its entry; where the tear cannot be cut off, it is not looked at."""
    files = SimulatedFiles()
    log = open_log(files, LogConfig(index_interval_bytes=1))
    log.append(batch(1), leader_epoch=0)
    size_bytes, held = log.size_bytes, len(log.active.offset_index)

    def refused(operation: str, path: str) -> OSError | None:
        at_fault = operation == "append" and path.endswith(".index")
        return OSError(errno.EIO, "bad sector") if at_fault or (stays and operation == "truncate") else None

    files.fault = refused
    with pytest.raises(StorageFailed, match="bad sector"):
        log.append(batches_of(100), leader_epoch=0)
    files.fault = None
    assert (log.size_bytes, log.end_offset) == (size_bytes, 1)
    assert (log.active.log.size() > size_bytes) is stays
    assert held < len(log.active.offset_index)
    assert [bytes(part) for part in log.read(0, 1 << 20, end_offset=1)] == [log.active.log.read(0, size_bytes)]
    again = open_log(files.kill(), LogConfig(index_interval_bytes=1))
    assert again.end_offset >= 1


def test_an_index_that_found_no_room_or_cannot_be_emptied_counts_what_its_file_has() -> None:
    files = SimulatedFiles()
    index = SparseIndex(files.open("index", create=True), OFFSET_ENTRY, max_bytes=1 << 10)
    index.append(1, 1)
    index.write_out()
    index.append(2, 2)
    for operation, work in (("append", index.write_out), ("truncate", index.clear)):
        refuse(files, operation, "index")
        with pytest.raises(OSError, match="bad sector"):
            work()
        assert index.floor(0, 1) == (1, 1)
        assert len(index) == (2 if operation == "append" else 1)

"""A log at its limits: to the byte, the millisecond and the offset; and what each of its flushes syncs."""

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest

from storage.checkpoints import write_partition_metadata
from storage.epochs import EPOCHS_FILE, highest_epoch
from storage.flushing import Unsynced
from storage.log import Log, LogConfig
from storage.lookup import _largest
from storage.memory_log import MemoryLog
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment import Segment, roll_age_ms
from storage.segments.segment_format import LARGEST_RELATIVE_OFFSET
from storage.segments.segment_reading import LEFT_IN_FILE_BYTES
from storage.steps import finish, never
from tests.harness.disk import SimulatedFile
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch, batches_of

ONE = len(batch(1))
FIRST = f"t-0/{0:020d}"
BOTH_LOGS = pytest.mark.parametrize("in_memory", [False, True])


def open_log(files: SimulatedFiles, config: LogConfig | None = None) -> SegmentLog:
    return SegmentLog.open(files, "t-0", config or LogConfig(), now_ms=lambda: 1_000, recovery=Recovery())


def either(in_memory: bool) -> Log:
    return MemoryLog() if in_memory else open_log(SimulatedFiles())


class Told:
    """An observer of checkpoints."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def segment_rolled(self, base_offset: int) -> None: ...

    def truncated(self, end_offset: int) -> None: ...

    def trimmed(self, start_offset: int) -> None: ...

    def checkpoint_due(self, offset: int) -> None:
        self.events.append(("due", offset))

    def checkpoint_begins(self, *, closing: bool) -> Callable[[], None]:
        self.events.append(("begins", closing))
        return lambda: self.events.append("written down")

    def checkpoint_ended(self) -> None:
        self.events.append("ended")


def test_a_segment_takes_what_fits_to_the_byte() -> None:
    """Also once it was configured anew."""
    log = open_log(SimulatedFiles(), LogConfig(segment_bytes=2 * ONE))
    for _ in range(3):
        log.append(batch(1), leader_epoch=0)
    assert log.segment_bases() == [0, 2]
    log.configure(LogConfig(segment_bytes=3 * ONE))
    for _ in range(3):
        log.append(batch(1), leader_epoch=0)
    assert log.segment_bases() == [0, 2, 5]
    log.append(batch(1, value=bytes(4 * ONE)), leader_epoch=0)
    assert [segment.size_bytes > 3 * ONE for segment in log.segments] == [False, False, False, True]


def test_a_segment_is_as_old_as_its_first_batch_says() -> None:
    """Of one that was cut to nothing the next batch is the first."""
    log = open_log(SimulatedFiles(), LogConfig(segment_ms=100))
    for _ in range(2):
        log.append(batch(1_000, 1_000), leader_epoch=0)
    log.truncate(1)
    assert (log.end_offset, log.active.first_timestamp_ms) == (0, -1)
    for timestamp_ms in (2_000, 2_100, 2_101):
        log.append(batch(timestamp_ms), leader_epoch=0)
    assert log.segment_bases() == [0, 2]
    assert [segment.first_timestamp_ms for segment in log.segments] == [2_000, 2_101]


def test_a_segment_rolls_after_its_time_less_a_share_of_the_jitter() -> None:
    """KIP-354: not later than max.compaction.lag.ms where it is compacted."""
    config = LogConfig(segment_ms=1_000, max_compaction_lag_ms=300)
    assert roll_age_ms(config, "t-0", 0) == 1_000
    assert roll_age_ms(replace(config, cleanup_compact=True), "t-0", 0) == 300
    assert roll_age_ms(replace(config, cleanup_compact=True, max_compaction_lag_ms=0), "t-0", 0) == 1_000
    shares = {1_000 - roll_age_ms(replace(config, segment_jitter_ms=2), "t-0", base) for base in range(40)}
    assert shares == {0, 1}


def test_a_batch_too_far_from_the_beginning_of_its_file_is_none() -> None:
    """Its offset would not fit into an index."""
    for relative, found in ((LARGEST_RELATIVE_OFFSET, 2), (LARGEST_RELATIVE_OFFSET + 1, 1)):
        files = SimulatedFiles()
        files.make_folder("t-0")
        segment = Segment(files, "t-0", 1 << 31, LogConfig(), created_ms=0)
        for offset in (1 << 31, (1 << 31) + relative):
            segment.log.append([offset.to_bytes(8, "big") + batch(1)[8:]])
        assert [position for position, _, _ in segment.batches(0)] == [0, ONE][:found]


def test_a_new_segment_costs_no_more_than_its_three_files() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(1), leader_epoch=-1)
    made: list[tuple[str, str]] = []

    def watch(operation: str, path: str) -> None:
        if not operation.startswith("after "):
            made.append((operation, path.rpartition(".")[2]))

    files.watcher = watch
    log.roll()
    assert made == [("append", "timeindex"), ("create", "log"), ("create", "index"), ("create", "timeindex")]


def test_a_flush_syncs_what_is_new_and_nothing_twice() -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    write_partition_metadata(files, "t-0", bytes(16))
    log = open_log(files)
    log.append(batch(1), leader_epoch=3)

    def synced() -> list[str]:
        files.syncs.clear()
        log.flush_now()
        return files.syncs

    assert synced() == [f"{FIRST}.log", "t-0/partition.metadata", "", "t-0"]
    log.append(batch(1), leader_epoch=3)
    assert not log.checkpoint_wanted
    assert synced() == [f"{FIRST}.log"]
    log.roll()
    assert log.checkpoint_wanted
    log.append(batch(1), leader_epoch=3)
    second = f"t-0/{2:020d}"
    indexes = [f"{segment}.{name}" for segment in (FIRST, second) for name in ("index", "timeindex")]
    assert synced() == [f"{FIRST}.log", f"{second}.log", *indexes, f"t-0/{EPOCHS_FILE}", "t-0"]
    log.append(batch(1), leader_epoch=4)
    assert synced() == [f"{second}.log"], "epochs wait for a checkpoint"
    assert not log.checkpoint_wanted
    log.append(batch(1), leader_epoch=4)
    log.roll()
    log.roll()
    log.remove_oldest(2)
    third = f"t-0/{5:020d}"
    assert synced() == [f"{third}.index", f"{third}.timeindex", f"t-0/{EPOCHS_FILE}", "t-0"]
    assert synced() == []
    log.append(batch(1), leader_epoch=4)
    log.roll()
    indexes = [f"t-0/{base:020d}.{name}" for base in (5, 6) for name in ("index", "timeindex")]
    assert synced() == [f"{third}.log", *indexes, "t-0"]


@pytest.mark.parametrize("what", ["wrote", "indexed", "epochs", "checkpoint", "behind", ""])
def test_a_log_is_closed_with_a_checkpoint_where_anything_is_unsynced(what: str) -> None:
    """One that is empty, or was only read, has nothing to be synced."""
    log = open_log(SimulatedFiles())
    unsynced = Unsynced([])
    if what in ("wrote", "indexed"):
        getattr(unsynced, what)(log.active)
    elif what in ("epochs", "checkpoint"):
        setattr(unsynced, what, True)
    unsynced.want_checkpoint(log.active, behind=what == "behind")
    assert (bool(unsynced), unsynced.checkpoint) == (bool(what), bool(what))


def test_observers_are_asked_at_checkpoints_alone() -> None:
    log, told = open_log(SimulatedFiles()), Told()
    log.observe(told)
    log.append(batch(1), leader_epoch=0)
    log.flush_now()
    assert told.events == []
    log.roll()
    log.append(batch(1), leader_epoch=0)
    log.flush_now()
    assert told.events == [("begins", False), "written down", "ended"]
    log.append(batch(1), leader_epoch=0)
    log.flush_now(closing=True)
    assert told.events[3:] == [("begins", True), "written down", "ended"]


@BOTH_LOGS
def test_a_checkpoint_is_due_by_batches_or_by_bytes(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before what comes behind the limit."""
    for module in ("storage.segment_log", "storage.memory_log"):
        monkeypatch.setattr(f"{module}.CHECKPOINT_BATCHES", 10)
        monkeypatch.setattr(f"{module}.CHECKPOINT_BYTES", 20 * ONE)
    log, told = either(in_memory), Told()
    log.observe(told)
    for count in (4, 5, 1, 1, 9):
        log.append(batches_of(count), leader_epoch=0)
    assert told.events == [("due", 10)]
    log.append(batches_of(1), leader_epoch=0)
    assert told.events == [("due", 10), ("due", 20)]
    for size_bytes in (10, 8, 1):
        log.append(batch(1, value=bytes((size_bytes - 1) * ONE)), leader_epoch=0)
    assert told.events[2:] == [] and log.end_offset == 24
    log.append(batch(1), leader_epoch=0)
    assert told.events[2:] == [("due", 24)]


@BOTH_LOGS
def test_a_batch_is_read_once_all_of_it_is_below_the_end(in_memory: bool) -> None:
    log = either(in_memory)
    log.append(batch(1, 2) + batch(3, 4), leader_epoch=0)
    found = [log.read_slice(0, 1 << 20, end_offset=end_offset) for end_offset in range(5)]
    assert [(sum(map(len, one.batches)), one.next_offset) for one in found] == [
        (0, 0),
        (0, 0),
        (len(batch(1, 2)), 2),
        (len(batch(1, 2)), 2),
        (2 * len(batch(1, 2)), 4),
    ]


@pytest.mark.parametrize("short_by", [0, 1])
def test_what_is_sent_stays_in_its_file_from_a_size_on(short_by: int) -> None:
    log = open_log(SimulatedFiles())
    log.append(batch(1, value=bytes(LEFT_IN_FILE_BYTES)), leader_epoch=0)
    log.append(batch(1), leader_epoch=0)
    with mock.patch.object(SimulatedFile, "read_to_send", return_value=b"") as sent:
        log.read_slice(0, LEFT_IN_FILE_BYTES - short_by, end_offset=2, to_send=True)
    assert sent.called is not bool(short_by)


@BOTH_LOGS
def test_records_without_timestamps_are_not_the_newest(in_memory: bool) -> None:
    log = either(in_memory)
    log.append(batch(-1, -1) + batch(-1), leader_epoch=0)
    assert finish(log.max_timestamp()) is None
    log.append(batch(0), leader_epoch=0)
    newest = finish(log.max_timestamp())
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (3, 0)


def test_the_first_segment_is_read_for_the_newest_only_where_it_may_have_it() -> None:
    log = open_log(SimulatedFiles())
    log.append(batch(5) + batch(7), leader_epoch=0)
    log.roll()
    log.append(batch(6), leader_epoch=0)
    log.trim(1)
    for newest in (7, 8):
        with mock.patch.object(Segment, "batches", autospec=True, side_effect=Segment.batches) as read:
            assert finish(_largest(log, list(log.segments), never)) == newest
        assert read.called is (newest == 7)
        log.append(batch(8), leader_epoch=0)


def test_the_highest_epoch_of_all_logs_counts_those_set_aside() -> None:
    files = SimulatedFiles()
    assert highest_epoch(files) == -1
    for folder, name, epoch in (("a-0", EPOCHS_FILE, 3), ("b-0", f"{EPOCHS_FILE}.damaged", 5), ("c-0", EPOCHS_FILE, 4)):
        files.make_folder(folder)
        files.write_whole(f"{folder}/{name}", b"0\n2\n0 0\n%d 7\n" % epoch)
    assert highest_epoch(files) == 5

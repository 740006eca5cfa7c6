"""A broker that keeps nothing on a disk is not to keep everything in memory."""

from storage.log import LogConfig
from storage.memory_log import BATCHES_PER_SLICE, MemoryLog
from tests.unit.storage.batches import batch

SIZE = len(batch(1))


def log_of(count: int, **config: int | bool) -> MemoryLog:
    """`count` batches of one record, record n at time n."""
    log = MemoryLog(LogConfig(**config))  # type: ignore[arg-type]
    for index in range(count):
        log.append(batch(index), leader_epoch=0)
    return log


def test_batches_in_memory_leave_when_they_are_too_old() -> None:
    log = log_of(10, retention_ms=100)
    assert log.enforce_retention(104, 10) is False
    assert (log.start_offset, log.size_bytes, log.end_offset) == (4, 6 * SIZE, 10)
    assert len(log.read(4, 1 << 20, end_offset=10)) == 6
    log.enforce_retention(10**6, 10)
    assert (log.start_offset, log.size_bytes, log.end_offset) == (10, 0, 10)
    assert log.append(batch(1), leader_epoch=0) == 10


def test_batches_in_memory_leave_when_there_are_too_many_bytes() -> None:
    log = log_of(10, retention_ms=-1, retention_bytes=3 * SIZE + 1)
    log.enforce_retention(10**6, 10)
    assert (log.start_offset, log.size_bytes) == (6, 4 * SIZE)


def test_deleted_records_free_their_memory() -> None:
    log = log_of(10, retention_ms=-1)
    log.trim(7)
    log.enforce_retention(10**6, 10)
    assert (log.start_offset, log.size_bytes) == (7, 3 * SIZE)


def test_memory_keeps_what_is_not_committed_or_only_compacted() -> None:
    log = log_of(10, retention_ms=1)
    log.enforce_retention(10**6, 4)
    assert log.start_offset == 4
    compacted = log_of(10, retention_ms=1, retention_bytes=0, cleanup_delete=False)
    compacted.enforce_retention(10**6, 10)
    assert compacted.start_offset == 0


def test_memory_is_given_up_in_slices() -> None:
    log = log_of(BATCHES_PER_SLICE + 1, retention_ms=1)
    assert log.enforce_retention(10**6, log.end_offset)
    assert not log.enforce_retention(10**6, log.end_offset)
    assert log.start_offset == log.end_offset


def test_memory_wants_no_checkpoint() -> None:
    """Nothing of it is recovered: with page-cache durability nobody flushes it for that."""
    log = log_of(3)
    assert log.checkpoint_wanted is False and log.recovery_point == 0


def test_what_is_cut_off_while_it_is_flushed_is_not_durable() -> None:
    log = log_of(4)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate(2)
    log.finish_flush(flush)
    assert (log.durable_offset, log.end_offset) == (2, 2)

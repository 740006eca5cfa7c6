"""A partition to play with: any log, a clock that stands still, appends in one line."""

from broker.config.topic_config import TopicConfig
from broker.partitions.append import Appended
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader, read_header
from protocol.records.record import NewRecord, build_batch
from storage.log import Log, LogConfig
from storage.memory_log import MemoryLog
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.read_committed_oracle import Seen, read_to_the_end
from tests.harness.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SMALL_SEGMENTS = LogConfig(segment_bytes=600, index_interval_bytes=150, file_delete_delay_ms=0)
KILLED = Recovery(same_boot=True)
REBOOTED = Recovery()


class Rig:
    """One partition. `written` counts the calls of `on_written`."""

    def __init__(
        self,
        *,
        log: Log | None = None,
        config: TopicConfig | None = None,
        durable: bool = True,
        expiration_ms: int = DAY_MS,
    ) -> None:
        self.now_ms = NOW_MS
        self.written = 0
        self.log = log or MemoryLog()
        self.partition = Partition(
            topic="t",
            topic_id=bytes(16),
            index=0,
            log=self.log,
            leader_epoch=1,
            config=config or TopicConfig(),
            now_ms=lambda: self.now_ms,
            producer_expiration_ms=lambda: expiration_ms,
            on_written=self._on_written,
            durable_appends=durable,
        )

    def _on_written(self, partition: Partition) -> None:
        self.written += 1

    @property
    def producers(self) -> dict[int, bytes]:
        """The producer state, byte for byte."""
        return dict(self.partition.derived.producers.packed_entries())

    def produce(self, data: bytes, *, transactional_id: str | None = None, verification: bool = False) -> Appended:
        return self.partition.append(
            memoryview(data), transactional_id=transactional_id, verification=verification, now_ms=self.now_ms
        )

    def transact(self, data: bytes) -> Appended:
        """Append a transactional batch, without asking a coordinator."""
        return self.produce(data, transactional_id="tx")

    def error_of(self, data: bytes, *, transactional_id: str | None = None, verification: bool = False) -> ErrorCode:
        """The code a Produce is refused with; nothing may have happened."""
        before, end, written = self.producers, self.partition.end_offset, self.written
        try:
            self.produce(data, transactional_id=transactional_id, verification=verification)
        except AppendError as refused:
            assert (self.producers, self.partition.end_offset, self.written) == (before, end, written)
            return refused.code
        raise AssertionError("the batch was taken")

    def end(self, producer_id: int, epoch: int, *, commit: bool, version: int = 2, coordinator_epoch: int = 0) -> int:
        """Write a marker; `epoch` is the marker's own."""
        return self.partition.append_marker(Marker(producer_id, epoch, commit, coordinator_epoch, version), self.now_ms)

    def marker_error(self, producer_id: int, epoch: int, *, version: int = 2, coordinator_epoch: int = 0) -> ErrorCode:
        before, end, stable = self.producers, self.partition.end_offset, self.partition.last_stable_offset
        try:
            self.end(producer_id, epoch, commit=False, version=version, coordinator_epoch=coordinator_epoch)
        except AppendError as refused:
            assert (self.producers, self.partition.end_offset) == (before, end)
            assert self.partition.last_stable_offset == stable
            return refused.code
        raise AssertionError("the marker was taken")

    def flush(self) -> None:
        """One group-commit cycle."""
        self.log.flush_now()
        self.partition.committed_moved()

    def consume(self, start_offset: int = 0, max_bytes: int = 1 << 20) -> list[Seen]:
        """What a read_committed consumer sees from an offset on."""
        return read_to_the_end(lambda offset: self.partition.read(offset, max_bytes, read_committed=True), start_offset)


def on_disk(
    files: SimulatedFiles,
    *,
    config: LogConfig = SMALL_SEGMENTS,
    recovery: Recovery = REBOOTED,
    expiration_ms: int = DAY_MS,
) -> Rig:
    """A partition on the simulated disk; its log is opened, or made."""
    log = SegmentLog.open(files, "t-0", config, now_ms=lambda: NOW_MS, recovery=recovery)
    return Rig(log=log, config=TopicConfig(log=config), expiration_ms=expiration_ms)


def plain(*values: bytes, key: bytes | None = None, timestamp_ms: int = NOW_MS) -> bytes:
    """A batch without a producer."""
    return build_batch([NewRecord(value, key, timestamp_ms) for value in values or (b"v",)])


def idempotent(
    producer_id: int,
    epoch: int,
    sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    value: bytes = b"v",
    key: bytes | None = b"k",
    timestamp_ms: int = NOW_MS,
) -> bytes:
    """A batch of a producer."""
    return build_batch(
        [NewRecord(value, key, timestamp_ms) for _ in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def in_transaction(producer_id: int, epoch: int, sequence: int, count: int = 1, *, value: bytes = b"v") -> bytes:
    return idempotent(producer_id, epoch, sequence, count, transactional=True, value=value)


def header_of(
    producer_id: int, epoch: int, sequence: int, count: int = 1, *, timestamp_ms: int = NOW_MS
) -> BatchHeader:
    return read_header(idempotent(producer_id, epoch, sequence, count, timestamp_ms=timestamp_ms))

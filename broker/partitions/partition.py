"""A partition: the one door to a log for clients and coordinators.

Rule 1. An append is one synchronous block: check, write, publish producer state, index. A refusal leaves no trace.
Rule 2. An append never moves the high watermark; `committed_moved` does, when the group-commit cycle says so.
Rule 3. High watermark and last stable offset of one read come from one moment, and neither ever goes back.
"""

import asyncio
import logging
from collections.abc import Callable

from broker.config.topic_config import TopicConfig
from broker.partitions.append import Appended, CheckedBatch, check_batch, the_only_batch
from broker.partitions.derived import DerivedState
from broker.partitions.errors import AppendError, PartitionError
from broker.partitions.read import FetchedData
from broker.partitions.repetition import answered_again, may_be_repeated, reused
from broker.partitions.verification import ALREADY_VERIFIED, Guard, Verifications
from broker.partitions.visibility import Visibility, Watcher
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader, read_header
from protocol.records.control import end_transaction_marker
from protocol.schema import Buffer
from storage.cleaner.compaction import Plan
from storage.log import Log, LogDamaged, OffsetOutOfRange, TimestampedOffset
from storage.producers.producer_changes import EndMarker, ProducerRefused
from storage.steps import Spent, Steps, never

QUESTIONS_AT_ONCE = 10_000
"""How many verifications are forgotten in one go."""
logger = logging.getLogger("tallystick.partitions")


class Partition:
    """See the head of this file. `on_written` is called once per append, when everything is published."""

    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # What who still holds one that was discarded is told.

    def __init__(
        self,
        *,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        leader_epoch: int,
        config: TopicConfig,
        now_ms: Callable[[], int],
        producer_expiration_ms: Callable[[], int],
        on_written: "Callable[[Partition], None]",
        durable_appends: bool,
    ) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.log = log
        self.leader_epoch = leader_epoch
        self.config = config
        self._now_ms = now_ms
        self._producer_expiration_ms = producer_expiration_ms
        self._on_written = on_written
        self._durable_appends = durable_appends
        self.discarded = False
        self.offline: LogDamaged | None = None
        self.name = f"{topic}-{index}"
        self.verifications = Verifications()
        log.unreadable.report = logger.error  # before the log is read for the first time
        self.derived = DerivedState(
            log, now_ms=now_ms(), expiration_ms=producer_expiration_ms(), on_moved=self._log_cut
        )
        self.compactor = log.compactor(self.derived, report=logger.error)
        if self.is_durable:
            log.flush_now()  # What recovery kept is on the disk before anybody reads it.
        self._visibility = Visibility(self._committed_end())
        self.when_committed, self.became_readable = self._visibility.when_committed, self._visibility.wake
        self.derived.producers.high_watermark_moved(self._visibility.high_watermark)
        self._opened()

    def _opened(self) -> None:
        """For what a kind of partition has beyond this."""

    def __repr__(self) -> str:
        return f"<Partition {self.name}>"

    # ---------------------------------------------------------------------------------------------------------- bounds

    @property
    def log_start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._visibility.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided: where the oldest undecided transaction begins, or the high watermark."""
        high_watermark = self._visibility.high_watermark
        unstable = self.derived.producers.first_unstable_offset
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log.start_offset)

    @property
    def refusal(self) -> ErrorCode:
        """The error of reads while the log is damaged, or not open yet."""
        return ErrorCode.NONE

    @property
    def is_durable(self) -> bool:
        """Whether an append must be on the disk before it counts as committed."""
        return self._durable_appends or self.config.flush_messages == 1

    def visible_end(self, *, read_committed: bool) -> int:
        """Where a reader of this isolation level stops; ListOffsets LATEST (KAFKA-5522)."""
        return self.last_stable_offset if read_committed else self._visibility.high_watermark

    # ------------------------------------------------------------------------------------------------------- appending

    def append(
        self,
        records: memoryview,
        *,
        transactional_id: str | None,
        guard: Guard | None = None,
        verification: bool = True,
        now_ms: int,
        zstd_allowed: bool = True,
        header: BatchHeader | None = None,
        opened: CheckedBatch | None = None,
    ) -> Appended:
        """Append what a Produce brings. Raises `AppendError`; `StorageFailed` ends the process.

        A transactional batch that opens a transaction here needs the current guard of `begin_verification`, unless
        `verification` is off. `zstd_allowed` is false for Produce before version 7. `header` is that of `records`, if
        known; `opened` is what `opening` says.
        """
        self._check_stands()
        checked, config = opened, self.config
        if checked is None or checked.config is not config:
            start = self.log.start_offset
            checked = check_batch(
                records, config, self.name, header, now_ms=now_ms, zstd_allowed=zstd_allowed, log_start_offset=start
            )
        header = checked.header
        if transactional_id is None and header.is_transactional:
            raise AppendError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without an id")
        producers = self.derived.producers
        if header.producer_id < 0:
            base_offset = self.log.append(checked.batch, leader_epoch=self.leader_epoch)
            producers.skip_to(self.log.end_offset)
            return self._appended(checked, base_offset)
        duplicate = producers.find_duplicate(header)
        if duplicate is not None:
            self.verifications.repeated(header, producers.next_sequence(header.producer_id))
            if not may_be_repeated(producers, header, duplicate):
                raise self._append_error(ErrorCode.INVALID_TXN_STATE, reused(header, duplicate))
            logger.info("%s: producer %d repeats offset %d", self.name, header.producer_id, duplicate.base_offset)
            return answered_again(duplicate, self.log.start_offset)
        self._check_data(header, guard, verification=verification, from_client=True)
        base_offset = self.log.append(checked.batch, leader_epoch=self.leader_epoch)
        producers.apply_data(header, base_offset, now_ms)
        if header.is_transactional:
            self.verifications.data_appended(header.producer_id)
        return self._appended(checked, base_offset)

    def append_records(
        self, batch: Buffer, *, now_ms: int, guard: Guard | None = None, verification: bool = False
    ) -> int:
        """Append a coordinator's batch; returns its base offset. Raises `AppendError` (47, 48, 10).

        Sequences are not checked: a group coordinator writes 0 every time.
        """
        self._check_stands()
        header = read_header(batch)
        assert header.base_offset == 0 and header.size == len(batch) and not header.is_control
        if len(batch) > self.config.max_message_bytes:
            raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes")
        if header.producer_id >= 0:
            self._check_data(header, guard, verification=verification, from_client=False)
        base_offset = self.log.append(batch, leader_epoch=self.leader_epoch)
        if header.producer_id >= 0:
            self.derived.producers.apply_data(header, base_offset, now_ms)
            self.verifications.data_appended(header.producer_id)
        else:
            self.derived.producers.skip_to(self.log.end_offset)
        self._on_written(self)
        return base_offset

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        """End a transaction here; returns the marker's offset. Raises `AppendError` (47, 52).

        The aborted index learns of the transaction before it counts as complete: if that fails, the last stable
        offset stays where it is (KAFKA-7866).
        """
        self._check_stands()
        producer_id, epoch, producers = marker.producer_id, marker.producer_epoch, self.derived.producers
        coordinator_epoch, version = marker.coordinator_epoch, marker.transaction_version
        end = EndMarker(producer_id, epoch, marker.commit, coordinator_epoch, now_ms, version)
        try:
            producers.check_marker(end)
        except ProducerRefused as refused:
            raise self._append_error(refused.error, str(refused)) from refused
        batch = end_transaction_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            commit=marker.commit,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        offset = self.log.append(batch, leader_epoch=self.leader_epoch)
        self.derived.transaction_completed(producers.completes(end, offset))
        producers.apply_marker(end, offset, now_ms)
        self.verifications.marker_appended(end)
        self._on_written(self)
        return offset

    def _check_data(self, header: BatchHeader, guard: Guard | None, *, verification: bool, from_client: bool) -> None:
        producers = self.derived.producers
        producer_id, epoch = header.producer_id, header.producer_epoch
        try:
            if header.is_transactional and not producers.has_open_transaction(producer_id, epoch):
                # The epoch comes first: a fenced producer must hear 47, which lets it abort (KAFKA-19690).
                current = producers.epoch(producer_id)
                if epoch >= current and verification and not self.verifications.is_current(producer_id, guard):
                    raise self._append_error(
                        ErrorCode.INVALID_TXN_STATE, "the record was not part of an ongoing transaction"
                    )
            producers.check_data(header, from_client=from_client, tentative=self.verifications.tentative(producer_id))
        except ProducerRefused as refused:
            raise self._append_error(refused.error, str(refused)) from refused

    def _appended(self, checked: CheckedBatch, base_offset: int) -> Appended:
        self._on_written(self)
        last_offset, appended_ms = base_offset + checked.header.last_offset_delta, checked.log_append_time_ms
        return Appended(base_offset, last_offset, appended_ms, self.log.start_offset)

    def _check_stands(self) -> None:
        """A caller that waited (for the transaction gate, for a sync) may hold a partition deleted meanwhile."""
        if self.discarded:
            raise AppendError(self.gone, f"{self.name} is gone")
        if not self.log.takes_writes:
            raise self._append_error(ErrorCode.NOT_ENOUGH_REPLICAS, "too much waits to be committed, also")

    def _append_error(self, code: ErrorCode, reason: str) -> AppendError:
        return AppendError(code, f"{reason} in {self.name}", log_start_offset=self.log.start_offset)

    # ---------------------------------------------------------------------------------------------------- verification

    def needs_verification(self, records: memoryview) -> BatchHeader | None:
        """The header of a transactional batch whose transaction is not under way here; None: nothing to ask.

        Raises `AppendError` where `records` is not one whole batch.
        """
        header = read_header(the_only_batch(records))
        if not header.is_transactional or header.producer_id < 0:
            return None
        if self.derived.producers.has_open_transaction(header.producer_id, header.producer_epoch):
            return None
        return header

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool) -> Guard:
        """The guard to append with once the coordinator has agreed. Raises `AppendError` (47).

        `ALREADY_VERIFIED`: the transaction is under way here, there is nothing to ask.
        """
        producers = self.derived.producers
        current = producers.epoch(producer_id)
        if epoch < current:
            raise self._append_error(ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {epoch} is smaller than {current}")
        if producers.has_open_transaction(producer_id, epoch):
            return ALREADY_VERIFIED
        return self.verifications.begin(
            producer_id, epoch, sequence, supports_epoch_bump=supports_epoch_bump, now_ms=self._now_ms()
        )

    # --------------------------------------------------------------------------------------------------------- reading

    def read(
        self, offset: int, max_bytes: int, *, read_committed: bool, at_least_one: bool = True, to_send: bool = False
    ) -> FetchedData:
        """Whole batches from `offset` on, up to what the reader may see. Raises `OffsetOutOfRange`. With `to_send`
        they may lie in files still (see `Log.read_slice`)."""
        high_watermark, stable, start = self.high_watermark, self.last_stable_offset, self.log.start_offset
        bound = stable if read_committed else high_watermark
        if not start <= offset <= self.log.end_offset:
            raise OffsetOutOfRange(f"{offset} is not within {start} and {self.log.end_offset} of {self.name}")
        if offset >= bound:
            return FetchedData([], high_watermark, stable, start, [] if read_committed else None)
        found = self.log.read_slice(offset, max_bytes, end_offset=bound, at_least_one=at_least_one, to_send=to_send)
        aborted = None
        if read_committed and found.batches:
            aborted = self.derived.aborted.collect(offset, found.next_offset)
        elif read_committed and max_bytes <= 0:
            aborted = []
        return FetchedData(found.batches, high_watermark, stable, start, aborted)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, read_committed: bool, spent: Spent = never
    ) -> Steps[TimestampedOffset | None]:
        """The first record at or after a time, among those the reader may see (I32)."""
        end = self.visible_end(read_committed=read_committed)
        return self.log.offset_for_timestamp(timestamp_ms, end_offset=end, spent=spent)

    def max_timestamp(self, *, read_committed: bool, spent: Spent = never) -> Steps[TimestampedOffset | None]:
        """The record with the largest timestamp, if the reader may see it."""
        found = yield from self.log.max_timestamp(spent)
        visible = found is not None and found.offset < self.visible_end(read_committed=read_committed)
        return found if visible else None

    # ------------------------------------------------------------------------------------------------------ visibility

    def committed(self, offset: int) -> "asyncio.Future[None] | None":
        """None where everything below `offset` is committed already; else a future that ends when it is."""
        return self._visibility.committed(offset)

    def watch(self, callback: Watcher) -> None:
        """Call back whenever high watermark, last stable offset or log start have moved."""
        self._visibility.watch(callback)

    def unwatch(self, callback: Watcher) -> None:
        self._visibility.unwatch(callback)

    def committed_moved(self) -> None:
        """The log's durable offset (in page-cache mode, its end) has moved: publish it."""
        high_watermark = self._committed_end()
        if high_watermark > self._visibility.high_watermark:
            before = self.last_stable_offset
            self.derived.producers.high_watermark_moved(high_watermark)
            self._visibility.advance(high_watermark)
            assert self.last_stable_offset >= before, "the last stable offset never goes back"
            self._visibility.wake()

    def fail(self, error: Exception) -> None:
        """The disk failed: requests that wait for a commit are refused."""
        self._visibility.fail(error)

    def _committed_end(self) -> int:
        return self.log.durable_offset if self.is_durable else self.log.end_offset

    def _log_cut(self) -> None:
        assert self.log.end_offset >= self._visibility.high_watermark, "what is committed is never cut off"
        self.derived.producers.high_watermark_moved(self._visibility.high_watermark)
        if self.log.start_offset > self._visibility.high_watermark:
            self._visibility.advance(self.log.start_offset)
        self._visibility.wake()

    # ---------------------------------------------------------------------------------------------------- housekeeping

    def delete_records(self, offset: int) -> int:
        """DeleteRecords: forget everything before `offset` (-1: before the high watermark); returns the new start.

        Raises `OffsetOutOfRange` beyond the high watermark, `PartitionError` (44) where the topic only compacts.
        """
        self._check_stands()
        if self.config.log.cleanup_compact and not self.config.log.cleanup_delete:
            raise PartitionError(ErrorCode.POLICY_VIOLATION, f"{self.name} is compacted and not deleted from")
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRange(f"{target} is not within {self.name}")
        if target > self.log.start_offset:
            self.log.trim(target)
        return self.log.start_offset

    def compaction_due(self, now_ms: int, spent: Spent = never) -> Steps[Plan | None]:
        """What a pass of the compactor would work on now; logs in memory have none. Raises `StorageFailed`."""
        compactor = None if self.discarded else self.compactor
        return None if compactor is None else (yield from compactor.due(self.last_stable_offset, now_ms, spent))

    def expire_producers(self, now_ms: int) -> bool:
        """Forget silent producers, and questions whose batch never came, a slice per call; True when all were looked
        at."""
        expiration_ms = self._producer_expiration_ms()
        if self.verifications.forget_oldest(QUESTIONS_AT_ONCE, now_ms - expiration_ms + 1) == QUESTIONS_AT_ONCE:
            return False
        return self.derived.producers.expire(now_ms, expiration_ms)

    def configure(self, config: TopicConfig) -> None:
        """Take a changed configuration from now on."""
        self.config = config
        self.log.configure(config.log)

    def close(self) -> None:
        """Write down what a restart would have to compute, then flush and close the log. `discard` one whose folder was
        moved away."""
        try:
            self.log.flush_now()
            self.derived.close()
        finally:
            self.log.close()

    def discard(self) -> None:
        """The topic was deleted, or the log has failed or is another node's: close it as it is, write nothing."""
        self.discarded = True
        self.derived.discard()
        self._visibility.fail(PartitionError(self.gone, f"{self.name} is gone"))
        self._visibility.wake()

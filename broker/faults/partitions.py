"""A partition with fault points: before and after every append, and when what was appended is committed.

What kind of record it is, is read from the batch itself, so that coordinators need not know of faults.
"""

from collections import deque
from typing import TYPE_CHECKING

from broker.partitions.append import Appended, CheckedBatch
from broker.partitions.measured_partition import MeasuredPartition
from broker.partitions.verification import Guard
from coordinator.cluster.records import ProducerIdsRecord, RegisterBrokerRecord
from coordinator.groups.records import LegacyOffsetCommitKey, OffsetCommitKey
from coordinator.machine import Marker
from coordinator.transactions.records import TransactionLogValue
from coordinator.transactions.states import TransactionState
from protocol.codec import read_metadata_frame, read_version, read_versioned
from protocol.internal_topics import CLUSTER_METADATA, CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from protocol.records.batch import BatchHeader, read_header
from protocol.records.record import Record, records_of
from protocol.schema import Buffer, schema_of

if TYPE_CHECKING:
    from broker.faults.control import Faults

STATES = {
    TransactionState.EMPTY: "init",
    TransactionState.ONGOING: "ongoing",
    TransactionState.PREPARE_COMMIT: "prepare",
    TransactionState.PREPARE_ABORT: "prepare",
    TransactionState.COMPLETE_COMMIT: "complete",
    TransactionState.COMPLETE_ABORT: "complete",
}


class FaultyPartition(MeasuredPartition):
    """See the head of this file. It counts, whether the broker is watched or not. Who makes one gives it `faults`."""

    faults: "Faults"

    def _opened(self) -> None:
        super()._opened()
        self._uncommitted: deque[tuple[int, str]] = deque()
        """(end offset, family) of what is appended and not committed."""

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
        self.faults.refuse("produce.before-append", self.topic, self.index)
        end_offset = self.log.end_offset
        appended = super().append(
            records,
            transactional_id=transactional_id,
            guard=guard,
            verification=verification,
            now_ms=now_ms,
            zstd_allowed=zstd_allowed,
            header=header,
            opened=opened,
        )
        self._appended_of("produce", end_offset)
        return appended

    def append_records(
        self, batch: Buffer, *, now_ms: int, guard: Guard | None = None, verification: bool = False
    ) -> int:
        family = family_of(self.topic, batch)
        self.faults.refuse(f"{family}.before-append", self.topic, self.index)
        base_offset = super().append_records(batch, now_ms=now_ms, guard=guard, verification=verification)
        self._appended_of(family, base_offset)
        return base_offset

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        self.faults.refuse("marker.before", self.topic, self.index)
        offset = super().append_marker(marker, now_ms)
        self._appended_of("marker", offset)
        return offset

    def _appended_of(self, family: str, before: int) -> None:
        """A repeated batch appends nothing."""
        if self.log.end_offset > before:
            self._uncommitted.append((self.log.end_offset, family))
            self.faults.reach(f"{family}.after-append", topic=self.topic, partition=self.index)

    def committed_moved(self) -> None:
        end_offset = self._committed_end()
        while self._uncommitted and self._uncommitted[0][0] <= end_offset:
            family = self._uncommitted.popleft()[1]
            self.faults.reach(f"{family}.after-sync", topic=self.topic, partition=self.index)
        super().committed_moved()


def family_of(topic: str, batch: Buffer) -> str:
    """What a coordinator's batch is about: the first part of a point's name."""
    first = next(records_of(batch))
    if topic == TRANSACTION_STATE:
        return _transaction_family(first)
    if topic == CLUSTER_METADATA:
        return _metadata_family(first)
    if topic == SHARE_GROUP_STATE:
        return "group"
    assert topic == CONSUMER_OFFSETS, "coordinators write to their own logs only"
    if read_header(batch).is_transactional:
        return "offsets"
    assert first.key is not None
    is_offset = read_version(first.key) in (
        schema_of(LegacyOffsetCommitKey).api_key,
        schema_of(OffsetCommitKey).api_key,
    )
    return "commit" if is_offset else "group"


def _transaction_family(record: Record) -> str:
    if record.value is None:
        return "expire"
    return STATES[TransactionState(read_versioned(TransactionLogValue, record.value).transaction_status)]


def _metadata_family(record: Record) -> str:
    assert record.value is not None
    api_key, _, _ = read_metadata_frame(record.value)
    if api_key == schema_of(ProducerIdsRecord).api_key:
        return "producer-ids"
    return "epoch" if api_key == schema_of(RegisterBrokerRecord).api_key else "metadata"

"""Who writes into a partition: epochs, sequences, open transactions (KIP-98, fencing: KIP-360, 890, 1228).

Rule 1. `check_…` reads and refuses, `apply_…` changes and cannot fail. A refused append leaves no trace (KAFKA-6683).
Rule 2. The state follows from the log alone: `replay` takes whatever the log contains and never refuses (KAFKA-6003).
Rule 3. A transaction is unstable from its first offset until its marker lies below the high watermark.
"""

from bisect import bisect_left
from collections import OrderedDict

from protocol.errors import ErrorCode
from protocol.records.batch import LAST_EPOCH, BatchHeader
from storage.frozen_entries import ChangesBeside, PackedEntries
from storage.producers.producer_changes import CompletedTransaction, EndMarker, ProducerRefused, Tentative
from storage.producers.producer_entry import (
    BATCH,
    HEAD,
    NO_EPOCH,
    NO_OFFSET,
    SEQUENCE_MASK,
    CachedBatch,
    ProducerEntry,
    find_batch,
    last_sequence_of,
    with_batch,
)


class ProducerState:
    """See the head of this file. Covers the log up to, not including, `offset`."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.first_unstable_offset: int | None = None
        """Not clamped to the log start; the partition does that."""
        self._entries: PackedEntries = {}
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        """First offset → producer id. Transactions open in log order, so this is sorted."""
        self._unreplicated: list[tuple[int, int]] = []
        """(marker offset, first offset) of completed transactions whose marker is not below the high watermark."""
        self._to_examine: list[int] = []

    # ----------------------------------------------------------------------------------------------- looking things up

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._entries

    def ids(self) -> list[int]:
        """Every producer, and perhaps some that were just forgotten."""
        return list(self._entries) if isinstance(self._entries, dict) else self._entries.ids()

    def packed_entries(self) -> PackedEntries:
        """The entries as they are kept; not to be changed."""
        return self._entries

    def freeze(self) -> dict[int, bytes]:
        """The entries of this moment, for a thread to read until `thaw`."""
        assert isinstance(self._entries, dict), "one snapshot at a time"
        self._entries = ChangesBeside(self._entries)
        return self._entries.frozen

    def thaw(self) -> None:
        """What `freeze` gave is not read any more."""
        assert isinstance(self._entries, ChangesBeside)
        self._entries = self._entries.merged()

    def entry(self, producer_id: int) -> ProducerEntry | None:
        packed = self._entries.get(producer_id)
        return None if packed is None else ProducerEntry.unpack(packed)

    def epoch(self, producer_id: int) -> int:
        packed = self._entries.get(producer_id)
        if packed is None:
            return NO_EPOCH
        epoch: int = HEAD.unpack_from(packed)[0]
        return epoch

    def next_sequence(self, producer_id: int) -> int:
        """What follows the last batch of its current epoch; 0 where there is none."""
        packed = self._entries.get(producer_id)
        return 0 if packed is None else (last_sequence_of(packed) + 1) & SEQUENCE_MASK

    def last_offset(self, producer_id: int) -> int:
        """Where its last batch ends; -1 where there is none."""
        packed = self._entries.get(producer_id)
        if packed is None or len(packed) == HEAD.size:
            return NO_OFFSET
        offset: int = BATCH.unpack_from(packed, len(packed) - BATCH.size)[1]
        return offset

    def coordinator_epoch(self, producer_id: int) -> int:
        """That of the last marker; -1 where there was none."""
        packed = self._entries.get(producer_id)
        if packed is None:
            return -1
        epoch: int = HEAD.unpack_from(packed)[1]
        return epoch

    def open_transactions(self) -> list[int]:
        """The producers that have one, in the order in which they were begun."""
        return list(self._ongoing.values())

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether exactly this epoch of the producer has a transaction under way here."""
        packed = self._entries.get(producer_id)
        if packed is None:
            return False
        head = HEAD.unpack_from(packed)
        return bool(head[0] == epoch and head[4] != NO_OFFSET)

    def find_duplicate(self, header: BatchHeader) -> CachedBatch | None:
        """The batch this one repeats, where it is among the last five of the same epoch."""
        packed = self._entries.get(header.producer_id)
        if packed is None:
            return None
        sequence = header.base_sequence
        if sequence == (last_sequence_of(packed) + 1) & SEQUENCE_MASK and sequence != 0:
            return None  # The next in line: the usual case, decided without looking at five batches.
        if HEAD.unpack_from(packed)[0] != header.producer_epoch:
            return None
        return find_batch(packed, sequence, (sequence + header.last_offset_delta) & SEQUENCE_MASK)

    def is_of_open_transaction(self, producer_id: int, offset: int) -> bool:
        """Whether what the producer wrote at `offset` is in the transaction that it has under way here."""
        packed = self._entries.get(producer_id)
        if packed is None:
            return False
        first_offset: int = HEAD.unpack_from(packed)[4]
        return NO_OFFSET != first_offset <= offset

    # ------------------------------------------------------------------------------------------------------------ data

    def check_data(self, header: BatchHeader, *, from_client: bool, tentative: Tentative | None = None) -> None:
        """Refuse a data batch that may not follow what the producer wrote before.

        A group coordinator writes sequence 0 every time: sequences are checked for clients only.
        """
        packed = self._entries.get(header.producer_id)
        if packed is None:
            if from_client and tentative is not None:
                _check_tentative(header, tentative, nothing_cached=True)
            return
        head = HEAD.unpack_from(packed)
        if header.producer_epoch < head[0]:
            raise ProducerRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {header.producer_epoch} of producer {header.producer_id} is smaller than the last seen "
                f"epoch {head[0]}",
            )
        if from_client:
            if tentative is not None:
                _check_tentative(header, tentative, nothing_cached=len(packed) == HEAD.size)
            _check_sequence(header, head[0], packed)
        if head[4] != NO_OFFSET and not header.is_transactional:
            raise ProducerRefused(
                ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {header.producer_id}"
            )

    def apply_data(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A data batch was appended at `base_offset`."""
        producer_id, timestamp_ms = header.producer_id, header.max_timestamp
        coordinator_epoch, transaction, batches = -1, NO_OFFSET, b""
        packed = self._entries.get(producer_id)
        if packed is not None:
            epoch, coordinator_epoch, _, _, transaction = HEAD.unpack_from(packed)
            if epoch == header.producer_epoch:
                batches = packed[HEAD.size :]
        if transaction == NO_OFFSET and header.is_transactional:
            transaction = base_offset
            self._open(base_offset, producer_id)
        delta = header.last_offset_delta
        last_sequence = -1 if header.base_sequence < 0 else (header.base_sequence + delta) & SEQUENCE_MASK
        added = BATCH.pack(last_sequence, base_offset + delta, delta, timestamp_ms)
        seen_ms = timestamp_ms if timestamp_ms > now_ms else now_ms
        self._entries[producer_id] = HEAD.pack(
            header.producer_epoch, coordinator_epoch, timestamp_ms, seen_ms, transaction
        ) + with_batch(batches, added)
        self.offset = base_offset + delta + 1

    # --------------------------------------------------------------------------------------------------------- markers

    def check_marker(self, marker: EndMarker) -> None:
        """Refuse a marker of a fenced epoch (47) or of an older coordinator (52).

        With transaction version 2 the next transaction's data carries exactly the epoch of this marker, so an equal
        epoch is a late duplicate that would end the wrong transaction (KIP-1228) — unless nothing is open, or epochs
        are used up: then it is a retry, and harmless (KAFKA-19999, KAFKA-20090).
        """
        packed = self._entries.get(marker.producer_id)
        if packed is None:
            return
        epoch, coordinator_epoch, _, _, transaction = HEAD.unpack_from(packed)
        stale = marker.producer_epoch < epoch
        if marker.transaction_version >= 2 and marker.producer_epoch == epoch:
            stale = transaction != NO_OFFSET and epoch != LAST_EPOCH
        if stale:
            raise ProducerRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Marker epoch {marker.producer_epoch} of producer {marker.producer_id} does not follow epoch {epoch}",
            )
        if marker.coordinator_epoch < coordinator_epoch:
            raise ProducerRefused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {marker.coordinator_epoch} for producer {marker.producer_id} is smaller than the "
                f"last seen {coordinator_epoch}",
            )

    def completes(self, marker: EndMarker, offset: int) -> CompletedTransaction | None:
        """The transaction that `marker` at `offset` ends; None where nothing is open (KAFKA-10702)."""
        packed = self._entries.get(marker.producer_id)
        if packed is None:
            return None
        first_offset: int = HEAD.unpack_from(packed)[4]
        if first_offset == NO_OFFSET:
            return None
        others = (first for first, producer_id in self._ongoing.items() if producer_id != marker.producer_id)
        return CompletedTransaction(
            marker.producer_id, first_offset, offset, not marker.commit, next(others, offset + 1)
        )

    def apply_marker(self, marker: EndMarker, offset: int, now_ms: int) -> None:
        """A marker was appended at `offset`. An unknown producer gets an entry: its epoch must fence from now on."""
        packed = self._entries.get(marker.producer_id)
        batches = b""
        if packed is not None:
            epoch, _, _, _, first_offset = HEAD.unpack_from(packed)
            if epoch == marker.producer_epoch:
                batches = packed[HEAD.size :]
            if first_offset != NO_OFFSET:
                del self._ongoing[first_offset]
                self._unreplicated.append((offset, first_offset))
        seen_ms = max(marker.timestamp_ms, now_ms)
        self._entries[marker.producer_id] = (
            HEAD.pack(marker.producer_epoch, marker.coordinator_epoch, marker.timestamp_ms, seen_ms, NO_OFFSET)
            + batches
        )
        self.offset = offset + 1

    # ------------------------------------------------------------------------------------------- replay and visibility

    def replay(self, header: BatchHeader, marker: EndMarker | None, now_ms: int) -> CompletedTransaction | None:
        """Take in a batch as the log has it; returns the transaction it completed.

        `marker` is the decoded control record; a control batch without one (its records were cleaned away, KAFKA-7467)
        still has the producer's epoch.
        """
        completed = None
        if header.producer_id >= 0:
            if not header.is_control:
                self.apply_data(header, header.base_offset, now_ms)
            elif marker is not None:
                completed = self.completes(marker, header.base_offset)
                self.apply_marker(marker, header.base_offset, now_ms)
            elif header.producer_epoch > self.epoch(header.producer_id):
                self._fence(header, now_ms)
        self.offset = header.base_offset + header.last_offset_delta + 1
        return completed

    def skip_to(self, offset: int) -> None:
        """What was appended up to `offset` carries no producer."""
        self.offset = offset

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions whose marker lies below are decided for every reader."""
        waiting = self._unreplicated
        if not waiting or waiting[0][0] >= high_watermark:
            return
        del waiting[: bisect_left(waiting, (high_watermark,))]
        self._find_first_unstable()

    # -------------------------------------------------------------------------------------------- expiry and restoring

    def expire(self, now_ms: int, expiration_ms: int, *, limit: int = 10_000) -> bool:
        """Forget producers that have been silent for long, `limit` entries per call; True when all were looked at.

        A producer with an open transaction is never forgotten.
        """
        if not self._to_examine:
            self._to_examine = self.ids()
        batch, self._to_examine = self._to_examine[-limit:], self._to_examine[:-limit]
        for producer_id in batch:
            packed = self._entries.get(producer_id)
            if packed is not None and _is_expired(packed, now_ms, expiration_ms):
                del self._entries[producer_id]
        return not self._to_examine

    def forget(self, producer_id: int, packed: bytes) -> bool:
        """Forget a producer of whom nothing but `packed` is known; never one with an open transaction."""
        if self._entries.get(producer_id) is not packed or HEAD.unpack_from(packed)[4] != NO_OFFSET:
            return False
        del self._entries[producer_id]
        return True

    def restore(self, entries: dict[int, bytes], now_ms: int, expiration_ms: int) -> None:
        """Take over the entries of a snapshot; those that have expired meanwhile are dropped."""
        assert not self._entries
        self._entries = {
            producer_id: packed
            for producer_id, packed in entries.items()
            if not _is_expired(packed, now_ms, expiration_ms)
        }
        opened = [(HEAD.unpack_from(packed)[4], producer_id) for producer_id, packed in self._entries.items()]
        self._ongoing = OrderedDict(sorted(pair for pair in opened if pair[0] != NO_OFFSET))
        self._find_first_unstable()

    # ------------------------------------------------------------------------------------------------------- internals

    def _open(self, first_offset: int, producer_id: int) -> None:
        self._ongoing[first_offset] = producer_id
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def _fence(self, header: BatchHeader, now_ms: int) -> None:
        current = self.entry(header.producer_id) or ProducerEntry()
        seen_ms = max(header.max_timestamp, now_ms)
        fenced = current._replace(epoch=header.producer_epoch, seen_ms=seen_ms, batches=())
        self._entries[header.producer_id] = fenced.pack()

    def _find_first_unstable(self) -> None:
        first = next(iter(self._ongoing), None)
        if self._unreplicated:
            completed = min(pair[1] for pair in self._unreplicated)
            first = completed if first is None or completed < first else first
        self.first_unstable_offset = first


def _check_tentative(header: BatchHeader, tentative: Tentative, *, nothing_cached: bool) -> None:
    """The rules for a producer whose transaction was just verified (KAFKA-18202, KAFKA-14920)."""
    sequence = header.base_sequence
    if tentative.supports_epoch_bump and nothing_cached and sequence != 0:
        raise ProducerRefused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Sequence {sequence} of producer {header.producer_id}: expected 0, for nothing is known of it here",
        )
    if sequence > tentative.lowest_sequence:
        raise ProducerRefused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Sequence {sequence} of producer {header.producer_id}: {tentative.lowest_sequence} was seen and is still "
            "to come",
        )


def _check_sequence(header: BatchHeader, epoch: int, packed: bytes) -> None:
    sequence = header.base_sequence
    if header.producer_epoch != epoch:
        if sequence == 0 or epoch == NO_EPOCH:
            return
        expected = 0
    else:
        expected = (last_sequence_of(packed) + 1) & SEQUENCE_MASK
        if sequence == expected:
            return
    raise ProducerRefused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Out of order sequence number for producer {header.producer_id}: {sequence} came, {expected} was expected",
    )


def _is_expired(packed: bytes, now_ms: int, expiration_ms: int) -> bool:
    head = HEAD.unpack_from(packed)
    return bool(head[4] == NO_OFFSET and now_ms - head[3] >= expiration_ms)

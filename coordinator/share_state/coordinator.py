"""The share coordinator: one machine per partition of `__share_group_state`. It keeps what share groups have done with
the records of a partition, for whoever leads that partition (KIP-932).

Rule 1. An operation reads `ledger` and returns records; `replay` alone writes it.
Rule 2. A snapshot says all of a share partition, updates after it what has changed. An update means nothing without
        its snapshot, so this log is not compacted: what lies before the oldest snapshot that counts is deleted.
Rule 3. Nothing is kept of a share partition before it was initialised. State epochs fence who initialised it before,
        leader epochs who led the partition before.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from coordinator.batch_room import STEP_BYTES, BatchRoom
from coordinator.machine import A, AnyOutcome, Outcome, Record, ReplayedMarker, ReplayedRecord, Ticket
from coordinator.share_state.answers import DONE, NOT_A_PARTITION, UNKNOWN_PARTITION, Summary, Verdict, uninitialised
from coordinator.share_state.kept import (
    UNCHANGED,
    UNKNOWN_COUNT,
    Kept,
    ShareKey,
    Write,
    key_of,
    snapshot,
    tombstone,
    update,
)
from coordinator.share_state.ledger import ShareLedger
from coordinator.share_state.port import NO_START_OFFSET, PartitionState
from coordinator.share_state.settings import ShareStateSettings
from protocol.errors import ErrorCode

MOST_BATCHES = 10_000
"""In one write: a share partition has at most some thousand records under way. Kafka takes any number."""
VISITED_PER_STEP = 1_000
"""Share partitions that a step of the search for cold ones looks at."""
NEVER_INITIALISED = Summary(0, 0, NO_START_OFFSET, UNKNOWN_COUNT)


class ShareCoordinator:
    """See the head of this file. `is_there` tells whether a topic id has such a partition."""

    def __init__(self, settings: ShareStateSettings, is_there: Callable[[bytes, int], bool]) -> None:
        self.ledger = ShareLedger()
        self._settings = settings
        self._is_there = is_there
        self._next_search_ms: int | None = None
        self._unsearched: deque[ShareKey] = deque()

    # -- operations ------------------------------------------------------------------------------------------

    def initialize(
        self, key: ShareKey, ticket: Ticket[Verdict], now_ms: int, *, state_epoch: int, start_offset: int
    ) -> Outcome[Verdict]:
        """Begin anew, whatever was kept before. A `start_offset` of -1 leaves it to who serves the partition."""
        if key.partition < 0:
            return _answered(ticket, NOT_A_PARTITION)
        before = self.ledger.kept.get(key)  # one that cannot be read is mended by this
        if before is not None and UNCHANGED != state_epoch < before.state_epoch:
            return _answered(ticket, Verdict(ErrorCode.FENCED_STATE_EPOCH))
        if not self._is_there(key.topic_id, key.partition):
            return _answered(ticket, UNKNOWN_PARTITION)
        kept = Kept(
            snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_START_OFFSET else 0,
            batches=(),
            create_ms=now_ms,
            write_ms=now_ms,
        )
        return Outcome([snapshot(key, kept)], answers=[(ticket, DONE)], reason=f"{key}: initialised")

    def read(
        self, key: ShareKey, ticket: Ticket[PartitionState | Verdict], now_ms: int, *, leader_epoch: int
    ) -> Outcome[PartitionState | Verdict]:
        """All that is kept. A leader epoch that is newer than the one kept is written down before the answer."""
        kept = self._usable(key, "Read", leader_epoch)
        if isinstance(kept, Verdict):
            return _answered(ticket, kept)
        count = kept.delivery_complete_count
        records = []
        if leader_epoch > kept.leader_epoch:
            records.append(self._record(key, kept, Write(leader_epoch, kept.start_offset, count, ()), now_ms))
        answer = PartitionState(kept.state_epoch, kept.start_offset, count, kept.batches)
        return Outcome(records, answers=[(ticket, answer)], reason=f"{key}: leader epoch {leader_epoch}")

    def summarize(self, key: ShareKey, ticket: Ticket[Summary | Verdict], now_ms: int) -> Outcome[Summary | Verdict]:
        """How far a share partition is; that nobody has initialised it is no error here."""
        if key.partition < 0:
            return _answered(ticket, NOT_A_PARTITION)
        if not self._is_there(key.topic_id, key.partition):
            return _answered(ticket, UNKNOWN_PARTITION)
        kept = self.ledger.find(key)
        if kept is None:
            return _answered(ticket, NEVER_INITIALISED)
        summary = Summary(kept.state_epoch, kept.leader_epoch, kept.start_offset, kept.delivery_complete_count)
        return _answered(ticket, summary)

    def write(
        self, key: ShareKey, ticket: Ticket[Verdict], now_ms: int, *, state_epoch: int, write: Write
    ) -> Outcome[Verdict]:
        """Keep a change."""
        kept = self._usable(key, "Write", write.leader_epoch, state_epoch)
        if isinstance(kept, Verdict):
            return _answered(ticket, kept)
        problem = None
        if len(write.batches) > MOST_BATCHES:
            problem = f"There are more than {MOST_BATCHES} batches."
        elif any(batch.first_offset > batch.last_offset for batch in write.batches):
            problem = "A batch ends before it begins."
        if problem is not None:
            return _answered(ticket, Verdict(ErrorCode.INVALID_REQUEST, problem))
        record = self._record(key, kept, write, now_ms)
        return Outcome([record], answers=[(ticket, DONE)], reason=f"{key}: written")

    def delete(self, key: ShareKey, ticket: Ticket[Verdict], now_ms: int) -> Outcome[Verdict]:
        """Keep nothing of it any more."""
        if key.partition < 0:
            return _answered(ticket, NOT_A_PARTITION)
        if not self._is_there(key.topic_id, key.partition):
            return _answered(ticket, UNKNOWN_PARTITION)
        records = [tombstone(key)] if self.ledger.knows(key) else []
        return Outcome(records, answers=[(ticket, DONE)], reason=f"{key}: deleted")

    def forget_topic(self, topic_id: bytes, ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
        """Keep nothing of a topic that is deleted, some share partitions at a time; whether there may be more."""
        room = BatchRoom(min(STEP_BYTES, self._settings.max_batch_bytes))
        for key in self.ledger.of_topic(topic_id):
            if not room.add(tombstone(key)):
                return Outcome(room.records, answers=[(ticket, True)], reason="a topic is deleted")
        return Outcome(room.records, answers=[(ticket, False)], reason="a topic is deleted")

    def _usable(self, key: ShareKey, operation: str, leader_epoch: int, state_epoch: int = UNCHANGED) -> Kept | Verdict:
        """What is kept, for who leads the partition; in Kafka's order of errors."""
        if key.partition < 0:
            return NOT_A_PARTITION
        kept = self.ledger.find(key)
        if kept is None:
            return uninitialised(operation)
        if leader_epoch != UNCHANGED and leader_epoch < kept.leader_epoch:
            return Verdict(ErrorCode.FENCED_LEADER_EPOCH)
        if state_epoch != UNCHANGED and state_epoch < kept.state_epoch:
            return Verdict(ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_there(key.topic_id, key.partition):
            return UNKNOWN_PARTITION
        return kept

    def _record(self, key: ShareKey, kept: Kept, write: Write, now_ms: int) -> Record:
        """A change as an update, or, every so often, as a snapshot."""
        if kept.updates < self._settings.updates_per_snapshot:
            epoch = kept.leader_epoch if write.leader_epoch == UNCHANGED else write.leader_epoch
            return update(key, kept.snapshot_epoch, replace(write, leader_epoch=epoch))
        after = replace(kept.after(write), snapshot_epoch=kept.snapshot_epoch + 1, create_ms=now_ms, write_ms=now_ms)
        return snapshot(key, after)

    # -- the log ---------------------------------------------------------------------------------------------

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        """Take in what the log says. See `Machine`."""
        self.ledger.replay(entry)

    def knows(self, key: bytes) -> bool:
        return key_of(key) is not None

    def loaded(self, now_ms: int) -> None:
        self._next_search_ms = now_ms + self._settings.cold_snapshot_interval_ms

    def next_deadline_ms(self) -> int | None:
        return self._next_search_ms

    def expire(self, now_ms: int) -> AnyOutcome:
        """Share partitions that nobody has written for long get a new snapshot, while others are written: their old
        ones keep all that lies behind them from being deleted. Where all are cold nothing is gained by it."""
        interval_ms = self._settings.cold_snapshot_interval_ms
        if not self._unsearched and now_ms - self.ledger.written_ms < interval_ms:
            self._unsearched.extend(self.ledger.kept)
        room = BatchRoom(min(STEP_BYTES, self._settings.max_batch_bytes))
        for _ in range(VISITED_PER_STEP):
            if not self._unsearched:
                break
            key = self._unsearched[0]
            kept = self.ledger.kept.get(key)
            if kept is not None and now_ms - kept.write_ms >= interval_ms:
                fresh = replace(kept, snapshot_epoch=kept.snapshot_epoch + 1, write_ms=now_ms)
                if not room.add(snapshot(key, fresh)):
                    break
            self._unsearched.popleft()
        self._next_search_ms = now_ms if self._unsearched else now_ms + interval_ms
        return Outcome(room.records, reason="cold share partitions" if room.records else "")


def _answered(ticket: Ticket[A], answer: A) -> Outcome[A]:
    return Outcome(answers=[(ticket, answer)])

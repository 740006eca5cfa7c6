"""Finishes decided transactions: markers into every partition, then COMPLETE.

What is to be done is derived from state: a transaction in a PREPARE state calls for markers in its partitions. So a
restart goes the same way as normal running, and markers are written at least once.

Rule 1. No marker before PREPARE is durable, no COMPLETE before every marker is (I04).
Rule 2. A `Completion` is worked on by its identity: one that is not the machine's any more is let go, whatever comes
        back for it (I15); COMPLETE is submitted by the caller that finds nothing remaining (I16).
Rule 3. A transaction may have thousands of partitions: its markers are begun in slices of time, one transaction after
        the other; between two slices some have theirs and some have not, as anywhere else between PREPARE and COMPLETE.
Rule 4. Only a topic whose id is gone is passed over. What time cures is tried again, for ever: a request waits.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from coordinator.machine import Outcome
from coordinator.ports import Clock, MarkerWriter, Timer, Turns
from coordinator.runtime import Shard, ShardState
from coordinator.transactions.coordinator import TransactionCoordinator
from coordinator.transactions.ledger import Completion
from coordinator.transactions.states import NO_TOPIC_ID
from protocol.errors import ErrorCode

RETRY_MS: Final = 20
LONGEST_RETRY_MS = 1_000

WRITTEN: Final = frozenset({ErrorCode.NONE})
NOBODY_TO_TELL: Final = frozenset(
    {
        # The topic is gone for good (not: has no leader just now, KAFKA-20734).
        ErrorCode.UNKNOWN_TOPIC_ID,
        # Its log cannot hold markers.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # The partition has seen a later epoch of this producer, which it could not while this transaction was open
        # there: our marker arrived before. Kafka stops here and the id is stuck (KAFKA-19999).
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
SOMEBODY_NEWER: Final = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Another coordinator owns this id by now and does the work."""

Key = tuple[str, bytes, int]


class MarkerDriver:
    """Drives the completions of one shard. Attach with `Shard.on_durable(driver.drive)`, which `__init__` does."""

    def __init__(
        self,
        shard: Shard[TransactionCoordinator],
        writer: MarkerWriter,
        clock: Clock,
        timer: Timer,
        *,
        completed: Callable[[str], None] = lambda transactional_id: None,
        begin_turn: Callable[[], Turns] | None = None,
    ) -> None:
        """`begin_turn` begins a slice of time; without it all is begun at once."""
        self._shard = shard
        self._writer = writer
        self._clock = clock
        self._timer = timer
        self._completed = completed
        """Called with the id when COMPLETE is appended: requests held for it may go on."""
        self._begin_turn = begin_turn
        self._to_write: deque[tuple[Completion, Key]] = deque()
        self._at_work = False
        """A task is writing, or waits for a turn to go on."""
        shard.on_durable(self.drive)

    def drive(self) -> None:
        """Begin every completion whose PREPARE is durable, in log order."""
        undriven = self._shard.machine.ledger.undriven
        while undriven and undriven[0].offset < self._shard.log.durable_offset:
            completion = undriven.popleft()
            if not self._is_current(completion):
                continue
            if not completion.remaining:
                self._finish(completion, RETRY_MS)
            self._to_write.extend((completion, key) for key in completion.remaining)
        if self._to_write and not self._at_work:
            self._at_work = True
            self._write_on(None if self._begin_turn is None else self._begin_turn())

    def _write_on(self, turns: Turns | None) -> None:
        while self._to_write:
            if turns is not None and turns.spent():
                turns.call_in_turn(lambda: self._write_on(turns))
                return
            completion, key = self._to_write.popleft()
            self._write(completion, key, RETRY_MS)
        self._at_work = False

    def _is_current(self, completion: Completion) -> bool:
        """A shard that was closed has nothing to say any more, whatever its timers think."""
        active = self._shard.state is ShardState.ACTIVE
        return active and self._shard.machine.completions.get(completion.transactional_id) is completion

    def _write(self, completion: Completion, key: Key, retry_ms: int) -> None:
        if not self._is_current(completion):
            return
        topic, topic_id, partition = key
        marker = self._shard.machine.marker_of(completion)
        known_id = None if topic_id == NO_TOPIC_ID else topic_id
        self._writer.write(
            topic, partition, known_id, marker, lambda error: self._written(completion, key, error, retry_ms)
        )

    def _written(self, completion: Completion, key: Key, error: ErrorCode, retry_ms: int) -> None:
        if error in SOMEBODY_NEWER:
            return
        if error in WRITTEN or error in NOBODY_TO_TELL:
            completion.remaining.pop(key, None)
            if not completion.remaining:
                self._finish(completion, RETRY_MS)
            return
        self._later(retry_ms, lambda: self._write(completion, key, min(2 * retry_ms, LONGEST_RETRY_MS)))

    def _finish(self, completion: Completion, retry_ms: int) -> None:
        if not self._is_current(completion):
            return
        ticket = _CompleteTicket(lambda: self._refused(completion, retry_ms))

        def complete(machine: TransactionCoordinator, now_ms: int) -> Outcome[ErrorCode]:
            return machine.complete(ticket, now_ms, completion=completion)

        self._shard.submit(complete, ticket)
        if not ticket.refused:
            self._completed(completion.transactional_id)

    def _refused(self, completion: Completion, retry_ms: int) -> None:
        """The log did not take COMPLETE. It stays due for as long as the completion is current (KAFKA-5351)."""
        self._later(retry_ms, lambda: self._finish(completion, min(2 * retry_ms, LONGEST_RETRY_MS)))

    def _later(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._timer.at(self._clock.now_ms() + delay_ms, work)


class _CompleteTicket:
    """Only the driver waits for COMPLETE."""

    def __init__(self, refused: Callable[[], None]) -> None:
        self.refused = False
        self._refused = refused

    def release(self, answer: object) -> None:
        """COMPLETE is durable; it took effect when it was appended."""

    def refuse(self, error: ErrorCode) -> None:
        self.refused = True
        self._refused()

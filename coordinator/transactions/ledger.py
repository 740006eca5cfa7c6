"""What the log says of every transactional id of one partition, and what follows from it.

`transactions` and what is derived from it (`completions`, deadlines) change in `replay` only. `write` makes the records
of an operation and asserts that each may follow the one before it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coordinator.deadlines import Deadlines
from coordinator.machine import (
    A,
    OperationRefused,
    Outcome,
    Record,
    ReplayedMarker,
    ReplayedRecord,
    Ticket,
    UnreadableValue,
)
from coordinator.transactions.states import (
    NEVER_TIMES_OUT,
    Transaction,
    TransactionState,
    check_transition,
    each_partition,
    key_bytes,
    read_key,
    read_value,
    value_bytes,
    value_version,
)
from protocol.errors import ErrorCode, ProtocolError


@dataclass(init=False, slots=True, eq=False)
class Completion:
    """A decided transaction whose markers are not all written. Its identity is the object: one that is
    not the machine's any more is stale (I15, I16)."""

    transactional_id: str
    offset: int
    """Where the PREPARE record is. No marker is written before it is durable (I04)."""
    transaction: Transaction
    remaining: dict[tuple[str, bytes, int], None]
    """Partitions that still lack their marker; soft, a reload begins with all of them again."""

    def __init__(
        self,
        transactional_id: str,
        offset: int,
        transaction: Transaction,
        remaining: dict[tuple[str, bytes, int], None] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.offset = offset
        self.transaction = transaction
        self.remaining = {} if remaining is None else remaining


@dataclass(init=False, slots=True)
class Written:
    """A record that was just made, and what it was made of: replay need not decode what is known. Of layout 0 this also
    carries what the record cannot say; Kafka keeps that in memory, too, and loses it in a restart."""

    value: Final[bytes]
    after: Final[Transaction]

    def __init__(self, value: bytes, after: Transaction) -> None:
        self.value = value
        self.after = after


class TransactionLedger:
    """See the head of this file."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.completions: dict[str, Completion] = {}
        self.undriven: deque[Completion] = deque()
        """Completions that are not worked on yet, in log order."""
        self.timeouts: Deadlines[str] = Deadlines()
        """When each open transaction times out, counted from its first partition, not from its last activity."""
        self._written: deque[Written] = deque()
        self.unreadable: dict[str, int] = {}
        """Ids whose last record cannot be read, and its offset. The transaction may have been decided, or it may have
        ended: nothing is known of it, and no response says what was known before."""

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        """Take in what the log says; markers do not belong here, unknown record types are skipped (KIP-915).
        Raises `UnreadableValue`, and `ProtocolError` where the key cannot be read."""
        if isinstance(entry, ReplayedMarker):
            return
        transactional_id = read_key(entry.key)
        if transactional_id is None:
            return
        if entry.value is None:
            self._follow(transactional_id, None, entry.offset)
            return
        try:
            transaction = self._just_written(entry.value) or read_value(entry.value)
        except ProtocolError as error:
            self._follow(transactional_id, None, entry.offset)
            self.unreadable[transactional_id] = entry.offset
            raise UnreadableValue(f"transactional id {transactional_id!r}: {error}") from error
        self._follow(transactional_id, transaction, entry.offset)

    def _just_written(self, value: bytes) -> Transaction | None:
        while self._written:
            # What belongs to an append that was refused is skipped: its value is another object.
            written = self._written.popleft()
            if written.value is value:
                return written.after
        return None

    def _follow(self, transactional_id: str, transaction: Transaction | None, offset: int) -> None:
        self.completions.pop(transactional_id, None)
        self.timeouts.clear(transactional_id)
        self.unreadable.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING and transaction.timeout_ms != NEVER_TIMES_OUT:
            self.timeouts.set(transactional_id, transaction.start_ms + transaction.timeout_ms + 1)
        elif transaction.state.preparing:
            remaining = dict.fromkeys(each_partition(transaction.partitions))
            completion = Completion(transactional_id, offset, transaction, remaining)
            self.completions[transactional_id] = completion
            self.undriven.append(completion)

    def find(self, transactional_id: str) -> Transaction | None:
        """What is known of an id. Raises `OperationRefused` where its record cannot be read."""
        if transactional_id in self.unreadable:
            raise OperationRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.transactions.get(transactional_id)

    def undecided(self) -> Iterator[str]:
        """Ids with a transaction that is open or on its way to its end. (One that never times out would be missing:
        there are none without KIP-939.)"""
        yield from self.timeouts.keys()
        yield from self.completions

    def owner_of(self, producer_id: int) -> tuple[str, Transaction] | None:
        """The id in whose open or decided transaction this producer is."""
        for transactional_id in self.undecided():
            transaction = self.transactions[transactional_id]
            if transaction.producer_id == producer_id:
                return transactional_id, transaction
        return None

    def loaded(self, now_ms: int) -> None:
        """Forget completions that the log itself finished; the driver takes on the others. What began in the future, by
        a clock that was set right since or by that of another node, begins now: nobody waits for that time."""
        self.undriven = deque(self.completions.values())
        for transactional_id in list(self.timeouts.keys()):
            transaction = self.transactions[transactional_id]
            if transaction.start_ms > now_ms:
                self.timeouts.set(transactional_id, now_ms + transaction.timeout_ms + 1)

    def write(
        self,
        transactional_id: str,
        steps: list[Transaction],
        answers: list[tuple[Ticket[A], A]],
        *,
        cluster_version: int,
        reason: str,
    ) -> Outcome[A]:
        """The outcome that takes an id through `steps`, in one batch."""
        key = key_bytes(transactional_id)
        before = self.transactions.get(transactional_id)
        records = []
        for after in steps:
            check_transition(before, after)
            version = value_version(after, cluster_version)
            value = value_bytes(after, version)
            self._written.append(Written(value, after))
            records.append(Record(key, value))
            before = after
        return Outcome(records=records, answers=list(answers), reason=reason)

"""What a coordinator machine is: a replicated state machine over one log.

Rule 1. An operation reads state and returns an `Outcome`: records to append, answers to release, and why.
Rule 2. `replay` is the only thing that changes logged state, live and on load alike.
Rule 3. What is not logged (a joining member, a heartbeat deadline) is soft state of its own class, lost on reload.
Rule 4. Nothing here waits, reads a clock or draws a random number; the time and fresh ids come as arguments.

`coordinator.runtime` appends an outcome's records, replays them at once, and releases the answers when everything
they saw is durable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from protocol.errors import ErrorCode

A = TypeVar("A")
"""What an operation answers."""
A_contra = TypeVar("A_contra", contravariant=True)


class Ticket(Protocol[A_contra]):
    """One request that waits for an answer of one type. Exactly one of the two methods is called, once."""

    def release(self, answer: A_contra) -> None: ...

    def refuse(self, error: ErrorCode) -> None:
        """The operation did not take place (append refused, shard going away)."""


@dataclass(init=False, slots=True, unsafe_hash=True)
class Record:
    """A record to append, as bytes. `value` None is a tombstone; a log that is not compacted by key needs none."""

    key: Final[bytes | None]
    value: Final[bytes | None]

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self.key = key
        self.value = value


@dataclass(frozen=True, slots=True)
class ProducerStamp:
    """Whose transaction a batch belongs to."""

    producer_id: int
    producer_epoch: int


@dataclass(init=False, slots=True, unsafe_hash=True)
class Marker:
    """The end of a transaction in one partition: what a control batch says, and how it is checked.

    `transaction_version` >= 2 demands an epoch strictly above the producer's (KIP-1228).
    """

    producer_id: Final[int]
    producer_epoch: Final[int]
    commit: Final[bool]
    coordinator_epoch: Final[int]
    transaction_version: Final[int]

    def __init__(
        self, producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, transaction_version: int
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


@dataclass(frozen=True, slots=True)
class Block:
    """A whole batch that was built before the decision, where building and replaying it would take too long at once.

    `replay`, with the offset of its first record, changes state exactly as replaying its records one by one does.
    """

    batch: bytes
    replay: Callable[[int], None]


class Outcome(Generic[A]):
    """What an operation decided; `A` is the answer to the request, now or later.

    `records` go into the log as one batch, of the transaction of `stamp` if that is given; a `block` stands in their
    place. `marker` is written
    instead of records (WriteTxnMarkers on `__consumer_offsets`). `answers` are released when all that the
    operation saw, its own records included, is durable. `reason` is for people: logs, timelines, `explain`.
    """

    __slots__ = ("answers", "block", "marker", "reason", "records", "stamp")

    def __init__(
        self,
        records: Sequence[Record] = (),
        stamp: ProducerStamp | None = None,
        marker: Marker | None = None,
        block: Block | None = None,
        answers: list[tuple[Ticket[A], A]] | None = None,
        reason: str = "",
    ) -> None:
        self.records = records
        self.stamp = stamp
        self.marker = marker
        self.block = block
        self.answers = [] if answers is None else answers
        self.reason = reason


AnyTicket: TypeAlias = Ticket[Any]
AnyOutcome: TypeAlias = Outcome[Any]
"""Of an operation without a request, or that releases other requests, too: each gets its own answer."""


@dataclass(init=False, slots=True)
class ReplayedRecord:
    """A record as it comes out of the log. `stamp` is set where its batch is transactional. That it is not
    frozen saves a microsecond for each record of a log that is loaded."""

    offset: Final[int]
    timestamp_ms: Final[int]
    stamp: Final[ProducerStamp | None]
    key: Final[bytes]
    value: Final[bytes | None]

    def __init__(
        self, offset: int, timestamp_ms: int, stamp: ProducerStamp | None, key: bytes, value: bytes | None
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.stamp = stamp
        self.key = key
        self.value = value


@dataclass(frozen=True, slots=True)
class ReplayedMarker:
    """A control record as it comes out of the log."""

    offset: int
    timestamp_ms: int
    stamp: ProducerStamp
    commit: bool


class UnreadableValue(Exception):
    """Raised by `replay`: the key of a record was read, its value cannot be. The machine has marked what the key stands
    for, and refuses what depends on it until a later record of that key is replayed."""


class OperationRefused(Exception):
    """Raised by an operation that cannot take place. Its tickets are refused with `error`, and nothing has happened."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Machine(Protocol):
    """The part every coordinator machine has; its operations are plain methods of their own names."""

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        """Take in what the log says. Unknown record types are skipped (KIP-915). Raises `UnreadableValue`; or
        `ProtocolError` where not even the key can be read, so that nobody knows what the record is about."""

    def knows(self, key: bytes) -> bool:
        """Whether a record with this key is of a type that `replay` takes in. Raises `ProtocolError`."""

    def loaded(self, now_ms: int) -> None:
        """The whole log was replayed; the shard goes live."""

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, in wall-clock milliseconds; None for never."""

    def expire(self, now_ms: int) -> AnyOutcome:
        """Act on deadlines that have passed. Called again while `next_deadline_ms` lies in the past."""

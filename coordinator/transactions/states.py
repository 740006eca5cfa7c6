"""What the log remembers of one transactional id, and which states may follow which.

`TRANSITIONS` is the table; `check_transition` asserts it, with the conditions each step has to keep, before anything
is written. Replay does not: compaction may have left out the steps between two records.

There is no pending state. A record is replayed as soon as it is appended, so "on its way" and "there" are one; what
answers CONCURRENT_TRANSACTIONS in its place is described in docs/decisions/0002-no-pending-state.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from coordinator.transactions.records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from protocol.codec import decode, read_versioned, versioned
from protocol.errors import ProtocolError
from protocol.records.batch import LAST_EPOCH

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
NO_TOPIC_ID: Final = bytes(16)
DECISION_BYTES = 64
"""At most what the tagged fields of a decision add to a record: two producer ids, an epoch, the client's version."""
TOPIC_ID_BYTES = 24
"""At most what a topic takes up more in layout 1 than in layout 0."""
LONGEST_SHORT_KEY: Final = 256
"""Keys up to this length are remembered in both forms; ids may have 32 767 bytes, and clients choose them."""
NEVER_TIMES_OUT: Final = (1 << 31) - 1
"""The timeout of a transaction that takes part in a two-phase commit (KIP-939): only its client ends it."""


class TransactionState(IntEnum):
    """The states on disk, with Kafka's numbers. Dead and PrepareEpochFence (6, 7) are never written, nor needed."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def wire_name(self) -> str:
        """The name in Describe and List answers."""
        return WIRE_NAMES[self]

    @property
    def preparing(self) -> bool:
        """Decided, and markers are being written: nothing may touch the id until they are."""
        return self in PREPARING


WIRE_NAMES = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
}
WRITTEN_STATES = frozenset(map(int, WIRE_NAMES))
KNOWN_STATE_NAMES = frozenset({*WIRE_NAMES.values(), "PrepareEpochFence", "Dead"})
"""What a state filter may name. Kafka has one more, which no id is ever in here."""

PREPARING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    # Target: what it may follow.                        Trigger:
    TransactionState.EMPTY: IDLE,  #                     InitProducerId
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},  # a partition is added
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),  # EndTxn(commit)
    TransactionState.PREPARE_ABORT: IDLE
    | {TransactionState.ONGOING},  # EndTxn(abort), timeout, fencing; idle: TV2 only
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),  # all markers are written
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""Target state to the states it may follow. A new id begins with EMPTY; a tombstone may follow any of `IDLE`."""


@dataclass(init=False, slots=True, order=True, unsafe_hash=True)
class TopicPartitions:
    """Partitions of one topic in a transaction. The topic id differs from that of a later topic of the same name (I17);
    `NO_TOPIC_ID` where the log does not say (records of TV0)."""

    topic: Final[str]
    topic_id: Final[bytes]
    partitions: Final[tuple[int, ...]]

    def __init__(self, topic: str, topic_id: bytes, partitions: tuple[int, ...]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


@dataclass(init=False, slots=True, unsafe_hash=True)
class Transaction:
    """One transactional id, as its last record says. Epochs and ids are what Kafka's fields of the same names are."""

    producer_id: Final[int]
    producer_epoch: Final[int]
    timeout_ms: Final[int]
    state: Final[TransactionState]
    last_update_ms: Final[int]
    start_ms: Final[int]
    previous_producer_id: Final[int]
    next_producer_id: Final[int]
    last_producer_epoch: Final[int]
    client_version: Final[int]
    partitions: Final[tuple[TopicPartitions, ...]]

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        timeout_ms: int,
        state: TransactionState,
        last_update_ms: int,
        start_ms: int = NO_TIMESTAMP,
        previous_producer_id: int = NO_PRODUCER_ID,
        next_producer_id: int = NO_PRODUCER_ID,
        last_producer_epoch: int = NO_EPOCH,
        client_version: int = 0,
        partitions: tuple[TopicPartitions, ...] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.timeout_ms = timeout_ms
        self.state = state
        self.last_update_ms = last_update_ms
        self.start_ms = start_ms
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.last_producer_epoch = last_producer_epoch
        self.client_version = client_version
        self.partitions = partitions

    @property
    def producer_ids(self) -> set[int]:
        """All that its client may write with: a new one while the transaction before it completes; -1 is nobody's."""
        return {self.producer_id, self.previous_producer_id, self.next_producer_id, NO_PRODUCER_ID}


def each_partition(partitions: Iterable[TopicPartitions]) -> Iterator[tuple[str, bytes, int]]:
    """(topic, topic id, partition), in a fixed order."""
    for entry in partitions:
        for partition in entry.partitions:
            yield entry.topic, entry.topic_id, partition


class PartitionsByTopic:
    """(topic, topic id, partition), taken one after the other, as a transaction keeps them."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bytes], set[int]] = {}

    def add(self, topic: str, topic_id: bytes, partition: int) -> None:
        self._found.setdefault((topic, topic_id), set()).add(partition)

    def __iter__(self) -> Iterator[TopicPartitions]:
        for (topic, topic_id), partitions in self._found.items():
            yield TopicPartitions(topic, topic_id, tuple(sorted(partitions)))


def by_topic(partitions: Iterable[tuple[str, bytes, int]]) -> list[TopicPartitions]:
    """The same at once."""
    found = PartitionsByTopic()
    for topic, topic_id, partition in partitions:
        found.add(topic, topic_id, partition)
    return list(found)


def contains(partitions: Iterable[TopicPartitions], topic: str, topic_id: bytes, partition: int) -> bool:
    """Whether a partition is among them. An id that is not known, on either side, leaves the name to decide."""
    return any(
        entry.topic == topic
        and (entry.topic_id == topic_id or NO_TOPIC_ID in (entry.topic_id, topic_id))
        and partition in entry.partitions
        for entry in partitions
    )


class PartitionLookup:
    """As `contains`, for many questions about the same partitions."""

    def __init__(self, partitions: Iterable[TopicPartitions]) -> None:
        self._by_topic: dict[str, list[tuple[bytes, frozenset[int]]]] = {}
        for entry in partitions:
            self._by_topic.setdefault(entry.topic, []).append((entry.topic_id, frozenset(entry.partitions)))

    def contains(self, topic: str, topic_id: bytes, partition: int) -> bool:
        return any(
            (known_id == topic_id or NO_TOPIC_ID in (known_id, topic_id)) and partition in indexes
            for known_id, indexes in self._by_topic.get(topic, ())
        )

    def missing(self, entry: TopicPartitions) -> set[int]:
        """Those partitions of an entry that are not among them."""
        missing = set(entry.partitions)
        for known_id, indexes in self._by_topic.get(entry.topic, ()):
            if known_id == entry.topic_id or NO_TOPIC_ID in (known_id, entry.topic_id):
                missing -= indexes
        return missing


def united(known: tuple[TopicPartitions, ...], added: Iterable[TopicPartitions]) -> tuple[TopicPartitions, ...]:
    """The union, sorted; `known` itself where nothing is new."""
    fresh: dict[tuple[str, bytes], set[int]] = {}
    lookup = PartitionLookup(known)
    for entry in added:
        missing = lookup.missing(entry)
        if missing:
            fresh.setdefault((entry.topic, entry.topic_id), set()).update(missing)
    if not fresh:
        return known
    for entry in known:
        if (entry.topic, entry.topic_id) in fresh:
            fresh[entry.topic, entry.topic_id].update(entry.partitions)
    union = [entry for entry in known if (entry.topic, entry.topic_id) not in fresh]
    union += [TopicPartitions(*topic, tuple(sorted(partitions))) for topic, partitions in fresh.items()]
    return tuple(sorted(union, key=_topic_of))


def _topic_of(entry: TopicPartitions) -> tuple[str, bytes]:
    return entry.topic, entry.topic_id


def check_transition(before: Transaction | None, after: Transaction) -> None:
    """Assert that `after` may follow `before`. No timestamp is compared: clocks go backwards (KAFKA-5415)."""
    assert after.producer_id >= 0
    assert 0 <= after.producer_epoch <= LAST_EPOCH
    if before is None:
        assert after.state is TransactionState.EMPTY
        assert after.producer_epoch == 0
        return
    assert before.state in TRANSITIONS[after.state], f"{before.state.name} to {after.state.name}"
    same_identity = (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch)
    if after.state is TransactionState.EMPTY:
        _check_empty(before, after)
        return
    assert after.timeout_ms == before.timeout_ms
    if after.state is TransactionState.ONGOING:
        assert same_identity
        assert after.start_ms != NO_TIMESTAMP
        if before.partitions:
            lookup = PartitionLookup(after.partitions)
            assert not any(lookup.missing(entry) for entry in before.partitions)
    elif after.state.preparing:
        assert after.producer_id == before.producer_id
        assert after.producer_epoch - before.producer_epoch in (0, 1)
        assert after.partitions == before.partitions
        assert before.state is TransactionState.ONGOING or not after.partitions
        assert after.start_ms != NO_TIMESTAMP
    else:
        rotated = before.next_producer_id != NO_PRODUCER_ID
        assert same_identity or (rotated and (after.producer_id, after.producer_epoch) == (before.next_producer_id, 0))
        assert not after.partitions
        assert after.next_producer_id == NO_PRODUCER_ID


def _check_empty(before: Transaction, after: Transaction) -> None:
    bump = after.producer_epoch - before.producer_epoch
    rotated = after.producer_id != before.producer_id and after.producer_epoch == 0
    assert rotated or (after.producer_id == before.producer_id and bump in (0, 1))
    assert not after.partitions
    assert after.start_ms == NO_TIMESTAMP


# -- records -----------------------------------------------------------------------------------------------------


def key_bytes(transactional_id: str) -> bytes:
    """The key of an id's records: the record type 0, then the id."""
    write = _short_key_bytes if len(transactional_id) <= LONGEST_SHORT_KEY else _short_key_bytes.__wrapped__
    return write(transactional_id)


@lru_cache(maxsize=1024)
def _short_key_bytes(transactional_id: str) -> bytes:
    return versioned(TransactionLogKey(transactional_id=transactional_id), 0)


def read_key(key: bytes) -> str | None:
    """The transactional id of a key; None for record types we do not know (KIP-915)."""
    read = _read_short_key if len(key) <= LONGEST_SHORT_KEY else _read_short_key.__wrapped__
    return read(key)


@lru_cache(maxsize=1024)
def _read_short_key(key: bytes) -> str | None:
    if int.from_bytes(key[:2], "big", signed=True) != 0:
        return None
    return decode(TransactionLogKey, 0, key, 2)[0].transactional_id


def value_version(transaction: Transaction, cluster_version: int) -> int:
    """Which layout to write. 0 only where the cluster's `transaction.version` is 0 and no field would be lost that a
    recovery needs: a client may still end a TV2 transaction just after a downgrade."""
    modern = transaction.client_version >= 2 or transaction.next_producer_id != NO_PRODUCER_ID
    return 1 if cluster_version >= 1 or modern else 0


def growth_until_decided(transaction: Transaction, version: int) -> int:
    """By how much the record of a decision may be larger than that of the open transaction, written in layout
    `version`: by its tagged fields, and by the id of each topic, for which layout 0 has no room."""
    return DECISION_BYTES + (TOPIC_ID_BYTES * len(transaction.partitions) if version == 0 else 0)


def value_bytes(transaction: Transaction, version: int) -> bytes:
    """A value in the given layout, with its version before it. An empty transaction has a null array."""
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=entry.topic, partition_ids=list(entry.partitions), topic_id=entry.topic_id)
            for entry in transaction.partitions
        ]
    return versioned(
        TransactionLogValue(
            producer_id=transaction.producer_id,
            previous_producer_id=transaction.previous_producer_id,
            next_producer_id=transaction.next_producer_id,
            producer_epoch=transaction.producer_epoch,
            last_producer_epoch=transaction.last_producer_epoch,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_status=int(transaction.state),
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=transaction.last_update_ms,
            transaction_start_timestamp_ms=transaction.start_ms,
            client_transaction_version=transaction.client_version,
        ),
        version,
    )


def read_value(value: bytes) -> Transaction:
    """What a value says. Raises `ProtocolError`, also for layouts and states we do not know."""
    record = read_versioned(TransactionLogValue, value)
    if record.transaction_status not in WRITTEN_STATES:
        raise ProtocolError(f"a transaction in state {record.transaction_status}")
    return Transaction(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        timeout_ms=record.transaction_timeout_ms,
        state=TransactionState(record.transaction_status),
        last_update_ms=record.transaction_last_update_timestamp_ms,
        start_ms=record.transaction_start_timestamp_ms,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        last_producer_epoch=record.last_producer_epoch,
        client_version=record.client_transaction_version,
        partitions=tuple(
            TopicPartitions(entry.topic, entry.topic_id, tuple(entry.partition_ids))
            for entry in record.transaction_partitions or ()
        ),
    )

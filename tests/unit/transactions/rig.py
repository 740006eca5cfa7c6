"""A transaction coordinator over a log in memory, with producer ids, time and marker leaders a test controls."""

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.loading import entries_of
from coordinator.machine import Marker, Outcome, Record, ReplayedRecord, Ticket
from coordinator.ports import Turns
from coordinator.runtime import Shard
from coordinator.transactions.answers import Identity
from coordinator.transactions.coordinator import TransactionCoordinator
from coordinator.transactions.fencing import Producer
from coordinator.transactions.markers import MarkerDriver
from coordinator.transactions.states import (
    TopicPartitions,
    Transaction,
    TransactionState,
    key_bytes,
    read_value,
    value_bytes,
)
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket, MemoryShardLog, VirtualTime

TOPIC_ID = bytes(range(16))
T0 = TopicPartitions("t", TOPIC_ID, (0,))
T1 = TopicPartitions("t", TOPIC_ID, (1,))
OFFSETS = TopicPartitions("__consumer_offsets", bytes(15) + b"\x01", (12,))
ID = "tx"


@dataclass
class Settings:
    """Kafka's defaults."""

    expiration_ms: int = 604_800_000
    expiry_scan_ms: int = 3_600_000
    abort_retry_ms: int = 10_000
    cluster_version: int = 2
    max_batch_bytes: int = 1_048_588


@dataclass
class Ids:
    """Producer ids 1000, 1001, … while there are any."""

    next_id: int = 1000
    dry: bool = False

    def take(self) -> int | None:
        if self.dry:
            return None
        self.next_id += 1
        return self.next_id - 1


Done = Callable[[ErrorCode], None]


@dataclass
class Leaders:
    """Partition leaders: keep their requests, and answer at once or when the test says."""

    answers: dict[tuple[str, int], list[ErrorCode]] = field(default_factory=dict)
    held: bool = False
    pending: list[tuple[str, int, bytes | None, Marker, Done]] = field(default_factory=list)
    written: list[tuple[str, int, Marker]] = field(default_factory=list)

    def write(self, topic: str, partition: int, topic_id: bytes | None, marker: Marker, done: Done) -> None:
        if self.held:
            self.pending.append((topic, partition, topic_id, marker, done))
            return
        self._answer(topic, partition, marker, done)

    def _answer(self, topic: str, partition: int, marker: Marker, done: Done) -> None:
        planned = self.answers.get((topic, partition))
        error = planned.pop(0) if planned else ErrorCode.NONE
        if error is ErrorCode.NONE:
            self.written.append((topic, partition, marker))
        done(error)

    def let_go(self) -> None:
        """Answer everything that was held."""
        self.held = False
        pending, self.pending = self.pending, []
        for topic, partition, _topic_id, marker, done in pending:
            self._answer(topic, partition, marker, done)


class Rig:
    """One shard of transactions. Markers are written by `leaders` unless `driven` is False."""

    def __init__(
        self,
        *,
        version: int = 2,
        durable: bool = True,
        driven: bool = True,
        log: MemoryShardLog | None = None,
        begin_turn: Callable[[], Turns] | None = None,
    ) -> None:
        self.time = VirtualTime()
        self.ids = Ids()
        self.settings = Settings(cluster_version=version)
        self.leaders = Leaders()
        self.log = log or MemoryShardLog(durable=durable)
        self.completed: list[str] = []
        self.driven = driven
        self.begin_turn = begin_turn
        self._open()

    def _open(self) -> None:
        shard = self.shard = Shard(self.make, self.log, self.time, self.time, name="__transaction_state-0")
        if self.driven:
            MarkerDriver(
                shard,
                self.leaders,
                self.time,
                self.time,
                completed=self.completed.append,
                begin_turn=self.begin_turn,
            )
        while not shard.load_slice(1):
            pass

    def make(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.ids, self.settings, lambda: 5)

    def restart(self, *, driven: bool | None = None) -> None:
        """A new shard over the same log."""
        self.shard.close()
        self.driven = self.driven if driven is None else driven
        self.log = self.log.copy()
        self._open()

    @property
    def machine(self) -> TransactionCoordinator:
        return self.shard.machine

    def state(self, transactional_id: str = ID) -> Transaction:
        return self.machine.transactions[transactional_id]

    def seed(self, transaction: Transaction, transactional_id: str = ID, version: int = 1) -> None:
        """Put an id into a state, as a log would, without the steps that lead there."""
        record = Record(key_bytes(transactional_id), value_bytes(transaction, version))
        self.shard.submit(lambda machine, now_ms: Outcome(records=[record]))

    def submit(self, operation: Callable[[TransactionCoordinator, Ticket, int], Outcome]) -> CollectingTicket:
        ticket = CollectingTicket()
        self.shard.submit(lambda machine, now_ms: operation(machine, ticket, now_ms), ticket)
        return ticket

    # Each returns the ticket; `.answer` is the response to a client.

    def init(
        self, transactional_id: str = ID, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000
    ) -> CollectingTicket:
        known = None if expected is None else Producer(*expected)
        return self.submit(
            lambda machine, ticket, now_ms: machine.init_producer_id(
                ticket, now_ms, transactional_id=transactional_id, timeout_ms=timeout_ms, expected=known
            )
        )

    def add(
        self,
        claimed: tuple[int, int],
        *partitions: TopicPartitions,
        version: int = 2,
        transactional_id: str = ID,
    ) -> CollectingTicket:
        return self.submit(
            lambda machine, ticket, now_ms: machine.add_partitions(
                ticket,
                now_ms,
                transactional_id=transactional_id,
                claimed=Producer(*claimed),
                partitions=partitions or (T0,),
                client_version=version,
            )
        )

    def verify(self, claimed: tuple[int, int], *partitions: TopicPartitions, transactional_id: str = ID) -> object:
        return self.submit(
            lambda machine, ticket, now_ms: machine.verify_partitions(
                ticket,
                now_ms,
                transactional_id=transactional_id,
                claimed=Producer(*claimed),
                partitions=partitions or (T0,),
            )
        ).answer

    def end(
        self, claimed: tuple[int, int], *, commit: bool, version: int = 2, transactional_id: str = ID
    ) -> CollectingTicket:
        return self.submit(
            lambda machine, ticket, now_ms: machine.end_transaction(
                ticket,
                now_ms,
                transactional_id=transactional_id,
                claimed=Producer(*claimed),
                commit=commit,
                client_version=version,
            )
        )


def identity(ticket: CollectingTicket) -> tuple[int, int]:
    """The producer id and epoch a client got."""
    answer = ticket.answer
    assert isinstance(answer, Identity)
    assert answer.error is ErrorCode.NONE, answer.error
    return answer.producer_id, answer.producer_epoch


def error(ticket: CollectingTicket) -> ErrorCode:
    """The error code a client got."""
    if ticket.errors:
        return ticket.errors[0]
    answer = ticket.answer
    return answer.error if isinstance(answer, Identity) else ErrorCode(answer)  # type: ignore[arg-type]


def in_state(state: TransactionState, **changes: object) -> Transaction:
    """A plausible id in a given state: producer 7, epoch 3."""
    open_or_decided = state is TransactionState.ONGOING or state.preparing
    values: dict[str, object] = {
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "state": state,
        "last_update_ms": 1_700_000_000_000,
        "start_ms": -1 if state is TransactionState.EMPTY else 1_700_000_000_000,
        "previous_producer_id": 7,
        "client_version": 2,
        "partitions": (T0,) if open_or_decided else (),
    }
    return Transaction(**(values | changes))  # type: ignore[arg-type]


def records_in(rig: Rig) -> list[ReplayedRecord]:
    """Everything the log says."""
    entries = [entry for _, batch in rig.log.batches for entry, _ in entries_of(batch)]
    return [entry for entry in entries if isinstance(entry, ReplayedRecord)]


def states_in_the_log(rig: Rig) -> list[str]:
    """The states of all records, in order."""
    values = [None if record.value is None else read_value(record.value) for record in records_in(rig)]
    return ["tombstone" if value is None else value.state.name for value in values]

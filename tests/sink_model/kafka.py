"""The broker: the coordinator of one transactional id, and what is written under it to each partition.

    EMPTY -> ONGOING -> PREPARE_COMMIT -> COMPLETE_COMMIT        a lease (InitProducerId) leads back to EMPTY
                     -> PREPARE_ABORT  -> COMPLETE_ABORT         an end marker per partition between the two

Partition 0 is the control topic's; the others hold rows. Acknowledged is durable here, and a coordinator that fails
over knows what was logged: both are a broker's promise, and a broker that is away is nothing but a delay.

What is left out: epochs that run out, producers that are forgotten after days, and the sixth last batch of a producer.
The check of a partition with the coordinator and the append are one step, as the guards of KIP-890 make them.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

CONTROL = 0
MARKER = -1
"""The number of a row that is the batch's marker; those of later plans of a batch are below it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between brokers."""

    name: str
    moves_epoch: bool
    """EndTxn moves the epoch, and writing to a partition makes it join (transaction.version 2)."""
    verifies: bool
    """The partition leader verifies with the coordinator before it takes the first batch of a transaction (KIP-890)."""


TV2 = Rules("transaction.version 2", moves_epoch=True, verifies=True)
VERIFIED = Rules("old rules, verified (Kafka 3.6 and newer)", moves_epoch=False, verifies=True)
OLD = Rules("old rules (Kafka 2.5 to 3.5)", moves_epoch=False, verifies=False)
ALL_RULES = (TV2, VERIFIED, OLD)


class Phase(StrEnum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMPLETE_COMMIT = "complete commit"
    COMPLETE_ABORT = "complete abort"


PREPARED = (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT)
DECIDED = (*PREPARED, Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT)


class Answer(StrEnum):
    OK = "done"
    WAIT = "wait and ask again"
    GONE = "that transaction is no more"
    FENCED = "fenced"


class Row(NamedTuple):
    """A record. `late` says that it was appended when its epoch was over."""

    query: int
    batch: int
    number: int
    late: bool = False


class Partition(NamedTuple):
    """The log holds rows, and True or False where an end marker committed or aborted those before it."""

    log: tuple[Row | bool, ...] = ()
    epoch: int = -1
    next_sequence: int = 0
    is_open: bool = False


class Broker(NamedTuple):
    partitions: tuple[Partition, ...]
    phase: Phase = Phase.EMPTY
    epoch: int = 0
    members: tuple[int, ...] = ()
    """Partitions of the transaction; after its decision those that still lack their end marker."""


class Request(NamedTuple):
    """`kind` is lease, add, produce, commit or abort; what a kind does not need is left as it is."""

    kind: str
    epoch: int = -1
    partition: int = -1
    sequence: int = -1
    row: Row | None = None
    sink: int = 0
    """Whose coordinator and records these are: each sink id is a `Broker` of its own here."""


def deliver(broker: Broker, rules: Rules, request: Request) -> tuple[Broker, Answer]:
    """What a request does. A lease's answer is in the broker's epoch."""
    if request.kind == "lease":
        return lease(broker)
    if request.kind == "add":
        return add(broker, request)
    if request.kind == "produce":
        return produce(broker, rules, request)
    return end(broker, rules, request.epoch, commit=request.kind == "commit")


def lease(broker: Broker) -> tuple[Broker, Answer]:
    """InitProducerId: aborts what is open first; the asker comes again."""
    if broker.phase in PREPARED:
        return broker, Answer.WAIT
    if broker.phase is Phase.ONGOING:
        return fence(broker), Answer.WAIT
    return broker._replace(phase=Phase.EMPTY, epoch=broker.epoch + 1, members=()), Answer.OK


def fence(broker: Broker) -> Broker:
    """Abort what is open, under an epoch that its writer does not have: for a new lease, or for its age."""
    return broker._replace(phase=Phase.PREPARE_ABORT, epoch=broker.epoch + 1)


def end(broker: Broker, rules: Rules, epoch: int, *, commit: bool) -> tuple[Broker, Answer]:
    """EndTxn."""
    prepare, complete = (
        (Phase.PREPARE_COMMIT, Phase.COMPLETE_COMMIT) if commit else (Phase.PREPARE_ABORT, Phase.COMPLETE_ABORT)
    )
    if rules.moves_epoch and epoch == broker.epoch - 1 and broker.phase in DECIDED:
        return broker, _repeated(broker.phase, prepare, complete)
    if epoch != broker.epoch:
        return broker, Answer.FENCED
    if broker.phase is Phase.ONGOING:
        moved = broker.epoch + 1 if rules.moves_epoch else broker.epoch
        return broker._replace(phase=prepare, epoch=moved), Answer.OK
    if broker.phase is Phase.EMPTY or rules.moves_epoch:
        return broker, Answer.GONE
    return broker, _repeated(broker.phase, prepare, complete)


def _repeated(phase: Phase, prepare: Phase, complete: Phase) -> Answer:
    if phase is complete:
        return Answer.OK
    return Answer.WAIT if phase is prepare else Answer.GONE


def add(broker: Broker, request: Request) -> tuple[Broker, Answer]:
    """AddPartitionsToTxn, and what the new rules do on the first write."""
    if request.epoch != broker.epoch:
        return broker, Answer.FENCED
    if broker.phase in PREPARED:
        return broker, Answer.WAIT
    members = broker.members if broker.phase is Phase.ONGOING else ()
    if request.partition not in members:
        members = tuple(sorted((*members, request.partition)))
    return broker._replace(phase=Phase.ONGOING, members=members), Answer.OK


def produce(broker: Broker, rules: Rules, request: Request) -> tuple[Broker, Answer]:
    """Append one row, or know it for a repetition by its sequence."""
    at, epoch = broker.partitions[request.partition], request.epoch
    if epoch < at.epoch:
        return broker, Answer.FENCED
    expected = at.next_sequence if epoch == at.epoch else 0
    if request.sequence < expected:
        return broker, Answer.OK
    if request.sequence > expected:
        return broker, Answer.GONE
    if not at.is_open and rules.moves_epoch:
        broker, answer = add(broker, request)
        if answer is not Answer.OK:
            return broker, answer
    elif not at.is_open and rules.verifies:
        is_member = broker.phase is Phase.ONGOING and request.partition in broker.members
        if epoch != broker.epoch or not is_member:
            return broker, Answer.GONE
    assert request.row is not None
    row = request.row._replace(late=epoch < broker.epoch)
    appended = Partition((*at.log, row), epoch, expected + 1, True)
    return _with(broker, request.partition, appended), Answer.OK


def write_end_marker(broker: Broker, number: int) -> Broker:
    """The coordinator's marker reaches one partition of a decided transaction. The last one completes it."""
    assert broker.phase in PREPARED
    at = broker.partitions[number]
    is_commit = broker.phase is Phase.PREPARE_COMMIT
    following = at.next_sequence if broker.epoch == at.epoch else 0
    ended = Partition((*at.log, is_commit), max(broker.epoch, at.epoch), following, False)
    members = tuple(member for member in broker.members if member != number)
    phase = broker.phase
    if not members:
        phase = Phase.COMPLETE_COMMIT if is_commit else Phase.COMPLETE_ABORT
    return _with(broker, number, ended)._replace(members=members, phase=phase)


def _with(broker: Broker, number: int, partition: Partition) -> Broker:
    partitions = broker.partitions
    return broker._replace(partitions=(*partitions[:number], partition, *partitions[number + 1 :]))


@lru_cache(maxsize=1 << 16)
def settled(broker: Broker) -> Broker:
    """The broker once all end markers that are decided on have been written."""
    while broker.phase in PREPARED:
        broker = write_end_marker(broker, broker.members[0])
    return broker


def committed(log: tuple[Row | bool, ...]) -> tuple[Row, ...]:
    """What a read_committed reader gets of a log; what no marker follows is not there yet."""
    shown: list[Row] = []
    waiting: list[Row] = []
    for entry in log:
        if isinstance(entry, Row):
            waiting.append(entry)
        else:
            shown += waiting if entry else []
            waiting = []
    return tuple(shown)


def undecided(log: tuple[Row | bool, ...]) -> tuple[Row, ...]:
    """The rows at the end of a log that no end marker follows."""
    waiting: list[Row] = []
    for entry in log:
        waiting = [*waiting, entry] if isinstance(entry, Row) else []
    return tuple(waiting)


def is_void(broker: Broker, rules: Rules, request: Request) -> bool:
    """Whether a request can never have an effect again, whenever it arrives: its epoch is over where it counts."""
    if request.kind == "lease":
        return False
    if request.kind != "produce":
        return request.epoch < broker.epoch
    at = broker.partitions[request.partition]
    if request.epoch < at.epoch:
        return True
    can_join = not rules.verifies or (at.is_open and at.epoch == request.epoch)
    return request.epoch < broker.epoch and not can_join

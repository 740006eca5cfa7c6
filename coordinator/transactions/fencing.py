"""Who may do what with a transactional id: epochs, and the two tables of EndTxn.

Pure functions of a `Transaction` and what a request claims. TV0 is the classic protocol (TV1 differs in the layout on
disk only): one epoch for many transactions, so a late EndTxn looks like a new one (KAFKA-17754). TV2 (KIP-890
part 2) gives every transaction an epoch of its own: the decision bumps it, markers carry the bumped one.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from coordinator.transactions.states import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Transaction,
    TransactionState,
)
from protocol.errors import ErrorCode
from protocol.records.batch import LAST_EPOCH

EXHAUSTED_EPOCH = LAST_EPOCH - 1
"""From here on the next bump takes a new producer id."""


class Verdict(Enum):
    """What EndTxn does, where it is not refused."""

    DECIDE = "write the decision"
    ALREADY = "it was decided the same way before; say so again"


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DECIDE, ALREADY = Verdict.DECIDE, Verdict.ALREADY
WRONG_STATE, CONCURRENT, FENCED = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
)

# state: (commit, abort)
END_TV0: dict[TransactionState, tuple[Verdict | ErrorCode, Verdict | ErrorCode]] = {
    ONGOING: (DECIDE, DECIDE),
    PREPARE_COMMIT: (CONCURRENT, CONCURRENT),  # Kafka would say 48 to an abort, but its pending state hides that.
    PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    COMPLETE_COMMIT: (ALREADY, WRONG_STATE),
    COMPLETE_ABORT: (WRONG_STATE, ALREADY),
    EMPTY: (WRONG_STATE, WRONG_STATE),
}

# state: (abort retried, abort with the current epoch, commit retried, commit with the current epoch)
# An abort of an idle id is an "empty abort": decided and completed at once, there is nothing to mark.
# The PREPARE rows are answered 51 before anything else is compared (KAFKA-18464).
END_TV2: dict[TransactionState, tuple[Verdict | ErrorCode, ...]] = {
    ONGOING: (FENCED, DECIDE, FENCED, DECIDE),
    EMPTY: (FENCED, DECIDE, FENCED, WRONG_STATE),
    COMPLETE_ABORT: (ALREADY, DECIDE, WRONG_STATE, WRONG_STATE),
    COMPLETE_COMMIT: (WRONG_STATE, DECIDE, ALREADY, WRONG_STATE),
    PREPARE_COMMIT: (CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
    PREPARE_ABORT: (CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
}


@dataclass(init=False, slots=True, unsafe_hash=True)
class Producer:
    """The identity a request claims."""

    producer_id: Final[int]
    producer_epoch: Final[int]

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


def unknown_id(transactional_id: str) -> ErrorCode:
    """The error for an id that does not exist. The empty one never does, and that is the fault of the request."""
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if transactional_id else ErrorCode.INVALID_REQUEST


def exhausted(epoch: int) -> bool:
    """Whether the next bump needs a new producer id."""
    return epoch >= EXHAUSTED_EPOCH


# -- EndTxn ------------------------------------------------------------------------------------------------------


def end_verdict(
    transaction: Transaction, claimed: Producer, *, commit: bool, client_version: int
) -> Verdict | ErrorCode:
    """What EndTxn by a client does."""
    if client_version >= 2:
        return _end_verdict_tv2(transaction, claimed, commit)
    if claimed.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # Strictly equal: a client never runs ahead of its coordinator (KAFKA-9600).
    if claimed.producer_epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return END_TV0[transaction.state][0 if commit else 1]


def _end_verdict_tv2(transaction: Transaction, claimed: Producer, commit: bool) -> Verdict | ErrorCode:
    if transaction.state.preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    after_bump = transaction.producer_epoch == claimed.producer_epoch + 1
    after_rotation = (
        transaction.previous_producer_id == claimed.producer_id
        and claimed.producer_epoch == EXHAUSTED_EPOCH
        and transaction.producer_epoch == 0
    )
    if claimed.producer_id != transaction.producer_id and not after_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    retried = after_bump or after_rotation
    current = claimed.producer_epoch == transaction.producer_epoch
    if not current and not retried:
        return ErrorCode.PRODUCER_FENCED
    verdict = END_TV2[transaction.state][(2 if commit else 0) + (0 if retried else 1)]
    if verdict is ALREADY and transaction.client_version < 2:
        # The bump between the two epochs is not that of this decision, which a classic client took: it is that of an
        # InitProducerId, and the client is a zombie. It must not get its successor's identity (decision 0008).
        return ErrorCode.PRODUCER_FENCED
    return verdict


def needs_new_producer_id(transaction: Transaction, client_version: int) -> bool:
    """Whether deciding this transaction uses up the epochs of its producer id (TV2 only; fences included)."""
    return client_version >= 2 and exhausted(transaction.producer_epoch)


def decided(
    transaction: Transaction, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The PREPARE record of an EndTxn. Under TV2 it carries the bumped epoch, which is the epoch of the markers."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    if client_version >= 2:
        # At the last one (of old bugs) nothing is left to bump; the leader takes such a marker (KAFKA-20090).
        epoch, last_epoch = min(epoch + 1, LAST_EPOCH), epoch
    return Transaction(
        producer_id=transaction.producer_id,
        producer_epoch=epoch,
        timeout_ms=transaction.timeout_ms,
        state=PREPARE_COMMIT if commit else PREPARE_ABORT,
        last_update_ms=now_ms,
        # An empty abort has no start of its own, but every decided transaction has one.
        start_ms=transaction.start_ms if transaction.state is ONGOING else now_ms,
        previous_producer_id=transaction.producer_id,
        next_producer_id=next_producer_id,
        last_producer_epoch=last_epoch,
        client_version=client_version,
        partitions=transaction.partitions,
    )


def fenced(transaction: Transaction, *, cluster_version: int, next_producer_id: int, now_ms: int) -> Transaction:
    """The PREPARE_ABORT by which the broker itself ends a transaction (timeout, InitProducerId by a new instance).

    The epoch is bumped so that the old instance is fenced (KAFKA-6119): once, not twice (KAFKA-19367). Under TV2 the
    abort's own bump is the fence, and the old client can still find out by EndTxn(abort); under TV0 it cannot.
    """
    version = 2 if cluster_version >= 2 else 0  # as requests say it: they do not know of level 1
    after = decided(transaction, commit=False, client_version=version, next_producer_id=next_producer_id, now_ms=now_ms)
    if cluster_version >= 2:
        return after
    return replace(after, producer_epoch=min(transaction.producer_epoch + 1, LAST_EPOCH), last_producer_epoch=NO_EPOCH)


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """The COMPLETE record: all markers are written. Here a rotation takes effect."""
    rotated = transaction.client_version >= 2 and transaction.next_producer_id != NO_PRODUCER_ID
    return Transaction(
        producer_id=transaction.next_producer_id if rotated else transaction.producer_id,
        producer_epoch=0 if rotated else transaction.producer_epoch,
        timeout_ms=transaction.timeout_ms,
        state=COMPLETE_COMMIT if transaction.state is PREPARE_COMMIT else COMPLETE_ABORT,
        last_update_ms=now_ms,
        start_ms=transaction.start_ms,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=transaction.last_producer_epoch,
        client_version=transaction.client_version,
        partitions=(),
    )


# -- InitProducerId ----------------------------------------------------------------------------------------------


def is_known(transaction: Transaction, expected: Producer) -> bool:
    """Whether the identity a client says it has can be one of this id's (KIP-360). Epochs are compared later."""
    return (
        transaction.producer_epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and exhausted(expected.producer_epoch))
    )


class Renewal(Enum):
    """How InitProducerId goes on with an idle id."""

    BUMP = "the next epoch"
    ROTATE = "a new producer id, epoch 0"
    REPEAT = "the answer of the first attempt once more"


def renewal(transaction: Transaction, expected: Producer | None) -> Renewal | ErrorCode:
    """Which identity an InitProducerId on an idle id gets."""
    epoch = transaction.producer_epoch
    fresh = expected is None or expected.producer_epoch == epoch or epoch == NO_EPOCH
    if fresh:
        return Renewal.ROTATE if exhausted(epoch) else Renewal.BUMP
    assert expected is not None
    if expected.producer_epoch == transaction.last_producer_epoch:
        # The answer to the first attempt was lost. Kafka fails here when the epoch it gave was the last; we do not.
        return Renewal.REPEAT if epoch < LAST_EPOCH else Renewal.ROTATE
    return ErrorCode.PRODUCER_FENCED


def renewed(
    transaction: Transaction,
    how: Renewal,
    *,
    expected: Producer | None,
    timeout_ms: int,
    next_producer_id: int,
    now_ms: int,
) -> Transaction:
    """The EMPTY record of an InitProducerId on an idle id."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    last_epoch = NO_EPOCH if expected is None else epoch
    if how is Renewal.BUMP:
        epoch += 1
    elif how is Renewal.ROTATE:
        producer_id, epoch = next_producer_id, 0
    else:
        last_epoch = transaction.last_producer_epoch
    return replace(
        transaction,
        state=EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=transaction.producer_id,
        timeout_ms=timeout_ms,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )

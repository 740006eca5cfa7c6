"""What a request does to a transactional id: the tables of the coordinator.

Each function takes a state and gives what may be answered, with the state behind it. A request that waits until a
transaction has ended, and one that is told CONCURRENT_TRANSACTIONS instead, are both allowed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import ErrorCode
from tests.opinion.identity import ANYTHING, EXHAUSTED, IDLE, PREPARED, Identity, Kind, Partitions, fenced, prepared
from tests.opinion.trace import Circumstances


class Answer(NamedTuple):
    """An error code, and the identity where the response has one."""

    code: int
    producer_id: int = -1
    epoch: int = -1


Result = tuple[Answer, Identity]
CONCURRENT = Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
FENCED = Answer(ErrorCode.PRODUCER_FENCED)
NO_MAPPING = Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
WRONG_STATE = Answer(ErrorCode.INVALID_TXN_STATE)
DONE = Answer(ErrorCode.NONE)
NOT_IN_IT = Answer(ErrorCode.TRANSACTION_ABORTABLE)


def initialized(
    known: Identity, expected: tuple[int, int], timeout_ms: int, fresh: int, circumstances: Circumstances
) -> Iterator[Result]:
    """InitProducerId. `fresh`: the producer id of the response, where a new one is due; -1 unknown."""
    new = Identity(Kind.EMPTY, fresh, 0, timeout_ms=timeout_ms) if fresh >= 0 else ANYTHING
    producer_id, epoch = expected
    if known.kind == Kind.UNKNOWN:
        yield Answer(ErrorCode.NONE, fresh, 0), new
        return
    if known.kind in PREPARED:
        yield CONCURRENT, known
        return
    rotated = producer_id == known.previous and epoch >= EXHAUSTED
    if producer_id >= 0 and producer_id != known.producer_id and not rotated:
        yield FENCED, known
    elif known.kind == Kind.ONGOING:
        for one in fenced(known, circumstances):
            yield CONCURRENT, one
    elif known.epoch >= EXHAUSTED and epoch in (-1, known.epoch):
        rotated_to = new._replace(previous=known.producer_id, last_epoch=epoch) if fresh >= 0 else ANYTHING
        yield Answer(ErrorCode.NONE, fresh, 0), rotated_to
    elif epoch in (-1, known.epoch):
        bumped = known.to(Kind.EMPTY, epoch=known.epoch + 1, last_epoch=epoch, timeout_ms=timeout_ms)
        yield Answer(ErrorCode.NONE, bumped.producer_id, bumped.epoch), bumped
    elif epoch == known.last_epoch:
        same = known.to(Kind.EMPTY, timeout_ms=timeout_ms)
        yield Answer(ErrorCode.NONE, same.producer_id, same.epoch), same
        if circumstances.restarts:  # the last epoch is not written down
            yield FENCED, known
    else:
        yield FENCED, known


def added(known: Identity, producer: tuple[int, int], partitions: Partitions, now_s: float) -> Iterator[Result]:
    """AddPartitionsToTxn, AddOffsetsToTxn, and what Produce and TxnOffsetCommit of the new protocol do first."""
    if known.kind == Kind.UNKNOWN:
        yield NO_MAPPING, known
    elif known.kind in PREPARED:
        yield CONCURRENT, known
    elif producer[0] != known.producer_id:
        yield NO_MAPPING, known
    elif producer[1] != known.epoch:
        yield FENCED, known
    elif known.kind == Kind.ONGOING:
        certain, possible = known.certain | partitions, known.possible | partitions
        yield DONE, known._replace(certain=certain, possible=possible)
    else:
        yield DONE, known.to(Kind.ONGOING, certain=partitions, possible=partitions, started_s=now_s)


def verified(known: Identity, producer: tuple[int, int], partition: tuple[str, int]) -> Iterator[Result]:
    """Whether a partition is in the open transaction (KIP-890): what is asked for classic clients."""
    if known.kind == Kind.UNKNOWN or producer[0] != known.producer_id:
        yield NO_MAPPING, known
    elif producer[1] != known.epoch:
        yield FENCED, known
    elif known.kind in PREPARED:
        yield CONCURRENT, known
    else:
        inside = known.kind == Kind.ONGOING
        if inside and partition in known.possible:
            yield DONE, known
        if not inside or partition not in known.certain:
            yield NOT_IN_IT, known


def ended_classic(known: Identity, producer: tuple[int, int], commit: bool) -> Iterator[Result]:
    """EndTxn up to version 4."""
    complete = Kind.COMPLETE_COMMIT if commit else Kind.COMPLETE_ABORT
    if known.kind == Kind.UNKNOWN or producer[0] != known.producer_id:
        yield NO_MAPPING, known
    elif producer[1] != known.epoch:
        yield FENCED, known
    elif known.kind in PREPARED:
        yield CONCURRENT, known
    elif known.kind == Kind.ONGOING:
        kind = Kind.PREPARE_COMMIT if commit else Kind.PREPARE_ABORT
        yield DONE, prepared(known, kind, bump=False, last_epoch=known.last_epoch)
    else:
        yield (DONE if known.kind == complete else WRONG_STATE), known


def ended(known: Identity, producer: tuple[int, int], commit: bool, fresh: int) -> Iterator[Result]:
    """EndTxn from version 5 on. `fresh`: the producer id of the response."""
    producer_id, epoch = producer
    if known.kind == Kind.UNKNOWN:
        yield NO_MAPPING, known
        return
    if known.kind in PREPARED:
        yield CONCURRENT, known
        return
    overflow = known.previous == producer_id and epoch == EXHAUSTED and known.epoch == 0
    again = overflow or known.epoch == epoch + 1
    if producer_id != known.producer_id and not overflow:
        yield NO_MAPPING, known
    elif (known.kind in (Kind.ONGOING, Kind.EMPTY) and again) or (not again and epoch != known.epoch):
        yield FENCED, known
    elif again:
        same = known.kind == (Kind.COMPLETE_COMMIT if commit else Kind.COMPLETE_ABORT)
        if same and not known.by_the_new:  # a zombie is not told its successor: docs/decisions/0008
            yield FENCED, known
        yield (Answer(ErrorCode.NONE, known.producer_id, known.epoch) if same else WRONG_STATE), known
    elif commit and known.kind in IDLE:
        yield WRONG_STATE, known
    else:
        yield _bumped(known, commit, fresh)


def _bumped(known: Identity, commit: bool, fresh: int) -> Result:
    """The transaction is decided, and the next one has the next epoch, or a new producer id."""
    kind = Kind.PREPARE_COMMIT if commit else Kind.PREPARE_ABORT
    if known.epoch < EXHAUSTED:
        after = prepared(known, kind, bump=True, last_epoch=known.epoch)
        return Answer(ErrorCode.NONE, after.producer_id, after.epoch), after
    after = prepared(known, kind, bump=known.epoch == EXHAUSTED, last_epoch=known.epoch, next_producer_id=fresh)
    return Answer(ErrorCode.NONE, fresh, 0), after if fresh >= 0 else ANYTHING

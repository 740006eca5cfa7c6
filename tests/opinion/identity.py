"""A transactional id as its coordinator knows it, and what may happen to it without a request."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from tests.opinion.trace import Circumstances

EXHAUSTED = 32766
"""The last epoch that a client is given."""
Partitions = frozenset[tuple[str, int]]
NONE: Partitions = frozenset()


class Kind(StrEnum):
    """The states of an id, as DescribeTransactions names them; and two of ours."""

    UNKNOWN = "unknown"
    """The coordinator has never heard of it."""
    ANYTHING = "anything"
    """We do not know."""
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


PREPARED = (Kind.PREPARE_COMMIT, Kind.PREPARE_ABORT)
IDLE = (Kind.EMPTY, Kind.COMPLETE_COMMIT, Kind.COMPLETE_ABORT)


class Identity(NamedTuple):
    """One possible state of an id."""

    kind: Kind = Kind.UNKNOWN
    producer_id: int = -1
    epoch: int = -1
    last_epoch: int = -1
    """The epoch before the last bump, if its holder may come back with it (KIP-360)."""
    previous: int = -1
    """The producer id before the last transition."""
    next_producer_id: int = -1
    certain: Partitions = NONE
    """Partitions that are in the transaction."""
    possible: Partitions = NONE
    """Partitions that may be: those, and what requests without an answer may have added."""
    by_the_new: bool = False
    """What was decided last was so by the new protocol: its client may ask again."""
    started_s: float = 0.0
    timeout_ms: int = 0

    def to(self, kind: Kind, **changes: Any) -> "Identity":
        return self._replace(kind=kind, previous=self.producer_id, **changes)

    def without_contents(self) -> tuple[object, ...]:
        """All but what is in the transaction, and since when."""
        return (*self[:6], self.by_the_new, self.timeout_ms)

    def united(self, other: "Identity") -> "Identity":
        """What allows all that either does, where they differ in their contents only."""
        return self._replace(
            certain=self.certain & other.certain,
            possible=self.possible | other.possible,
            started_s=min(self.started_s, other.started_s),
        )


ANYTHING = Identity(Kind.ANYTHING)


def prepared(known: Identity, kind: Kind, *, bump: bool, last_epoch: int, next_producer_id: int = -1) -> Identity:
    """The transaction is decided. With the new protocol its markers have the next epoch, and so has the id."""
    epoch = known.epoch + 1 if bump else known.epoch
    new = bump and last_epoch == known.epoch
    return known.to(kind, epoch=epoch, last_epoch=last_epoch, next_producer_id=next_producer_id, by_the_new=new)


def completed(known: Identity) -> Identity:
    """All markers are written."""
    kind = Kind.COMPLETE_COMMIT if known.kind == Kind.PREPARE_COMMIT else Kind.COMPLETE_ABORT
    if known.next_producer_id >= 0:
        rotated = known.to(kind, producer_id=known.next_producer_id, epoch=0, next_producer_id=-1)
        return rotated._replace(certain=NONE, possible=NONE, started_s=0.0)
    return known.to(kind, certain=NONE, possible=NONE, started_s=0.0)


def fenced(known: Identity, circumstances: Circumstances) -> Iterator[Identity]:
    """The broker aborts what is open, with the next epoch; who had the old one may come back only in TV2."""
    if known.epoch >= EXHAUSTED:
        yield ANYTHING
        return
    if circumstances.level != 2:
        yield prepared(known, Kind.PREPARE_ABORT, bump=True, last_epoch=-1)
    if circumstances.level in (2, None):
        yield prepared(known, Kind.PREPARE_ABORT, bump=True, last_epoch=known.epoch)


def by_itself(known: Identity, circumstances: Circumstances, now_s: float) -> Iterator[Identity]:
    """What may happen next without a request."""
    if known.kind in PREPARED:
        yield completed(known)
    elif known.kind == Kind.ONGOING:
        if circumstances.transactions_time_out or now_s >= known.started_s + known.timeout_ms / 1000:
            yield from fenced(known, circumstances)
    elif known.kind in IDLE and circumstances.forgets_ids:
        yield Identity()

"""A transaction is visible as a whole, or not at all, and only once its client has requested that."""

from collections.abc import Iterator

from tests.simulation.checkers.compaction import Keys, keys_of
from tests.simulation.history import History, Place, Transaction, Write


def _visible(history: History) -> set[int]:
    return {number for final in history.final.values() for _, number in final.committed}


def _still_there(history: History, keys: dict[Place, Keys], write: Write) -> bool:
    """Whether the record would be read if it were committed: it was not trimmed, and its partition was looked at."""
    final = history.final.get(write.place)
    if final is None or (write.place in keys and keys[write.place].may_be_gone(write)):
        return False
    return write.offset is None or write.offset >= final.log_start_offset


def torn(history: History) -> Iterator[str]:
    """All of its records or none (I05)."""
    visible, keys = _visible(history), keys_of(history)
    for transaction in history.transactions:
        sure = [write for write in transaction.writes if write.acked and _still_there(history, keys, write)]
        shown = [write.number for write in sure if write.number in visible]
        if shown and len(shown) < len(sure):
            missing = [write.number for write in sure if write.number not in visible]
            yield f"{_name(transaction)}: {shown} are visible, {missing} are not"


def lost_commit(history: History) -> Iterator[str]:
    """EndTxn(commit) was answered: its records are visible."""
    visible, keys = _visible(history), keys_of(history)
    for transaction in history.transactions:
        if transaction.outcome is True:
            missing = [
                write.number
                for write in transaction.writes
                if write.acked and _still_there(history, keys, write) and write.number not in visible
            ]
            if missing:
                yield f"{_name(transaction)} was committed, and {missing} are not visible"


def _never_committed(transaction: Transaction) -> bool:
    return transaction.outcome is False or transaction.decision is not True


def aborted_read(history: History) -> Iterator[str]:
    """A read_committed reader is never shown a record of a transaction that was not committed (G1a)."""
    hidden = {
        write.number: transaction
        for transaction in history.transactions
        if _never_committed(transaction)
        for write in transaction.writes
    }
    for reading in history.readings:
        if reading.committed_only:
            for seen in reading.seen:
                if seen.number in hidden:
                    yield f"{reading.reader} was shown record {seen.number} of {_name(hidden[seen.number])}"


def precommitted_read(history: History) -> Iterator[str]:
    """Nor a record of a transaction before its client requested the commit."""
    for reading in history.readings:
        if not reading.committed_only:
            continue
        for seen in reading.seen:
            transaction = history.writes[seen.number].transaction
            if transaction is not None and (transaction.decided_at is None or seen.time < transaction.decided_at):
                yield f"{reading.reader} was shown record {seen.number} of {_name(transaction)} too early"


def _name(transaction: Transaction) -> str:
    return (
        f"transaction {transaction.number} of {transaction.client} (TV{transaction.version},"
        f" {transaction.producer_id}/{transaction.producer_epoch}, asked {transaction.decision},"
        f" told {transaction.outcome})"
    )

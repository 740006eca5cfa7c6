"""Tells the journal what the transaction coordinator wrote down, which knows nothing of it."""

from collections.abc import Callable

from broker.journal.journal import Journal
from coordinator.machine import AnyOutcome
from coordinator.runtime import Shard
from coordinator.transactions.coordinator import TransactionCoordinator
from coordinator.transactions.states import Transaction, TransactionState, read_key, read_value


def noting(journal: Journal, shard: Shard[TransactionCoordinator]) -> Callable[[AnyOutcome, int], None]:
    """For `Shard.on_decided`: the states that its records stand for."""

    def note(outcome: AnyOutcome, now_ms: int) -> None:
        records = outcome.records
        for position, record in enumerate(records):
            transactional_id = read_key(record.key or b"")
            if transactional_id is None:
                continue
            if record.value is None:
                journal.forgotten(transactional_id)
                continue
            after = shard.machine.transactions.get(transactional_id)
            if position + 1 < len(records) and records[position + 1].key == record.key:
                # A step on the way; what is in memory is the last one.
                after = read_value(record.value)
            if after is not None:
                _note(journal, transactional_id, after, outcome.reason, now_ms)

    return note


def _note(journal: Journal, transactional_id: str, after: Transaction, reason: str, now_ms: int) -> None:
    partitions = sum([len(topic.partitions) for topic in after.partitions])
    is_ongoing = after.state is TransactionState.ONGOING
    if is_ongoing and journal.goes_on(transactional_id, after.producer_id, after.producer_epoch, partitions):
        return
    # A reason is about one id, which it begins with, or about all that timed out in one step.
    because = reason.removeprefix(f"{transactional_id}: ")
    journal.changed(
        transactional_id,
        now_ms,
        state=after.state.wire_name,
        producer_id=after.producer_id,
        epoch=after.producer_epoch,
        partitions=partitions,
        timeout_ms=after.timeout_ms,
        because="timed out" if because == reason else because,
        is_open=is_ongoing or after.state.preparing,
    )

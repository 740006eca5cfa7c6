"""What transactional ids cost, and how they are found among many."""

import tracemalloc

from coordinator.machine import ReplayedRecord
from coordinator.transactions.ledger import TransactionLedger
from coordinator.transactions.states import (
    NO_TOPIC_ID,
    TopicPartitions,
    Transaction,
    TransactionState,
    key_bytes,
    read_key,
    value_bytes,
)

IDS = 20_000
MOST_BYTES = 500
"""What docs/decisions/0009 says an idle transactional id costs."""


def record(number: int, state: TransactionState) -> ReplayedRecord:
    partitions = (TopicPartitions("t", NO_TOPIC_ID, (0,)),) if state is TransactionState.ONGOING else ()
    transaction = Transaction(
        producer_id=10**12 + number,
        producer_epoch=3,
        timeout_ms=60_000,
        state=state,
        last_update_ms=1_700_000_000_000 + number,
        start_ms=1_700_000_000_000 + number,
        previous_producer_id=10**12 + number,
        last_producer_epoch=2,
        client_version=2,
        partitions=partitions,
    )
    key, value = key_bytes(f"transactional-id-{number:08d}"), value_bytes(transaction, 1)
    return ReplayedRecord(number, 1_700_000_000_000, None, key, value)


def test_an_idle_transactional_id_costs_at_most_five_hundred_bytes() -> None:
    """A million of them are half a gigabyte, over all fifty partitions; measured with a fiftieth of that."""
    records = [record(number, TransactionState.COMPLETE_COMMIT) for number in range(IDS)]
    ledger = TransactionLedger()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for one in records:
        ledger.replay(one)
    cost = (tracemalloc.get_traced_memory()[0] - before) / IDS
    tracemalloc.stop()
    assert len(ledger.transactions) == IDS
    assert cost <= MOST_BYTES


def test_a_producers_open_transaction_is_found_without_scanning_idle_ids() -> None:
    """WriteTxnMarkers and a start look it up for each marker and each open transaction of a partition."""
    ledger = TransactionLedger()
    for number in range(100):
        state = TransactionState.ONGOING if number == 42 else TransactionState.COMPLETE_ABORT
        ledger.replay(record(number, state))
    assert list(ledger.undecided()) == ["transactional-id-00000042"]
    owner = ledger.owner_of(10**12 + 42)
    assert owner is not None and owner[0] == "transactional-id-00000042"
    assert ledger.owner_of(10**12 + 41) is None, "an idle id answers for nothing that is open"
    ledger.replay(record(42, TransactionState.PREPARE_COMMIT))
    assert ledger.owner_of(10**12 + 42) is not None
    ledger.replay(record(42, TransactionState.COMPLETE_COMMIT))
    assert ledger.owner_of(10**12 + 42) is None


def test_long_ids_are_not_kept_with_their_records() -> None:
    """Ids have up to 32 767 bytes, and a request is enough to name one."""
    tracemalloc.start()
    for number in range(100):
        assert read_key(key_bytes(f"{number:032000d}")) is not None
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 320_000

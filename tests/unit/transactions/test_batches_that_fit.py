"""What the transaction coordinator writes fits into the batches its log takes, and what does not holds nobody up."""

import pytest

from coordinator.transactions.states import TopicPartitions, Transaction, TransactionState, key_bytes, value_bytes
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import MemoryShardLog
from tests.unit.transactions.rig import Rig, error, identity

S = TransactionState
LIMIT = 20_000


def rig_with_limit(limit: int = LIMIT, *, version: int = 2) -> Rig:
    rig = Rig(version=version, log=MemoryShardLog(max_batch_bytes=limit))
    rig.settings.max_batch_bytes = limit
    return rig


def topics(count: int) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(f"topic-{index:04}", bytes(14) + index.to_bytes(2, "big"), (0,)) for index in range(count)
    )


def open_transactions(rig: Rig, count: int, partitions: tuple[TopicPartitions, ...]) -> list[str]:
    names = [f"tx-{index}" for index in range(count)]
    for name in names:
        assert rig.add(identity(rig.init(name)), *partitions, transactional_id=name).answer is ErrorCode.NONE
    return names


def test_timeouts_that_fill_several_batches_all_abort() -> None:
    rig = rig_with_limit()
    names = open_transactions(rig, 64, topics(100))
    rig.time.advance(60_001)
    assert {rig.state(name).state for name in names} == {S.COMPLETE_ABORT}


def test_a_timeout_too_large_to_write_holds_up_no_other() -> None:
    """`max.message.bytes` was lowered while transactions were open; raised again, the large one ends, too."""
    rig = rig_with_limit()
    (large,) = open_transactions(rig, 1, topics(300))
    small = [f"small-{index}" for index in range(20)]
    for name in small:
        rig.add(identity(rig.init(name)), transactional_id=name)
    rig.settings.max_batch_bytes = rig.log.max_batch_bytes = 5_000
    rig.time.advance(60_001)
    assert {rig.state(name).state for name in small} == {S.COMPLETE_ABORT}
    assert rig.state(large).state is S.ONGOING
    rig.settings.max_batch_bytes = rig.log.max_batch_bytes = LIMIT
    rig.time.advance(rig.settings.abort_retry_ms)
    assert rig.state(large).state is S.COMPLETE_ABORT


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_fits_can_be_ended(version: int) -> None:
    """A decision is a larger record than the open transaction: partitions are refused while there is room for it."""
    rig = rig_with_limit(2_000, version=version)
    me = identity(rig.init())
    result, count = ErrorCode.NONE, 0
    while result is ErrorCode.NONE:
        count += 1
        result = error(rig.add(me, *topics(count), version=version))
    assert result is ErrorCode.UNKNOWN_SERVER_ERROR
    assert count > 20
    assert len(rig.state().partitions) == count - 1
    rig.settings.cluster_version = 2  # raised meanwhile: decisions carry what layout 0 could not
    assert error(rig.end(me, commit=True, version=version)) is ErrorCode.NONE
    assert rig.state().state is S.COMPLETE_COMMIT


def test_partitions_beyond_one_batch_change_nothing() -> None:
    rig = rig_with_limit()
    me = identity(rig.init())
    rig.add(me)
    before = rig.state()
    assert error(rig.add(me, *topics(1_000))) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert rig.state() is before
    assert error(rig.end(me, commit=True)) is ErrorCode.NONE


def test_tombstones_of_long_ids_are_split() -> None:
    rig = rig_with_limit(5_000)
    names = [f"{index}{'x' * 3_000}" for index in range(10)]
    for name in names:
        rig.init(name)
    rig.time.advance(rig.settings.expiration_ms + rig.settings.expiry_scan_ms)
    assert not rig.machine.transactions


def test_a_decision_grows_by_less_than_its_reserve() -> None:
    """The largest record of a decision, beside that of the open transaction it ends, in both layouts."""
    from coordinator.batch_room import fits_alone
    from coordinator.machine import Record
    from coordinator.transactions.fencing import decided
    from coordinator.transactions.states import growth_until_decided

    ongoing = Transaction(2**62, 32_766, 60_000, S.ONGOING, 2**62, start_ms=2**62, partitions=topics(50))
    for version in (0, 1):
        growth = growth_until_decided(ongoing, version)
        largest = decided(ongoing, commit=True, client_version=2, next_producer_id=2**62 + 1, now_ms=2**62)
        grown = len(value_bytes(largest, 1)) - len(value_bytes(ongoing, version))
        assert grown <= growth
        record = Record(key_bytes("tx"), value_bytes(ongoing, version))
        assert not fits_alone(record, 61 + len(record.key or b"") + len(record.value or b"") + grown, growth=growth)

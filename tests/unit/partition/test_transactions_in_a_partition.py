"""Markers, guards, and what readers may see of a transaction. Cites I25-I32."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.topic_config import TopicConfig
from broker.partitions.errors import AppendError, PartitionError
from broker.partitions.verification import ALREADY_VERIFIED, Guard
from protocol.errors import ErrorCode
from storage.log import LogConfig, OffsetOutOfRange, StorageFailed
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import DAY_MS, NOW_MS, Rig, idempotent, in_transaction, on_disk, plain


def append_with(rig: Rig, guard: Guard | None, batch: bytes) -> ErrorCode:
    try:
        rig.partition.append(memoryview(batch), transactional_id="x", guard=guard, verification=True, now_ms=NOW_MS)
    except AppendError as refused:
        return refused.code
    return ErrorCode.NONE


# ------------------------------------------------------------------------------------------------------------- guards


def test_a_transaction_begins_with_the_current_guard_only() -> None:
    """I25: without the coordinator's word no transaction begins here."""
    rig = Rig()
    batch = in_transaction(5, 0, 0)
    assert append_with(rig, None, batch) is ErrorCode.INVALID_TXN_STATE
    guard = rig.partition.begin_verification(5, 0, 0, True)
    assert append_with(rig, Guard(), batch) is ErrorCode.INVALID_TXN_STATE
    assert append_with(rig, ALREADY_VERIFIED, batch) is ErrorCode.INVALID_TXN_STATE
    assert append_with(rig, guard, batch) is ErrorCode.NONE
    assert append_with(rig, None, in_transaction(5, 0, 1)) is ErrorCode.NONE
    assert rig.partition.begin_verification(5, 0, 2, True) is ALREADY_VERIFIED


def test_what_has_to_be_verified() -> None:
    rig = Rig()
    assert rig.partition.needs_verification(memoryview(plain())) is None
    assert rig.partition.needs_verification(memoryview(idempotent(5, 0, 0))) is None
    header = rig.partition.needs_verification(memoryview(in_transaction(5, 0, 3)))
    assert header is not None and (header.producer_id, header.base_sequence) == (5, 3)
    rig.transact(in_transaction(5, 0, 0))
    assert rig.partition.needs_verification(memoryview(in_transaction(5, 0, 1))) is None
    assert rig.partition.needs_verification(memoryview(in_transaction(5, 1, 0))) is not None


def test_a_marker_before_the_append_voids_the_guard() -> None:
    """I26, the ABA race (KAFKA-14884): the verified transaction is over."""
    rig = Rig()
    guard = rig.partition.begin_verification(5, 0, 0, False)
    rig.end(5, 0, commit=False, version=0)
    end = rig.partition.end_offset
    assert append_with(rig, guard, in_transaction(5, 0, 0)) is ErrorCode.INVALID_TXN_STATE
    assert rig.partition.end_offset == end
    assert append_with(rig, rig.partition.begin_verification(5, 0, 0, False), in_transaction(5, 0, 0)) is ErrorCode.NONE


def test_a_fenced_producer_hears_of_its_epoch_first() -> None:
    """I26 (KAFKA-19690): 47 lets it abort, 48 would be the end of it."""
    rig = Rig()
    guard = rig.partition.begin_verification(5, 0, 0, True)
    rig.end(5, 1, commit=False)
    assert append_with(rig, guard, in_transaction(5, 0, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(AppendError) as caught:
        rig.partition.begin_verification(5, 0, 0, True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_verification_of_the_next_transaction_outlives_the_last_marker() -> None:
    """KAFKA-18654: with transaction version 2 the marker carries the epoch the client has moved on to."""
    rig = Rig()
    rig.transact(in_transaction(5, 0, 0))
    guard = rig.partition.begin_verification(5, 1, 0, True)
    rig.end(5, 1, commit=True)
    assert append_with(rig, guard, in_transaction(5, 1, 0)) is ErrorCode.NONE


def test_of_several_questions_the_lowest_sequence_comes_first() -> None:
    """KAFKA-14920: batch 2 may not slip in before batch 0 because its verification came back sooner."""
    rig = Rig()
    guard = rig.partition.begin_verification(5, 0, 2, False)
    assert rig.partition.begin_verification(5, 0, 0, False) is guard
    assert append_with(rig, guard, in_transaction(5, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append_with(rig, guard, in_transaction(5, 0, 0)) is ErrorCode.NONE


def test_with_the_second_protocol_an_unknown_producer_begins_at_zero() -> None:
    """KAFKA-18202; under the first protocol anything goes."""
    rig = Rig()
    guard = rig.partition.begin_verification(5, 0, 3, True)
    assert append_with(rig, guard, in_transaction(5, 0, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    guard = rig.partition.begin_verification(6, 0, 3, False)
    assert append_with(rig, guard, in_transaction(6, 0, 3)) is ErrorCode.NONE


def test_a_refused_append_keeps_the_guard() -> None:
    rig = Rig()
    guard = rig.partition.begin_verification(5, 0, 1, False)
    assert append_with(rig, guard, in_transaction(5, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append_with(rig, guard, in_transaction(5, 0, 1)) is ErrorCode.NONE


# ------------------------------------------------------------------------------------------------------------ markers


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_may_be_written_again_and_again(commit: bool) -> None:
    """I27: the first one ends the transaction, the others only take an offset; also after a restart."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.transact(in_transaction(5, 0, 0, 2))
    rig.end(5, 1, commit=commit)
    rig.flush()
    aborted = rig.partition.derived.aborted.collect(0, 100)
    assert len(aborted) == (not commit)
    for _ in range(2):
        rig.end(5, 1, commit=commit)
        rig.end(5, 1, commit=commit)
        rig.flush()
        assert rig.partition.last_stable_offset == rig.partition.end_offset
        assert rig.partition.derived.aborted.collect(0, 100) == aborted
        rig.partition.close()
        rig = on_disk(files)
    assert rig.partition.end_offset == 7


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    """I27 (KIP-1228): with the second protocol the next transaction's data carries the very epoch of the marker."""
    rig = Rig()
    rig.transact(in_transaction(5, 0, 0))
    rig.end(5, 1, commit=True)
    rig.transact(in_transaction(5, 1, 0))
    assert rig.marker_error(5, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    rig.flush()
    assert rig.partition.last_stable_offset == 2
    rig.end(5, 2, commit=True)


def test_a_marker_of_the_last_epoch_is_always_a_retry() -> None:
    """KAFKA-20090: there is no epoch left that would follow."""
    rig = Rig()
    rig.transact(in_transaction(5, 32767, 0))
    rig.end(5, 32767, commit=False)
    rig.end(5, 32767, commit=False)
    assert rig.marker_error(5, 32766) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_first_protocol_accepts_an_equal_epoch() -> None:
    rig = Rig()
    rig.transact(in_transaction(5, 3, 0))
    assert rig.marker_error(5, 2, version=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    rig.end(5, 3, commit=True, version=1)


def test_only_an_older_coordinator_is_fenced() -> None:
    """I28."""
    rig = Rig()
    rig.end(5, 0, commit=True, coordinator_epoch=7)
    assert rig.marker_error(5, 1, coordinator_epoch=6) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    rig.end(5, 1, commit=True, coordinator_epoch=7)
    rig.end(5, 2, commit=True, coordinator_epoch=8)


def test_a_transaction_without_data_leaves_no_entry() -> None:
    """KAFKA-10702; but its epoch fences."""
    rig = Rig()
    rig.end(5, 4, commit=False)
    rig.flush()
    assert rig.partition.last_stable_offset == 1
    assert rig.partition.derived.aborted.collect(0, 10) == []
    assert rig.error_of(in_transaction(5, 3, 0), transactional_id="x") is ErrorCode.INVALID_PRODUCER_EPOCH


# --------------------------------------------------------------------------------------------------------- visibility


def test_a_transaction_hides_what_follows_until_its_marker_is_committed() -> None:
    rig = Rig()
    rig.produce(plain())
    rig.transact(in_transaction(5, 0, 0))
    rig.produce(plain())
    rig.flush()
    partition = rig.partition
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
    rig.end(5, 1, commit=True)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
    rig.flush()
    assert (partition.high_watermark, partition.last_stable_offset) == (4, 4)


def test_the_oldest_transaction_decides_whichever_ends_first() -> None:
    rig = Rig()
    for producer_id in (5, 6, 7):
        rig.transact(in_transaction(producer_id, 0, 0))
    seen = []
    for producer_id in (6, 5, 7):
        rig.end(producer_id, 1, commit=True)
        rig.flush()
        seen.append(rig.partition.last_stable_offset)
    assert seen == [0, 2, 6]


@pytest.mark.parametrize(("ended", "stable"), [((6, 5), 6), ((5,), 1)], ids=["all are ended", "one is open"])
def test_of_markers_not_yet_durable_the_earliest_transaction_decides(ended: tuple[int, ...], stable: int) -> None:
    rig = Rig()
    for producer_id in (5, 6, 7):
        rig.transact(in_transaction(producer_id, 0, 0))
    rig.end(7, 1, commit=True)
    flush = rig.log.begin_flush()
    assert flush is not None
    for producer_id in ended:
        rig.end(producer_id, 1, commit=True)
    rig.log.finish_flush(flush)
    rig.partition.committed_moved()
    assert (rig.partition.high_watermark, rig.partition.last_stable_offset) == (4, 0)
    rig.flush()
    assert rig.partition.last_stable_offset == stable


def test_a_producer_is_as_young_as_its_last_marker() -> None:
    """KIP-854: an idle producer is forgotten a day after its transaction ended, not after it began."""
    rig = Rig()
    rig.transact(in_transaction(5, 0, 0))
    rig.now_ms += DAY_MS
    rig.end(5, 1, commit=True)
    rig.partition.expire_producers(rig.now_ms + DAY_MS - 1)
    assert list(rig.producers) == [5]
    rig.partition.expire_producers(rig.now_ms + DAY_MS)
    assert list(rig.producers) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ptTcafd"), st.integers(1, 4)), max_size=60), st.booleans(), st.integers(1, 300)
)
def test_the_bounds_only_grow_and_no_reader_sees_beyond_them(
    steps: list[tuple[str, int]], durable: bool, max_bytes: int
) -> None:
    """I29: LSO <= HW, both monotonic, nothing at or beyond the bound of a read; a read shows one moment."""
    rig = Rig(durable=durable)
    partition = rig.partition
    sequences: dict[int, int] = {}
    epochs: dict[int, int] = {}
    stable = high = 0
    for kind, producer_id in steps:
        epoch = epochs.setdefault(producer_id, 0)
        if kind == "p":
            rig.produce(plain())
        elif kind in "tT":
            count = 1 if kind == "t" else 3
            sequence = sequences.get(producer_id, 0)
            rig.transact(in_transaction(producer_id, epoch, sequence, count))
            sequences[producer_id] = sequence + count
        elif kind in "ca":
            rig.end(producer_id, epoch + 1, commit=kind == "c")
            epochs[producer_id] = epoch + 1
            sequences[producer_id] = 0
        elif kind == "f":
            rig.flush()
        else:
            partition.delete_records(
                partition.log_start_offset + (partition.high_watermark - partition.log_start_offset) // 2
            )
        assert stable <= partition.last_stable_offset <= partition.high_watermark <= partition.end_offset
        assert high <= partition.high_watermark
        stable, high = partition.last_stable_offset, partition.high_watermark
        assert partition.log_start_offset <= stable
        for read_committed, bound in ((True, stable), (False, high)):
            data = partition.read(partition.log_start_offset, max_bytes, read_committed=read_committed)
            assert (data.high_watermark, data.last_stable_offset) == (high, stable)
            assert (data.aborted is None) is (not read_committed)
            for records in data.records:
                assert int.from_bytes(records[:8], "big") < bound


def test_reads_outside_the_log_fail_and_beyond_bound_are_empty() -> None:
    rig = Rig()
    for _ in range(4):
        rig.produce(plain())
    with pytest.raises(OffsetOutOfRange):
        rig.partition.read(5, 100, read_committed=True)
    assert rig.partition.read(3, 100, read_committed=False).records == []
    rig.flush()
    assert rig.partition.delete_records(2) == 2
    with pytest.raises(OffsetOutOfRange):
        rig.partition.read(1, 100, read_committed=True)
    assert rig.partition.read(2, 1, read_committed=True).size_bytes > 1
    assert rig.partition.read(2, 1, read_committed=True, at_least_one=False).records == []


def test_lookups_end_where_the_reader_may_not_see() -> None:
    """I32: latest, by timestamp and by the largest timestamp, at the last stable offset or the high watermark."""
    rig = Rig()
    rig.produce(plain(timestamp_ms=100))
    rig.transact(in_transaction(5, 0, 0))
    rig.produce(plain(timestamp_ms=200))
    partition = rig.partition
    assert partition.visible_end(read_committed=False) == 0
    assert finish(Rig().partition.max_timestamp(read_committed=False)) is None
    assert finish(partition.offset_for_timestamp(50, read_committed=False)) is None
    rig.flush()
    assert (partition.visible_end(read_committed=True), partition.visible_end(read_committed=False)) == (1, 3)
    found = finish(partition.offset_for_timestamp(50, read_committed=True))
    assert found is not None and found.offset == 0
    assert finish(partition.offset_for_timestamp(150, read_committed=True)) is None
    later = finish(partition.offset_for_timestamp(150, read_committed=False))
    assert later is not None and later.offset == 1
    assert finish(partition.max_timestamp(read_committed=True)) is None
    newest = finish(partition.max_timestamp(read_committed=False))
    assert newest is not None and newest.offset == 1


def test_records_are_deleted_up_to_the_high_watermark_only() -> None:
    rig = Rig()
    rig.transact(in_transaction(5, 0, 0, 3))
    rig.flush()
    rig.produce(plain())
    with pytest.raises(OffsetOutOfRange):
        rig.partition.delete_records(4)
    assert rig.partition.delete_records(-1) == 3
    assert rig.partition.last_stable_offset == 3
    rig.end(5, 1, commit=True)
    rig.flush()
    assert rig.partition.last_stable_offset == 5
    assert rig.partition.delete_records(1) == 3
    rig.partition.configure(TopicConfig(log=LogConfig(cleanup_delete=False, cleanup_compact=True)))
    with pytest.raises(PartitionError) as caught:
        rig.partition.delete_records(4)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_commit_waiters_are_notified_before_the_watchers() -> None:
    async def story() -> list[str]:
        rig = Rig()
        events: list[str] = []
        rig.produce(plain())
        rig.produce(plain())
        first, second = rig.partition.committed(1), rig.partition.committed(2)
        assert first is not None and second is not None and rig.partition.committed(0) is None

        def leave() -> None:
            events.append(f"{first.done()} {second.done()}")
            rig.partition.unwatch(leave)
            rig.partition.unwatch(never)

        def never() -> None:
            events.append("an unwatched one")

        rig.partition.watch(leave)
        rig.partition.watch(never)
        rig.flush()
        rig.partition.committed_moved()
        rig.produce(plain())
        rig.flush()
        return events

    assert asyncio.run(story()) == ["True True"]


def test_page_cache_mode_publishes_the_end_unless_flush_is_set() -> None:
    rig = Rig(durable=False)
    rig.produce(plain())
    rig.partition.committed_moved()
    assert (rig.partition.high_watermark, rig.log.durable_offset) == (1, 0)
    careful = Rig(durable=False, config=TopicConfig(flush_messages=1))
    careful.produce(plain())
    careful.partition.committed_moved()
    assert careful.partition.high_watermark == 0
    careful.flush()
    assert careful.partition.high_watermark == 1


def test_a_full_index_freezes_the_last_stable_offset() -> None:
    """I31: the process is to end; nothing of the aborted transaction was shown, and a restart puts the index right."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.transact(in_transaction(5, 0, 0, 2, value=b"aborted"))
    rig.flush()
    files.fault = lambda operation, path: OSError(5, "broken") if path.endswith(".txnindex") else None
    with pytest.raises(StorageFailed):
        rig.end(5, 1, commit=False)
    rig.flush()
    assert (rig.partition.last_stable_offset, rig.partition.end_offset) == (0, 3)
    again = on_disk(files.kill())
    assert (again.partition.last_stable_offset, again.partition.end_offset) == (3, 3)
    assert again.consume() == []
    assert again.produce(plain(b"next")).base_offset == 3

"""Epochs, sequences, duplicates, wrap-around: what one producer may append after what. I21, I22, I23, I33, I36."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.partitions.errors import AppendError
from protocol.errors import ErrorCode
from protocol.records.batch import CONTROL, read_header
from protocol.records.record import NewRecord, build_batch
from storage.producers.producer_changes import EndMarker
from storage.producers.producer_entry import CachedBatch, ProducerEntry
from storage.producers.producer_state import ProducerState
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import DAY_MS, NOW_MS, Rig, header_of, idempotent, in_transaction, on_disk, plain

LAST = (1 << 31) - 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_order_of_retries_appends_every_batch_once(data: st.DataObject) -> None:
    """I21: up to five batches in flight, sent again in any order and number; duplicates get the original offsets."""
    counts = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=10))
    first = data.draw(st.sampled_from([0, LAST - 4]))
    rig = Rig()
    batches: list[tuple[bytes, int]] = []
    sequence, offset = first, 0
    for count in counts:
        batches.append((idempotent(9, 2, sequence, count), offset))
        sequence, offset = (sequence + count) & LAST, offset + count
    sent = 0
    while sent < len(batches):
        chosen = st.integers(max(0, sent - 7), min(len(batches), sent + 4) - 1)
        for index in [*data.draw(st.lists(chosen, max_size=8)), sent]:
            batch, expected = batches[index]
            if index > sent and sent == 0:
                continue  # Of an unknown producer, any batch may be the first.
            if index > sent or sent - index > 5:
                assert rig.error_of(batch) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                continue
            appended = rig.produce(batch)
            assert (appended.base_offset, appended.duplicate) == (expected, index < sent)
            sent += index == sent
            if sent == len(batches):
                break
    assert rig.partition.end_offset == sum(counts)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 3), st.integers(0, 6), st.integers(1, 3), st.sampled_from("ptcam")),
        max_size=40,
    )
)
def test_a_refused_append_leaves_no_trace(steps: list[tuple[int, int, int, int, str]]) -> None:
    """I22: whatever is tried, a refusal leaves producer state, log and last stable offset as they were."""
    rig = Rig()
    for producer_id, epoch, sequence, count, kind in steps:
        before = (rig.producers, rig.partition.end_offset, rig.partition.last_stable_offset, rig.written)
        try:
            if kind == "p":
                rig.produce(idempotent(producer_id, epoch, sequence, count))
            elif kind == "t":
                rig.transact(in_transaction(producer_id, epoch, sequence, count))
            elif kind == "m":
                rig.produce(
                    in_transaction(producer_id, epoch, sequence, count), transactional_id="x", verification=True
                )
            else:
                rig.end(producer_id, epoch, commit=kind == "c", version=sequence % 3, coordinator_epoch=count)
        except AppendError:
            assert (rig.producers, rig.partition.end_offset, rig.partition.last_stable_offset, rig.written) == before
        rig.flush()


@pytest.mark.parametrize(
    ("first", "count", "last"),
    [(LAST - 2, 3, LAST), (LAST - 1, 4, 1), (LAST, 1, LAST), (LAST - 1, 3, 0), (0, 2, 1)],
)
def test_sequences_wrap_behind_the_largest(first: int, count: int, last: int) -> None:
    """I23: batches that end at, straddle and begin after 2^31-1, and a duplicate of each."""
    rig = Rig()
    rig.produce(idempotent(4, 0, first, count))
    assert rig.produce(idempotent(4, 0, first, count)).duplicate
    following = idempotent(4, 0, (last + 1) & LAST, 2)
    assert rig.produce(following).base_offset == count
    assert rig.produce(following).duplicate
    assert rig.produce(idempotent(4, 0, first, count)).base_offset == 0
    assert rig.error_of(idempotent(4, 0, (last + 2) & LAST, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_only_the_last_five_batches_are_remembered() -> None:
    rig = Rig()
    for sequence in range(6):
        rig.produce(idempotent(4, 0, sequence))
    assert rig.error_of(idempotent(4, 0, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [rig.produce(idempotent(4, 0, sequence)).base_offset for sequence in (5, 1, 3)] == [5, 1, 3]
    assert rig.error_of(idempotent(4, 0, 1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_was_expected_is_named() -> None:
    rig = Rig()
    rig.produce(idempotent(4, 0, 0, 2))
    for epoch, sequence, expected in ((0, 3, 2), (1, 2, 0)):
        with pytest.raises(AppendError, match=f"producer 4: {sequence} came, {expected} was expected in t-0"):
            rig.produce(idempotent(4, epoch, sequence))


def test_an_open_transaction_before_those_that_wait_for_the_disk_decides() -> None:
    state = ProducerState()
    for offset, producer_id in enumerate((1, 2, 3)):
        state.apply_data(read_header(in_transaction(producer_id, 0, 0)), offset, NOW_MS)
    assert (state.open_transactions(), state.first_unstable_offset) == ([1, 2, 3], 0)
    for offset, producer_id in ((3, 2), (4, 3)):
        state.apply_marker(EndMarker(producer_id, 0, True, 0, NOW_MS), offset, NOW_MS)
    for high_watermark, unstable in ((3, 0), (4, 0), (5, 0)):
        state.high_watermark_moved(high_watermark)
        assert state.first_unstable_offset == unstable
    state.apply_marker(EndMarker(1, 0, True, 0, NOW_MS), 5, NOW_MS)
    for high_watermark, first in ((5, 0), (6, None)):
        state.high_watermark_moved(high_watermark)
        assert (state.open_transactions(), state.first_unstable_offset) == ([], first)


def test_a_new_epoch_starts_at_zero_without_old_batches() -> None:
    rig = Rig()
    rig.produce(idempotent(4, 0, 0))
    assert rig.error_of(idempotent(4, 1, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    rig.produce(idempotent(4, 1, 0))
    assert rig.error_of(idempotent(4, 0, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.error_of(idempotent(4, 0, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    entry = ProducerEntry.unpack(rig.producers[4])
    assert (entry.epoch, [batch.last_offset for batch in entry.batches]) == (1, [1])


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """The documented window of duplicates (KIP-854): nothing is known, so nothing can be out of order."""
    rig = Rig()
    assert rig.produce(idempotent(4, 0, 77)).base_offset == 0
    rig.produce(idempotent(4, 0, 78))


def test_a_producer_of_no_epoch_may_go_on_anywhere() -> None:
    """As in Kafka: nothing is known of the sequences of an epoch."""
    rig = Rig()
    rig.produce(idempotent(4, -1, 0))
    rig.produce(idempotent(4, 0, 7))
    assert rig.error_of(idempotent(4, 0, 9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_sequence_after_a_lone_marker_starts_at_zero() -> None:
    rig = Rig()
    rig.end(4, 3, commit=False)
    assert rig.error_of(in_transaction(4, 3, 1), transactional_id="x") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.error_of(in_transaction(4, 2, 0), transactional_id="x") is ErrorCode.INVALID_PRODUCER_EPOCH
    rig.transact(in_transaction(4, 3, 0))


def test_sequences_go_on_across_transactions_where_the_epoch_stays() -> None:
    """The old protocol: the marker carries the epoch of the data, and the client goes on counting, aborts included."""
    rig = Rig()
    rig.transact(in_transaction(4, 0, 0, 2))
    rig.end(4, 0, commit=False, version=0)
    rig.transact(in_transaction(4, 0, 2))
    rig.end(4, 0, commit=True, version=0)
    rig.end(4, 1, commit=True, version=2)
    assert rig.error_of(in_transaction(4, 1, 3), transactional_id="x") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    rig.transact(in_transaction(4, 1, 0))


@pytest.mark.parametrize("commit", [False, True])
def test_sequences_of_a_transaction_that_has_ended_are_no_repetition(commit: bool) -> None:
    """A client that aborts while a batch waits to be sent again may give its sequences to other records. Where they
    were answered with the offset of the first ones, they would be lost."""
    rig = on_disk(files := SimulatedFiles())
    rig.transact(in_transaction(4, 0, 0, 2))
    assert rig.transact(in_transaction(4, 0, 0, 2)).duplicate
    rig.end(4, 0, commit=commit, version=0)
    assert rig.error_of(in_transaction(4, 0, 0, 2), transactional_id="tx") is ErrorCode.INVALID_TXN_STATE
    rig.transact(in_transaction(4, 0, 2))
    assert rig.transact(in_transaction(4, 0, 2)).duplicate, "of the one that is open"
    assert rig.error_of(in_transaction(4, 0, 0, 2), transactional_id="tx") is ErrorCode.INVALID_TXN_STATE
    rig.flush()
    again = on_disk(files)
    assert again.transact(in_transaction(4, 0, 2)).duplicate
    assert again.error_of(in_transaction(4, 0, 0, 2), transactional_id="tx") is ErrorCode.INVALID_TXN_STATE


def test_a_group_coordinator_writes_sequence_zero_every_time() -> None:
    rig = Rig()
    for _ in range(7):
        rig.partition.append_records(in_transaction(4, 2, 0), now_ms=NOW_MS)
    assert rig.partition.end_offset == 7
    with pytest.raises(AppendError) as caught:
        rig.partition.append_records(in_transaction(4, 1, 0), now_ms=NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.partition.append_records(plain(), now_ms=NOW_MS) == 7


def test_replay_takes_whatever_the_log_contains() -> None:
    """I36: gaps, repeated sequences, epochs that go back: a log is replayed, never judged."""
    state = ProducerState()
    for offset, (epoch, sequence) in enumerate([(0, 5), (0, 5), (0, 99), (3, 7), (1, 0)]):
        state.replay(header_of(4, epoch, sequence)._replace(base_offset=offset), None, NOW_MS)
    entry = state.entry(4)
    assert entry is not None and entry.epoch == 1 and state.offset == 5


@pytest.mark.parametrize("now_ms", [NOW_MS - 50, NOW_MS, NOW_MS + 50])
def test_a_marker_whose_record_was_cleaned_away_still_fences(now_ms: int) -> None:
    """KAFKA-7467: its batch has the epoch. All else that is known of the producer stays, but for its batches."""
    state = ProducerState()
    marker = EndMarker(4, 2, commit=True, coordinator_epoch=6, timestamp_ms=77)
    state.apply_marker(marker, 0, 77)
    state.apply_data(header_of(4, 2, 0, timestamp_ms=88), 1, 88)

    def replayed(producer_id: int, epoch: int, offset: int) -> ProducerEntry | None:
        emptied = header_of(producer_id, epoch, 0)._replace(
            attributes=CONTROL, base_offset=offset, records_count=0, base_sequence=-1
        )
        assert state.replay(emptied, None, now_ms) is None
        assert state.offset == offset + 1
        return state.entry(producer_id)

    known = ProducerEntry(2, 6, 88, 88, -1, (CachedBatch(0, 1, 0, 88),))
    assert replayed(4, 1, 2) == known
    assert replayed(4, 2, 3) == known
    seen_ms = max(now_ms, NOW_MS)
    assert replayed(4, 3, 4) == ProducerEntry(3, 6, 88, seen_ms, -1, ())
    assert replayed(5, 0, 5) == ProducerEntry(0, -1, -1, seen_ms, -1, ())
    assert (replayed(-1, 3, 6), len(state)) == (None, 2)


def test_what_is_known_of_one_producer_is_of_no_other() -> None:
    state = ProducerState()
    state.apply_data(header_of(4, 2, 10, 3), 0, NOW_MS)
    state.apply_marker(EndMarker(5, 1, commit=True, coordinator_epoch=6, timestamp_ms=7), 3, 7)
    assert [state.epoch(one) for one in (3, 4, 5)] == [-1, 2, 1]
    assert [state.next_sequence(one) for one in (3, 4, 5)] == [0, 13, 0]
    assert [state.last_offset(one) for one in (3, 4, 5)] == [-1, 2, -1]
    assert [state.coordinator_epoch(one) for one in (3, 4, 5)] == [-1, -1, 6]
    assert [one in state for one in (3, 4, 5)] == [False, True, True]
    state.apply_data(header_of(4, 2, LAST, 1), 4, NOW_MS)
    assert (state.next_sequence(4), state.offset) == (0, 5)


def test_an_idle_producer_of_five_batches_costs_below_400_bytes() -> None:
    """The entry, its key and its share of the dictionary at the worst moment, just after it has grown."""
    state = ProducerState()
    for sequence in range(5):
        state.apply_data(header_of((1 << 60) + 1, 5, sequence * 10, 10), sequence * 10, NOW_MS)
    (producer_id, packed), *_ = state.packed_entries().items()
    assert len(ProducerEntry.unpack(packed).batches) == 5
    crowd = dict.fromkeys(range(1_400), packed)
    worst = max(sys.getsizeof(dict.fromkeys(range(count))) / count for count in range(1_000, 1_400))
    assert len(crowd) == 1_400
    assert sys.getsizeof(producer_id) + sys.getsizeof(packed) + worst <= 400


def test_idle_producers_expire_and_those_with_a_transaction_never() -> None:
    """I33: and after that the first protocol may begin anywhere, the second at 0 only."""
    rig = Rig(expiration_ms=DAY_MS)
    rig.produce(idempotent(1, 0, 0))
    rig.transact(in_transaction(2, 0, 0))
    rig.now_ms += DAY_MS - 1
    assert rig.partition.expire_producers(rig.now_ms) and sorted(rig.producers) == [1, 2]
    rig.now_ms += 1
    assert rig.partition.expire_producers(rig.now_ms) and sorted(rig.producers) == [2]
    assert rig.produce(idempotent(1, 0, 55)).base_offset == 2
    guard = rig.partition.begin_verification(3, 0, 4, True)
    with pytest.raises(AppendError) as caught:
        rig.partition.append(memoryview(in_transaction(3, 0, 4)), transactional_id="x", guard=guard, now_ms=rig.now_ms)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_historical_timestamps_do_not_shorten_a_producers_life() -> None:
    """I33: Kafka goes by the client's timestamps alone, and forgets such a producer at every look."""
    rig = Rig(expiration_ms=DAY_MS)
    rig.produce(idempotent(1, 0, 0, timestamp_ms=1_000))
    rig.now_ms += DAY_MS - 1
    rig.partition.expire_producers(rig.now_ms)
    assert rig.produce(idempotent(1, 0, 0, timestamp_ms=1_000)).duplicate


def test_expiry_works_in_slices() -> None:
    state = ProducerState()
    for producer_id in range(25):
        state.apply_data(header_of(producer_id, 0, 0), producer_id, NOW_MS)
    assert [state.expire(NOW_MS + DAY_MS, DAY_MS, limit=10) for _ in range(3)] == [False, False, True]
    assert len(state) == 0


def test_an_entry_packs_and_unpacks() -> None:
    batches = tuple(CachedBatch(number, number * 10, 3, NOW_MS + number) for number in range(5))
    entry = ProducerEntry(32767, 12, NOW_MS, NOW_MS + 1, 1 << 40, batches)
    assert ProducerEntry.unpack(entry.pack()) == entry
    assert (entry.last_sequence, ProducerEntry().last_sequence) == (4, -1)
    assert CachedBatch(1, 19, 3, 0).first_sequence == LAST - 1


def test_a_producer_without_an_id_leaves_no_state() -> None:
    rig = Rig()
    rig.produce(build_batch([NewRecord(b"v", timestamp_ms=NOW_MS)], transactional=True), transactional_id="x")
    assert not rig.producers and rig.partition.last_stable_offset == 0

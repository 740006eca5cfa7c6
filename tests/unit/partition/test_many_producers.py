"""What producers cost: memory that is bounded per producer, and freed by age and by number."""

import asyncio
import sys
import tracemalloc
from typing import Any

from broker.partitions.partition import QUESTIONS_AT_ONCE
from broker.partitions.verification import Verifications
from broker.upkeep.producer_cap import COUNTED_PER_SLICE, enforce
from protocol.records.batch import HEADER, BatchHeader, read_header
from protocol.records.record import NewRecord, build_batch
from storage.producers.producer_changes import EndMarker
from storage.producers.producer_state import ProducerState
from tests.harness.turns import CallsPerTurn
from tests.unit.partition.rig import DAY_MS, Rig, in_transaction

PRODUCERS = 100_000
NOW_MS = 1_000_000
MOST_BYTES = 400
"""What docs/decisions/0009 says an idle producer costs."""


def header_of(producer_id: int, sequence: int, *, transactional: bool = False) -> BatchHeader:
    made = build_batch(
        [NewRecord(value=b"v", timestamp_ms=1)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )
    assert len(made) > HEADER.size
    return read_header(made)


def test_an_idle_producer_costs_at_most_400_bytes() -> None:
    """A million of them through one partition are 400 MB at the very most; measured with a tenth of that."""
    state = ProducerState()
    template = header_of(0, 0)
    for producer_id in range(10**12, 10**12 + PRODUCERS):
        for sequence in range(5):
            state.apply_data(template._replace(producer_id=producer_id, base_sequence=sequence), state.offset, 1)
    entries = state.packed_entries()
    kept = sum(sys.getsizeof(producer_id) + sys.getsizeof(packed) for producer_id, packed in entries.items())
    cost = (kept + sys.getsizeof(entries)) / PRODUCERS
    assert len(state) == PRODUCERS
    assert cost <= MOST_BYTES
    while not state.expire(86_400_001, 86_400_000):
        pass
    assert len(state) == 0, "age frees them"


def test_a_refused_request_costs_at_most_250_bytes() -> None:
    verifications = Verifications()
    tracemalloc.start()
    for producer_id in range(10**12, 10**12 + PRODUCERS // 10):
        verifications.begin(producer_id, 0, 0, supports_epoch_bump=True, now_ms=NOW_MS)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(verifications) == PRODUCERS // 10
    assert held / len(verifications) <= 250
    assert verifications.forget_oldest(PRODUCERS, NOW_MS) == 0
    assert verifications.forget_oldest(PRODUCERS, NOW_MS + 1) == PRODUCERS // 10
    assert len(verifications) == 0


def test_young_questions_are_not_looked_at_and_old_ones_are_forgotten_some_at_a_time() -> None:
    """A scan of all of them for each slice of producers: a million are forty milliseconds."""

    class Counted(dict[int, Any]):
        looks = 0

        def items(self) -> Any:
            for pair in super().items():
                Counted.looks += 1
                yield pair

    partition = Rig().partition
    partition.verifications._entries = Counted()
    for producer_id in range(2 * QUESTIONS_AT_ONCE + 1):
        partition.verifications.begin(producer_id, 0, 0, supports_epoch_bump=True, now_ms=NOW_MS)
    assert partition.expire_producers(NOW_MS + DAY_MS - 1)
    assert (Counted.looks, len(partition.verifications)) == (1, 2 * QUESTIONS_AT_ONCE + 1)
    calls = [partition.expire_producers(NOW_MS + DAY_MS) for _ in range(3)]
    assert calls == [False, False, True]
    assert len(partition.verifications) == 0


def test_beyond_the_bound_the_longest_idle_producers_are_forgotten() -> None:
    """I33: never one with an open transaction, be it the oldest of all."""
    rigs = [Rig(), Rig()]
    partitions = [rig.partition for rig in rigs]
    for number in range(100):
        state = partitions[number % 2].derived.producers
        state.apply_data(header_of(number, 0, transactional=number == 0), state.offset, 1000 + number)
    assert asyncio.run(enforce(partitions, 100, NOW_MS)) == 0
    forgotten = asyncio.run(enforce(partitions, 60, NOW_MS))
    assert forgotten == 41, "forty too many, and two in a hundred of the bound"
    left = sorted(producer_id for one in partitions for producer_id in one.derived.producers.ids())
    assert left == [0, *range(42, 100)]
    assert asyncio.run(enforce(partitions, 60, NOW_MS)) == 0


def test_refused_questions_count_as_producers_and_go_first() -> None:
    """A batch that is refused after its verification leaves an entry, with any producer id a client makes up."""
    rigs = [Rig(), Rig()]
    partitions = [rig.partition for rig in rigs]
    for number in range(10):
        state = partitions[0].derived.producers
        state.apply_data(header_of(number, 0), state.offset, 1000 + number)
    for number in range(1_000):
        seen_ms = NOW_MS - 60_000 if number < 900 else NOW_MS
        partitions[number % 2].verifications.begin(number, 0, 0, supports_epoch_bump=True, now_ms=seen_ms)
    assert asyncio.run(enforce(partitions, 200, NOW_MS)) == 814
    assert sum(len(partition.verifications) for partition in partitions) == 186
    assert len(partitions[0].derived.producers) == 10
    asyncio.run(enforce(partitions, 100, NOW_MS))
    assert sum(len(partition.verifications) for partition in partitions) == 100, "those of this moment stay"


def test_a_producer_that_writes_during_the_search_stays() -> None:
    rig = Rig()
    state = rig.partition.derived.producers
    for number in range(10):
        state.apply_data(header_of(number, 0), state.offset, 1000 + number)

    async def story() -> None:
        looking = asyncio.ensure_future(enforce([rig.partition], 5, NOW_MS))
        await asyncio.sleep(0)
        state.apply_data(header_of(0, 1), state.offset, 5000)
        assert await looking == 4

    asyncio.run(story())
    assert 0 in state and 1 not in state and len(state) == 6


def test_a_forgotten_producer_continues_as_a_new_one() -> None:
    """As after `producer.id.expiration.ms`: its next batch is taken whatever its sequence is (KIP-854)."""
    state = ProducerState()
    state.apply_data(header_of(7, 0), 0, 1)
    packed = state.packed_entries()[7]
    assert state.forget(7, packed)
    assert not state.forget(7, packed)
    state.check_data(header_of(7, 1), from_client=True)
    state.apply_marker(EndMarker(7, 1, False, 0, 1), 1, 1)
    assert 7 in state


def test_nobody_is_forgotten_who_has_begun_something() -> None:
    rig = Rig()
    rig.transact(in_transaction(7, 0, 0))
    state = rig.partition.derived.producers
    assert not state.forget(7, state.packed_entries()[7])
    assert state.ids() == [7]
    rig.end(7, 1, commit=True)
    assert state.forget(7, state.packed_entries()[7])


def test_all_are_named_while_a_snapshot_is_written() -> None:
    state = ProducerState()
    for number in range(3):
        state.apply_data(header_of(number, 0), state.offset, 1000)
    state.freeze()
    state.apply_data(header_of(7, 0), state.offset, 1000)
    state.apply_data(header_of(1, 1), state.offset, 1000)
    assert state.forget(2, state.packed_entries()[2])
    assert state.ids() == [0, 1, 2, 7], "one that was forgotten may be among them"
    state.thaw()
    assert state.ids() == [0, 1, 7]


def test_to_count_the_producers_of_thousands_of_partitions_takes_turns() -> None:
    async def story() -> int:
        counting = asyncio.ensure_future(enforce([Rig().partition] * 10_000, 1, NOW_MS))
        turns = 0
        while not counting.done():
            turns += 1
            await asyncio.sleep(0)
        assert counting.result() == 0
        return turns

    assert asyncio.run(story()) >= 5


def test_many_producers_are_forgotten_some_in_a_turn() -> None:
    partition = Rig().partition
    state = partition.derived.producers
    for producer_id in range(3 * COUNTED_PER_SLICE):
        state.apply_data(header_of(producer_id, 0), state.offset, 1000 + producer_id)

    async def forget() -> CallsPerTurn:
        calls = CallsPerTurn(state.forget)
        setattr(state, "forget", calls)  # noqa: B010  it is a method
        assert await enforce([partition], 1, NOW_MS) == 3 * COUNTED_PER_SLICE - 1
        return calls

    calls = asyncio.run(forget())
    assert (calls.total, calls.most) == (3 * COUNTED_PER_SLICE - 1, COUNTED_PER_SLICE)

"""A partition over a shared store that is taken over again and again knows what one knows that never was."""

import asyncio
from random import Random

import pytest

from broker.api.handlers.offsets import _until_written
from protocol.errors import ErrorCode
from protocol.messages.offsets import DeleteRecordsPartitionResult
from storage.memory_log import MemoryLog
from storage.shared.memory_store import StoreInMemory
from tests.unit.partition.rig import Rig, in_transaction
from tests.unit.storage.test_shared_log import FIRST_EPOCH, TOPIC, Owner, at_once

PRODUCERS = 3


class TakenOver:
    """The same is done to both; what is committed is all that the next owner has."""

    def __init__(self) -> None:
        self.store = StoreInMemory(lambda: 0)
        self.owner = Owner(self.store)
        self.over_a_store, self.in_memory = Rig(log=self.owner.log), Rig(log=MemoryLog())
        self._next = dict.fromkeys(range(PRODUCERS), 0)

    @property
    def both(self) -> tuple[Rig, Rig]:
        return self.over_a_store, self.in_memory

    @property
    def committed(self) -> int:
        return self.over_a_store.partition.high_watermark

    @property
    def bases(self) -> list[int]:
        """Where parts begin that may be the first one from now on."""
        return [base for base in self.owner.log.segment_bases() if base <= self.committed]

    def write(self, producer_id: int) -> None:
        for rig in self.both:
            rig.transact(in_transaction(producer_id, 0, self._next[producer_id]))
        self._next[producer_id] += 1

    def end(self, producer_id: int, *, commit: bool) -> None:
        for rig in self.both:
            rig.end(producer_id, 0, commit=commit, version=0)

    def roll(self) -> None:
        """There are no parts in memory."""
        self.owner.log.roll()

    def trim(self, offset: int) -> None:
        """Of what is committed; what is not may have begun the next part."""
        for rig in self.both:
            rig.partition.delete_records(offset)

    def commit(self, *, closing: bool = False) -> None:
        self.owner.commit(closing=closing)
        self.in_memory.log.flush_now()
        for rig in self.both:
            rig.partition.committed_moved()

    def take_over(self, *, orderly: bool) -> None:
        self.commit(closing=orderly)
        self.owner = Owner(self.store)
        self.over_a_store = Rig(log=self.owner.log)

    def check(self) -> None:
        mine, other = (rig.partition for rig in self.both)
        assert (mine.log_start_offset, mine.end_offset) == (other.log_start_offset, other.end_offset)
        assert mine.last_stable_offset == other.last_stable_offset
        start, end = mine.log_start_offset, mine.end_offset
        assert mine.derived.aborted.collect(start, end) == other.derived.aborted.collect(start, end)
        for producer_id in range(PRODUCERS):
            producers = mine.derived.producers, other.derived.producers
            assert len({one.next_sequence(producer_id) for one in producers}) == 1
            assert len({one.has_open_transaction(producer_id, 0) for one in producers}) == 1


def test_what_was_aborted_before_the_start_is_forgotten_before_it_was_written_down() -> None:
    """Its entries are beside the log, and nothing says that they are right: nobody asks for them."""
    both = TakenOver()
    both.write(0)
    both.end(0, commit=False)
    both.commit()
    both.roll()
    both.write(1)
    both.trim(2)
    both.take_over(orderly=False)
    both.check()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_was_done_before_it_is_taken_over(seed: int) -> None:
    """I24, I29 to I31."""
    random, both = Random(seed), TakenOver()
    for _ in range(random.randrange(5, 60)):
        producer_id = random.randrange(PRODUCERS)
        match random.choice(("write", "write", "write", "end", "end", "roll", "trim", "commit", "take over")):
            case "write":
                both.write(producer_id)
            case "end":
                both.end(producer_id, commit=random.random() < 0.4)
            case "roll":
                both.roll()
            case "trim":
                both.trim(random.choice([random.randrange(both.committed + 1), *both.bases]))
            case "commit":
                both.commit()
            case "take over":
                both.take_over(orderly=random.random() < 0.5)
                both.check()
    both.take_over(orderly=False)
    both.check()


@pytest.mark.parametrize("lost", [False, True])
def test_a_deletion_is_answered_when_the_next_owner_knows_of_it(lost: bool) -> None:
    """Otherwise a node that dies takes it with it, and records that were deleted are there again."""

    async def story() -> DeleteRecordsPartitionResult:
        both = TakenOver()
        both.write(0)
        both.end(0, commit=True)
        both.commit()
        partition = both.over_a_store.partition
        result = DeleteRecordsPartitionResult(partition_index=0, low_watermark=partition.delete_records(1))
        answered = asyncio.ensure_future(_until_written(partition, result))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not answered.done() and partition.log.written_start == 0
        if lost:
            partition.discard()
        else:
            both.owner.commit()
            partition.became_readable()
        await answered
        assert not partition._visibility.is_watched
        assert at_once(both.store.claim(both.owner.who, TOPIC, 0, FIRST_EPOCH)).start_offset == (0 if lost else 1)
        return result

    result = asyncio.run(story())
    expected = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1) if lost else (ErrorCode.NONE, 1)
    assert (result.error_code, result.low_watermark) == expected

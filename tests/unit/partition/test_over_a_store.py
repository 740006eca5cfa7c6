"""A partition over a shared store that is taken over again and again knows what one knows that never was."""

import asyncio
from random import Random

import pytest

from broker.api.handlers.offsets import _until_written
from broker.partitions.partition import Partition
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


class Deletion:
    """A DeleteRecords up to offset 1 of a partition with a transaction, whose commit is under way."""

    def __init__(self) -> None:
        self.both = TakenOver()
        self.both.write(0)
        self.both.end(0, commit=True)
        self.both.commit()
        self.partition = self.both.over_a_store.partition
        self.result = DeleteRecordsPartitionResult(partition_index=0, low_watermark=self.partition.delete_records(1))
        self.answered = asyncio.ensure_future(_until_written(self.partition, self.result, None))

    @property
    def told(self) -> tuple[int, int]:
        return self.result.error_code, self.result.low_watermark

    async def is_waited_for(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        assert not self.answered.done() and self.partition.log.written_start == 0

    def start_in_the_store(self) -> int:
        return at_once(self.both.store.claim(self.both.owner.who, TOPIC, 0, FIRST_EPOCH)).start_offset


def test_a_deletion_is_answered_when_the_next_owner_knows_of_it() -> None:
    """Otherwise a node that dies takes it with it, and records that were deleted are there again."""

    async def story() -> None:
        deletion = Deletion()
        await deletion.is_waited_for()
        deletion.both.owner.commit()
        deletion.partition.became_readable()
        await deletion.answered
        assert (deletion.told, deletion.start_in_the_store()) == ((ErrorCode.NONE, 1), 1)
        assert not deletion.partition._visibility.is_watched

    asyncio.run(story())


@pytest.mark.parametrize("refused", [False, True])
def test_a_deletion_of_a_partition_that_is_lost_is_none(refused: bool) -> None:
    """Before its commit, or with it: the log has finished that, too."""

    async def story() -> None:
        deletion = Deletion()
        await deletion.is_waited_for()
        if refused:
            flush = deletion.both.owner.log.begin_flush()
            assert flush is not None
            deletion.both.owner.log.finish_flush(flush)
        deletion.partition.discard()
        await deletion.answered
        assert (deletion.told, deletion.start_in_the_store()) == ((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), 0)

    asyncio.run(story())


@pytest.mark.parametrize(("owns", "told"), [(True, (0, 1)), (False, (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))])
def test_where_nothing_is_deleted_the_store_says_whose_the_partition_is(owns: bool, told: tuple[int, int]) -> None:
    """A node that was replaced knows an earlier end, and may begin there already."""

    async def story() -> None:
        deletion = Deletion()
        await deletion.is_waited_for()
        deletion.both.owner.commit()
        deletion.partition.became_readable()
        await deletion.answered

        async def confirm(partition: Partition) -> bool:
            assert partition is deletion.partition
            return owns

        await _until_written(deletion.partition, deletion.result, confirm)
        assert deletion.told == told

    asyncio.run(story())

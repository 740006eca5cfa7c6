"""What the share coordinator keeps and answers. Each answer is what Apache Kafka 4.3.1 gave to the same request."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from coordinator.machine import Record
from coordinator.runtime import Shard
from coordinator.share_state.answers import Summary, Verdict
from coordinator.share_state.coordinator import MOST_BATCHES, ShareCoordinator
from coordinator.share_state.kept import ShareKey, Write
from coordinator.share_state.port import PartitionState, StateBatch
from coordinator.share_state.records import ShareSnapshotKey, ShareUpdateKey
from protocol.codec import versioned_key
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket, MemoryShardLog, VirtualTime

TOPIC, OTHER = b"t" * 16, b"o" * 16
KEY = ShareKey("group", TOPIC, 0)
INTERVAL_MS = 300_000
UNINITIALISED = "operation on uninitialized share partition not allowed."


@dataclass
class Settings:
    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = INTERVAL_MS
    max_batch_bytes: int = 1_048_588


class Story:
    """One shard over a log in memory. Topics `TOPIC` and `OTHER` have two partitions until they are deleted."""

    def __init__(self, log: MemoryShardLog | None = None, **settings: int) -> None:
        self.time = VirtualTime()
        self.log = log or MemoryShardLog()
        self.settings = Settings(**settings)
        self.topics = {TOPIC, OTHER}
        self.shard: Shard[ShareCoordinator] = Shard(self._make, self.log, self.time, self.time, name="test")
        assert self.shard.load_slice(1 << 20)

    def _make(self) -> ShareCoordinator:
        return ShareCoordinator(self.settings, lambda topic, partition: topic in self.topics and 0 <= partition < 2)

    def ask(self, operation: Callable[[ShareCoordinator, Any, int], Any]) -> Any:
        ticket = CollectingTicket()
        self.shard.submit(lambda machine, now_ms: operation(machine, ticket, now_ms), ticket)
        return ticket.errors[0] if ticket.errors else ticket.answer

    def initialize(self, state_epoch: int, start_offset: int, key: ShareKey = KEY) -> Verdict:
        def operation(machine: ShareCoordinator, ticket: Any, now_ms: int) -> Any:
            return machine.initialize(key, ticket, now_ms, state_epoch=state_epoch, start_offset=start_offset)

        return cast(Verdict, self.ask(operation))

    def read(self, leader_epoch: int, key: ShareKey = KEY) -> PartitionState | Verdict:
        return cast(
            Any, self.ask(lambda machine, ticket, now: machine.read(key, ticket, now, leader_epoch=leader_epoch))
        )

    def write(
        self, epochs: tuple[int, int], start: int, *batches: StateBatch, key: ShareKey = KEY, count: int = -1
    ) -> Verdict:
        change = Write(epochs[1], start, count, batches)
        return cast(
            Verdict,
            self.ask(lambda machine, ticket, now: machine.write(key, ticket, now, state_epoch=epochs[0], write=change)),
        )

    def summary(self, key: ShareKey = KEY) -> Summary | Verdict:
        return cast(Any, self.ask(lambda machine, ticket, now: machine.summarize(key, ticket, now)))

    def delete(self, key: ShareKey = KEY) -> Verdict:
        return cast(Verdict, self.ask(lambda machine, ticket, now: machine.delete(key, ticket, now)))

    def reloaded(self, batches: int | None = None) -> "Story":
        return Story(self.log.copy(batches))

    def kept(self) -> dict[ShareKey, Any]:
        return self.shard.machine.ledger.kept


def batches_of(state: PartitionState | Verdict) -> list[tuple[int, int, int, int]]:
    assert isinstance(state, PartitionState), state
    return [(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in state.batches]


def test_nothing_is_kept_before_it_is_initialised() -> None:
    story = Story()
    assert story.read(0) == Verdict(ErrorCode.INVALID_REQUEST, f"Read {UNINITIALISED}")
    assert story.write((0, 0), 5) == Verdict(ErrorCode.INVALID_REQUEST, f"Write {UNINITIALISED}")
    assert story.summary() == Summary(0, 0, -1, -1)
    assert story.delete() == Verdict(ErrorCode.NONE)
    assert story.log.end_offset == 0
    assert story.initialize(3, -1) == Verdict(ErrorCode.NONE)
    assert story.read(-1) == PartitionState(3, -1, -1, ())
    assert story.initialize(3, 7) == Verdict(ErrorCode.NONE)
    assert story.summary() == Summary(3, 0, 7, 0)
    assert story.delete() == Verdict(ErrorCode.NONE)
    assert story.read(0) == Verdict(ErrorCode.INVALID_REQUEST, f"Read {UNINITIALISED}")


def test_epochs_fence_who_was_there_before() -> None:
    story = Story()
    story.initialize(3, 7)
    assert story.initialize(2, 7) == Verdict(ErrorCode.FENCED_STATE_EPOCH)
    assert story.read(5) == PartitionState(3, 7, 0, ())
    assert story.summary() == Summary(3, 5, 7, 0)
    assert story.read(4) == Verdict(ErrorCode.FENCED_LEADER_EPOCH)
    assert story.read(-1) == PartitionState(3, 7, 0, ())
    assert story.write((2, 5), 9) == Verdict(ErrorCode.FENCED_STATE_EPOCH)
    assert story.write((3, 4), 9) == Verdict(ErrorCode.FENCED_LEADER_EPOCH)
    assert story.write((2, 4), 9) == Verdict(ErrorCode.FENCED_LEADER_EPOCH)
    assert story.write((-1, -1), 9) == Verdict(ErrorCode.NONE)
    assert story.summary() == Summary(3, 5, 9, -1)
    assert story.initialize(4, -1) == Verdict(ErrorCode.NONE)
    assert story.summary() == Summary(4, 0, -1, -1), "another life, whose leader is not known yet"


def test_an_epoch_that_fences_is_on_the_disk_before_the_answer() -> None:
    story = Story()
    story.initialize(0, 0)
    story.log.durable = False
    ticket = CollectingTicket()
    story.shard.submit(lambda machine, now: machine.read(KEY, ticket, now, leader_epoch=9), ticket)
    assert ticket.waiting
    story.log.sync()
    assert ticket.answer == PartitionState(0, 0, 0, ())
    assert story.reloaded().read(8) == Verdict(ErrorCode.FENCED_LEADER_EPOCH)


def test_changes_come_over_what_was_kept() -> None:
    story = Story()
    story.initialize(0, 0)
    assert story.write((0, 0), 9, StateBatch(9, 10, 0, 1)) == Verdict(ErrorCode.NONE)
    story.write((0, 0), -1, StateBatch(11, 12, 2, 1), count=2)
    assert batches_of(story.read(0)) == [(9, 10, 0, 1), (11, 12, 2, 1)]
    story.write((0, 0), 10, StateBatch(10, 11, 4, 2), count=3)
    assert batches_of(story.read(0)) == [(10, 11, 4, 2), (12, 12, 2, 1)]
    assert story.summary() == Summary(0, 0, 10, 3)
    story.write((0, 0), 12)
    assert batches_of(story.read(0)) == [(12, 12, 2, 1)]
    story.write((0, 0), 12, StateBatch(12, 12, 0, 1))
    assert batches_of(story.read(0)) == [(12, 12, 2, 1)], "what is acknowledged stays so"


def test_what_cannot_be_is_refused() -> None:
    story = Story()
    negative = Verdict(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    unknown = Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    no_partition, no_topic = replace_partition(-1), replace_partition(7)
    for key, verdict in ((no_partition, negative), (no_topic, unknown)):
        assert story.initialize(0, 0, key) == verdict
        assert story.summary(key) == verdict
        assert story.delete(key) == verdict
    assert story.read(0, no_partition) == story.write((0, 0), 0, key=no_partition) == negative
    story.initialize(0, 0)
    story.topics.remove(TOPIC)
    assert story.read(0) == story.write((0, 0), 0) == unknown
    story.topics.add(TOPIC)
    assert story.write((0, 0), 0, StateBatch(5, 4, 2, 1)).error is ErrorCode.INVALID_REQUEST
    many = [StateBatch(2 * one, 2 * one, 2, 1) for one in range(MOST_BATCHES + 1)]
    assert story.write((0, 0), 0, *many).error is ErrorCode.INVALID_REQUEST
    assert story.write((0, 0), 0, *many[:-1]).error is ErrorCode.NONE


def replace_partition(partition: int) -> ShareKey:
    return KEY._replace(partition=partition)


def test_every_prefix_of_the_log_says_what_was_so_then() -> None:
    story = Story(updates_per_snapshot=3)
    seen = []
    other = ShareKey("group", OTHER, 1)
    story.initialize(0, 0)
    story.initialize(0, -1, other)
    for number in range(12):
        seen.append((len(story.log.batches), dict(story.kept())))
        story.write((0, number), number, StateBatch(number, number + 3, 2 * (number % 3), 1 + number % 2), count=number)
        if number % 4 == 0:
            story.write((0, 0), -1, StateBatch(number, number, 2, 1), key=other)
    story.delete(other)
    seen.append((len(story.log.batches), dict(story.kept())))
    for batches, kept in seen:
        assert story.reloaded(batches).kept() == kept


def test_the_log_may_begin_at_the_oldest_snapshot_that_counts() -> None:
    story = Story(updates_per_snapshot=2)
    other = ShareKey("group", OTHER, 1)
    story.initialize(0, 0)
    story.initialize(0, 0, other)
    story.write((0, 0), 1, StateBatch(1, 1, 2, 1), key=other)
    for number in range(4):
        story.write((0, 0), number, StateBatch(number, number, 2, 1))
    needed_from = story.shard.machine.ledger.needed_from
    assert needed_from == 1, "the snapshot of the other one, which is not written any more"
    for _ in range(2):
        story.write((0, 0), 2, StateBatch(2, 2, 2, 1), key=other)
    needed_from = story.shard.machine.ledger.needed_from
    assert needed_from is not None and needed_from > 1
    log = story.log.copy()
    log.batches = [one for one in log.batches if one[0] >= needed_from]
    log.start_offset = needed_from
    assert Story(log).kept() == story.kept()
    story.delete()
    story.delete(other)
    assert story.shard.machine.ledger.needed_from is None


def test_a_cold_share_partition_gets_a_new_snapshot_while_others_are_written() -> None:
    story = Story()
    other = ShareKey("group", OTHER, 1)
    story.initialize(0, 0)
    story.write((0, 0), 4, StateBatch(4, 4, 2, 1))
    story.initialize(0, 0, other)
    before = dict(story.kept())
    for _ in range(3):
        story.time.advance(INTERVAL_MS // 2)
        story.write((0, 0), 1, key=other)
    assert story.shard.machine.ledger.needed_from == 2, "the first one has a snapshot after the other's"
    after = story.kept()[KEY]
    assert replace(after, snapshot_epoch=0, write_ms=before[KEY].write_ms, updates=1) == before[KEY]
    assert story.reloaded().kept() == story.kept()


def test_where_all_is_quiet_no_snapshots_are_written() -> None:
    story = Story()
    story.initialize(0, 0)
    story.time.advance(10 * INTERVAL_MS)
    assert story.log.end_offset == 1


def test_the_cold_ones_are_written_in_batches_that_the_log_takes() -> None:
    story = Story(max_batch_bytes=1_000)
    for number in range(40):
        story.initialize(0, 0, ShareKey(f"group{number}", TOPIC, 0))
    story.time.advance(INTERVAL_MS - 1)
    story.log.max_batch_bytes = 1_000
    story.initialize(0, 0, KEY)
    story.time.advance(INTERVAL_MS)
    assert {kept.snapshot_epoch for key, kept in story.kept().items() if key != KEY} == {1}


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_cannot_be_read_is_refused_until_there_is_a_new_snapshot(kind: int, is_deleted: bool) -> None:
    story = Story()
    story.initialize(0, 0)
    story.write((0, 0), 4, StateBatch(4, 4, 2, 1))
    key, value = story.log.copy(), b"\x00\x63"
    made = (ShareSnapshotKey, ShareUpdateKey)[kind](group_id="group", topic_id=TOPIC, partition=0)
    key.append([Record(versioned_key(made), value)], stamp=None, now_ms=0)
    again = Story(key)
    assert again.shard.unreadable == 1
    assert cast(Any, again.read(0)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert again.shard.machine.ledger.needed_from == 2
    if is_deleted:
        assert again.delete() == Verdict(ErrorCode.NONE)
    assert again.initialize(0, 3) == Verdict(ErrorCode.NONE)
    assert again.read(0) == PartitionState(0, 3, 0, ())


def test_a_deleted_topic_is_forgotten_some_share_partitions_at_a_time() -> None:
    story = Story(max_batch_bytes=500)
    for number in range(30):
        story.initialize(0, 0, ShareKey(f"group{number}", TOPIC, 0))
    story.initialize(0, 0, ShareKey("group", OTHER, 0))
    story.topics.remove(TOPIC)
    story.log.max_batch_bytes = 500
    steps = 1
    while story.ask(lambda machine, ticket, now: machine.forget_topic(TOPIC, ticket, now)):
        steps += 1
    assert steps > 2
    assert list(story.kept()) == [ShareKey("group", OTHER, 0)]
    assert story.reloaded().kept() == story.kept()

"""What the share coordinator writes into `__share_group_state`, field by field: Kafka's tools read the same."""

from typing import Any

import pytest

from coordinator.batch_room import STEP_BYTES
from coordinator.loading import entries_of
from coordinator.machine import ReplayedRecord
from coordinator.share_state.kept import ShareKey
from coordinator.share_state.port import StateBatch
from coordinator.share_state.records import (
    KeptBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from protocol.codec import read_key, read_version, read_versioned
from tests.unit.share_state.test_share_coordinator import INTERVAL_MS, OTHER, TOPIC, Story

SNAPSHOT_KEY = ShareSnapshotKey(group_id="group", topic_id=TOPIC, partition=0)
UPDATE_KEY = ShareUpdateKey(group_id="group", topic_id=TOPIC, partition=0)


def written(story: Story, since: int = 0) -> list[tuple[Any, Any]]:
    """(key, value) of each record, as what its version says."""
    found: list[tuple[Any, Any]] = []
    for _, batch in story.log.batches[since:]:
        for entry, _ in entries_of(batch):
            if isinstance(entry, ReplayedRecord):
                kinds = ((ShareSnapshotKey, ShareSnapshotValue), (ShareUpdateKey, ShareUpdateValue))
                key, value = kinds[read_version(entry.key)]
                found.append((read_key(key, entry.key), entry.value and read_versioned(value, entry.value)))
    return found


def kept(first: int, last: int, state: int, count: int) -> KeptBatch:
    return KeptBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def snapshot(now_ms: int, epochs: tuple[int, int, int], start: int, count: int, *batches: KeptBatch) -> Any:
    """`epochs`: of the snapshot, of the state, of the leader."""
    value = ShareSnapshotValue(
        snapshot_epoch=epochs[0],
        state_epoch=epochs[1],
        leader_epoch=epochs[2],
        start_offset=start,
        delivery_complete_count=count,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=list(batches),
    )
    return SNAPSHOT_KEY, value


def update(epochs: tuple[int, int], start: int, count: int, *batches: KeptBatch) -> Any:
    """`epochs`: of the snapshot, of the leader."""
    value = ShareUpdateValue(
        snapshot_epoch=epochs[0],
        leader_epoch=epochs[1],
        start_offset=start,
        delivery_complete_count=count,
        state_batches=list(batches),
    )
    return UPDATE_KEY, value


def test_each_change_is_an_update_and_every_so_often_a_snapshot() -> None:
    story = Story(updates_per_snapshot=2)
    now_ms = story.time.now_ms()
    story.initialize(3, -1)
    story.initialize(4, 7)
    story.initialize(-1, 8)
    story.write((-1, 5), 9, StateBatch(9, 10, 0, 1), StateBatch(8, 8, 2, 1), count=1)
    story.write((-1, -1), -1, StateBatch(10, 12, 4, 2), StateBatch(11, 11, 0, 1), count=2)
    story.time.advance(70)
    story.write((-1, -1), 10, StateBatch(13, 13, 0, 1), count=3)
    story.read(5)
    story.read(6)
    story.read(-1)
    story.delete()
    assert written(story) == [
        snapshot(now_ms, (0, 3, 0), -1, -1),
        snapshot(now_ms, (1, 4, 0), 7, 0),
        snapshot(now_ms, (2, -1, 0), 8, 0),
        update((2, 5), 9, 1, kept(9, 10, 0, 1)),
        update((2, 5), -1, 2, kept(10, 12, 4, 2)),
        snapshot(now_ms + 70, (3, -1, 5), 10, 3, kept(10, 12, 4, 2), kept(13, 13, 0, 1)),
        update((3, 6), 10, 3),
        (SNAPSHOT_KEY, None),
    ]


def test_a_newer_leader_may_be_what_a_snapshot_is_written_for() -> None:
    story = Story(updates_per_snapshot=0)
    story.initialize(3, 7)
    story.read(5)
    assert written(story, 1) == [snapshot(story.time.now_ms(), (1, 3, 5), 7, 0)]


def test_a_snapshot_of_a_cold_one_says_since_when_it_is_so() -> None:
    story = Story()
    began_ms = story.time.now_ms()
    story.initialize(3, 7)
    story.write((3, 5), 9, StateBatch(9, 10, 0, 1), count=1)
    other = ShareKey("group", OTHER, 1)
    story.initialize(0, 0, other)
    story.time.advance(INTERVAL_MS - 1)
    story.write((0, 0), 1, key=other)
    before = len(story.log.batches)
    story.time.advance(1)
    ((key, value),) = written(story, before)
    _, expected = snapshot(began_ms, (1, 3, 5), 9, 1, kept(9, 10, 0, 1))
    expected.write_timestamp = began_ms + INTERVAL_MS
    assert (key, value) == (SNAPSHOT_KEY, expected)


@pytest.mark.parametrize("max_batch_bytes", [1 << 20, 1_000])
def test_background_work_writes_batches_that_are_short_and_that_the_log_takes(max_batch_bytes: int) -> None:
    """A step is a turn of the loop, though the log would take more."""
    story = Story(max_batch_bytes=max_batch_bytes)
    count = 50 * min(STEP_BYTES, max_batch_bytes) // 1_000
    for number in range(count):
        story.initialize(0, 0, ShareKey(f"group{number}", TOPIC, 0))
    story.time.advance(INTERVAL_MS - 1)
    story.initialize(0, 0, ShareKey("group", OTHER, 0))
    before = len(story.log.batches)
    story.time.advance(INTERVAL_MS)
    while story.ask(lambda machine, ticket, now: machine.forget_topic(TOPIC, ticket, now)):
        pass
    sizes = [len(batch) for _, batch in story.log.batches[before:]]
    assert len(written(story, before)) == 2 * count
    assert max(sizes) <= min(STEP_BYTES, max_batch_bytes)
    assert len(sizes) < 2 * count / 3, "each as full as it may be"


def test_cold_ones_are_looked_for_now_and_then() -> None:
    story = Story()
    began_ms = story.time.now_ms()
    assert story.shard.machine.next_deadline_ms() == began_ms + INTERVAL_MS
    story.time.advance(INTERVAL_MS + 5)
    assert story.shard.machine.next_deadline_ms() == began_ms + 2 * INTERVAL_MS


def test_a_search_looks_at_some_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not cold take time, too."""
    monkeypatch.setattr("coordinator.share_state.coordinator.VISITED_PER_STEP", 3)
    story = Story()
    story.time.advance(INTERVAL_MS - 1)
    for number in range(7):
        story.initialize(0, 0, ShareKey(f"group{number}", TOPIC, 0))
    now_ms = story.time.now_ms() + 1
    machine = story.shard.machine
    deadlines = []
    for _ in range(3):
        machine.expire(now_ms)
        deadlines.append(machine.next_deadline_ms())
    assert deadlines == [now_ms, now_ms, now_ms + INTERVAL_MS]

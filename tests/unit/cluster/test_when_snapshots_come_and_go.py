"""When a snapshot of the metadata is due, in which order one is taken, and which of them stay: to the byte and to the
millisecond."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.coordination.metadata_snapshots import MetadataSnapshots
from broker.process.time_slice import TimeSlice
from coordinator.runtime import ShardState
from storage.metadata_snapshots import SnapshotId
from tests.harness.work_clock import WorkClock
from tests.unit.cluster.cluster_rig import ClusterRig, topic
from tests.unit.cluster.test_cluster_log import register

BYTES, INTERVAL, MOST, LONGEST = (
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
)
FIRST, SECOND, THIRD = (SnapshotId(end_offset, 0) for end_offset in (2, 4, 6))


class World:
    """A cluster with one topic, its partition and folder, and the world around: what is done there is noted. A snapshot
    takes no bytes but those it is given, and the log 100 until it is cut."""

    def __init__(self, *, in_memory: bool = False, **settings: int) -> None:
        self.done: list[object] = []
        self.settings = {BYTES: 1_000, INTERVAL: 500, MOST: -1, LONGEST: -1} | settings
        self.now_ms = 10_000
        rig = ClusterRig()
        register(rig)
        rig.create(topic("t", 2))
        self.image, self.end_offset = rig.machine.image, rig.log.end_offset
        self.ids: list[SnapshotId] = []
        self.sizes: dict[SnapshotId, tuple[int, int]] = {}
        self.write_fails = False
        self.written_bytes = 0
        self.segments_left = 2
        log = SimpleNamespace(
            roll=lambda: self.done.append("roll"),
            latest_epoch=lambda: 9,
            trim=lambda offset: self.done.append(("trim", offset)),
            enforce_retention=self._cut,
            size_bytes=100,
        )
        partition = SimpleNamespace(log=log, end_offset=self.end_offset, committed=self._committed, high_watermark=77)
        self.shard = SimpleNamespace(state=ShardState.ACTIVE)
        cluster = SimpleNamespace(leads=True, image=self.image, partition=partition, shard=self.shard)
        config = SimpleNamespace(get_int=self.settings.__getitem__)
        folder = SimpleNamespace(
            ids=lambda: list(self.ids),
            path=lambda one: one.file_name,
            size_and_time=self._looked_at,
            write=self._written,
            delete=self._deleted,
        )
        parts: Any = cluster, lambda: None if in_memory else folder, config, self, lambda: ()
        self.snapshots = MetadataSnapshots(*parts)

    def _cut(self, wall_ms: int, high_watermark: int) -> bool:
        assert (wall_ms, high_watermark) == (self.now_ms, 77)
        self.segments_left -= 1
        return self.segments_left > 0

    def _committed(self, offset: int) -> Any:
        self.done.append(("committed", offset))
        return asyncio.sleep(0)

    def _looked_at(self, one: SnapshotId) -> tuple[int, int]:
        self.done.append(("looked at", one))
        return self.sizes[one]

    def _written(self, one: SnapshotId, batches: list[bytes]) -> None:
        self.done.append(("write", one))
        if self.write_fails:
            raise OSError("full")
        self.ids.append(one)
        self.written_bytes = sum(map(len, batches))

    def _deleted(self, which: list[SnapshotId]) -> None:
        self.done.append(("delete", *which))
        self.ids = [one for one in self.ids if one not in which]

    # -- the world

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def time_slice(self) -> TimeSlice:
        return TimeSlice(WorkClock().now)

    async def run_blocking(self, work: Callable[[], None]) -> None:
        work()


@pytest.mark.parametrize(
    ("record_bytes", "elapsed_ms", "interval_ms", "is_due"),
    [
        (999, 0, 500, False),
        (1_000, 0, 500, True),
        (1, 499, 500, False),
        (1, 500, 500, True),
        (0, 500, 500, False),
        (1, 1 << 40, 0, False),
        (1, 0, 1, False),
        (1, 1, 1, True),
    ],
)
def test_one_is_due_when_so_much_was_said_or_something_so_long_ago(
    record_bytes: int, elapsed_ms: int, interval_ms: int, is_due: bool
) -> None:
    world = World(**{INTERVAL: interval_ms})
    world.image.record_bytes = record_bytes
    world.now_ms += elapsed_ms
    assert world.snapshots.is_due() is is_due
    world.shard.state = ShardState.CLOSED
    assert not world.snapshots.is_due(), "the image is not what the log says"


def test_nothing_leaves_the_log_before_what_it_says_is_in_a_file() -> None:
    world = World(**{LONGEST: 4_000})
    world.ids = [FIRST, SECOND]
    world.sizes = {FIRST: (10, 5_000), SECOND: (10, 6_000)}
    world.now_ms += 500
    assert world.snapshots.is_due()
    asyncio.run(world.snapshots.keep_up())
    made = SnapshotId(world.end_offset, 9)
    assert world.done == [
        "roll",
        ("committed", world.end_offset),
        ("write", made),
        ("looked at", FIRST),
        ("looked at", SECOND),
        ("trim", SECOND.end_offset),
        ("delete", FIRST),
        ("trim", made.end_offset),
        ("delete", SECOND),
    ]
    assert world.ids == [made] and world.image.record_bytes == 0
    world.image.record_bytes, world.done[:] = 1, []
    world.now_ms += 499
    asyncio.run(world.snapshots.keep_up())
    assert world.done == [], "it is not due again"


def test_in_memory_the_log_is_cut_when_all_before_it_is_committed() -> None:
    world = World(in_memory=True)
    asyncio.run(world.snapshots.take())
    assert world.done == ["roll", ("committed", world.end_offset), ("trim", world.end_offset)]
    assert world.segments_left == 0, "as long as there are segments to give up"


def test_what_could_not_be_written_is_still_to_be_written() -> None:
    world = World()
    said = world.image.record_bytes
    world.write_fails = True
    with pytest.raises(OSError, match="full"):
        asyncio.run(world.snapshots.take())
    assert world.image.record_bytes == said > 0
    world.write_fails = False
    asyncio.run(world.snapshots.take())
    assert len(world.ids) == 1 and world.image.record_bytes == 0


@pytest.mark.parametrize(
    ("settings", "stay"),
    [
        ({}, 3),
        ({MOST: 160}, 3),
        ({MOST: 159}, 2),
        ({MOST: 150}, 2),
        ({MOST: 149}, 1),
        ({MOST: 0}, 1),
        ({LONGEST: 1_000}, 3),
        ({LONGEST: 999}, 2),
        ({LONGEST: 900}, 2),
        ({LONGEST: 899}, 1),
        ({LONGEST: 0}, 1),
        ({MOST: 160, LONGEST: 999}, 2),
        ({MOST: 159, LONGEST: 1_000}, 2),
    ],
)
def test_the_oldest_go_when_they_are_too_old_or_all_are_too_much(settings: dict[str, int], stay: int) -> None:
    """100 bytes of log, and snapshots of 10, 20 and 30; the last of them always stays."""
    world = World(**settings)
    world.ids = [FIRST, SECOND, THIRD]
    world.sizes = {FIRST: (10, 9_000), SECOND: (20, 9_100), THIRD: (30, 9_200)}
    asyncio.run(cast(Any, world.snapshots)._give_up_old())
    assert world.ids == [FIRST, SECOND, THIRD][-stay:]


@pytest.mark.parametrize("what", [MOST, LONGEST])
def test_one_that_was_written_counts_with_its_bytes_and_the_time_of_its_last_record(what: str) -> None:
    def stays(limit: int) -> tuple[bool, int]:
        world = World(**{what: limit})
        world.now_ms = world.image.last_timestamp_ms + 70
        asyncio.run(world.snapshots.take())
        made = world.ids[0]
        world.ids.append(SnapshotId(made.end_offset + 1, 9))
        world.sizes[world.ids[1]] = (10, world.now_ms)
        asyncio.run(cast(Any, world.snapshots)._give_up_old())
        return made in world.ids, world.written_bytes

    _, size_bytes = stays(-1)
    assert size_bytes > 0
    exact = {MOST: 100 + size_bytes + 10, LONGEST: 70}[what]
    assert stays(exact)[0] and not stays(exact - 1)[0]

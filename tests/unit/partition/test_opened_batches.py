"""What is decompressed at a time, by Produces, lookups and compaction, and that nothing of it stays. Garbage is not
collected here: what is held by a cycle is held."""

import asyncio
import gc
import mmap
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker.config.topic_config import RecordChecks, TopicConfig
from broker.node import Node
from broker.partitions.inspection import COUNTED_AT_ONCE, read_batch
from protocol.errors import ErrorCode
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records import compression
from protocol.records.batch import read_header
from protocol.records.record import NewRecord, build_batch
from storage.log import Log, LogConfig
from storage.memory_log import MemoryLog
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import INLINE_BYTES, finish
from storage.steps import opened as opened_records
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_produce import HeldSyncs, errors_of, produce
from tests.unit.broker.test_restarts import life, opened
from tests.unit.cluster.cluster_rig import handle
from tests.unit.partition.rig import NOW_MS
from tests.unit.partition.test_compaction import COMPACTED, compact_all, filled
from tests.unit.partition.test_compaction import opened as opened_rig

LIMIT = 1 << 20
BOUNDS = compression.Bounds(max_bytes=LIMIT)
CODECS = [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]


class Rooms:
    """The memory that decompression has taken and not given back."""

    def __init__(self) -> None:
        self._live: list[weakref.ref[mmap.mmap]] = []
        self.most_bytes = self.asked = 0

    def room_for(self, size: int) -> mmap.mmap:
        room = mmap.mmap(-1, size)
        self._live.append(weakref.ref(room))
        self.asked += 1
        self.most_bytes = max(self.most_bytes, self.held_bytes)
        return room

    @property
    def held_bytes(self) -> int:
        return sum(len(room) for reference in self._live if (room := reference()) is not None)


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rooms]:
    counted = Rooms()
    monkeypatch.setattr(compression, "_room_for", counted.room_for)
    gc.disable()
    yield counted
    gc.enable()


def zeros(size_bytes: int, codec: int = compression.ZSTD, timestamp_ms: int = 1, count: int = 1) -> bytes:
    return build_batch([NewRecord(bytes(size_bytes), timestamp_ms=timestamp_ms)] * count, compression=codec)


def logs() -> list[Log]:
    config = LogConfig(decompression=BOUNDS)
    on_disk = SegmentLog.open(SimulatedFiles(), "t-0", config, now_ms=lambda: 0, recovery=Recovery())
    return [on_disk, MemoryLog(config)]


@pytest.mark.parametrize("codec", CODECS)
def test_too_much_leaves_nothing_behind(codec: int, rooms: Rooms) -> None:
    bomb = zeros(2 * LIMIT, codec)
    with pytest.raises(compression.TooManyBytes):
        compression.decompress_body(codec, bomb[61:], LIMIT)
    assert rooms.held_bytes == 0
    assert rooms.most_bytes <= LIMIT


@pytest.mark.parametrize("log", logs(), ids=["on disk", "in memory"])
def test_a_lookup_holds_one_batch_at_a_time(log: Log, rooms: Rooms) -> None:
    """Those that come to too much, and those that have no such record although their headers say so."""
    for number in range(3):
        log.append(zeros(2 * LIMIT, timestamp_ms=9), leader_epoch=1)
        log.append(zeros(LIMIT - 100, timestamp_ms=9 + number), leader_epoch=1)
    log.trim(1)
    found = finish(log.offset_for_timestamp(11, end_offset=6))
    assert found is not None and found.offset == 5
    assert finish(log.offset_for_timestamp(9, end_offset=6)) is not None
    assert rooms.asked > 3
    assert rooms.most_bytes <= LIMIT
    assert rooms.held_bytes == 0


def test_compaction_holds_one_batch_at_a_time(rooms: Rooms) -> None:
    rig = opened_rig(SimulatedFiles(), config=replace(COMPACTED, decompression=BOUNDS))
    for size_bytes in (2 * LIMIT, LIMIT - 100) * 3:
        rig.log.append(zeros(size_bytes), leader_epoch=1)
        rig.partition.derived.producers.skip_to(rig.log.end_offset)
    filled(rig, 40)
    assert compact_all(rig)
    assert rooms.asked > 3
    assert rooms.most_bytes <= LIMIT
    assert rooms.held_bytes == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_refusal_holds_nothing_of_its_batch(codec: int, rooms: Rooms) -> None:
    """One comes to too much, the other has no keys, which a compacted topic wants."""

    async def story(node: Node) -> None:
        await opened(node)
        answers = []
        for size_bytes in (2 * LIMIT, LIMIT - 100):
            begun = node.begin(produce(node, memoryview(zeros(size_bytes, codec)), acks=1))
            assert isinstance(begun, asyncio.Task)
            answers.append(await begun)
            assert rooms.held_bytes == 0
        expected = [[ErrorCode.MESSAGE_TOO_LARGE], [ErrorCode.INVALID_RECORD]]
        assert [errors_of(answer) for answer in answers] == expected

    settings = {"tallystick_decompression_max_bytes": str(LIMIT), "log_cleanup_policy": "compact"}
    life(SimulatedFiles(), story, **settings)


def test_one_lookup_at_a_time_opens_large_batches(rooms: Rooms) -> None:
    """However many requests come. One that finds what it wants in a small batch waits for none of them."""

    async def story(node: Node) -> None:
        large, small = await opened(node), node.services.topics.partition("t", 1)
        assert small is not None
        for partition, data in ((large, zeros(LIMIT)), (small, zeros(10))):
            partition.log.append(data, leader_epoch=1)
            partition.derived.producers.skip_to(1)
            partition.log.flush_now()
            partition.committed_moved()
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        lookups = [asyncio.ensure_future(look_up(node, 0)) for _ in range(5)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(disk._kept) == 1
        assert await look_up(node, 1) == 0
        disk.let_go()
        assert [await one for one in lookups] == [0] * 5

    life(SimulatedFiles(), story, num_partitions="2")


async def look_up(node: Node, index: int) -> int:
    """The offset of the first record that is not older than 1."""
    wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=index, timestamp=1)])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[wanted])
    answer: Any = await handle(node.services, request, 5)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def test_counting_gives_way_only_when_its_time_is_spent() -> None:
    data = memoryview(build_batch([NewRecord(b"v", None, NOW_MS)] * (2 * COUNTED_AT_ONCE)))
    config = TopicConfig(record_checks=RecordChecks.ALL)

    def steps(spent: bool) -> int:
        reading = read_batch(
            data, read_header(data), config, partition_name="t-0", now_ms=NOW_MS, spent=lambda: spent, at_once=True
        )
        return len(list(reading))

    assert (steps(False), steps(True)) == (0, 1)


def test_a_batch_of_too_much_is_refused_without_a_thread_where_little_is_allowed() -> None:
    bomb = zeros(2 << 10)
    for limit, steps in ((1 << 10, 0), (INLINE_BYTES, 0), (INLINE_BYTES + 1, 1)):
        taken = 0
        with pytest.raises(compression.TooManyBytes):
            for work in opened_records(read_header(zeros(2 * INLINE_BYTES)), zeros(2 * INLINE_BYTES), only(limit)):
                taken += 1
                assert work is not None
                work()
        assert taken == steps
    assert finish(opened_records(read_header(bomb), bomb, only(INLINE_BYTES))) is not None


def test_a_refusal_is_gone_with_its_last_user() -> None:
    """It does not hold itself by the frames that it came through: with it the batch is gone."""
    bomb = zeros(4 * INLINE_BYTES)
    gc.disable()
    try:
        try:
            finish(opened_records(read_header(bomb), bomb, only(2 * INLINE_BYTES)))
        except compression.TooManyBytes as error:
            kept = weakref.ref(error)
        assert kept() is None
    finally:
        gc.enable()


def only(max_bytes: int) -> compression.Bounds:
    return compression.Bounds(max_bytes=max_bytes, max_ratio=1 << 30)

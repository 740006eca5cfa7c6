"""ListOffsets by time over batches that cannot be read, or take long; DeleteRecords of what is not durable yet."""

import asyncio
import struct
from typing import Any

import pytest

from broker.node import Node
from broker.partitions.errors import PartitionError
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.records import compression
from protocol.records.batch import seal
from protocol.records.record import NewRecord, build_batch
from storage.log import Log, LogClosed, LogConfig, LogDamaged
from storage.memory_log import MemoryLog
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_produce import HeldSyncs
from tests.unit.broker.test_restarts import append, life, opened
from tests.unit.cluster.cluster_rig import handle

SMALL = LogConfig(segment_bytes=4_000, index_interval_bytes=100, decompression=compression.Bounds(max_bytes=1 << 20))


def rubbish(timestamp_ms: int, codec: int = compression.ZSTD) -> bytes:
    """A batch that no codec has written."""
    batch = bytearray(build_batch([NewRecord(b"never compressed", timestamp_ms=timestamp_ms)]))
    struct.pack_into(">h", batch, 21, codec)
    seal(batch)
    return bytes(batch)


def logs() -> list[Log]:
    on_disk = SegmentLog.open(SimulatedFiles(), "t-0", SMALL, now_ms=lambda: 0, recovery=Recovery())
    return [on_disk, MemoryLog(SMALL)]


@pytest.mark.parametrize("log", logs(), ids=["on disk", "in memory"])
def test_a_lookup_passes_over_what_cannot_be_read(log: Log) -> None:
    log.append(build_batch([NewRecord(b"v", timestamp_ms=10)]), leader_epoch=1)
    log.append(rubbish(30), leader_epoch=1)
    log.append(build_batch([NewRecord(bytes(2 << 20), timestamp_ms=40)], compression=compression.ZSTD), leader_epoch=1)
    log.append(build_batch([NewRecord(b"v", timestamp_ms=20), NewRecord(b"v", timestamp_ms=50)]), leader_epoch=1)
    found = finish(log.offset_for_timestamp(15, end_offset=5))
    assert found is not None and (found.offset, found.timestamp_ms) == (3, 20)
    newest = finish(log.max_timestamp())
    assert newest is not None and (newest.offset, newest.timestamp_ms) == (4, 50)
    log.trim(2)
    assert finish(log.max_timestamp()) == newest


@pytest.mark.parametrize("log", logs(), ids=["on disk", "in memory"])
def test_a_lookup_of_the_newest_counts_what_it_cannot_read(log: Log) -> None:
    """A batch from whose beginning records were deleted has to be opened; here nothing else is left."""
    log.append(build_batch([NewRecord(b"v", timestamp_ms=10)]), leader_epoch=1)
    nonsense = bytearray(build_batch([NewRecord(b"v", timestamp_ms=20)] * 2))
    struct.pack_into(">h", nonsense, 21, compression.ZSTD)
    seal(nonsense)
    log.append(bytes(nonsense), leader_epoch=1)
    log.trim(2)
    assert finish(log.max_timestamp()) is None
    assert log.unreadable.batches == 1


def test_the_newest_is_looked_for_again_where_segments_go_meanwhile() -> None:
    log, _ = logs()
    assert isinstance(log, SegmentLog)
    while len(log.segments) < 4:
        log.append(build_batch([NewRecord(bytes(1_000), timestamp_ms=1_000 - log.end_offset)]), leader_epoch=1)
    steps = log.max_timestamp(spent=lambda: True)
    next(steps)
    log.remove_oldest(2)
    found = finish(steps)
    assert found is not None and found.offset == log.start_offset > 0


@pytest.mark.parametrize("log", logs(), ids=["on disk", "in memory"])
def test_what_lookups_pass_over_is_counted_once(log: Log) -> None:
    """And the first of it is named once, however many lookups come by."""
    sentences: list[str] = []
    log.unreadable.report = sentences.append
    for timestamp_ms in (30, 31):
        log.append(rubbish(timestamp_ms), leader_epoch=1)
    for _ in range(3):
        assert finish(log.offset_for_timestamp(15, end_offset=2)) is None
    assert log.unreadable.batches == 2
    (sentence,) = sentences
    assert "passes over the batch at 0" in sentence


@pytest.mark.parametrize("log", logs(), ids=["on disk", "in memory"])
def test_one_large_batch_is_looked_through_in_many_steps(log: Log) -> None:
    records = [NewRecord(b"", timestamp_ms=number) for number in range(2_000)]
    log.append(build_batch(records), leader_epoch=1)
    breaths = 0
    for step in log.offset_for_timestamp(1_999, end_offset=2_000, spent=lambda: True):
        assert step is None
        breaths += 1
    assert breaths >= 2_000 // 64


@pytest.mark.parametrize("in_memory", [False, True])
def test_the_newest_is_looked_for_in_many_steps(in_memory: bool) -> None:
    """Within the batch that the log begins in, and from each batch to the next."""
    log: Log = MemoryLog()
    if not in_memory:
        log = SegmentLog.open(SimulatedFiles(), "t-0", LogConfig(), now_ms=lambda: 0, recovery=Recovery())
    log.append(build_batch([NewRecord(b"", timestamp_ms=9_000 - number) for number in range(2_000)]), leader_epoch=1)
    for _ in range(50):
        log.append(build_batch([NewRecord(b"", timestamp_ms=1)]), leader_epoch=1)
    log.trim(1)
    assert sum(1 for _ in log.max_timestamp(spent=lambda: True)) >= 2_000 // 64 + 50


def test_the_newest_is_looked_for_in_one_segment_after_the_other() -> None:
    log, _ = logs()
    assert isinstance(log, SegmentLog)
    for number in range(60):
        log.append(build_batch([NewRecord(b"v" * 900, timestamp_ms=60 - number)]), leader_epoch=1)
    assert len(log.segments) > 10
    assert sum(1 for _ in log.max_timestamp(spent=lambda: True)) >= len(log.segments)


def test_a_lookup_begins_again_where_segments_were_given_up() -> None:
    log, _ = logs()
    assert isinstance(log, SegmentLog)
    for number in range(20):
        log.append(build_batch([NewRecord(b"v" * 900, timestamp_ms=number)]), leader_epoch=1)
    steps = log.offset_for_timestamp(2, end_offset=20, spent=lambda: True)
    assert next(steps) is None
    log.remove_oldest(2)
    found = finish(steps)
    assert found is not None and found.offset == log.start_offset > 2
    steps = log.offset_for_timestamp(2, end_offset=20, spent=lambda: True)
    assert next(steps) is None
    log.abandon()
    with pytest.raises(LogClosed):
        finish(steps)


def test_rubbish_in_one_partition_holds_up_no_other() -> None:
    """The connection stays, and each partition has its own answer."""

    async def story(node: Node) -> None:
        partition = await opened(node)
        partition.log.append(rubbish(30), leader_epoch=1)
        partition.derived.producers.skip_to(1)
        await (append(partition, b"a") or asyncio.sleep(0))
        topics = [ListOffsetsPartition(partition_index=index, timestamp=1) for index in (0, 1)]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="t", partitions=topics)]
        )
        answer: Any = await handle(node.services, request, 5)
        assert [(response.error_code, response.offset) for response in answer.topics[0].partitions] == [(0, 1), (0, -1)]

    life(SimulatedFiles(), story, num_partitions="2")


@pytest.mark.parametrize(
    ("raised", "answered", "names"),
    [
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR, ["a partition cannot be read"]),
        (
            LogDamaged("t-0/0.log", 0, 0, "cut off"),
            ErrorCode.KAFKA_STORAGE_ERROR,
            ["t-0/0.log is damaged at byte 0, offset 0: cut off"],
        ),
        (LogClosed("t-0"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ],
    ids=["disk", "damage", "deleted meanwhile"],
)
def test_a_partition_that_cannot_be_read_has_its_error_alone(
    raised: Exception, answered: ErrorCode, names: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Node) -> None:
        broken, sound = await opened(node), await opened(node, "sound")
        for partition in (broken, sound):
            append(partition, b"v")
        await node.group_commit.wait_until_idle()

        def lookup(*_: Any, **__: Any) -> Any:
            raise raised

        broken.log.offset_for_timestamp = lookup  # type: ignore[method-assign]
        wanted = [ListOffsetsPartition(partition_index=0, timestamp=0)]
        topics = [ListOffsetsTopic(name=name, partitions=wanted) for name in ("t", "sound")]
        answer = await handle(node.services, ListOffsetsRequest(replica_id=-1, topics=topics), 5)
        results = [topic.partitions[0] for topic in answer.topics]
        assert [(one.error_code, one.offset) for one in results] == [(answered, -1), (0, 0)]
        assert [one.msg for one in caplog.records if one.levelname == "ERROR"] == names

    life(SimulatedFiles(), story)


def test_records_that_are_not_durable_yet_can_be_deleted() -> None:
    """A client that got its acks=1 may delete what it wrote: the answer waits for the cycle."""

    async def story(node: Node) -> None:
        partition = await opened(node)
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        append(partition, b"a")
        for _ in range(5):
            await asyncio.sleep(0)
        answers = [
            asyncio.ensure_future(handle(node.services, DeleteRecordsRequest(topics=[topics], timeout_ms=1000), 2))
            for topics in (
                DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
                for offset in (1, 2)
            )
        ]
        beyond = await answers[1]
        assert beyond.topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert not answers[0].done()
        disk.let_go()
        response = (await answers[0]).topics[0].partitions[0]
        assert (response.error_code, response.low_watermark) == (ErrorCode.NONE, 1)

    life(SimulatedFiles(), story)


def test_records_that_never_become_durable_cannot_be_deleted() -> None:
    """Nor do they keep others from being deleted."""

    async def story(node: Node) -> None:
        partition, kept = await opened(node), await opened(node, "kept")
        await (append(kept, b"a") or asyncio.sleep(0))
        await node.group_commit.wait_until_idle()
        disk = HeldSyncs(node)
        append(partition, b"a")
        topics = [
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            for name in ("t", "kept")
        ]
        answer = asyncio.ensure_future(handle(node.services, DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not answer.done()
        partition.fail(PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-0 is gone"))
        for _ in range(5):
            await asyncio.sleep(0)
        disk.let_go()
        results = [topic.partitions[0] for topic in (await answer).topics]
        assert [(one.error_code, one.low_watermark) for one in results] == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (ErrorCode.NONE, 1),
        ]

    life(SimulatedFiles(), story)

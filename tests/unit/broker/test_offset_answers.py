"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: what is answered for each time, epoch and offset."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.api.services import Services
from broker.partitions.errors import PartitionError
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.records.record import NewRecord, build_batch
from storage.log import LogClosed, LogDamaged
from tests.unit.transactions.node_rig import ask, in_a_node, partitions_of

UNKNOWN, OUT_OF_RANGE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE
NOTHING = (ErrorCode.NONE, -1, -1, -1)


def append(partition: Any, *times_ms: int, producer_id: int = -1) -> None:
    """A batch of one record for each time, on the disk; with a producer in a transaction that stays open."""
    producer: dict[str, Any] = {}
    if producer_id >= 0:
        producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    for time_ms in times_ms:
        data = memoryview(build_batch([NewRecord(value=b"v", timestamp_ms=time_ms)], **producer))
        partition.append(data, transactional_id="x" if producer else None, verification=False, now_ms=1)
    flush = partition.log.begin_flush()
    flush.run()
    partition.log.finish_flush(flush)
    partition.committed_moved()


async def listed(
    node: Services, *wanted: tuple[int, int], isolation: int = 0, replica: int = -1, epoch: int = -1, topic: str = "t"
) -> list[tuple[int, int, int, int]]:
    """(error, timestamp, offset, leader epoch) of each (partition, time)."""
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=time, current_leader_epoch=epoch)
        for index, time in wanted
    ]
    request = ListOffsetsRequest(
        replica_id=replica, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )
    (answer,) = (await ask(node, request, 11)).topics
    assert answer.name == topic
    return [(one.error_code, one.timestamp, one.offset, one.leader_epoch) for one in answer.partitions]


def test_each_time_that_stands_for_a_place(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        first, second = partitions_of(node)
        append(first, 10, 30, 20)
        own = first.leader_epoch
        places = {-1: (-1, 3, own), -2: (-1, 0, own), -3: (30, 1, own), -4: (-1, 0, own), -5: NOTHING[1:]}
        places |= {-6: NOTHING[1:], 0: (10, 0, own), 10: (10, 0, own), 11: (30, 1, own), 30: (30, 1, own)}
        for time, place in (places | {31: NOTHING[1:]}).items():
            assert await listed(node, (0, time)) == [(0, *place)], time
        assert (await listed(node, (0, -7)))[0][0] == ErrorCode.UNSUPPORTED_VERSION
        own = second.leader_epoch
        empty = [(0, -1, 0, own), (0, -1, 0, own), NOTHING, NOTHING]
        assert [(await listed(node, (1, time)))[0] for time in (-1, -2, -3, 5)] == empty

    in_a_node(story, tmp_path)


def test_what_a_reader_of_committed_records_finds(tmp_path: Path) -> None:
    """Whoever is no ordinary reader is told the end, whatever isolation it asks for."""

    async def story(node: Services) -> None:
        first, _ = partitions_of(node)
        append(first, 10)
        append(first, 30, producer_id=5)
        append(first, 20)
        ends = [await listed(node, (0, -1), isolation=level, replica=who) for level, who in ((0, -1), (1, -1), (1, -2))]
        assert [offset for ((_, _, offset, _),) in ends] == [3, 1, 3]
        assert (await listed(node, (0, 15), isolation=1))[0][2] == -1
        assert (await listed(node, (0, 15), isolation=0))[0][2] == 1
        assert (await listed(node, (0, -3), isolation=1))[0][1:3] == (-1, -1), "it is not committed"
        assert await listed(node, (0, -1), isolation=2) == [(ErrorCode.INVALID_REQUEST, -1, -1, -1)]

    in_a_node(story, tmp_path)


def test_partitions_that_are_not_there_or_named_twice(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        own = partitions_of(node)[0].leader_epoch
        told = await listed(node, (2, -1), (0, -1), (-1, -1), (1, -1), (1, -2))
        assert told == [
            (UNKNOWN, -1, -1, -1),
            (0, -1, 0, own),
            (UNKNOWN, -1, -1, -1),
            (ErrorCode.INVALID_REQUEST, -1, -1, -1),
        ]
        assert await listed(node, (0, -1), topic="gone") == [(UNKNOWN, -1, -1, -1)]

    in_a_node(story, tmp_path)


def test_what_a_client_believes_of_the_leader(tmp_path: Path) -> None:
    """KIP-320."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        partition.leader_epoch = 5
        fenced, ahead = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
        for epoch, error in ((-1, 0), (0, fenced), (4, fenced), (5, 0), (6, ahead)):
            assert await listed(node, (0, -1), epoch=epoch) == [(error, -1, -1, -1) if error else (0, -1, 0, 5)]
            assert await epoch_end(node, 5, known=epoch) == ((error, -1, -1) if error else (0, 5, 0))

    in_a_node(story, tmp_path)


@pytest.mark.parametrize("epoch", [0, 3])
def test_the_epoch_of_a_beginning_is_that_of_the_first_record(epoch: int, tmp_path: Path) -> None:
    """Or ours, where there is none."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        partition.leader_epoch = epoch
        append(partition, 1)
        partition.leader_epoch = 6
        append(partition, 1)
        assert await listed(node, (0, -2)) == [(0, -1, 0, epoch)]
        await deleted(node, (0, 1))
        assert await listed(node, (0, -2)) == [(0, -1, 1, 6)]
        partition.leader_epoch = 7
        assert await listed(node, (0, -4)) == [(0, -1, 1, 6)]
        await deleted(node, (0, 2))
        assert await listed(node, (0, -2)) == [(0, -1, 2, 7)]

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LogDamaged("t-0/0.log", 0, 0, "cut off"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LogClosed("t-0"), UNKNOWN),
    ],
    ids=["disk", "damage", "closed"],
)
def test_a_partition_that_cannot_be_looked_into_harms_no_other(
    error: Exception, code: ErrorCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Services) -> None:
        first, second = partitions_of(node)
        append(first, 10)
        append(second, 10)
        look_up = node.batch_opener.look_up
        raised: list[Exception] = []

        async def fails_once(*arguments: Any) -> Any:
            if not raised:
                raised.append(error)
                raise error
            return await look_up(*arguments)

        monkeypatch.setattr(node.batch_opener, "look_up", fails_once)
        told = await listed(node, (0, 5), (1, 5))
        assert told == [(code, -1, -1, -1), (0, 10, 0, second.leader_epoch)]
        said = [vars(line)["fields"] for line in caplog.records if line.name == "tallystick.offsets"]
        assert said == [{"partition": first.name, "reason": error}] * isinstance(error, OSError)

    in_a_node(story, tmp_path)


async def epoch_end(node: Services, epoch: int, *, known: int = -1, index: int = 0) -> tuple[int, int, int]:
    one = OffsetForLeaderPartition(partition=index, current_leader_epoch=known, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[one])])
    (topic,) = (await ask(node, request, 4)).topics
    (answer,) = topic.partitions
    assert (topic.topic, answer.partition) == ("t", index)
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_where_an_epoch_ended(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        partition, _ = partitions_of(node)
        partition.leader_epoch = 3
        append(partition, 1, 1)
        partition.leader_epoch = 6
        append(partition, 1, 1, 1)
        found = [(await epoch_end(node, epoch))[1:] for epoch in (3, 4, 5, 6, 7)]
        assert found == [(3, 2), (3, 2), (3, 2), (6, 5), (-1, -1)]
        assert await epoch_end(node, 3, index=2) == (UNKNOWN, -1, -1)

    in_a_node(story, tmp_path)


async def deleted(node: Services, *wanted: tuple[int, int], topic: str = "t") -> list[tuple[int, int, int]]:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in wanted]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1)
    (answer,) = (await ask(node, request, 2)).topics
    assert answer.name == topic
    return [(one.partition_index, one.error_code, one.low_watermark) for one in answer.partitions]


def test_where_partitions_begin_after_a_deletion(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        first, second = partitions_of(node)
        append(first, 1, 1, 1)
        append(second, 1)
        assert await deleted(node, (0, 1), (1, 0), (2, 0)) == [(0, 0, 1), (1, 0, 0), (2, UNKNOWN, -1)]
        assert await deleted(node, (0, 0), (1, 2), (1, 1)) == [(0, 0, 1), (1, 0, 1)], "the last offset holds"
        assert await deleted(node, (0, 4), (1, -2)) == [(0, OUT_OF_RANGE, -1), (1, OUT_OF_RANGE, -1)]
        assert await deleted(node, (0, -1)) == [(0, 0, 3)]
        assert (first.log_start_offset, second.log_start_offset) == (3, 1)
        assert await deleted(node, (0, 0), topic="gone") == [(0, UNKNOWN, -1)]
        assert await listed(node, (0, -2)) == [(0, -1, 3, first.leader_epoch)]

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(("wanted", "times"), [([(0, 1)], 1), ([(0, 9)], 0), ([(0, 9), (1, 0)], 1)])
def test_a_deletion_is_written_down_where_there_was_one(
    wanted: list[tuple[int, int]], times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Services) -> None:
        append(partitions_of(node)[0], 1)
        written: list[None] = []

        async def write() -> None:
            written.append(None)

        monkeypatch.setattr(node.checkpoints, "write", write)
        await deleted(node, *wanted)
        assert len(written) == times

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node has it"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (OSError("the disk is gone"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_deletion_of_what_may_or_may_not_be_committed_is_tried_again(
    error: Exception, code: ErrorCode, tmp_path: Path
) -> None:
    """Another node may lead the partition with these records in it. OFFSET_OUT_OF_RANGE would be the end of it."""

    async def story(node: Services) -> None:
        first, second = partitions_of(node)
        append(second, 1, 1)
        first.append(memoryview(build_batch([NewRecord(value=b"v")])), transactional_id=None, now_ms=1)
        answer = asyncio.ensure_future(deleted(node, (0, 1), (1, 2), (0, 1)))
        while not first._visibility._waiting:
            await asyncio.sleep(0)
        first.fail(error)
        assert await answer == [(0, code, -1), (1, 0, 2)]

    in_a_node(story, tmp_path)

"""Fetch over several partitions: limits in bytes, epochs, and a partition that cannot be read."""

from typing import Any

import pytest

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.records.record import NewRecord, build_batch
from tests.unit.transactions.node_rig import ask, in_a_node, partitions_of

LARGE = 1 << 20


def append(partition: Any, count: int = 1) -> int:
    """Batches of one record; returns the size of one."""
    batch = memoryview(build_batch([NewRecord(value=b"v" * 100, timestamp_ms=1)]))
    for _ in range(count):
        partition.append(batch, transactional_id=None, now_ms=1)
    flush = partition.log.begin_flush()
    flush.run()
    partition.log.finish_flush(flush)
    partition.committed_moved()
    return len(batch)


async def fetch(node: Services, *wanted: FetchPartition, max_bytes: int = LARGE, **fields: Any) -> list[PartitionData]:
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=list(wanted))],
        **fields,
    )
    answer: FetchResponse = await ask(node, request, 12)
    return [partition for topic in answer.responses for partition in topic.partitions]


def wanted(index: int, offset: int = 0, **fields: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=LARGE, **fields)


def size(data: PartitionData) -> int:
    return sum(map(len, data.records or ()))  # type: ignore[arg-type]


def test_the_limit_holds_for_all_partitions_together(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        first, second = partitions_of(node)
        batch = append(first, 3)
        append(second, 3)
        got = await fetch(node, wanted(0), wanted(1), max_bytes=4 * batch)
        assert [size(data) for data in got] == [3 * batch, batch]

    in_a_node(story, tmp_path)


def test_an_empty_partition_in_front_starves_nobody(tmp_path: Any) -> None:
    """KIP-74: the first partition with anything to read gives a batch, however small the limit."""

    async def story(node: Services) -> None:
        batch = append(partitions_of(node)[1], 2)
        got = await fetch(node, wanted(0), wanted(1), max_bytes=1)
        assert [size(data) for data in got] == [0, batch]

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(("beyond", "diverges"), [(0, False), (1, True)])
def test_a_reader_at_the_end_of_its_epoch_is_not_diverging(beyond: int, diverges: bool, tmp_path: Any) -> None:
    """KIP-320."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        append(partition, 3)
        epoch = partition.leader_epoch
        at_end = wanted(0, partition.end_offset + beyond, last_fetched_epoch=epoch, current_leader_epoch=epoch)
        (data,) = await fetch(node, at_end)
        assert (data.diverging_epoch.epoch >= 0) == diverges and data.error_code == 0

    in_a_node(story, tmp_path)


def test_a_partition_that_cannot_be_read_harms_no_other(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Services) -> None:
        broken, sound = partitions_of(node)
        append(broken)
        batch = append(sound)

        def read(*_: Any, **__: Any) -> Any:
            raise OSError(5, "Input/output error")

        broken.log.read_slice = read
        got = await fetch(node, wanted(0), wanted(1))
        assert [(data.error_code, size(data)) for data in got] == [(ErrorCode.KAFKA_STORAGE_ERROR, 0), (0, batch)]
        (line,) = [record for record in caplog.records if record.name == "tallystick.fetch"]
        assert line.exc_info is None

    in_a_node(story, tmp_path)

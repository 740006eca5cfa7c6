"""Fetch over several partitions: limits in bytes, epochs, and a partition that cannot be read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.handlers.fetch import AT_ONCE
from broker.api.services import Services
from broker.disk.file_region import CAN_SEND_FILES, FileRegion
from broker.process.time_slice import TimeSlice
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from protocol.records.record import NewRecord, build_batch
from storage.log import LogDamaged
from tests.harness.work_clock import WorkClock
from tests.unit.cluster.cluster_rig import with_node
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


async def fetch(
    node: Services,
    *wanted: FetchPartition,
    max_bytes: int = LARGE,
    min_bytes: int = 1,
    wait_ms: int = 0,
    **fields: Any,
) -> list[PartitionData]:
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
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
def test_a_reader_at_its_epochs_end_is_not_diverging(beyond: int, diverges: bool, tmp_path: Any) -> None:
    """KIP-320."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        append(partition, 3)
        epoch = partition.leader_epoch
        at_end = wanted(0, partition.end_offset + beyond, last_fetched_epoch=epoch, current_leader_epoch=epoch)
        (data,) = await fetch(node, at_end)
        assert (data.diverging_epoch.epoch >= 0) == diverges and data.error_code == 0

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (OSError(5, "Input/output error"), "tallystick.fetch"),
        (LogDamaged("t-0/0.log", 0, 0, "cut off"), "tallystick.partitions"),
    ],
    ids=["disk", "damage"],
)
def test_a_partition_that_cannot_be_read_harms_no_other(
    error: Exception, names: str, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Services) -> None:
        broken, sound = partitions_of(node)
        append(broken)
        batch = append(sound)

        def read(*_: Any, **__: Any) -> Any:
            raise error

        broken.log.read_slice = read
        got = await fetch(node, wanted(0), wanted(1))
        assert [(data.error_code, size(data)) for data in got] == [(ErrorCode.KAFKA_STORAGE_ERROR, 0), (0, batch)]
        (line,) = [record for record in caplog.records if record.name == names]
        assert line.exc_info is None
        if names == "tallystick.fetch":
            assert vars(line)["fields"] == {"topic": "t", "partition": 0, "reason": error}

    in_a_node(story, tmp_path)


def test_an_error_is_answered_at_once(tmp_path: Any) -> None:
    """Whatever else is waited for: its client has something to do about it."""

    async def story(node: Services) -> None:
        append(partitions_of(node)[0], 3)
        hour_ms = 3_600_000

        async def answered(*one: FetchPartition) -> list[tuple[int, int]]:
            got = await fetch(node, *one, wait_ms=hour_ms, min_bytes=LARGE)
            return [(data.partition_index, data.error_code) for data in got]

        assert await answered(wanted(0), wanted(1, 1)) == [(0, 0), (1, ErrorCode.OFFSET_OUT_OF_RANGE)]
        assert await answered(wanted(0), wanted(9)) == [(0, 0), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        ahead = wanted(1, current_leader_epoch=99)
        assert await answered(wanted(0), ahead) == [(0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]

    in_a_node(story, tmp_path)


def count_turns() -> list[int]:
    """Grows by one each turn of the loop."""
    turns: list[int] = []

    def next_turn() -> None:
        turns.append(len(turns))
        asyncio.get_running_loop().call_soon(next_turn)

    next_turn()
    return turns


def slices_of_work(node: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WorkClock()
    monkeypatch.setattr(type(node.environment), "time_slice", lambda self: TimeSlice(clock.now))


def test_many_partitions_take_many_turns(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        slices_of_work(node, monkeypatch)
        batch = append(partitions_of(node)[1])
        turns = count_turns()
        got = await fetch(node, *(wanted(index) for index in range(5000)))
        assert len(turns) > 3 * 5000 // 30
        assert [data.partition_index for data in got] == list(range(5000))
        assert size(got[1]) == batch
        assert all(data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for data in got[2:])

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(
    ("named", "forgotten", "many"),
    [
        ([AT_ONCE - 1], [], False),
        ([AT_ONCE], [], True),
        ([200, AT_ONCE - 202], [], False),
        ([200, AT_ONCE - 201], [], True),
        ([1], [AT_ONCE - 3], False),
        ([1], [AT_ONCE - 2], True),
        ([1], [200, AT_ONCE - 204], False),
        ([1], [200, AT_ONCE - 203], True),
    ],
)
def test_only_a_fetch_that_names_many_takes_turns(
    named: list[int], forgotten: list[int], many: bool, tmp_path: Any
) -> None:
    """Topics count, too."""

    async def story(node: Services) -> None:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", partitions=[wanted(index) for index in range(count)]) for count in named],
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(range(count))) for count in forgotten],
        )
        info = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)
        answer = load_handlers()[1].handler(node, RequestContext(info, 1, 12, 1, "test"), request)
        assert isinstance(answer, asyncio.Future) == many
        response = await answer if isinstance(answer, asyncio.Future) else answer
        assert isinstance(response, FetchResponse) and response.error_code == ErrorCode.NONE

    in_a_node(story, tmp_path)


def large_and_waiting(node: Services, count: int) -> "asyncio.Task[FetchResponse]":
    """All partitions there are, which are too many to be looked at in one turn."""
    request = FetchRequest(
        max_wait_ms=1_000_000,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic="large", partitions=[wanted(index) for index in range(count)])],
    )
    return asyncio.ensure_future(ask(node, request, 12))


@pytest.mark.parametrize("when", ["while it looks", "while it waits"])
def test_a_large_fetch_sees_what_moves(when: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 600

    async def story(node: Services) -> None:
        slices_of_work(node, monkeypatch)
        topic = await node.topics.auto_create_all(["large"])
        partitions = list(node.topics.by_name("large").partitions)  # type: ignore[union-attr]
        assert len(partitions) == count, topic
        waiting = large_and_waiting(node, count)
        if when == "while it looks":
            for _ in range(5):
                await asyncio.sleep(0)
            assert not len(node.waiting)
        else:
            while not len(node.waiting):
                await asyncio.sleep(0)
        batch = append(partitions[0])
        answer = await waiting
        assert size(answer.responses[0].partitions[0]) == batch
        assert not len(node.waiting)
        assert all(not partition._visibility._watchers for partition in partitions)

    in_a_node(story, tmp_path, num_partitions=str(count))


def test_a_large_fetch_ends_with_its_client(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 600

    async def story(node: Services) -> None:
        slices_of_work(node, monkeypatch)
        await node.topics.auto_create_all(["large"])
        waiting = large_and_waiting(node, count)
        while not len(node.waiting):
            await asyncio.sleep(0)
        waiting.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not len(node.waiting)

    in_a_node(story, tmp_path, num_partitions=str(count))


def test_a_large_fetch_leaves_no_session_of_a_client_that_is_gone(tmp_path: Any) -> None:
    """It may begin its work after the connection was lost."""

    async def story(node: Services) -> None:
        connection = ConnectionInfo(77, "PLAINTEXT", "127.0.0.1", 1)
        partitions = [wanted(index) for index in range(3000)]
        topics = [FetchTopic(topic="t", partitions=partitions)]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)
        answer = load_handlers()[1].handler(node, RequestContext(connection, 1, 12, 1, "test"), request)
        connection.is_lost = True
        node.fetch_sessions.connection_closed(77)
        await answer
        assert len(node.fetch_sessions) == 0

    in_a_node(story, tmp_path)


@pytest.mark.skipif(not CAN_SEND_FILES, reason="files are sent from where they lie on Linux only")
def test_what_is_large_stays_in_its_file_where_the_connection_sends_files(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        await node.topics.auto_create_all(["t"])
        records = memoryview(build_batch([NewRecord(value=b"v" * (100 << 10), timestamp_ms=1)]))
        partitions_of(node)[0].append(records, transactional_id=None, now_ms=1)
        flush = partitions_of(node)[0].log.begin_flush()
        flush.run()
        partitions_of(node)[0].log.finish_flush(flush)
        partitions_of(node)[0].committed_moved()
        topics = [FetchTopic(topic="t", partitions=[wanted(0)])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=LARGE, session_epoch=-1, topics=topics)
        entry = load_handlers()[1]
        for sends_files in (True, False):
            info = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, sends_files=sends_files)
            answer = entry.handler(node, RequestContext(info, 1, 12, 1, "test"), request)
            answer = await answer if hasattr(answer, "__await__") else answer
            pieces = answer.responses[0].partitions[0].records
            assert sum(map(len, pieces)) == len(records)
            assert [isinstance(piece, FileRegion) for piece in pieces] == [sends_files]
            for piece in pieces:
                if isinstance(piece, FileRegion):
                    piece.close()

    with_node(story, folder=tmp_path)

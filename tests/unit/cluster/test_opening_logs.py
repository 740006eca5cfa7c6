"""While the logs of a start are being opened: the loop reads nothing of them, and what befalls them meanwhile."""

import asyncio
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import broker.coordination.opening_logs
import broker.disk.descriptor_cache
from broker.api.services import Services
from broker.coordination.opening_logs import LogsToOpen
from broker.disk.descriptor_cache import LocalFile
from broker.partitions.errors import AppendError
from broker.partitions.log_opening import PartitionOpener
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import DeleteTopicState
from protocol.messages.transactions import DescribeProducersRequest, TopicRequest
from protocol.records.record import NewRecord, build_batch
from storage.checkpoints import CLEAN_SHUTDOWN, PARTITION_METADATA
from storage.data_folder import DataFolder
from storage.log import StorageFailed
from tests.harness.open_files import open_below
from tests.unit.cluster.cluster_rig import handle, topic, with_node

PAGE_CACHE = {"tallystick.durability": "page-cache"}
PATIENCE_S = 20


def batch(sequence: int = 0) -> bytes:
    return build_batch([NewRecord(value=b"v", timestamp_ms=1)], producer_id=7, producer_epoch=0, base_sequence=sequence)


def filled(folder: Path, *, partitions: int = 1, batches: int = 1) -> None:
    """A node makes the topic `t`, writes into each partition, and stops."""

    async def story(node: Services) -> None:
        await node.topics.create([topic("t", partitions)])
        for index in range(partitions):
            for sequence in range(batches):
                node.topics.partition("t", index).append(  # type: ignore[union-attr]
                    memoryview(batch(sequence)), transactional_id=None, now_ms=node.environment.wall_ms()
                )

    with_node(story, folder=folder, settings=PAGE_CACHE)


def started(folder: Path, story: Callable[[Services], Any], **settings: str) -> Any:
    """A story of a node whose logs are not open yet."""
    return with_node(story, folder=folder, settings=PAGE_CACHE | settings, opened=False)


class Gate:
    """Threads that open a log of the topic `t` wait here, before they do it, or `after`."""

    def __init__(self) -> None:
        self.is_shut = self.after = False
        self.failure: Exception | None = None
        self.is_met = threading.Event()
        self.is_open = threading.Event()

    def around(self, open_one: Any) -> Any:
        def guarded(opener: PartitionOpener, topic: Any, *rest: Any) -> Partition:
            if topic.name != "t" or not self.is_shut:
                return open_one(opener, topic, *rest)  # type: ignore[no-any-return]
            opened = open_one(opener, topic, *rest) if self.after else None
            self.is_met.set()
            assert self.is_open.wait(PATIENCE_S)
            if self.failure is not None:
                raise self.failure
            return opened or open_one(opener, topic, *rest)

        return guarded

    async def wait_until_met(self) -> None:
        while not self.is_met.is_set():
            await asyncio.sleep(0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(PartitionOpener, "__call__", gate.around(PartitionOpener.__call__))
    yield gate
    gate.is_open.set()


def test_the_loop_reads_nothing_of_the_logs_that_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of a log lies behind its last snapshot of producers, it costs the loop no turn."""
    filled(tmp_path, partitions=20, batches=50)
    for snapshot in [*tmp_path.glob("t-*/*.snapshot"), *tmp_path.glob("t-*/leader-epoch-checkpoint")]:
        snapshot.unlink()
    reads = {"loop": 0, "beside": 0}

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def pread(self, descriptor: int, size: int, position: int) -> bytes:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.parent.name.startswith("t-") and path.name != PARTITION_METADATA:  # these are read before all else
                reads["loop" if threading.current_thread() is threading.main_thread() else "beside"] += 1
            return os.pread(descriptor, size, position)

    async def story(node: Services) -> None:
        await node.topics.wait_until_open()
        partition = node.topics.partition("t", 19)
        assert partition is not None and partition.end_offset == 50
        assert partition.derived.producers.next_sequence(7) == 50, "what no snapshot tells was made anew"
        assert reads["loop"] == 0 and reads["beside"] >= 20 * 3

    monkeypatch.setattr(broker.disk.descriptor_cache, "os", Counted())
    started(tmp_path, story)


REQUESTS = [
    (
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=memoryview(batch(1)))])
            ],
        ),
        9,
        lambda answer: answer.responses[0].partition_responses[0].error_code,
    ),
    (
        FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=99)])
            ],
        ),
        11,
        lambda answer: answer.responses[0].partitions[0].error_code,
    ),
    (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        ),
        5,
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
    (
        OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
            ],
        ),
        4,
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
    (
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=1000,
        ),
        2,
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
    (
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]),
        0,
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
]


@pytest.mark.parametrize(("request_", "version", "error_of"), REQUESTS, ids=[type(one[0]).__name__ for one in REQUESTS])
def test_requests_for_an_opening_log_wait_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate, request_: Any, version: int, error_of: Any
) -> None:
    """And is then refused with what clients repeat, as Kafka does with a partition it does not have yet."""
    filled(tmp_path)
    gate.is_shut = True

    async def story(node: Services) -> None:
        await gate.wait_until_met()
        monkeypatch.setattr(broker.coordination.opening_logs, "MOMENT_S", 0.0)
        assert error_of(await handle(node, request_, version)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(AppendError, match="t-0 is still being opened"):
            node.topics.by_name("t").partitions[0].append(memoryview(batch(1)), transactional_id=None, now_ms=1)  # type: ignore[union-attr]
        monkeypatch.setattr(broker.coordination.opening_logs, "MOMENT_S", PATIENCE_S)
        waiting = asyncio.ensure_future(handle(node, request_, version))
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.is_open.set()
        answer = await waiting
        assert error_of(await answer.answer if hasattr(answer, "answer") else answer) == ErrorCode.NONE

    started(tmp_path, story)


@pytest.mark.parametrize("after", [False, True], ids=["before it is read", "when it is read"])
def test_a_topic_that_is_deleted_while_its_log_is_opened(tmp_path: Path, gate: Gate, after: bool) -> None:
    filled(tmp_path)
    gate.is_shut, gate.after = True, after

    async def story(node: Services) -> None:
        await gate.wait_until_met()
        opening = node.topics.by_name("t")
        deleting = asyncio.ensure_future(node.topics.delete([DeleteTopicState(name="t")]))
        while node.topics.by_name("t") is not None:
            await asyncio.sleep(0)
        assert not deleting.done() and (tmp_path / "t-0").exists(), "somebody uses its files"
        gate.is_open.set()
        (result,) = await deleting
        assert result.error_code == ErrorCode.NONE and not (tmp_path / "t-0").exists()
        assert opening is not None and opening.partitions.is_closed(0), "nobody ever sees it"
        await node.topics.create([topic("t", 1)])
        partition = node.topics.partition("t", 0)
        assert partition is not None and partition.end_offset == 0
        assert not [path for path in open_below(tmp_path) if "-delete" in path]

    started(tmp_path, story)


def test_a_configuration_that_changes_meanwhile_is_not_missed(tmp_path: Path, gate: Gate) -> None:
    filled(tmp_path)
    gate.after = gate.is_shut = True

    async def story(node: Services) -> None:
        await gate.wait_until_met()
        found = node.topics.by_name("t")
        assert found is not None
        found.configure(dataclasses.replace(found.config, max_message_bytes=77))
        gate.is_open.set()
        await node.topics.wait_until_open()
        assert found.partitions[0].config.max_message_bytes == 77

    started(tmp_path, story)


def test_a_log_whose_opening_fails_is_not_opened_again(tmp_path: Path, gate: Gate) -> None:
    """A sync that failed may have taken its pages for clean: a second look would find nothing wrong."""
    filled(tmp_path)
    gate.is_shut, gate.failure = True, StorageFailed("a sync")

    async def story(node: Services) -> None:
        await gate.wait_until_met()
        gate.is_open.set()
        for _ in range(2):
            with pytest.raises(StorageFailed):
                await node.topics.wait_until_open()
        found = node.topics.by_name("t")
        assert found is not None and found.partitions.is_closed(0)

    started(tmp_path, story)


def test_a_stop_does_not_wait_for_unopened_logs(tmp_path: Path) -> None:
    filled(tmp_path, partitions=100)

    async def stops(node: Services) -> None:
        found = node.topics.by_name("t")
        assert found is not None
        await asyncio.sleep(0)
        assert found.partitions.is_closed(99)

    started(tmp_path, stops)
    assert (tmp_path / CLEAN_SHUTDOWN).exists(), "nothing is to be recovered"

    async def after(node: Services) -> None:
        await node.topics.wait_until_open()
        assert all(node.topics.partition("t", index).end_offset == 1 for index in range(100))  # type: ignore[union-attr]

    started(tmp_path, after)


def test_a_stop_gives_up_a_log_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found as after a kill, and the next start looks as closely."""
    filled(tmp_path, batches=50)
    read, reading = LocalFile.read, threading.Event()

    def endless(file: LocalFile, position: int, size: int) -> bytes:
        while file.path.startswith("t-0") and file.path.endswith(".log"):
            reading.set()
            read(file, position, size)
        return read(file, position, size)

    async def stops(node: Services) -> None:
        while not reading.is_set():
            await asyncio.sleep(0)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFile, "read", endless)
        patched.setattr(broker.coordination.opening_logs, "LAST_MOMENT_S", 0.0)
        started(tmp_path, stops)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert not open_below(tmp_path), "nothing is left open"

    noted, recovered = threading.Event(), DataFolder.recovered

    def note(folder: DataFolder) -> None:
        recovered(folder)
        noted.set()

    async def after(node: Services) -> None:
        await node.topics.wait_until_open()
        partition = node.topics.partition("t", 0)
        assert partition is not None and partition.end_offset == 50
        assert partition.derived.producers.next_sequence(7) == 50
        while not noted.is_set():  # a stop before the node has seen that all are open leaves no mark
            await asyncio.sleep(0)

    monkeypatch.setattr(DataFolder, "recovered", note)
    started(tmp_path, after)
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("after", [False, True])
def test_late_writes_during_a_stop_are_synced_before_the_close(
    tmp_path: Path, gate: Gate, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the marker of a transaction does."""
    filled(tmp_path, batches=3)
    wait = LogsToOpen.wait_until_stopped

    async def let_go_and_wait(logs: LogsToOpen) -> None:
        asyncio.get_running_loop().call_soon(gate.is_open.set)
        await wait(logs)

    monkeypatch.setattr(LogsToOpen, "wait_until_stopped", let_go_and_wait)
    gate.is_shut, gate.after = True, after

    async def stops(node: Services) -> None:
        found = node.topics.by_name("t")
        assert found is not None

        def write() -> None:
            found.partitions[0].append(memoryview(batch(3)), transactional_id=None, now_ms=node.environment.wall_ms())

        node.topics.to_open.after_opening(found, 0, write)
        await gate.wait_until_met()

    with_node(stops, folder=tmp_path, settings={}, opened=False)

    async def later(node: Services) -> None:
        await node.topics.wait_until_open()
        assert node.topics.partition("t", 0).end_offset == 4  # type: ignore[union-attr]

    started(tmp_path, later)


def test_a_stop_follows_requests_waiting_for_a_just_opened_log(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opening is over, and its waiters are called in the next turn: the stop begins between the two."""
    filled(tmp_path)
    gate.is_shut = True
    order: list[str] = []
    stops: list[asyncio.Task[None]] = []
    publish = LogsToOpen._publish

    async def stop(logs: LogsToOpen) -> None:
        await logs.wait_until_stopped()
        order.append("stopped")

    def publish_and_stop(logs: LogsToOpen, *opened: Any) -> None:
        publish(logs, *opened)
        if gate.is_shut:
            stops.append(asyncio.get_running_loop().create_task(stop(logs)))

    async def story(node: Services) -> None:
        await gate.wait_until_met()
        monkeypatch.setattr(LogsToOpen, "_publish", publish_and_stop)
        topic = node.topics.by_name("t")
        assert topic is not None
        node.topics.to_open.after_opening(topic, 0, lambda: order.append("written"))
        gate.is_open.set()
        while not stops:
            await asyncio.sleep(0)
        await stops[0]
        assert order[:2] == ["written", "stopped"]

    started(tmp_path, story)

"""A node over a damaged log: that partition is offline, everything else is served, and nothing is lost silently."""

import asyncio
import errno
import logging

import pytest

from broker.coordination.coordinators import CoordinatorError
from broker.node import Node
from coordinator.runtime import ShardState
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.transactions import InitProducerIdRequest, ListTransactionsRequest
from protocol.records.record import NewRecord, build_batch
from storage.checkpoints import CLEAN_SHUTDOWN, UnreadableDataFolder
from storage.files import File
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_restarts import append, life, opened
from tests.unit.cluster.cluster_rig import handle

SEGMENT = "00000000000000000000.log"


async def fill(node: Node, topic: str = "t", count: int = 3) -> None:
    partition = await opened(node, topic)
    for number in range(count):
        await (append(partition, b"value %d" % number) or asyncio.sleep(0))


def flip(files: SimulatedFiles, path: str, position: int) -> None:
    file = files.open(path)
    file.write_at(position, bytes([file.read(position, 1)[0] ^ 0x41]))


def contents(files: SimulatedFiles, folder: str) -> bytes:
    return files.open(f"{folder}/{SEGMENT}").read(0, 1 << 20)


async def fetched(node: Node, topic: str, offset: int = 0) -> tuple[int, int]:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    response = (await handle(node.services, request, 12)).responses[0].partitions[0]
    return response.error_code, len(response.records or b"")


async def produced(node: Node, topic: str) -> int:
    records = memoryview(build_batch([NewRecord(value=b"more", timestamp_ms=1)]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[data])
    answer = await handle(node.services, request, 12)
    return int(answer.responses[0].partition_responses[0].error_code)


async def listed(node: Node, topic: str) -> int:
    topics = [ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
    answer = await handle(node.services, ListOffsetsRequest(replica_id=-1, topics=topics), 5)
    return int(answer.topics[0].partitions[0].error_code)


async def deleted(node: Node, topic: str) -> int:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    answer = await handle(node.services, DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), 2)
    return int(answer.topics[0].partitions[0].error_code)


async def everything_is_refused(node: Node) -> None:
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    while "t" not in node.services.topics._by_name:
        await asyncio.sleep(0)
    assert await fetched(node, "t") == (refused, 0)
    assert [await call(node, "t") for call in (produced, listed, deleted)] == [refused] * 3
    assert (await fetched(node, "other"))[0] == 0
    assert [await call(node, "other") for call in (produced, listed)] == [0, 0]


async def two_topics(node: Node) -> None:
    await fill(node)
    await fill(node, "other")


@pytest.mark.parametrize("stop", [True, False])
def test_a_damaged_log_is_offline_and_all_else_is_served(stop: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever ends come between: neither a kill nor an orderly stop makes the damage be believed."""
    files = SimulatedFiles()
    life(files, two_topics)
    flip(files, f"t-0/{SEGMENT}", 70)
    before = contents(files, "t-0")
    for life_number in range(3):
        with caplog.at_level(logging.ERROR):
            caplog.clear()
            life(files, everything_is_refused, stop=stop, boot=f"{life_number}")
        named = [record for record in caplog.records if "is damaged at byte 0, offset 0" in record.getMessage()]
        assert len(named) == 1 and vars(named[0])["fields"] == {"repair": "tallystick serve --repair t-0"}
        assert contents(files, "t-0") == before
        files = files.kill()


@pytest.mark.parametrize("suffix", [".log", ".timeindex", ".txnindex"])
def test_a_log_that_cannot_be_opened_is_offline(
    suffix: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder or a dangling link in the place of a file: of this log alone, and only as long as it is there."""
    files = SimulatedFiles()
    life(files, two_topics)
    if suffix == ".txnindex":
        files.open("t-0/00000000000000000000.txnindex", create=True)
    opens = files.open

    def refuse(path: str, *, create: bool = False) -> File:
        if path.startswith("t-0/") and path.endswith(suffix):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return opens(path, create=create)

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(files, "open", refuse)
        life(files, everything_is_refused)
    (named,) = [record.getMessage() for record in caplog.records]
    assert named == "a partition cannot be opened" or "a file cannot be read" in named

    async def is_whole_again(node: Node) -> None:
        assert (await opened(node)).end_offset == 3

    life(files, is_whole_again)


def test_a_repair_cuts_at_the_damage_and_serves_the_rest() -> None:
    files = SimulatedFiles()
    life(files, two_topics)
    size = len(contents(files, "t-0")) // 3
    flip(files, f"t-0/{SEGMENT}", size + 70)

    async def is_whole_again(node: Node) -> None:
        partition = await opened(node)
        assert (partition.offline, partition.end_offset, partition.high_watermark) == (None, 1, 1)
        assert await produced(node, "t") == 0

    life(files, is_whole_again, tallystick_repair="t-0")
    assert len(files.open(f"t-0/{SEGMENT}.damaged").read(0, 1 << 20)) == 2 * size

    async def goes_on(node: Node) -> None:
        assert (await opened(node)).end_offset == 2

    life(files, goes_on, boot="later")


async def checkpointed(node: Node) -> None:
    await node.services.checkpoints.write()


async def knows_two_topics(node: Node) -> None:
    assert {"t", "other"} <= set(node.services.topics._by_name)


@pytest.mark.parametrize("stop", [True, False])
def test_damaged_metadata_stops_the_start_and_changes_nothing(stop: bool) -> None:
    files = SimulatedFiles()
    life(files, two_topics)
    if not stop:
        life(files, checkpointed, stop=False)
    folder = "__cluster_metadata-0"
    size = len(contents(files, folder))
    whole = contents(files, folder)
    position = size // 2
    flip(files, f"{folder}/{SEGMENT}", position)
    damaged = contents(files, folder)
    for _ in range(2):
        with pytest.raises(UnreadableDataFolder, match=r"damaged at byte .* --repair __cluster_metadata-0"):
            life(files, knows_two_topics)
        assert contents(files, folder) == damaged
        assert files.exists(CLEAN_SHUTDOWN) == stop
        assert not [name for name in files.list("") if name.endswith("-stray")]
    file = files.open(f"{folder}/{SEGMENT}")
    file.write_at(0, whole)
    life(files, knows_two_topics)


def test_a_metadata_repair_reuses_no_epochs_or_producer_ids() -> None:
    files = SimulatedFiles()
    seen: list[tuple[int, int]] = []

    async def remember(node: Node) -> None:
        await fill(node)
        while (taken := node.services.producer_ids.take()) is None:
            await asyncio.sleep(0)
        seen.append((node.services.epoch, taken))

    for _ in range(3):
        life(files, remember)
    flip(files, f"__cluster_metadata-0/{SEGMENT}", 100)
    with pytest.raises(UnreadableDataFolder):
        life(files, remember)
    life(files, remember, tallystick_repair="__cluster_metadata-0")
    life(files, remember)
    assert [epoch for epoch, _ in seen] == [0, 1, 2, 3, 4]
    assert len({producer_id for _, producer_id in seen}) == 5
    assert any(name.endswith("-stray") for name in files.list(""))


async def committed(node: Node, group: str, offset: int) -> None:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
    answer = await handle(node.services, request, 8)
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("commits", [1, 200])
def test_a_damaged_shard_is_unowned_and_the_others_work(commits: int, caplog: pytest.LogCaptureFixture) -> None:
    """With many commits the tail is whole, and the damage is only met when the shard is loaded."""
    files = SimulatedFiles()

    async def commit(node: Node) -> None:
        await opened(node)
        await node.services.topics.ensure_internal("__consumer_offsets")
        for number in range(commits):
            for group in ("a", "b"):
                await committed(node, group, number)

    async def one_is_offline(node: Node) -> None:
        groups = node.services.groups
        damaged, whole = sorted(("a", "b"), key=groups.partition_for)
        assert (groups.partition_for(damaged), groups.partition_for(whole)) == (0, 1)
        while (shard := groups.shard_of(damaged)) is None or shard.state is ShardState.LOADING:
            await asyncio.sleep(0)
        with pytest.raises(CoordinatorError, match="NOT_COORDINATOR"):
            await groups.wait_until_ready(0)
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[damaged])
        found = (await handle(node.services, request, 4)).coordinators[0]
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await groups.wait_until_ready(1)
        await committed(node, whole, 7)
        listed = await handle(node.services, ListGroupsRequest(), 5)
        assert (listed.error_code, [one.group_id for one in listed.groups]) == (ErrorCode.NONE, [whole])

    life(files, commit)
    flip(files, f"__consumer_offsets-0/{SEGMENT}", 70)
    with caplog.at_level(logging.ERROR):
        life(files, one_is_offline)
    assert len([record for record in caplog.records if "__consumer_offsets-0/" in record.getMessage()]) == 1


def test_transactions_are_listed_without_those_of_a_damaged_log() -> None:
    """One damaged shard was the answer to all of the request: NOT_COORDINATOR, which operators' tools do not repeat."""
    files = SimulatedFiles()

    async def begin(node: Node) -> None:
        await node.services.topics.ensure_internal("__transaction_state")
        await node.services.transactions.wait_until_loaded()
        for name in ("a", "b"):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
            while (await handle(node.services, request, 4)).error_code:
                await asyncio.sleep(0)

    async def list_them(node: Node) -> None:
        transactions = node.services.transactions
        damaged, whole = sorted(("a", "b"), key=transactions.partition_for)
        while (shard := transactions.shard_of(damaged)) is None or shard.state is ShardState.LOADING:
            await asyncio.sleep(0)
        await transactions.wait_until_ready(1)
        listed = await handle(node.services, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1)
        found = [one.transactional_id for one in listed.transaction_states]
        assert (listed.error_code, found) == (ErrorCode.NONE, [whole])

    life(files, begin)
    flip(files, f"__transaction_state-0/{SEGMENT}", 70)
    life(files, list_them)


def test_a_folder_is_set_aside_when_the_name_is_taken() -> None:
    files = SimulatedFiles()
    for number in range(3):
        life(files, knows_nothing)
        files.make_folder("stranger-0")
        files.open(f"stranger-0/{SEGMENT}", create=True).append([b"%d" % number])
    life(files, knows_nothing)
    assert len([name for name in files.list("") if name.endswith("-stray")]) == 3


async def knows_nothing(node: Node) -> None:
    assert node.services.topics.by_name("stranger") is None

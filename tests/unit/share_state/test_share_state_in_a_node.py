"""The APIs of the share coordinator, asked of a whole node in memory."""

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

from broker.coordination.share_groups.upkeep import prune
from coordinator.share_state.port import PartitionState, Persister, StateBatch
from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.share.state import (
    DeletePartitionData,
    DeleteShareGroupStateRequest,
    DeleteStateData,
    InitializePartitionData,
    InitializeShareGroupStateRequest,
    InitializeStateData,
    ReadPartitionData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadStateData,
    ReadStateSummaryData,
    SummaryPartitionData,
    WritePartitionData,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from protocol.messages.share.state import StateBatch as WireBatch
from protocol.messages.topics import DeleteTopicState
from tests.unit.groups.wire import GROUP, Broker, run_story

FEW = {"share.coordinator.state.topic.num.partitions": "2"}


def initialize(topic_id: bytes, *partitions: int, group: str = GROUP) -> InitializeShareGroupStateRequest:
    data = [InitializePartitionData(partition=one, state_epoch=1, start_offset=5) for one in partitions]
    return InitializeShareGroupStateRequest(
        group_id=group, topics=[InitializeStateData(topic_id=topic_id, partitions=data)]
    )


def read(topic_id: bytes, *partitions: int) -> ReadShareGroupStateRequest:
    data = [ReadPartitionData(partition=one, leader_epoch=0) for one in partitions]
    return ReadShareGroupStateRequest(group_id=GROUP, topics=[ReadStateData(topic_id=topic_id, partitions=data)])


def write(topic_id: bytes, partition: int, state_epoch: int = 1) -> WriteShareGroupStateRequest:
    data = WritePartitionData(
        partition=partition,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=6,
        delivery_complete_count=1,
        state_batches=[WireBatch(first_offset=7, last_offset=7, delivery_state=2, delivery_count=1)],
    )
    return WriteShareGroupStateRequest(group_id=GROUP, topics=[WriteStateData(topic_id=topic_id, partitions=[data])])


def summary(topic_id: bytes, partition: int) -> ReadShareGroupStateSummaryRequest:
    data = [SummaryPartitionData(partition=partition, leader_epoch=0)]
    return ReadShareGroupStateSummaryRequest(
        group_id=GROUP, topics=[ReadStateSummaryData(topic_id=topic_id, partitions=data)]
    )


def delete(topic_id: bytes, partition: int) -> DeleteShareGroupStateRequest:
    data = [DeletePartitionData(partition=partition)]
    return DeleteShareGroupStateRequest(group_id=GROUP, topics=[DeleteStateData(topic_id=topic_id, partitions=data)])


async def found(broker: Broker, topic_id: bytes) -> None:
    """What every leader does first; that makes the topic. Before that there is no coordinator."""
    absent = (0, ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
    assert said(await broker.ask(initialize(topic_id, 0), 0)) == [absent]
    key = f"{GROUP}:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:0"
    answer = await broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
    assert answer.coordinators[0].error_code == ErrorCode.NONE


def said(answer: Any) -> list[tuple[int, int, str | None]]:
    return [(one.partition, one.error_code, one.error_message) for topic in answer.results for one in topic.partitions]


def test_who_serves_a_partition_asks_without_a_request(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await broker.topic("t")
        persister: Persister = broker.node.share_state
        await found(broker, topic_id)
        assert await persister.read_state(GROUP, topic_id, 0, 0) is ErrorCode.INVALID_REQUEST
        await broker.ask(initialize(topic_id, 0), 0)
        batch = StateBatch(5, 6, 2, 1)
        for epoch, error in ((0, ErrorCode.FENCED_STATE_EPOCH), (1, ErrorCode.NONE)):
            written = await persister.write_state(
                GROUP,
                topic_id,
                0,
                state_epoch=epoch,
                leader_epoch=0,
                start_offset=5,
                delivery_complete_count=2,
                batches=[batch],
            )
            assert written is error
        assert await persister.read_state(GROUP, topic_id, 0, 1) == PartitionState(1, 5, 2, (batch,))
        assert await persister.read_state(GROUP, topic_id, 0, 0) is ErrorCode.FENCED_LEADER_EPOCH

    run_story(story, tmp_path, FEW)


def test_each_partition_has_an_answer_of_its_own(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await broker.topic("t")
        await found(broker, topic_id)
        unknown = (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        assert said(await broker.ask(initialize(topic_id, 0, 9), 0)) == [(0, ErrorCode.NONE, None), unknown]
        fenced = "The share coordinator rejected the request because the share-group state epoch did not match."
        assert said(await broker.ask(write(topic_id, 0, 0), 1)) == [(0, ErrorCode.FENCED_STATE_EPOCH, fenced)]
        assert said(await broker.ask(write(topic_id, 0), 1)) == [(0, ErrorCode.NONE, None)]
        state = (await broker.ask(read(topic_id, 0), 0)).results[0].partitions[0]
        assert (state.state_epoch, state.start_offset) == (1, 6)
        assert state.state_batches == [WireBatch(first_offset=7, last_offset=7, delivery_state=2, delivery_count=1)]
        one = (await broker.ask(summary(topic_id, 0), 1)).results[0].partitions[0]
        assert (one.state_epoch, one.leader_epoch, one.start_offset, one.delivery_complete_count) == (1, 0, 6, 1)
        assert said(await broker.ask(summary(topic_id, 9), 1)) == [unknown]
        assert said(await broker.ask(delete(topic_id, 0), 0)) == [(0, ErrorCode.NONE, None)]
        gone = "Read operation on uninitialized share partition not allowed."
        assert said(await broker.ask(read(topic_id, 0), 0)) == [(0, ErrorCode.INVALID_REQUEST, gone)]
        assert (await broker.ask(initialize(topic_id, 0, group=""), 0)).results == []

    run_story(story, tmp_path, FEW)


def test_the_coordinator_of_a_share_partition_is_found_by_its_name(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = urlsafe_b64encode(b"t" * 16).decode().rstrip("=")
        fine = [f"{GROUP}:{topic_id}:0", f"a:b:{topic_id}:-1"]
        wrong = ["x", "a:b:c", f"{GROUP}:{topic_id}:x", f"{GROUP}:{topic_id}", f":{topic_id}:0", f"{topic_id}:0"]
        answer = await broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=fine + wrong), 6)
        found = {one.key: (one.error_code, one.node_id) for one in answer.coordinators}
        assert found == dict.fromkeys(fine, (ErrorCode.NONE, 1)) | dict.fromkeys(wrong, (ErrorCode.INVALID_REQUEST, -1))

    run_story(story, tmp_path, FEW)


def test_every_update_of_a_log_counts_when_it_is_loaded_again(tmp_path: Path) -> None:
    """A later one of the same key does not stand for those before it."""

    async def story(broker: Broker) -> None:
        topic_id, share_state = await broker.topic("t"), broker.node.share_state
        await found(broker, topic_id)
        await broker.ask(initialize(topic_id, 0), 0)
        batches = tuple(StateBatch(offset, offset, 2 * (offset % 2), 1) for offset in (5, 6, 7))
        for batch in batches:
            await share_state.write_state(
                GROUP,
                topic_id,
                0,
                state_epoch=1,
                leader_epoch=0,
                start_offset=5,
                delivery_complete_count=1,
                batches=[batch],
            )
        for shard in share_state.shards.all():
            shard.reload()
        await share_state.shards.wait_until_loaded()
        assert await share_state.read_state(GROUP, topic_id, 0, 0) == PartitionState(1, 5, 1, batches)

    run_story(story, tmp_path, FEW)


def test_what_is_not_needed_leaves_the_log(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await broker.topic("t")
        await found(broker, topic_id)
        for _ in range(5):
            assert said(await broker.ask(initialize(topic_id, 0), 0)) == [(0, ErrorCode.NONE, None)]
        shards = broker.node.share_state.shards
        await prune(shards)
        ((index, shard),) = [(one, shard) for one, shard in shards.indexed() if shard.log.end_offset]
        assert (shard.log.start_offset, shard.log.end_offset) == (4, 5)
        shard.reload()
        await shards.wait_until_loaded()
        assert said(await broker.ask(read(topic_id, 0), 0))[0][1] == ErrorCode.NONE
        await broker.node.topics.delete([DeleteTopicState(name="t")])
        while shards.partition(index).high_watermark == 5:
            await broker.node.environment.time_slice().wait_for_turn()
        assert shard.machine.ledger.kept == {}
        await prune(shards)
        assert shard.log.start_offset == shard.log.end_offset == 6

    run_story(story, tmp_path, FEW)

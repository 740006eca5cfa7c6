"""Requests of share groups with many elements, through the handlers of a node: others have their turn in between."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.share import acknowledge, fetch, offsets, state
from tests.harness.turns import CallsPerTurn, Turns
from tests.unit.groups.wire import GROUP, Broker, run_story

COUNT = 400
MOST_IN_A_TURN = 30
"""A slice of a test ends after some two dozen looks at the clock."""
HANDLERS = "broker.api.handlers.share"
SETTINGS = {"share.coordinator.state.topic.num.partitions": "2"}


def fetching(topic_id: bytes, epoch: int, count: int) -> fetch.ShareFetchRequest:
    partitions = [fetch.FetchPartition(partition_index=one, acknowledgement_batches=[]) for one in range(count)]
    return fetch.ShareFetchRequest(
        group_id=GROUP,
        member_id="ada",
        share_session_epoch=epoch,
        max_wait_ms=0,
        min_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[fetch.FetchTopic(topic_id=topic_id, partitions=partitions)],
        forgotten_topics_data=[],
    )


def acknowledging(topic_id: bytes, partitions: int, batches: int) -> acknowledge.ShareAcknowledgeRequest:
    said = [acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])] * batches
    of = [
        acknowledge.AcknowledgePartition(partition_index=one, acknowledgement_batches=said) for one in range(partitions)
    ]
    return acknowledge.ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id="ada",
        share_session_epoch=1,
        topics=[acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=of)],
    )


def altering(topics: int, partitions: int) -> offsets.AlterShareGroupOffsetsRequest:
    of = [offsets.AlterOffsetsPartition(partition_index=99, start_offset=0)] * partitions
    return offsets.AlterShareGroupOffsetsRequest(
        group_id=GROUP, topics=[offsets.AlterOffsetsTopic(topic_name="t", partitions=of)] * topics
    )


def writing(topic_id: bytes) -> state.WriteShareGroupStateRequest:
    batches = [
        state.StateBatch(first_offset=2 * one, last_offset=2 * one, delivery_state=2, delivery_count=1)
        for one in range(COUNT)
    ]
    one = state.WritePartitionData(partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=batches)
    return state.WriteShareGroupStateRequest(
        group_id=GROUP, topics=[state.WriteStateData(topic_id=topic_id, partitions=[one])]
    )


def describing(groups: int, topics: int) -> offsets.DescribeShareGroupOffsetsRequest:
    named = [offsets.DescribeOffsetsTopic(topic_name="", partitions=[])] * topics
    return offsets.DescribeShareGroupOffsetsRequest(
        groups=[offsets.DescribeOffsetsGroup(group_id=GROUP, topics=named)] * groups
    )


def deleting() -> offsets.DeleteShareGroupOffsetsRequest:
    topics = [offsets.DeleteOffsetsTopic(topic_name=f"n{one}") for one in range(COUNT)]
    return offsets.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics)


def reading(topic_id: bytes) -> state.ReadShareGroupStateRequest:
    one = state.ReadPartitionData(partition=0, leader_epoch=0)
    return state.ReadShareGroupStateRequest(
        group_id=GROUP, topics=[state.ReadStateData(topic_id=topic_id, partitions=[one])]
    )


LARGE: list[tuple[str, Callable[[bytes], Any], int]] = [
    ("fetch.PartitionData", lambda topic_id: fetching(topic_id, 1, COUNT + 1), 2),
    ("acknowledge.PartitionData", lambda topic_id: acknowledging(topic_id, COUNT, 1), 2),
    ("acknowledging.Acknowledgement", lambda topic_id: acknowledging(topic_id, 1, COUNT), 2),
    ("offsets.AlteredOffsetsPartition", lambda _: altering(1, COUNT), 0),
    ("offsets.AlteredOffsetsTopic", lambda _: altering(COUNT, 0), 0),
    ("offsets.DeletedOffsetsTopic", lambda _: deleting(), 0),
    ("offsets.DescribedOffsetsGroup", lambda _: describing(COUNT, 0), 1),
    ("offsets.DescribedOffsetsTopic", lambda _: describing(1, COUNT), 1),
    ("state.Batch", writing, 1),
    ("state.StateBatch", reading, 0),
]


@pytest.mark.parametrize(("made", "request_of", "version"), LARGE, ids=[one[0] for one in LARGE])
def test_others_have_their_turn_between_many_of_them(
    made: str, request_of: Callable[[bytes], Any], version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await begun(broker)
        Turns(broker.node.environment)
        module, _, name = made.partition(".")
        calls = CallsPerTurn(getattr(import_module(f"{HANDLERS}.{module}"), name))
        monkeypatch.setattr(f"{HANDLERS}.{made}", calls)
        await broker.ask(request_of(topic_id), version)
        assert calls.total >= COUNT
        assert calls.most <= MOST_IN_A_TURN

    run_story(story, tmp_path, SETTINGS)


async def begun(broker: Broker) -> bytes:
    """A group that is initialised in a topic, much kept of it, and with a session of a member."""
    topic_id = await broker.topic("t")
    await broker.found()
    await broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[f"{GROUP}:{'A' * 22}:0"]), 6)
    one = offsets.AlterOffsetsPartition(partition_index=0, start_offset=0)
    topics = [offsets.AlterOffsetsTopic(topic_name="t", partitions=[one])]
    await broker.ask(offsets.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0)
    answer = await broker.ask(writing(topic_id), 1)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
    assert (await broker.ask(fetching(topic_id, 0, 1), 2)).error_code == ErrorCode.NONE
    return topic_id


def test_a_topic_that_is_named_twice_has_all_its_partitions_set(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await begun(broker)
        of = [[offsets.AlterOffsetsPartition(partition_index=index, start_offset=index)] for index in (0, 1)]
        topics = [offsets.AlterOffsetsTopic(topic_name="t", partitions=one) for one in of]
        answer = await broker.ask(offsets.AlterShareGroupOffsetsRequest(group_id="other", topics=topics), 0)
        errors = [one.error_code for topic in answer.responses for one in topic.partitions]
        assert errors == [ErrorCode.NONE, ErrorCode.NONE]

    run_story(story, tmp_path, SETTINGS | {"num.partitions": "2"})

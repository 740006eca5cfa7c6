"""The APIs of consumer groups, asked of a whole node in memory."""

import asyncio
from pathlib import Path
from typing import Any

from broker.config.broker_config import BrokerConfig
from broker.coordination.consumer_groups.topics import FollowedTopics
from coordinator.groups.consumer.topics import NAMES_MOST, TopicFacts
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.groups import ListGroupsRequest
from tests.harness.turns import Turns
from tests.unit.groups.wire import GROUP, Broker, commit, partition_errors, run_story

AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}


async def beat(broker: Broker, epoch: int = 0, version: int = 1, **said: Any) -> ConsumerGroupHeartbeatResponse:
    joining = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    fields = {"group_id": GROUP, "member_id": "A", "member_epoch": epoch} | joining | said
    answer: ConsumerGroupHeartbeatResponse = await broker.ask(ConsumerGroupHeartbeatRequest(**fields), version)
    return answer


def given(answer: ConsumerGroupHeartbeatResponse) -> list[tuple[bytes, list[int]]]:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    assert answer.assignment is not None
    return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]


def test_a_member_comes_reads_and_goes(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await broker.topic("t")
        await broker.found()
        answer = await beat(broker, subscribed_topic_names=["t"])
        assert (answer.member_id, answer.member_epoch, given(answer)) == ("A", 2, [(topic_id, [0])])
        identity = {"member_id": "A", "generation_id_or_member_epoch": 2}
        assert partition_errors(await broker.ask(commit(5, **identity), 9)) == [ErrorCode.NONE]
        stale = identity | {"generation_id_or_member_epoch": 1}
        assert partition_errors(await broker.ask(commit(5, **stale), 9)) == [ErrorCode.STALE_MEMBER_EPOCH]
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        for epoch, error in ((2, ErrorCode.NONE), (1, ErrorCode.STALE_MEMBER_EPOCH)):
            group = OffsetFetchRequestGroup(group_id=GROUP, member_id="A", member_epoch=epoch, topics=topics)
            assert (await broker.ask(OffsetFetchRequest(groups=[group]), 9)).groups[0].error_code == error
        listed = await broker.ask(ListGroupsRequest(types_filter=["consumer"]), 5)
        assert [(one.group_id, one.group_type, one.group_state) for one in listed.groups] == [
            (GROUP, "consumer", "Stable")
        ]
        assert (await beat(broker, -1)).member_epoch == -1
        described = await broker.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
        assert described.groups[0].group_state == "Empty"

    run_story(story, tmp_path, AT_ONCE)


def test_an_old_client_is_given_its_member_id(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        first, second = [await beat(broker, version=0, member_id="", subscribed_topic_names=["t"]) for _ in range(2)]
        assert first.member_id and second.member_id and first.member_id != second.member_id
        assert (await beat(broker, member_id="", subscribed_topic_names=["t"])).error_code == ErrorCode.INVALID_REQUEST

    run_story(story, tmp_path, AT_ONCE)


def test_an_expression_is_resolved_beside_the_request(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await broker.topic("orders-1")
        await broker.topic("stock")
        await broker.found()
        answer = await beat(broker, subscribed_topic_regex="orders-.*")
        assert given(answer) == []
        while answer.assignment is None or not answer.assignment.topic_partitions:
            await asyncio.sleep(0)
            answer = await beat(broker, answer.member_epoch)
        assert given(answer) == [(topic_id, [0])]
        refused = await beat(broker, member_id="B", subscribed_topic_regex="(")
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    run_story(story, tmp_path, AT_ONCE)


def test_a_member_names_so_many_topics_and_no_more(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        names = [f"t{number}" for number in range(NAMES_MOST + 1)]
        refused = await beat(broker, subscribed_topic_names=names)
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "More than 10000 topics are named.",
        )
        assert (await beat(broker, subscribed_topic_names=names[:-1])).error_code == ErrorCode.NONE

    run_story(story, tmp_path, AT_ONCE)


def test_the_members_of_a_large_group_are_described_in_turns(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        for number in range(100):
            assert (await beat(broker, member_id=f"{number}", subscribed_topic_names=["t"])).error_code == 0
        turns = Turns(broker.node.environment)
        described = await broker.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
        assert [one.member_id for one in described.groups[0].members] == [f"{number}" for number in range(100)]
        assert turns.waited >= 3

    run_story(story, tmp_path, AT_ONCE)


def test_a_cluster_may_do_without_the_protocol(tmp_path: Path) -> None:
    """Features are finalised at a level; 0 of `group.version` switches it off."""

    async def story(broker: Broker) -> None:
        await broker.found()
        down = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        answer = await broker.ask(UpdateFeaturesRequest(feature_updates=[down]), 2)
        assert answer.error_code == ErrorCode.NONE
        refused = await beat(broker, subscribed_topic_names=["t"])
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await broker.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
        assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION

    run_story(story, tmp_path, AT_ONCE)


def test_topics_as_groups_see_them(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        config = BrokerConfig({"broker.rack": "left"})
        followed, bare = (FollowedTopics(broker.node.topics, one) for one in (config, BrokerConfig({})))
        assert followed.creations == 0
        topic_id = await broker.topic("t")
        assert (followed.creations, followed.revision) == (1, broker.node.topics.revision)
        await broker.topic("u")
        assert (followed.creations, followed.revision) == (2, broker.node.topics.revision)
        assert followed.offset == broker.node.topics.offset
        expected = TopicFacts("t", topic_id, 1, ("left",))
        assert followed.by_name("t") == followed.by_id(topic_id) == expected
        assert bare.by_name("t") == TopicFacts("t", topic_id, 1)
        assert followed.by_name("nothing") is followed.by_id(bytes(16)) is None

    run_story(story, tmp_path)

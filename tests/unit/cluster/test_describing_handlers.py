"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions: what clients read first, and trip over most."""

import asyncio
import tracemalloc

import pytest

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
    TopicRequest,
)
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from tests.unit.cluster.cluster_rig import handle, topic, with_node

NO_ID = bytes(16)


def test_every_handler_is_listed_with_its_versions() -> None:
    async def story(node: Services) -> None:
        answer = await handle(node, ApiVersionsRequest(), 0)
        listed = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        assert listed[18] == (0, 4) and listed[3] == (0, 13) and listed[19] == (2, 7)
        assert listed[0][0] == 0, "Produce lists 0, or librdkafka stops compressing (KAFKA-18659)"
        assert set(listed) == set(node.versions) and list(listed) == sorted(listed)

    with_node(story)


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        (3, {"metadata.version"}),
        (4, {"group.version", "metadata.version", "share.version", "streams.version", "transaction.version"}),
    ],
)
def test_features_from_level_0_are_hidden_from_older_clients(version: int, supported: set[str]) -> None:
    """KAFKA-17011; all of them get the finalised features, with an epoch."""

    async def story(node: Services) -> None:
        answer = await handle(
            node, ApiVersionsRequest(client_software_name="test", client_software_version="1.0"), version
        )
        assert {one.name for one in answer.supported_features} == supported
        assert {one.name: one.max_version_level for one in answer.finalized_features}["transaction.version"] == 2
        assert answer.finalized_features_epoch >= 0

    with_node(story)


def test_a_client_that_cannot_say_its_name_is_refused() -> None:
    async def story(node: Services) -> None:
        for name, version in (("", "1"), ("a b", "1"), ("ok", "1_"), ("-a", "1")):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
            answer = await handle(node, request, 4)
            assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
            assert (await handle(node, request, 2)).error_code == ErrorCode.NONE

    with_node(story)


def asking(*names: str | None, auto: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=auto)


def test_each_listener_advertises_its_own_address() -> None:
    async def story(node: Services) -> None:
        for listener, address in (("PLAINTEXT", ("127.0.0.1", 9092)), ("OUTSIDE", ("broker.example", 19092))):
            (broker,) = (await handle(node, asking(), 13, listener=listener)).brokers
            assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, *address, "r1")
            (broker,) = (await handle(node, DescribeClusterRequest(
                include_cluster_authorized_operations=False), 2, listener=listener)).brokers  # fmt: skip
            assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, *address, "r1")
        answer = await handle(node, asking(), 13)
        assert answer.controller_id == 1 and answer.cluster_id == node.cluster_id

    with_node(story, settings={"broker.rack": "r1"})


def test_null_means_all_topics_and_none_means_none() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("a"), topic("b")])
        assert [one.name for one in (await handle(node, MetadataRequest(topics=None), 13)).topics] == ["a", "b"]
        assert (await handle(node, MetadataRequest(topics=[]), 1)).topics == []
        assert [one.name for one in (await handle(node, MetadataRequest(topics=[]), 0)).topics] == ["a", "b"]

    with_node(story)


def test_a_missing_topic_is_created_and_ready_in_one_response() -> None:
    async def story(node: Services) -> None:
        (found,) = (await handle(node, asking("new"), 13)).topics
        assert (found.error_code, found.name, len(found.partitions)) == (ErrorCode.NONE, "new", 2)
        assert found.partitions[1].leader_id == 1 and found.partitions[1].leader_epoch == node.epoch
        (again,) = (await handle(node, asking("new"), 13)).topics
        assert again.topic_id == found.topic_id != NO_ID

    with_node(story)


def test_topics_are_not_created_when_auto_creation_is_off() -> None:
    async def story(node: Services) -> None:
        for request, version in ((asking("new", auto=False), 13), (asking("new", auto=False), 4)):
            (missing,) = (await handle(node, request, version)).topics
            assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (illegal,) = (await handle(node, asking("bad name"), 13)).topics
        assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert node.topics.all() == []

    async def switched_off(node: Services) -> None:
        (missing,) = (await handle(node, asking("new"), 13)).topics
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_node(story)
    with_node(switched_off, settings={"auto.create.topics.enable": "false"})


def test_topics_by_id_and_an_id_of_nobody_comes_back() -> None:
    async def story(node: Services) -> None:
        (made,) = await node.topics.create([topic("a")])
        stranger = b"nobody's" * 2
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(topic_id=made.topic_id, name=None),
                MetadataRequestTopic(topic_id=stranger, name=None),
            ]
        )
        found, missing = (await handle(node, request, 12)).topics
        assert (found.name, found.topic_id) == ("a", made.topic_id)
        assert (missing.error_code, missing.name, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, stranger)

    with_node(story)


def test_operations_are_returned_only_when_requested() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("a")])
        request = asking("a")
        (plain,) = (await handle(node, request, 13)).topics
        request.include_topic_authorized_operations = True
        (authorized,) = (await handle(node, request, 13)).topics
        assert (plain.topic_authorized_operations, authorized.topic_authorized_operations) == (-(1 << 31), 3576)
        cluster = await handle(node, DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert cluster.cluster_authorized_operations == 8096

    with_node(story)


def test_describe_cluster_serves_brokers_only() -> None:
    async def story(node: Services) -> None:
        for kind, error in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
            request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
            assert (await handle(node, request, 1)).error_code == error

    with_node(story)


def test_many_responses_at_once_hold_what_they_have_in_common_once() -> None:
    """Each took three hundred bytes for each partition: three gigabytes for a thousand clients of ten thousand."""

    async def story(node: Services) -> None:
        await node.topics.create([topic("t", 1000), topic("u", 1000)])
        await handle(node, MetadataRequest(topics=None), 12)
        tracemalloc.start()
        responses = await asyncio.gather(*(handle(node, MetadataRequest(topics=None), 12) for _ in range(20)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [sum(len(one.partitions) for one in response.topics) for response in responses] == [2000] * 20
        assert peak < 1_000_000

    with_node(story)


def test_a_topic_is_described_as_it_is_now() -> None:
    async def story(node: Services) -> None:
        async def described(name: str, *, operations: bool = False) -> MetadataResponseTopic:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], include_topic_authorized_operations=operations
            )
            found: MetadataResponseTopic = (await handle(node, request, 12)).topics[0]
            return found

        (made,) = await node.topics.create([topic("t", 1)])
        await node.topics.create([topic("u", 3)])
        first = await described("t")
        assert (first.topic_id, len(first.partitions), first.topic_authorized_operations) == (
            made.topic_id,
            1,
            -(1 << 31),
        )
        assert (await described("t", operations=True)).topic_authorized_operations == 3576
        await node.topics.grow([CreatePartitionsTopic(name="t", count=2, assignments=None)])
        assert [one.partition_index for one in (await described("t")).partitions] == [0, 1]
        assert [one.partition_index for one in (await described("u")).partitions] == [0, 1, 2]
        assert len(first.partitions) == 1, "a response that is being sent stays as it is"
        await node.topics.delete([DeleteTopicState(name="t")])
        (made,) = await node.topics.create([topic("t", 1)])
        again = await described("t")
        assert (again.topic_id, len(again.partitions)) == (made.topic_id, 1)
        (one,) = again.partitions
        assert (one.leader_id, one.leader_epoch, one.isr_nodes) == (node.node_id, node.epoch, [node.node_id])

    with_node(story)


def test_partitions_are_described_page_by_page() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("a", 3), topic("b", 2), topic("c", 1)])

        async def page(names: list[str], limit: int, cursor: tuple[str, int] | None) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:  # fmt: skip  # noqa: E501
            at = None if cursor is None else DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1])  # fmt: skip  # noqa: E501
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=at
            )
            answer = await handle(node, request, 0)
            described = [(one.name, [part.partition_index for part in one.partitions]) for one in answer.topics]
            following = answer.next_cursor
            return described, None if following is None else (following.topic_name, following.partition_index)

        assert await page([], 2, None) == ([("a", [0, 1])], ("a", 2))
        assert await page([], 2, ("a", 2)) == ([("a", [2]), ("b", [0])], ("b", 1))
        assert await page([], 2, ("b", 1)) == ([("b", [1]), ("c", [0])], None)
        assert await page([], 3, None) == ([("a", [0, 1, 2])], ("b", 0))
        assert await page(["c", "nope", "a"], 9, None) == ([("a", [0, 1, 2]), ("c", [0]), ("nope", [])], None)
        assert await page(["a"], 0, None) == ([("a", [0])], ("a", 1))
        assert await page(["a", "b"], 9, ("aa", 0)) == ([("a", []), ("b", [])], None), (
            "the cursor is of no topic asked for"
        )
        assert await page([], 9, ("aa", 1)) == ([("b", [0, 1]), ("c", [0])], None)

    with_node(story)

"""A member of several partitions: which of them it is handed records of, and how many."""

from types import SimpleNamespace
from typing import Any

from broker.api.handlers.share.acknowledge import share_acknowledge
from broker.config.listeners import Endpoint
from protocol.errors import ErrorCode
from protocol.messages.share.acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.messages.share.fetch import FetchPartition, FetchTopic
from tests.harness.owned import may_be_behind
from tests.unit.share_groups.rig import ACCEPT, GROUP, Member, ShareNode, in_a_share_node
from tests.unit.transactions.node_rig import partitions_of

VALUE = b"v" * 1_000


async def begun(node: ShareNode) -> Member:
    """A member of both partitions of the topic, each of which has two batches of one record."""
    ada = Member(node, "ada")
    partitions = [FetchPartition(partition_index=index, acknowledgement_batches=[]) for index in (0, 1)]
    await ada.request(topics=[FetchTopic(topic_id=node.partition.topic_id, partitions=partitions)])
    await node.quiet()
    for index in (0, 1):
        node.append(1, 1, value=VALUE, index=index)
    return ada


async def handed(member: Member, **fields: Any) -> dict[int, tuple[int, int]]:
    """Partition → first and last offset of what it is handed."""
    answer = await member.request(**fields)
    assert answer.error_code == ErrorCode.NONE
    partitions = [one for topic in answer.responses for one in topic.partitions if one.acquired_records]
    return {
        one.partition_index: (one.acquired_records[0].first_offset, one.acquired_records[-1].last_offset)
        for one in partitions
    }


def test_another_partition_comes_first_each_time(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = await begun(node)
        first, second = [await handed(ada, max_records=1, batch_size=1) for _ in range(2)]
        assert sorted([*first, *second]) == [0, 1]
        assert [*first.values(), *second.values()] == [(0, 0), (0, 0)]

    in_a_share_node(story, tmp_path)


def test_a_limit_of_records_is_for_all_partitions_together(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = await begun(node)
        found = await handed(ada, max_records=3, share_acquire_mode=1)
        assert sum(last - first + 1 for first, last in found.values()) == 3

    in_a_share_node(story, tmp_path)


def test_a_batch_that_is_larger_than_what_is_wanted_comes_alone(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = await begun(node)
        for size_bytes in (1, len(VALUE) + len(VALUE) // 2):
            ((first, last),) = (await handed(ada, max_bytes=size_bytes)).values()
            assert first == last

    in_a_share_node(story, tmp_path)


def test_state_is_written_with_the_epoch_that_was_read(tmp_path: Any) -> None:
    """An older one would be fenced."""

    async def story(node: ShareNode) -> None:
        node.persister.epoch = 7
        ada = await begun(node)
        await handed(ada)
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.NONE
        node.persister.epoch = 8
        node.append(1)
        await handed(ada)
        assert await ada.say((2, 2, ACCEPT)) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    in_a_share_node(story, tmp_path)


def test_a_member_is_told_of_each_partition_who_leads_it_now(tmp_path: Any) -> None:
    """Partition 0 is led by node 5, partition 1 by node 6; nobody reaches node 5 when records are asked for."""

    async def story(node: ShareNode) -> None:
        ada = await begun(node)
        await handed(ada)
        reached = {6: Endpoint("PLAINTEXT", "six", 9096)}
        nodes = SimpleNamespace(
            node_id=1, leader=lambda _, index: (5 + index, 70 + index), reach=lambda one, _: reached.get(one)
        )
        node.nodes = nodes
        for partition in partitions_of(node):  # type: ignore[arg-type]
            may_be_behind(partition)
        fetched = await ada.request()
        reached[5] = Endpoint("PLAINTEXT", "five", 9095)
        acknowledged = await share_acknowledge(node, ada.context(79, 2), all_of(node, ada))
        for answer, names in ((fetched, [(6, "six", 9096)]), (acknowledged, [(5, "five", 9095), (6, "six", 9096)])):
            told = [one for topic in answer.responses for one in topic.partitions]
            assert [
                (one.partition_index, one.error_code, one.current_leader.leader_id, one.current_leader.leader_epoch)
                for one in sorted(told, key=lambda one: one.partition_index)
            ] == [(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, 5 + index, 70 + index) for index in (0, 1)]
            assert [(one.node_id, one.host, one.port) for one in answer.node_endpoints] == names

    in_a_share_node(story, tmp_path)


def all_of(node: ShareNode, member: Member) -> ShareAcknowledgeRequest:
    """It accepts the first record of both partitions."""
    batches = [AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=ACCEPT)]
    partitions = [AcknowledgePartition(partition_index=index, acknowledgement_batches=batches) for index in (0, 1)]
    topics = [AcknowledgeTopic(topic_id=node.partition.topic_id, partitions=partitions)]
    return ShareAcknowledgeRequest(
        group_id=GROUP, member_id=member.name, share_session_epoch=member.epoch, topics=topics
    )

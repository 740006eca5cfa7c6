"""The log of decisions: each right that was asked for by name and denied is in it, and nothing that was only left out
of an answer."""

import logging
from typing import Any

import pytest

from broker.api.services import Services
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from protocol.messages.offsets import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from tests.unit.cluster.cluster_rig import topic
from tests.unit.security.door_rig import ALICE, allow, ask, behind_the_door, grant

TOPIC, GROUP, ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
OF_TOPIC, OF_CLUSTER = "TOPIC:t", "CLUSTER:kafka-cluster"
NAMED = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
ASKED: list[tuple[str, Any, int, list[tuple[str, str]]]] = [
    (
        "epochs",
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t",
                    partitions=[OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)],
                )
            ]
        ),
        4,
        [("DESCRIBE", OF_TOPIC)],
    ),
    ("groups", ListGroupsRequest(), 4, []),
    ("offsets of topics", OffsetFetchRequest(group_id="g", topics=NAMED), 5, [("DESCRIBE", OF_TOPIC)]),
    ("offsets of all topics", OffsetFetchRequest(group_id="g", topics=None), 5, []),
    (
        "offsets of topics of groups",
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
                )
            ]
        ),
        8,
        [("DESCRIBE", OF_TOPIC)],
    ),
    (
        "offsets of all topics of groups",
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
        8,
        [],
    ),
    ("topics", MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12, [("DESCRIBE", OF_TOPIC)]),
    ("all topics", MetadataRequest(topics=None), 12, []),
    (
        "a topic that is made by name",
        MetadataRequest(topics=[MetadataRequestTopic(name="d")]),
        9,
        [("CREATE", "TOPIC:d")],
    ),
    (
        "partitions",
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
        0,
        [("DESCRIBE", OF_TOPIC)],
    ),
    ("all partitions", DescribeTopicPartitionsRequest(topics=[]), 0, []),
    (
        "the cluster",
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        1,
        [("DESCRIBE", OF_CLUSTER)],
    ),
    ("making", CreateTopicsRequest(topics=[topic("n", 1)]), 7, [("CREATE", "TOPIC:n")]),
    ("making without seeing how", CreateTopicsRequest(topics=[topic("c", 1)]), 7, []),
    (
        "deleting",
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1),
        6,
        [("DESCRIBE", OF_TOPIC)],
    ),
    ("markers", WriteTxnMarkersRequest(markers=[]), 1, [("CLUSTER_ACTION", OF_CLUSTER)]),
    ("a producer", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4, []),
    ("transactions", DescribeTransactionsRequest(transactional_ids=["x"]), 0, []),
    ("all transactions", ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0, []),
]


async def begin(node: Services) -> None:
    """A topic, two groups that read it, and two transactional ids."""
    assert not (await ask(node, CreateTopicsRequest(topics=[topic("t", 1)]), 7)).topics[0].error_code
    for key_type in (0, 1):
        await ask(node, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]), 4)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=None)]
    for group in ("g", "h"):
        offsets = [OffsetCommitRequestTopic(name="t", partitions=list(partitions))]
        answer = await ask(node, OffsetCommitRequest(group_id=group, member_id="", topics=offsets), 7)
        assert not answer.topics[0].partitions[0].error_code
    for name in ("x", "y"):
        made = await ask(node, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        assert not made.error_code
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        (result,) = (await ask(node, added, 3)).results_by_topic_v3_and_below
        assert not result.results_by_partition[0].partition_error_code
    await grant(
        node,
        allow(Operation.DESCRIBE, GROUP, "g"),
        allow(Operation.DESCRIBE, ID, "x"),
        allow(Operation.CREATE, TOPIC, "c"),
        allow(Operation.DESCRIBE, TOPIC, "d"),
    )


def test_what_is_denied_is_told_where_it_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    told: dict[str, list[tuple[str, str]]] = {}

    async def story(node: Services) -> None:
        await begin(node)
        for name, request, version, _ in ASKED:
            caplog.clear()
            await ask(node, request, version, ALICE)
            fields = [one.__dict__["fields"] for one in caplog.records if one.name == "tallystick.authorizer"]
            told[name] = [(one["operation"], one["resource"]) for one in fields]

    with caplog.at_level(logging.INFO, "tallystick.authorizer"):
        behind_the_door(story)
    assert told == {name: denied for name, _, _, denied in ASKED}


def test_what_is_left_out_is_not_in_the_answer() -> None:
    async def story(node: Services) -> None:
        await begin(node)
        wanted = {name: (request, version) for name, request, version, _ in ASKED}

        async def answer(name: str) -> Any:
            return await ask(node, *wanted[name], ALICE)

        assert [one.group_id for one in (await answer("groups")).groups] == ["g"]
        assert (await answer("offsets of all topics")).topics == []
        assert (await answer("offsets of all topics of groups")).groups[0].topics == []
        assert (await answer("all topics")).topics == (await answer("all partitions")).topics == []
        assert (await answer("transactions")).transaction_states[0].topics == []
        states = (await answer("all transactions")).transaction_states
        assert [one.transactional_id for one in states] == ["x"]

    behind_the_door(story)


def test_operations_on_a_group_are_told_to_who_asks_for_them() -> None:
    async def story(node: Services) -> None:
        await begin(node)
        for wanted, told in ((True, 1 << Operation.DESCRIBE), (False, -(1 << 31))):
            request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=wanted)
            (found,) = (await ask(node, request, 5, ALICE)).groups
            assert (found.error_code, found.authorized_operations) == (ErrorCode.NONE, told)

    behind_the_door(story)


def test_a_topic_that_may_not_be_written_is_denied_whether_it_is_there_or_not() -> None:
    """Nobody finds out by a transaction what topics there are. None is added where one cannot be."""

    async def story(node: Services) -> None:
        await begin(node)
        await grant(node, allow(Operation.WRITE, ID, "x"), *(allow(Operation.WRITE, TOPIC, name) for name in "cm"))
        assert not (await ask(node, CreateTopicsRequest(topics=[topic("m", 1)]), 7)).topics[0].error_code
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=0,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "nowhere", "m", "c")
            ],
        )
        topics = (await ask(node, request, 3, ALICE)).results_by_topic_v3_and_below
        assert {one.name: one.results_by_partition[0].partition_error_code for one in topics} == {
            "t": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "nowhere": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "m": ErrorCode.OPERATION_NOT_ATTEMPTED,
            "c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    behind_the_door(story)

"""Answers to those who may not ask, and to those who ask for what they may do: every field."""

from typing import Any

import pytest

from broker.api.services import Services
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from protocol.messages.share.groups import ShareGroupDescribeRequest
from protocol.messages.streams.groups import StreamsGroupDescribeRequest
from protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from tests.unit.security.door_rig import ALICE, ROOT, allow, ask, behind_the_door, grant

NOT_SAID = -(1 << 31)
SENTENCES = {30: "Group authorization failed.", 53: "Transactional Id authorization failed."}


@pytest.mark.parametrize(("key_type", "error"), [(0, 30), (1, 53)])
def test_a_coordinator_that_may_not_be_found(key_type: int, error: int) -> None:
    async def story(node: Services) -> None:
        one = await ask(node, FindCoordinatorRequest(key="a", key_type=key_type), 3, ALICE)
        assert one == FindCoordinatorResponse(
            error_code=error, error_message=SENTENCES[error], node_id=-1, host="", port=-1
        )
        many = await ask(node, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"]), 4, ALICE)
        assert many == FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="") for key in "ab"
            ]
        )

    behind_the_door(story)


def test_a_topic_that_is_named_twice_is_that_for_everybody() -> None:
    async def story(node: Services) -> None:
        t, u = (CreatePartitionsTopic(name=name, count=2, assignments=None) for name in "tu")
        request = CreatePartitionsRequest(topics=[t, t, u], timeout_ms=1, validate_only=False)
        answer = await ask(node, request, 3, ALICE)
        assert [(one.name, one.error_code) for one in answer.results] == [("t", 42), ("u", 29)]

    behind_the_door(story)


@pytest.mark.parametrize(
    ("request_type", "version"),
    [(ConsumerGroupDescribeRequest, 1), (ShareGroupDescribeRequest, 1), (StreamsGroupDescribeRequest, 0)],
)
def test_of_a_group_that_is_not_there_nobody_is_told_what_he_may_do(request_type: Any, version: int) -> None:
    async def story(node: Services) -> None:
        await node.topics.ensure_internal("__consumer_offsets")
        await grant(node, allow(Operation.ALL, ResourceType.GROUP, "g"))
        request = request_type(group_ids=["g"], include_authorized_operations=True)
        (group,) = (await ask(node, request, version, ALICE)).groups
        assert (group.error_code, group.authorized_operations) == (ErrorCode.GROUP_ID_NOT_FOUND, NOT_SAID)

    behind_the_door(story)


@pytest.mark.parametrize(("who", "shown"), [(ROOT, {"a": 0, "b": 0}), (ALICE, {"a": 29, "b": 0})])
def test_topics_are_described_from_the_first_partition_of_the_cursor_on(who: str, shown: dict[str, int]) -> None:
    async def story(node: Services) -> None:
        for name in "ab":
            await node.topics.auto_create_all([name])
        await grant(node, allow(Operation.DESCRIBE, ResourceType.TOPIC, "b"))
        cursor = DescribeTopicPartitionsRequestCursor(topic_name="a", partition_index=0)
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in "ab"], cursor=cursor)
        answer = await ask(node, request, 0, who)
        assert {topic.name: topic.error_code for topic in answer.topics} == shown

    behind_the_door(story)


@pytest.mark.parametrize(
    ("listener", "who", "error", "time_ms"),
    [
        ("PLAINTEXT", "alice", 64, -1),
        ("INSIDE", "ANONYMOUS", 64, -1),
        ("INSIDE", "alice", 61, 0),
        ("OUTSIDE", "ANONYMOUS", 61, 0),
    ],
)
def test_a_token(listener: str, who: str, error: int, time_ms: int) -> None:
    async def story(node: Services) -> None:
        async def said(request: Any, version: int) -> Any:
            return await ask(node, request, version, f"User:{who}", listener=listener)

        def created(error: int, time_ms: int) -> CreateDelegationTokenResponse:
            return CreateDelegationTokenResponse(
                error_code=error,
                principal_type="User",
                principal_name=who,
                token_requester_principal_type="User",
                token_requester_principal_name=who,
                issue_timestamp_ms=time_ms,
                expiry_timestamp_ms=time_ms,
                max_timestamp_ms=time_ms,
            )

        making = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        assert await said(making, 3) == created(error, time_ms)
        odd = CreatableRenewers(principal_type="Group", principal_name="g")
        making = CreateDelegationTokenRequest(renewers=[odd], max_lifetime_ms=-1)
        assert await said(making, 3) == created(error if error == 64 else 67, -1)
        renewed = await said(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), 2)
        assert renewed == RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=time_ms)
        expired = await said(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), 2)
        assert expired == ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=time_ms)
        described = await said(DescribeDelegationTokenRequest(owners=None), 3)
        assert described == DescribeDelegationTokenResponse(error_code=error, tokens=[])

    behind_the_door(story)

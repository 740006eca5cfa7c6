"""Topics that are named by their id, or not at all, and by whom: what is told of them, and what is done."""

from typing import Any

import pytest

from broker.api.services import Services
from protocol.acls import CLUSTER_NAME, Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from tests.unit.cluster.cluster_rig import topic
from tests.unit.security.door_rig import ALICE, ROOT, allow, ask, behind_the_door, grant

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, DESCRIBE, DELETE = Operation.READ, Operation.DESCRIBE, Operation.DELETE
DENIED, GROUP_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NOBODYS = b"n" * 16


async def make(node: Services, *names: str) -> list[bytes]:
    """The ids of topics that are new."""
    made = (await ask(node, CreateTopicsRequest(topics=[topic(name, 1) for name in names]), 7)).topics
    assert not any(one.error_code for one in made)
    by_name = {one.name: one.topic_id for one in made}
    return [by_name[name] for name in names]


async def delete(node: Services, *entries: DeleteTopicState | str, who: str = ALICE) -> list[tuple[Any, ...]]:
    """By names alone in a version that knows no ids."""
    if all(isinstance(one, str) for one in entries):
        request, version = DeleteTopicsRequest(topic_names=list(entries), timeout_ms=1), 5  # type: ignore[arg-type]
    else:
        request, version = DeleteTopicsRequest(topics=list(entries), timeout_ms=1), 6  # type: ignore[arg-type]
    answer = await ask(node, request, version, who)
    return [(one.name, one.topic_id, one.error_code) for one in answer.responses]


def test_a_topic_is_deleted_by_who_may_describe_and_delete_it() -> None:
    async def story(node: Services) -> None:
        first, second, third = await make(node, "a", "b", "c")
        by_id = DeleteTopicState(topic_id=first)
        assert await delete(node, by_id) == [(None, first, DENIED)], "its name is told only to who may describe it"
        assert await delete(node, "a", "absent") == [("a", bytes(16), DENIED), ("absent", bytes(16), DENIED)]
        both = DeleteTopicState(name="a", topic_id=first)
        assert await delete(node, both) == [("a", first, ErrorCode.INVALID_REQUEST)]
        await grant(node, allow(DESCRIBE, TOPIC, "*"))
        assert await delete(node, by_id) == [("a", first, DENIED)]
        assert await delete(node, "a") == [("a", first, DENIED)]
        assert await delete(node, "absent") == [("absent", bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert len(node.topics.all()) == 3
        await grant(node, allow(DELETE, TOPIC, "*"))
        assert await delete(node, by_id, DeleteTopicState(name="b")) == [("a", first, 0), ("b", second, 0)]
        assert await delete(node, "c") == [("c", third, 0)]
        assert node.topics.all() == []

    behind_the_door(story)


def test_who_may_delete_all_of_the_cluster_needs_no_more() -> None:
    async def story(node: Services) -> None:
        (found,) = await make(node, "t")
        await grant(node, allow(DELETE, ResourceType.CLUSTER, CLUSTER_NAME))
        assert await delete(node, DeleteTopicState(topic_id=found)) == [("t", found, 0)]

    behind_the_door(story)


@pytest.mark.parametrize("who", [ALICE, ROOT])
def test_where_no_topic_can_be_deleted_everybody_is_told_that(who: str) -> None:
    async def story(node: Services) -> None:
        await make(node, "t")
        answers = await delete(node, "t", who=who)
        assert [error for _, _, error in answers] == [ErrorCode.TOPIC_DELETION_DISABLED]

    behind_the_door(story, settings={"delete.topic.enable": "false"})


def committed(*topics: OffsetCommitRequestTopic) -> OffsetCommitRequest:
    for one in topics:
        one.partitions = [
            OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata=None),
            OffsetCommitRequestPartition(partition_index=7, committed_offset=3, committed_metadata=None),
        ]
    return OffsetCommitRequest(group_id="g", member_id="", topics=list(topics))


async def commit(node: Services, *ids: bytes, who: str = ALICE) -> list[tuple[bytes, list[int]]]:
    request = committed(*(OffsetCommitRequestTopic(topic_id=one, partitions=[]) for one in ids))
    topics = (await ask(node, request, 10, who)).topics
    return [(one.topic_id, [partition.error_code for partition in one.partitions]) for one in topics]


def test_offsets_of_topics_named_by_id() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def story(node: Services) -> None:
        first, second = await make(node, "a", "b")
        await ask(node, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        nothing = [(one, [GROUP_DENIED] * 2) for one in (first, second, NOBODYS)]
        assert await commit(node, first, second, NOBODYS) == nothing
        await grant(node, allow(READ, GROUP, "g"), allow(READ, TOPIC, "b"))
        assert await commit(node, first, second, NOBODYS) == [
            (second, [0, unknown]),
            (NOBODYS, [ErrorCode.UNKNOWN_TOPIC_ID] * 2),
            (first, [DENIED] * 2),
        ]
        by_name = committed(*(OffsetCommitRequestTopic(name=one, partitions=[]) for one in "ab"))
        answer = await ask(node, by_name, 9, ALICE)
        assert [(one.name, one.partitions[0].error_code) for one in answer.topics] == [("b", 0), ("a", DENIED)]

    behind_the_door(story)


def test_before_the_group_had_an_error_its_topics_are_told_what_is_denied() -> None:
    async def story(node: Services) -> None:
        await make(node, "a")
        for version, topics, error in ((1, [("a", GROUP_DENIED)], 0), (2, [], 30)):
            wanted = [OffsetFetchRequestTopic(name="a", partition_indexes=[0])]
            answer = await ask(node, OffsetFetchRequest(group_id="g", topics=wanted), version, ALICE)
            assert [(one.name, one.partitions[0].error_code) for one in answer.topics] == topics
            assert [one.partitions[0].committed_offset for one in answer.topics] == [-1] * len(topics)
            assert version < 2 or answer.error_code == error == GROUP_DENIED

    behind_the_door(story)


def test_of_all_offsets_those_of_topics_are_told_that_may_be_described() -> None:
    """Also of a topic that was deleted a moment ago: its offsets go later."""

    async def story(node: Services) -> None:
        first, second = await make(node, "a", "b")
        await ask(node, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert {errors[0] for _, errors in await commit(node, first, second, who=ROOT)} == {0}
        await grant(node, allow(DESCRIBE, GROUP, "g"), allow(DESCRIBE, TOPIC, "b"))

        async def told(version: int) -> list[str]:
            groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
            request = (
                OffsetFetchRequest(groups=groups) if version > 7 else OffsetFetchRequest(group_id="g", topics=None)
            )
            answer = await ask(node, request, version, ALICE)
            return [one.name for one in (answer.groups[0].topics if version > 7 else answer.topics)]

        assert [await told(version) for version in (2, 7, 8, 9)] == [["b"]] * 4
        node.topics.by_id = lambda _: None  # type: ignore[method-assign]
        assert [await told(version) for version in (2, 7, 8, 9)] == [["b"]] * 4

    behind_the_door(story)

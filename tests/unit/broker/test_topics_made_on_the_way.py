"""Topics that are made for who asks for something else, while no more can be written: the answer does not wait for it,
for all that comes behind it on its connection would."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.api.services import Services
from broker.config.listeners import Endpoint
from broker.coordination import topics
from broker.coordination.across_nodes.nodes import OneNode
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.topics import TopicDirectory
from broker.partitions.topic import Topic
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST
from protocol.errors import ErrorCode
from protocol.internal_topics import SHARE_GROUP_STATE
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.transactions.node_rig import ask, in_a_node


class HeldCreations:
    """None is begun until the test lets it go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[list[str]] = []
        self._over = asyncio.Event()
        create = TopicDirectory.auto_create_all

        async def held(directory: TopicDirectory, names: Sequence[str]) -> dict[str, ErrorCode]:
            self.begun.append(list(names))
            await self._over.wait()
            return await create(directory, names)

        monkeypatch.setattr(TopicDirectory, "auto_create_all", held)
        monkeypatch.setattr(topics, "LONG_S", 0.01)

    def let_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(topics, "LONG_S", 60.0)
        self._over.set()


async def made(node: Services) -> ErrorCode:
    """As FindCoordinator asks for it; nobody has so far."""
    try:
        await node.topics.ensure_internal(SHARE_GROUP_STATE)
    except CoordinatorError as refused:
        return refused.error
    return ErrorCode.NONE


async def coordinator_of(node: Services, group: str) -> ErrorCode:
    """What a share group has of a partition is kept there."""
    key = f"{group}:AAAAAAAAAAAAAAAAAAAAAA:0"
    answer = await ask(node, FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
    return ErrorCode(answer.coordinators[0].error_code)


async def described(node: Services, *names: str) -> list[ErrorCode]:
    assert isinstance(node.nodes, OneNode)
    node.nodes.endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", "here", 1)}
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    return [ErrorCode(one.error_code) for one in (await ask(node, request, 12)).topics]


def test_a_coordinator_is_not_available_while_its_topic_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Services) -> None:
        held = HeldCreations(monkeypatch)
        asked = await asyncio.gather(*(coordinator_of(node, group) for group in "abc"))
        assert set(asked) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await coordinator_of(node, "a") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert held.begun == [[SHARE_GROUP_STATE]], "who comes later waits for what is under way"
        held.let_go(monkeypatch)
        assert await made(node) is ErrorCode.NONE
        assert len(held.begun) == 1

    in_a_node(story, tmp_path)


def test_nobody_waits_for_each_of_many_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of one topic: five seconds for each would be hours."""

    async def story(node: Services) -> None:
        HeldCreations(monkeypatch)
        asked: list[str] = []
        ensure = TopicDirectory.ensure_internal

        async def counted(directory: TopicDirectory, name: str) -> Topic:
            asked.append(name)
            return await ensure(directory, name)

        monkeypatch.setattr(TopicDirectory, "ensure_internal", counted)
        keys = [f"{number}:AAAAAAAAAAAAAAAAAAAAAA:0" for number in range(100)]
        answer = await ask(node, FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)
        assert {one.error_code for one in answer.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert len(answer.coordinators) == 100 and asked == [SHARE_GROUP_STATE]

    in_a_node(story, tmp_path)


def test_too_many_names_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        names = [f"t{number}" for number in range(MOST_RECORDS_PER_REQUEST + 1)]
        assert set((await node.topics.made_on_the_way(names)).values()) == {ErrorCode.POLICY_VIOLATION}
        assert not node.topics._on_the_way

    in_a_node(story, tmp_path)


def test_a_topic_has_no_leader_while_it_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        held = HeldCreations(monkeypatch)
        late = ErrorCode.LEADER_NOT_AVAILABLE
        assert await described(node, "a", "b") == [late, late]
        assert await described(node, "b", "c", "t") == [late, late, ErrorCode.NONE]
        assert held.begun == [["a", "b"], ["c"]]
        held.let_go(monkeypatch)
        assert await described(node, "a", "b", "c") == [ErrorCode.NONE] * 3
        assert len(held.begun) == 2

    in_a_node(story, tmp_path)


def test_a_coordinator_is_not_available_while_the_logs_of_its_topic_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Services) -> None:
        monkeypatch.setattr(topics, "LONG_S", 0.01)
        over = asyncio.Event()

        async def never(directory: TopicDirectory, topics: object = None) -> None:
            await over.wait()

        await node.topics.auto_create_all([SHARE_GROUP_STATE])
        monkeypatch.setattr(TopicDirectory, "wait_until_open", never)
        assert await made(node) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        over.set()
        assert await made(node) is ErrorCode.NONE

    in_a_node(story, tmp_path)

"""Share coordinators in other nodes: what they are asked, what together, and what comes of answers that do not come."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.coordination.across_nodes.peer_share_state import PeerShareState, ShareStateAt
from broker.coordination.across_nodes.share_state_requests import AT_ONCE
from broker.coordination.share_groups import state as keeping
from broker.coordination.share_groups.state import ShareShards, ShareStateKeeper
from broker.peers.port import PeerUnreachable
from coordinator.share_state.answers import DONE, Summary, Verdict
from coordinator.share_state.kept import ShareKey, Write
from coordinator.share_state.port import PartitionState, StateBatch
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode
from protocol.internal_topics import SHARE_GROUP_STATE
from protocol.messages.share.state import (
    DeletePartitionResult,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)
from tests.unit.groups.wire import GROUP, Broker, run_story

FEW = {"share.coordinator.state.topic.num.partitions": "2"}
HERE, THERE, NOBODY = 1, 2, -1
T, U = b"t" * 16, b"u" * 16
AWAY = Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)
Answering = Callable[[int, Any, int], Awaitable[Any]]


class World:
    """This node, and others that answer what `answering` does. Whatever is asked is written down."""

    def __init__(self, answering: Answering) -> None:
        self.node_id = HERE
        self.leader_of_state = self.leader_of_topic = THERE
        self.has_topic = True
        self.asked: list[tuple[int, Any, int]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._answering = answering
        itself = cast(Any, self)
        self.peers = PeerShareState(SimpleNamespace(node_id=HERE, leader=self._leads), itself, itself, self._own)

    def _own(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    def _leads(self, topic_id: bytes, index: int) -> tuple[int, int]:
        return self.leader_of_topic, 7

    def by_name(self, name: str) -> object:
        assert name == SHARE_GROUP_STATE
        return "there" if self.has_topic else None

    def leader(self, name: str, index: int) -> tuple[int, int]:
        assert (name, self.has_topic) == (SHARE_GROUP_STATE, True)
        return self.leader_of_state, 5

    async def ask(self, node_id: int, request: Any, version: int, response: type[Any]) -> Any:
        """As a connection does it, in bytes."""
        heard, _ = decode(type(request), version, encode_bytes(request, version))
        self.asked.append((node_id, heard, version))
        answer = await self._answering(node_id, heard, version)
        assert isinstance(answer, response)
        return decode(response, version, encode_bytes(answer, version))[0]

    @property
    def there(self) -> ShareStateAt:
        found = self.peers.at(0)
        assert found is not None
        return found


def every_question(there: ShareStateAt) -> list[Awaitable[Any]]:
    key = ShareKey(GROUP, T, 0)
    return [
        there.initialize(key, state_epoch=1, start_offset=5),
        there.read(key, 0),
        there.write(key, 1, Write(0, 5, 0, ())),
        there.summarize(key),
        there.delete(key),
    ]


def told(story: Callable[[World], Awaitable[None]], answering: Answering) -> None:
    async def run() -> None:
        await story(World(answering))

    asyncio.run(run())


async def unreachable(node_id: int, request: Any, version: int) -> Any:
    raise PeerUnreachable("nobody knows where it is")


def test_what_is_kept_there_is_begun_changed_read_and_forgotten(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        topic_id = await broker.topic("t")
        await broker.node.topics.ensure_internal(SHARE_GROUP_STATE)

        async def answering(node_id: int, request: Any, version: int) -> Any:
            assert node_id == THERE
            return await broker.ask(request, version)

        there, key = World(answering).there, ShareKey(GROUP, topic_id, 0)
        batches = (StateBatch(7, 8, 2, 1), StateBatch(9, 9, 0, 3))
        assert await there.initialize(key, state_epoch=3, start_offset=5) == DONE
        assert await there.write(key, 3, Write(4, 6, 2, batches)) == DONE
        assert await there.read(key, 4) == PartitionState(3, 6, -1, batches)
        assert await there.summarize(key) == Summary(3, 4, 6, 2)
        fenced = Verdict(
            ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
        )
        assert await there.read(key, 3) == await there.write(key, 3, Write(3, 6, 2, ())) == fenced
        assert await there.delete(key) == DONE
        read = await there.read(key, 4)
        assert isinstance(read, Verdict)
        assert read.error is ErrorCode.INVALID_REQUEST
        assert await there.read(ShareKey("", topic_id, 0), 4) == Verdict(ErrorCode.INVALID_REQUEST)

    run_story(story, tmp_path, FEW)


def test_a_node_that_cannot_be_asked_may_be_asked_again() -> None:
    async def story(world: World) -> None:
        assert await asyncio.gather(*every_question(world.there)) == [AWAY] * 5
        assert len(world.asked) == 5

    told(story, unreachable)


def test_a_node_that_does_not_let_this_one_ask_is_as_good_as_gone_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Members can do nothing about it. It may be that this node's principal is to become a super user."""

    async def answering(node_id: int, request: Any, version: int) -> Any:
        denied = DeletePartitionResult(
            partition=0, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed"
        )
        return DeleteShareGroupStateResponse(results=[DeleteStateResult(topic_id=T, partitions=[denied])])

    async def story(world: World) -> None:
        for _ in range(2):
            assert await world.there.delete(ShareKey("g", T, 0)) == AWAY

    told(story, answering)
    logged = [vars(one)["fields"] for one in caplog.records]
    assert logged == [{"node": THERE, "of": "DeleteShareGroupState"}]


def test_where_nobody_leads_nobody_is_asked() -> None:
    async def story(world: World) -> None:
        world.leader_of_state = NOBODY
        assert await asyncio.gather(*every_question(world.there)) == [AWAY] * 5
        assert world.asked == []

    told(story, unreachable)


def test_a_node_that_does_not_keep_it_any_more_is_as_good_as_gone(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        async def answering(node_id: int, request: Any, version: int) -> Any:
            return await broker.ask(request, version)  # there is no topic there

        assert await asyncio.gather(*every_question(World(answering).there)) == [AWAY] * 5

    run_story(story, tmp_path, FEW)


def test_this_node_and_no_topic_are_nobody_else() -> None:
    async def story(world: World) -> None:
        world.leader_of_state = HERE
        assert world.peers.at(0) is None
        world.leader_of_state, world.has_topic = THERE, False
        assert world.peers.at(0) is None

    told(story, unreachable)


def test_what_comes_meanwhile_goes_together() -> None:
    may_answer = asyncio.Event()

    async def answering(node_id: int, request: DeleteShareGroupStateRequest, version: int) -> Any:
        await may_answer.wait()
        raise PeerUnreachable("it is gone")

    async def story(world: World) -> None:
        keys = [ShareKey("g", T, 0), ShareKey("g", T, 1), ShareKey("h", T, 1), ShareKey("g", U, 1), ShareKey("g", T, 1)]
        asked = [asyncio.ensure_future(world.there.delete(key)) for key in keys[:1]]
        while not world.asked:
            await asyncio.sleep(0)
        asked += [asyncio.ensure_future(world.there.delete(key)) for key in keys[1:]]
        asked += [asyncio.ensure_future(world.there.delete(ShareKey("i", T, one))) for one in range(AT_ONCE + 1)]
        await asyncio.sleep(0)
        may_answer.set()
        assert await asyncio.gather(*asked) == [AWAY] * len(asked)
        await asyncio.gather(*world.tasks)
        requests = [
            (one.group_id, [(topic.topic_id, len(topic.partitions)) for topic in one.topics])
            for _, one, _ in world.asked
        ]
        assert requests == [
            ("g", [(T, 1)]),
            ("g", [(T, 1), (U, 1)]),
            ("h", [(T, 1)]),
            ("g", [(T, 1)]),
            ("i", [(T, AT_ONCE)]),
            ("i", [(T, 1)]),
        ]
        assert len(world.tasks) == 1
        await world.there.delete(keys[0])
        assert len(world.tasks) == 2

    told(story, answering)


def test_whoever_waits_is_told_when_the_node_ends() -> None:
    async def story(world: World) -> None:
        there = world.there
        asked = [asyncio.ensure_future(there.delete(ShareKey(group, T, 0))) for group in ("g", "h")]
        while not world.asked:
            await asyncio.sleep(0)
        world.tasks[0].cancel()
        assert await asyncio.gather(*asked) == [AWAY, AWAY]

    async def answering(node_id: int, request: Any, version: int) -> Any:
        await asyncio.Event().wait()

    told(story, answering)


# -- who asks ----------------------------------------------------------------------------------------------------------


def keeper(world: World, broker: Broker) -> ShareStateKeeper:
    shards: ShareShards = broker.node.share_state.shards
    return ShareStateKeeper(shards, world.peers)


def test_what_another_keeps_is_asked_there_and_the_rest_here(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        key = ShareKey(GROUP, await broker.topic("t"), 0)
        world = World(unreachable)
        world.has_topic = False
        node = keeper(world, broker)
        assert await node.read(key, 0) == Verdict(ErrorCode.NOT_COORDINATOR), "there is no topic"
        world.has_topic, world.leader_of_state = True, HERE
        assert await node.read(key, 0) == AWAY, "there is one, and this node has nothing of it yet"
        await broker.node.topics.ensure_internal(SHARE_GROUP_STATE)
        assert await node.initialize(key, state_epoch=1, start_offset=0) == DONE
        assert world.asked == []
        world.leader_of_state = THERE
        assert await node.read(key, 0) == AWAY
        assert len(world.asked) == 1
        assert await node.here.summarize(key) == Summary(1, 0, 0, 0)
        assert len(world.asked) == 1, "what is asked of this node is not passed on"
        alone = broker.node.share_state
        assert alone.here is alone

    run_story(story, tmp_path, FEW)


def test_who_does_not_ask_again_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "PAUSES_S", (0, 0))

    async def story(broker: Broker) -> None:
        key = ShareKey(GROUP, await broker.topic("t"), 0)
        await broker.node.topics.ensure_internal(SHARE_GROUP_STATE)
        left = 2

        async def answering(node_id: int, request: Any, version: int) -> Any:
            nonlocal left
            left -= 1
            return await (unreachable(node_id, request, version) if left >= 0 else broker.ask(request, version))

        world = World(answering)
        node = keeper(world, broker)
        assert await node.initialize(key, state_epoch=1, start_offset=3) == DONE
        left = 2
        assert await node.summarize(key) == Summary(1, 0, 3, 0)
        left = 2
        assert await node.delete(key) == DONE
        left = 3
        assert await node.delete(key) == AWAY
        left, world.asked = 1, []
        assert await node.read(key, 0) == AWAY
        assert len(world.asked) == 1, "who serves a share partition asks again by itself"

    run_story(story, tmp_path, FEW)

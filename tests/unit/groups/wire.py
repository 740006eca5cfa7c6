"""A whole node in memory without sockets, and a client that calls its handlers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.disk.local_files import LocalFiles
from broker.node import Node
from broker.process.environment import RealEnvironment, WallMs
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)
from protocol.schema import schema_of

GROUP = "orders"
NOBODY = b"x" * 16
ALL_GROUP_OPERATIONS = 3400
"""As Kafka 4.3 counts them: read, delete, describe, describe and alter configs."""


class SetClock(RealEnvironment):
    """The clocks of this machine, the wall clock `ahead_ms` from where it is."""

    ahead_ms = 0

    def wall_ms(self) -> WallMs:
        return WallMs(super().wall_ms() + self.ahead_ms)


class Broker:
    """A node in memory, and one client of it."""

    def __init__(self, node: Services, clock: SetClock) -> None:
        self.node = node
        self.clock = clock
        self.connection = ConnectionInfo(1, "PLAINTEXT", "10.0.0.7", 4711)

    async def ask(self, request: Any, version: int) -> Any:
        entry = load_handlers()[schema_of(type(request)).api_key]
        assert version in entry.versions
        context = RequestContext(self.connection, entry.api_key, version, 1, "client")
        answer = entry.handler(self.node, context, request)
        return await answer if isinstance(answer, Awaitable) else answer

    async def topic(self, name: str) -> bytes:
        await self.node.topics.auto_create_all([name])
        topic = self.node.topics.by_name(name)
        assert topic is not None
        return topic.topic_id

    async def found(self) -> None:
        """What every client does first."""
        for key_type in (0, 1):
            answer = await self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[GROUP]), 4)
            assert answer.coordinators[0].error_code == ErrorCode.NONE

    async def member(self) -> str:
        """A stable group of one."""
        member: str = (await self.ask(join(), 9)).member_id
        answer = await self.ask(join(member), 9)
        assert answer.generation_id == 1
        await self.ask(sync(member, 1), 5)
        return member


def join(member: str = "", *, group: str = GROUP, session_ms: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync(member: str, generation: int, *, protocol: str | None = "range", group: str = GROUP) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name=protocol,
        assignments=[],
    )


def commit(
    offset: int, *, topic: str = "t", topic_id: bytes = bytes(16), partition: int = 0, **identity: Any
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=None)
    ]
    fields: dict[str, Any] = {"group_id": GROUP, "member_id": ""} | identity
    return OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)], **fields
    )


def run_story(
    story: Callable[[Broker], Awaitable[None]], folder: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run a story against a fresh node."""

    async def run() -> None:
        partitions = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "1"}
        files = LocalFiles(str(folder))
        environment = SetClock(files)
        node = Node(BrokerConfig({"tallystick.in.memory": "true", **partitions, **settings}), environment)
        try:
            services = await node.start({"PLAINTEXT": Endpoint("PLAINTEXT", "broker.example", 9092)})
            await story(Broker(services, environment))
        finally:
            await node.stop()
            environment.close()
            files.close()

    asyncio.run(run())


def partition_errors(answer: Any) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]

"""Three whole nodes in the loop of a test, over one store in memory, which reach each other through sockets."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.disk.local_files import LocalFiles
from broker.membership.following import Following
from broker.process.environment import RealEnvironment
from broker.together.nodes import NodesTogether
from protocol.errors import ErrorCode
from protocol.internal_topics import TRANSACTION_STATE
from protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.topics import CreatableReplicaAssignment, CreatableTopic, DeleteTopicState
from tallystick.client.connection import Connection
from tests.unit.transactions.node_rig import ask

PATIENCE_S = 60


class ThreeNodes:
    """See the head of this file. Each is 1, 2 or 3."""

    def __init__(self, together: NodesTogether) -> None:
        self.together = together

    @property
    def by_id(self) -> dict[int, Services]:
        """Those that run."""
        return {one.nodes.node_id: one for one in self.together.services()}

    @property
    def controller(self) -> int:
        return next(node_id for node_id, one in self.by_id.items() if one.nodes.controller_id == node_id)

    def others(self) -> list[int]:
        """Those that do not control."""
        return [node_id for node_id in self.by_id if node_id != self.controller]

    async def coordinate_transactions_at(self, node_id: int) -> None:
        """All of them."""
        services = self.by_id[self.controller]
        await services.topics.ensure_internal(TRANSACTION_STATE)
        partition = ReassignablePartition(partition_index=0, replicas=[node_id])
        topic = ReassignableTopic(name=TRANSACTION_STATE, partitions=[partition])
        answer = await ask(services, AlterPartitionReassignmentsRequest(topics=[topic]), 1)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        coordinator = self.by_id[node_id]
        await until(lambda: coordinator.topics.leader(TRANSACTION_STATE, 0)[0] == node_id)
        await until(lambda: coordinator.transactions.all_loaded)

    async def make_topic(self, name: str, leader: int) -> None:
        """The same, and its leader has opened its partition."""
        await self.create_topic(name, leader)
        await until(lambda: self.by_id[leader].topics.partition(name, 0) is not None)

    async def create_topic(self, name: str, leader: int) -> None:
        """A topic of one partition, which that node is to lead."""
        placed = CreatableReplicaAssignment(partition_index=0, broker_ids=[leader])
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[placed], configs=[])
        (result,) = await self.by_id[self.controller].topics.create([topic])
        assert result.error_code == ErrorCode.NONE

    async def known_at(self, node_id: int, name: str) -> None:
        """The node knows of the topic."""
        await until(lambda: self.by_id[node_id].topics.by_name(name) is not None)

    async def delete_topic(self, name: str) -> None:
        (result,) = await self.by_id[self.controller].topics.delete([DeleteTopicState(name=name, topic_id=bytes(16))])
        assert result.error_code == ErrorCode.NONE

    async def answer_of(self, asked: int, request: object, version: int) -> Any:
        """What a client of that node is told, over TCP."""
        endpoint = next(iter(self.by_id[asked].endpoints.values()))
        connection = await Connection.connect(endpoint.host, endpoint.port, client_id="test")
        try:
            return await connection.ask(request, version)
        finally:
            await connection.close()


class Behind:
    """A node that hears nothing more of the metadata, until it is let go."""

    def __init__(self, monkeypatch: Any, node_id: int) -> None:
        self._go = asyncio.Event()
        take = Following.take

        async def held(following: Following, log: Any) -> None:
            if following._who.node_id == node_id:
                await self._go.wait()
            await take(following, log)

        monkeypatch.setattr(Following, "take", held)

    def let_go(self) -> None:
        self._go.set()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.002)


def with_three_nodes(
    story: Callable[[ThreeNodes], Coroutine[Any, Any, None]], tmp_path: Any, settings: dict[str, str] | None = None
) -> None:
    """Run a story against fresh ones. Internal topics have one partition."""

    async def run() -> None:
        values = {
            "tallystick.nodes": "3",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "transaction.state.log.num.partitions": "1",
            "offsets.topic.num.partitions": "1",
        }
        files = LocalFiles(str(tmp_path))
        environment = RealEnvironment(files, sync_threads=1)
        failed = asyncio.Event()
        together = NodesTogether(
            BrokerConfig(values | (settings or {})), environment, faults=None, traced=None, on_failure=failed.set
        )
        await together.start()
        try:
            await asyncio.wait_for(story(ThreeNodes(together)), PATIENCE_S)
            assert together.failure is None
        finally:
            hurry = asyncio.Event()
            hurry.set()
            await together.stop(hurry)
            environment.close()
            files.close()

    asyncio.run(run())

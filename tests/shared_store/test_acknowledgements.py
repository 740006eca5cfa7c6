"""What a node over a shared store has told a writer is in the store, whatever the writer waits for."""

import asyncio
from collections.abc import Sequence

from broker.config.broker_config import BrokerConfig
from broker.node import Node
from protocol.errors import ErrorCode
from protocol.schema import Buffer
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import Incarnation, LogChange
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_produce import batch, errors_of, produce
from tests.unit.broker.test_restarts import SimulatedDisk, opened


class HeldCommits(StoreInMemory):
    """Commits wait until they may happen."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.may_commit = asyncio.Event()
        self.may_commit.set()

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer], changes: Sequence[LogChange]
    ) -> frozenset[int]:
        await self.may_commit.wait()
        return await super().commit(who, object_id, data, changes)


def test_acks_1_waits_for_the_commit() -> None:
    """What was appended is in memory alone: a broker on a disk keeps it over its own end, and so does Kafka."""

    async def told() -> None:
        store, environment = HeldCommits(), SimulatedDisk(SimulatedFiles(), "b")
        node = Node(BrokerConfig({"tallystick.store": "model://"}), environment, store=store)
        await node.start()
        partition = await opened(node)
        await node.group_commit.wait_until_idle()
        store.may_commit.clear()
        waits = produce(node, batch(), acks=1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert isinstance(waits.answer, asyncio.Future) and not waits.answer.done()
        assert (partition.end_offset, partition.high_watermark) == (1, 0)
        store.may_commit.set()
        assert errors_of(await waits.answer) == [ErrorCode.NONE]
        assert partition.high_watermark == 1
        await node.stop()
        environment.close()

    asyncio.run(asyncio.wait_for(told(), 20))

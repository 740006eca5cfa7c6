"""A client that has nothing to do with librdkafka does transactions over several nodes, one of which is killed."""

import asyncio
from typing import Any

import aiokafka
import pytest

from tests.shared_store.several_nodes.cluster import PARTITIONS, SeveralNodes
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes

TRANSACTIONS = 12
KILLED_AT = 5
ID = "others"


@pytest.fixture
def cluster(nodes: Nodes) -> SeveralNodes:
    made = SeveralNodes(nodes)
    made.make_topics("t")
    return made


def expected() -> dict[int, list[str]]:
    """Every third transaction is aborted."""
    committed = [number for number in range(TRANSACTIONS) if number % 3]
    return {index: [f"{number}-{index}" for number in committed] for index in range(PARTITIONS)}


def test_aiokafka(cluster: SeveralNodes) -> None:
    victim = cluster.coordinator_of_transactions(ID)

    async def told() -> None:
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "request_timeout_ms": 5_000}
        producer = aiokafka.AIOKafkaProducer(transactional_id=ID, **settings)
        await producer.start()
        try:
            for number in range(TRANSACTIONS):
                await producer.begin_transaction()
                for index in range(PARTITIONS):
                    await producer.send("t", f"{number}-{index}".encode(), partition=index)
                await producer.flush()
                if number == KILLED_AT:
                    cluster.kill(victim)
                await (producer.commit_transaction() if number % 3 else producer.abort_transaction())
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "t", group_id=ID, isolation_level="read_committed", auto_offset_reset="earliest", **settings
        )
        await consumer.start()
        try:
            found: dict[int, list[str]] = {index: [] for index in range(PARTITIONS)}
            while found != expected():
                message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
                found[message.partition].append(message.value.decode())
            await consumer.commit()
        finally:
            await consumer.stop()

    asyncio.run(told())
    look_at_everything(cluster, victim)


def look_at_everything(cluster: SeveralNodes, victim: int) -> None:
    cluster.by_id[victim].start()
    assert cluster.everything("t") == expected()
    read = cluster.committed_offsets(ID, "t")
    assert all(offset >= 2 * TRANSACTIONS - 1 for offset in read.values()), "each transaction has a marker"
    cluster.stop_all()

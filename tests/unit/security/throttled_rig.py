"""The whole broker on virtual time, and clients that ask it things: what is told, and when the next answer comes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.records.record import NewRecord, build_batch
from tallystick.client.connection import Connection
from tests.harness.loop import run_on
from tests.scenarios.places.virtual import Virtual
from tests.simulation.broker_process import PORT
from tests.simulation.simulation import quiet_about_the_dead

ANYBODY = {"user": None}
LARGE = 1 << 20
ADDRESS = "10.0.0.1"


class Throttled:
    """One broker with the topic `t`."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.place = Virtual(settings, LARGE)

    @property
    def now_ms(self) -> float:
        return self.place.scheduler.now * 1000

    async def connect(self, client_id: str = "c") -> Connection:
        return await Connection.connect(ADDRESS, PORT, client_id=client_id)

    async def took_ms(self, work: Coroutine[Any, Any, Any]) -> float:
        """How long it was waited for, on the clock of this world."""
        began = self.now_ms
        await work
        return self.now_ms - began

    async def served_ms(self, connection: Connection) -> float:
        """How long a request waits that would be answered at once."""
        return await self.took_ms(ask(connection, MetadataRequest(topics=[]), 9))


async def ask(connection: Connection, request: object, version: int | None = None) -> Any:
    return await connection.ask(request, version)


def play(story: Callable[[Throttled], Coroutine[Any, Any, None]], **settings: str) -> None:
    rig = Throttled({name.replace("_", "."): value for name, value in settings.items()})

    async def run() -> None:
        await rig.place.broker.start()
        admin = await rig.connect("admin")
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        (made,) = (
            await ask(admin, CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False), 5)
        ).topics
        assert made.error_code == 0
        await story(rig)

    place = rig.place
    try:
        with quiet_about_the_dead():
            run_on(place.loop, asyncio.wait_for(run(), 10_000))
    finally:
        if place.broker.loop is not None:
            place.broker.loop.die()
        place.loop.die()
    assert not place.scheduler.failures, place.scheduler.failures


async def set_quota(connection: Connection, entity: dict[str, str | None], **quotas: float | None) -> int:
    """Set or, with None, take away; returns the error."""
    names = [AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
    entry = QuotaAlterationEntry(entity=names, ops=ops)
    answer = await ask(connection, AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
    error: int = answer.entries[0].error_code
    return error


def produce(size: int, acks: int = -1) -> ProduceRequest:
    records = build_batch([NewRecord(value=b"v" * size, timestamp_ms=1)])
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )


def fetch(offset: int = 0, session_id: int = 0, session_epoch: int = -1, **fields: Any) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=LARGE)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=LARGE,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
        **fields,
    )

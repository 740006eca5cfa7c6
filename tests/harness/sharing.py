"""Members of a share group as they speak on the wire, and records for them."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.share import acknowledge, fetch
from protocol.messages.share.state import (
    InitializePartitionData,
    InitializeShareGroupStateRequest,
    InitializeStateData,
    ReadPartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.records.batch import read_header
from protocol.records.record import NewRecord, build_batch
from tallystick.client.connection import Connection
from tests.harness.retriable import PASSES_BY_ITSELF

PATIENCE_S = 30

Acks = tuple[int, int, list[int]]
Acquired = tuple[int, int, int]


class ShareRefused(Exception):
    """A ShareFetch was refused, or a partition of it."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


@dataclass
class Shared:
    """A topic of one partition that a group shares. `connection` is one to any node; those to the leader of the
    partition and to the coordinator of its state are made when they are wanted."""

    connection: Connection
    topic: str
    group: str
    topic_id: bytes = bytes(16)
    _leader: Connection | None = None
    _coordinator: Connection | None = None

    async def begin(self, start_offset: int = 0) -> "Shared":
        """Make the topic, and have the group begin at an offset."""
        wanted = CreatableTopic(name=self.topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        made = await self.connection.ask(
            CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False), 7
        )
        assert made.topics[0].error_code == ErrorCode.NONE
        self.topic_id = made.topics[0].topic_id
        data = InitializePartitionData(partition=0, state_epoch=0, start_offset=start_offset)
        initialize = InitializeShareGroupStateRequest(
            group_id=self.group, topics=[InitializeStateData(topic_id=self.topic_id, partitions=[data])]
        )

        async def initialized() -> ErrorCode:
            coordinator = await self.coordinator()
            return ErrorCode((await coordinator.ask(initialize, 0)).results[0].partitions[0].error_code)

        await _until_it_is(initialized)
        return self

    async def coordinator(self) -> Connection:
        """Of what is kept of the partition."""
        if self._coordinator is None:
            key = f"{self.group}:{urlsafe_b64encode(self.topic_id).decode().rstrip('=')}:0"
            answers: list[Any] = []

            async def found() -> ErrorCode:
                answer = await self.connection.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
                answers[:] = answer.coordinators
                return ErrorCode(answers[0].error_code)

            await _until_it_is(found)
            self._coordinator = await Connection.connect(answers[0].host, answers[0].port)
        return self._coordinator

    async def leader(self) -> Connection:
        """Of the partition."""
        if self._leader is None:
            told: list[MetadataResponse] = []

            async def led() -> ErrorCode:
                topics = [MetadataRequestTopic(topic_id=self.topic_id, name=None)]
                told[:] = [await self.connection.ask(MetadataRequest(topics=topics), 12)]
                codes = (told[0].topics[0].error_code, *(one.error_code for one in told[0].topics[0].partitions))
                return ErrorCode(next(filter(None, codes), 0))

            await _until_it_is(led)
            leads = told[0].topics[0].partitions[0].leader_id
            (node,) = [one for one in told[0].brokers if one.node_id == leads]
            self._leader = await Connection.connect(node.host, node.port)
        return self._leader

    def abort(self) -> None:
        """End all of its connections."""
        for one in (self.connection, self._leader, self._coordinator):
            if one is not None:
                one.abort()

    async def produce(self, *counts: int) -> None:
        """Batches of so many records."""
        for count in counts:
            records = build_batch([NewRecord(value=b"v", timestamp_ms=1) for _ in range(count)])
            data = TopicProduceData(
                name=self.topic, partition_data=[PartitionProduceData(index=0, records=memoryview(records))]
            )
            request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=[data])
            answer = await (await self.leader()).ask(request, 12)
            told = answer.responses[0].partition_responses[0]
            assert told.error_code == ErrorCode.NONE

    async def kept(self) -> tuple[int, list[tuple[int, int, int, int]]]:
        """The start offset, and (first, last, state, deliveries) of what is kept behind it."""
        data = ReadStateData(topic_id=self.topic_id, partitions=[ReadPartitionData(partition=0, leader_epoch=-1)])
        coordinator = await self.coordinator()
        answer = await coordinator.ask(ReadShareGroupStateRequest(group_id=self.group, topics=[data]), 0)
        found = answer.results[0].partitions[0]
        assert found.error_code == ErrorCode.NONE
        batches = [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in found.state_batches
        ]
        return found.start_offset, batches


@dataclass
class Member:
    """One member; `epoch` is where its session is."""

    shared: Shared
    name: str
    epoch: int = 0
    batches: list[int] = field(default_factory=list)
    """Where the batches began that came with the last records."""

    async def fetch(self, *said: Acks, **fields: Any) -> list[Acquired]:
        """(first, last, deliveries) of what it is handed. Raises `ShareRefused`."""
        values: dict[str, Any] = {
            "max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500, "forgotten_topics_data": [],
            "share_session_epoch": self.epoch,
        } | fields  # fmt: skip
        batches = [
            fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ]
        partition = fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        topic = fetch.FetchTopic(topic_id=self.shared.topic_id, partitions=[partition])
        topics = [topic] if said or self.epoch == 0 else []
        request = fetch.ShareFetchRequest(group_id=self.shared.group, member_id=self.name, topics=topics, **values)
        answer = await (await self.shared.leader()).ask(request, 2)
        told = [one for topic in answer.responses for one in topic.partitions]
        codes = [answer.error_code, *(code for one in told for code in (one.error_code, one.acknowledge_error_code))]
        if not answer.error_code:
            self.epoch += 1
        for code in filter(None, codes):
            raise ShareRefused(code)
        self.batches = [at for one in told for at in _begins_of(b"".join(map(bytes, _parts(one.records))))]
        return [(a.first_offset, a.last_offset, a.delivery_count) for one in told for a in one.acquired_records]

    async def say(self, *said: Acks, **fields: Any) -> ErrorCode:
        """The error of the partition, or of the whole."""
        batches = [
            acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ]
        partition = acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topic = acknowledge.AcknowledgeTopic(topic_id=self.shared.topic_id, partitions=[partition])
        values: dict[str, Any] = {"share_session_epoch": self.epoch, "topics": [topic] if said else []} | fields
        request = acknowledge.ShareAcknowledgeRequest(group_id=self.shared.group, member_id=self.name, **values)
        answer = await (await self.shared.leader()).ask(request, 2)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        self.epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code) if answer.responses else ErrorCode.NONE


async def _until_it_is(step: Callable[[], Awaitable[ErrorCode]]) -> None:
    """Again while time may cure what comes in the way."""
    async with asyncio.timeout(PATIENCE_S):
        while (error := await step()) in PASSES_BY_ITSELF:
            await asyncio.sleep(0.05)
    assert error is ErrorCode.NONE


def _parts(records: Any) -> list[Any]:
    return [records] if isinstance(records, bytes | bytearray | memoryview) else list(records or ())


def _begins_of(records: bytes) -> list[int]:
    begins, at = [], 0
    while at < len(records):
        header = read_header(memoryview(records)[at:])
        begins.append(header.base_offset)
        at += header.size
    return begins

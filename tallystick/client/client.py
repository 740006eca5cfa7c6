"""A thin client of a cluster: leaders, coordinators, and requests sent to the right node.

Rule 1. Conditions that pass by themselves (a topic just created, a coordinator loading) are waited for, up to
        `patience_s`; every other error code is the caller's, in the response or as `KafkaError`.
Rule 2. Nothing runs in the background.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from protocol.schema import Buffer
from tallystick.client.connection import Connection
from tallystick.client.errors import PASSING, ConnectionLost, KafkaError, check
from tallystick.client.security import PLAINTEXT, Security

T = TypeVar("T")

GROUP = 0
TRANSACTION = 1
"""Key types of FindCoordinator."""
LATEST = -1
EARLIEST = -2
"""Timestamps of ListOffsets that stand for an end of the log."""
_PAUSE_S = 0.02
REQUEST_TIMEOUT_S = 30.0
"""After this long without an answer a connection counts as dead."""
_ADDRESS = re.compile(r"(?:[\w.-]*://)?\[?(?P<host>[\w.:%-]+?)\]?:(?P<port>[0-9]{1,5})")
_LAST_PORT = 65535


def addresses_in(bootstrap: str) -> list[tuple[str, int]]:
    """Those of `host:port,host:port`; as in Java's clients there may be a protocol before one, and a comma too many.
    Raises `ValueError`.
    """
    addresses = []
    for one in filter(None, map(str.strip, bootstrap.split(","))):
        found = _ADDRESS.fullmatch(one)
        if found is None or not 0 < int(found["port"]) <= _LAST_PORT:
            raise ValueError(f"{one!r} is not host:port")
        addresses.append((found["host"], int(found["port"])))
    if not addresses:
        raise ValueError("no host:port")
    return addresses


class Client:
    """See the head of this file. Make one with `Client.connect`."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        seed: Connection,
        client_id: str | None,
        patience_s: float,
        security: Security = PLAINTEXT,
    ) -> None:
        self.client_id = client_id
        self._security = security
        self.patience_s = patience_s
        self._bootstrap = bootstrap
        self._seed = seed
        self._nodes: dict[tuple[str, int], Connection] = {}
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self.retries = 0
        """How often something was tried again."""

    @classmethod
    async def connect(
        cls,
        bootstrap: str,
        *,
        client_id: str | None = "tallystick",
        patience_s: float = 10.0,
        security: Security = PLAINTEXT,
    ) -> "Client":
        """Connect to the first of `host:port,host:port` that answers."""
        addresses = addresses_in(bootstrap)
        seed = await cls._first_of(addresses, client_id, security)
        return cls(addresses, seed, client_id, patience_s, security)

    @staticmethod
    async def _first_of(addresses: Sequence[tuple[str, int]], client_id: str | None, security: Security) -> Connection:
        last: Exception | None = None
        for address in addresses:
            try:
                return await Connection.connect(*address, client_id=client_id, security=security)
            except (OSError, ConnectionLost) as error:
                last = error
        assert last is not None, "no bootstrap address"
        raise last

    async def close(self) -> None:
        for connection in (self._seed, *self._nodes.values()):
            await connection.close()

    @property
    def seed(self) -> Connection:
        """The connection that was opened first: any node will do for most questions."""
        return self._seed

    async def any_node(self) -> Connection:
        """The same, opened again if it was lost: the node may have been restarted."""
        if not self._seed.is_of_use:
            self._seed.leave()
            known = [address for address in self._brokers.values() if address not in self._bootstrap]
            self._seed = await self._first_of([*self._bootstrap, *known], self.client_id, self._security)
        return self._seed

    def forget(self) -> None:
        """Request metadata anew, the next time it matters: topics may have grown or moved."""
        self._topics.clear()

    async def in_time(self, work: Awaitable[T], seconds: float = REQUEST_TIMEOUT_S) -> T:
        """Wait for some work with this client. Where it takes too long every connection is cut, and that is
        `ConnectionLost`.
        """
        try:
            return await asyncio.wait_for(work, seconds)
        except TimeoutError as error:
            self.hang_up()
            raise ConnectionLost(f"no answer within {seconds:.0f} s") from error

    def hang_up(self) -> None:
        """Cut every connection: a node that does not answer may be gone without a word. They are opened anew."""
        for connection in (self._seed, *self._nodes.values()):
            connection.abort()

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat while it fails with something that passes by itself, and patience lasts."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience_s
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code not in PASSING or loop.time() > deadline:
                    raise
                self.forget()
            self.retries += 1
            await asyncio.sleep(_PAUSE_S)

    # Who is who.

    async def metadata(self, topics: Sequence[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Ask about some topics, or all, and remember the answer."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = await self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=create))
        self._brokers.update({broker.node_id: (broker.host, broker.port) for broker in answer.brokers})
        self._topics.update({topic.name: topic for topic in answer.topics if topic.name and not topic.error_code})
        return answer

    async def topic(self, name: str) -> MetadataResponseTopic:
        """What is known of a topic, asking if need be."""
        if name not in self._topics:
            return await self.patiently(lambda: self._look_up(name))
        return self._topics[name]

    async def _look_up(self, name: str) -> MetadataResponseTopic:
        (found,) = (await self.metadata([name])).topics
        check(found.error_code, name)
        return found

    async def node(self, node_id: int) -> Connection:
        """The connection to a node that is in the metadata."""
        return await self._connection_to(*self._brokers[node_id])

    async def leader(self, topic: str, partition: int) -> Connection:
        """The connection to the leader of a partition."""
        found = [p for p in (await self.topic(topic)).partitions if p.partition_index == partition]
        if not found:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        return await self.node(self._led(found[0]))

    @staticmethod
    def _led(partition: MetadataResponsePartition) -> int:
        if partition.leader_id < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return partition.leader_id

    async def coordinator(self, key: str, key_type: int) -> Connection:
        """The connection to the coordinator of a group or a transactional id."""
        return await self.patiently(lambda: self._find_coordinator(key, key_type))

    async def _find_coordinator(self, key: str, key_type: int) -> Connection:
        node = await self.any_node()
        version = node.version_for(FindCoordinatorRequest)
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        answer: FindCoordinatorResponse = await node.ask(request, version)
        found = answer.coordinators[0] if version >= 4 else answer
        check(found.error_code, found.error_message)
        return await self._connection_to(found.host, found.port)

    async def _connection_to(self, host: str, port: int) -> Connection:
        known = self._nodes.get((host, port))
        if known is None or not known.is_of_use:
            if known is not None:
                known.leave()
            known = self._nodes[host, port] = await Connection.connect(
                host, port, client_id=self.client_id, security=self._security
            )
        return known

    # What tests and tools do all day.

    async def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until it has leaders."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        answer: CreateTopicsResponse = await self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        check(answer.topics[0].error_code, answer.topics[0].error_message)
        self._topics.pop(name, None)
        await self.topic(name)

    async def produce(
        self,
        topic: str,
        partition: int,
        batch: Buffer,
        *,
        acks: int = -1,
        transactional_id: str | None = None,
        version: int | None = None,
        timeout_ms: int = 30_000,
    ) -> PartitionProduceResponse:
        """Send one batch, as it is. The error code is the caller's to look at."""
        leader = await self.leader(topic, partition)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=(await self.topic(topic)).topic_id,
                    partition_data=[PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )
        answer: ProduceResponse = await leader.ask(request, version)
        return answer.responses[0].partition_responses[0]

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        read_committed: bool = False,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        version: int | None = None,
    ) -> PartitionData:
        """One fetch without a session. The error code is the caller's to look at."""
        leader = await self.leader(topic, partition)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=(await self.topic(topic)).topic_id,
                    partitions=[
                        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
                    ],
                )
            ],
        )
        answer: FetchResponse = await leader.ask(request, version)
        check(answer.error_code)
        return answer.responses[0].partitions[0]

    async def offset_at(self, topic: str, partition: int, timestamp: int, *, read_committed: bool = False) -> int:
        """The offset for a timestamp, `EARLIEST` or `LATEST`; -1 where there is none."""
        leader = await self.leader(topic, partition)
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
            timeout_ms=30_000,
        )
        answer: ListOffsetsResponse = await leader.ask(request)
        found = answer.topics[0].partitions[0]
        check(found.error_code)
        return found.offset

    async def ask(self, request: object, version: int | None = None) -> Any:
        """Ask any node. `Any` for the reason given at `Connection.ask`."""
        return await (await self.any_node()).ask(request, version)

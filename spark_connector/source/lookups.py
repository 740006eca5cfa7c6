"""Requests to the cluster: partitions, their leaders, and the offsets at which they begin and end.

All of them are repeated while brokers are away, for as long as the option `kafkaConsumer.pollTimeoutMs` says.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponse
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from spark_connector.connections import Cluster, cluster
from spark_connector.source.errors import NoSuchTopic
from spark_connector.source.ranges import Offsets, TopicPartition
from spark_connector.source.settings import Settings
from tallystick.client.client import EARLIEST, LATEST, Client
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost, KafkaError, check

T = TypeVar("T")
_PAUSE_S = 0.1
_PASSING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Error codes of a partition that pass by themselves when brokers come back or a leader moves."""


def passes(error: Exception) -> bool:
    """Whether asking again may help."""
    return isinstance(error, ConnectionLost | OSError) or (isinstance(error, KafkaError) and error.code in _PASSING)


class Leader(NamedTuple):
    """Where a partition is read."""

    address: tuple[str, int]
    topic_id: bytes


class Lookups:
    """See the head of this file. Cheap to make: connections belong to the process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.topic_ids: dict[str, bytes] = {}
        """Of the topics that `partitions` found last; zeros where the cluster knows of no ids."""

    def partitions(self) -> list[TopicPartition]:
        """All partitions that are subscribed to, sorted. Raises `NoSuchTopic` where a topic named is not there."""
        settings = self._settings
        if settings.pattern is not None:
            answer = self._run(lambda client: client.metadata(None), "listing topics")
            matches = re.compile(settings.pattern).fullmatch
            found = [
                topic
                for topic in answer.topics
                if topic.name and not topic.is_internal and not topic.error_code and matches(topic.name)
            ]
        else:
            answer = self._run(self._named_topics, "looking up topics")
            found = [topic for topic in answer.topics if not topic.error_code]
            missing = sorted(set(settings.topics) - {topic.name for topic in found})
            if missing:
                raise NoSuchTopic(f"no topic {', '.join(missing)}: create it, or correct subscribe or assign")
        self.topic_ids = {topic.name or "": topic.topic_id for topic in found}
        there = {(topic.name or "", one.partition_index) for topic in found for one in topic.partitions}
        if settings.assigned is not None:
            absent = sorted(set(settings.assigned) - there)
            if absent:
                raise NoSuchTopic(f"assign names partitions that are not there: {absent}")
            return sorted(settings.assigned)
        return sorted(there)

    def leader(self, where: TopicPartition) -> Leader:
        """The leader of a partition, requested anew. Raises `KafkaError` or `ConnectionLost`; does not wait."""
        topic, partition = where
        answer = self._cluster().run(self._fresh_metadata(topic), f"looking up {topic}")
        (found,) = answer.topics
        check(found.error_code, topic)
        led = [one for one in found.partitions if one.partition_index == partition]
        check(ErrorCode.NONE if led else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if led[0].leader_id not in brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        return Leader(brokers[led[0].leader_id], found.topic_id)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.at_times(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end of each, as the isolation level shows it."""
        return self.at_times(dict.fromkeys(partitions, LATEST))

    def at_times(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first offset with that timestamp or a later one; -1 where there is none."""
        if not times:
            return {}
        return self._run(lambda client: self._list_offsets(client, times), "asking for offsets")

    async def _named_topics(self, client: Client) -> MetadataResponse:
        """Topics that are not there are the caller's to tell of; what else is wrong may pass."""
        answer = await client.metadata(self._settings.topics)
        for topic in answer.topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                check(topic.error_code, topic.name or "")
        return answer

    async def _fresh_metadata(self, topic: str) -> MetadataResponse:
        client = self._cluster().client
        return await client.in_time(client.metadata([topic]))

    async def _list_offsets(self, client: Client, times: Mapping[TopicPartition, int]) -> Offsets:
        by_leader: dict[Connection, dict[str, list[ListOffsetsPartition]]] = {}
        for (topic, partition), timestamp in times.items():
            leader = await client.leader(topic, partition)
            asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(asked)
        offsets: Offsets = {}
        for leader, topics in by_leader.items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(self._settings.read_committed),
                topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
                timeout_ms=30_000,
            )
            answer: ListOffsetsResponse = await leader.ask(request)
            for topic_answer in answer.topics:
                for found in topic_answer.partitions:
                    check(found.error_code, f"{topic_answer.name}-{found.partition_index}")
                    offsets[topic_answer.name, found.partition_index] = found.offset
        return offsets

    def _cluster(self) -> Cluster:
        return cluster(self._settings.access, patience_s=self._settings.patience_ms / 1000)

    def _run(self, attempt: Callable[[Client], Coroutine[Any, Any, T]], doing: str) -> T:
        found = self._cluster()
        return found.run(self._repeated(found.client, attempt), doing)

    async def _repeated(self, client: Client, attempt: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Until it works, fails for good, or patience ends."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.patience_ms / 1000
        while True:
            try:
                return await client.in_time(attempt(client))
            except (KafkaError, ConnectionLost, OSError) as error:
                if not passes(error) or loop.time() > deadline:
                    raise
                client.forget()
            await asyncio.sleep(_PAUSE_S)

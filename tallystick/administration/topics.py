"""Topics: which there are, and how they are made, grown and deleted.

Requests that change something go to the controller, as the metadata names it: before KRaft no other node took them.
What is made or grown is waited for, until the metadata shows its leaders.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponseTopic
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tallystick.administration.configs import TOPIC, configs_of
from tallystick.client.client import Client
from tallystick.client.connection import Connection
from tallystick.client.errors import KafkaError, check

BY_BROKER = -1
"""A number of partitions or replicas that the broker's settings say (KIP-464)."""
_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic."""

    number: int
    leader: int | None
    """A node; None where there is none."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, with the configs that are not Kafka's defaults."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[Partition, ...]
    configs: Mapping[str, str | None] | None
    """A value is None that the broker does not tell; all is where whoever asks may not see them (DESCRIBE_CONFIGS)."""

    @property
    def written_id(self) -> str:
        """Its id as Kafka's tools write it."""
        return base64.urlsafe_b64encode(self.topic_id).decode("ascii").rstrip("=")

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0


async def names(client: Client, *, internal: bool = True) -> list[str]:
    """Of all topics, in order."""
    answer = await client.metadata()
    return sorted(one.name for one in answer.topics if one.name and (internal or not one.is_internal))


async def described(client: Client, wanted: Sequence[str] | None = None, *, internal: bool = True) -> list[Topic]:
    """Some topics, or all. Raises `KafkaError` where there is no such topic."""
    found = {}
    for one in (await client.metadata(wanted)).topics:
        _check(one.error_code, one.name)
        if one.name is not None and (internal or not one.is_internal):
            found[one.name] = one
    told = await configs_of(client, [(TOPIC, name) for name in sorted(found)], where_allowed=True)
    configs = {name: {one.name: one.value for one in its if not one.is_default} for (_, name), its in told.items()}
    return [
        Topic(
            name=name,
            topic_id=one.topic_id,
            is_internal=one.is_internal,
            partitions=_partitions(one),
            configs=configs.get(name),
        )
        for name, one in sorted(found.items())
    ]


def _partitions(topic: MetadataResponseTopic) -> tuple[Partition, ...]:
    return tuple(
        Partition(
            number=one.partition_index,
            leader=one.leader_id if one.leader_id >= 0 else None,
            replicas=tuple(one.replica_nodes),
            in_sync=tuple(one.isr_nodes),
        )
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
    )


async def _controller(client: Client) -> Connection:
    answer = await client.metadata([])
    if answer.controller_id < 0:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller")
    return await client.node(answer.controller_id)


async def create(
    client: Client, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Raises `KafkaError`: TOPIC_ALREADY_EXISTS and whatever the broker refuses."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    answer: CreateTopicsResponse = await (await _controller(client)).ask(request)
    check(answer.topics[0].error_code, answer.topics[0].error_message or name)
    await _wait_until_led(client, name)


async def delete(client: Client, name: str) -> None:
    """Raises `KafkaError`: UNKNOWN_TOPIC_OR_PARTITION and whatever the broker refuses."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS)
    answer: DeleteTopicsResponse = await (await _controller(client)).ask(request)
    _check(answer.responses[0].error_code, name, answer.responses[0].error_message)


async def grow(client: Client, name: str, partitions: int) -> None:
    """Give a topic more partitions: this many in all. Raises `KafkaError`."""
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)
    answer: CreatePartitionsResponse = await (await _controller(client)).ask(request)
    _check(answer.results[0].error_code, name, answer.results[0].error_message)
    await _wait_until_led(client, name, partitions)


def _check(code: int, name: str | None, message: str | None = None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaError(code, f"Topic '{name}' does not exist as expected")
    check(code, message or name)


async def _wait_until_led(client: Client, name: str, partitions: int = 1) -> None:
    async def attempt() -> None:
        (found,) = (await client.metadata([name])).topics
        check(found.error_code, name)
        if len(found.partitions) < partitions or any(one.leader_id < 0 for one in found.partitions):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, name)

    await client.patiently(attempt)

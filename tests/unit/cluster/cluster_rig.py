"""What cluster tests stand on: the machine over a log in memory, and a node without sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.disk.local_files import LocalFiles
from broker.node import Node
from broker.process.environment import RealEnvironment
from coordinator.cluster.coordinator import ClusterCoordinator
from coordinator.cluster.topic_deletion import plan_deletion
from coordinator.cluster.topics import Rules, plan_creation, plan_growth
from coordinator.machine import Outcome, Ticket
from coordinator.runtime import Shard
from protocol.errors import ErrorCode
from protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsTopic,
    DeleteTopicState,
)
from tests.harness.memory_shard_log import MemoryShardLog

T = TypeVar("T")


class Answered:
    """A ticket that remembers its result."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.error: ErrorCode | None = None

    def release(self, answer: Any) -> None:
        self.answer = answer

    def refuse(self, error: ErrorCode) -> None:
        self.error = error


class NoTimer:
    """Nothing in the cluster machine has a deadline."""

    def at(self, wall_ms: int, callback: Callable[[], None]) -> Any:
        raise AssertionError("the cluster machine has no deadlines")


class NoonClock:
    """It is always the same time."""

    def now_ms(self) -> int:
        return 1_000_000


class ClusterRig:
    """The machine in its shard, over a log whose durability the test decides."""

    def __init__(self, log: MemoryShardLog | None = None, **rules: Any) -> None:
        self.log = log if log is not None else MemoryShardLog()
        if self.log.durable:
            self.log.durable_offset = self.log.end_offset
        self.shard: Shard[ClusterCoordinator] = Shard(
            ClusterCoordinator, self.log, NoonClock(), NoTimer(), name="cluster"
        )
        while not self.shard.load_slice(1000):
            pass
        layers = BrokerConfig().layers
        self.rules = Rules(**({"node_id": 1, "leader_epoch": 0, "layers": layers, "num_partitions": 4} | rules))
        self._ids = count(1)

    @property
    def machine(self) -> ClusterCoordinator:
        return self.shard.machine

    def ask(self, operation: Callable[[ClusterCoordinator, Ticket], Outcome]) -> Any:
        ticket = Answered()
        self.shard.submit(lambda machine, now_ms: operation(machine, ticket), ticket)
        if self.log.durable:
            self.log.sync()
        return ticket.answer

    def fresh_id(self) -> bytes:
        return (next(self._ids) + (1 << 64)).to_bytes(16, "big")

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> Any:
        return self.ask(
            lambda machine, ticket: machine.create_topics(
                ticket,
                plan_creation(machine.image, topics, self.rules),
                self.rules,
                fresh_id=self.fresh_id,
                validate_only=validate_only,
            )
        )

    def delete(self, *states: DeleteTopicState) -> Any:
        return self.ask(
            lambda machine, ticket: machine.delete_topics(ticket, plan_deletion(machine.image, states), self.rules)
        )

    def grow(self, *wanted: CreatePartitionsTopic) -> Any:
        return self.ask(lambda machine, ticket: machine.create_partitions(ticket, plan_growth(wanted), self.rules))

    def errors(self, *topics: CreatableTopic) -> dict[str, tuple[int, str | None]]:
        return {result.name: (result.error_code, result.error_message) for result in self.create(*topics)}

    def reloaded(self) -> "ClusterRig":
        return ClusterRig(self.log.copy())


def topic(
    name: str,
    partitions: int = -1,
    replication: int = -1,
    configs: dict[str, str | None] | None = None,
    assignments: list[tuple[int, list[int]]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments or []
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def image_of(machine: ClusterCoordinator) -> dict[str, Any]:
    """Everything the machine knows, for comparing two of them."""
    image = machine.image
    return {
        "topics": {
            name: (one.topic_id, one.partition_count, dict(one.configs)) for name, one in sorted(image.topics.items())
        },
        "ids": sorted(image.by_id),
        "removed": sorted(image.removed),
        "brokers": {name: dict(values) for name, values in sorted(image.broker_configs.items()) if values},
        "metrics": {name: dict(values) for name, values in sorted(image.client_metrics.items())},
        "features": dict(image.features),
        "scram": dict(image.scram_users.kept),
        "acls": dict(image.acls.by_id),
        "next_producer_id": image.next_producer_id,
        "broker_epoch": image.broker_epoch,
        "collisions": [image.collision(name.replace("_", ".")) is None for name in sorted(image.topics)],
    }


def with_node(
    story: Callable[[Services], Awaitable[T]],
    *,
    folder: Path | None = None,
    settings: dict[str, str] | None = None,
    opened: bool = True,
) -> T:
    """Run a story against a started node, in memory or in a folder, with its logs open; it is stopped in the end."""
    values = {"num.partitions": "2", "offsets.topic.num.partitions": "3", **(settings or {})}
    values["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,INSIDE:SSL,OUTSIDE:SASL_SSL"
    if folder is None:
        values["tallystick.in.memory"] = "true"
    else:
        values["log.dirs"] = str(folder)

    async def run() -> T:
        files = None if folder is None else LocalFiles(str(folder))
        environment = RealEnvironment(files, sync_threads=2)
        node = Node(BrokerConfig(values), environment)
        try:
            endpoints = {
                "PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", 9092),
                "OUTSIDE": Endpoint("OUTSIDE", "broker.example", 19092),
            }
            services = await node.start(endpoints)
            if opened:
                await services.topics.wait_until_open()
            result = await story(services)
            await node.stop()
            return result
        finally:
            environment.close()
            if files is not None:
                files.close()

    return asyncio.run(run())


async def handle(node: Services, request: Any, version: int, *, listener: str = "PLAINTEXT") -> Any:
    """What the handler of this request answers."""
    entry = next(one for one in load_handlers().values() if one.request is type(request))
    assert version in entry.versions
    connection = ConnectionInfo(connection_id=1, listener=listener, peer_host="127.0.0.1", peer_port=1)
    answer = entry.handler(node, RequestContext(connection, entry.api_key, version, 1, "test"), request)
    return await answer if hasattr(answer, "__await__") else answer

"""What may be asked of a process that is several nodes: to kill one and start it again, to move what one leads.

What is moved is led by the other node when the answer comes, and every node knows it. A node that was killed is not
waited for: the others find out as they would of any.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.api.services import Services
from broker.coordination.across_nodes.nodes import SharedNodes
from broker.coordination.coordinators import Shards
from coordinator.runtime import ShardState
from protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from storage.log import StorageFailed

SETTLING_S = 20.0
PAUSE_S = 0.02
COORDINATING = {"group": CONSUMER_OFFSETS, "transaction": TRANSACTION_STATE}


class Refused(Exception):
    """In a sentence."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node, killed or not."""

    node_id: int
    runs: bool
    address: str


class Several(Protocol):
    """The nodes of one process."""

    def services(self) -> list[Services]:
        """Those of the nodes that run, by id."""

    def seen(self) -> list[NodeSeen]:
        """All, by id."""

    async def kill(self, node_id: int) -> None:
        """As by `kill -9`. Raises `Refused`."""

    async def start_again(self, node_id: int) -> None:
        """Returns when it serves. Raises `Refused`."""


async def settle(living: Sequence[Services]) -> Services:
    """Until somebody controls, and each node knows what is durable; returns who. Raises `Refused`."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SETTLING_S
    while True:
        await _catch_up(living)
        controlling = next((services for services in living if services.cluster.leads), None)
        if controlling is not None:
            await _catch_up(living)
            return controlling
        if not living or loop.time() > deadline_s:
            raise Refused("no node controls the cluster")
        await asyncio.sleep(PAUSE_S)


async def _catch_up(living: Sequence[Services]) -> None:
    for services in living:
        if isinstance(services.nodes, SharedNodes):
            with contextlib.suppress(StorageFailed):  # a fault has ended it meanwhile
                await services.nodes.caught_up()


async def controller(several: Several) -> int:
    """Who takes changes of the metadata. Raises `Refused`."""
    return (await settle(several.services())).node_id


async def leader(several: Several, topic: str, partition: int) -> int:
    """Who leads a partition. Raises `Refused`."""
    return _leader(await settle(several.services()), topic, partition)


def _leader(services: Services, topic: str, partition: int) -> int:
    known = services.topics.by_name(topic)
    if known is None or not 0 <= partition < len(known.partitions):
        raise Refused(f"there is no partition {topic}-{partition}")
    return services.topics.leader(topic, partition)[0]


async def move_leader(several: Several, topic: str, partition: int, to: int) -> None:
    """Returns when the other node serves it. Raises `Refused`."""
    living = several.services()
    receiver = next((services for services in living if services.node_id == to), None)
    if receiver is None:
        raise Refused(f"no node {to} runs")
    controlling = await settle(living)
    if _leader(controlling, topic, partition) != to:
        known = controlling.topics.by_name(topic)
        assert known is not None, "its leader was found"
        named = [(known.topic_id, partition, to)]
        await controlling.cluster.ask(lambda machine, ticket: machine.elect(ticket, named))
        await _catch_up(living)
    await _served(receiver, topic, partition)


async def _served(services: Services, topic: str, partition: int) -> None:
    """Until a node that leads a partition has opened it, and read what its coordinator has to know."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SETTLING_S
    while loop.time() < deadline_s:
        known = services.topics.by_name(topic)
        if known is not None:
            await services.topics.wait_until_open([known])
            shards = _shards(services).get(topic)
            if known.partitions.here(partition) is not None and (shards is None or _is_ready(shards, partition)):
                return
        await asyncio.sleep(PAUSE_S)
    raise Refused(f"node {services.node_id} leads {topic}-{partition}, and does not serve it")


def _is_ready(shards: Shards[Any], partition: int) -> bool:
    shard = shards.shard(partition)
    return shard is not None and shard.state is ShardState.ACTIVE


def _shards(services: Services) -> dict[str, Shards[Any]]:
    kept = (services.groups, services.transactions, services.share_state.shards)
    return {shards.topic: shards for shards in kept}


def place(several: Several, kind: str, key: str) -> tuple[str, int]:
    """The partition whose leader coordinates a group or a transactional id. Raises `Refused`."""
    topic = COORDINATING.get(kind)
    if topic is None:
        raise Refused(f"there is no coordinator of a {kind}; there are {' and '.join(COORDINATING)}")
    living = several.services()
    if not living:
        raise Refused("no node runs")
    return topic, _shards(living[0])[topic].partition_for(key)

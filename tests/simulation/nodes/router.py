"""Which node a request goes to, for one client: the leader of a partition, the coordinator of a key, or any node.

What was found out stays until an answer says that it is wrong, or there is none. Then it is asked for again: at the
node that answered last, or at the next one.
"""

import asyncio
from collections.abc import Iterator, Sequence
from copy import copy
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.group_offsets import OffsetFetchRequest, TxnOffsetCommitRequest
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import DeleteRecordsRequest, ListOffsetsRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from tallystick.client.errors import ConnectionLost
from tests.harness.heard import HeardConnection
from tests.simulation.history import Place
from tests.simulation.world import World

HOST = "10.0.0.1"
LOOKUP_S = 1.5
"""How long an answer to a question for a leader or a coordinator is waited for."""
GROUP, TRANSACTION = 0, 1
WRONG = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which a client looks for the right node once more."""

Part = tuple[int, Any]
"""A node, and what it is asked."""


class Router:
    """See the head of this file."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._nodes = sorted(world.ports)
        self._any = Random(f"router {name} {world.plan.seed}").choice(self._nodes)
        self._leaders: dict[Place, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._connections: dict[int, HeardConnection] = {}
        self._has_racks = has_racks(world.plan.seed)
        racks = ["nowhere", *map(rack_of, self._nodes)]
        self._rack = Random(f"rack {name} {world.plan.seed}").choice(racks) if self._has_racks else ""
        self._near: dict[Place, int] = {}
        """Who of the client's rack reads for the leader, as that has said."""
        self.asked_near: dict[Place, int] = {}
        """Who was asked last, where it may read for the leader, whoever has said that it leads."""

    async def parts(self, request: object) -> list[Part]:
        """Whom to ask, and for what. Raises `ConnectionLost`, `OSError`."""
        if isinstance(request, ListTransactionsRequest):
            return [(node, request) for node in self._nodes]
        if isinstance(request, FetchRequest):
            return await self._fetched_from(request)
        places = list(_places(request))
        if places:
            return [(await self.leader(places[0]), request)]
        kind, key = _key(request)
        return [(await self._coordinator(kind, key) if key else self._any, request)]

    async def _fetched_from(self, request: FetchRequest) -> list[Part]:
        if not request.topics:  # What the session has already.
            return [(self._any, _with(request, rack_id=self._rack))]
        by_node: dict[int, list[Any]] = {}
        self.asked_near.clear()
        for topic in request.topics:
            of_topic: dict[int, list[Any]] = {}
            for one in topic.partitions:
                place = topic.topic, one.partition
                node = self._near.get(place) or await self.leader(place)
                if self._has_racks:
                    self.asked_near[place] = node
                of_topic.setdefault(node, []).append(one)
            for node, partitions in of_topic.items():
                by_node.setdefault(node, []).append(_with(topic, partitions=partitions))
        return [(node, _with(request, topics=topics, rack_id=self._rack)) for node, topics in by_node.items()]

    def _read_near(self, answer: FetchResponse) -> None:
        for topic in answer.responses:
            name = topic.topic or self._world.topic_names.get(topic.topic_id, "")
            for one in topic.partitions:
                if one.preferred_read_replica >= 0:
                    self._world.hit("router.near")
                    self._near[name, one.partition_index] = one.preferred_read_replica

    # -- looking for nodes -----------------------------------------------------------------------------------

    async def leader(self, place: Place) -> int:
        """Who leads it, as far as is known. Raises `ConnectionLost`, `OSError`."""
        if place not in self._leaders:
            answer = await self._ask_any(MetadataRequest(topics=[MetadataRequestTopic(name=place[0])]), 12)
            for one in answer.topics[0].partitions:
                if one.leader_id in self._nodes:
                    self._leaders[place[0], one.partition_index] = one.leader_id
        return self._leaders.get(place, self._any)

    async def _coordinator(self, kind: int, key: str) -> int:
        if (kind, key) not in self._coordinators:
            answer = await self._ask_any(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
            one = answer.coordinators[0]
            if one.error_code or one.node_id not in self._nodes:
                return self._any
            self._coordinators[kind, key] = one.node_id
        return self._coordinators[kind, key]

    async def _ask_any(self, request: object, version: int) -> Any:
        node = self._any
        try:
            async with asyncio.timeout(LOOKUP_S):
                return await (await self.connection(node)).ask(request, version)
        except (ConnectionLost, OSError) as error:
            self._next_one(node)
            raise ConnectionLost(str(error)) from error

    def _next_one(self, node: int) -> None:
        if self._any == node:
            self._any = self._nodes[(self._nodes.index(node) + 1) % len(self._nodes)]
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.abort()

    # -- connections -----------------------------------------------------------------------------------------

    async def connection(self, node: int) -> HeardConnection:
        """That to a node. Raises `ConnectionLost`, `OSError`."""
        known = self._connections.get(node)
        if known is None or known.is_lost:
            trace, port = self._world.history.trace, self._world.ports[node]
            try:
                known = await HeardConnection.hear(trace, HOST, port, client_id=self._name)
            except (ConnectionLost, OSError):
                self.forget()
                if self._any == node:
                    self._next_one(node)
                raise
            self._connections[node] = known
        return known

    def watched(self, node: int, answer: "asyncio.Future[Any]") -> "asyncio.Future[Any]":
        """The same answer; what it says of who is asked is taken notice of."""

        def look(done: "asyncio.Future[Any]") -> None:
            if done.cancelled() or done.exception() is not None:
                self.forget()
                self._next_one(node)
                return
            if isinstance(done.result(), FetchResponse):
                self._read_near(done.result())
            if WRONG.intersection(_codes(done.result())):
                self._world.hit("router.elsewhere")
                self.forget()

        answer.add_done_callback(look)
        return answer

    def forget(self) -> None:
        """Look for everybody anew."""
        self._leaders.clear()
        self._coordinators.clear()
        self._near.clear()

    def drop(self) -> None:
        """Give all connections up."""
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()
        self.forget()

    def joined(self, answers: "Sequence[asyncio.Future[Any]]") -> "asyncio.Future[Any]":
        """One answer made of those of several nodes; none where one of them did not answer."""
        loop = self._world.loop
        whole: asyncio.Future[Any] = loop.create_future()

        def take(_: object) -> None:
            if whole.done():
                return
            failed = next((one for one in answers if one.done() and one.exception() is not None), None)
            if failed is not None:
                whole.set_exception(failed.exception() or ConnectionLost("gone"))
            elif all(one.done() for one in answers):
                self._world.hit("router.joined")
                whole.set_result(_together([one.result() for one in answers]))

        for one in answers:
            one.add_done_callback(take)
        return whole


def has_racks(seed: int) -> bool:
    """Whether nodes read what others lead: what they say is compared with what they have said themselves alone."""
    return seed % 5 > 1


def rack_of(node: int) -> str:
    """Each has its own."""
    return f"rack-{node}"


def _together(answers: list[Any]) -> Any:
    first = answers[0]
    name = "responses" if hasattr(first, "responses") else "transaction_states"
    entries = [entry for one in answers for entry in getattr(one, name)]
    code = next((one.error_code for one in answers if one.error_code), 0)
    return _with(first, error_code=code, **{name: entries})


def _places(request: object) -> Iterator[Place]:
    """The partitions whose leader is asked."""
    if isinstance(request, ProduceRequest):
        yield from ((topic.name, one.index) for topic in request.topic_data for one in topic.partition_data)
    elif isinstance(request, ListOffsetsRequest | DeleteRecordsRequest):
        yield from ((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    elif isinstance(request, DescribeProducersRequest):
        yield from ((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    elif isinstance(request, WriteTxnMarkersRequest):
        topics = [topic for marker in request.markers for topic in marker.topics]
        yield from ((topic.name, index) for topic in topics for index in topic.partition_indexes)


def _key(request: Any) -> tuple[int, str]:
    """What a coordinator is looked for by; "" where any node may be asked."""
    if isinstance(request, AddPartitionsToTxnRequest):
        return TRANSACTION, request.v3_and_below_transactional_id
    if isinstance(request, DescribeTransactionsRequest):
        return TRANSACTION, request.transactional_ids[0]
    if isinstance(request, OffsetFetchRequest) and request.groups:
        return GROUP, request.groups[0].group_id
    transactional_id = getattr(request, "transactional_id", None)
    if transactional_id and not isinstance(request, TxnOffsetCommitRequest):
        return TRANSACTION, transactional_id
    return GROUP, getattr(request, "group_id", "") or ""


def _codes(message: Any) -> Iterator[int]:
    """All errors in an answer."""
    for name in type(message).__slots__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for one in value:
                if not hasattr(type(one), "__slots__"):
                    break
                yield from _codes(one)


def _with(message: Any, **changes: object) -> Any:
    """The same with some other fields."""
    changed = copy(message)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed

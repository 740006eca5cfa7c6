"""Three real nodes, over TCP. A client of a story has a connection to each, and asks the one that leads, coordinates or
controls what it asks for: who coordinates is decided by Kafka's hash, who leads is known from Metadata.
"""

import asyncio
import itertools
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.coordination.key_partition import partition_for
from protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.transactions import ListTransactionsRequest
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.scenarios.engine import Engine
from tests.scenarios.language import Scenario
from tests.scenarios.places.ageing import age_by_asking
from tests.scenarios.places.sockets import OURS

OF_GROUPS = ("group_id", "group", "groups", "group_ids", "groups_names")
OF_TRANSACTIONS = ("transactional_id", "v3_and_below_transactional_id", "transactional_ids", "transactions")
TO_LEADERS = {
    *("Produce", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch", "WriteTxnMarkers"),
    *("DescribeProducers", "ShareFetch", "ShareAcknowledge"),
}
OF_SHARES = {f"{verb}ShareGroupState" for verb in ("Initialize", "Read", "Write", "Delete")} | {
    "ReadShareGroupStateSummary"
}
OF_BOTH = ("AddOffsetsToTxn",)
"""They name a group, and are for the coordinator of a transaction."""
OF_ALL: dict[type, str] = {ListGroupsRequest: "groups", ListTransactionsRequest: "transaction_states"}
"""What is asked of every node, and the field of what each tells."""
FIRST, LAST = 1, 3
BROKER, LOGGERS = 4, 8
ENGINE = "console"
"""The client that the engine itself is. To others one broker is told of, as the stories have it."""
VERSION = 12
NO_TOPIC = urlsafe_b64encode(bytes(16)).decode().rstrip("=")
INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
_runs = itertools.count(1)


class Led:
    """Who leads what, as far as anybody has asked."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str | bytes, int], int] = {}
        self._counts: dict[str, int] = {}

    def learn(self, told: MetadataResponse) -> None:
        for topic in told.topics:
            if not topic.partitions:
                continue
            for one in topic.partitions:
                self._leaders[topic.name or "", one.partition_index] = one.leader_id
                self._leaders[topic.topic_id, one.partition_index] = one.leader_id
            self._counts[topic.name or ""] = len(topic.partitions)

    def leader(self, topic: str | bytes, index: int) -> int:
        return self._leaders.get((topic, index), LAST)

    @property
    def knows_coordinators(self) -> bool:
        return all(self._counts.get(name) for name in INTERNAL)

    def coordinator(self, topic: str, key: str) -> int:
        return self.leader(topic, partition_for(key, self._counts[topic]))


class AnswersFromSeveral(Exception):
    """One request speaks of what several nodes lead: a client makes several of it, a story does not."""


class RoutedConnection(Connection):
    """See the head of this file. It is not connected itself."""

    def __init__(self, client_id: str, to: dict[int, Connection], led: Led) -> None:
        super().__init__(client_id)
        self._to = to
        self._led = led
        self._fetched_from = LAST

    def ask(self, request: object, version: int | None = None) -> "asyncio.Future[Any]":
        if listed := OF_ALL.get(type(request)):
            asked = [one.ask(request, version) for one in self._to.values()]
            return asyncio.ensure_future(joined(asked, listed))
        answer = self._to[self._node_for(request)].ask(request, version)
        if isinstance(request, MetadataRequest | DescribeClusterRequest):
            answer.add_done_callback(self._learn)
        return answer

    def _learn(self, answer: "asyncio.Future[Any]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            return
        told = answer.result()
        if isinstance(told, MetadataResponse):
            self._led.learn(told)
        if self.client_id != ENGINE:
            del told.brokers[1:]

    @property
    def is_lost(self) -> bool:
        return any(one.is_lost for one in self._to.values())

    def abort(self) -> None:
        for one in self._to.values():
            one.abort()

    def _node_for(self, request: Any) -> int:
        api = type(request).__name__.removesuffix("Request")
        if api in TO_LEADERS:
            nodes = {self._led.leader(*one) for one in partitions_of(request)} or {self._fetched_from}
            self._fetched_from = only(nodes, api)
            return self._fetched_from
        if api in OF_SHARES:
            return only({self._led.coordinator(SHARE_GROUP_STATE, key) for key in share_keys(request)}, api)
        named = {int(one.resource_name) for one in getattr(request, "resources", None) or [] if is_a_node(one)}
        if named:
            return only(named, api)
        for topic, fields, beside in ((CONSUMER_OFFSETS, OF_GROUPS, OF_BOTH), (TRANSACTION_STATE, OF_TRANSACTIONS, ())):
            keys = [] if api in beside or api == "FindCoordinator" else list(keys_of(request, fields))
            if keys:
                # Fields of other versions are empty.
                named_keys = set(filter(None, keys)) or {""}
                return only({self._led.coordinator(topic, key) for key in named_keys}, api)
        return LAST


def only(nodes: set[int], api: str) -> int:
    if len(nodes) > 1:
        raise AnswersFromSeveral(api)
    return nodes.pop()


def is_a_node(resource: Any) -> bool:
    """Whether it is the settings, or the loggers, of one that there is."""
    name = str(resource.resource_name)
    return getattr(resource, "resource_type", 0) in (BROKER, LOGGERS) and name in map(str, range(FIRST, LAST + 1))


async def joined(asked: "list[asyncio.Future[Any]]", listed: str) -> Any:
    """What all nodes list, as one answer."""
    first, *others = await asyncio.gather(*asked)
    for other in others:
        getattr(first, listed).extend(getattr(other, listed))
    return first


def share_keys(request: Any) -> Iterator[str]:
    for topic in request.topics:
        topic_id = urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
        yield from (f"{request.group_id}:{topic_id}:{one.partition}" for one in topic.partitions)


def keys_of(request: Any, fields: tuple[str, ...]) -> Iterator[str]:
    """The keys in all of these fields."""
    for name in fields:
        value = getattr(request, name, None)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield one
            elif one is not None:
                yield from keys_of(one, fields)


def partitions_of(request: Any) -> Iterator[tuple[str | bytes, int]]:
    """Every partition that a request speaks of, whatever its fields are called."""
    for marker in getattr(request, "markers", None) or [request]:
        for topic in getattr(marker, "topics", None) or getattr(marker, "topic_data", None) or []:
            name = getattr(topic, "topic", "") or getattr(topic, "name", "") or getattr(topic, "topic_id", "")
            for one in getattr(topic, "partition_data", None) or getattr(topic, "partitions", None) or []:
                fields = ("index", "partition", "partition_index")
                yield name, next(getattr(one, field) for field in fields if hasattr(one, field))
            yield from ((name, index) for index in getattr(topic, "partition_indexes", None) or [])


class SeveralNodes:
    """Three nodes in one process."""

    name = "three nodes"
    powers = frozenset[str]()

    def __init__(self, folder: Path) -> None:
        options = [part for name, value in OURS.items() for part in ("--set", f"{name}={value}")]
        self.process = BrokerProcess(folder, options=[*options, "--nodes", str(LAST)])
        self.process.has_data = False
        self._led = Led()

    async def connect(self, client_id: str) -> Connection:
        to: dict[int, Connection] = {}
        for node_id, address in enumerate(self.process.bootstrap.split(","), FIRST):
            host, _, port = address.rpartition(":")
            to[node_id] = await Connection.connect(host, int(port), client_id=client_id, negotiate=False)
        made = RoutedConnection(client_id, to, self._led)
        while not self._led.knows_coordinators:
            for kind, key in (
                (0, "anybody"),
                (1, "anybody"),
                (2, f"anybody:{'A' * 22}:0"),
            ):  # Internal topics are made by the first question for a coordinator.
                await made.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
            await made.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in INTERNAL]), VERSION)
        return made

    async def pass_time(self, seconds: float) -> None:
        raise AssertionError("nobody can make real time pass")

    async def set_clock_back(self, seconds: float) -> None:
        raise AssertionError("nobody sets the clock of a real machine")

    async def end(self, how: str) -> None:
        raise AssertionError("what three nodes have in memory is gone with their process")

    async def restart(self) -> None:
        raise AssertionError("what three nodes have in memory is gone with their process")

    async def age(self, engine: Engine, transactional_id: str, epoch: int) -> None:
        await age_by_asking(engine, transactional_id, epoch)

    def arm(self, how: str, point: str) -> None:
        raise AssertionError("this server was started without fault points")

    async def meddle(self, engine: Engine, words: list[str]) -> None:
        raise AssertionError("nobody meddles with a real server")

    def play(self, scenario: Scenario) -> list[list[str]]:
        """Run the story once."""
        suffix = f".r0x{next(_runs)}"
        zero_ms = time.time_ns() // 1_000_000 - 3_600_000
        return asyncio.run(Engine(self, scenario, suffix=suffix, zero_ms=zero_ms).play())

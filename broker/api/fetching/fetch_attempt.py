"""One fetch request, which may have to look at its partitions more than once."""

from collections.abc import Callable
from typing import Final, Protocol

from broker.api.context import RequestContext
from broker.api.fetching.fetch_session import Wanted
from broker.api.fetching.fetch_sessions import FetchSessions, FetchView
from broker.api.fetching.fetched_partitions import (
    Reading,
    bounds_of,
    data_of,
    diverging_from,
    epoch_error,
    has_nothing_new,
    refusal_of,
    take_note,
)
from broker.api.permissions.need import WithAuthorizer
from broker.api.permissions.of_records import Readable
from broker.api.services import WithConfig, WithEndpoints, WithEnvironment, WithTopics
from broker.api.waiting import WaitingRoom, Watched
from broker.coordination.across_nodes.followed_partitions import FollowedPartitions
from broker.partitions.errors import storage_error
from broker.partitions.followed_partition import FollowedPartition
from broker.partitions.partition import Partition
from broker.process.logging import EventLog
from broker.process.memory_budget import AnswerBudget
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from storage.log import LogDamaged, OffsetOutOfRange

_log = EventLog("fetch")

READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)
NO_TOPIC_ID: Final = bytes(16)
IDS_SINCE = 13
BROUGHT_AT_ONCE = 32
"""Partitions of a shared store of which something is brought for one fetch."""
NEAR_SINCE = 11
"""From this version on a consumer may be sent to another node than the leader, and be served by one (KIP-392)."""
LEADER_HINTS_SINCE = 16
"""KIP-951: from this version on a response names the current leader. It does not help a client ahead of the leader."""


class FetchServices(WithAuthorizer, WithConfig, WithEndpoints, WithEnvironment, WithTopics, Protocol):
    """What these handlers use of the node."""

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def waiting(self) -> WaitingRoom: ...

    @property
    def answer_budget(self) -> AnswerBudget: ...

    @property
    def followed(self) -> FollowedPartitions | None: ...


class FetchAttempt:
    """See the head of this file."""

    __slots__ = (
        "_context", "_going_on", "_isolation_level", "_max_bytes", "_may_follow", "_min_bytes", "_nearer", "_rack",
        "_read_committed", "_readable", "_services", "_since", "_view",
    )  # fmt: skip

    def __init__(
        self,
        services: FetchServices,
        context: RequestContext,
        request: FetchRequest,
        view: FetchView,
        may_read: Readable | None,
    ) -> None:
        self._services = services
        self._context = context
        self._view = view
        self._going_on = view.session if view.incremental else None
        self._max_bytes = min(request.max_bytes, services.config.get_int("fetch.max.bytes"))
        if context.charge is not None:
            self._max_bytes = context.charge.fetch_limit(self._max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._isolation_level = request.isolation_level
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._readable = may_read
        self._may_follow = services.followed is not None and context.api_version >= NEAR_SINCE
        self._rack = request.rack_id if self._may_follow else ""
        self._since = 0 if services.followed is None else services.followed.looks
        self._nearer = self._nodes_nearer() if self._rack else []

    def enough(self, reading: Reading) -> bool:
        return reading.size_bytes >= self._min_bytes or reading.errors

    def again(self, last: bool) -> FetchResponse | None:
        """Look again after something has moved; `last` when the client waits no longer."""
        if self._context.charge is not None:
            self._context.charge.begin()
        reading = self.read()
        return self.answer(reading) if last or self.enough(reading) else None

    def read(self) -> Reading:
        reading, room = Reading(), self.room()
        self.begin_watching(reading.watched.append)
        for wanted in self.wanted():
            self.look_at(wanted, reading, room, reading.watched.append)
        return reading

    def begin_watching(self, watch: Callable[[Watched], None]) -> None:
        """A session watches all that it has looked at, for each of its fetches."""
        if self._going_on is not None:
            watch(self._going_on)

    def wanted(self) -> list[Wanted]:
        """What is to be looked at."""
        return self._view.due()

    def room(self) -> int:
        """How much the answer may hold."""
        return self._services.answer_budget.fetch_limit(self._max_bytes)

    def look_at(self, wanted: Wanted, reading: Reading, room: int, watch: Callable[[Watched], None]) -> None:
        """Read what is wanted of one partition, and have it watched."""
        partition, error = self._find(wanted)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._may_follow:
            partition = self._followed(wanted, reading)
            if reading.waits_for(wanted):
                return
        if partition is None:
            response = refusal_of(wanted, error)
            response.aborted_transactions = []  # null says that a log was looked into, as in Kafka
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._context.api_version >= LEADER_HINTS_SINCE:
                leader = self._leader(wanted.topic_id, wanted.index)
                if leader.leader_id != self._services.node_id:  # else there is nobody else to go to
                    response.current_leader = leader
            reading.refuse(wanted, response)
            return
        if self._going_on is not None:
            self._going_on.follow(wanted, partition)
        else:
            watch(partition)
        self._read_one(reading, wanted, partition, room - reading.size_bytes)

    def _find(self, wanted: Wanted) -> tuple[Partition | None, ErrorCode]:
        topics = self._services.topics
        if self._readable is not None and not self._may_read(self._readable, wanted):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if wanted.topic_id != NO_TOPIC_ID:
            partition = topics.partition_by_id(wanted.topic_id, wanted.index)
            if partition is None and topics.by_id(wanted.topic_id) is None:
                return None, ErrorCode.UNKNOWN_TOPIC_ID
        elif self._context.api_version >= IDS_SINCE:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        else:
            partition = topics.partition(wanted.topic, wanted.index)
        if partition is not None and partition.refusal:
            return None, partition.refusal
        return partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _followed(self, wanted: Wanted, reading: Reading) -> FollowedPartition | None:
        """What this node follows of another's partition; or `reading` says what to wait for. None where nobody else
        has it."""
        topics, followed = self._services.topics, self._services.followed
        assert followed is not None, "only then a reader's rack is looked at"
        named = wanted.topic_id == NO_TOPIC_ID
        topic = topics.by_name(wanted.topic) if named else topics.by_id(wanted.topic_id)
        if topic is None or self._services.nodes.leads(topic.topic_id, wanted.index):
            return None
        found = followed.partition(topic, wanted.index, wanted.fetch_offset, self._since)
        if isinstance(found, FollowedPartition):
            return found
        reading.away.append((wanted, found))
        reading.responses.append((wanted, refusal_of(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        return None

    def _nodes_nearer(self) -> list[int]:
        """Those of the reader's rack, where this one is of another (KIP-392)."""
        if self._services.config.rack == self._rack:
            return []
        reached = self._services.nodes.reached(self._context.connection.listener)
        return [node.node_id for node in reached if node.rack == self._rack]

    def _preferred(self, wanted: Wanted, partition: Partition) -> PartitionData | None:
        """Whom a reader is sent to by the leader, for what is there. Others read for whoever comes."""
        is_there = partition.log_start_offset <= wanted.fetch_offset <= partition.high_watermark
        if not is_there or isinstance(partition, FollowedPartition):
            return None
        response = bounds_of(wanted, partition)
        response.preferred_read_replica = self._nearer[wanted.index % len(self._nearer)]
        return response

    def _may_read(self, readable: Readable, wanted: Wanted) -> bool:
        if wanted.topic_id == NO_TOPIC_ID and self._context.api_version < IDS_SINCE:
            return readable.includes(wanted.topic)
        topic = self._services.topics.by_id(wanted.topic_id)
        return readable.includes(None if topic is None else topic.name)

    def _read_one(self, reading: Reading, wanted: Wanted, partition: Partition, room: int) -> None:
        if self._isolation_level not in ISOLATION_LEVELS:
            reading.refuse(wanted, refusal_of(wanted, ErrorCode.INVALID_REQUEST))
            return
        error = epoch_error(wanted, partition)
        if error:
            response = refusal_of(wanted, error)
            if error is ErrorCode.FENCED_LEADER_EPOCH and self._context.api_version >= LEADER_HINTS_SINCE:
                response.current_leader = self._leader(partition.topic_id, partition.index)
            reading.refuse(wanted, response)
            return
        if (diverging := diverging_from(wanted, partition)) is not None:
            reading.refuse(wanted, diverging)
            return
        if self._nearer and (near := self._preferred(wanted, partition)) is not None:
            reading.refuse(wanted, near)
            return
        if self._going_on is not None and has_nothing_new(wanted, partition, self._read_committed):
            self._going_on.rest(wanted, self._isolation_level)
            return
        first = not reading.size_bytes
        try:
            data = partition.read(
                wanted.fetch_offset,
                max(0, min(wanted.max_bytes, room)),
                read_committed=self._read_committed,
                at_least_one=first,
                to_send=self._context.connection.sends_files,
            )
            # More at once would only take its place in memory.
            may_bring = room > 0 and len(reading.away) < BROUGHT_AT_ONCE
            if not data.records and may_bring and (away := partition.log.away(wanted.fetch_offset)) is not None:
                reading.away.append((wanted, away))
        except OffsetOutOfRange:
            reading.refuse(wanted, refusal_of(wanted, ErrorCode.OFFSET_OUT_OF_RANGE))
            return
        except LogDamaged as damaged:
            reading.refuse(wanted, refusal_of(wanted, storage_error(damaged)))
            return
        except OSError as unread:  # of this log alone: the others are read on, as in Kafka
            _log.error("a partition cannot be read", topic=partition.topic, partition=wanted.index, reason=unread)
            reading.refuse(wanted, refusal_of(wanted, ErrorCode.KAFKA_STORAGE_ERROR))
            return
        reading.size_bytes += data.size_bytes
        reading.responses.append((wanted, data_of(wanted, data)))

    def _leader(self, topic_id: bytes, index: int) -> LeaderIdAndEpoch:
        leader, epoch = self._services.nodes.leader(topic_id, index)
        return LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)

    def answer(self, reading: Reading) -> FetchResponse:
        """Put an answer together; in a session only what its client does not know."""
        if self.is_throttled(reading):
            return self.nothing()
        topics: list[FetchableTopicResponse] = []
        for wanted, response in reading.responses:
            self.put(wanted, response, topics)
        return self.whole(topics, reading)

    def is_throttled(self, reading: Reading) -> bool:
        """Whether the client is over its quota, and gets nothing of what was read."""
        charge = self._context.charge
        return charge is not None and charge.fetched(reading.size_bytes) > 0

    def nothing(self) -> FetchResponse:
        """No partitions, which tells nothing of any. A session that begins here would seem to be of none: it ends."""
        if not self._view.incremental:
            self._services.fetch_sessions.end(self._view)
        return FetchResponse(session_id=self._view.session_id, responses=[])

    def put(self, wanted: Wanted, response: PartitionData, topics: list[FetchableTopicResponse]) -> None:
        """One partition into an answer, in which they stand as they were read: only neighbours share a topic, as in
        Kafka. What came although it is larger than `max_bytes` (KIP-74) comes first."""
        session = self._view.session
        has_news = session is None or take_note(wanted, response)
        if self._going_on is not None:
            if not has_news:
                return
            self._going_on.look(wanted)  # another of its fetches may have found that there was nothing more to tell
            if response.records:
                self._going_on.had_records(wanted)
        if not topics or topics[-1].topic_id != wanted.topic_id or topics[-1].topic != wanted.topic:
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[]))
        topics[-1].partitions.append(response)

    def whole(self, topics: list[FetchableTopicResponse], reading: Reading) -> FetchResponse:
        """The answer of these topics."""
        return FetchResponse(
            session_id=self._view.session_id,
            responses=topics,
            node_endpoints=self._endpoints(topics) if reading.moved_leader else [],
        )

    def _endpoints(self, topics: list[FetchableTopicResponse]) -> list[NodeEndpoint]:
        """Those of the leaders that are named."""
        named = {one.current_leader.leader_id for topic in topics for one in topic.partitions}
        return [
            NodeEndpoint(node_id=node.node_id, host=node.endpoint.host, port=node.endpoint.port, rack=node.rack)
            for node in self._services.nodes.reached(self._context.connection.listener)
            if node.node_id in named
        ]

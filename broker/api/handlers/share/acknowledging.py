"""What ShareFetch and ShareAcknowledge do alike: finding partitions, and having acknowledgements taken."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.api.context import RequestContext
from broker.api.permissions.need import WithAuthorizer, permissions_of
from broker.api.permissions.of_records import Readable
from broker.api.services import WithConfig, WithEnvironment, WithNodes, WithTopics
from broker.api.share_sessions import PartitionKey, ShareSessions
from broker.config.listeners import Endpoint
from broker.partitions.partition import Partition
from broker.partitions.share.acknowledging import Acknowledgement
from broker.partitions.share.share_partitions import SharePartitions
from broker.partitions.share.states import AcknowledgeType
from broker.process.time_slice import TimeSlice
from coordinator.share_state.answers import Verdict
from protocol.errors import ErrorCode

MEMBER_ID_MAX = 36
"""Characters; an id is a UUID as text."""
RENEW_SINCE = 2
TYPES_AT_ONCE = 10_000
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these a client is told who leads."""


class ShareServices(WithAuthorizer, WithConfig, WithEnvironment, WithNodes, WithTopics, Protocol):
    """What these handlers use of the node."""

    @property
    def share_sessions(self) -> ShareSessions: ...

    @property
    def share_partitions(self) -> SharePartitions: ...


class Batch(Protocol):
    """An acknowledgement, as both requests have it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def are_ids(group_id: str | None, member_id: str | None) -> bool:
    """Whether a request has the ids it needs."""
    return group_id is not None and bool(member_id) and len(member_id or "") <= MEMBER_ID_MAX


def reached_leaders(services: ShareServices, context: RequestContext, leaders: Iterable[int]) -> dict[int, Endpoint]:
    """Where the client finds the nodes that are named to it as leaders."""
    listener = context.connection.listener
    reached = ((leader, services.nodes.reach(leader, listener)) for leader in dict.fromkeys(leaders))
    return {leader: endpoint for leader, endpoint in reached if endpoint is not None}


class PartitionFinder:
    """The partitions that the client of one request may have."""

    def __init__(self, services: ShareServices, context: RequestContext, request: str) -> None:
        self._topics = services.topics
        permissions = permissions_of(services, context, request)
        self._readable = None if permissions is None else Readable(permissions)

    def find(self, key: PartitionKey) -> Partition | ErrorCode:
        """The partition, if it is there and open and the client may read it."""
        topic = self._topics.by_id(key[0])
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._readable is not None and not self._readable.includes(topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = self._topics.partition_by_id(*key)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return partition.refusal or partition


class Acknowledging:
    """The acknowledgements of one request: begun one after the other, waited for together."""

    def __init__(self, services: ShareServices, finder: PartitionFinder, group_id: str, member_id: str) -> None:
        self._partitions = services.share_partitions
        self._slice = services.environment.time_slice()
        self._finder = finder
        self._group_id = group_id
        self._member_id = member_id
        self._outcomes: dict[PartitionKey, Verdict] = {}
        self._writes: dict[PartitionKey, asyncio.Task[Verdict]] = {}

    async def take(
        self, said: Iterable[tuple[PartitionKey, Sequence[Batch]]], *, version: int, is_renew_ack: bool
    ) -> None:
        """Have what is said of partitions taken. Of one that is named twice the last counts, as in Kafka."""
        most = AcknowledgeType.RENEW if version >= RENEW_SINCE else AcknowledgeType.REJECT
        for key, batches in dict(await self._slice.all(said)).items():
            await self._begin(key, batches, most, renews=is_renew_ack)

    async def _begin(self, key: PartitionKey, batches: Sequence[Batch], most: AcknowledgeType, *, renews: bool) -> None:
        """Those of one partition. `most`: the last type that the version of the request knows."""
        outcome = await _refusal(self._finder, key, batches, self._slice, most=most, renews=renews)
        if outcome is not None or batches:  # of a partition of which nothing is said, nothing is answered
            self._outcomes[key] = outcome or await self._take(key, batches)
        await self._slice.give_way()

    async def _take(self, key: PartitionKey, batches: Sequence[Batch]) -> Verdict:
        said = await self._slice.each(_as_acknowledgement, batches)
        share_partition = self._partitions.find(self._group_id, key)
        if share_partition is None:
            return Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        begun = share_partition.acknowledge(self._member_id, said)
        if begun is None:
            return Verdict(share_partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._writes[key] = begun
        return Verdict(ErrorCode.NONE)

    async def outcomes(self) -> dict[PartitionKey, Verdict]:
        """What became of each, when it is kept."""
        for key, write in self._writes.items():
            self._outcomes[key] = await asyncio.shield(write)
            await self._slice.give_way()
        return self._outcomes


def _as_acknowledgement(batch: Batch) -> Acknowledgement:
    return Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)


async def _refusal(
    finder: PartitionFinder,
    key: PartitionKey,
    batches: Sequence[Batch],
    slice_: TimeSlice,
    *,
    most: AcknowledgeType,
    renews: bool,
) -> Verdict | None:
    """What is wrong with what a member says of a partition before anybody looks at its records."""
    before = -1
    for batch in batches:
        if not await _is_well_formed(batch, before, slice_, most=most, renews=renews):
            return Verdict(ErrorCode.INVALID_REQUEST)
        before = batch.last_offset
    found = finder.find(key)
    return Verdict(found) if isinstance(found, ErrorCode) else None


async def _is_well_formed(batch: Batch, before: int, slice_: TimeSlice, *, most: AcknowledgeType, renews: bool) -> bool:
    types = batch.acknowledge_types
    if batch.first_offset > batch.last_offset or batch.first_offset < before or not types:
        return False
    if len(types) > 1 and batch.last_offset - batch.first_offset != len(types) - 1:
        return False
    for at in range(0, len(types), TYPES_AT_ONCE):
        some = types[at : at + TYPES_AT_ONCE]
        if min(some) < 0 or max(some) > most or (AcknowledgeType.RENEW in some and not renews):
            return False
        await slice_.give_way()
    return True

"""Committing, fetching and deleting offsets: what is allowed when, and the records or answers that follow.

Who may commit is KIP-447's table. A transactional commit is judged here too, after its transaction was verified and
in the same step that writes it (I43); a member may still be fenced before the transaction ends, which does no harm, for
its offsets stay unstable until then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from coordinator.batch_room import STEP_BYTES, BatchRoom
from coordinator.groups.answers import validate_member
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.log_entries import committed_offset, offset_tombstone
from coordinator.groups.membership import GroupState, Membership
from coordinator.groups.offsets import OffsetStore, Partition, UnreadableOffset
from coordinator.groups.settings import GroupSettings
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import StreamsMember
from coordinator.machine import ProducerStamp, Record
from protocol.errors import ErrorCode
from protocol.primitives import as_int64

GROUP_ID_NOT_FOUND_SINCE = 9
MEMBER_EPOCH_SINCE = 9
NO_OFFSET = -1
DELETED_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """One partition of an OffsetCommit or TxnOffsetCommit."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, plain or (with a stamp) as part of a transaction."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    api_version: int
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = -1
    stamp: ProducerStamp | None = None


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic of an OffsetFetch."""

    topic: str
    topic_id: bytes
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """The answer for one partition."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """The answer for one topic."""

    topic: str
    topic_id: bytes
    partitions: list[FetchedOffset]


def validate_commit(group: Membership | None, commit: Commit) -> ErrorCode:
    """KIP-447's table, for classic groups and unknown groups (I41)."""
    transactional = commit.stamp is not None
    if group is None:
        if commit.generation < 0:
            # A group that only stores offsets; the record makes it.
            return ErrorCode.NONE
        old = transactional or commit.api_version < GROUP_ID_NOT_FOUND_SINCE
        return ErrorCode.ILLEGAL_GENERATION if old else ErrorCode.GROUP_ID_NOT_FOUND
    if commit.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if commit.generation >= 0 or commit.member_id or commit.instance_id is not None:
        error = validate_member(group, commit.member_id, commit.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if commit.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional:
        # Old transactional producers name neither member nor generation and are let through.
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def validate_fetch(group: ConsumerGroup | StreamsGroup | None, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether a member may ask where its group goes on; who does not say who it is may (KIP-848)."""
    if group is None or (member_id is None and epoch < 0):
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if _is_classic(member) else ErrorCode.STALE_MEMBER_EPOCH


def _is_classic(member: ConsumerMember | StreamsMember) -> bool:
    return isinstance(member, ConsumerMember) and member.classic is not None


def validate_commit_to_members(group: ConsumerGroup | StreamsGroup, commit: Commit) -> ErrorCode:
    """The same for a group that the broker itself leads (KIP-848, KIP-1071).

    An epoch that is not the member's any more will do for partitions it had then and has had ever since (KIP-1251). One
    stale offset fails all.
    """
    transactional = commit.stamp is not None
    if commit.generation < 0 and not group.members:
        return ErrorCode.NONE
    if transactional and commit.generation == -1 and not commit.member_id and commit.instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(commit.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and not _is_classic(member) and commit.api_version < MEMBER_EPOCH_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if commit.generation == member.epoch:
        return ErrorCode.NONE
    sinces = [_epoch_of(group, commit.member_id, one) for one in commit.offsets]
    if commit.generation < member.epoch and all(since is not None and commit.generation >= since for since in sinces):
        return ErrorCode.NONE
    # Producers of transactions know the code of the classic protocol only.
    return ErrorCode.ILLEGAL_GENERATION if transactional or _is_classic(member) else ErrorCode.STALE_MEMBER_EPOCH


def _epoch_of(group: ConsumerGroup | StreamsGroup, member_id: str, offset: OffsetToCommit) -> int | None:
    """The epoch in which a member got a partition, or the task that reads it, and has had it ever since."""
    if isinstance(group, ConsumerGroup):
        return group.members[member_id].epoch_of(offset.topic_id, offset.partition)
    subtopology = None if group.topology is None else group.topology.readers.get(offset.topic)
    return None if subtopology is None else group.members[member_id].epoch_of(subtopology, offset.partition)


def records_of_commit(commit: Commit, settings: GroupSettings, now_ms: int) -> tuple[list[Record], list[ErrorCode]]:
    """What to write, and the answer for each partition in the order of the request. All of it goes into one batch, or
    nothing is written."""
    room = BatchRoom(settings.max_batch_bytes)
    # In Kafka, too, an offset to be kept for ever expires at once.
    expires_ms = -1 if commit.retention_ms == -1 else as_int64(now_ms + commit.retention_ms)
    errors = []
    for wanted in commit.offsets:
        if _length(wanted.metadata) > settings.offset_metadata_max_size:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(ErrorCode.NONE)
        record = committed_offset(
            commit.group_id,
            wanted.topic,
            wanted.partition,
            offset=wanted.offset,
            leader_epoch=wanted.leader_epoch,
            metadata=wanted.metadata,
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=expires_ms,
            topic_id=wanted.topic_id,
        )
        if not room.add(record):
            # Kafka's answer to MESSAGE_TOO_LARGE, before all of it is made.
            return [], [ErrorCode.UNKNOWN_SERVER_ERROR for _ in commit.offsets]
    return room.records, errors


def _length(metadata: str) -> int:
    """In UTF-16 code units, as Java counts."""
    return len(metadata) + sum(character > "\uffff" for character in metadata)


FETCHED_AT_ONCE = 2_000
"""A caller that needs more partitions calls several times (decision 0016)."""


def fetch(
    store: OffsetStore, group_id: str, wanted: Sequence[WantedTopic], *, require_stable: bool
) -> list[FetchedTopic]:
    """What is committed for these partitions; UNSTABLE_OFFSET_COMMIT where a transaction is open and that matters."""
    return [
        FetchedTopic(
            topic.topic,
            topic.topic_id,
            [_fetch_one(store, group_id, topic, partition, require_stable) for partition in topic.partitions],
        )
        for topic in wanted
    ]


def fetch_all(
    store: OffsetStore, group_id: str, topic_id_of: Callable[[str], bytes], *, require_stable: bool
) -> list[FetchedTopic] | None:
    """Everything that is committed for topics as they are now; None where it is too much for one step. What is only
    staged is not listed."""
    committed = store.committed.get(group_id, {})
    if len(committed) > FETCHED_AT_ONCE:
        return None
    partitions: dict[str, list[int]] = {}
    for (topic, partition), stored in committed.items():
        if stored.is_of(topic_id_of(topic)):
            partitions.setdefault(topic, []).append(partition)
    wanted = [WantedTopic(topic, topic_id_of(topic), sorted(partitions[topic])) for topic in partitions]
    return fetch(store, group_id, wanted, require_stable=require_stable)


def _fetch_one(
    store: OffsetStore, group_id: str, topic: WantedTopic, partition: int, require_stable: bool
) -> FetchedOffset:
    if require_stable and store.is_unstable(group_id, topic.topic, partition):
        return FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    stored = store.get(group_id, topic.topic, partition)
    if stored is None or not stored.is_of(topic.topic_id):
        return FetchedOffset(partition)
    if isinstance(stored, UnreadableOffset):
        # An older one would be taken for the last, and none for the beginning.
        return FetchedOffset(partition, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    return FetchedOffset(partition, stored.offset, stored.leader_epoch, stored.metadata)


@dataclass(frozen=True, slots=True)
class DeletedOffsets:
    """The answer to OffsetDelete: an error for all, or one for each of the first partitions of the request."""

    error: ErrorCode
    errors: list[ErrorCode]


def validate_delete_offsets(group: Membership | ConsumerGroup | StreamsGroup | None) -> ErrorCode:
    """Offsets of a live group can be deleted only where we know its topics."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not isinstance(group, Membership):
        return ErrorCode.NONE
    if group.state is GroupState.EMPTY or group.uses_consumer_protocol:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def records_of_delete(
    store: OffsetStore,
    group: Membership | ConsumerGroup | StreamsGroup,
    wanted: Sequence[Partition],
    start: int,
    max_batch_bytes: int,
) -> tuple[list[Record], list[ErrorCode]]:
    """Tombstones for what is there, committed or staged, as many as one batch takes; the answer for each of those
    partitions, which begin at `start`. Nothing as long as it is still being read which topics the group wants."""
    if isinstance(group, Membership) and not group.knows_subscriptions():
        return [], []
    room = BatchRoom(min(STEP_BYTES, max_batch_bytes))
    deleted: set[Partition] = set()
    errors: list[ErrorCode] = []
    for key in islice(wanted, start, start + DELETED_AT_ONCE):
        if group.is_subscribed_to(key[0]):
            errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        known = store.get(group.group_id, *key) is not None or store.is_unstable(group.group_id, *key)
        if known and key not in deleted:
            if not room.add(offset_tombstone(group.group_id, *key)):
                break
            deleted.add(key)
        errors.append(ErrorCode.NONE)
    return room.records, errors

"""Takes in what `__consumer_offsets` says of streams groups.

Rule 1. A record of a member, a target or a topology makes its group; a tombstone of what is not there is nothing.
Rule 2. The tombstone of a group's own record ends it. Whatever compaction has left behind of an earlier life goes with
        it.
Rule 3. A value that cannot be read makes its group unreadable until it is deleted: half a group would give tasks to two
        members.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from coordinator.groups.held import Held
from coordinator.groups.streams.group import GroupFacts, StreamsGroup
from coordinator.groups.streams.member import (
    LEAVING_EPOCH,
    NOTHING_HELD,
    ActiveTasks,
    HeldTasks,
    MemberState,
    StreamsMember,
    TaskIds,
    Tasks,
)
from coordinator.groups.streams.records import (
    CurrentTaskIds,
    LoggedSubtopology,
    LoggedTopicInfo,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
)
from coordinator.groups.streams.topology import Copartitioned, InternalTopic, Subtopology, Topology
from coordinator.machine import ReplayedRecord, UnreadableValue
from protocol.codec import read_key, read_version, read_versioned
from protocol.errors import ProtocolError

STREAMS_TYPES = frozenset((17, 19, 20, 21, 22, 23))
"""Of keys."""


class StreamsGroups:
    """All streams groups of one shard, as its log has them."""

    def __init__(self, held: Held, on_first: Callable[[str], None]) -> None:
        """`on_first` is called with the id of a group of which the log has said nothing yet."""
        self.gone: list[tuple[str, str]] = []
        """Groups and members that the log has said are gone; no member: a group. Others take them away."""
        self._held = held
        self._on_first = on_first
        self.by_id: dict[str, StreamsGroup] = {}
        self.unreadable: set[str] = set()

    def replay(self, entry: ReplayedRecord) -> None:
        """Take in one record. Raises `UnreadableValue`, and `ProtocolError` where the key cannot
        be read."""
        value = entry.value
        match read_version(entry.key):
            case 17:
                group_id = read_key(StreamsGroupMetadataKey, entry.key).group_id
                self._read(group_id, entry, lambda: self._replay_facts(group_id, value))
            case 19:
                member = read_key(StreamsGroupMemberMetadataKey, entry.key)
                group_id = member.group_id
                self._read(group_id, entry, lambda: self._replay_member(group_id, member.member_id, value))
            case 20:
                group_id = read_key(StreamsGroupTargetAssignmentMetadataKey, entry.key).group_id
                self._read(group_id, entry, lambda: self._replay_assignment_epoch(group_id, value))
            case 21:
                target = read_key(StreamsGroupTargetAssignmentMemberKey, entry.key)
                group_id = target.group_id
                self._read(group_id, entry, lambda: self._replay_target(group_id, target.member_id, value))
            case 22:
                current = read_key(StreamsGroupCurrentMemberAssignmentKey, entry.key)
                group_id = current.group_id
                self._read(group_id, entry, lambda: self._replay_current(group_id, current.member_id, value))
            case _:
                group_id = read_key(StreamsGroupTopologyKey, entry.key).group_id
                self._read(group_id, entry, lambda: self._replay_topology(group_id, value))

    def _read(self, group_id: str, entry: ReplayedRecord, take: Callable[[], None]) -> None:
        try:
            take()
        except ProtocolError as error:
            self._made(group_id)
            self.unreadable.add(group_id)
            raise UnreadableValue(f"streams group {group_id!r}: {error}") from error

    def _made(self, group_id: str) -> StreamsGroup:
        group = self.by_id.get(group_id)
        if group is None:
            self._on_first(group_id)
            group = self.by_id[group_id] = StreamsGroup(group_id, self._held)
        return group

    def _replay_facts(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            group = self.by_id.pop(group_id, None)
            self.unreadable.discard(group_id)
            if group is not None:
                group.let_go()
                self.gone += [(group_id, member_id) for member_id in (*group.members, "")]
            return
        read = read_versioned(StreamsGroupMetadataValue, value)
        configs = tuple((one.key, one.value) for one in read.last_assignment_configs or ())
        self._made(group_id).facts = GroupFacts(read.epoch, read.metadata_hash, read.validated_topology_epoch, configs)

    def _replay_topology(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.declare(None)
            return
        read = read_versioned(StreamsGroupTopologyValue, value)
        subtopologies = tuple(_read_subtopology(one) for one in read.subtopologies)
        self._made(group_id).declare(Topology(read.epoch, subtopologies))

    def _replay_assignment_epoch(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.assignment_epoch, group.assignment_timestamp_ms = -1, 0
            return
        read = read_versioned(StreamsGroupTargetAssignmentMetadataValue, value)
        group = self._made(group_id)
        group.assignment_epoch, group.assignment_timestamp_ms = read.assignment_epoch, read.assignment_timestamp

    def _replay_member(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.remove(member_id)
                self.gone.append((group_id, member_id))
            return
        read = read_versioned(StreamsGroupMemberMetadataValue, value)
        group = self._made(group_id)
        known = group.members.get(member_id) or StreamsMember(member_id)
        endpoint = read.user_endpoint
        group.put(
            replace(
                known,
                instance_id=read.instance_id,
                rack_id=read.rack_id,
                client_id=read.client_id,
                client_host=read.client_host,
                rebalance_timeout_ms=read.rebalance_timeout_ms,
                topology_epoch=read.topology_epoch,
                process_id=read.process_id,
                endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
                tags=tuple((tag.key, tag.value) for tag in read.client_tags),
            )
        )

    def _replay_target(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            if (group := self.by_id.get(group_id)) is not None:
                group.aim(member_id, None)
            return
        read = read_versioned(StreamsGroupTargetAssignmentMemberValue, value)
        target = Tasks(_read_ids(read.active_tasks), _read_ids(read.standby_tasks), _read_ids(read.warmup_tasks))
        self._made(group_id).aim(member_id, target)

    def _replay_current(self, group_id: str, member_id: str, value: bytes | None) -> None:
        if value is None:
            group = self.by_id.get(group_id)
            known = None if group is None else group.members.get(member_id)
            if group is not None and known is not None:
                group.put(known.moved(LEAVING_EPOCH, known.state, NOTHING_HELD))
            return
        read = read_versioned(StreamsGroupCurrentMemberAssignmentValue, value)
        group = self._made(group_id)
        known = group.members.get(member_id) or StreamsMember(member_id)
        state = MemberState(read.state) if read.state in (1, 2, 3) else MemberState.UNKNOWN
        assigned = HeldTasks(
            _read_active(read.active_tasks, read.member_epoch),
            _read_ids(read.standby_tasks),
            _read_ids(read.warmup_tasks),
        )
        revoking = HeldTasks(
            _read_active(read.active_tasks_pending_revocation, read.member_epoch),
            _read_ids(read.standby_tasks_pending_revocation),
            _read_ids(read.warmup_tasks_pending_revocation),
        )
        group.put(
            replace(
                known,
                epoch=read.member_epoch,
                previous_epoch=read.previous_member_epoch,
                state=state,
                assigned=assigned,
                revoking=revoking,
            )
        )


def _read_ids(tasks: Sequence[CurrentTaskIds] | Sequence[TargetTaskIds]) -> TaskIds:
    return {one.subtopology_id: frozenset(one.partitions) for one in tasks}


def _read_active(tasks: Sequence[CurrentTaskIds], member_epoch: int) -> ActiveTasks:
    """A record of before Kafka 4.3 has no epochs of assignments: that of the member stands for them."""
    read = {}
    for one in tasks:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        read[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return read


def _read_subtopology(one: LoggedSubtopology) -> Subtopology:
    read = Subtopology(
        one.subtopology_id,
        tuple(one.source_topics),
        tuple(map(_read_topic, one.state_changelog_topics)),
        tuple(one.repartition_sink_topics),
        tuple(map(_read_topic, one.repartition_source_topics)),
        tuple(
            Copartitioned(tuple(group.source_topics), tuple(group.repartition_source_topics))
            for group in one.copartition_groups
        ),
    )
    if not read.has_its_copartitioned:
        raise ProtocolError(f"subtopology {one.subtopology_id!r} has no such topics to be copartitioned")
    return read


def _read_topic(topic: LoggedTopicInfo) -> InternalTopic:
    configs = tuple((one.key, one.value) for one in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)

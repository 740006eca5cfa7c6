"""ConsumerGroupHeartbeat: a member comes, says what it wants and has, and is told what it is to have.

Three steps: the member and its subscription; the target of the group, if it is older than the group; the member on its
way to the target. What follows for others they hear with their own heartbeats.
"""

from dataclasses import dataclass, replace

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.expressions import Changed, Expressions
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_entries import (
    current_assignment,
    group_epoch,
    member_metadata,
    member_tombstones,
    partition_metadata_tombstone,
    target_assignment,
)
from coordinator.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    ClassicFacet,
    ConsumerMember,
)
from coordinator.groups.consumer.reconciling import Owned, Reconciliation
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.groups.consumer.targets import new_targets, records_of_targets, target_of, topics_wanted, with_member
from coordinator.machine import Record
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Said:
    """What a member says. None: as before."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    regex_problem: str | None = None
    """What is wrong with the expression; it was looked at before."""
    assignor: str | None = None
    owned: Owned | None = None
    classic: ClassicFacet | None = None
    """Of one that speaks the classic protocol. Its epochs are not looked at here."""

    @property
    def is_full(self) -> bool:
        """Whether it has said everything there is to say; then it is answered likewise."""
        subscribed = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and subscribed and self.owned is not None


@dataclass(slots=True)
class Step:
    """What a heartbeat has come to."""

    before: ConsumerMember
    member: ConsumerMember
    records: list[Record]
    resolution: Resolution | None
    group_epoch: int
    resubscribed: bool
    """Whether the member wants other topics than before."""


class ConsumerHeartbeats:
    """Over the groups of one shard."""

    def __init__(self, shard: ConsumerShard, expressions: Expressions) -> None:
        self._shard = shard
        self._expressions = expressions

    # -- who it is -------------------------------------------------------------------------------------------

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Raises `Refusal` where the group has as many members as it may. Whoever comes under a known instance id takes
        the place of a member (KAFKA-20601)."""
        most = self._shard.settings.max_size
        is_known = member_id in group.members or group.static_member(instance_id) is not None
        if len(group.members) >= most and not is_known:
            sentence = f"The consumer group has reached its maximum capacity of {most} members."
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)

    def member(self, group: ConsumerGroup, said: Said, records: list[Record], *, joins: bool) -> ConsumerMember:
        """The member as it was, which may be a new one, or one in the place of another. Raises `Refusal`."""
        if said.instance_id is not None:
            return self._static_member(group, said, said.instance_id, records, joins=joins)
        member = group.members.get(said.member_id)
        if member is None:
            if not joins:
                sentence = f"Member {said.member_id} is not a member of group {group.group_id}."
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
            return ConsumerMember(said.member_id)
        if not joins:
            # One that was fenced has given everything up, and comes again under the id that it had (KIP-848).
            _check_epoch(member, said)
        return member

    def _static_member(
        self, group: ConsumerGroup, said: Said, instance_id: str, records: list[Record], *, joins: bool
    ) -> ConsumerMember:
        known = group.static_member(instance_id)
        if not joins:
            known = known_static(known, said.member_id, instance_id)
            _check_epoch(known, said)
            return known
        if known is None:
            return group.members.get(said.member_id) or ConsumerMember(said.member_id)
        if said.classic is None and known.classic is None and known.epoch != LEAVING_STATIC_EPOCH:
            sentence = (
                f"Static member {said.member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {known.member_id} member."
            )
            raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, sentence)
        back = replace(known, member_id=said.member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
        records += member_tombstones(group.group_id, known.member_id)
        records.append(member_metadata(group.group_id, back))
        target = group.target_of(known.member_id, instance_id)
        records.append(target_assignment(group.group_id, back.member_id, target))
        records.append(current_assignment(group.group_id, back))
        return back

    # -- what follows ----------------------------------------------------------------------------------------

    def subscribed(self, group: ConsumerGroup, said: Said, records: list[Record], now_ms: int, *, joins: bool) -> Step:
        """The member, and the epoch of the group after what it said. Raises `Refusal`."""
        before = self.member(group, said, records, joins=joins)
        member = _updated(before, said)
        if member != before:
            records.append(member_metadata(group.group_id, member))
            self._check_memory(group, member)
        named = member.topics != before.topics
        changed, regex_records = self._expressions.update(group, before, member, said.regex_problem)
        records += regex_records
        # Whoever asks for an expression speaks this protocol, and asks again soon.
        resolution = None if said.classic else self._expressions.due(group, before, member, now_ms)
        resubscribed = named or changed is not Changed.NOT
        # The target waits for an expression to be resolved, rather than to be computed twice.
        bumps = named or changed is Changed.RESOLVED or (said.classic is not None and resubscribed)
        epoch = self._group_epoch(group, member, records, bumps=bumps)
        return Step(before, member, records, resolution, epoch, resubscribed)

    def reconcile(self, group: ConsumerGroup, step: Step, owned: Owned | None, now_ms: int) -> None:
        """The member on its way to the target of the group, which is computed if it is due. Raises `Refusal`."""
        target_epoch, target = self._target(group, step, now_ms)
        self.reconcile_to(group, step, owned, target_epoch, target, now_ms)

    def reconcile_to(
        self, group: ConsumerGroup, step: Step, owned: Owned | None, epoch: int, target: Assignment, now_ms: int
    ) -> None:
        """The member on its way to a target. Raises `Refusal`."""
        member = step.member
        if not step.resubscribed and member.is_reconciled_to(epoch):
            return
        ids = self._ids(group, member)
        step.member = Reconciliation(epoch, target, ids, group.is_owned, owned, step.resubscribed).next_of(member)
        if step.member != member:
            step.records.append(current_assignment(group.group_id, step.member))
            if step.member.classic is None:
                self._shard.soft.follow_state(group.group_id, step.member, now_ms)

    def _check_memory(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        known = group.members.get(member.member_id)
        growth = member.held_bytes - (0 if known is None else known.held_bytes)
        if not self._shard.room.has(growth):
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No room for another member of a group.")

    def _group_epoch(self, group: ConsumerGroup, member: ConsumerMember, records: list[Record], *, bumps: bool) -> int:
        """The epoch of the group after this heartbeat: another one if its members or its topics have changed."""
        topics, soft = self._shard.topics, self._shard.soft
        revision = topics.revision
        if not bumps and soft.has_seen(group, revision):
            return group.epoch
        epoch = group.epoch
        metadata_hash = self._shard.hashes.of(topics_wanted(group, with_member(group, member)))
        if bumps or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(group_epoch(group.group_id, epoch, metadata_hash))
        soft.saw(group, revision, epoch)
        if group.has_partition_metadata:
            records.append(partition_metadata_tombstone(group.group_id))
        return epoch

    def _target(self, group: ConsumerGroup, step: Step, now_ms: int) -> tuple[int, Assignment]:
        member = step.member
        interval_ms = self._shard.settings.assignment_interval_ms(group.group_id)
        is_due = interval_ms == 0 or now_ms >= group.assignment_timestamp_ms + interval_ms
        if group.assignment_epoch >= step.group_epoch or not is_due:
            return group.assignment_epoch, group.target_of(member.member_id, member.instance_id)
        default = self._shard.settings.assignors[0]
        targets = new_targets(group, with_member(group, member), self._shard.topics, default)
        step.records += records_of_targets(group, targets, step.group_epoch, now_ms)
        return step.group_epoch, target_of(targets, member.member_id)

    def _ids(self, group: ConsumerGroup, member: ConsumerMember) -> set[bytes]:
        known = (self._shard.topics.by_name(name) for name in group.topics_of(member))
        return {topic.topic_id for topic in known if topic is not None}


def known_static(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The member of an instance id, if it is still the one that asks. Raises `Refusal`."""
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        sentence = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, sentence)
    return member


def _check_epoch(member: ConsumerMember, said: Said) -> None:
    """The answer that told the member its epoch may have been lost: then it comes with the one before."""
    if said.classic is not None or said.epoch == member.epoch:
        return
    if said.epoch > member.epoch:
        kind = "greater"
    elif said.epoch == member.previous_epoch and _is_within(said.owned, member):
        return
    else:
        kind = "smaller"
    sentence = (
        f"The consumer group member has a {kind} member epoch ({said.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, sentence)


def _is_within(owned: Owned | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(index in member.assigned.get(topic_id, ()) for topic_id, indexes in owned for index in indexes)


def _updated(member: ConsumerMember, said: Said) -> ConsumerMember:
    timeout_ms = said.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if said.instance_id is None else said.instance_id,
        rack_id=member.rack_id if said.rack_id is None else said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms is None else timeout_ms,
        topics=member.topics if said.topics is None else said.topics,
        regex=member.regex if said.regex is None else said.regex,
        assignor=member.assignor if said.assignor is None else said.assignor,
        classic=said.classic,
    )

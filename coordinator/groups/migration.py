"""How a group goes from the classic protocol to the consumer protocol and back, while its members work (KIP-848).

It becomes a consumer group with the first member that joins by the consumer protocol, its present members go on by the
classic one (`consumer.classic_members`). It becomes a classic group again when the last member of the consumer protocol
goes. `group.consumer.migration.policy` says which of the two may happen. A group without members changes at once.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from coordinator.groups.answers import join_refused, sync_refused
from coordinator.groups.assigning import assigned
from coordinator.groups.classic import ClassicProtocol
from coordinator.groups.consumer.embedded import assignment_bytes, ids_of, read_assignment, read_subscription
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_entries import consumer_group_tombstones, whole_group
from coordinator.groups.consumer.member import ClassicFacet, ConsumerMember
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.consumer.targets import topics_wanted
from coordinator.groups.held import Held
from coordinator.groups.log_entries import group_tombstone
from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import CONSUMER_PROTOCOL_TYPE, GroupState, Member, Membership
from coordinator.groups.rebalance import Rebalance, answer_join, answer_sync
from coordinator.groups.settings import GroupSettings
from coordinator.machine import AnyOutcome, Outcome
from protocol.errors import ErrorCode, ProtocolError


class Migration:
    """Over the groups of one shard."""

    def __init__(
        self,
        settings: GroupSettings,
        shard: ConsumerShard,
        logged: Mapping[str, LoggedGroup],
        others: Sequence[Container[str]],
        classic: ClassicProtocol,
        rebalance: Rebalance,
        held: Held,
    ) -> None:
        self._settings = settings
        self._shard = shard
        self._logged = logged
        self._others = others
        self._classic = classic
        self._rebalance = rebalance
        self._held = held
        self._to_rebalance: set[str] = set()
        """Groups that are about to be classic ones, whose members are to join again then."""

    def has(self, group_id: str) -> bool:
        """Whether there is a group of another protocol that has this id."""
        return group_id in self._logged or any(group_id in of_kind for of_kind in self._others)

    # -- to the consumer protocol ----------------------------------------------------------------------------

    def taken_over(self, group_id: str, outcome: AnyOutcome) -> ConsumerGroup:
        """A classic group as a consumer group, with the records that make it one. Raises `Refusal`."""
        group = self._classic.find(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.state is GroupState.EMPTY:
            outcome.records = [group_tombstone(group_id)]
            return ConsumerGroup(group_id)
        problem = self._upgrade_problem(group)
        if problem is not None:
            raise self._refused(group, problem)
        made = self._as_consumer_group(group)
        outcome.records = [group_tombstone(group_id), *whole_group(made)]
        return made

    def let_go(self, group_id: str, outcome: AnyOutcome, now_ms: int) -> None:
        """A classic group that was taken over is about to be one no more: who waits in it is told to come again."""
        group = self._classic.find(group_id)
        for member in () if group is None else group.members.values():
            answer_join(member, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), outcome)
            answer_sync(member, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), outcome)
            self._shard.soft.expect(group_id, member.member_id, now_ms + member.session_timeout_ms)

    def _upgrade_problem(self, group: Membership) -> str | None:
        if self._shard.settings.migration_policy not in ("upgrade", "bidirectional"):
            return "online upgrade is disabled."
        if not group.uses_consumer_protocol:
            return "the group does not use the consumer embedded protocol."
        if len(group.members) > self._shard.settings.max_size:
            return "the group size exceeds the consumer group maximum size."
        return None

    def _as_consumer_group(self, group: Membership) -> ConsumerGroup:
        made = ConsumerGroup(group.group_id)
        made.epoch = made.assignment_epoch = group.generation
        try:
            members = [self._as_consumer_member(group, member, made) for member in group.members.values()]
        except ProtocolError:
            sentence = "the embedded consumer protocol is malformed."
            raise self._refused(group, sentence) from None
        owned = [(topic_id, index) for member in members for topic_id, of in member.assigned.items() for index in of]
        if len(owned) != len(set(owned)):
            raise self._refused(group, "its leader has given partitions to several members.")
        for member in members:
            made.put(member)
        made.metadata_hash = self._shard.hashes.of(topics_wanted(made, made.members))
        return made

    def _refused(self, group: Membership, why: str) -> Refusal:
        sentence = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence)

    def _as_consumer_member(self, group: Membership, member: Member, made: ConsumerGroup) -> ConsumerMember:
        target: dict[bytes, frozenset[int]] = {}
        if member.assignment:
            assignment = read_assignment(member.assignment)
            if assignment.user_data:
                sentence = (
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                    "default assignor before re-attempting the upgrade."
                )
                raise self._refused(group, sentence)
            known = ids_of(assignment.assigned_partitions, self._shard.topics)
            target = {topic_id: frozenset(indexes) for topic_id, indexes in known}
        made.aim(member.member_id, target)
        subscription = read_subscription(member.metadata(group.protocol) or next(iter(member.protocols.values())))
        epoch = group.generation
        return ConsumerMember(
            member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            classic=ClassicFacet(member.session_timeout_ms, tuple(member.protocols.items())),
            epoch=epoch,
            previous_epoch=epoch,
            assigned={topic_id: dict.fromkeys(sorted(of), epoch) for topic_id, of in target.items()},
        )

    # -- to the classic protocol -----------------------------------------------------------------------------

    def downgraded(
        self, group: ConsumerGroup, gone: Iterable[ConsumerMember], outcome: AnyOutcome, now_ms: int
    ) -> bool:
        """If all that would be left without the members who are `gone` speak the classic protocol, and the settings
        allow it: make it a classic group. Whether it was."""
        going = {member.member_id for member in gone}
        left = [member for member in group.members.values() if member.member_id not in going]
        if not left or any(member.classic is None for member in left) or not self._may_downgrade(len(left)):
            return False
        records = list(consumer_group_tombstones(group))
        outcome.records = [*outcome.records, *records]
        self._make_classic(group, left, {}, outcome, now_ms, rebalance=True)
        return True

    def replaced(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        outcome: AnyOutcome,
        now_ms: int,
        *,
        rebalance: bool,
    ) -> None:
        """A static member of the classic protocol has taken the place of the last one of the consumer protocol; the
        records that say so are in the outcome already."""
        instead = {old.member_id: new.member_id}
        outcome.records = [*outcome.records, *consumer_group_tombstones(group, instead=instead)]
        left = [member for member in group.members.values() if member.member_id != old.member_id]
        self._make_classic(group, [*left, new], {new.member_id: old.member_id}, outcome, now_ms, rebalance=rebalance)

    def may_replace(self, group: ConsumerGroup, old: ConsumerMember) -> bool:
        """Whether a classic member in the place of `old` leaves no member of the consumer protocol."""
        alone = old.classic is None and group.classic_count == len(group.members) - 1
        return alone and self._may_downgrade(len(group.members))

    def _may_downgrade(self, count: int) -> bool:
        allowed = self._shard.settings.migration_policy in ("downgrade", "bidirectional")
        return allowed and count <= self._settings.max_size

    def _make_classic(
        self,
        group: ConsumerGroup,
        members: Iterable[ConsumerMember],
        target_ids: Mapping[str, str],
        outcome: AnyOutcome,
        now_ms: int,
        *,
        rebalance: bool,
    ) -> None:
        made = Membership(
            group.group_id,
            state=GroupState.STABLE,
            generation=group.epoch,
            state_timestamp_ms=now_ms,
            held=self._held,
        )
        for one in members:
            assert one.classic is not None
            member = Member(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.rebalance_timeout_ms,
                one.classic.session_timeout_ms,
                dict(one.classic.protocols),
            )
            made.add(member, CONSUMER_PROTOCOL_TYPE)
            self._rebalance.beat(made, member, now_ms)
        made.protocol = made.select_protocol()
        assignments = {
            member_id: assignment_bytes(
                group.targets.get(target_ids.get(member_id, member_id), {}),
                self._shard.topics,
                member.metadata(made.protocol),
            )
            for member_id, member in made.members.items()
        }
        self._classic.adopt(made)
        record = assigned(made, assignments)
        self._rebalance.wrote(record.value, record.group)
        outcome.records = [*outcome.records, record.record]
        self._to_rebalance.discard(group.group_id)
        if rebalance:
            self._to_rebalance.add(group.group_id)
        outcome.reason = f"group {group.group_id} goes on by the classic protocol"

    def follow(self, group_id: str, now_ms: int) -> None:
        """A record of a classic group was replayed."""
        if group_id in self._to_rebalance and group_id in self._logged:
            self._to_rebalance.discard(group_id)
            group = self._classic.find(group_id)
            if group is not None and group.members:
                self._rebalance.prepare(group, now_ms, Outcome())

"""The protocol of share groups (KIP-932): ShareGroupHeartbeat in all its meanings, and sessions.

The order of checks is Kafka's. What is logged stands in `group`; which partitions the share coordinator keeps in
`partitions`. Soft, and lost when the shard is loaded again: sessions, and what each group has seen of the topics.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator.groups.assignors.simple import assign_shares
from coordinator.groups.assignors.subject import Assignment, Subscriber
from coordinator.groups.consumer.metadata_hash import MetadataHashes
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.soft_state import RETRY_MS
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines
from coordinator.groups.held import Room
from coordinator.groups.share.answers import Errand, ShareAnswer, described, refused, told
from coordinator.groups.share.group import SHARED_PARTITION_BYTES, ShareGroup, ShareGroupState
from coordinator.groups.share.log_entries import (
    assignment_epoch,
    current_assignment,
    group_epoch,
    member_metadata,
    member_tombstones,
    target_assignment,
)
from coordinator.groups.share.log_reading import ShareGroups
from coordinator.groups.share.member import JOINING_EPOCH, LEAVING_EPOCH, ShareMember
from coordinator.groups.share.partitions import Shared
from coordinator.groups.share.settings import ShareGroupSettings
from coordinator.groups.share.under_way import UnderWay
from coordinator.machine import AnyOutcome, OperationRefused, Outcome, Record, Ticket
from protocol.errors import ErrorCode
from protocol.messages.share.groups import DescribedShareGroup, ShareGroupHeartbeatResponse


@dataclass(frozen=True, slots=True)
class Said:
    """What a member says, in a request that is valid in itself. None: as before."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] | None = None


class ShareProtocol:
    """The operations of the protocol over the groups of one shard."""

    def __init__(
        self,
        settings: ShareGroupSettings,
        groups: ShareGroups,
        topics: GroupTopics,
        deadlines: GroupDeadlines,
        room: Room,
        is_other: Callable[[str], bool],
    ) -> None:
        """`is_other` tells whether there is a group of another kind with this id."""
        self._settings = settings
        self._groups = groups
        self._topics = topics
        self._hashes = MetadataHashes(topics)
        self._deadlines = deadlines
        self._room = room
        self._is_other = is_other
        self._seen: dict[str, tuple[int, int]] = {}
        """Group → (revision of the topics that it has looked at, epoch of the group then)."""
        self._retries: dict[str, int] = {}
        """Group → when it looks again for partitions to initialise. Without an entry it has asked for none yet."""
        self._unanswered: dict[str, Counter[int]] = {}
        """Group → how many errands of each epoch were not answered; those that the log has refused never are."""
        self._under_way = UnderWay()
        self.forgetting: dict[str, Errand] = {}
        """Group → what the share coordinator is to forget; see `is_forgetting`."""

    # -- groups ----------------------------------------------------------------------------------------------

    def find(self, group_id: str) -> ShareGroup | None:
        """The group. Raises `OperationRefused` where a record of it cannot be read."""
        if group_id in self._groups.unreadable:
            raise OperationRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self._groups.by_id.get(group_id)

    def check_id(self, group_id: str) -> None:
        """Raises `Refusal` where there is a group of another kind."""
        if self._is_other(group_id):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    def existing(self, group_id: str, missing: str = "Group {} not found.") -> ShareGroup:
        """The group. Raises `Refusal` where there is none."""
        group = self.find(group_id)
        if group is None:
            self.check_id(group_id)
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, missing.format(group_id))
        return group

    def restore(self, now_ms: int) -> None:
        """The log was replayed: members have a session's time to show up."""
        self._groups.gone.clear()
        for group in self._groups.by_id.values():
            for member_id in group.members:
                self._expect(group.group_id, member_id, now_ms)

    def follow(self) -> None:
        """What was written is replayed: nothing is waited for of members who are gone, unless they are back."""
        for group_id, member_id in self._groups.gone:
            group = self._groups.by_id.get(group_id)
            if group is None:
                self._seen.pop(group_id, None)
                self._forget(group_id)
            if group is None or member_id not in group.members:
                self._deadlines.clear(DeadlineKey(DeadlineKind.SHARE_SESSION, group_id, member_id))
        self._groups.gone.clear()
        for group_id in self._under_way.groups() - self._groups.by_id.keys():  # the log has refused the group
            self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        self._retries.pop(group_id, None)
        self._unanswered.pop(group_id, None)
        self._under_way.forget(group_id)

    def _expect(self, group_id: str, member_id: str, now_ms: int) -> None:
        key = DeadlineKey(DeadlineKind.SHARE_SESSION, group_id, member_id)
        self._deadlines.set(key, now_ms + self._settings.session_timeout_ms(group_id))

    # -- ShareGroupHeartbeat ---------------------------------------------------------------------------------

    def heartbeat(self, said: Said, ticket: Ticket[ShareAnswer], now_ms: int) -> Outcome[ShareAnswer]:
        """A member comes, stays or leaves."""
        outcome: Outcome[ShareAnswer] = Outcome()
        try:
            answer = self._leave(said, outcome) if said.epoch == LEAVING_EPOCH else self._beat(said, outcome, now_ms)
        except Refusal as refusal:
            return Outcome(answers=[(ticket, refused(refusal))])
        outcome.answers.append((ticket, answer))
        return outcome

    def _leave(self, said: Said, outcome: AnyOutcome) -> ShareAnswer:
        group = self.existing(said.group_id)
        outcome.records = self._without(group, _known(group, said.member_id))
        return ShareAnswer(ShareGroupHeartbeatResponse(member_id=said.member_id, member_epoch=LEAVING_EPOCH))

    def _without(self, group: ShareGroup, member: ShareMember) -> list[Record]:
        """The group goes on without a member: the others get a new target with their next heartbeats."""
        names = [name for name, count in group.topic_members.items() if count > (name in member.topics)]
        epoch = group_epoch(group.group_id, group.epoch + 1, self._hashes.of(names))
        return [*member_tombstones(group.group_id, member.member_id), epoch]

    def _beat(self, said: Said, outcome: AnyOutcome, now_ms: int) -> ShareAnswer:
        group_id, joins = said.group_id, said.epoch == JOINING_EPOCH
        group = self.find(group_id)
        if group is None and joins:
            self.check_id(group_id)
            group = ShareGroup(group_id)
        elif group is None:
            group = self.existing(group_id, "Share group {} not found.")
        before = self._member(group, said)
        member = _updated(before, said)
        records: list[Record] = []
        if member != before:
            known = group.members.get(member.member_id)
            self.check_room(member.held_bytes - (0 if known is None else known.held_bytes))
            records.append(member_metadata(group_id, member))
        names = _names(group, before, member)
        epoch = self._epoch(group, names, records, bumps=member.topics != before.topics)
        target_epoch, target = self._target(group, member, epoch, records, now_ms)
        member = self._reconciled(before, member, target_epoch, target)
        if (member.epoch, member.assigned) != (before.epoch, before.assigned):
            records.append(current_assignment(group_id, member))
        errand = self._errand(group, epoch, names, records, now_ms)
        outcome.records = records
        self._expect(group_id, member.member_id, now_ms)
        with_assignment = joins or said.topics is not None or member.assigned != before.assigned
        interval_ms = self._settings.heartbeat_interval_ms(group_id)
        return ShareAnswer(told(member, interval_ms, with_assignment=with_assignment), errand)

    def _member(self, group: ShareGroup, said: Said) -> ShareMember:
        """The member as it was, which may be a new one. Raises `Refusal`."""
        most = self._settings.max_size
        if len(group.members) >= most and said.member_id not in group.members:
            sentence = f"The share group has reached its maximum capacity of {most} members."
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)
        if said.epoch == JOINING_EPOCH:
            return group.members.get(said.member_id) or ShareMember(said.member_id)
        member = _known(group, said.member_id)
        if said.epoch > member.epoch:
            problem = (
                f"a greater member epoch ({said.epoch}) than the one known by the group coordinator ({member.epoch})."
            )
        elif said.epoch < member.epoch and said.epoch != member.previous_epoch:
            problem = (
                f"a smaller member epoch ({said.epoch}) than the one known by the group coordinator ({member.epoch}), "
                f"and it does not match the previous member epoch ({member.previous_epoch})."
            )
        else:
            return member
        sentence = f"The share group member has {problem} The member must abandon all its partitions and rejoin."
        raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, sentence)

    def check_room(self, growth_bytes: int) -> None:
        """Raises `Refusal` where groups hold too much already."""
        if not self._room.has(growth_bytes):
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No room for more of a share group.")

    def _epoch(self, group: ShareGroup, names: list[str], records: list[Record], *, bumps: bool) -> int:
        """The epoch of the group after this heartbeat: another one if its members, their topics or the partitions that
        they may have are others than before."""
        pending = group.is_target_old and bool(group.members) and group.epoch <= group.assignment_epoch
        if not bumps and not pending and self._has_seen(group):
            return group.epoch
        metadata_hash = self._hashes.of(names)
        if not bumps and not pending and metadata_hash == group.metadata_hash:
            return group.epoch
        records.append(group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _has_seen(self, group: ShareGroup) -> bool:
        """Whether the group has looked at the topics as they are, and what came of that was written."""
        seen = self._seen.get(group.group_id)
        return seen is not None and seen[0] == self._topics.revision and group.epoch >= seen[1]

    def _target(
        self, group: ShareGroup, member: ShareMember, epoch: int, records: list[Record], now_ms: int
    ) -> tuple[int, Assignment]:
        interval_ms = self._settings.assignment_interval_ms(group.group_id)
        is_due = interval_ms == 0 or now_ms >= group.assignment_timestamp_ms + interval_ms
        if group.assignment_epoch >= epoch or not is_due:
            return group.assignment_epoch, group.targets.get(member.member_id, {})
        targets = assign_shares(
            {
                one.member_id: Subscriber(self._ids(one.topics), group.targets.get(one.member_id, {}))
                for one in (group.members | {member.member_id: member}).values()
            },
            {topic_id: topic.partitions for topic_id, topic in group.initialized.items()},
        )
        records += [
            target_assignment(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if group.targets.get(member_id) != target
        ]
        records.append(assignment_epoch(group.group_id, epoch, now_ms))
        return epoch, targets[member.member_id]

    def _ids(self, names: frozenset[str]) -> tuple[bytes, ...]:
        known = (self._topics.by_name(name) for name in sorted(names))
        return tuple(topic.topic_id for topic in known if topic is not None)

    def _reconciled(self, before: ShareMember, member: ShareMember, epoch: int, target: Assignment) -> ShareMember:
        """The member with what it is to have: at once, for others may have it as well. What it does not want it does
        not get, though the target may be older than that."""
        if member.epoch == epoch and member.topics == before.topics:
            return member
        wanted = set(self._ids(member.topics))
        assigned = {topic_id: of for topic_id, of in target.items() if topic_id in wanted}
        previous = member.previous_epoch if member.epoch == epoch else member.epoch
        return replace(member, epoch=epoch, previous_epoch=previous, assigned=assigned)

    def _errand(
        self, group: ShareGroup, epoch: int, names: list[str], records: list[Record], now_ms: int
    ) -> Errand | None:
        """Partitions that are to be initialised. What was asked for in an earlier life of this machine, and never
        heard of, is asked for at once. Each errand has an epoch that no other had: one that is late, or is of who
        coordinated the group before, finds a later one and changes nothing."""
        group_id, retry_ms = group.group_id, self._settings.initialize_retry_interval_ms
        due_ms = self._retries.get(group_id)
        waits = due_ms is None or now_ms < due_ms <= now_ms + retry_ms  # else the clock was set back
        if self._has_seen(group) and not records and waits:
            return None
        if self.is_forgetting(group):
            return None
        since_ms = now_ms - retry_ms if group_id in self._retries else now_ms
        before = Shared.of(group).without_deleted(self._topics)
        wanted = before.missing(names, self._topics, since_ms, now_ms)
        if wanted:
            self.check_room(growth_of(wanted))
        shared = before.begun(wanted, self._topics)
        if wanted or shared != Shared.of(group):
            # Should the log refuse this, the next heartbeat looks again.
            records.append(shared.record(group_id))
            self._seen.pop(group_id, None)
        else:
            self._seen[group_id] = (self._topics.revision, epoch)
        if wanted:
            if epoch == group.epoch:
                epoch += 1
                records.append(group_epoch(group_id, epoch, group.metadata_hash))
        elif not shared.initializing:
            self._retries.pop(group_id, None)
        return self.asked(Errand(group_id, epoch, wanted), now_ms) if wanted else None

    def is_asking_with(self, group: ShareGroup) -> bool:
        """Whether an errand with the epoch that the group has was not answered yet, in this life of the machine."""
        return self._unanswered.get(group.group_id, Counter())[group.epoch] > 0

    def asked(self, errand: Errand, now_ms: int) -> Errand:
        """The share coordinator is being asked to keep partitions for the group."""
        self._unanswered.setdefault(errand.group_id, Counter())[errand.state_epoch] += 1
        self._retries[errand.group_id] = now_ms + self._settings.initialize_retry_interval_ms
        self._under_way.begin(errand)
        return errand

    def is_forgetting(self, group: ShareGroup) -> bool:
        """Whether the share coordinator is being asked to forget partitions of it: nothing is initialised then. Where
        the log has refused to say so, it was never asked."""
        errand = self.forgetting.get(group.group_id)
        return errand is not None and errand.partitions.keys() <= group.deleting.keys()

    def answered(self, errand: Errand, kept: Assignment) -> tuple[list[Record], Assignment]:
        """The share coordinator has answered, and keeps these of the partitions that it was asked for; returns which of
        them are initialised by that. What it was asked for again meanwhile waits for that. An errand of an earlier life
        of this machine is the last one only where the group's epoch is still the one that it was begun with."""
        unanswered = self._unanswered.get(errand.group_id, Counter())
        unanswered[errand.state_epoch] -= 1
        if not +unanswered:
            self._unanswered.pop(errand.group_id, None)
        asked, group = self._under_way.end(errand), self.find(errand.group_id)
        if asked is None and group is not None and errand.state_epoch == group.epoch:
            asked = errand.partitions
        if group is None or asked is None:
            return [], {}
        made = {topic_id: found for topic_id, of in asked.items() if (found := of & kept.get(topic_id, frozenset()))}
        failed = {topic_id: of - made.get(topic_id, frozenset()) for topic_id, of in asked.items()}
        if any(failed.values()):
            self._seen.pop(errand.group_id, None)
        after = Shared.of(group).done(made).given_up(failed)
        return [] if after == Shared.of(group) else [after.record(errand.group_id)], made

    # -- administration --------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedShareGroup:
        """One group, or why not."""
        try:
            return described(self.existing(group_id), self._topics)
        except Refusal as refusal:
            return DescribedShareGroup(group_id=group_id, error_code=refusal.error, error_message=refusal.message)

    def listed(self, states: frozenset[ShareGroupState]) -> list[tuple[str, ShareGroupState]]:
        """The ids of groups in these states."""
        known = ((group.group_id, group.state) for group in self._groups.by_id.values())
        return [one for one in known if one[1] in states]

    # -- sessions --------------------------------------------------------------------------------------------

    def expire(self, key: DeadlineKey, now_ms: int, outcome: AnyOutcome) -> None:
        """A member was not heard of in time."""
        group = self._groups.by_id.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None or key.group_id in self._groups.unreadable:
            self._deadlines.clear(key)
            return
        # Should the log refuse: once more in a while. The replay of what it takes clears this.
        self._deadlines.set(key, now_ms + RETRY_MS)
        outcome.records = self._without(group, member)
        outcome.reason = f"member {key.member_id} of share group {key.group_id} was given up"


def growth_of(partitions: Assignment) -> int:
    """What it takes to have the share coordinator keep them."""
    return SHARED_PARTITION_BYTES * sum(map(len, partitions.values()))


def _known(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _updated(member: ShareMember, said: Said) -> ShareMember:
    return replace(
        member,
        rack_id=member.rack_id if said.rack_id is None else said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topics=member.topics if said.topics is None else said.topics,
    )


def _names(group: ShareGroup, before: ShareMember, member: ShareMember) -> list[str]:
    """The topics that any member wants after this heartbeat."""
    known = before.topics if before.member_id in group.members else frozenset[str]()
    if known == member.topics:
        return list(group.topic_members)
    left = {name for name, count in group.topic_members.items() if count > (name in known)}
    return list(left | member.topics)

"""What administrators do with share groups: offsets are set and deleted, groups are deleted. Only of groups without
members, and in two steps, for the share coordinator is asked in between.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.share.answers import Errand, Prepared
from coordinator.groups.share.group import ShareGroup, ShareGroupState
from coordinator.groups.share.log_entries import group_epoch, share_group_tombstones
from coordinator.groups.share.log_reading import ShareGroups
from coordinator.groups.share.partitions import Shared
from coordinator.groups.share.protocol import ShareProtocol, growth_of
from coordinator.machine import Outcome, Record, Ticket
from protocol.errors import ErrorCode
from protocol.messages.share.groups import DescribedShareGroup

NOT_EMPTY = "The group is not empty."
PASSABLE = 1 << 30
"""A later epoch than this is not passed: the group is to have room for changes of its own."""


class ShareAdministration:
    """Over the groups of one shard."""

    def __init__(self, protocol: ShareProtocol, groups: ShareGroups, topics: GroupTopics) -> None:
        self._protocol = protocol
        self._groups = groups
        self._topics = topics

    def begin_setting(
        self, group_id: str, partitions: Assignment, ticket: Ticket[Prepared], now_ms: int
    ) -> Outcome[Prepared]:
        """Offsets of partitions are to be set, which is to begin anew with them. A group that is not there is made."""
        try:
            group = self._idle(group_id, make=True)
            self._protocol.check_room(growth_of(partitions))
        except Refusal as refusal:
            return _refused(ticket, refusal)
        errand = Errand(group_id, group.epoch, partitions)
        if not any(partitions.values()):
            return Outcome(answers=[(ticket, Prepared(errand=errand))])
        records = [Shared.of(group).begun(partitions, self._topics).record(group_id)]
        if self._protocol.is_asking_with(group):
            errand = replace(errand, state_epoch=group.epoch + 1)
            records.append(group_epoch(group_id, errand.state_epoch, group.metadata_hash))
        self._protocol.asked(errand, now_ms)
        return Outcome(records, answers=[(ticket, Prepared(errand=errand))], reason=f"offsets of {group_id} are set")

    def begin_forgetting(
        self, group_id: str, topic_ids: Iterable[bytes] | None, ticket: Ticket[Prepared], now_ms: int
    ) -> Outcome[Prepared]:
        """Nothing is to be kept any more of these topics, or of any. Answers what there is of them."""
        try:
            group = self._idle(group_id, make=False)
        except Refusal as refusal:
            return _refused(ticket, refusal)
        shared = Shared.of(group)
        partitions = shared.partitions(self._topics)
        if topic_ids is not None:
            asked = set(topic_ids)
            partitions = {topic_id: of for topic_id, of in partitions.items() if topic_id in asked}
        after = shared.leaving(partitions)
        records = [after.record(group_id)] if after != shared else []
        answer = Prepared(errand=Errand(group_id, group.epoch, partitions))
        assert answer.errand is not None
        self._protocol.forgetting[group_id] = answer.errand
        return Outcome(records, answers=[(ticket, answer)], reason=f"{group_id} is to be forgotten")

    def forgotten(self, errand: Errand, gone: Iterable[bytes], ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
        """The share coordinator keeps nothing of these topics any more; it was asked for all of the errand."""
        if self._protocol.forgetting.get(errand.group_id) is errand:
            del self._protocol.forgetting[errand.group_id]
        group = self._protocol.find(errand.group_id)
        records: list[Record] = []
        if group is not None:
            after = Shared.of(group).forgotten(gone)
            records = [after.record(errand.group_id)] if after != Shared.of(group) else []
        return Outcome(records, answers=[(ticket, True)], reason=f"{errand.group_id} is forgotten")

    def delete(self, group_id: str, ticket: Ticket[ErrorCode | None], now_ms: int) -> Outcome[ErrorCode | None]:
        """Delete a group that is there, of which the share coordinator keeps nothing any more; or one whose records
        cannot be read. Where somebody has begun with it again since that was forgotten, COORDINATOR_NOT_AVAILABLE."""
        group = self._groups.by_id[group_id]
        if group_id not in self._groups.unreadable:
            if group.members:
                return Outcome(answers=[(ticket, ErrorCode.NON_EMPTY_GROUP)])
            if group.initializing or group.initialized or group.deleting:
                return Outcome(answers=[(ticket, ErrorCode.COORDINATOR_NOT_AVAILABLE)])
        records = list(share_group_tombstones(group))
        return Outcome(records, answers=[(ticket, ErrorCode.NONE)], reason=f"share group {group_id} deleted")

    def kept(self, group_id: str, ticket: Ticket[Assignment], now_ms: int) -> Outcome[Assignment]:
        """Answers the partitions that the share coordinator keeps for the group; none for one that is not there."""
        group = self._protocol.find(group_id)
        known = {} if group is None else group.initialized
        return Outcome(answers=[(ticket, {topic_id: topic.partitions for topic_id, topic in known.items()})])

    def answered(
        self, errand: Errand, kept: Assignment, ticket: Ticket[Assignment], now_ms: int
    ) -> Outcome[Assignment]:
        """The share coordinator keeps these of the partitions that it was asked to keep. Answers which of them it was
        not asked for again since: those are initialised."""
        records, made = self._protocol.answered(errand, kept)
        return Outcome(records, answers=[(ticket, made)], reason=f"{errand.group_id}: partitions are initialised")

    def pass_by(
        self, group_id: str, kept: Mapping[tuple[bytes, int], int], ticket: Ticket[Errand | None], now_ms: int
    ) -> Outcome[Errand | None]:
        """Partitions that the group still waits for are kept with an epoch that it never had: its epoch becomes a later
        one, with which they are to be initialised. None where that is not so: who has begun with them since is of this
        group, and may have been answered."""
        group = self._protocol.find(group_id)
        waits_for = {} if group is None else group.initializing
        later: dict[bytes, frozenset[int]] = {}
        for (topic_id, partition), epoch in kept.items():
            topic = waits_for.get(topic_id)
            if (
                group is not None
                and topic is not None
                and partition in topic.partitions
                and group.epoch < epoch < PASSABLE
            ):
                later[topic_id] = later.get(topic_id, frozenset()) | {partition}
        if group is None or not later:
            return Outcome(answers=[(ticket, None)])
        epoch = 1 + max(kept[topic_id, one] for topic_id, of in later.items() for one in of)
        records = [group_epoch(group_id, epoch, group.metadata_hash)]
        return Outcome(records, answers=[(ticket, Errand(group_id, epoch, later))], reason=f"{group_id}: epoch {epoch}")

    def list_groups(
        self, states: frozenset[ShareGroupState], ticket: Ticket[list[tuple[str, ShareGroupState]]], now_ms: int
    ) -> Outcome[list[tuple[str, ShareGroupState]]]:
        """Answers the ids of the groups in these states."""
        return Outcome(answers=[(ticket, self._protocol.listed(states))])

    def describe(self, group_id: str, ticket: Ticket[DescribedShareGroup], now_ms: int) -> Outcome[DescribedShareGroup]:
        """Answers one group, or why not."""
        return Outcome(answers=[(ticket, self._protocol.describe(group_id))])

    def _idle(self, group_id: str, *, make: bool) -> ShareGroup:
        """A group that nobody uses. Raises `Refusal`."""
        group = self._protocol.find(group_id)
        if group is None and make:
            self._protocol.check_id(group_id)
            return ShareGroup(group_id)
        group = self._protocol.existing(group_id)
        if group.members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
        if self._protocol.is_forgetting(group):
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being deleted.")
        return group


def _refused(ticket: Ticket[Prepared], refusal: Refusal) -> Outcome[Prepared]:
    return Outcome(answers=[(ticket, Prepared(refusal.error, refusal.message))])

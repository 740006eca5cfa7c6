"""The group coordinator: the machine behind one partition of `__consumer_offsets`.

Logged (`ledger`): generations with their assignments, and offsets. `replay` alone writes it, in the same way live and
on load. Soft (`membership`): who is joining, who waits, every deadline; operations change it, and after a record was
replayed it follows (`ClassicProtocol.follow`), which finds nothing to do on load. After a reload waiting requests have
been answered NOT_COORDINATOR, and loaded members have a session's time to heartbeat.

Operations take a ticket and the time, and return an `Outcome`. Fresh ids for members come as arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from coordinator.groups.answers import join_refused, sync_refused
from coordinator.groups.classic import ClassicProtocol
from coordinator.groups.commits import (
    Commit,
    DeletedOffsets,
    FetchedTopic,
    WantedTopic,
    fetch,
    fetch_all,
    records_of_commit,
    records_of_delete,
    validate_commit,
    validate_commit_to_members,
    validate_delete_offsets,
    validate_fetch,
)
from coordinator.groups.consumer.answers import HeartbeatAnswer, ShownConsumerGroup
from coordinator.groups.consumer.classic_members import ClassicMembers
from coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from coordinator.groups.consumer.heartbeats import Said
from coordinator.groups.consumer.metadata_hash import MetadataHashes
from coordinator.groups.consumer.protocol import ConsumerProtocol
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.consumer.soft_state import MEMBER_KINDS, Resolution, SoftState
from coordinator.groups.consumer.topics import GroupTopics, NoTopics
from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines
from coordinator.groups.growth import growth_by_commit
from coordinator.groups.held import Held, Room
from coordinator.groups.joining import Caller
from coordinator.groups.logged import KNOWN_TYPES, GroupLedger, LoggedGroup
from coordinator.groups.membership import GroupState, Membership
from coordinator.groups.migration import Migration
from coordinator.groups.offsets import Partition
from coordinator.groups.rebalance import Rebalance
from coordinator.groups.retention import RetentionRound, TopicDeletion, records_of_deletion, tombstones
from coordinator.groups.seen.awaited import AwaitedGroups
from coordinator.groups.seen.listing import described
from coordinator.groups.settings import GroupSettings
from coordinator.groups.share.administration import ShareAdministration
from coordinator.groups.share.protocol import ShareProtocol
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.protocol import StreamsProtocol
from coordinator.groups.streams.shard import StreamsShard
from coordinator.groups.streams.soft_state import STREAMS_KINDS, StreamsSoftState
from coordinator.machine import (
    AnyOutcome,
    Marker,
    OperationRefused,
    Outcome,
    Record,
    ReplayedMarker,
    ReplayedRecord,
    Ticket,
)
from protocol.codec import read_version
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DescribedGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

DEADLINES_AT_ONCE = 64
"""Bounds one step of work, so that the loop breathes in between."""

_RETENTION = DeadlineKey(DeadlineKind.RETENTION)
BETWEEN_STEPS_MS = 1
"""Of a round of retention. One that were due at once would go on in the same turn, for as long as it finds nothing."""


class GroupCoordinator:
    """Groups and their offsets, of one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, held: Held | None = None, topics: GroupTopics | None = None) -> None:
        """`held` counts what this machine holds, from nothing; `topics` are those of the cluster."""
        self._settings = settings
        self.ledger = GroupLedger(held)
        self._room = Room(settings, self.ledger.held)
        self._offsets = self.ledger.offsets
        self._deadlines = GroupDeadlines()
        self._rebalance = Rebalance(settings, self._deadlines, self.ledger.wrote)
        self._classic = ClassicProtocol(settings, self.ledger.groups, self.ledger.held, self._rebalance)
        self._shard = ConsumerShard(
            settings.consumer,
            self.ledger.consumers,
            topics or NoTopics(),
            MetadataHashes(topics or NoTopics()),
            SoftState(self._deadlines),
            self._room,
        )
        self._migration = Migration(
            settings,
            self._shard,
            self.ledger.groups,
            (self.ledger.streams.by_id, self.ledger.shares.by_id),
            self._classic,
            self._rebalance,
            self.ledger.held,
        )
        self._consumers = ConsumerProtocol(self._shard, self._migration)
        self._classic_members = ClassicMembers(self._shard, self._consumers, self._migration)
        self._streams_shard = StreamsShard(
            settings.streams,
            self.ledger.streams,
            topics or NoTopics(),
            self._shard.hashes,
            StreamsSoftState(self._deadlines),
            self._room,
        )
        self.streams = StreamsProtocol(self._streams_shard, self._may_give_way)
        self.shares = ShareProtocol(
            settings.share,
            self.ledger.shares,
            self._shard.topics,
            self._deadlines,
            self._room,
            lambda group_id: (self._led_here(group_id) or self._find(group_id)) is not None,
        )
        self.share_administration = ShareAdministration(self.shares, self.ledger.shares, self._shard.topics)
        self._retention = RetentionRound(self.ledger, self._classic.memberships, settings)
        self.awaited = AwaitedGroups(settings, self._deadlines, self._classic.memberships, self.ledger)

    # -- membership ------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, caller: Caller, fresh_id: str, ticket: Ticket[JoinGroupResponse], now_ms: int
    ) -> Outcome[JoinGroupResponse]:
        """JoinGroup. Answers JoinGroupResponse, perhaps later. `fresh_id` becomes part of a new member's id."""
        group, streams = self._shard.find(request.group_id), self._streams_shard.find(request.group_id)
        if group is not None and group.members:
            return self._classic_members.join(group, request, caller, fresh_id, ticket, now_ms)
        if (streams is not None and streams.members) or self.shares.find(request.group_id) is not None:
            return Outcome(answers=[(ticket, join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))])
        outcome = self._classic.join(request, caller, fresh_id, ticket, now_ms)
        if (group is not None or streams is not None) and outcome.records:
            outcome.records = [*tombstones(self.ledger, request.group_id), *outcome.records]
        return outcome

    def sync(
        self, request: SyncGroupRequest, ticket: Ticket[SyncGroupResponse], now_ms: int
    ) -> Outcome[SyncGroupResponse]:
        """SyncGroup. Answers SyncGroupResponse, perhaps later."""
        group = self._shard.find(request.group_id)
        if group is not None:
            return self._classic_members.sync(group, request, ticket, now_ms)
        if self._streams_shard.find(request.group_id) is not None:
            return Outcome(answers=[(ticket, sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))])
        return self._classic.sync(request, ticket, now_ms)

    def heartbeat(
        self, request: HeartbeatRequest, ticket: Ticket[HeartbeatResponse], now_ms: int
    ) -> Outcome[HeartbeatResponse]:
        """Heartbeat. Answers HeartbeatResponse."""
        group = self._shard.find(request.group_id)
        if group is not None:
            return self._classic_members.heartbeat(group, request, ticket, now_ms)
        return self._classic.heartbeat(request, ticket, now_ms)

    def leave(
        self, request: LeaveGroupRequest, ticket: Ticket[LeaveGroupResponse], now_ms: int
    ) -> Outcome[LeaveGroupResponse]:
        """LeaveGroup in the form of v3 and later. Answers LeaveGroupResponse."""
        group = self._shard.find(request.group_id)
        if group is not None:
            return self._classic_members.leave(group, request, ticket, now_ms)
        return self._classic.leave(request, ticket, now_ms)

    def consumer_heartbeat(self, said: Said, ticket: Ticket[HeartbeatAnswer], now_ms: int) -> Outcome[HeartbeatAnswer]:
        """ConsumerGroupHeartbeat, of a request that is valid in itself."""
        return self._consumers.heartbeat(said, ticket, now_ms)

    def expressions_resolved(
        self, asked: Resolution, found: Mapping[str, frozenset[str]] | None, ticket: Ticket[bool], now_ms: int
    ) -> Outcome[bool]:
        """What regular expressions stand for; None where that could not be found out, or not be kept."""
        return Outcome(self._consumers.resolved(asked, found, now_ms), answers=[(ticket, True)])

    def _may_give_way(self, group_id: str) -> bool | None:
        """Whether a streams group may take the place of the group of another protocol that has this id: of a classic
        one without members. None where there is no such group."""
        if self._shard.find(group_id) is not None or self.shares.find(group_id) is not None:
            return False
        group = self._find(group_id)
        return None if group is None else group.state is GroupState.EMPTY

    # -- administration --------------------------------------------------------------------------------------

    def list_groups(
        self, wanted: Callable[[GroupState], bool], ticket: Ticket[list[tuple[LoggedGroup, GroupState]]], now_ms: int
    ) -> Outcome[list[tuple[LoggedGroup, GroupState]]]:
        """Answers what is logged of each group that is wanted, with its state."""
        known = ((group, self._classic.state_of(group)) for group in self.ledger.groups.values())
        return Outcome(answers=[(ticket, [one for one in known if wanted(one[1])])])

    def list_consumer_groups(
        self, states: frozenset[ConsumerGroupState], ticket: Ticket[list[tuple[str, ConsumerGroupState]]], now_ms: int
    ) -> Outcome[list[tuple[str, ConsumerGroupState]]]:
        """Answers the ids of the consumer groups in these states."""
        return Outcome(answers=[(ticket, self._consumers.listed(states))])

    def describe_consumer_group(
        self, group_id: str, ticket: Ticket[ShownConsumerGroup], now_ms: int
    ) -> Outcome[ShownConsumerGroup]:
        """Answers a DescribedConsumerGroup, and what makes its members."""
        return Outcome(answers=[(ticket, self._consumers.describe(group_id))])

    def describe_group(self, group_id: str, ticket: Ticket[DescribedGroup], now_ms: int) -> Outcome[DescribedGroup]:
        """Answers a DescribedGroup."""
        is_led_here = self._led_here(group_id) is not None or self.shares.find(group_id) is not None
        return Outcome(answers=[(ticket, described(group_id, self._find(group_id), is_led_here=is_led_here))])

    def _led_here(self, group_id: str) -> ConsumerGroup | StreamsGroup | None:
        """The group, if the broker itself leads it. Raises `OperationRefused` where a record of it cannot be read."""
        return self._shard.find(group_id) or self._streams_shard.find(group_id)

    def delete_group(self, group_id: str, ticket: Ticket[ErrorCode | None], now_ms: int) -> Outcome[ErrorCode | None]:
        """Only a group without members can be deleted, or one whose record cannot be read: that is how its owner gives
        up what it said. Its offsets go with it, in as many batches as that takes.

        Answers an ErrorCode, or None where some of it is left: call again. Interrupted in between, the group is there
        with fewer offsets, and can be deleted again.
        """
        if group_id in self.ledger.shares.by_id:
            return self.share_administration.delete(group_id, ticket, now_ms)
        logged, led = self.ledger.groups.get(group_id), self.ledger.led_here(group_id)
        if led is not None:
            if led.members and not self.ledger.is_half_read(group_id):
                return Outcome(answers=[(ticket, ErrorCode.NON_EMPTY_GROUP)])
        elif logged is None or logged.is_readable:
            group = self._find(group_id)
            if group is None:
                return Outcome(answers=[(ticket, ErrorCode.GROUP_ID_NOT_FOUND)])
            if group.state is not GroupState.EMPTY:
                return Outcome(answers=[(ticket, ErrorCode.NON_EMPTY_GROUP)])
        end = tombstones(self.ledger, group_id)
        records, is_last = records_of_deletion(group_id, self._offsets, end, self._settings.max_batch_bytes)
        answers = [(ticket, ErrorCode.NONE if is_last else None)]
        return Outcome(records, answers=answers, reason=f"group {group_id} deleted")

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit_offsets(self, commit: Commit, ticket: Ticket[list[ErrorCode]], now_ms: int) -> Outcome[list[ErrorCode]]:
        """OffsetCommit, or TxnOffsetCommit once its transaction is verified (I43). Answers an ErrorCode for each
        offset; a wrong member or generation fails them all and leaves nothing staged (I41)."""
        if self.shares.find(commit.group_id) is not None:
            return Outcome(answers=[(ticket, [ErrorCode.GROUP_ID_NOT_FOUND for _ in commit.offsets])])
        led = self._led_here(commit.group_id)
        group = self._find(commit.group_id)
        error = validate_commit(group, commit) if led is None else validate_commit_to_members(led, commit)
        if error is not ErrorCode.NONE:
            return Outcome(answers=[(ticket, [error for _ in commit.offsets])])
        if self._room.is_scarce and not self._room.has(
            growth_by_commit(commit, self._offsets, is_new=group is None and led is None)
        ):
            return Outcome(answers=[(ticket, [ErrorCode.COORDINATOR_NOT_AVAILABLE for _ in commit.offsets])])
        if group is not None and commit.stamp is None and commit.member_id in group.members:
            # A plain commit is as good as a heartbeat.
            self._rebalance.beat(group, group.members[commit.member_id], now_ms)
        records, errors = records_of_commit(commit, self._settings, now_ms)
        stamp = commit.stamp if records else None
        return Outcome(records, stamp, answers=[(ticket, errors)])

    def fetch_offsets(
        self,
        group_id: str,
        wanted: Sequence[WantedTopic] | Callable[[str], bytes],
        *,
        require_stable: bool,
        ticket: Ticket[list[FetchedTopic] | None],
        now_ms: int,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Outcome[list[FetchedTopic] | None]:
        """OffsetFetch of some topics, or of everything; then `wanted` returns the present id of a topic's name.
        Answers a list of FetchedTopic, durable when it arrives (I37); None where everything is too much for one step:
        then `committed_partitions` reads it. Member and epoch say nothing about classic groups."""
        answer: list[FetchedTopic] | None
        error = validate_fetch(self._led_here(group_id), member_id, member_epoch)
        if error is not ErrorCode.NONE:
            raise OperationRefused(error)
        if callable(wanted):
            answer = fetch_all(self._offsets, group_id, wanted, require_stable=require_stable)
        else:
            answer = fetch(self._offsets, group_id, wanted, require_stable=require_stable)
        return Outcome(answers=[(ticket, answer)])

    def committed_partitions(
        self, group_id: str, ticket: Ticket[list[Partition]], now_ms: int
    ) -> Outcome[list[Partition]]:
        """Answers the partitions that a group has committed offsets of."""
        return Outcome(answers=[(ticket, list(self._offsets.committed.get(group_id, {})))])

    def delete_offsets(
        self, group_id: str, wanted: Sequence[Partition], start: int, ticket: Ticket[DeletedOffsets], now_ms: int
    ) -> Outcome[DeletedOffsets]:
        """OffsetDelete, of partitions from `start` on, as many as one batch takes. Answers DeletedOffsets."""
        group = self._led_here(group_id) or self._find(group_id)
        error = validate_delete_offsets(group)
        if error is not ErrorCode.NONE or group is None:
            return Outcome(answers=[(ticket, DeletedOffsets(error, []))])
        records, errors = records_of_delete(self._offsets, group, wanted, start, self._settings.max_batch_bytes)
        return Outcome(records, answers=[(ticket, DeletedOffsets(ErrorCode.NONE, errors))])

    def forget_topics(self, deletion: TopicDeletion, ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
        """Topics were deleted: so are their offsets, some at a time. Answers whether to call again."""
        records, is_last = deletion.step(self._offsets, self._settings.max_batch_bytes)
        return Outcome(records, answers=[(ticket, not is_last)])

    def write_marker(self, marker: Marker, ticket: Ticket[ErrorCode], now_ms: int) -> Outcome[ErrorCode]:
        """The end of a transaction. Answers NONE when the offsets are materialised and that is durable (I42)."""
        return Outcome(marker=marker, answers=[(ticket, ErrorCode.NONE)])

    # -- the machine -----------------------------------------------------------------------------------------

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        """See `GroupLedger.replay`; what is soft follows."""
        group_id = self.ledger.replay(entry)
        if group_id is not None:
            self._classic.follow(group_id, entry.timestamp_ms)
            self._migration.follow(group_id, entry.timestamp_ms)

    def knows(self, key: bytes) -> bool:
        """Offsets, and groups of the classic, the consumer and the streams protocol, and share groups."""
        return read_version(key) in KNOWN_TYPES

    def loaded(self, now_ms: int) -> None:
        """The whole log was replayed: sessions begin."""
        for logged in self.ledger.groups.values():
            self._classic.restore(logged, now_ms)
        self._consumers.restore(now_ms)
        self.streams.restore(now_ms)
        self.shares.restore(now_ms)
        self._deadlines.set(_RETENTION, now_ms + self._settings.offsets_retention_check_interval_ms)

    def next_deadline_ms(self) -> int | None:
        self._consumers.follow()
        self.streams.follow()
        self.shares.follow()
        return self._deadlines.next_ms()

    def expire(self, now_ms: int) -> AnyOutcome:
        """Act on deadlines that have passed; stops after the first that writes, for the next may need its replay."""
        outcome: AnyOutcome = Outcome()
        for key in islice(self._deadlines.due(now_ms), DEADLINES_AT_ONCE):
            if key.kind is DeadlineKind.RETENTION:
                outcome.records = self._check_retention(now_ms)
            elif key.kind in MEMBER_KINDS:
                self._consumers.expire(key, now_ms, outcome)
            elif key.kind in STREAMS_KINDS:
                self.streams.expire(key, now_ms, outcome)
            elif key.kind is DeadlineKind.SHARE_SESSION:
                self.shares.expire(key, now_ms, outcome)
            else:
                self._classic.expire(key, now_ms, outcome)
            if outcome.records:
                break
        return outcome

    def look_for_unused(self, now_ms: int) -> AnyOutcome:
        """Room is scarce: the next round of retention begins now."""
        if self._retention.is_over:
            self._deadlines.set(_RETENTION, now_ms)
        return Outcome()

    def time_leapt(self, by_ms: int) -> None:
        """The clock was set forward: that ends no session and no wait for members. Offsets age by it."""
        self._deadlines.postpone(by_ms, lambda key: key.kind is not DeadlineKind.RETENTION)

    def _check_retention(self, now_ms: int) -> list[Record]:
        """A step of a round over all groups; the next step is due soon, the next round after the interval."""
        if self._retention.is_over:
            self._retention.begin([*self.ledger.groups, *self.ledger.consumers.by_id, *self.ledger.streams.by_id])
        records = self._retention.step(now_ms)
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._deadlines.set(_RETENTION, now_ms + (interval_ms if self._retention.is_over else BETWEEN_STEPS_MS))
        return records

    def _find(self, group_id: str) -> Membership | None:
        return self._classic.find(group_id)

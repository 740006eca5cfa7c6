"""The group coordinator: the machine behind one partition of `__consumer_offsets`.

Logged (`ledger`): generations with their assignments, and offsets. `replay` alone writes it, in the same way live and
on load. Soft (`membership`): who is joining, who waits, every deadline; operations change it, and after a record was
replayed it follows (`ClassicProtocol.follow`), which finds nothing to do on load. After a reload waiting requests have
been answered NOT_COORDINATOR, and loaded members have a session's time to heartbeat.

Operations take a ticket and the time, and return an `Outcome`. Fresh ids for members come as arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from coordinator.groups.classic import ClassicProtocol
from coordinator.groups.commits import (
    Commit,
    FetchedTopic,
    WantedTopic,
    fetch,
    fetch_all,
    records_of_commit,
    records_of_delete,
    validate_commit,
    validate_delete_offsets,
)
from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines
from coordinator.groups.growth import growth_by_commit
from coordinator.groups.held import Held, Room
from coordinator.groups.joining import Caller
from coordinator.groups.listing import described
from coordinator.groups.logged import KNOWN_TYPES, GroupLedger, LoggedGroup
from coordinator.groups.membership import GroupState, Membership
from coordinator.groups.offsets import Partition
from coordinator.groups.rebalance import Rebalance
from coordinator.groups.retention import RetentionRound, TopicDeletion, records_of_deletion
from coordinator.groups.settings import GroupSettings
from coordinator.machine import AnyOutcome, Marker, Outcome, Record, ReplayedMarker, ReplayedRecord, Ticket
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


@dataclass(frozen=True, slots=True)
class DeletedOffsets:
    """The answer to OffsetDelete: an error for all, or one for each of the first partitions of the request."""

    error: ErrorCode
    errors: list[ErrorCode]


class GroupCoordinator:
    """Groups and their offsets, of one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, held: Held | None = None) -> None:
        """`held` counts what this machine holds, from nothing."""
        self._settings = settings
        self.ledger = GroupLedger(held)
        self._room = Room(settings, self.ledger.held)
        self._offsets = self.ledger.offsets
        self._deadlines = GroupDeadlines()
        self._rebalance = Rebalance(settings, self._deadlines, self.ledger.wrote)
        self._classic = ClassicProtocol(settings, self.ledger.groups, self.ledger.held, self._rebalance)
        self._retention = RetentionRound(self.ledger, self._classic.memberships, settings)

    # -- membership ------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, caller: Caller, fresh_id: str, ticket: Ticket[JoinGroupResponse], now_ms: int
    ) -> Outcome[JoinGroupResponse]:
        """JoinGroup. Answers JoinGroupResponse, perhaps later. `fresh_id` becomes part of a new member's id."""
        return self._classic.join(request, caller, fresh_id, ticket, now_ms)

    def sync(
        self, request: SyncGroupRequest, ticket: Ticket[SyncGroupResponse], now_ms: int
    ) -> Outcome[SyncGroupResponse]:
        """SyncGroup. Answers SyncGroupResponse, perhaps later."""
        return self._classic.sync(request, ticket, now_ms)

    def heartbeat(
        self, request: HeartbeatRequest, ticket: Ticket[HeartbeatResponse], now_ms: int
    ) -> Outcome[HeartbeatResponse]:
        """Heartbeat. Answers HeartbeatResponse."""
        return self._classic.heartbeat(request, ticket, now_ms)

    def leave(
        self, request: LeaveGroupRequest, ticket: Ticket[LeaveGroupResponse], now_ms: int
    ) -> Outcome[LeaveGroupResponse]:
        """LeaveGroup in the form of v3 and later. Answers LeaveGroupResponse."""
        return self._classic.leave(request, ticket, now_ms)

    # -- administration --------------------------------------------------------------------------------------

    def list_groups(
        self, wanted: Callable[[GroupState], bool], ticket: Ticket[list[tuple[LoggedGroup, GroupState]]], now_ms: int
    ) -> Outcome[list[tuple[LoggedGroup, GroupState]]]:
        """Answers what is logged of each group that is wanted, with its state."""
        known = ((group, self._classic.state_of(group)) for group in self.ledger.groups.values())
        return Outcome(answers=[(ticket, [one for one in known if wanted(one[1])])])

    def describe_group(self, group_id: str, ticket: Ticket[DescribedGroup], now_ms: int) -> Outcome[DescribedGroup]:
        """Answers a DescribedGroup."""
        return Outcome(answers=[(ticket, described(group_id, self._find(group_id)))])

    def delete_group(self, group_id: str, ticket: Ticket[ErrorCode | None], now_ms: int) -> Outcome[ErrorCode | None]:
        """Only a group without members can be deleted, or one whose record cannot be read: that is how its owner gives
        up what it said. Its offsets go with it, in as many batches as that takes.

        Answers an ErrorCode, or None where some of it is left: call again. Interrupted in between, the group is there
        with fewer offsets, and can be deleted again.
        """
        logged = self.ledger.groups.get(group_id)
        if logged is None or logged.is_readable:
            group = self._find(group_id)
            if group is None:
                return Outcome(answers=[(ticket, ErrorCode.GROUP_ID_NOT_FOUND)])
            if group.state is not GroupState.EMPTY:
                return Outcome(answers=[(ticket, ErrorCode.NON_EMPTY_GROUP)])
        records, is_last = records_of_deletion(group_id, self._offsets, self._settings.max_batch_bytes)
        answer = ErrorCode.NONE if is_last else None
        return Outcome(records, answers=[(ticket, answer)], reason=f"group {group_id} deleted")

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit_offsets(self, commit: Commit, ticket: Ticket[list[ErrorCode]], now_ms: int) -> Outcome[list[ErrorCode]]:
        """OffsetCommit, or TxnOffsetCommit once its transaction is verified (I43). Answers an ErrorCode for each
        offset; a wrong member or generation fails them all and leaves nothing staged (I41)."""
        group = self._find(commit.group_id)
        error = validate_commit(group, commit)
        if error is not ErrorCode.NONE:
            return Outcome(answers=[(ticket, [error for _ in commit.offsets])])
        if self._room.is_scarce and not self._room.has(growth_by_commit(commit, self._offsets, is_new=group is None)):
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
    ) -> Outcome[list[FetchedTopic] | None]:
        """OffsetFetch of some topics, or of everything; then `wanted` returns the present id of a topic's name.
        Answers a list of FetchedTopic, durable when it arrives (I37); None where everything is too much for one step:
        then `committed_partitions` reads it."""
        answer: list[FetchedTopic] | None
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
        group = self._find(group_id)
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

    def knows(self, key: bytes) -> bool:
        """Offsets, and groups of the classic protocol."""
        return read_version(key) in KNOWN_TYPES

    def loaded(self, now_ms: int) -> None:
        """The whole log was replayed: sessions begin."""
        for logged in self.ledger.groups.values():
            self._classic.restore(logged, now_ms)
        self._deadlines.set(_RETENTION, now_ms + self._settings.offsets_retention_check_interval_ms)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def expire(self, now_ms: int) -> AnyOutcome:
        """Act on deadlines that have passed; stops after the first that writes, for the next may need its replay."""
        outcome: AnyOutcome = Outcome()
        for key in islice(self._deadlines.due(now_ms), DEADLINES_AT_ONCE):
            if key.kind is DeadlineKind.RETENTION:
                outcome.records = self._check_retention(now_ms)
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
            self._retention.begin(self.ledger.groups)
        records = self._retention.step(now_ms)
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._deadlines.set(_RETENTION, now_ms + (interval_ms if self._retention.is_over else BETWEEN_STEPS_MS))
        return records

    def _find(self, group_id: str) -> Membership | None:
        return self._classic.find(group_id)

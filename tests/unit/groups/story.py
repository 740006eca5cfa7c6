"""A group coordinator on a log in memory, with virtual time: the tools of the stories in this folder."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from coordinator.groups.commits import Commit, DeletedOffsets, FetchedOffset, OffsetToCommit, WantedTopic
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.joining import Caller
from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import GroupState
from coordinator.groups.retention import TopicDeletion
from coordinator.groups.seen.listing import group_filter, listed
from coordinator.loading import entries_of
from coordinator.machine import Marker, Outcome, ProducerStamp, ReplayedMarker, ReplayedRecord, Ticket
from coordinator.runtime import Shard
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DescribedGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import CollectingTicket, MemoryShardLog, VirtualTime

GROUP = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
TOPIC_ID = bytes(range(16))


def subscription(*topics: str) -> bytes:
    """Consumer protocol metadata, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Story:
    """One shard of the group coordinator and everything around it."""

    def __init__(self, settings: FixedGroupSettings | None = None, *, durable: bool = True) -> None:
        self.settings = settings or FixedGroupSettings()
        self.log = MemoryShardLog(durable=durable, max_batch_bytes=self.settings.max_batch_bytes)
        self.time = VirtualTime()
        self.shard = self._shard(self.log)
        self._ids = 0

    def _shard(self, log: MemoryShardLog) -> Shard[GroupCoordinator]:
        shard = Shard(lambda: GroupCoordinator(self.settings), log, self.time, self.time, name="groups-0")
        while not shard.load_slice(1 << 20):
            pass
        return shard

    def restart(self) -> None:
        """The broker comes back with the same log."""
        self.shard.close()
        self.log = self.log.copy()
        self.shard = self._shard(self.log)

    def entries(self) -> Iterator[ReplayedRecord | ReplayedMarker]:
        """Everything in the log."""
        for _, batch in self.log.batches:
            yield from (entry for entry, _ in entries_of(batch) if entry is not None)

    def submit(self, operation: Callable[[GroupCoordinator, Ticket, int], Outcome]) -> CollectingTicket:
        ticket = CollectingTicket()
        self.shard.submit(lambda machine, now_ms: operation(machine, ticket, now_ms), ticket)
        return ticket

    def ask(self, operation: Callable[[GroupCoordinator, Ticket, int], Outcome]) -> Any:
        return self.submit(operation).answer

    # -- membership ------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        version: int = 9,
        client: str = "client",
        protocol_type: str = "consumer",
        protocols: Sequence[tuple[str, bytes]] = (("range", b"metadata"),),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> CollectingTicket:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        self._ids += 1
        fresh = f"id{self._ids}"
        caller = Caller(client, "/127.0.0.1", version)
        return self.submit(lambda machine, ticket, now: machine.join(request, caller, fresh, ticket, now))

    def new_member(self, **options: Any) -> str:
        """An id, as MEMBER_ID_REQUIRED hands it out."""
        answer = joined(self.join(**options))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
        group: str = GROUP,
    ) -> CollectingTicket:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )
        return self.submit(lambda machine, ticket, now: machine.sync(request, ticket, now))

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        answer = self.ask(lambda machine, ticket, now: machine.heartbeat(request, ticket, now))
        return ErrorCode(answer.error_code)

    def leave(self, *members: str, instances: Sequence[tuple[str, str]] = (), group: str = GROUP) -> list[ErrorCode]:
        answer = cast(LeaveGroupResponse, self.submit_leave(*members, instances=instances, group=group).answer)
        return [ErrorCode(member.error_code) for member in answer.members]

    def submit_leave(
        self, *members: str, instances: Sequence[tuple[str, str]] = (), group: str = GROUP
    ) -> CollectingTicket:
        identities = [MemberIdentity(member_id=member) for member in members]
        identities += [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in instances]
        request = LeaveGroupRequest(group_id=group, members=identities)
        return self.submit(lambda machine, ticket, now: machine.leave(request, ticket, now))

    def tick(self) -> None:
        """Let what is due now happen (an initial rebalance without delay)."""
        self.time.advance(0)

    def pass_time(self, milliseconds: int, *alive: str, generation: int = 1) -> None:
        """Let time pass while these members heartbeat."""
        end_ms = self.time.now_ms() + milliseconds
        while self.time.now_ms() < end_ms:
            for member in alive:
                self.heartbeat(member, generation)
            self.time.advance(min(SESSION_MS // 2, end_ms - self.time.now_ms()))

    def stable(self, count: int = 1, *, topics: Sequence[str] = ("t",), group: str = GROUP) -> list[str]:
        """A stable group of `count` dynamic members, the leader first."""
        options: dict[str, Any] = {"group": group, "protocols": (("range", subscription(*topics)),)}
        ids = [self.new_member(**options) for _ in range(count)]
        tickets = [self.join(member, **options) for member in ids]
        self.tick()
        generation = joined(tickets[0]).generation_id
        syncs = [self.sync(member, generation, group=group) for member in ids[1:]]
        shares = {member: member.encode() for member in ids}
        syncs.insert(0, self.sync(ids[0], generation, shares, group=group))
        assert [synced(sync).assignment for sync in syncs] == [member.encode() for member in ids]
        return ids

    # -- administration --------------------------------------------------------------------------------------

    def describe(self, group: str = GROUP) -> DescribedGroup:
        return cast(DescribedGroup, self.ask(lambda machine, ticket, now: machine.describe_group(group, ticket, now)))

    def describe_refusal(self) -> ErrorCode:
        """The error that stands in the place of a description."""
        return self.submit(lambda machine, ticket, now: machine.describe_group(GROUP, ticket, now)).errors[0]

    @property
    def state(self) -> str:
        return self.describe().group_state

    def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[str]:
        wanted = group_filter(states, types)
        groups = self.ask(lambda machine, ticket, now: machine.list_groups(wanted, ticket, now))
        return [listed(one).group_id for one in cast(list[tuple[LoggedGroup, GroupState]], groups)]

    def delete(self, group: str = GROUP) -> ErrorCode:
        """Delete a group, in as many batches as that takes."""
        while True:
            error = self.ask(lambda machine, ticket, now: machine.delete_group(group, ticket, now))
            if error is not None:
                return cast(ErrorCode, error)

    # -- offsets ---------------------------------------------------------------------------------------------

    def submit_commit(
        self,
        offset: int,
        *,
        partition: int = 0,
        topic: str = "t",
        topic_id: bytes = TOPIC_ID,
        generation: int = -1,
        member: str = "",
        instance: str | None = None,
        producer: int | None = None,
        version: int = 8,
        metadata: str = "",
        retention_ms: int = -1,
        group: str = GROUP,
    ) -> CollectingTicket:
        commit = Commit(
            group,
            generation,
            member,
            instance,
            version,
            [OffsetToCommit(topic, topic_id, partition, offset, 7, metadata)],
            retention_ms=retention_ms,
            stamp=None if producer is None else ProducerStamp(producer, 0),
        )
        return self.submit(lambda machine, ticket, now: machine.commit_offsets(commit, ticket, now))

    def commit(self, offset: int, **options: Any) -> ErrorCode:
        """Commit one offset; with `producer` in a transaction."""
        (error,) = cast(list[ErrorCode], self.submit_commit(offset, **options).answer)
        return error

    def end(self, producer: int, *, commit: bool) -> CollectingTicket:
        marker = Marker(producer, 0, commit, 0, 0)
        return self.submit(lambda machine, ticket, now: machine.write_marker(marker, ticket, now))

    def fetched(
        self,
        *,
        partition: int = 0,
        topic: str = "t",
        topic_id: bytes = TOPIC_ID,
        stable: bool = True,
        group: str = GROUP,
    ) -> FetchedOffset:
        wanted = [WantedTopic(topic, topic_id, [partition])]
        (answer,) = self._fetch(wanted, stable, group)
        return cast(FetchedOffset, answer.partitions[0])

    def offset(self, **options: Any) -> int | ErrorCode:
        """The committed offset, or the error that stands in its place."""
        answer = self.fetched(**options)
        return answer.error if answer.error is not ErrorCode.NONE else answer.offset

    def all_offsets(
        self, *, group: str = GROUP, stable: bool = True, topic_id: bytes = bytes(16)
    ) -> dict[tuple[str, int], int | ErrorCode]:
        return {
            (topic.topic, found.partition): found.error if found.error is not ErrorCode.NONE else found.offset
            for topic in self._fetch(lambda _: topic_id, stable, group)
            for found in topic.partitions
        }

    def _fetch(self, wanted: Sequence[WantedTopic] | Callable[[str], bytes], stable: bool, group: str) -> list[Any]:
        answer = self.ask(
            lambda machine, ticket, now: machine.fetch_offsets(
                group, wanted, require_stable=stable, ticket=ticket, now_ms=now
            )
        )
        return cast(list[Any], answer)

    def delete_offsets(self, *partitions: int, topic: str = "t", group: str = GROUP, start: int = 0) -> DeletedOffsets:
        """One batch of an OffsetDelete."""
        wanted = [(topic, partition) for partition in partitions]
        return cast(
            DeletedOffsets,
            self.ask(lambda machine, ticket, now: machine.delete_offsets(group, wanted, start, ticket, now)),
        )

    def forget_topics(self, deletion: TopicDeletion) -> bool:
        """One batch; whether there is more."""
        return cast(bool, self.ask(lambda machine, ticket, now: machine.forget_topics(deletion, ticket, now)))


def joined(ticket: CollectingTicket) -> JoinGroupResponse:
    """The answer to a JoinGroup."""
    assert isinstance(ticket.answer, JoinGroupResponse)
    return ticket.answer


def synced(ticket: CollectingTicket) -> SyncGroupResponse:
    """The answer to a SyncGroup."""
    assert isinstance(ticket.answer, SyncGroupResponse)
    return ticket.answer

"""What is not logged of streams groups: deadlines, their topology over the topics of now, who wants a shutdown.

Lost when the shard is loaded again: then members have a session's time to show up, each group looks at its topics anew,
a shutdown is to be requested again, and what members know of each other's endpoints is sent to them afresh.
"""

from dataclasses import dataclass

from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines
from coordinator.groups.streams.configured import ConfiguredTopology
from coordinator.groups.streams.member import MemberState, StreamsMember
from coordinator.groups.streams.topology import Topology

RETRY_MS = 1_000
"""When a member is given up once more, should the log refuse what says so."""
STREAMS_KINDS = (DeadlineKind.STREAMS_SESSION, DeadlineKind.STREAMS_REBALANCE, DeadlineKind.STREAMS_ASSIGN)


@dataclass(frozen=True, slots=True)
class Seen:
    """A topology over the topics as they were at a revision."""

    revision: int
    topology: Topology
    configured: ConfiguredTopology
    metadata_hash: int


class StreamsSoftState:
    """Of all streams groups of one shard."""

    def __init__(self, deadlines: GroupDeadlines) -> None:
        self._deadlines = deadlines
        self.seen: dict[str, Seen] = {}
        self.shutdowns: dict[str, str] = {}
        """Group → the member that has requested that the whole application stops."""
        self.endpoint_epochs: dict[str, int] = {}
        """Group → how often something has changed that members are told of each other's endpoints."""

    def forget_group(self, group_id: str) -> None:
        """The group is gone."""
        self.seen.pop(group_id, None)
        self.shutdowns.pop(group_id, None)
        self.endpoint_epochs.pop(group_id, None)
        self._deadlines.clear(DeadlineKey(DeadlineKind.STREAMS_ASSIGN, group_id))

    # -- deadlines -------------------------------------------------------------------------------------------

    def expect(self, group_id: str, member_id: str, at_ms: int) -> None:
        """The member is given up then."""
        self._deadlines.set(DeadlineKey(DeadlineKind.STREAMS_SESSION, group_id, member_id), at_ms)

    def follow_state(self, group_id: str, member: StreamsMember, now_ms: int) -> None:
        """A member has its rebalance timeout to give back what it is to lose."""
        key = DeadlineKey(DeadlineKind.STREAMS_REBALANCE, group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_TASKS:
            self._deadlines.set(key, now_ms + max(member.rebalance_timeout_ms, 0))
        else:
            self._deadlines.clear(key)

    def forget_member(self, group_id: str, member_id: str) -> None:
        """The member is gone: nothing is waited for."""
        for kind in (DeadlineKind.STREAMS_SESSION, DeadlineKind.STREAMS_REBALANCE):
            self._deadlines.clear(DeadlineKey(kind, group_id, member_id))

    def delay(self, group_id: str, until_ms: int) -> None:
        """The first assignment of a group waits for more members."""
        key = DeadlineKey(DeadlineKind.STREAMS_ASSIGN, group_id)
        if self._deadlines.get(key) is None:
            self._deadlines.set(key, until_ms)

    def is_delayed(self, group_id: str) -> bool:
        return self._deadlines.get(DeadlineKey(DeadlineKind.STREAMS_ASSIGN, group_id)) is not None

    def end_delay(self, group_id: str) -> None:
        self._deadlines.clear(DeadlineKey(DeadlineKind.STREAMS_ASSIGN, group_id))

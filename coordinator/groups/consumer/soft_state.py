"""What is not logged of consumer groups: deadlines, what they have seen of the topics, expressions being resolved.

Lost when the shard is loaded again: then members have a session's time to show up, and each group looks at its topics
and its expressions anew.
"""

from dataclasses import dataclass

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember, MemberState
from coordinator.groups.deadline import DeadlineKey, DeadlineKind, GroupDeadlines

RETRY_MS = 1_000
"""When a member is given up once more, should the log refuse what says so."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A request for what regular expressions stand for now. Its answer is for `ConsumerProtocol.resolved`."""

    group_id: str
    expressions: tuple[str, ...]
    creations: int
    """How many topics had been created when it was made."""
    offset: int
    asked_ms: int


class SoftState:
    """Of all consumer groups of one shard."""

    def __init__(self, deadlines: GroupDeadlines) -> None:
        self._deadlines = deadlines
        self._seen: dict[str, tuple[int, int]] = {}
        """Group → (revision of the topics that it has looked at, epoch of the group then)."""
        self.resolving: dict[str, int] = {}
        """Groups whose expressions are being resolved, and since when."""
        self.creations_seen: dict[str, int] = {}
        """Group → how many topics had been created when its expressions were last resolved."""

    # -- topics ----------------------------------------------------------------------------------------------

    def has_seen(self, group: ConsumerGroup, revision: int) -> bool:
        """Whether the group has looked at the topics as they are, and what came of that was written."""
        seen = self._seen.get(group.group_id)
        return seen is not None and seen[0] == revision and group.epoch >= seen[1]

    def saw(self, group: ConsumerGroup, revision: int, epoch: int) -> None:
        self._seen[group.group_id] = (revision, epoch)

    def forget_group(self, group_id: str) -> None:
        """The group is gone."""
        self._seen.pop(group_id, None)
        self.resolving.pop(group_id, None)
        self.creations_seen.pop(group_id, None)

    # -- deadlines -------------------------------------------------------------------------------------------

    def expect(self, group_id: str, member_id: str, at_ms: int) -> None:
        """The member is given up then."""
        self._deadlines.set(DeadlineKey(DeadlineKind.CONSUMER_SESSION, group_id, member_id), at_ms)

    def follow_state(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """A member has its rebalance timeout to give back what it is to lose."""
        key = DeadlineKey(DeadlineKind.CONSUMER_REBALANCE, group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.set(key, now_ms + member.rebalance_timeout_ms)
        else:
            self._deadlines.clear(key)

    def expect_join(self, group_id: str, member_id: str, at_ms: int) -> None:
        """A classic member was told to join again; the first time it is told counts."""
        key = DeadlineKey(DeadlineKind.CONSUMER_JOIN, group_id, member_id)
        if self._deadlines.get(key) is None:
            self._deadlines.set(key, at_ms)

    def joined(self, group_id: str, member_id: str, sync_by_ms: int) -> None:
        """A classic member has joined, and is to fetch its assignment."""
        self._deadlines.clear(DeadlineKey(DeadlineKind.CONSUMER_JOIN, group_id, member_id))
        self._deadlines.set(DeadlineKey(DeadlineKind.CONSUMER_SYNC, group_id, member_id), sync_by_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._deadlines.clear(DeadlineKey(DeadlineKind.CONSUMER_SYNC, group_id, member_id))

    def forget_member(self, group_id: str, member_id: str) -> None:
        """The member is gone: nothing is waited for."""
        for kind in MEMBER_KINDS:
            self._deadlines.clear(DeadlineKey(kind, group_id, member_id))


MEMBER_KINDS = (
    DeadlineKind.CONSUMER_SESSION,
    DeadlineKind.CONSUMER_REBALANCE,
    DeadlineKind.CONSUMER_JOIN,
    DeadlineKind.CONSUMER_SYNC,
)

"""The members of one classic consumer group, while this broker lives: their votes, and what each waits for.

All of this is soft state. The log knows less (`logged`): a generation once its leader has handed out the assignment,
or that the group is empty. Members that are joining, a generation without an assignment yet, who has synced: after a
reload the group is back at what the log says, and members of an unlogged generation get ILLEGAL_GENERATION and join
again.

This file keeps the books. What happens when is decided in `rebalance`, `joining` and `classic`.
"""

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from enum import Enum

from coordinator.groups.held import MEMBER_BYTES, MEMBERSHIP_BYTES, PENDING_BYTES, Held, protocols_bytes, text_bytes
from coordinator.groups.logged import LoggedGroup, LoggedMember
from coordinator.groups.subscriptions import Subscriptions
from coordinator.machine import Ticket
from protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The one protocol type whose metadata we may read; every other is opaque (Connect, Schema Registry, Streams)."""


class GroupState(Enum):
    """The states of a classic group, under the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Said of groups that do not exist; a deleted group is gone from memory at once."""
    UNKNOWN = "Unknown"
    """Said of groups whose record cannot be read."""


@dataclass(slots=True)
class Member:
    """One member. `joining` and `syncing` are the requests of it that wait for the others."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    """Name → metadata, in the order of the member's preference."""
    assignment: bytes = b""
    is_new: bool = False
    """No JoinGroup response with a generation yet. It cannot heartbeat, so its session runs even while it waits."""
    joining: Ticket[JoinGroupResponse] | None = None
    syncing: Ticket[SyncGroupResponse] | None = None
    counted_bytes: int = 0
    """What `Membership` has counted for it."""

    @property
    def held_bytes(self) -> int:
        texts = text_bytes(self.member_id, self.instance_id, self.client_id, self.client_host)
        return MEMBER_BYTES + texts + protocols_bytes(self.protocols) + len(self.assignment)

    def share(self, logged: LoggedMember, protocol: str | None) -> None:
        """The log has this member's metadata: they need not be in memory twice."""
        if protocol is not None and self.protocols.get(protocol) == logged.subscription:
            self.protocols[protocol] = logged.subscription

    def vote(self, candidates: Set[str]) -> str:
        """The candidate this member likes best."""
        return next(name for name in self.protocols if name in candidates)

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says under the protocol the group has chosen."""
        return self.protocols.get(protocol, b"") if protocol is not None else b""


@dataclass(slots=True)
class Membership:
    """The members of one group, in the order in which they came; the first becomes leader."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    generation: int = 0
    """The generation under way; the log knows of it when it has an assignment."""
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    """Since when the group is in this state."""
    members: dict[str, Member] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    """Instance id → member id (KIP-345)."""
    pending: dict[str, None] = field(default_factory=dict)
    """Ids handed out with MEMBER_ID_REQUIRED whose owners have not come back yet (KIP-394)."""
    unsynced: dict[str, None] = field(default_factory=dict)
    """Members of this generation that have not sent SyncGroup yet."""
    supporters: dict[str, int] = field(default_factory=dict)
    """Protocol → how many members can speak it."""
    initial_remaining_ms: int = 0
    """How much longer the first rebalance may be put off while new members keep coming (KIP-134)."""
    member_came: bool = False
    subscriptions: Subscriptions = field(init=False)
    held: Held = field(default_factory=Held)
    """What the shard holds; this group counts itself in."""
    counted_bytes: int = 0

    def __post_init__(self) -> None:
        self._hold(MEMBERSHIP_BYTES)
        self.forget_subscriptions()

    # -- memory ----------------------------------------------------------------------------------------------

    def _hold(self, change_bytes: int) -> None:
        self.counted_bytes += change_bytes
        self.held.add(change_bytes)

    def assign(self, member: Member, assignment: bytes) -> None:
        """What a member is to work on, or nothing any more."""
        change_bytes = len(assignment) - len(member.assignment)
        member.assignment = assignment
        member.counted_bytes += change_bytes
        self._hold(change_bytes)

    def _weigh(self, member: Member) -> None:
        now_bytes = member.held_bytes
        self._hold(now_bytes - member.counted_bytes)
        member.counted_bytes = now_bytes

    def let_go(self) -> None:
        """The group is forgotten: it holds nothing any more."""
        self._hold(-self.counted_bytes)

    # -- states ----------------------------------------------------------------------------------------------

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Change the state, remembering the one before."""
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_initial(self) -> bool:
        """Whether this is the rebalance that begins with an empty group."""
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- members ---------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a new member in; the first one decides the protocol type and leads."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self._weigh(member)
        self._forget_pending(member.member_id)

    def hand_out(self, member_id: str) -> None:
        """An id whose owner is to come back with it."""
        self.pending[member_id] = None
        self._hold(PENDING_BYTES + text_bytes(member_id))

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            del self.pending[member_id]
            self._hold(-PENDING_BYTES - text_bytes(member_id))

    def remove(self, member_id: str) -> None:
        """Forget a member or a pending id. Its waiting requests must have been answered."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.joining is None
            assert member.syncing is None
            self._count(member, -1)
            self._hold(-member.counted_bytes)
            if member.instance_id is not None:
                del self.static_ids[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._forget_pending(member_id)
        self.unsynced.pop(member_id, None)

    def replace_static(self, instance_id: str, new_id: str) -> Member:
        """A static member came back without its id: it goes on under a new one, with its place and assignment."""
        old_id = self.static_ids[instance_id]
        # Rebuilt, so that the member keeps its place in the order.
        self.members = {
            (new_id if member_id == old_id else member_id): member for member_id, member in self.members.items()
        }
        member = self.members[new_id]
        member.member_id = new_id
        self.static_ids[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        self.unsynced.pop(old_id, None)
        return member

    def update(self, member: Member, protocols: dict[str, bytes]) -> None:
        """A known member joins with other protocols or metadata."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        self._weigh(member)

    def _count(self, member: Member, change: int) -> None:
        for name in member.protocols:
            count = self.supporters.get(name, 0) + change
            if count:
                self.supporters[name] = count
            else:
                self.supporters.pop(name, None)

    @property
    def all_joined(self) -> bool:
        """Whether no member is missing for the next generation."""
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def joining_count(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    def elect(self) -> bool:
        """Make sure that the leader is a member that has joined; False where none has."""
        if self.leader is not None and self.members[self.leader].joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader = member.member_id
                return True
        return False

    # -- protocols -------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a client with these protocols could be a member together with the present ones."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        everyone = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.supporters.get(name, 0) == everyone for name in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members can speak."""
        assert self.members
        everyone = len(self.members)
        candidates = {name for name, count in self.supporters.items() if count == everyone}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def forget_subscriptions(self) -> None:
        """Another generation, other topics."""
        self.subscriptions = Subscriptions(lambda: (member.metadata(self.protocol) for member in self.members.values()))

    def knows_subscriptions(self) -> bool:
        """Whether it is known which topics the members want, as far as that can be: if not, ask again."""
        return not self.uses_consumer_protocol or self.subscriptions.read()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of `topic` are in use. Where we cannot know, a consumer group is taken to use them all."""
        topics = self.subscriptions.topics
        return self.uses_consumer_protocol and (topics is None or topic in topics)

    # -- what the log says -----------------------------------------------------------------------------------

    @classmethod
    def of(cls, logged: LoggedGroup, held: Held) -> "Membership":
        """The group as the log has it, with its members where it has any."""
        group = cls(
            logged.group_id,
            state=GroupState.STABLE if logged.members else GroupState.EMPTY,
            generation=logged.generation,
            protocol_type=logged.protocol_type,
            protocol=logged.protocol,
            leader=logged.leader,
            state_timestamp_ms=logged.state_timestamp_ms,
            held=held,
        )
        for known in logged.members.values():
            member = Member(
                known.member_id,
                known.instance_id,
                known.client_id,
                known.client_host,
                known.rebalance_timeout_ms,
                known.session_timeout_ms,
                {logged.protocol or "": known.subscription},
                known.assignment,
            )
            group.add(member, logged.protocol_type or "")
        return group

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to remember beside what the log says."""
        return self.state is GroupState.EMPTY and not self.members and not self.pending

    def settle(self, logged: LoggedGroup, now_ms: int) -> None:
        """A record of this group went into the log: it is empty now, or stable with these assignments.

        The very first record of a group says "empty" while its first member may already be joining.
        """
        if logged.members:
            assert logged.generation == self.generation
            for known in logged.members.values():
                member = self.members[known.member_id]
                self.assign(member, known.assignment)
                member.share(known, logged.protocol)
            if self.leader is not None:
                self.unsynced.pop(self.leader, None)
            if self.state is not GroupState.STABLE:
                self.enter(GroupState.STABLE, now_ms)
        elif not self.members:
            self.generation = logged.generation
            self.protocol = None
            self.leader = None
            self.forget_subscriptions()
            self.enter(GroupState.EMPTY, logged.state_timestamp_ms)

"""One member of a consumer group, as its records say.

`assigned` are the partitions it may read, `revoking` those it is to give back. Each has the epoch in which it was
assigned to the member: a commit of that epoch or a later one is not a stale one (KIP-1251).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from coordinator.groups.held import MEMBER_BYTES, text_bytes

Partitions = Mapping[bytes, Mapping[int, int]]
"""Topic id → partition → the epoch in which it was assigned. Never changed once it is in a member."""
JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH = 0, -1, -2


class MemberState(IntEnum):
    """The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions back before it is told more."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given back yet."""
    UNKNOWN = 127
    """Said by a record of a later release."""


@dataclass(frozen=True, slots=True)
class ClassicFacet:
    """What a member has said that speaks the classic protocol to a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """See the head of this file."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    classic: ClassicFacet | None = None
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    revoking: Partitions = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(
        self, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions | None = None
    ) -> "ConsumerMember":
        """The member at another epoch, or at the same one."""
        return replace(
            self,
            previous_epoch=self.epoch,
            epoch=epoch,
            state=state,
            assigned=assigned,
            revoking={} if revoking is None else revoking,
        )

    def away(self) -> "ConsumerMember":
        """A static member that means to come back. Whoever comes under its instance id may commit for what it had,
        whatever the epoch."""
        assigned = {topic: dict.fromkeys(of, 0) for topic, of in self.assigned.items()}
        return replace(self, epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking={})

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which it got a partition that it has or is giving back."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    @property
    def held_bytes(self) -> int:
        texts = text_bytes(self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, self.regex)
        names = sum(80 + text_bytes(topic) for topic in self.topics)
        partitions = sum(250 + 50 * len(of) for part in (self.assigned, self.revoking) for of in part.values())
        classic = sum(100 + len(one) for _, one in self.classic.protocols) if self.classic else 0
        return MEMBER_BYTES + texts + names + partitions + classic

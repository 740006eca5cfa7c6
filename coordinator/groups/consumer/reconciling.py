"""From what a member has to what it is to have: what it is told next.

A member first gives back what it is to lose, and says so by no longer naming it among what it owns. Until then it stays
at its epoch, and nobody else gets these partitions. Then it gets what is free, and goes to the epoch of the target;
what others have not given back yet follows, as they do.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.member import ConsumerMember, MemberState, Partitions
from coordinator.groups.consumer.refusal import Refusal
from protocol.errors import ErrorCode

Owned = Sequence[tuple[bytes, Sequence[int]]]
"""What a member says it owns: topic ids and partitions."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What one step looks at."""

    target_epoch: int
    target: Assignment
    subscribed: Collection[bytes]
    """Ids of the topics that the member wants."""
    is_owned: Callable[[bytes, int], bool]
    """Whether a partition has not been given back yet, by whichever member."""
    owned: Owned | None
    """None where the member has not said."""
    subscription_changed: bool

    def next_of(self, member: ConsumerMember) -> ConsumerMember:
        """The member after this step. Raises `Refusal`."""
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.target_epoch:
                    return self._towards_target(member, member.epoch)
                return self._without_unwanted(member) if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._owns_any(member.revoking):
                    return self._without_unwanted(member) if self.subscription_changed else member
                return self._towards_target(member, member.epoch)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(member, member.epoch)
            case MemberState.UNKNOWN:
                # Written by a later release: only a member that has nothing can begin anew.
                if self.owned is None or self.owned:
                    raise Refusal(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The consumer group member is in a unknown state. "
                        "The member must abandon all its partitions and rejoin.",
                    )
                return self._towards_target(member, self.target_epoch)

    def _owns_any(self, partitions: Partitions) -> bool:
        if self.owned is None:
            return True
        return any(index in partitions.get(topic_id, ()) for topic_id, indexes in self.owned for index in indexes)

    def _without_unwanted(self, member: ConsumerMember) -> ConsumerMember:
        """The member wants other topics, and no target knows of it yet: take away what it does not want."""
        assigned = {topic_id: of for topic_id, of in member.assigned.items() if topic_id in self.subscribed}
        if len(assigned) == len(member.assigned):
            return member
        revoking: dict[bytes, Mapping[int, int]] = dict(member.revoking)
        for topic_id, of in member.assigned.items():
            if topic_id not in self.subscribed:
                revoking[topic_id] = {**revoking.get(topic_id, {}), **of}
        if self._owns_any(revoking):
            return member.moved(member.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        return replace(member, previous_epoch=member.epoch, assigned=assigned)

    def _towards_target(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        assigned: dict[bytes, Mapping[int, int]] = {}
        revoking: dict[bytes, Mapping[int, int]] = {}
        fresh: dict[bytes, list[int]] = {}
        waits = False
        for topic_id in dict.fromkeys((*self.target, *member.assigned)):
            target = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset[int]()
            current = member.assigned.get(topic_id, {})
            if kept := {index: since for index, since in current.items() if index in target}:
                assigned[topic_id] = kept
            if lost := {index: since for index, since in current.items() if index not in target}:
                revoking[topic_id] = lost
            given_back = member.revoking.get(topic_id, {})
            wanted = [index for index in target if index not in current]
            free = [index for index in wanted if index in given_back or not self.is_owned(topic_id, index)]
            waits = waits or len(free) < len(wanted)
            if free:
                fresh[topic_id] = free
        if revoking and self._owns_any(revoking):
            return member.moved(epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        for topic_id, indexes in fresh.items():
            assigned[topic_id] = {**assigned.get(topic_id, {}), **dict.fromkeys(indexes, self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return member.moved(self.target_epoch, state, assigned)

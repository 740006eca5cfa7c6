"""What a group of consumers waits for.

Of the consumer protocol (KIP-848) the coordinator tells what each member has and is to have: a partition that one is
to have and another one has still is what they wait for. Of the classic protocol it tells the state of the group alone.
"""

from dataclasses import dataclass

from tallystick.inspection.groups import CONSUMER, Group, Member
from tallystick.inspection.places import Place

SETTLED = frozenset({"Stable", "Empty"})
_WORDS = {
    "Empty": "It has no members.",
    "Stable": "Every member has its partitions.",
    "PreparingRebalance": "It rebalances: it waits until every member has joined again, or its rebalance timeout "
    "(max.poll.interval.ms) has passed. Who does not call poll() keeps all others waiting.",
    "CompletingRebalance": "It rebalances: all members have joined, and it waits for the assignment of its leader.",
    "Assigning": "Its target assignment is being made.",
    "Reconciling": "Its members are on their way to the target assignment.",
}


@dataclass(frozen=True, slots=True)
class Handover:
    """A partition that one member is to have, and does not have yet."""

    place: Place
    to: Member
    holder: Member | None
    """Who has it still. None: it is free, or was lost sight of with a coordinator that moved."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Of one group."""

    group: Group
    handovers: tuple[Handover, ...]
    late: tuple[Member, ...]
    """Members whose epoch is behind the group's: their heartbeats have not been heard, or they give up partitions."""

    @property
    def is_settled(self) -> bool:
        return self.group.state in SETTLED and not self.handovers

    @property
    def words(self) -> str:
        return _WORDS.get(self.group.state, f"It is {self.group.state}.")


def waiting(group: Group) -> Waiting:
    """What follows from a description."""
    if group.kind != CONSUMER:
        return Waiting(group, (), ())
    holders = {place: member for member in group.members for place in member.has}
    handovers = [
        Handover(place, member, holders.get(place))
        for member in group.members
        for place in sorted(member.target - member.has)
    ]
    late = [one for one in group.members if one.epoch is not None and one.epoch < (group.epoch or 0)]
    return Waiting(group, tuple(sorted(handovers, key=lambda one: one.place)), tuple(late))

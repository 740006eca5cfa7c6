"""The deadlines of groups, by key."""

from enum import IntEnum
from typing import NamedTuple

from coordinator.deadlines import Deadlines


class DeadlineKind(IntEnum):
    """What is to happen when the time has come. Keys are hashed often: the hash of an `IntEnum` costs a third."""

    JOIN = 0
    """A rebalance has waited long enough for its members."""
    SYNC = 1
    """A generation has waited long enough for its members to fetch their assignments."""
    ASSIGN = 4
    """The next step of writing down a generation."""
    MEMBER = 2
    """A member's session, or the patience with one that got an id and has not come back."""
    RETENTION = 3
    """Another look for offsets that are no longer needed."""


class DeadlineKey(NamedTuple):
    """Whose deadline it is."""

    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""


GroupDeadlines = Deadlines[DeadlineKey]

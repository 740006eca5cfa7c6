"""The deadlines of groups, by key."""

from enum import Enum
from typing import NamedTuple

from coordinator.deadlines import Deadlines


class DeadlineKind(Enum):
    """What is to happen when the time has come."""

    JOIN = "join"
    """A rebalance has waited long enough for its members."""
    SYNC = "sync"
    """A generation has waited long enough for its members to fetch their assignments."""
    MEMBER = "member"
    """A member's session, or the patience with one that got an id and has not come back."""
    RETENTION = "retention"
    """Another look at offsets nobody needs any more."""


class DeadlineKey(NamedTuple):
    """Whose deadline it is."""

    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""


GroupDeadlines = Deadlines[DeadlineKey]

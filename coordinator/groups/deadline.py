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
    CONSUMER_SESSION = 5
    """A member of a consumer group was not heard of (KIP-848)."""
    CONSUMER_REBALANCE = 6
    """It has not given back its partitions."""
    CONSUMER_JOIN = 7
    """It speaks the classic protocol, was told to join again, and has not."""
    CONSUMER_SYNC = 8
    """Likewise, and has not fetched its assignment."""
    STREAMS_SESSION = 9
    """A member of a streams group was not heard of (KIP-1071)."""
    STREAMS_REBALANCE = 10
    """It has not given back its tasks."""
    STREAMS_ASSIGN = 11
    """A new streams group has waited long enough for more members."""
    SHARE_SESSION = 12
    """A member of a share group was not heard of (KIP-932)."""
    RETENTION = 3
    """Another look for offsets that are no longer needed."""


class DeadlineKey(NamedTuple):
    """Whose deadline it is."""

    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""


GroupDeadlines = Deadlines[DeadlineKey]

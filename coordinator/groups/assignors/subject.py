"""What an assignor is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Assignment = Mapping[bytes, frozenset[int]]
"""Topic id → partitions."""
NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it."""

    topics: tuple[bytes, ...]
    """Ids of the topics that it wants and that exist."""
    current: Assignment = field(default_factory=dict)
    """What it was meant to have until now."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The members of a group, in an order that replay repeats, and the sizes of the topics they want."""

    members: Mapping[str, Subscriber]
    partition_counts: Mapping[bytes, int]
    is_homogeneous: bool
    """Whether all members want the same topics."""

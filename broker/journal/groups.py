"""What is counted of groups whose offsets go into transactions, and of the transactional ids that a program draws.

Both are tables of a bounded size: who was heard of longest ago is forgotten first.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from broker.journal.peers import LONGEST_NAME, Peer

MOST_GROUPS = 2000
MOST_PROGRAMS = 500
EXAMPLES = 5
DRAWN = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|[0-9a-fA-F]{12,}|\d{10,}")
"""A UUID, a long number, a time: what no program says twice."""

V = TypeVar("V")


@dataclass(slots=True)
class GroupHabits:
    """One group."""

    plain_commits: int = 0
    """OffsetCommits of members, so with a generation."""
    commits_by: Peer | None = None
    in_transactions: int = 0
    by: Peer | None = None
    transactional_id: str = ""
    without_member: int = 0
    """TxnOffsetCommits that name no generation or member: nobody can tell whether it still owns what it has read."""
    session_timeout_ms: int = 0
    joined_by: Peer | None = None


@dataclass(slots=True)
class NameHabits:
    """The transactional ids with something `DRAWN` in them that one program at one address asks for. Others that it has
    are left alone: programs of one library at one address are not told apart, for client ids may be drawn, too."""

    peer: Peer | None = None
    new: int = 0
    again: int = 0
    examples: list[str] = field(default_factory=list)


class Latest(Generic[V]):
    """A table of `most` entries; one that is looked up is the latest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[str, ...], V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> list[tuple[tuple[str, ...], V]]:
        return list(self._entries.items())

    def find(self, *key: str) -> V | None:
        return self._entries.get(tuple(part[:LONGEST_NAME] for part in key))

    def put(self, value: V, *key: str) -> V:
        """Keep it as the latest."""
        short = tuple(part[:LONGEST_NAME] for part in key)
        self._entries[short] = value
        self._entries.move_to_end(short)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return value

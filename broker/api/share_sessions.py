"""Share sessions (KIP-932): which partitions a member of a share group is handed records of.

A member has one session, begun with epoch 0, moved on with each request, and ended with epoch -1 or with its
connection. A session that has ended gives back what its member was handed. Their number is bounded, and so are the
partitions in all of them together.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from protocol.errors import ErrorCode

FIRST_EPOCH = 0
FINAL_EPOCH = -1
LARGEST_EPOCH = 0x7FFFFFFF

PartitionKey = tuple[bytes, int]
"""(topic id, index)"""


@dataclass(slots=True, eq=False)
class ShareSession:
    """What one member reads, in the order in which it said so."""

    group_id: str
    member_id: str
    connection_id: int
    epoch: int = 1
    wanted: dict[PartitionKey, None] = field(default_factory=dict)
    untold: dict[PartitionKey, None] = field(default_factory=dict)
    """Those that are in the next answer whatever there is to tell: they are new to it, or had an error in the last."""
    counted: int = 0
    """How many of them are counted among those of all sessions."""
    ended: bool = False


class ShareSessionRefused(Exception):
    """There is no such session, or it is at another epoch; or there is no place for another."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class ShareSessions:
    """See the head of this file. `slots` and `most_partitions` are read at each use; `on_end` is called with each
    session that ends while its member may hold records, and whether it was the last of its group."""

    def __init__(
        self,
        *,
        slots: Callable[[], int],
        most_partitions: Callable[[], int],
        on_end: Callable[[ShareSession], object],
    ) -> None:
        self._slots = slots
        self._most_partitions = most_partitions
        self._on_end = on_end
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_connection: dict[int, dict[ShareSession, None]] = {}
        self._of_group: dict[str, int] = {}
        self.partitions = 0
        """Of all sessions together."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, group_id: str, member_id: str, wanted: Iterable[PartitionKey], connection_id: int) -> ShareSession:
        """A new session in the place of the member's old one, which keeps what it was handed. Raises
        `ShareSessionRefused` (133)."""
        old = self._sessions.get((group_id, member_id))
        if old is not None:
            self._drop(old)
        session = ShareSession(group_id, member_id, connection_id, wanted=dict.fromkeys(wanted))
        session.untold = dict(session.wanted)
        if len(self._sessions) >= self._slots() or self.partitions + len(session.wanted) > self._most_partitions():
            if old is not None:
                self._on_end(old)
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[group_id, member_id] = session
        self._of_connection.setdefault(connection_id, {})[session] = None
        self._of_group[group_id] = self._of_group.get(group_id, 0) + 1
        self._count(session)
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession:
        """The session of a member. Raises `ShareSessionRefused` (122)."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def move_on(
        self,
        session: ShareSession,
        epoch: int,
        added: Iterable[PartitionKey] = (),
        removed: Iterable[PartitionKey] = (),
    ) -> None:
        """The next request of a session, at `epoch`. Raises `ShareSessionRefused` (123; 133 where its partitions
        would be too many)."""
        if session.epoch != epoch:
            raise ShareSessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        before = session.counted
        for key in added:
            if key not in session.wanted:
                session.wanted[key] = session.untold[key] = None
        for key in removed:
            session.wanted.pop(key, None)
            session.untold.pop(key, None)
        self._count(session)
        session.epoch = 1 if epoch == LARGEST_EPOCH else epoch + 1
        if session.counted > before and self.partitions > self._most_partitions():
            self.end(session)
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def end(self, session: ShareSession) -> None:
        """Its member goes; what it was handed goes back."""
        if not session.ended:
            self._drop(session)
            self._on_end(session)

    def connection_closed(self, connection_id: int) -> None:
        """Its clients will not come back to their sessions."""
        for session in list(self._of_connection.get(connection_id, ())):
            self.end(session)

    def has_any_of(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return group_id in self._of_group

    def _drop(self, session: ShareSession) -> None:
        session.ended = True
        del self._sessions[session.group_id, session.member_id]
        of_connection = self._of_connection[session.connection_id]
        del of_connection[session]
        if not of_connection:
            del self._of_connection[session.connection_id]
        self._of_group[session.group_id] -= 1
        if not self._of_group[session.group_id]:
            del self._of_group[session.group_id]
        self.partitions -= session.counted

    def _count(self, session: ShareSession) -> None:
        self.partitions += len(session.wanted) - session.counted
        session.counted = len(session.wanted)

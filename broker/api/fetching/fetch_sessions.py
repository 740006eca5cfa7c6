"""Fetch sessions (KIP-227): a consumer says once what it reads, afterwards only what has changed.

The broker keeps per session what the client requested of each partition and what it was last sent, and leaves out of an
answer whatever the client knows already. Sessions live in a cache that is bounded in number and in partitions of all
sessions together; a client without a place gets id 0 and asks in full each time. A session ends with the connection
that used it last: a client that connects anew asks in full, as Kafka's clients do. Partitions that had records go to
the end, so that those behind them get their turn. What one session knows is in `fetch_session`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from broker.api.fetching.fetch_session import PartitionKey, Session, Wanted
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from storage.steps import Spent, Steps, finish, never

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_SINCE: Final = 13


@dataclass(slots=True)
class FetchView:
    """What a request asks for, with its session resolved. `named` is what it names, where it does not go on with a
    session; `incremental`: it does, and what the client knows is left out."""

    named: list[Wanted]
    session: Session | None = None
    incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    def due(self) -> list[Wanted]:
        """What is to be looked at now, in order."""
        return self.session.due() if self.session is not None and self.incremental else self.named

    def has_rights(self, rights: object) -> None:
        """Who asks may read the same as long as this is equal."""
        if self.session is not None:
            self.session.has_rights(rights)

    @property
    def due_count(self) -> int:
        return self.session.due_count if self.session is not None and self.incremental else len(self.named)

    @property
    def of_nothing(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self.named and not self.incremental

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


def _at_once(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


class FetchSessions:
    """The cache. `draw_id` draws a random positive int32; `slots` and `eviction_ms` are read at each use; `in_slices`
    does work of any length, one step after the other."""

    def __init__(
        self,
        *,
        draw_id: Callable[[], int],
        slots: Callable[[], int],
        eviction_ms: Callable[[], int],
        most_partitions: Callable[[], int] = lambda: 1 << 31,
        in_slices: Callable[[Iterator[None]], None] = _at_once,
    ) -> None:
        self._draw_id = draw_id
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._most_partitions = most_partitions
        self._in_slices = in_slices
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        """Least recently used first."""
        self._of_connection: dict[int, set[int]] = {}
        self.partitions = 0
        """Of all sessions together."""

    def __len__(self) -> int:
        return len(self._sessions)

    def view(
        self, request: FetchRequest, version: int, now_ms: int, connection_id: int = 0, principal: str = ""
    ) -> FetchView:
        """Resolve the session of a request, and move it on."""
        return finish(self.viewing(request, version, now_ms, connection_id, never, principal))

    def viewing(
        self, request: FetchRequest, version: int, now_ms: int, connection_id: int, spent: Spent, principal: str = ""
    ) -> Steps[FetchView]:
        """The same in steps, for a request that names many partitions.

        A session is its principal's alone, on whatever connection: its id is a number that can be guessed, and what it
        is answered names topics. (Kafka has anybody go on with it.)
        """
        by_topic_id = version >= TOPIC_IDS_SINCE
        requested: dict[PartitionKey, Wanted] = {}
        for key, wanted in _partitions_of(request, by_topic_id):
            requested[key] = wanted
            wanted.order = len(requested)
            if spent():
                yield None
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if self._of(principal, request.session_id) is not None:
                self._drop(request.session_id)
            session = None
            if request.session_epoch == FIRST_EPOCH and self._make_room(len(requested), now_ms):
                session = self._create(requested, connection_id, principal, by_topic_id=by_topic_id, now_ms=now_ms)
                self._count(session)
            return FetchView(list(requested.values()), session)
        found = self._find(request, by_topic_id, principal)
        if isinstance(found, ErrorCode):
            return FetchView([], error=found)
        self._move_on(found, connection_id, now_ms)
        found.reads(request.isolation_level)
        before = found.counted
        for _ in _changes(found, request, requested):
            if spent():
                self._count(found)
                yield None
                if self._sessions.get(found.session_id) is not found:
                    return FetchView([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._count(found)
        return self._continued(found, has_grown=found.counted > before)

    def connection_closed(self, connection_id: int) -> None:
        """Its client will not come back to its sessions."""
        for session_id in list(self._of_connection.get(connection_id, ())):
            self._drop(session_id)
        self._of_connection.pop(connection_id, None)

    def end(self, view: FetchView) -> None:
        """End the session of a request that is not answered in it."""
        if view.session is not None:
            self._drop(view.session.session_id)
            view.session = None

    def _of(self, principal: str, session_id: int) -> Session | None:
        session = self._sessions.get(session_id)
        return None if session is None or session.principal != principal else session

    def _find(self, request: FetchRequest, by_topic_id: bool, principal: str) -> Session | ErrorCode:
        session = self._of(principal, request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return session if session.by_topic_id == by_topic_id else ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def _move_on(self, session: Session, connection_id: int, now_ms: int) -> None:
        session.epoch = 1 if session.epoch == 0x7FFFFFFF else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        if session.connection_id != connection_id:
            self._of_connection[session.connection_id].discard(session.session_id)
            self._of_connection.setdefault(connection_id, set()).add(session.session_id)
            session.connection_id = connection_id

    def _continued(self, session: Session, *, has_grown: bool) -> FetchView:
        if not session.wanted:
            self._drop(session.session_id)
            return FetchView([])
        if has_grown and self.partitions > self._most_partitions():
            self._drop(session.session_id)
            return FetchView([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return FetchView([], session, incremental=True)

    def _count(self, session: Session) -> None:
        self.partitions += len(session.wanted) - session.counted
        session.counted = len(session.wanted)

    def _create(
        self,
        wanted: dict[PartitionKey, Wanted],
        connection_id: int,
        principal: str,
        *,
        by_topic_id: bool,
        now_ms: int,
    ) -> Session:
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._draw_id()
        session = Session(
            session_id,
            wanted,
            connection_id=connection_id,
            principal=principal,
            by_topic_id=by_topic_id,
            now_ms=now_ms,
        )
        self._sessions[session_id] = session
        self._of_connection.setdefault(connection_id, set()).add(session_id)
        return session

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self.partitions -= session.counted
        of_connection = self._of_connection[session.connection_id]
        of_connection.discard(session_id)
        if not of_connection:
            del self._of_connection[session.connection_id]
        self._in_slices(session.end())

    def _make_room(self, partitions: int, now_ms: int) -> bool:
        slots, most = self._slots(), self._most_partitions()
        if partitions > most:
            return False
        while self._sessions and (len(self._sessions) >= slots or self.partitions + partitions > most):
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.last_used_ms <= self._eviction_ms():
                return False
            self._drop(oldest.session_id)
        return slots > 0


def _partitions_of(request: FetchRequest, by_topic_id: bool) -> Iterator[tuple[PartitionKey, Wanted]]:
    """What a request asks for."""
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_topic_id else topic.topic
        for requested in topic.partitions:
            yield (name, requested.partition), Wanted(topic.topic, topic.topic_id, requested)


def _changes(session: Session, request: FetchRequest, requested: dict[PartitionKey, Wanted]) -> Iterator[None]:
    """Make the changes that a request brings to its session, one at a time."""
    for key, wanted in requested.items():
        session.change(key, wanted)
        yield
    for topic in request.forgotten_topics_data:
        name: str | bytes = topic.topic_id if session.by_topic_id else topic.topic
        for index in topic.partitions:
            session.forget((name, index))
            yield
        yield

"""Fetch sessions (KIP-227): a consumer says once what it reads, afterwards only what has changed.

The broker keeps per session what the client requested of each partition and what it was last sent, and leaves out of an
answer whatever the client knows already. Sessions live in a cache that is bounded in number and in partitions of all
sessions together; a client without a place gets id 0 and asks in full each time. A session ends with the connection
that used it last: a client that connects anew asks in full, as Kafka's clients do. Partitions that had records go to
the end, so that those behind them get their turn.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest
from storage.steps import Spent, Steps, finish, never

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_SINCE = 13

PartitionKey = tuple[str | bytes, int]
"""(topic id, index) from version 13 on, (topic name, index) below."""


class Wanted:
    """One partition of a fetch: what is requested, and what the client of a session was last sent."""

    __slots__ = (
        "fetch_offset", "index", "last_fetched_epoch", "leader_epoch", "max_bytes", "told_high_watermark",
        "told_start_offset", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, requested: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = requested.partition
        self.told_high_watermark = -1
        self.told_start_offset = -1
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def take_from(self, requested: "Wanted") -> None:
        """The request changes what is read of it."""
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.max_bytes
        self.leader_epoch = requested.leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def knows(self, *, high_watermark: int, start_offset: int) -> bool:
        """Whether the client knows exactly this already."""
        return self.told_high_watermark == high_watermark and self.told_start_offset == start_offset

    def tell(self, *, high_watermark: int, start_offset: int) -> None:
        self.told_high_watermark = high_watermark
        self.told_start_offset = start_offset

    def tell_error(self) -> None:
        """After an error everything is sent anew once it is over."""
        self.told_high_watermark = -1


class Session:
    """What one client reads."""

    __slots__ = (
        "by_topic_id", "connection_id", "counted", "epoch", "last_used_ms", "principal", "session_id", "wanted",
    )  # fmt: skip

    def __init__(self, session_id: int, *, connection_id: int, principal: str, by_topic_id: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.connection_id = connection_id
        self.principal = principal
        self.by_topic_id = by_topic_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.wanted: dict[PartitionKey, Wanted] = {}
        self.counted = 0
        """How many of them are counted among those of all sessions."""

    def had_records(self, wanted: Wanted) -> None:
        key = (wanted.topic_id if self.by_topic_id else wanted.topic, wanted.index)
        known = self.wanted.pop(key, None)
        if known is not None:  # it may have been forgotten while the fetch waited
            self.wanted[key] = known


@dataclass(slots=True)
class FetchView:
    """What a request asks for, with its session resolved. `incremental`: leave out what the client knows."""

    wanted: list[Wanted]
    session: Session | None = None
    incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """The cache. `draw_id` draws a random positive int32; `slots` and `eviction_ms` are read at each use."""

    def __init__(
        self,
        *,
        draw_id: Callable[[], int],
        slots: Callable[[], int],
        eviction_ms: Callable[[], int],
        most_partitions: Callable[[], int] = lambda: 1 << 31,
    ) -> None:
        self._draw_id = draw_id
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._most_partitions = most_partitions
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
            if spent():
                yield None
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if self._of(principal, request.session_id) is not None:
                self._drop(request.session_id)
            session = None
            if request.session_epoch == FIRST_EPOCH and self._make_room(len(requested), now_ms):
                session = self._create(connection_id, principal, by_topic_id=by_topic_id, now_ms=now_ms)
                session.wanted = requested
                self._count(session)
            return FetchView(list(requested.values()), session)
        found = self._find(request, by_topic_id, principal)
        if isinstance(found, ErrorCode):
            return FetchView([], error=found)
        self._move_on(found, connection_id, now_ms)
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
        return FetchView(list(session.wanted.values()), session, incremental=True)

    def _count(self, session: Session) -> None:
        self.partitions += len(session.wanted) - session.counted
        session.counted = len(session.wanted)

    def _create(self, connection_id: int, principal: str, *, by_topic_id: bool, now_ms: int) -> Session:
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._draw_id()
        session = Session(
            session_id, connection_id=connection_id, principal=principal, by_topic_id=by_topic_id, now_ms=now_ms
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
        known = session.wanted.setdefault(key, wanted)
        if known is not wanted:
            known.take_from(wanted)
        yield
    for topic in request.forgotten_topics_data:
        name: str | bytes = topic.topic_id if session.by_topic_id else topic.topic
        for index in topic.partitions:
            session.wanted.pop((name, index), None)
            yield
        yield

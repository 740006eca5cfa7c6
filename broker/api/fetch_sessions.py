"""Fetch sessions (KIP-227): a consumer says once what it reads, afterwards only what has changed.

The broker keeps per session what the client asked of each partition and what it was last told, and leaves out of an
answer whatever the client knows already. Sessions live in a bounded cache; a client without a place gets id 0 and
asks in full each time. Partitions that had records go to the end, so that those behind them get their turn.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_SINCE = 13

PartitionKey = tuple[str | bytes, int]
"""(topic id, index) from version 13 on, (topic name, index) below."""


class Wanted:
    """One partition of a fetch: what is asked, and what a session's client was last told."""

    __slots__ = (
        "fetch_offset", "index", "last_fetched_epoch", "leader_epoch", "max_bytes", "told_high_watermark",
        "told_start_offset", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = asked.partition
        self.told_high_watermark = -1
        self.told_start_offset = -1
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def knows(self, *, high_watermark: int, start_offset: int) -> bool:
        """Whether the client was told exactly this already."""
        return self.told_high_watermark == high_watermark and self.told_start_offset == start_offset

    def tell(self, *, high_watermark: int, start_offset: int) -> None:
        self.told_high_watermark = high_watermark
        self.told_start_offset = start_offset

    def tell_error(self) -> None:
        """After an error everything is told anew once it is over."""
        self.told_high_watermark = -1


class Session:
    """What one client reads."""

    __slots__ = ("by_topic_id", "epoch", "last_used_ms", "session_id", "wanted")

    def __init__(self, session_id: int, *, by_topic_id: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.wanted: OrderedDict[PartitionKey, Wanted] = OrderedDict()

    def had_records(self, wanted: Wanted) -> None:
        self.wanted.move_to_end((wanted.topic_id if self.by_topic_id else wanted.topic, wanted.index))


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

    def __init__(self, *, draw_id: Callable[[], int], slots: Callable[[], int], eviction_ms: Callable[[], int]) -> None:
        self._draw_id = draw_id
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def view(self, request: FetchRequest, version: int, now_ms: int) -> FetchView:
        """Resolve the session of a request, and move it on."""
        by_topic_id = version >= TOPIC_IDS_SINCE
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            asked = _asked(request, by_topic_id)
            session = None
            if request.session_epoch == FIRST_EPOCH:
                session = self._create(asked, by_topic_id=by_topic_id, now_ms=now_ms)
            return FetchView(list(asked.values()), session)
        return self._continue(request, by_topic_id=by_topic_id, now_ms=now_ms)

    def _continue(self, request: FetchRequest, *, by_topic_id: bool, now_ms: int) -> FetchView:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchView([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchView([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            return FetchView([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        _update(session, request, by_topic_id)
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        if not session.wanted:
            del self._sessions[session.session_id]
            return FetchView([])
        session.epoch = 1 if session.epoch == 0x7FFFFFFF else session.epoch + 1
        return FetchView(list(session.wanted.values()), session, incremental=True)

    def _create(self, wanted: dict[PartitionKey, Wanted], *, by_topic_id: bool, now_ms: int) -> Session | None:
        if not self._make_room(now_ms):
            return None
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._draw_id()
        session = Session(session_id, by_topic_id=by_topic_id, now_ms=now_ms)
        session.wanted.update(wanted)
        self._sessions[session_id] = session
        return session

    def _make_room(self, now_ms: int) -> bool:
        slots = self._slots()
        while self._sessions and len(self._sessions) >= slots:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.last_used_ms <= self._eviction_ms():
                return False
            del self._sessions[oldest.session_id]
        return slots > 0


def _keyed(request: FetchRequest, by_topic_id: bool) -> Iterable[tuple[PartitionKey, str, bytes, FetchPartition]]:
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_topic_id else topic.topic
        for asked in topic.partitions:
            yield (name, asked.partition), topic.topic, topic.topic_id, asked


def _asked(request: FetchRequest, by_topic_id: bool) -> dict[PartitionKey, Wanted]:
    return {key: Wanted(name, topic_id, asked) for key, name, topic_id, asked in _keyed(request, by_topic_id)}


def _update(session: Session, request: FetchRequest, by_topic_id: bool) -> None:
    for key, name, topic_id, asked in _keyed(request, by_topic_id):
        known = session.wanted.get(key)
        if known is None:
            session.wanted[key] = Wanted(name, topic_id, asked)
        else:
            known.ask(asked)
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            session.wanted.pop((topic.topic_id if by_topic_id else topic.topic, index), None)

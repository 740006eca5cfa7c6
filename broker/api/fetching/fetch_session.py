"""One fetch session (KIP-227): what its client reads, what it was last sent, and what of that may have changed.

A consumer of five thousand partitions, of which one is written to, is to cost what one does. So a session watches the
partitions that its fetches have looked at, and a fetch looks at those that are *due*: requested anew, moved since, told
of an error, or with more to send than there was room for. The rest have nothing new and are not looked at.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from protocol.messages.fetch import FetchPartition

PartitionKey = tuple[str | bytes, int]
"""(topic id, index) from version 13 on, (topic name, index) below."""

FEW: Final = 16
"""Up to one of so many that are due are sorted by themselves; of more, all are passed over in their order."""


class Followed(Protocol):
    """A partition, as far as a session is concerned: it calls back when there may be something new."""

    def watch(self, callback: Callable[[], None], /) -> None: ...

    def unwatch(self, callback: Callable[[], None], /) -> None: ...


class Wanted:
    """One partition of a fetch: what is requested, and what the client of a session was last sent. `order`: a smaller
    one is looked at before. It is its own watcher of the partition that it follows."""

    __slots__ = (
        "fetch_offset", "followed", "index", "last_fetched_epoch", "leader_epoch", "max_bytes", "order", "session",
        "told_high_watermark", "told_start_offset", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, requested: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = requested.partition
        self.order = 0
        self.told_high_watermark = -1
        self.told_start_offset = -1
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        self.session: Session | None = None
        self.followed: Followed | None = None

    def __call__(self) -> None:
        if self.session is not None:
            self.session.moved(self)

    def follow(self, session: "Session", partition: Followed) -> None:
        self.let_go()
        self.session, self.followed = session, partition
        partition.watch(self)

    def let_go(self) -> None:
        if self.followed is not None:
            self.followed.unwatch(self)
            self.followed = self.session = None

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
    """What one client reads. Fetches that wait watch it, as they would a partition."""

    __slots__ = (
        "_due", "_isolation_level", "_last_order", "_rights", "_watchers", "by_topic_id", "connection_id", "counted",
        "ended", "epoch", "last_used_ms", "principal", "session_id", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        wanted: dict[PartitionKey, Wanted],
        *,
        connection_id: int,
        principal: str,
        by_topic_id: bool,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.connection_id = connection_id
        self.principal = principal
        self.by_topic_id = by_topic_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.wanted = wanted
        """In the order in which they are looked at, which is that of `Wanted.order`."""
        self.counted = 0
        """How many of them are counted among those of all sessions."""
        self.ended = False
        self._last_order = len(wanted)
        self._due: dict[Wanted, None] | None = None  # all
        self._isolation_level = -1
        self._rights: object = None
        self._watchers: dict[Callable[[], None], None] = {}

    # ------------------------------------------------------------------ what is due

    def due(self) -> list[Wanted]:
        """What may have something new, in the order in which it is looked at."""
        if self._due is None:
            self._due = dict.fromkeys(self.wanted.values())
        due = self._due
        if len(due) == len(self.wanted):
            return self.all()
        if len(due) * FEW <= len(self.wanted):
            return sorted(due, key=_order)
        return [wanted for wanted in self.wanted.values() if wanted in due]

    def all(self) -> list[Wanted]:
        """The same of everything."""
        return list(self.wanted.values())

    @property
    def due_count(self) -> int:
        return len(self.wanted if self._due is None else self._due)

    def reads(self, isolation_level: int) -> None:
        """The request that goes on with it reads with this level; with another than before everything is due."""
        if isolation_level != self._isolation_level:
            self._isolation_level, self._due = isolation_level, None

    def has_rights(self, rights: object) -> None:
        """Of who goes on with it, equal as long as they are the same; with others than before everything is due."""
        if rights != self._rights:
            self._rights, self._due = rights, None

    def rest(self, wanted: Wanted, isolation_level: int) -> None:
        """There is nothing new for a reader of this level: it is not due until it moves."""
        if self._due is not None and isolation_level == self._isolation_level:
            self._due.pop(wanted, None)

    def look(self, wanted: Wanted) -> None:
        """It is due, whatever was thought of it."""
        if self._due is not None and self._has(wanted):
            self._due[wanted] = None

    def follow(self, wanted: Wanted, partition: Followed) -> None:
        """From now on what moves there is due."""
        if wanted.followed is not partition and self._has(wanted):
            wanted.follow(self, partition)

    def moved(self, wanted: Wanted) -> None:
        """Its partition has moved: it is due, and who waits is to look."""
        if self._due is not None:
            self._due[wanted] = None
        for watcher in list(self._watchers):
            watcher()

    def had_records(self, wanted: Wanted) -> None:
        """It goes behind the others, so that they get their turn."""
        if self._has(wanted):  # it may have been forgotten while the fetch waited
            key = self._key(wanted)
            del self.wanted[key]
            self.wanted[key] = wanted
            wanted.order = self._next_order()

    # ------------------------------------------------------------------ what is wanted

    def change(self, key: PartitionKey, wanted: Wanted) -> None:
        """A request wants this of a partition."""
        known = self.wanted.setdefault(key, wanted)
        if known is wanted:
            wanted.order = self._next_order()
        else:
            known.take_from(wanted)
        if self._due is not None:
            self._due[known] = None

    def forget(self, key: PartitionKey) -> None:
        known = self.wanted.pop(key, None)
        if known is not None:
            known.let_go()
            if self._due is not None:
                self._due.pop(known, None)

    def end(self) -> Iterator[None]:
        """It will not be asked again. What it followed is let go of in steps."""
        self.ended = True
        return _let_go(self.wanted.values())

    def _has(self, wanted: Wanted) -> bool:
        return not self.ended and self.wanted.get(self._key(wanted)) is wanted

    def _key(self, wanted: Wanted) -> PartitionKey:
        return (wanted.topic_id if self.by_topic_id else wanted.topic, wanted.index)

    def _next_order(self) -> int:
        self._last_order += 1
        return self._last_order

    # ------------------------------------------------------------------ for fetches that wait

    def watch(self, callback: Callable[[], None]) -> None:
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)


def _order(wanted: Wanted) -> int:
    return wanted.order


def _let_go(wanted: Iterable[Wanted]) -> Iterator[None]:
    for one in wanted:
        one.let_go()
        yield

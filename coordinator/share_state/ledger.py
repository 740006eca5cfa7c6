"""What the log says of every share partition of one partition of `__share_group_state`. Changes in `replay` only."""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.machine import OperationRefused, ReplayedMarker, ReplayedRecord, UnreadableValue
from coordinator.share_state.kept import UPDATE, Kept, ShareKey, key_of, read_snapshot, read_update
from protocol.codec import read_version
from protocol.errors import ErrorCode, ProtocolError


class ShareLedger:
    """See the head of this file."""

    def __init__(self) -> None:
        self.kept: dict[ShareKey, Kept] = {}
        self.unreadable: dict[ShareKey, int] = {}
        """Those of which a record cannot be read, and its offset: nothing is known until the next snapshot."""
        self._snapshots: dict[ShareKey, int] = {}
        """Where the last snapshot of each is, the oldest first."""
        self._of_topic: dict[bytes, dict[ShareKey, None]] = {}
        self.written_ms = 0
        """When somebody last wrote anything; that a cold partition got a new snapshot does not count."""

    def find(self, key: ShareKey) -> Kept | None:
        """What is kept. Raises `OperationRefused` where it cannot be read."""
        if self.unreadable and key in self.unreadable:
            raise OperationRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.kept.get(key)

    def knows(self, key: ShareKey) -> bool:
        """Whether anything is kept of it, readable or not."""
        return key in self._snapshots

    def of_topic(self, topic_id: bytes) -> Iterable[ShareKey]:
        """The share partitions of a topic of which anything is kept."""
        return self._of_topic.get(topic_id, ())

    @property
    def needed_from(self) -> int | None:
        """The offset of the oldest snapshot that counts; None where nothing is kept."""
        return next(iter(self._snapshots.values()), None)

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        """Take in what the log says. Raises `UnreadableValue`, and `ProtocolError` for a key that cannot be read."""
        if isinstance(entry, ReplayedMarker):
            return
        key = key_of(entry.key)
        if key is None:
            return
        try:
            self._follow(key, entry)
        except ProtocolError as error:
            self._drop(key)
            self._add(key, entry.offset)  # not to be deleted: somebody may yet read it
            self.unreadable[key] = entry.offset
            raise UnreadableValue(f"{key}: {error}") from error

    def _follow(self, key: ShareKey, entry: ReplayedRecord) -> None:
        if read_version(entry.key) == UPDATE:
            before = self.kept.get(key)
            if before is not None and entry.value is not None:
                # Without its snapshot an update is what a deletion of the log's beginning has left of older ones.
                self.kept[key] = replace(before.after(read_update(entry.value)), write_ms=entry.timestamp_ms)
                self.written_ms = entry.timestamp_ms
            return
        kept = None if entry.value is None else read_snapshot(entry.value)
        self._drop(key)
        if kept is not None:
            self.kept[key] = kept
            self._add(key, entry.offset)
            if kept.create_ms == kept.write_ms:
                self.written_ms = entry.timestamp_ms

    def _add(self, key: ShareKey, offset: int) -> None:
        self._snapshots[key] = offset
        self._of_topic.setdefault(key.topic_id, {})[key] = None

    def _drop(self, key: ShareKey) -> None:
        self.kept.pop(key, None)
        self.unreadable.pop(key, None)
        if self._snapshots.pop(key, None) is not None:
            of_topic = self._of_topic[key.topic_id]
            del of_topic[key]
            if not of_topic:
                del self._of_topic[key.topic_id]

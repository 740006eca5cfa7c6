"""The offsets of groups: committed, and staged in transactions that are still open.

Rule 1. A record of a plain batch is committed at once; one of a transactional batch is staged under its producer id
        until the marker decides (KIP-98). Markers name the producer, not the group.
Rule 2. Of two commits of one partition the one later in the log wins, whenever its transaction ends. So every entry
        knows the offset of its record, and live, reload and compaction agree (I39).
Rule 3. A tombstone removes what is committed and whatever any transaction has staged (I40).
Rule 4. A marker with nothing staged is a no-op: markers come more than once (I42).

Everything here changes in `replay` and `end_transaction` only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from sys import intern

from coordinator.groups.held import OFFSET_BYTES, Held, text_bytes
from coordinator.groups.records import OffsetCommitValue

Partition = tuple[str, int]
"""Topic name and partition index."""
NO_TOPIC_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """One commit, as in its record."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int

    @classmethod
    def of(cls, value: OffsetCommitValue, record_offset: int) -> "StoredOffset":
        """What a record says."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            bytes(value.topic_id),
            record_offset,
        )

    @property
    def held_bytes(self) -> int:
        return OFFSET_BYTES + text_bytes(self.metadata)

    def is_of(self, topic_id: bytes) -> bool:
        """Whether it was committed for this topic and not for an earlier one of the same name."""
        return NO_TOPIC_ID in (self.topic_id, topic_id) or self.topic_id == topic_id


class UnreadableOffset(StoredOffset):
    """A commit whose record says something that cannot be read: of its partition nothing older may be returned. It is
    superseded, removed and expires (by the time of its record) as any other."""

    __slots__ = ()

    def __init__(self, timestamp_ms: int, record_offset: int) -> None:
        super().__init__(-1, -1, "", timestamp_ms, -1, NO_TOPIC_ID, record_offset)


OffsetsOfGroup = dict[Partition, StoredOffset]


class OffsetStore:
    """All offsets of one shard."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.committed: dict[str, OffsetsOfGroup] = {}
        self.staged: dict[int, dict[str, OffsetsOfGroup]] = {}
        """Producer id → group → what its open transaction would commit."""
        self._producers: dict[str, dict[Partition, dict[int, None]]] = {}
        """Group → partition → producers that have something staged for it."""

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        """What is committed."""
        return self.committed.get(group_id, {}).get((topic, partition))

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change the offset (I38)."""
        return (topic, partition) in self._producers.get(group_id, ())

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether anything at all is staged for the group."""
        return group_id in self._producers

    def partitions_of(self, group_id: str) -> Iterator[Partition]:
        """Every partition with a committed or staged offset, once."""
        committed = self.committed.get(group_id, {})
        yield from committed
        for partition in self._producers.get(group_id, ()):
            if partition not in committed:
                yield partition

    def groups(self) -> Iterator[str]:
        """Every group with a committed or staged offset, once."""
        yield from self.committed
        for group_id in self._producers:
            if group_id not in self.committed:
                yield group_id

    def topic_ids_of(self, group_id: str, partition: Partition) -> Iterator[bytes]:
        """The topics that the committed and staged offsets of a partition were meant for."""
        committed = self.committed.get(group_id, {}).get(partition)
        if committed is not None:
            yield committed.topic_id
        for producer_id in self._producers.get(group_id, {}).get(partition, ()):
            yield self.staged[producer_id][group_id][partition].topic_id

    # -- what the log says -----------------------------------------------------------------------------------

    def replay(
        self, group_id: str, topic: str, partition: int, stored: StoredOffset | None, *, producer_id: int | None
    ) -> None:
        """Take in one offset record; None is a tombstone."""
        key = (intern(topic), partition)
        if stored is None:
            self._forget(group_id, key)
        elif producer_id is None:
            self._put(self.committed.setdefault(group_id, {}), key, stored)
        else:
            self._put(self.staged.setdefault(producer_id, {}).setdefault(group_id, {}), key, stored)
            self._producers.setdefault(group_id, {}).setdefault(key, {})[producer_id] = None

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Take in a marker: what the producer staged becomes committed, or is forgotten."""
        for group_id, offsets in self.staged.pop(producer_id, {}).items():
            for key, stored in offsets.items():
                self._unlink(group_id, key, producer_id)
                self._held.add(-stored.held_bytes)
                if commit:
                    self._commit_if_newer(group_id, key, stored)

    def _commit_if_newer(self, group_id: str, key: Partition, stored: StoredOffset) -> None:
        committed = self.committed.setdefault(group_id, {})
        present = committed.get(key)
        if present is None or stored.record_offset > present.record_offset:
            self._put(committed, key, stored)

    def _put(self, offsets: OffsetsOfGroup, key: Partition, stored: StoredOffset) -> None:
        before = offsets.get(key)
        offsets[key] = stored
        self._held.add(stored.held_bytes - (0 if before is None else before.held_bytes))

    def _take(self, offsets: OffsetsOfGroup, key: Partition) -> None:
        before = offsets.pop(key, None)
        if before is not None:
            self._held.add(-before.held_bytes)

    def _forget(self, group_id: str, key: Partition) -> None:
        committed = self.committed.get(group_id)
        if committed is not None:
            self._take(committed, key)
            if not committed:
                del self.committed[group_id]
        for producer_id in list(self._producers.get(group_id, {}).get(key, ())):
            self._unlink(group_id, key, producer_id)
            by_group = self.staged[producer_id]
            self._take(by_group[group_id], key)
            if not by_group[group_id]:
                del by_group[group_id]
            if not by_group:
                del self.staged[producer_id]

    def _unlink(self, group_id: str, key: Partition, producer_id: int) -> None:
        by_partition = self._producers[group_id]
        del by_partition[key][producer_id]
        if not by_partition[key]:
            del by_partition[key]
        if not by_partition:
            del self._producers[group_id]

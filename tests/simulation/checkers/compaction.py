"""Of every key the last committed record stays, and what it superseded does not come back."""

from collections.abc import Iterator

from tests.simulation.history import History, Place, Write

ANYWHERE = 1 << 62


class Keys:
    """Of a compacted partition: where each key is shown at the end, and up to where it may have been deleted."""

    def __init__(self, history: History, place: Place) -> None:
        self.shown: dict[bytes, list[int]] = {}
        self.deleted_to: dict[bytes, int] = {}
        for offset, number in history.final[place].committed:
            key = history.writes[number].key
            if key is not None:
                self.shown.setdefault(key, []).append(offset)
        for write in history.writes:
            if write.place == place and write.tombstone and write.key is not None and _perhaps_committed(write):
                offset = ANYWHERE if write.offset is None else write.offset
                self.deleted_to[write.key] = max(self.deleted_to.get(write.key, -1), offset)

    def may_be_gone(self, write: Write) -> bool:
        """Whether compaction may have taken a record."""
        if write.tombstone or write.offset is None or write.key is None:
            return True
        later = any(offset > write.offset for offset in self.shown.get(write.key, ()))
        return later or self.deleted_to.get(write.key, -1) > write.offset


def keys_of(history: History) -> dict[Place, Keys]:
    """Of all compacted partitions."""
    return {place: Keys(history, place) for place in history.final if place[0] in history.compacted}


def compacted_away(history: History) -> Iterator[str]:
    """Behind each record that was surely committed stands, at its place or later, one of the same key; a tombstone may
    be gone itself, but then with all before it."""
    keys = keys_of(history)
    for write in history.writes:
        found = keys.get(write.place)
        if found is None or write.offset is None or write.key is None or not _surely_committed(write):
            continue
        offsets = found.shown.get(write.key, [])
        if write.offset < history.final[write.place].log_start_offset or any(it >= write.offset for it in offsets):
            continue
        where = f"{write.place}@{write.offset}"
        if found.deleted_to.get(write.key, -1) < write.offset:
            yield f"record {write.number} is gone from {where}, and nothing of {write.key!r} is behind it"
        elif write.tombstone and offsets:
            yield f"{write.key!r} was deleted at {where}; the tombstone is gone, and the key is still at {offsets}"


def _surely_committed(write: Write) -> bool:
    return write.acked and (write.transaction is None or write.transaction.outcome is True)


def _perhaps_committed(write: Write) -> bool:
    transaction = write.transaction
    return transaction is None or (transaction.outcome is not False and transaction.decision is True)

"""The entries of a million producers at one moment, without a copy of them.

While a snapshot is written, the dictionary of the entries stays as it is, for a thread to read; what changes meanwhile
is kept beside it and merged when the snapshot is done. A copy would hold the loop for a fifth of a second.
"""

from collections.abc import Iterator, MutableMapping


class ChangesBeside(MutableMapping[int, bytes]):
    """The entries as they are now: `frozen`, which is never changed, and the changes since."""

    __slots__ = ("_changed", "frozen")

    def __init__(self, frozen: dict[int, bytes]) -> None:
        self.frozen = frozen
        self._changed: dict[int, bytes | None] = {}
        """None: forgotten since."""

    def __getitem__(self, producer_id: int) -> bytes:
        packed = self._changed[producer_id] if producer_id in self._changed else self.frozen[producer_id]
        if packed is None:
            raise KeyError(producer_id)
        return packed

    def __setitem__(self, producer_id: int, packed: bytes) -> None:
        self._changed[producer_id] = packed

    def __delitem__(self, producer_id: int) -> None:
        _ = self[producer_id]
        self._changed[producer_id] = None

    def __iter__(self) -> Iterator[int]:
        for producer_id in self.frozen:
            if self._changed.get(producer_id, b"") is not None:
                yield producer_id
        for producer_id, packed in self._changed.items():
            if packed is not None and producer_id not in self.frozen:
                yield producer_id

    def ids(self) -> list[int]:
        """Every producer, and some that were forgotten since: nobody is kept waiting while each is looked at."""
        return [*self.frozen, *(changed for changed in self._changed if changed not in self.frozen)]

    def __len__(self) -> int:
        changes = self._changed.items()
        return len(self.frozen) + sum((packed is not None) - (changed in self.frozen) for changed, packed in changes)

    def merged(self) -> dict[int, bytes]:
        """`frozen` with all changes made in it. It is not read elsewhere any more."""
        entries = self.frozen
        for producer_id, packed in self._changed.items():
            if packed is not None:
                entries[producer_id] = packed
            else:
                entries.pop(producer_id, None)
        return entries


PackedEntries = dict[int, bytes] | ChangesBeside

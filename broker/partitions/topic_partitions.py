"""The partitions of one topic as this node has them, each from when its log is open."""

from collections.abc import Callable, Iterator
from typing import overload

from broker.partitions.partition import Partition


class Partitions:
    """The partitions of one topic, in order. In the place of one whose log is not open yet, or which another node
    leads, stands one that refuses everything, made by `closed_one`."""

    def __init__(self, closed_one: Callable[[int], Partition]) -> None:
        self._closed_one = closed_one
        self._slots: list[Partition | None] = []
        self._deleted = False
        self._elsewhere: set[int] = set()
        """Those that other nodes lead, or nobody does."""
        self._open_until = 0
        """All before this one are open, or elsewhere."""

    def __len__(self) -> int:
        return len(self._slots)

    @overload
    def __getitem__(self, index: int) -> Partition: ...
    @overload
    def __getitem__(self, index: slice) -> list[Partition]: ...
    def __getitem__(self, index: int | slice) -> Partition | list[Partition]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self._slots)))]
        partition = self._slots[index]
        if partition is None:
            partition = self._closed_one(index % len(self._slots))
            partition.discarded = self._deleted
        return partition

    def __iter__(self) -> Iterator[Partition]:
        for index in range(len(self._slots)):
            yield self[index]

    def put(self, index: int, partition: Partition) -> None:
        """It is open now, or its log turned out to be damaged."""
        assert self._slots[index] is None, "a log is opened once"
        self._slots[index] = partition

    def forget(self, index: int) -> None:
        """The topic was deleted, and nobody needs this one any more: it is as if it had never been opened."""
        self._deleted = True
        self._slots[index] = None
        self._open_until = min(self._open_until, index)

    def is_closed(self, index: int) -> bool:
        """Whether there is such a partition here, and its log is not open yet."""
        return 0 <= index < len(self._slots) and self._slots[index] is None and index not in self._elsewhere

    def here(self, index: int) -> Partition | None:
        """The one that is open here, or damaged."""
        return self._slots[index]

    def leave(self, index: int) -> Partition | None:
        """Another node leads it from now on. Returns what was open here."""
        left, self._slots[index] = self._slots[index], None
        self._elsewhere.add(index)
        return left

    def come(self, index: int) -> None:
        """It is to be opened here from now on."""
        self._elsewhere.discard(index)
        self._open_until = min(self._open_until, index)

    def elsewhere(self) -> list[int]:
        """Those that other nodes lead, or nobody does."""
        return sorted(self._elsewhere)

    def opened(self) -> list[Partition]:
        """Those that are open already, with a log that can be used."""
        return [partition for partition in self._slots if partition is not None and partition.offline is None]

    def present(self) -> list[Partition]:
        """Those that are open, and those whose log is damaged: no other is in the place of one of them."""
        return [partition for partition in self._slots if partition is not None]

    def offline(self) -> list[Partition]:
        """Those whose log turned out to be damaged."""
        return [partition for partition in self._slots if partition is not None and partition.offline is not None]

    def first_closed(self) -> int | None:
        """The first that is to be open here and is not yet."""
        slots, index = self._slots, self._open_until
        while index < len(slots) and (slots[index] is not None or index in self._elsewhere):
            index += 1
        self._open_until = index
        return index if index < len(slots) else None

    def grow(self, count: int) -> None:
        """There are `count` partitions now. There are never fewer."""
        self._slots.extend([None] * (count - len(self._slots)))

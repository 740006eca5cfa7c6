"""Deadlines by key: when something is to happen next, and what is due.

A heap with lazy deletion: moving a deadline costs a push, the old entry is skipped when it surfaces. Until then it
holds two numbers and no key: clients choose parts of keys, and long ones. Every machine that owns deadlines answers
`Machine.next_deadline_ms` with one of these.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    """At most one deadline per key. Ties come out in the order in which they were set."""

    def __init__(self) -> None:
        self._at: dict[K, tuple[int, int]] = {}
        self._keys: dict[int, K] = {}
        """By sequence number, which is unique."""
        self._heap: list[tuple[int, int]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: K, at_ms: int) -> None:
        """Set or move the deadline of `key`."""
        known = self._at.get(key)
        if known is not None and known[0] == at_ms:
            return
        if known is not None:
            key = self._keys.pop(known[1])  # The one that `_at` holds, not another that is equal.
        self._sequence += 1
        self._at[key] = (at_ms, self._sequence)
        self._keys[self._sequence] = key
        heapq.heappush(self._heap, (at_ms, self._sequence))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._at):
            self._heap = list(self._at.values())
            heapq.heapify(self._heap)

    def clear(self, key: K) -> None:
        """Forget the deadline of `key`, if it has one."""
        known = self._at.pop(key, None)
        if known is not None:
            del self._keys[known[1]]

    def get(self, key: K) -> int | None:
        """The deadline of `key`."""
        known = self._at.get(key)
        return None if known is None else known[0]

    def keys(self) -> Iterator[K]:
        """All keys with a deadline, in the order in which they got their first."""
        return iter(self._at)

    def next_ms(self) -> int | None:
        """The earliest deadline, None where there is none."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[K]:
        """Keys whose deadline is not after `now_ms`, earliest first. Each is cleared as it is handed out."""
        while True:
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now_ms:
                return
            _, sequence = heapq.heappop(self._heap)
            key = self._keys.pop(sequence)
            del self._at[key]
            yield key

    def postpone(self, by_ms: int, concerns: Callable[[K], bool]) -> None:
        """Move all deadlines of the keys that this `concerns`; their order among each other stays."""
        self._at = {key: (at + by_ms * concerns(key), sequence) for key, (at, sequence) in self._at.items()}
        self._heap = list(self._at.values())
        heapq.heapify(self._heap)

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap and heap[0][1] not in self._keys:
            heapq.heappop(heap)

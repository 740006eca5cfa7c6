"""The newest offset of every key, for one pass of compaction."""

from hashlib import blake2b

from storage.steps import Spent, Steps

DIGEST_SIZE = 16
PARTS = 64
"""A dict that grows moves all that it has, and one that goes frees it all, in one call: tens of milliseconds for a
million keys."""


class KeyMap:
    """Keys of any length in bounded memory: long ones by a digest of 128 bits, which do not collide."""

    def __init__(self, max_keys: int) -> None:
        self._max_keys = max_keys
        self._parts: list[dict[bytes, int]] = [{} for _ in range(PARTS)]
        self._count = 0
        self.end_offset = 0
        """Everything from here on was not looked at: its records stay whatever their keys."""

    def __len__(self) -> int:
        return self._count

    @property
    def room(self) -> int:
        return self._max_keys - self._count

    def put(self, short: bytes, offset: int) -> None:
        """Takes `short_of` a key. Offsets come in ascending order: the last one stays."""
        part = self._part(short)
        before = len(part)
        part[short] = offset
        self._count += len(part) - before

    def get(self, key: bytes) -> int:
        """The newest offset, -1 for a key that was not seen."""
        short = short_of(key)
        return self._part(short).get(short, -1)

    def forget(self, spent: Spent) -> Steps[None]:
        """Free all keys: the pass is over."""
        for part in self._parts:
            self._count -= len(part)
            part.clear()
            if spent():
                yield None

    def _part(self, short: bytes) -> dict[bytes, int]:
        return self._parts[hash(short) >> 32 & PARTS - 1]  # the dict goes by the lower bits


def short_of(key: bytes) -> bytes:
    """What stands for a key. A digest is never mistaken for a short key: it is as long as only digests are."""
    return key if len(key) < DIGEST_SIZE else blake2b(key, digest_size=DIGEST_SIZE).digest()

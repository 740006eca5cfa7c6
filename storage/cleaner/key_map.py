"""The newest offset of every key, for one pass of compaction."""

from hashlib import blake2b

DIGEST_SIZE = 16


class KeyMap:
    """Keys of any length in bounded memory: long ones by a digest of 128 bits, which do not collide."""

    def __init__(self, max_keys: int) -> None:
        self._max_keys = max_keys
        self._offsets: dict[bytes, int] = {}
        self.end_offset = 0
        """Everything from here on was not looked at: its records stay whatever their keys."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def room(self) -> int:
        return self._max_keys - len(self._offsets)

    def put(self, short: bytes, offset: int) -> None:
        """Takes `short_of` a key. Offsets come in ascending order: the last one stays."""
        self._offsets[short] = offset

    def get(self, key: bytes) -> int:
        """The newest offset, -1 for a key that was not seen."""
        return self._offsets.get(short_of(key), -1)


def short_of(key: bytes) -> bytes:
    """What stands for a key. A digest is never mistaken for a short key: it is as long as only digests are."""
    return key if len(key) < DIGEST_SIZE else blake2b(key, digest_size=DIGEST_SIZE).digest()

"""How much memory the groups of a shard hold, counted in bytes as they change, and whether there is room for more.

An estimate, on the high side: texts and metadata as they are, everything around them by a fixed number for each group,
member, pending id and offset. Clients choose all of it (docs/decisions/0009).
"""

from collections.abc import Callable, Mapping

from coordinator.groups.settings import GroupSettings

LOGGED_GROUP_BYTES = 500
MEMBERSHIP_BYTES = 1_000
"""Of a group that was requested since the shard was loaded."""
LOGGED_MEMBER_BYTES = 500
MEMBER_BYTES = 1_000
"""With its deadline."""
PENDING_BYTES = 500
OFFSET_BYTES = 400


class Held:
    """The bytes that one shard holds, which are counted in the `total` of all shards of the node, too."""

    __slots__ = ("bytes", "total", "when_scarce")

    def __init__(self, total: "Held | None" = None) -> None:
        self.bytes = 0
        self.total = self if total is None else total
        self.when_scarce: Callable[[], None] = lambda: None
        """Of a total: called, however often, from within operations that find more than half of it used."""

    def add(self, change_bytes: int) -> None:
        """Something came, or went."""
        self.bytes += change_bytes
        if self.total is not self:
            self.total.bytes += change_bytes

    def let_go(self) -> None:
        """The machine was dropped, with all it held."""
        self.add(-self.bytes)


class Room:
    """Whether the shards of this node may hold more together."""

    def __init__(self, settings: GroupSettings, held: Held) -> None:
        self._settings = settings
        self._total = held.total

    def has(self, growth_bytes: int) -> bool:
        """What does not grow may always stay. Called when more than half is used, it starts a search for what is no
        longer needed."""
        most, wanted = self._settings.max_held_bytes, self._total.bytes + growth_bytes
        if 2 * wanted > most:
            self._total.when_scarce()
        return growth_bytes <= 0 or wanted <= most

    @property
    def is_scarce(self) -> bool:
        """Whether half of it is used. Before that, what one batch of the log brings is not looked at."""
        return 2 * self._total.bytes > self._settings.max_held_bytes


def text_bytes(*texts: str | None) -> int:
    """What texts take up in memory, beside their objects."""
    held = 0
    for text in texts:
        if text:
            held += len(text) if text.isascii() else 4 * len(text)
    return held


def protocols_bytes(protocols: Mapping[str, bytes]) -> int:
    """Names and metadata of the protocols that a member can speak."""
    return sum(100 + text_bytes(name) + len(metadata) for name, metadata in protocols.items())

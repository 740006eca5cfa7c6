"""A partition as Kafka's transactions make it: records and markers in one order, and a last stable offset."""

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class ModelTransaction:
    """What a broker knows of a transaction."""

    commit: bool | None = None
    """None: not decided."""
    unmarked: set[int] = field(default_factory=set)
    """Partitions that it wrote to and that have no marker of it yet."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Of its group; they come with the last marker."""


@dataclass(slots=True)
class ModelPartition:
    """See the head of this file. The index of an entry is its offset."""

    entries: list[tuple[int, ModelTransaction | None] | None] = field(default_factory=list)
    """(value, transaction); None for a marker."""
    open: dict[ModelTransaction, int] = field(default_factory=dict)
    """Where the transactions without a marker begin, the oldest first."""

    def append(self, value: int, transaction: ModelTransaction | None) -> int:
        """The offset."""
        offset = len(self.entries)
        self.entries.append((value, transaction))
        if transaction is not None:
            self.open.setdefault(transaction, offset)
        return offset

    def mark(self, transaction: ModelTransaction) -> None:
        self.entries.append(None)
        del self.open[transaction]

    @property
    def last_stable_offset(self) -> int:
        return next(iter(self.open.values()), len(self.entries))

    def read(self, position: int, limit: int) -> tuple[list[tuple[int, int]], int]:
        """(offset, value) of at most `limit` committed records from there, and the next position."""
        found: list[tuple[int, int]] = []
        end = self.last_stable_offset
        while position < end and len(found) < limit:
            entry = self.entries[position]
            if entry is not None and (entry[1] is None or entry[1].commit):
                found.append((position, entry[0]))
            position += 1
        return found, position

    def everything(self) -> list[tuple[int, int]]:
        """(offset, value), the aborted ones among them."""
        return [(offset, entry[0]) for offset, entry in enumerate(self.entries) if entry is not None]

"""What became of the transaction of a record: committed, aborted, or open when it was looked at. No I/O.

A marker ends all that its producer wrote before it in its partition. So the fate of a batch is that of the first
marker of its producer behind it; where none was seen, these bytes do not say it. Who reads on and on looks for it
further ahead (`reading_ahead`); who shows a page asks the broker (`tallystick.console.reading.colouring`).
"""

from bisect import bisect_right
from enum import Enum

from protocol.records.batch import BatchHeader, CorruptRecords, headers_in
from protocol.records.control import EndTransaction, read_end_transaction
from protocol.schema import Buffer


class Fate(Enum):
    """Of a record."""

    NONE = "-"
    """It was written in no transaction."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    ENDED = "ended"
    """Its transaction has ended, and how is in a marker that was not read."""
    CONTROL = "control"
    """It is a control record: it ends a transaction, and no consumer is shown it."""


class Markers:
    """Those that were seen of one partition, in its order. What became of batches is asked in that order, too: what
    lies before them is forgotten."""

    def __init__(self, *, with_unreadable: bool = False) -> None:
        """`with_unreadable`: a control batch that cannot be read ends a transaction in a way that is not known. Without
        it, it is `CorruptRecords`."""
        self.seen_to = -1
        """Markers before this offset are known."""
        self._with_unreadable = with_unreadable
        self._of: dict[int, list[tuple[int, Fate]]] = {}
        """By producer id: (offset, what it makes of the transaction)."""

    def see(self, data: Buffer) -> None:
        """Note the markers of fetched batches."""
        for position, header in headers_in(data):
            if header.base_offset < self.seen_to:
                continue
            self.seen_to = header.next_offset
            if header.is_control and (end := self._end(data, position)) is not None:
                self._of.setdefault(header.producer_id, []).append((header.base_offset, end))

    def _end(self, data: Buffer, position: int) -> Fate | None:
        try:
            ended = read_end_transaction(data, position)
        except CorruptRecords:
            if not self._with_unreadable:
                raise
            return Fate.ENDED
        return None if ended is None else Fate.COMMITTED if ended.commit else Fate.ABORTED

    def fate(self, header: BatchHeader) -> Fate | None:
        """Of a batch; None where its transaction has no end in what was seen."""
        if header.is_control:
            return Fate.CONTROL
        if not header.is_transactional:
            return Fate.NONE
        of = self._of.get(header.producer_id, [])
        del of[: bisect_right(of, header.last_offset, key=lambda marker: marker[0])]
        return of[0][1] if of else None


def marker_name(ended: EndTransaction | None) -> str:
    """As Kafka's tools call control records."""
    return "OTHER" if ended is None else "COMMIT" if ended.commit else "ABORT"
